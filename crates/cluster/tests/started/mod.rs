//! A cluster in the process of a test.

use std::net::TcpListener;
use std::time::Duration;

use yeoul_cluster::{executor, scheduler};
use yeoul_sql::Options;

/// A scheduler with two executors, and the folder that they work in.
pub async fn cluster() -> (String, tempfile::TempDir) {
    let host = "127.0.0.1".to_owned();
    let server = scheduler::Server::bind(scheduler::Options { host: host.clone(), port: 0 }).await.unwrap();
    let address = server.address().to_string();
    tokio::spawn(server.serve());
    let work = tempfile::tempdir().unwrap();
    for number in 0..2 {
        let dir = work.path().join(number.to_string());
        std::fs::create_dir(&dir).unwrap();
        let options = executor::Options {
            scheduler: address.clone(),
            host: host.clone(),
            port: free_port(),
            control_port: free_port(),
            dir,
            process: Options { threads: Some(2), ..Options::default() },
        };
        tokio::spawn(executor::run(options));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    (address, work)
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
