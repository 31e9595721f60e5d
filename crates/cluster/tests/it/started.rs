//! A cluster in the process of a test.

use std::net::TcpListener;
use std::time::Duration;

use yeoul_cluster::scheduler::{self, ShuffleOptions};
use yeoul_cluster::{Token, executor};
use yeoul_shuffle::{master, worker};
use yeoul_sql::Options;

/// A scheduler with two executors and a shuffle.
pub struct Started {
    pub scheduler: String,
    /// Addresses of the executors' ports.
    pub executors: Vec<String>,
    _work: tempfile::TempDir,
    _shuffle: (master::Handle, worker::Handle),
}

/// The cluster, with a token or without.
pub async fn cluster(token: Option<Token>) -> Started {
    let work = tempfile::tempdir().unwrap();
    let master = master::Server::start(master::Options::embedded()).await.unwrap();
    let masters = vec![master.address().to_string()];
    let worker = worker::Options::embedded(masters.clone(), work.path().join("shuffle"));
    let worker = worker::Server::start(worker).await.unwrap();
    master.wait_for_workers(1, Duration::from_secs(10)).await.unwrap();
    let host = "127.0.0.1".to_owned();
    let shuffle = Some(ShuffleOptions { masters, copies: 1, port: 0 });
    let options =
        scheduler::Options { host: host.clone(), port: 0, http_port: None, shuffle, token: token.clone() };
    let server = scheduler::Server::bind(options).await.unwrap();
    let address = server.address().to_string();
    tokio::spawn(server.serve());
    let mut executors = Vec::new();
    for number in 0..2 {
        let dir = work.path().join(number.to_string());
        std::fs::create_dir(&dir).unwrap();
        let (port, control_port) = (free_port(), free_port());
        executors.extend([port, control_port].map(|port| format!("{host}:{port}")));
        let options = executor::Options {
            scheduler: address.clone(),
            host: host.clone(),
            port,
            control_port,
            dir,
            process: Options { threads: Some(2), ..Options::default() },
            token: token.clone(),
        };
        tokio::spawn(executor::run(options));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    Started { scheduler: address, executors, _work: work, _shuffle: (master, worker) }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
