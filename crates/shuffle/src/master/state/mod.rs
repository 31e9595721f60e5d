//! The master's decisions, synchronous and free of I/O: time and randomness are arguments.
//!
//! Every method takes what a peer said and returns a [`Decision`]: the reply, the records that must be kept before the
//! reply leaves, and the workers for whom there are new orders. Durable parts change only through [`State::apply`], so
//! that a restart, which applies the same records, arrives at the same state. What is not durable (heartbeats, reports,
//! pending orders) comes back with the first report of each worker.
//!
//! The rule that everything here serves: data of a shuffle is deleted only when its application said so, ended or fell
//! silent. What the master merely does not know (its journal lost a tail, a worker comes from elsewhere or was cut off
//! together with the application) it adopts if the application is alive, and leaves alone for as long as an application
//! may be silent otherwise.
//!
//! Time does not count as silence of an application while half of the workers' hosts or more are missing: it may be the
//! master that is cut off. A host is missing while none of its workers is heard, and counts no more when the last of them has
//! been lost for [`Limits::application_timeout`]: a loss that lasts delays the end of whoever is silent, and no more. So what a
//! living application has on a worker that is cut off together with the master is safe for [`Limits::worker_timeout`] and twice
//! that, less half a minute until that is noticed; what it has elsewhere is safe however long it lasts.

mod addresses;
mod applications;
mod by_hand;
mod durable;
mod listening;
mod orders;
#[cfg(test)]
pub(super) mod scene;
mod shuffles;
mod standing;
mod tombstones;
mod workers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use self::orders::Orders;
use self::tombstones::Tombstones;
use super::record::{Record, User};
use super::slots::SlotPolicy;
use crate::ids::{ApplicationId, ShuffleId, ShuffleKey, WorkerId};
use crate::report::Report;

pub use self::applications::{ApplicationHealth, ApplicationPulse};
pub use self::orders::OrderBatch;
pub use self::shuffles::{SlotGrant, SlotRefusal, SlotRequest};
pub use self::standing::Standing;
pub use self::workers::Unregistered;

/// The most shuffles or applications that one request may name: as many removals as are remembered.
pub const NAMED_MAX: usize = tombstones::COUNT_MAX;

/// The moment of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Since an arbitrary moment; never goes back. All timeouts go by it.
    pub monotonic: Duration,
    /// Milliseconds since 1970, for people; may jump.
    pub unix_ms: u64,
}

/// What the state goes by. The defaults are Celeborn's where it has the setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Silence after which an application is gone (`celeborn.master.heartbeat.application.timeout`), as far as the master heard
    /// most workers meanwhile.
    pub application_timeout: Duration,
    /// Silence after which a worker is lost (`celeborn.master.heartbeat.worker.timeout`).
    pub worker_timeout: Duration,
    /// Silence after which nothing is granted on a worker until it is heard again, unless there is nobody else: several
    /// heartbeats.
    pub worker_quiet: Duration,
    /// How long a lost worker is remembered (`celeborn.master.workerUnavailableInfo.expireTimeout`).
    pub unavailable_kept: Duration,
    /// Applications at a time; more are refused.
    pub applications_max: usize,
    /// Shuffles at a time, of all applications; more are refused.
    pub shuffles_max: usize,
    /// Workers at a time; more are refused.
    pub workers_max: usize,
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
            slots: SlotPolicy::default(),
        }
    }
}

/// The outcome of one input.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the records must be kept before the reply leaves"]
pub struct Decision<T> {
    /// What to answer.
    pub reply: T,
    /// What to write to the journal first; already applied.
    pub records: Vec<Record>,
    /// Workers with new orders: answer their watches.
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
    /// Whose it is.
    pub user: User,
    /// What it says about itself.
    pub properties: Vec<(String, String)>,
    /// When it was first seen, in milliseconds since 1970.
    pub registered_unix_ms: u64,
    /// When it was last heard, in milliseconds since 1970; 0 if not since this master started.
    pub heartbeat_unix_ms: u64,
    /// Its shuffles.
    pub shuffles: BTreeMap<ShuffleId, Shuffle>,
    /// [`State::listened_by`] the moment when it was last heard.
    heard: Duration,
    /// Bytes of a partition location of its shuffles, as workers report them; newer reports weigh more.
    location_bytes: Option<u64>,
    /// Workers without which it can place nothing, as its last request for slots says: two for copies.
    workers_min: usize,
}

/// A registered shuffle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shuffle {
    /// When it was registered, in milliseconds since 1970.
    pub registered_unix_ms: u64,
    /// The host of the driver that asked for it, if it was in this master's life.
    pub driver: Option<String>,
    /// Workers that were listed in its slot replies; `None` if they were before this master's life.
    workers: Option<BTreeSet<WorkerId>>,
    /// Another one had its number before: what a worker has under it may be of that one.
    is_again: bool,
}

/// A worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    /// Where its HTTP pages are.
    pub http_port: u16,
    /// Its rack.
    pub network_location: String,
    /// Its program's version, once it registered in this master's life.
    pub version: String,
    /// Its last report, without the shuffles.
    pub report: Report,
    /// When it was last heard, in milliseconds since 1970; 0 if not since this master started.
    pub heartbeat_unix_ms: u64,
    /// Whether it can be reached, as far as known.
    pub link: Link,
    /// Locations granted since its last report.
    pub locations_granted: u64,
    /// Ports that take pushes besides the one of its identity, once it registered in this master's life.
    push_ports: Vec<u16>,
    incarnation: Option<u64>,
    heard: Duration,
    orders: Orders,
    /// Shuffles of its report that nobody knows, and [`State::listened_by`] when that began.
    unknown: BTreeMap<ShuffleKey, Duration>,
    /// The shuffles of its report, without those that it has deleted since.
    held: BTreeMap<ApplicationId, BTreeMap<ShuffleId, Held>>,
}

/// What a worker holds of a shuffle, of an application, or of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// Bytes of batches.
    pub bytes: u64,
    /// Partition locations, open or committed.
    pub locations: u64,
    /// Those of them whose shuffle has bytes there.
    locations_written: u64,
}

/// What is known of the way to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Known from the journal, not heard since this master started.
    Unconfirmed,
    /// Its connection is up; the number is the connection's.
    Up(u64),
    /// Its connection ended, it is quiet, or a client could not reach it, and it was not heard since.
    Broken,
}

/// A worker that is no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// When, in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// Whether it said good-bye.
    pub left: bool,
    seen: Duration,
}

/// All that the master knows.
#[derive(Debug)]
pub struct State {
    limits: Limits,
    applications: BTreeMap<ApplicationId, Application>,
    shuffle_count: usize,
    workers: BTreeMap<WorkerId, Worker>,
    excluded_by_hand: BTreeSet<WorkerId>,
    /// Told to leave for good and not gone yet.
    leaving_by_hand: BTreeSet<WorkerId>,
    /// Told to stay, and not known to work since.
    staying_by_hand: BTreeSet<WorkerId>,
    departed: BTreeMap<WorkerId, Departure>,
    /// Hosts of workers that were lost a short while ago, and when the last of them was.
    lost: BTreeMap<Arc<str>, Duration>,
    tombstones: Tombstones,
    /// The last moment in which this process is known to have run.
    ran_last: Option<Duration>,
    /// Nothing expires before this: set when the process itself was stopped for a while.
    expire_not_before: Duration,
    /// For how long this master has run and heard most workers: the time by which the silence of applications is measured.
    listened: Duration,
}

/// The longest list of departed workers, of excluded ones, of those that are to leave, of those that are to stay, and of lost
/// hosts.
const LISTED_MAX: usize = 10_000;

impl State {
    /// An empty state.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            applications: BTreeMap::new(),
            shuffle_count: 0,
            workers: BTreeMap::new(),
            excluded_by_hand: BTreeSet::new(),
            leaving_by_hand: BTreeSet::new(),
            staying_by_hand: BTreeSet::new(),
            departed: BTreeMap::new(),
            lost: BTreeMap::new(),
            tombstones: Tombstones::default(),
            ran_last: None,
            expire_not_before: Duration::ZERO,
            listened: Duration::ZERO,
        }
    }

    /// Makes a record's change and keeps it for the journal.
    fn commit<T>(&mut self, now: Now, decision: &mut Decision<T>, record: Record) {
        self.apply(now, &record);
        decision.records.push(record);
    }

    /// All applications.
    pub fn applications(&self) -> &BTreeMap<ApplicationId, Application> {
        &self.applications
    }

    /// The number of registered shuffles.
    pub fn shuffle_count(&self) -> usize {
        self.shuffle_count
    }

    /// All registered workers.
    pub fn workers(&self) -> &BTreeMap<WorkerId, Worker> {
        &self.workers
    }

    /// Workers that left or were lost, while they are remembered.
    pub fn departed(&self) -> &BTreeMap<WorkerId, Departure> {
        &self.departed
    }

    /// Workers out of service by hand.
    pub fn excluded_by_hand(&self) -> &BTreeSet<WorkerId> {
        &self.excluded_by_hand
    }

    /// Workers that were told to leave for good and have not, registered or not.
    pub fn leaving_by_hand(&self) -> &BTreeSet<WorkerId> {
        &self.leaving_by_hand
    }

    /// Workers that were told to stay and are not known to work since, registered or not.
    pub fn staying_by_hand(&self) -> &BTreeSet<WorkerId> {
        &self.staying_by_hand
    }
}
