//! The application's half of a client: it registers shuffles, makes their locations, knows which attempts have won, commits,
//! and answers executors.

pub(crate) mod commit;
pub(crate) mod fate;
mod named;
pub(super) mod names;
mod options;
pub(super) mod registered;
pub(crate) mod routes;
mod server;
mod session;
pub(super) mod shuffle;
pub(super) mod state;
mod used_numbers;

use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::JoinHandle;
use tracing::warn;

use self::named::Named;
use self::session::Session;
use crate::error::Result;
use crate::ids::{ApplicationId, ShuffleId};
use crate::net::Serving;
use crate::wire::{proto, received};

pub use options::Options;
pub use server::ServerOptions;
pub use shuffle::Shuffle;

/// A registered application. Shuffles hold it; the heartbeat ends with the last of them or with [`Application::stop`].
#[derive(Clone)]
pub struct Application {
    session: Arc<Session>,
    heartbeat: Arc<Heartbeat>,
    named: Arc<Named>,
}

pub(in crate::client) struct Heartbeat(Mutex<Option<JoinHandle<()>>>);

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Heartbeat {
    fn stop(&self) {
        if let Some(task) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }
}

impl Application {
    /// Registers with a master and begins to send heartbeats.
    ///
    /// # Errors
    /// `Invalid` without masters, with a window of nothing, or with a `window`, a `merge_len` or a wait for an answer above
    /// its limit; `Unavailable` if no master answers; `ResourceExhausted` if one has no room for the application.
    pub async fn start(options: Options) -> Result<Self> {
        options.check()?;
        let session = Arc::new(Session::new(options));
        session.register().await?;
        session.beat().await?;
        let beating = session.clone();
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(beating.options.heartbeat).await;
                if let Err(error) = beating.beat().await {
                    let hint = error.hint();
                    warn!(application = %beating.id, ?error, hint, "no master takes the heartbeat");
                }
            }
        });
        let heartbeat = Arc::new(Heartbeat(Mutex::new(Some(task))));
        Ok(Self { session, heartbeat, named: Arc::default() })
    }

    /// The application's name.
    pub fn id(&self) -> &ApplicationId {
        &self.session.id
    }

    /// Registers a shuffle of `maps` map tasks and `partitions` partitions, and reserves its locations. If it is cancelled,
    /// the number may not be free.
    ///
    /// # Errors
    /// `Unavailable` or `ResourceExhausted` if there are no workers for it; `Conflict` if this application has registered
    /// the number before and [`Shuffle::unregister`] has not given it back, or an executor has heard of
    /// it; `Invalid` for more than 2^31 - 1 of either.
    pub async fn register(&self, shuffle: ShuffleId, maps: usize, partitions: usize) -> Result<Shuffle> {
        Shuffle::register(self.clone(), shuffle, maps, partitions).await
    }

    pub(in crate::client) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Answers the executors of this application, which write and read its shuffles in processes of their own, until the
    /// result is stopped or dropped. It is up to the caller to tell them the address.
    ///
    /// Whoever reaches the address may do with the shuffles what an executor may: end their maps, and so decide what is
    /// read, or open the names that the options allow. By default that is this machine alone.
    ///
    /// The numbers of shuffles that executors have heard of are not registered again.
    ///
    /// # Errors
    /// The address cannot be bound: `Unavailable` if it is taken, `Denied` if it may not be.
    pub async fn serve(&self, options: ServerOptions) -> Result<Serving> {
        server::serve(self.clone(), options).await
    }

    /// Says goodbye: the service forgets the application with all its shuffles. Executors that ask after that are told so.
    ///
    /// # Errors
    /// `Unavailable` if no master answers; the application then expires by itself.
    pub async fn stop(self) -> Result<()> {
        self.heartbeat.stop();
        self.session.stop();
        let request = proto::ApplicationLost {
            app_id: self.session.id.to_string(),
            request_id: self.session.request_id(),
        };
        self.session.ask_master::<_, received::ApplicationLostResponse>(&request).await.map(|_| ())
    }
}
