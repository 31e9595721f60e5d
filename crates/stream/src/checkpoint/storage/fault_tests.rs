//! Goal: whatever a place of checkpoints refuses, forgets to answer or answers twice, no checkpoint that was said to be complete is
//! lost, no epoch belongs to two processes, and none takes its own manifest for another's. Method: processes that take a query over
//! from each other, in a folder whose disk fails and under a prefix of a store that fails and loses answers, by seed.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use object_store::memory::InMemory;
use object_store::path::Path as ObjectPath;
use rustix::io::Errno;
use yeoul_disk::{Fault, FaultyDisk, Injection, Operation, RealDisk};
use yeoul_simulation::{Random, Tally, Worlds, events};

use super::flaky_store::{Fate, FlakyStore, Request};
use super::*;
use crate::checkpoint::store::tests::{after, claim, numbers_of, version};
use crate::checkpoint::wire::Manifest;
use crate::checkpoint::{CheckpointStore, CommitMarker, Marked};
use crate::error::{Error, ErrorKind};
use crate::state::VersionKind;

events! {
    faults {
        /// A request or an operation of the disk failed.
        Failed,
        /// Loss of an answer: what was asked for was done.
        AnswerLost,
        /// A client sent a request again by itself.
        SentTwice,
    }
    others {
        /// A process could not claim.
        ClaimFailed,
        /// A process could not open its place.
        OpenFailed,
        /// A process claimed the query while another one had it.
        Overtook,
        /// A state could not be stored, and its process ended.
        StoreFailed,
        /// End of a process that did not know whether its marker was set.
        MarkUnknown,
        /// It was set.
        UnknownWasSet,
        /// An overtaken process found its epoch taken.
        Fenced,
        /// One that had stood still for long found its number free again.
        FoundFree,
        /// A checkpoint was complete.
        Completed,
        /// A query went on from a checkpoint with deltas.
        Restored,
    }
}

/// Requests or operations of which one fails, on average.
const ONE_FAILS_OF: u64 = 12;
const RETAINED: usize = 4;
const PATIENCE: Patience = Patience { tries: 2, pause: Duration::ZERO, answer: Duration::from_secs(20) };

/// A place that fails, and the same one in good health.
struct Place {
    faulty: Arc<dyn Storage>,
    healthy: Arc<dyn Storage>,
    faults: Faults,
}

enum Faults {
    Disk { disk: Arc<FaultyDisk>, _folder: tempfile::TempDir },
    Store(Arc<Mutex<Tally<Event>>>),
}

fn folder() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::over(Arc::new(RealDisk));
    let path = folder.path().join("q");
    Place {
        faulty: Arc::new(LocalFolder::new(disk.clone(), &path)),
        healthy: Arc::new(LocalFolder::new(Arc::new(RealDisk), &path)),
        faults: Faults::Disk { disk, _folder: folder },
    }
}

fn objects(seed: u64) -> Place {
    let tally = Arc::new(Mutex::new(Tally::default()));
    let (mut random, counts) = (Random::new(seed), Arc::clone(&tally));
    let decide = move |_: Request, _: &ObjectPath| {
        let (event, fate) = match random.below(3) {
            _ if !random.once_in(ONE_FAILS_OF) => return Fate::Answered,
            0 => (Event::Failed, Fate::Fails),
            1 => (Event::AnswerLost, Fate::LosesAnswer),
            _ => (Event::SentTwice, Fate::IsSentTwice),
        };
        counts.lock().unwrap().count(event);
        fate
    };
    let inner = Arc::new(InMemory::new());
    let storage =
        |store| ObjectStorage::new(store, ObjectPath::from("q"), "memory://q".to_owned(), PATIENCE).unwrap();
    Place {
        faulty: Arc::new(storage(FlakyStore::over(Arc::clone(&inner), decide))),
        healthy: Arc::new(storage(FlakyStore::over(inner, |_, _| Fate::Answered))),
        faults: Faults::Store(tally),
    }
}

impl Faults {
    /// Has an operation of the disk fail, now and then.
    fn arm(&self, random: &mut Random) -> Option<Injection> {
        let Self::Disk { disk, .. } = self else { return None };
        let operations = [
            Operation::List,
            Operation::Open,
            Operation::Write,
            Operation::Sync,
            Operation::SyncFolder,
            Operation::Rename,
            Operation::Remove,
        ];
        let operation = random.pick(&operations)?;
        random.once_in(3).then(|| disk.inject(Fault::fails(operation, Errno::NOSPC).times(1)))
    }

    fn count(&self, injection: Option<Injection>, tally: &mut Tally<Event>) {
        if injection.is_some_and(|injection| injection.happened() > 0) {
            tally.count(Event::Failed);
        }
    }
}

/// A process that has the query, or had it.
struct Process {
    store: CheckpointStore,
    complete: Manifest,
}

struct World {
    random: Random,
    place: Place,
    tally: Tally<Event>,
    processes: Vec<Process>,
    /// Process that is known to have set the marker of an epoch.
    owners: BTreeMap<u64, String>,
    /// The offset of the last checkpoint that was said to be complete.
    completed: u64,
}

fn offset(manifest: &Manifest) -> u64 {
    manifest.sources[0].offset.as_u64().unwrap()
}

/// The owner of a manifest.
fn run_of(manifest: &Manifest) -> String {
    manifest.run_id.clone().unwrap()
}

impl World {
    /// An error that a fault may be the cause of.
    fn expects(error: &Error) {
        let is_fault = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::ResourceExhausted);
        assert!(is_fault, "{error:?}");
    }

    fn own(&mut self, manifest: &Manifest) {
        let before = self.owners.insert(manifest.batch.0, run_of(manifest));
        assert_eq!(before, None, "epoch {} has two owners", manifest.batch);
    }

    fn begin(&mut self) {
        let armed = self.place.faults.arm(&mut self.random);
        let opened = CheckpointStore::open(Arc::clone(&self.place.faulty), RETAINED);
        let claimed = match opened {
            Ok(mut store) => store.claim(claim("s")).map(|recovered| (store, recovered)),
            Err(error) => {
                Self::expects(&error);
                self.tally.count(Event::OpenFailed);
                self.place.faults.count(armed, &mut self.tally);
                return;
            }
        };
        self.place.faults.count(armed, &mut self.tally);
        let (store, recovered) = match claimed {
            Ok(claimed) => claimed,
            Err(error) => {
                Self::expects(&error);
                self.tally.count(Event::ClaimFailed);
                return;
            }
        };
        let manifest = recovered.manifest;
        assert_eq!(recovered.warnings, Vec::<String>::new(), "nothing is ever damaged");
        assert!(offset(&manifest) >= self.completed, "a complete checkpoint is lost");
        let numbers = numbers_of(&recovered.state);
        assert_eq!(numbers.last().map_or(0, |last| *last as u64), offset(&manifest), "{numbers:?}");
        if numbers.len() > 1 {
            self.tally.count(Event::Restored);
        }
        self.own(&manifest);
        if !self.processes.is_empty() {
            self.tally.count(Event::Overtook);
        }
        self.processes.push(Process { store, complete: manifest });
    }

    /// A process takes a checkpoint; it ends if that fails.
    fn checkpoint(&mut self, at: usize) {
        let armed = self.place.faults.arm(&mut self.random);
        let Process { mut store, complete } = self.processes.swap_remove(at);
        let mut next = after(&complete, offset(&complete) + 1);
        let is_snapshot = next.state_files.is_empty() || self.random.once_in(4);
        let kind = if is_snapshot { VersionKind::Snapshot } else { VersionKind::Delta };
        let number = offset(&next) as i64;
        let stored = store.store(next.batch, next.generation, version(kind, number));
        let marked = stored.map(|file| {
            if is_snapshot {
                next.state_files.clear();
            }
            next.state_files.push(file);
            store.mark(&next)
        });
        self.place.faults.count(armed, &mut self.tally);
        match marked {
            Err(error) => {
                Self::expects(&error);
                self.tally.count(Event::StoreFailed);
            }
            Ok(Err(error)) => {
                Self::expects(&error);
                self.tally.count(Event::MarkUnknown);
                if self.is_last(&next) && self.standing(&next).is_some_and(|stands| stands == next) {
                    self.tally.count(Event::UnknownWasSet);
                    self.own(&next);
                }
            }
            Ok(Ok(Marked::Taken)) => {
                self.tally.count(Event::Fenced);
                let stands = self.standing(&next);
                let is_anothers = stands.is_none_or(|stands| run_of(&stands) != run_of(&next));
                if self.is_last(&next) {
                    assert!(is_anothers, "it is its own");
                } else if !is_anothers {
                    // Its number was free again.
                    self.tally.count(Event::FoundFree);
                }
            }
            Ok(Ok(Marked::Set)) => {
                self.tally.count(Event::Completed);
                self.own(&next);
                self.completed = self.completed.max(offset(&next));
                self.processes.push(Process { store, complete: next });
            }
        }
    }

    /// True if no later epoch has a manifest.
    fn is_last(&self, manifest: &Manifest) -> bool {
        let names = self.place.healthy.list("yeoul/manifests").unwrap();
        let last = names.iter().filter_map(|name| name.parse::<u64>().ok()).max();
        last.is_none_or(|last| last <= manifest.batch.0)
    }

    /// The manifest that stands under an epoch's number.
    fn standing(&self, manifest: &Manifest) -> Option<Manifest> {
        let path = crate::checkpoint::store::manifest_path(manifest.batch);
        let bytes = self.place.healthy.read(&path).unwrap()?;
        Some(Manifest::decode(&bytes).unwrap())
    }
}

fn run(seed: u64, place: Place) -> Tally<Event> {
    let mut world = World {
        random: Random::new(seed),
        place,
        tally: Tally::default(),
        processes: Vec::new(),
        owners: BTreeMap::new(),
        completed: 0,
    };
    for _ in 0..150 {
        let count = world.processes.len();
        if count == 0 || (count < 3 && world.random.once_in(10)) {
            world.begin();
        } else {
            // Older processes stand still for a while.
            let at = if world.random.once_in(4) { world.random.below(count) } else { count - 1 };
            if world.random.once_in(12) {
                world.processes.swap_remove(at);
            } else {
                world.checkpoint(at);
            }
        }
    }
    if let Faults::Store(counts) = &world.place.faults {
        world.tally.add(&counts.lock().unwrap());
    }
    world.tally
}

#[test]
fn a_folder_on_a_disk_that_fails_loses_nothing() {
    let worlds = Worlds { faults: 300, what: "checkpoints in a folder" };
    worlds.run(
        |seed| run(seed, folder()),
        |tally, _| {
            for event in [Event::Failed, Event::Fenced, Event::Overtook, Event::MarkUnknown, Event::Restored]
            {
                assert!(tally.of(event) > 5, "{event:?}: {tally}");
            }
        },
    );
}

#[test]
fn a_prefix_of_a_store_that_fails_and_loses_answers_loses_nothing() {
    let worlds = Worlds { faults: 5000, what: "checkpoints in an object store" };
    worlds.run(
        |seed| run(seed, objects(seed)),
        |tally, _| {
            for event in [
                Event::Failed,
                Event::AnswerLost,
                Event::SentTwice,
                Event::Fenced,
                Event::Overtook,
                Event::MarkUnknown,
                Event::ClaimFailed,
                Event::Restored,
                Event::FoundFree,
            ] {
                assert!(tally.of(event) > 5, "{event:?}: {tally}");
            }
        },
    );
}
