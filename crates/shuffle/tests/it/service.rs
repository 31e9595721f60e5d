//! What the tests of our own client share: a master and workers in this process, and payloads.

use std::sync::Arc;
use std::time::{Duration, Instant};

use yeoul_shuffle::client::Options;
use yeoul_shuffle::ids::WorkerId;
use yeoul_shuffle::{master, worker};

/// A master and workers of which any may be killed, as our own client uses them.
pub struct Cluster {
    pub master: master::Handle,
    pub workers: Vec<Option<worker::Handle>>,
    pub places: Vec<tempfile::TempDir>,
}

impl Cluster {
    pub async fn start(workers: usize) -> Self {
        Self::start_with(workers, Duration::from_secs(1)).await
    }

    pub async fn start_with(workers: usize, stop_timeout: Duration) -> Self {
        Self::start_at(master::Options::embedded(), workers, stop_timeout).await
    }

    pub async fn start_at(options: master::Options, workers: usize, stop_timeout: Duration) -> Self {
        let master = master::Server::start(options).await.unwrap();
        let mut cluster = Self { master, workers: Vec::new(), places: Vec::new() };
        for at in 0..workers {
            cluster.places.push(tempfile::tempdir().unwrap());
            let options = cluster.worker_options(at, stop_timeout);
            cluster.workers.push(Some(worker::Server::start(options).await.unwrap()));
        }
        cluster.master.wait_for_workers(workers, Duration::from_secs(20)).await.unwrap();
        cluster
    }

    /// The client may know a worker by another of its ports for pushes.
    pub fn position(&self, id: &WorkerId) -> usize {
        let is_meant = |worker: &worker::Handle| worker.id().rpc_port == id.rpc_port;
        let at = self.workers.iter().position(|worker| worker.as_ref().is_some_and(is_meant));
        at.expect("a worker of this cluster")
    }

    /// Ends a worker without any goodbye, and waits until it is dead.
    pub async fn kill(&mut self, id: &WorkerId) {
        let at = self.position(id);
        let worker = self.workers[at].take().unwrap();
        let node = Arc::downgrade(worker.node());
        drop(worker);
        let deadline = Instant::now() + Duration::from_secs(20);
        while node.strong_count() > 0 {
            assert!(Instant::now() < deadline, "it goes on without its handle");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub fn worker_options(&self, at: usize, stop_timeout: Duration) -> worker::Options {
        worker::Options {
            memory_bytes: 256 << 20,
            stop_timeout,
            ..worker::Options::embedded([self.master.address().to_string()], self.places[at].path())
        }
    }

    pub fn options(&self) -> Options {
        Options {
            request_max: Duration::from_secs(5),
            retry_wait: Duration::from_millis(50),
            ..Options::new([self.master.address().to_string()])
        }
    }
}

/// Bytes that follow from their place alone, after a head that names it.
pub fn payload(map: i32, partition: i32, sequence: i32, len: usize) -> Vec<u8> {
    let mut state = (map as u64 + 1) << 40 ^ (partition as u64 + 1) << 20 ^ (sequence as u64 + 1);
    let step = |state: &mut u64| {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state as u8
    };
    let head = [map.to_be_bytes(), partition.to_be_bytes(), sequence.to_be_bytes()].concat();
    head.into_iter().chain((0..len).map(|_| step(&mut state))).collect()
}
