//! The master's decisions, synchronous and free of I/O: time and randomness are arguments.
//!
//! Every method takes what a peer sent and returns a [`Decision`]: the reply, the records that must be kept before the reply
//! leaves, and the workers that have new orders. Durable parts change only through [`State::apply`], so that a restart,
//! which applies the same records, arrives at the same state. What is not durable (heartbeats, reports, pending orders)
//! comes back with the first report of each worker.
//!
//! The rule behind everything here: data of a shuffle is deleted only when its application asked for it, ended or fell
//! silent. Shuffles that the master merely does not know (its journal lost a tail, a worker comes from elsewhere or was cut
//! off together with the application) it adopts if the application is alive, and otherwise leaves alone for as long as an
//! application may be silent.
//!
//! An application's silence is not counted while half of the workers' hosts or more are missing: the master itself may be
//! cut off. A host is missing while none of its workers is heard, until the last of them has been lost for
//! [`Limits::application_timeout`]; so a permanent loss only delays the end of silent applications. What a living
//! application has on a worker cut off together with the master is therefore safe for [`Limits::worker_timeout`] plus twice
//! that, less half a minute until the outage is noticed; what it has elsewhere is safe however long it lasts.

mod addresses;
mod applications;
mod by_hand;
mod durable;
mod image;
mod listening;
mod lives;
mod orders;
mod removals;
#[cfg(test)]
pub(super) mod scene;
mod shuffles;
pub(super) mod slot_ledger;
mod standing;
mod workers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use imbl::OrdMap;
use serde::Serialize;

use self::orders::Orders;
use self::removals::Removals;
use self::slot_ledger::SlotLedger;
use super::record::{LifeId, Record, User};
use super::slots::SlotPolicy;
use crate::ids::{ApplicationId, ShuffleId, ShuffleKey, WorkerId};
use crate::report::Report;

pub use self::applications::{ApplicationHealth, ApplicationPulse, Refusal};
pub use self::listening::Silent;
pub use self::lives::ApplicationRegistration;
pub use self::orders::OrderBatch;
pub use self::removals::ShuffleRun;
pub use self::shuffles::{SlotGrant, SlotRefusal, SlotRequest};
pub use self::standing::Standing;
pub use self::workers::Unregistered;

/// The most shuffles or applications that one request may name: as many as there are removals, at least.
pub const NAMED_MAX: usize = removals::COUNT_MAX;

/// The time of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Time since an arbitrary moment; never goes back. All timeouts use it.
    pub monotonic: Duration,
    /// Milliseconds since 1970, for people; may jump.
    pub unix_ms: u64,
}

/// The limits of the state. The defaults are Celeborn's where it has the setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Silence after which an application is removed (`celeborn.master.heartbeat.application.timeout`), counting only time
    /// in which the master heard most workers.
    pub application_timeout: Duration,
    /// Silence after which a worker is lost (`celeborn.master.heartbeat.worker.timeout`).
    pub worker_timeout: Duration,
    /// Silence after which nothing is granted on a worker until it is heard again, unless no other is available: several
    /// heartbeats.
    pub worker_quiet: Duration,
    /// How long a lost worker is remembered (`celeborn.master.workerUnavailableInfo.expireTimeout`).
    pub unavailable_kept: Duration,
    /// The most applications at a time; more are refused.
    pub applications_max: usize,
    /// The most shuffles at a time, over all applications; more are refused.
    pub shuffles_max: usize,
    /// The most workers at a time; more are refused.
    pub workers_max: usize,
    /// Deletions that a worker has not confirmed; one more drops the oldest.
    pub worker_deletions_max: usize,
    /// Runs of consecutive numbers of removed shuffles that are remembered of one application for as long as it lives; one
    /// more drops the oldest. Not below [`NAMED_MAX`], so that what one request removes is remembered.
    pub removed_runs_of_one_max: usize,
    /// The same over all applications. A run takes some 80 bytes.
    pub removed_runs_max: usize,
    /// Whether a client that wants workers with tags gets none, because none has any; else its tags are ignored
    /// (`celeborn.tags.enabled`).
    pub tags_enabled: bool,
    /// How partitions are dealt.
    pub slots: SlotPolicy,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            application_timeout: Duration::from_secs(300),
            worker_timeout: Duration::from_secs(120),
            worker_quiet: Duration::from_secs(20),
            unavailable_kept: Duration::from_secs(1800),
            applications_max: 100_000,
            shuffles_max: 4_000_000,
            workers_max: 10_000,
            worker_deletions_max: 1 << 14,
            removed_runs_of_one_max: NAMED_MAX,
            removed_runs_max: 4 * NAMED_MAX,
            tags_enabled: true,
            slots: SlotPolicy::default(),
        }
    }
}

/// The outcome of one input.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the records must be kept before the reply leaves"]
pub struct Decision<T> {
    /// The answer to the peer.
    pub reply: T,
    /// What must be written to the journal first; already applied to the state.
    pub records: Vec<Record>,
    /// Workers with new orders, whose watches are to be answered.
    pub wake: Vec<WorkerId>,
}

impl<T> Decision<T> {
    fn of(reply: T) -> Self {
        Self { reply, records: Vec::new(), wake: Vec::new() }
    }
}

/// An application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Application {
    /// Its owner.
    pub user: User,
    /// What it tells about itself.
    pub properties: Vec<(String, String)>,
    /// Its last lives, the newest last.
    lives: Vec<LifeId>,
    /// When it was first seen, in milliseconds since 1970.
    pub registered_unix_ms: u64,
    /// When it was last heard, in milliseconds since 1970; 0 if not since this master started.
    pub heartbeat_unix_ms: u64,
    /// Its shuffles.
    pub shuffles: OrdMap<ShuffleId, Shuffle>,
    /// [`State::listened_by`] at the time it was last heard.
    heard: Duration,
    /// Bytes of a partition location of its shuffles, averaged over the workers' reports; newer reports weigh more.
    location_bytes: Option<u64>,
    /// The workers that it needs at least, by its last request for slots: two for replicas.
    workers_min: usize,
}

/// A registered shuffle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shuffle {
    /// When it was registered, in milliseconds since 1970.
    pub registered_unix_ms: u64,
    /// The host of the driver that asked for it; unknown after a restart of the master.
    pub driver: Option<String>,
    /// The connection to this process on which it was registered; those of this process only.
    connection: Option<u64>,
    /// Workers that were listed in its slot replies; durable if its number was used before.
    listed: BTreeSet<WorkerId>,
    /// Whether the list has all of them: this process has registered it. A power failure may take the last from a journal.
    is_list_whole: bool,
    /// An earlier shuffle had its number: what a worker that is not listed reports under it may belong to that one.
    is_again: bool,
    /// Locations that this process granted it, primaries and replicas: its part of the [ledger](slot_ledger).
    slots_granted: u64,
}

/// A worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    /// Where its HTTP pages are.
    pub http_port: u16,
    /// Its rack.
    pub network_location: String,
    /// Its program's version, once it has registered since this master started.
    pub version: String,
    /// Its last report, without the shuffles.
    pub report: Report,
    /// When it was last heard, in milliseconds since 1970; 0 if not since this master started.
    pub heartbeat_unix_ms: u64,
    /// Whether it can be reached, as far as is known.
    pub link: Link,
    /// Locations granted since its last report.
    pub locations_granted: u64,
    /// Ports that take pushes besides the one of its identity, once it has registered since this master started.
    push_ports: Vec<u16>,
    incarnation: Option<u64>,
    heard: Duration,
    orders: Orders,
    /// Shuffles of its report that are unknown here, with [`State::listened_by`] when each was first reported.
    unknown: BTreeMap<ShuffleKey, Duration>,
    /// The shuffles of its report, without those that it has deleted since.
    held: BTreeMap<ApplicationId, BTreeMap<ShuffleId, Held>>,
}

/// What a worker holds of a shuffle, of an application, or in total.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// Bytes of batches.
    pub bytes: u64,
    /// Partition locations, open or committed.
    pub locations: u64,
    /// Locations of shuffles that have bytes there.
    locations_written: u64,
}

/// Whether a worker can be reached, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Known from the journal, not heard since this master started.
    Unconfirmed,
    /// Its connection is up; the number is the connection's.
    Up(u64),
    /// Its connection ended, it is quiet, or a client could not reach it, and it was not heard since.
    Broken,
}

/// When and how a worker went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// Milliseconds since 1970.
    pub at_unix_ms: u64,
    /// Whether it announced that it leaves; if not it was lost.
    pub left: bool,
    seen: Duration,
}

/// Everything that the master knows.
#[derive(Debug)]
pub struct State {
    limits: Limits,
    applications: OrdMap<ApplicationId, Application>,
    /// What the shuffles of all applications have together.
    slots: SlotLedger,
    workers: BTreeMap<WorkerId, Worker>,
    excluded_by_hand: BTreeSet<WorkerId>,
    /// Workers told to leave for good that have not left yet.
    leaving_by_hand: BTreeSet<WorkerId>,
    /// Workers told to stay that are not known to work since.
    staying_by_hand: BTreeSet<WorkerId>,
    departed: BTreeMap<WorkerId, Departure>,
    /// Hosts of workers that were lost recently, and when the last one of each was.
    lost: BTreeMap<Arc<str>, Duration>,
    removals: Removals,
    /// When this process is last known to have run.
    ran_last: Option<Duration>,
    /// Nothing expires before this time: set after this process was suspended.
    expire_not_before: Duration,
    /// How long this master has run while hearing most workers: the clock for applications' silence.
    listened: Duration,
}

/// The longest of each list: departed, excluded, leaving and staying workers, and lost hosts.
const LISTED_MAX: usize = 10_000;

impl State {
    /// An empty state.
    pub fn new(limits: Limits) -> Self {
        let removals = Removals::new(&limits);
        Self {
            limits,
            applications: OrdMap::new(),
            slots: SlotLedger::default(),
            workers: BTreeMap::new(),
            excluded_by_hand: BTreeSet::new(),
            leaving_by_hand: BTreeSet::new(),
            staying_by_hand: BTreeSet::new(),
            departed: BTreeMap::new(),
            lost: BTreeMap::new(),
            removals,
            ran_last: None,
            expire_not_before: Duration::ZERO,
            listened: Duration::ZERO,
        }
    }

    /// Applies a record and adds it to the decision for the journal.
    fn commit<T>(&mut self, now: Now, decision: &mut Decision<T>, record: Record) {
        self.apply(now, &record);
        decision.records.push(record);
    }

    /// Whether an application is registered, or was silent for too long and may still come back.
    pub fn knows(&self, application: &ApplicationId) -> bool {
        self.applications.contains_key(application) || self.removals.let_go_of(application).next().is_some()
    }

    /// The shuffles of an application that are registered, or were let go when it was silent for too long and may still come
    /// back.
    pub fn known_shuffles(&self, application: &ApplicationId) -> BTreeSet<ShuffleId> {
        let registered = self.applications.get(application).into_iter();
        let registered = registered.flat_map(|held| held.shuffles.keys().copied());
        registered.chain(self.removals.let_go_of(application)).collect()
    }

    /// All applications.
    pub fn applications(&self) -> &OrdMap<ApplicationId, Application> {
        &self.applications
    }

    /// The number of registered shuffles.
    pub fn shuffle_count(&self) -> usize {
        self.slots.shuffles()
    }

    /// All registered workers.
    pub fn workers(&self) -> &BTreeMap<WorkerId, Worker> {
        &self.workers
    }

    /// Workers that left or were lost, while they are remembered.
    pub fn departed(&self) -> &BTreeMap<WorkerId, Departure> {
        &self.departed
    }

    /// Workers that operators took out of service.
    pub fn excluded_by_hand(&self) -> &BTreeSet<WorkerId> {
        &self.excluded_by_hand
    }

    /// Workers that were told to leave for good and have not left, registered or not.
    pub fn leaving_by_hand(&self) -> &BTreeSet<WorkerId> {
        &self.leaving_by_hand
    }

    /// Workers that were told to stay and are not known to work since, registered or not.
    pub fn staying_by_hand(&self) -> &BTreeSet<WorkerId> {
        &self.staying_by_hand
    }
}
