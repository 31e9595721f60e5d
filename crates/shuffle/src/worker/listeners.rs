//! The listeners of a worker, which end together.

use tokio::task::JoinSet;

use crate::net::Serving;

/// What listens for a worker.
pub struct Listeners {
    pub control: Serving,
    pub push: Vec<Serving>,
    pub fetch: Serving,
    pub replicate: Serving,
    pub http: Option<Serving>,
}

impl Listeners {
    /// All but HTTP.
    pub fn all(&self) -> impl Iterator<Item = &Serving> {
        self.push.iter().chain([&self.control, &self.fetch, &self.replicate])
    }

    /// Ends every connection, and frees the ports.
    pub async fn close(self) {
        let Self { control, push, fetch, replicate, http } = self;
        let mut closing = JoinSet::new();
        for listener in push.into_iter().chain([control, fetch, replicate]) {
            closing.spawn(listener.stop());
        }
        if let Some(http) = http {
            closing.spawn(http.stop());
        }
        closing.join_all().await;
    }
}
