//! Shuffles that an application finds by their names: registered when one is opened, and unregistered when its name is
//! given up.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::warn;

use super::Application;
use super::names::{Found, Names, Ticket, check_opened};
use super::registered::Registered;
use super::shuffle::Shuffle;
use super::state::ended;
use crate::client::tasks::Tasks;
use crate::error::{Error, Kind, Result};

/// The most shuffles that one call unregisters at a time.
const UNREGISTERING_MAX: usize = 16;

/// The named shuffles of an application.
#[derive(Default)]
pub(super) struct Named(Mutex<Names<Opened, Opening>>);

/// A named shuffle. Without the application, which holds it.
#[derive(Clone)]
struct Opened {
    registered: Arc<Registered>,
    tasks: Arc<Tasks>,
}

/// The outcome of a registration, once there is one.
type Opening = watch::Receiver<Option<Result<Opened>>>;

impl Named {
    fn names(&self) -> MutexGuard<'_, Names<Opened, Opening>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Opened {
    fn shuffle(self, application: &Application) -> Shuffle {
        let Self { registered, tasks } = self;
        Shuffle { application: application.clone(), registered, tasks }
    }
}

impl Application {
    /// The shuffle of a name of 1 to 256 bytes, which is registered if there is none of that name; several calls at once
    /// register one. The application draws its number, one that no shuffle of it has had.
    ///
    /// The number of its maps is open: they are numbered from 0 to 2^20 - 1 ([`OPEN_MAPS_MAX`]), and those that
    /// begin an attempt have to end before [a task reads](crate::client::TaskShuffle::reader). It has at most 65,536
    /// partitions ([`OPEN_PARTITIONS_MAX`]). The application holds it until the name is [given up](Application::retain).
    ///
    /// # Errors
    /// `Invalid` for a name or a number of partitions outside of its limits; `Conflict` if the shuffle of that name has
    /// another number of partitions, the name was given up meanwhile, or the application has stopped; `ResourceExhausted`
    /// for one name more than 65,536 at once; `Unavailable` or `ResourceExhausted` if there are no workers for it.
    ///
    /// [`OPEN_MAPS_MAX`]: crate::wire::executor::OPEN_MAPS_MAX
    /// [`OPEN_PARTITIONS_MAX`]: crate::wire::executor::OPEN_PARTITIONS_MAX
    pub async fn open(&self, name: &str, partitions: usize) -> Result<Shuffle> {
        let partitions = check_opened(name, partitions)?;
        self.session.check_running()?;
        let (outcome, opening) = watch::channel(None);
        let is_ended = |opened: &Opened| opened.registered.state().check().is_err();
        let waiting = || opening.clone();
        let found = self.named.names().open(name, partitions, waiting, is_ended)?;
        let mut opening = match found {
            Found::Open(opened) => return Ok(opened.shuffle(self)),
            Found::Opening(opening) => opening,
            Found::Nothing(ticket) => {
                // Whoever asks again finds it, even if nobody waits for it now.
                let (application, name) = (self.clone(), name.to_owned());
                tokio::spawn(async move {
                    application.register_name(&name, ticket, partitions, &outcome).await;
                });
                opening
            }
        };
        let outcome = opening.wait_for(Option::is_some).await.map(|outcome| outcome.clone());
        let outcome = outcome.ok().flatten().unwrap_or_else(|| Err(did_not_end(name)));
        Ok(outcome?.shuffle(self))
    }

    /// Registers a shuffle for a name that was taken for it, and says so to those who wait.
    async fn register_name(
        &self,
        name: &str,
        ticket: Ticket,
        partitions: u32,
        outcome: &watch::Sender<Option<Result<Opened>>>,
    ) {
        let registering = tokio::spawn(Shuffle::register_open(self.clone(), partitions));
        let registered = registering.await.unwrap_or_else(|error| Err(did_not_end(name).with_source(error)));
        let shuffle = match registered {
            Ok(shuffle) => shuffle,
            Err(error) => {
                self.named.names().failed(name, ticket);
                outcome.send_replace(Some(Err(error)));
                return;
            }
        };
        let Shuffle { registered, tasks, .. } = shuffle;
        let key = registered.key.clone();
        let opened = Opened { registered, tasks };
        if self.named.names().opened(name, ticket, key.shuffle, opened.clone()) {
            outcome.send_replace(Some(Ok(opened)));
        } else {
            outcome.send_replace(Some(Err(ended(&key))));
            self.unregister_given_up().await;
        }
    }

    /// Gives up the names for which `keep` is false: their shuffles are unregistered, and whoever still has one hears
    /// `Conflict`. The names can be opened anew, as other shuffles. What a master could not be told is logged, and tried
    /// again with the next call. One that an executor opens at the same time may come after the call.
    pub async fn retain(&self, keep: impl Fn(&str) -> bool) {
        // It is asked while nothing is locked.
        let names = self.named.names().names();
        let unused: Vec<_> = names.into_iter().filter(|name| !keep(name)).collect();
        self.named.names().give_up(&unused, |opened| opened.registered.key.shuffle);
        self.unregister_given_up().await;
    }

    /// Unregisters the shuffles whose names were given up, those of earlier calls, too.
    async fn unregister_given_up(&self) {
        let given_up = self.named.names().given_up();
        given_up.iter().for_each(|opened| opened.registered.end());
        let mut given_up = given_up.into_iter();
        let mut unregistering = JoinSet::new();
        loop {
            for opened in given_up.by_ref().take(UNREGISTERING_MAX - unregistering.len()) {
                let (key, shuffle) = (opened.registered.key.clone(), opened.shuffle(self));
                unregistering.spawn(async move { (key, shuffle.unregister().await) });
            }
            let Some(unregistered) = unregistering.join_next().await else { break };
            match unregistered {
                Ok((key, Ok(()))) => self.named.names().unregistered(key.shuffle),
                Ok((key, Err(error))) => {
                    let hint = error.hint();
                    warn!(shuffle = %key, ?error, hint, "a shuffle whose name was given up stays for now");
                }
                Err(error) => warn!(?error, "a shuffle whose name was given up stays for now"),
            }
        }
    }
}

fn did_not_end(name: &str) -> Error {
    Error::new(Kind::Internal, format!("the registration of shuffle `{name}` did not end"))
}
