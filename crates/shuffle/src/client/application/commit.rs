//! The commit of a shuffle, and early commits on leaving workers: which copies of which locations can be read.

use std::collections::BTreeMap;

use tracing::debug;

use super::fate::{Committed, Fate, Said, fate};
use super::registered::Registered;
use crate::client::tasks::RETRIES_MAX;
use crate::error::{Error, Kind, Result};
use crate::ids::{AttemptId, FileName, LocationId, Mode, WorkerId};
use crate::wire::executor::Readable;
use crate::wire::packed::Location;
use crate::wire::{Received, Status, proto, received};

/// The workers' answers so far, in early commits on leaving workers and in that of the whole shuffle.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Of each copy that was asked for.
    said: BTreeMap<FileName, Said>,
    /// Requests to repeat, unchanged: a worker recognises them, but may have forgotten the copies since.
    open: Vec<Request>,
}

/// Why a shuffle cannot be read.
#[derive(Debug, PartialEq, Eq)]
enum Missing {
    Unanswered(LocationId),
    Lost(LocationId),
}

/// A request to a worker to commit copies.
#[derive(Debug, Clone)]
struct Request {
    worker: WorkerId,
    names: Vec<FileName>,
    epoch: i64,
}

impl Committed {
    /// Commits every location of every epoch on all of its workers.
    pub async fn commit(registered: &Registered) -> Result<Self> {
        let mut progress = registered.progress.lock().await;
        let (locations, winners) = registered.state().close()?;
        progress.add(registered, &locations, |_| true);
        let mut retries = 0;
        loop {
            registered.state().check()?;
            let failures = progress.ask(registered, &winners, |_| true).await?;
            // Workers are asked again only while a location depends on them alone.
            match progress.files(&locations) {
                Ok(files) => return Ok(Self { files, winners: winners.into() }),
                Err(Missing::Lost(location)) => return Err(lost_error(registered, location)),
                Err(Missing::Unanswered(location)) if retries == RETRIES_MAX => {
                    return Err(unanswered_error(registered, location, &failures));
                }
                Err(Missing::Unanswered(_)) => {}
            }
            retries += 1;
            registered.session.wait_to_retry(retries).await;
        }
    }
}

fn lost_error(registered: &Registered, lost: LocationId) -> Error {
    let text = format!("shuffle {} has lost location {lost}: no copy of it was committed", registered.key);
    Error::new(Kind::DataLoss, text)
}

fn unanswered_error(registered: &Registered, location: LocationId, failures: &[(Request, Error)]) -> Error {
    let asks_for_it = |request: &Request| request.names.iter().any(|name| name.location == location);
    let is_silence = |error: &Error| error.kind() == Kind::Unavailable;
    let failure = failures.iter().find(|(request, error)| is_silence(error) && asks_for_it(request));
    let (request, error) = failure.expect("what is not answered was asked for, and failed");
    let text = format!(
        "worker {} does not commit location {location} of shuffle {}",
        request.worker, registered.key
    );
    Error::new(Kind::Unavailable, text)
        .with_hint("commit again when the worker is back")
        .with_source(error.clone())
}

impl Registered {
    /// Commits what leaving workers hold, because they keep nothing else.
    pub async fn commit_early(&self, leaving: &[WorkerId]) {
        // If another commit is going on, it is the whole shuffle's, or the next heartbeat tries this again.
        let Ok(mut progress) = self.progress.try_lock() else { return };
        let (locations, winners) = self.state().to_commit();
        let leaves = |worker: &WorkerId| leaving.contains(worker);
        progress.add(self, &locations, leaves);
        // If the shuffle was unregistered meanwhile, nobody reads it.
        let _ = progress.ask(self, &winners, leaves).await;
    }
}

impl Progress {
    /// Makes requests for the copies on `wanted` workers that were not asked for yet.
    fn add(
        &mut self,
        registered: &Registered,
        locations: &[Vec<Location>],
        wanted: impl Fn(&WorkerId) -> bool,
    ) {
        let mut by_worker: BTreeMap<WorkerId, Vec<FileName>> = BTreeMap::new();
        for copy in locations.iter().flatten().flat_map(Location::copies) {
            let name = copy.file();
            if wanted(&copy.worker) && !self.said.contains_key(&name) {
                self.said.insert(name, Said::Unanswered);
                by_worker.entry(copy.worker).or_default().push(name);
            }
        }
        let epoch = registered.session.number();
        let requests = by_worker.into_iter().map(|(worker, names)| Request { worker, names, epoch });
        self.open.extend(requests);
    }

    /// Sends the open requests for `wanted` workers once. Those that fail are returned, and stay open.
    ///
    /// # Errors
    /// `Conflict` if the shuffle was unregistered.
    async fn ask(
        &mut self,
        registered: &Registered,
        winners: &[AttemptId],
        wanted: impl Fn(&WorkerId) -> bool,
    ) -> Result<Vec<(Request, Error)>> {
        let mut asked = Vec::new();
        for request in self.open.iter().filter(|request| wanted(&request.worker)) {
            let message = request.message(registered, winners);
            let answer =
                registered.ask_worker::<_, received::CommitFilesResponse>(&request.worker, message)?;
            asked.push((request.clone(), answer));
        }
        let mut failures = Vec::new();
        for (request, answer) in asked {
            match answer.await.and_then(|answer| request.heard(&answer)) {
                Ok(heard) => {
                    self.said.extend(heard);
                    self.open.retain(|open| (&open.worker, open.epoch) != (&request.worker, request.epoch));
                }
                Err(error) => {
                    debug!(shuffle = %registered.key, worker = %request.worker, ?error, "a worker did not commit");
                    let is_silence = error.kind() == Kind::Unavailable;
                    let said = if is_silence { Said::Unanswered } else { Said::Refused };
                    self.said.extend(request.names.iter().map(|name| (*name, said)));
                    failures.push((request, error));
                }
            }
        }
        Ok(failures)
    }

    /// By partition, what can be read. A lost location is reported before one that may come back.
    fn files(&self, locations: &[Vec<Location>]) -> Result<Vec<Vec<Readable>>, Missing> {
        let said = |name| self.said.get(&name).copied().unwrap_or(Said::Unanswered);
        let mut files = vec![Vec::new(); locations.len()];
        let mut unanswered = None;
        for (files, locations) in files.iter_mut().zip(locations) {
            for location in locations {
                match fate(location, said) {
                    Fate::Readable(readable) => files.push(readable),
                    Fate::Empty => {}
                    Fate::Unanswered => unanswered = unanswered.or(Some(location.id)),
                    Fate::Lost => return Err(Missing::Lost(location.id)),
                }
            }
        }
        unanswered.map_or(Ok(files), |location| Err(Missing::Unanswered(location)))
    }
}

impl Request {
    /// What an answer says about the copies that were asked for. Those that it does not name are empty if the worker
    /// knows the shuffle.
    ///
    /// # Errors
    /// `Conflict` if nothing was committed, and the answer says nothing of the copies; `Invalid` for a malformed id.
    fn heard(&self, answer: &Received<received::CommitFilesResponse>) -> Result<BTreeMap<FileName, Said>> {
        type Answer = received::CommitFilesResponse;
        let not_named = match Status::from_code(answer.status) {
            Some(Status::Success | Status::PartialSuccess) => Said::Empty,
            Some(Status::ShuffleNotRegistered) => Said::Lost,
            _ => {
                let text = format!("worker {} does not commit: status {}", self.worker, answer.status);
                return Err(Error::new(Kind::Conflict, text));
            }
        };
        let mut said: BTreeMap<_, _> = self.names.iter().map(|name| (*name, not_named)).collect();
        let lists = [
            (Answer::COMMITTED_PRIMARY_IDS, Mode::Primary, Said::Whole),
            (Answer::COMMITTED_REPLICA_IDS, Mode::Replica, Said::Whole),
            (Answer::FAILED_PRIMARY_IDS, Mode::Primary, Said::Lost),
            (Answer::FAILED_REPLICA_IDS, Mode::Replica, Said::Lost),
        ];
        for (ids, mode, what) in lists {
            for id in answer.texts(ids) {
                let name = FileName { location: id?.parse()?, mode };
                said.entry(name).and_modify(|said| *said = what);
            }
        }
        Ok(said)
    }

    fn message(&self, registered: &Registered, winners: &[AttemptId]) -> proto::CommitFiles {
        let ids = |mode| {
            let names = self.names.iter().filter(|name| name.mode == mode);
            names.map(|name| name.location.to_string()).collect()
        };
        proto::CommitFiles {
            application_id: registered.key.application.to_string(),
            shuffle_id: registered.key.shuffle.0,
            primary_ids: ids(Mode::Primary),
            replica_ids: ids(Mode::Replica),
            map_attempts: winners.iter().map(|winner| winner.0).collect(),
            epoch: self.epoch,
            mock_failure: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::message::Message;

    fn worker(port: u16) -> WorkerId {
        WorkerId { host: "h".into(), rpc_port: port, push_port: 1, fetch_port: 2, replicate_port: 3 }
    }

    fn location(partition: i32, peer: Option<u16>) -> Location {
        Location {
            id: LocationId::new(partition, 0),
            mode: Mode::Primary,
            worker: worker(10),
            peer: peer.map(worker),
        }
    }

    fn name(partition: i32, mode: Mode) -> FileName {
        FileName { location: LocationId::new(partition, 0), mode }
    }

    #[test]
    fn an_answer_says_something_of_each_copy_that_was_asked_for() {
        let (a, b, c, d) =
            (name(0, Mode::Primary), name(0, Mode::Replica), name(1, Mode::Primary), name(1, Mode::Replica));
        let request = Request { worker: worker(10), names: vec![a, b, c, d], epoch: 1 };
        let answer = |status: Status| {
            let answer = proto::CommitFilesResponse {
                status: status.code(),
                committed_primary_ids: vec!["0-0".to_owned(), "7-0".to_owned()],
                failed_replica_ids: vec!["0-0".to_owned()],
                committed_replica_ids: vec!["1-0".to_owned()],
                ..Default::default()
            };
            Message::of(&answer).parse().unwrap()
        };
        for status in [Status::Success, Status::PartialSuccess] {
            let said = [(a, Said::Whole), (b, Said::Lost), (c, Said::Empty), (d, Said::Whole)];
            assert_eq!(request.heard(&answer(status)).unwrap(), said.into());
        }
        let failed = vec!["0-0".to_owned()];
        let answer = proto::CommitFilesResponse { failed_primary_ids: failed, ..Default::default() };
        let heard = request.heard(&Message::of(&answer).parse().unwrap()).unwrap();
        assert_eq!((heard[&a], heard[&b]), (Said::Lost, Said::Empty));
    }

    #[test]
    fn what_is_lost_is_told_before_what_may_come_back() {
        let locations: Vec<_> = (0..4).map(|partition| vec![location(partition, None)]).collect();
        let mut progress = Progress::default();
        let mut missing = |partition, said| {
            progress.said.insert(name(partition, Mode::Primary), said);
            progress.files(&locations).unwrap_err()
        };
        assert_eq!(missing(0, Said::Whole), Missing::Unanswered(LocationId::new(1, 0)));
        assert_eq!(missing(3, Said::Lost), Missing::Lost(LocationId::new(3, 0)));
        assert_eq!(missing(3, Said::Empty), Missing::Unanswered(LocationId::new(1, 0)));
        assert_eq!(missing(1, Said::Whole), Missing::Unanswered(LocationId::new(2, 0)));
        progress.said.insert(name(2, Mode::Primary), Said::Whole);
        let files = progress.files(&locations).unwrap();
        assert_eq!(files.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1, 0]);
    }
}
