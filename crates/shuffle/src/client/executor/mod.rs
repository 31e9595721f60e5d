//! The executor's half of a client: tasks that write and read shuffles of an application in another process.

mod known_routes;
mod link;
mod remote;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use self::link::Link;
use super::application::names::check_opened;
use super::tasks::{TaskShuffle, Tasks, WAIT_MAX};
use crate::error::{Error, Kind, Result};
use crate::ids::{ApplicationId, ShuffleId};
use crate::net::{Client, ClientOptions};
use crate::wire::Limits;

pub(super) use remote::Remote;

/// Options of an executor that uses the service. What workers rely on, such as replication, the split threshold, the time of a push and
/// the window, is the application's to say.
#[derive(Debug, Clone)]
pub struct ExecutorOptions {
    /// The address of the application's server, `host:port`.
    pub application: String,
    /// Connections to one server.
    pub connections: usize,
    /// Time that a worker may take to answer a request that is no push; at most a year, as the next one and `retry_wait`.
    pub request_max: Duration,
    /// Time that the application may take to answer. It may have to ask workers itself, several times, and commits a shuffle
    /// before it is read.
    pub application_max: Duration,
    /// The wait before the application, if its connection ends or cannot be made, or a worker that could not be reached, is
    /// asked again; it is asked three times more, and the wait doubles each time.
    pub retry_wait: Duration,
    /// Chunks requested ahead of a reader.
    pub chunks_ahead: usize,
}

impl ExecutorOptions {
    /// The defaults with this application.
    pub fn new(application: impl Into<String>) -> Self {
        Self {
            application: application.into(),
            connections: 2,
            request_max: Duration::from_secs(60),
            application_max: Duration::from_secs(600),
            retry_wait: Duration::from_secs(1),
            chunks_ahead: 3,
        }
    }

    /// Refuses what cannot work.
    fn check(&self) -> Result<()> {
        let longest = self.request_max.max(self.application_max).max(self.retry_wait);
        if longest > WAIT_MAX {
            let text = format!("a wait of {longest:?} for an answer, expected at most {WAIT_MAX:?}");
            return Err(Error::new(Kind::Invalid, text));
        }
        Ok(())
    }
}

/// An executor of an application in another process. Cheap to clone. It keeps nothing that the application needs: if it
/// dies, what its tasks had begun and not ended is never read.
#[derive(Clone)]
pub struct Executor {
    link: Arc<Link>,
    /// Those that tasks use: they share what they know, and their windows.
    shuffles: Arc<Mutex<BTreeMap<ShuffleId, Weak<Tasks>>>>,
}

impl Executor {
    /// Connects to the application that [serves](super::Application::serve) at an address.
    ///
    /// # Errors
    /// `Unavailable` if nobody answers there, after several attempts; `Invalid` if the application speaks another version of
    /// the protocol, or for a wait of more than a year.
    pub async fn connect(options: ExecutorOptions) -> Result<Self> {
        options.check()?;
        let client =
            ClientOptions { connections: options.connections, ..ClientOptions::new(Limits::ANSWERS) };
        let link = Link::open(options, Client::new(client)).await?;
        Ok(Self { link: Arc::new(link), shuffles: Arc::default() })
    }

    /// The application's name.
    pub fn application(&self) -> &ApplicationId {
        &self.link.application
    }

    /// A shuffle that the application has registered.
    ///
    /// # Errors
    /// `NotFound` if it has none of this number; `Conflict` if it was unregistered, or the application was started again;
    /// `Unavailable` if the application does not answer, after several attempts.
    pub async fn shuffle(&self, shuffle: ShuffleId) -> Result<TaskShuffle> {
        let known = || {
            let shuffles = self.shuffles.lock().unwrap_or_else(PoisonError::into_inner);
            shuffles.get(&shuffle).and_then(Weak::upgrade)
        };
        if let Some(tasks) = known().filter(|tasks| tasks.source.check().is_ok()) {
            return Ok(TaskShuffle::new(tasks));
        }
        let tasks = Remote::tasks(Arc::clone(&self.link), shuffle).await?;
        Ok(self.share(tasks))
    }

    /// The shuffle of a name, which the application registers if there is none of that name. Its maps are those that begin
    /// an attempt, numbered from 0 to 2^20 - 1 ([`OPEN_MAPS_MAX`]).
    ///
    /// The application is asked each time: since the last time, it may have [given the name up](super::Application::retain),
    /// and the name stands for another shuffle then. What the tasks of this executor know of one shuffle they share.
    ///
    /// # Errors
    /// As for [`Application::open`](super::Application::open); `Denied` if the application does not let executors
    /// [open](super::ServerOptions::opens) the name; `Conflict` if the application was started again; `Unavailable` if it
    /// does not answer, after several attempts.
    ///
    /// [`OPEN_MAPS_MAX`]: crate::wire::executor::OPEN_MAPS_MAX
    pub async fn open(&self, name: &str, partitions: usize) -> Result<TaskShuffle> {
        let partitions = check_opened(name, partitions)?;
        let tasks = Remote::open(Arc::clone(&self.link), name, partitions).await?;
        Ok(self.share(tasks))
    }

    /// The shuffle, as the first task of this executor has it that asked: all use the windows of that.
    fn share(&self, tasks: Tasks) -> TaskShuffle {
        let mut shuffles = self.shuffles.lock().unwrap_or_else(PoisonError::into_inner);
        shuffles.retain(|_, tasks| tasks.strong_count() > 0);
        let number = tasks.key.shuffle;
        let tasks = shuffles.get(&number).and_then(Weak::upgrade).unwrap_or_else(|| Arc::new(tasks));
        shuffles.insert(number, Arc::downgrade(&tasks));
        TaskShuffle::new(tasks)
    }
}
