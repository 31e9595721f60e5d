//! Connections to other workers, each application's its own: a worker reads the frames of a connection one after the
//! other, so what waits for memory there holds up what is behind it, which must not be another application's.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::ids::ApplicationId;
use crate::net::Client;

/// The connections to other workers.
#[derive(Default)]
pub struct Peers(Mutex<HashMap<ApplicationId, Client>>);

impl Peers {
    fn clients(&self) -> MutexGuard<'_, HashMap<ApplicationId, Client>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connections of one application.
    pub fn of(&self, application: &ApplicationId) -> Client {
        let mut clients = self.clients();
        match clients.get(application) {
            Some(client) => client.clone(),
            None => clients.entry(application.clone()).or_default().clone(),
        }
    }

    /// Closes the connections of an application that has left, as soon as its last request is answered.
    pub fn forget(&self, application: &ApplicationId) {
        let client = self.clients().remove(application);
        drop(client); // outside the lock
    }
}
