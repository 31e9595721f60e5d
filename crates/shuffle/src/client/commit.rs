//! The commit of a shuffle: which copies of which locations can be read.

use std::collections::{BTreeMap, BTreeSet};

use tokio::task::JoinSet;
use tracing::debug;

use super::application::RETRIES_MAX;
use super::shuffle::Inner;
use crate::error::{Error, Kind, Result};
use crate::ids::{AttemptId, FileName, LocationId, Mode, PartitionId, WorkerId};
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

/// What the workers said about one copy.
pub(crate) type Copies = BTreeSet<FileName>;

impl Committed {
    /// Commits every location of every epoch on all of its workers.
    pub async fn commit(inner: &Inner) -> Result<Self> {
        let (locations, winners) = {
            let state = inner.state();
            let partitions = 0..state.routes.partitions();
            let locations: Vec<Vec<Location>> =
                partitions.map(|at| state.routes.all(PartitionId(at as i32)).to_vec()).collect();
            (locations, state.winners.clone())
        };
        let mut by_worker: BTreeMap<WorkerId, Vec<FileName>> = BTreeMap::new();
        for location in locations.iter().flatten() {
            for copy in [Some(location.clone()), location.peer_location()].into_iter().flatten() {
                let name = FileName { location: copy.id, mode: copy.mode };
                by_worker.entry(copy.worker).or_default().push(name);
            }
        }
        let (mut good, mut failed) = (Copies::new(), Copies::new());
        // The same in each attempt: a worker knows the request again.
        let epoch = inner.session.number();
        let mut retries = 0;
        loop {
            let mut unreached = BTreeMap::new();
            for (worker, names, answer) in ask(inner, by_worker, &winners, epoch).await {
                match answer {
                    Ok(answer) => classify(&answer, &mut good, &mut failed)?,
                    Err(error) => {
                        debug!(shuffle = %inner.key, %worker, ?error, "a worker did not commit");
                        if error.kind() == Kind::Unavailable {
                            unreached.insert(worker, (names, error));
                        } else {
                            failed.extend(names);
                        }
                    }
                }
            }
            let mut missing = failed.clone();
            missing.extend(unreached.values().flat_map(|(names, _)| names));
            let files = locations.iter().map(|locations| readable(locations, &good, &missing));
            let lost = match files.collect::<Result<_, LocationId>>() {
                Ok(files) => return Ok(Self { files, winners }),
                Err(lost) => lost,
            };
            // The workers are asked again only while something that nobody else has depends on them.
            let holder =
                unreached.iter().find(|(_, (names, _))| names.iter().any(|name| name.location == lost));
            match holder {
                None => return Err(lost_error(inner, lost)),
                Some((worker, (_, error))) if retries == RETRIES_MAX => {
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
            by_worker = unreached.into_iter().map(|(worker, (names, _))| (worker, names)).collect();
        }
    }
}

fn lost_error(inner: &Inner, lost: LocationId) -> Error {
    let text = format!("shuffle {} has lost location {lost}: no copy of it was committed", inner.key);
    Error::new(Kind::DataLoss, text)
}

type Asked = (WorkerId, Vec<FileName>, Result<Received<received::CommitFilesResponse>>);

/// Asks each worker once to commit its copies.
async fn ask(
    inner: &Inner,
    by_worker: BTreeMap<WorkerId, Vec<FileName>>,
    winners: &[AttemptId],
    epoch: i64,
) -> Vec<Asked> {
    let mut requests = JoinSet::new();
    for (worker, names) in by_worker {
        let ids = |mode| {
            let names = names.iter().filter(|name| name.mode == mode);
            names.map(|name| name.location.to_string()).collect()
        };
        let request = proto::CommitFiles {
            application_id: inner.key.application.to_string(),
            shuffle_id: inner.key.shuffle.0,
            primary_ids: ids(Mode::Primary),
            replica_ids: ids(Mode::Replica),
            map_attempts: winners.iter().map(|winner| winner.0).collect(),
            epoch,
            mock_failure: false,
        };
        let session = inner.session.clone();
        requests.spawn(async move {
            let answer = session.ask_worker::<_, received::CommitFilesResponse>(&worker, &request).await;
            (worker, names, answer)
        });
    }
    requests.join_all().await
}

/// Sorts the ids of an answer. Ids in none of its lists are empty, which is neither good nor bad.
fn classify(
    answer: &Received<received::CommitFilesResponse>,
    good: &mut Copies,
    failed: &mut Copies,
) -> Result<()> {
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
                good.insert(name)
            } else {
                failed.insert(name)
            };
        }
    }
    Ok(())
}

/// What can be read of a partition; the location that cannot be read any more as the error.
pub(crate) fn readable(
    locations: &[Location],
    good: &Copies,
    failed: &Copies,
) -> Result<Vec<Readable>, LocationId> {
    let mut readable = Vec::new();
    for location in locations {
        let copies: Vec<Location> =
            [Some(location.clone()), location.peer_location()].into_iter().flatten().collect();
        let named = |copy: &Location| FileName { location: copy.id, mode: copy.mode };
        let found: Vec<_> = copies
            .iter()
            .filter(|copy| good.contains(&named(copy)))
            .map(|copy| (copy.worker.clone(), named(copy)))
            .collect();
        let lost = copies.iter().filter(|copy| failed.contains(&named(copy))).count();
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
