//! Connections to other workers, separate for each application: a worker reads the frames of a connection one after the
//! other, so a frame that waits for memory there holds up those behind it, which must not be another application's.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::ids::ApplicationId;
use crate::net::Client;

/// The most idle connections of an application, for one request at a time, that are kept for the next one.
const IDLE_MAX: usize = 16;

/// The connections to other workers.
#[derive(Default)]
pub struct Peers(Mutex<HashMap<ApplicationId, Clients>>);

#[derive(Default)]
struct Clients {
    /// For any number of requests at the same time.
    shared: Client,
    /// For one request at a time, and idle now.
    idle: Vec<Client>,
}

impl Peers {
    fn clients(&self) -> MutexGuard<'_, HashMap<ApplicationId, Clients>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connections of one application.
    pub fn of(&self, application: &ApplicationId) -> Client {
        let mut clients = self.clients();
        match clients.get(application) {
            Some(clients) => clients.shared.clone(),
            None => clients.entry(application.clone()).or_default().shared.clone(),
        }
    }

    /// Whether an application has connections.
    #[cfg(test)]
    pub fn has(&self, application: &ApplicationId) -> bool {
        self.clients().contains_key(application)
    }

    /// A connection for a request that must not share one.
    pub fn lend(&self, application: &ApplicationId) -> Client {
        let idle = self.clients().get_mut(application).and_then(|clients| clients.idle.pop());
        idle.unwrap_or_default()
    }

    /// Keeps a connection for the next request, after its own was answered.
    pub fn take_back(&self, application: &ApplicationId, client: Client) {
        let mut clients = self.clients();
        // It must not bring back an application that has left meanwhile.
        if let Some(Clients { idle, .. }) = clients.get_mut(application)
            && idle.len() < IDLE_MAX
        {
            idle.push(client);
        }
    }

    /// Closes the connections of an application that has left, as soon as its last request is answered.
    pub fn forget(&self, application: &ApplicationId) {
        let clients = self.clients().remove(application);
        drop(clients); // outside the lock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_kept_for_as_long_as_its_application_is_here() {
        let peers = Peers::default();
        let application = ApplicationId::from("app");
        let (_shared, lent) = (peers.of(&application), peers.lend(&application));
        peers.take_back(&application, lent);
        let lent = peers.lend(&application);
        assert!(peers.clients()[&application].idle.is_empty(), "it was lent again");
        peers.forget(&application);
        peers.take_back(&application, lent);
        assert!(peers.clients().is_empty());
    }
}
