//! The commit of a shuffle, and before it of workers that leave: which copies of which locations can be read.

use std::collections::{BTreeMap, BTreeSet};

use tokio::task::JoinSet;
use tracing::debug;

use super::application::RETRIES_MAX;
use super::shuffle::Inner;
use crate::error::{Error, Kind, Result};
use crate::ids::{AttemptId, FileName, LocationId, Mode, WorkerId};
use crate::wire::packed::Location;
use crate::wire::{Received, proto, received};

/// A location with data, and where its copies can be read, the primary first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Readable {
    pub location: LocationId,
    pub copies: Vec<(WorkerId, FileName)>,
}

/// A shuffle that has been committed.
#[derive(Debug)]
pub(super) struct Committed {
    /// By partition.
    pub files: Vec<Vec<Readable>>,
    /// By map id: whose batches count.
    pub winners: Vec<AttemptId>,
}

/// Copies that the workers said the same about.
pub(crate) type Copies = BTreeSet<FileName>;

/// What the workers have said so far, in the commits of those that leave early and in that of the whole shuffle.
#[derive(Debug, Default)]
pub(super) struct Progress {
    good: Copies,
    failed: Copies,
    /// All that were asked for. Those that an answer did not name are empty, which is neither good nor failed.
    asked: Copies,
    /// They are repeated as they were: a worker knows them again, but may have forgotten the copies since.
    unanswered: Vec<Request>,
}

/// A worker is asked to commit copies.
#[derive(Debug, Clone)]
struct Request {
    worker: WorkerId,
    names: Vec<FileName>,
    epoch: i64,
}

impl Committed {
    /// Commits every location of every epoch on all of its workers.
    pub async fn commit(inner: &Inner) -> Result<Self> {
        let mut progress = inner.progress.lock().await;
        let (locations, winners) = inner.close()?;
        progress.add(inner, &locations, |_| true);
        let mut retries = 0;
        loop {
            inner.check(&inner.state())?;
            let failures = progress.ask(inner, &winners, |_| true).await?;
            let mut missing = progress.failed.clone();
            missing.extend(failures.iter().flat_map(|(request, _)| &request.names));
            let files = locations.iter().map(|locations| readable(locations, &progress.good, &missing));
            let lost = match files.collect::<Result<_, LocationId>>() {
                Ok(files) => return Ok(Self { files, winners }),
                Err(lost) => lost,
            };
            // The workers are asked again only while something that nobody else has depends on them.
            let holder = failures.iter().find(|(request, error)| {
                error.kind() == Kind::Unavailable && request.names.iter().any(|name| name.location == lost)
            });
            match holder {
                None => return Err(lost_error(inner, lost)),
                Some((Request { worker, .. }, error)) if retries == RETRIES_MAX => {
                    let text =
                        format!("worker {worker} does not commit location {lost} of shuffle {}", inner.key);
                    let hint = "commit again when the worker is back";
                    return Err(Error::new(Kind::Unavailable, text)
                        .with_hint(hint)
                        .with_source(error.clone()));
                }
                Some(_) => {}
            }
            retries += 1;
            inner.session.wait_to_retry(retries).await;
        }
    }
}

fn lost_error(inner: &Inner, lost: LocationId) -> Error {
    let text = format!("shuffle {} has lost location {lost}: no copy of it was committed", inner.key);
    Error::new(Kind::DataLoss, text)
}

impl Inner {
    /// Commits what is on workers that leave, for they keep nothing else.
    pub async fn commit_early(&self, leaving: &[WorkerId]) {
        // If another is going on, it is the whole shuffle's, or the next heartbeat comes back to this.
        let Ok(mut progress) = self.progress.try_lock() else { return };
        let (locations, winners) = self.state().to_commit();
        let leaves = |worker: &WorkerId| leaving.contains(worker);
        progress.add(self, &locations, leaves);
        if let Err(error) = progress.ask(self, &winners, leaves).await {
            debug!(shuffle = %self.key, ?error, "a worker that leaves did not commit");
        }
    }
}

impl Progress {
    /// Makes requests for those copies on some workers that were not asked for yet.
    fn add(&mut self, inner: &Inner, locations: &[Vec<Location>], wanted: impl Fn(&WorkerId) -> bool) {
        let mut by_worker: BTreeMap<WorkerId, Vec<FileName>> = BTreeMap::new();
        for copy in locations.iter().flatten().flat_map(Location::copies) {
            let name = copy.file();
            if wanted(&copy.worker) && self.asked.insert(name) {
                by_worker.entry(copy.worker).or_default().push(name);
            }
        }
        let epoch = inner.session.number();
        let requests = by_worker.into_iter().map(|(worker, names)| Request { worker, names, epoch });
        self.unanswered.extend(requests);
    }

    /// Asks some workers once for what they have not answered. What fails is given back, and stays unanswered.
    async fn ask(
        &mut self,
        inner: &Inner,
        winners: &[AttemptId],
        wanted: impl Fn(&WorkerId) -> bool,
    ) -> Result<Vec<(Request, Error)>> {
        let mut requests = JoinSet::new();
        for request in self.unanswered.iter().filter(|request| wanted(&request.worker)).cloned() {
            let message = request.message(inner, winners);
            let session = inner.session.clone();
            requests.spawn(async move {
                let answer =
                    session.ask_worker::<_, received::CommitFilesResponse>(&request.worker, &message);
                (answer.await, request)
            });
        }
        let mut failures = Vec::new();
        for (answer, request) in requests.join_all().await {
            match answer {
                Ok(answer) => {
                    self.classify(&answer)?;
                    self.unanswered
                        .retain(|known| (&known.worker, known.epoch) != (&request.worker, request.epoch));
                }
                Err(error) => {
                    debug!(shuffle = %inner.key, worker = %request.worker, ?error, "a worker did not commit");
                    failures.push((request, error));
                }
            }
        }
        Ok(failures)
    }

    /// Sorts the ids of an answer.
    fn classify(&mut self, answer: &Received<received::CommitFilesResponse>) -> Result<()> {
        type Answer = received::CommitFilesResponse;
        let lists = [
            (Answer::COMMITTED_PRIMARY_IDS, Mode::Primary, true),
            (Answer::COMMITTED_REPLICA_IDS, Mode::Replica, true),
            (Answer::FAILED_PRIMARY_IDS, Mode::Primary, false),
            (Answer::FAILED_REPLICA_IDS, Mode::Replica, false),
        ];
        for (ids, mode, committed) in lists {
            for id in answer.texts(ids) {
                let name = FileName { location: id?.parse()?, mode };
                if committed {
                    self.good.insert(name)
                } else {
                    self.failed.insert(name)
                };
            }
        }
        Ok(())
    }
}

impl Request {
    fn message(&self, inner: &Inner, winners: &[AttemptId]) -> proto::CommitFiles {
        let ids = |mode| {
            let names = self.names.iter().filter(|name| name.mode == mode);
            names.map(|name| name.location.to_string()).collect()
        };
        proto::CommitFiles {
            application_id: inner.key.application.to_string(),
            shuffle_id: inner.key.shuffle.0,
            primary_ids: ids(Mode::Primary),
            replica_ids: ids(Mode::Replica),
            map_attempts: winners.iter().map(|winner| winner.0).collect(),
            epoch: self.epoch,
            mock_failure: false,
        }
    }
}

/// What can be read of a partition; the location that cannot be read any more as the error.
pub(crate) fn readable(
    locations: &[Location],
    good: &Copies,
    failed: &Copies,
) -> Result<Vec<Readable>, LocationId> {
    let mut readable = Vec::new();
    for location in locations {
        let copies: Vec<Location> = location.copies().collect();
        let found: Vec<_> = copies
            .iter()
            .filter(|copy| good.contains(&copy.file()))
            .map(|copy| (copy.worker.clone(), copy.file()))
            .collect();
        let lost = copies.iter().filter(|copy| failed.contains(&copy.file())).count();
        match (found.is_empty(), lost) {
            (false, _) => readable.push(Readable { location: location.id, copies: found }),
            // Where one copy is empty, all of it is: a batch is acknowledged when both have it.
            (true, lost) if lost < copies.len() => {}
            (true, _) => return Err(location.id),
        }
    }
    Ok(readable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(port: u16) -> WorkerId {
        WorkerId { host: "h".into(), rpc_port: port, push_port: 1, fetch_port: 2, replicate_port: 3 }
    }

    #[test]
    fn a_location_is_lost_only_when_every_copy_is() {
        let location = |epoch, peer: Option<u16>| Location {
            id: LocationId::new(0, epoch),
            mode: Mode::Primary,
            worker: worker(10),
            peer: peer.map(worker),
        };
        let name = |epoch, mode| FileName { location: LocationId::new(0, epoch), mode };
        let set = |names: &[FileName]| names.iter().copied().collect::<Copies>();
        let (primary, replica) = (Mode::Primary, Mode::Replica);

        let both = readable(&[location(0, Some(20))], &set(&[name(0, primary), name(0, replica)]), &set(&[]))
            .unwrap();
        assert_eq!(both[0].copies, [(worker(10), name(0, primary)), (worker(20), name(0, replica))]);
        let one =
            readable(&[location(0, Some(20))], &set(&[name(0, replica)]), &set(&[name(0, primary)])).unwrap();
        assert_eq!(one[0].copies, [(worker(20), name(0, replica))]);
        let empty = readable(&[location(0, Some(20))], &set(&[]), &set(&[name(0, primary)])).unwrap();
        assert!(empty.is_empty());
        assert!(readable(&[location(0, None)], &set(&[]), &set(&[])).unwrap().is_empty());
        let lost = readable(
            &[location(0, None), location(1, None)],
            &set(&[name(0, primary)]),
            &set(&[name(1, primary)]),
        );
        assert_eq!(lost, Err(LocationId::new(0, 1)));
    }
}
