//! Connections to other workers.
//!
//! Requests that may share a connection share it with those of their application only: a worker reads the frames of a
//! connection one after the other, so a frame that waits for memory there holds up those behind it, which must not be
//! another application's. A connection that is lent has one request at a time, whoever's.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::ids::ApplicationId;
use crate::net::Client;

/// The most idle connections, for one request at a time, that are kept for the next one.
const IDLE_MAX: usize = 64;

/// The connections to other workers.
#[derive(Default)]
pub struct Peers(Mutex<Table>);

#[derive(Default)]
struct Table {
    /// For any number of requests at the same time.
    shared: HashMap<ApplicationId, Client>,
    /// For one request at a time, and idle now: the one that was used last is the last.
    idle: Vec<Idle>,
}

/// A client with one connection.
struct Idle {
    address: Arc<str>,
    client: Client,
    since: Instant,
}

impl Peers {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connections of one application.
    pub fn of(&self, application: &ApplicationId) -> Client {
        let shared = &mut self.table().shared;
        match shared.get(application) {
            Some(client) => client.clone(),
            None => shared.entry(application.clone()).or_default().clone(),
        }
    }

    /// Whether an application has connections.
    #[cfg(test)]
    pub fn has(&self, application: &ApplicationId) -> bool {
        self.table().shared.contains_key(application)
    }

    /// A connection for a request to this address that must not share one.
    pub fn lend(&self, address: &str) -> Client {
        let idle = &mut self.table().idle;
        let at = idle.iter().rposition(|idle| *idle.address == *address);
        at.map(|at| idle.remove(at).client).unwrap_or_default()
    }

    /// Keeps a connection for the next request to its address, after its own was sent and answered.
    pub fn take_back(&self, address: Arc<str>, client: Client) {
        let idle = &mut self.table().idle;
        idle.push(Idle { address, client, since: Instant::now() });
        let oldest = (idle.len() > IDLE_MAX).then(|| idle.remove(0));
        drop(oldest);
    }

    /// Closes the connections of an application that has left, as soon as its last request is answered.
    pub fn forget(&self, application: &ApplicationId) {
        let client = self.table().shared.remove(application);
        drop(client); // outside the lock
    }

    /// Closes connections that carried nothing for so long. Otherwise each application would keep one to each worker, and
    /// a worker has only so many files.
    pub fn close_idle(&self, idle: Duration) {
        let (shared, closed): (Vec<_>, Vec<_>) = {
            let mut table = self.table();
            let closed = table.idle.extract_if(.., |one| one.since.elapsed() >= idle).collect();
            (table.shared.values().cloned().collect(), closed)
        };
        drop(closed);
        shared.iter().for_each(|client| client.close_idle(idle));
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::net::{Body, Listener, Options, Reply, Service, Serving};
    use crate::wire::{Head, Header, Limits};

    /// Answers, and what is not to be answered yet when it is released.
    #[derive(Default)]
    struct Echo(Mutex<Vec<Reply>>);

    impl Service for Echo {
        async fn call(&self, _head: Head, body: &mut Body<'_>, reply: Reply) -> std::io::Result<()> {
            match body.whole().await? {
                later if later == b"later"[..] => self.0.lock().unwrap().push(reply),
                body => reply.respond(body),
            }
            Ok(())
        }
    }

    async fn servers(count: usize, echo: &Arc<Echo>) -> Vec<Serving> {
        let mut servers = Vec::new();
        for _ in 0..count {
            let listener = Listener::bind("127.0.0.1:0", Options::new(Limits::CONTROL)).await.unwrap();
            servers.push(listener.serve(Arc::clone(echo)));
        }
        servers
    }

    async fn ask(client: &Client, address: &str, question: &'static [u8]) -> Bytes {
        let (header, within) = (Header::RpcRequest { request_id: 0 }, Duration::from_secs(20));
        client.request(address, header, Bytes::from_static(question), within).await.unwrap()
    }

    fn open(servers: &[Serving]) -> usize {
        servers.iter().map(|server| server.connections().get()).sum()
    }

    async fn until(what: impl Fn() -> bool) {
        let comes = async {
            while !what() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), comes).await.expect("it comes about");
    }

    #[tokio::test]
    async fn a_connection_that_is_lent_leads_to_one_worker_and_few_are_kept() {
        let (peers, servers) = (Peers::default(), servers(IDLE_MAX + 10, &Arc::default()).await);
        let addresses: Vec<Arc<str>> =
            servers.iter().map(|server| server.address().to_string().into()).collect();
        for _ in 0..3 {
            for address in &addresses {
                // Two at a time, of which the next ones use the last.
                let lent = [peers.lend(address), peers.lend(address)];
                for client in lent {
                    ask(&client, address, b"now").await;
                    peers.take_back(Arc::clone(address), client);
                }
            }
        }
        until(|| open(&servers) <= IDLE_MAX).await;
        let last = addresses.last().unwrap();
        let kept = |address: &str| peers.table().idle.iter().filter(|idle| *idle.address == *address).count();
        assert_eq!((kept(last), kept(&addresses[0])), (2, 0));
        ask(&peers.lend(last), last, b"now").await;
        assert_eq!(kept(last), 1, "it was lent again");
        peers.close_idle(Duration::ZERO);
        until(|| open(&servers) == 0).await;
    }

    #[tokio::test]
    async fn a_shared_connection_that_carries_nothing_is_closed() {
        let (peers, echo) = (Peers::default(), Arc::new(Echo::default()));
        let servers = servers(2, &echo).await;
        let [first, second] = [0, 1].map(|at: usize| servers[at].address().to_string());
        let shared = peers.of(&ApplicationId::from("app"));
        ask(&shared, &first, b"now").await;
        ask(&shared, &second, b"now").await;
        peers.close_idle(Duration::from_secs(60));
        assert_eq!(open(&servers), 2);
        peers.close_idle(Duration::ZERO);
        until(|| open(&servers) == 0).await;
        // Both are made again, and the one stays over which an answer is to come.
        ask(&shared, &first, b"now").await;
        let asking = tokio::spawn(async move { ask(&shared, &second, b"later").await });
        until(|| !echo.0.lock().unwrap().is_empty()).await;
        peers.close_idle(Duration::ZERO);
        until(|| open(&servers) == 1).await;
        echo.0.lock().unwrap().pop().unwrap().respond(Bytes::from_static(b"at last"));
        assert_eq!(asking.await.unwrap(), b"at last"[..]);
    }
}
