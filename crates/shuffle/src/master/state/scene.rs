//! Workers and requests for the state's tests: one application, and workers named by number.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut, RangeInclusive};
use std::time::Duration;

use super::by_hand::ListFull;
use super::{
    ApplicationHealth, ApplicationPulse, ApplicationRegistration, Decision, Limits, Now, Refusal, Silent,
    SlotGrant, SlotRefusal, SlotRequest, State, Unregistered,
};
use crate::ids::{ApplicationId, PartitionId, ShuffleId, ShuffleKey, WorkerId};
use crate::master::record::{Record, User};
use crate::report::{Command, HeldShuffle, Phase, Registration, Report};

/// A state with the records of its decisions, as a journal would have them.
pub struct Logged {
    state: State,
    log: Vec<Record>,
}

impl Logged {
    /// The state alone.
    pub fn into_state(self) -> State {
        self.state
    }
}

impl Deref for Logged {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Logged {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

macro_rules! decisions {
    ($($name:ident($($given:ident: $kind:ty),*) -> $reply:ty;)*) => {
        /// The decisions of a state, with their records kept.
        impl Logged {
            $(pub fn $name(&mut self, now: Now, $($given: $kind),*) -> Decision<$reply> {
                let decision = self.state.$name(now, $($given),*);
                self.log.extend(decision.records.iter().cloned());
                decision
            })*
        }
    };
}

decisions! {
    application_heartbeat(pulse: ApplicationPulse) -> Option<ApplicationHealth>;
    register_application(registration: ApplicationRegistration) -> Result<usize, Refusal>;
    remove_application(application: &ApplicationId) -> ();
    unregister_shuffles(application: &ApplicationId, shuffles: &[ShuffleId]) -> ();
    revise_shuffles(application: &ApplicationId, shuffles: &[ShuffleId]) -> Result<(), Refusal>;
    request_slots(random: u64, request: SlotRequest) -> Result<SlotGrant, SlotRefusal>;
    register_worker(connection: u64, registration: Registration) -> bool;
    worker_heartbeat(
        connection: u64, worker: &WorkerId, incarnation: u64, report: Report
    ) -> Result<(), Unregistered>;
    worker_leaves(
        worker: &WorkerId, incarnation: u64, phase: Phase, gone: bool
    ) -> Result<(), Unregistered>;
    exclude_workers(add: &[WorkerId], remove: &[WorkerId]) -> Result<(), ListFull>;
    forget_departed(workers: &[WorkerId]) -> Vec<WorkerId>;
    command_workers(command: Command, workers: &[WorkerId]) -> Result<Vec<WorkerId>, ListFull>;
    expire() -> Silent;
}

/// The number of a connection that is newer than any other.
pub const NEWEST: u64 = u64::MAX;

impl ApplicationRegistration {
    /// Of an application that says nothing more.
    pub fn of(application: ApplicationId) -> Self {
        Self { application, user: User::default(), properties: Vec::new(), life: None, connection: 0 }
    }
}

/// Each worker has its own host.
pub fn id(number: u16) -> WorkerId {
    format!("worker{number}:{number}:2:3:4").parse().unwrap()
}

pub fn at(seconds: u64) -> Now {
    Now { monotonic: Duration::from_secs(seconds), unix_ms: 1_000_000 + seconds * 1000 }
}

pub fn registration(worker: WorkerId, incarnation: u64) -> Registration {
    Registration {
        worker,
        incarnation,
        http_port: 9096,
        network_location: String::new(),
        version: String::new(),
        report: Report { memory_limit_bytes: 1 << 30, ..Report::default() },
        push_ports: Vec::new(),
    }
}

/// A report of a worker that holds the application's first shuffle.
pub fn holding() -> Report {
    let held = HeldShuffle { shuffle: ShuffleKey::new("app", 0), locations: 1, bytes: 1 };
    Report { memory_limit_bytes: 1 << 30, shuffles: vec![held], ..Report::default() }
}

/// The shuffles that a worker is ordered to delete.
pub fn deletions_of(state: &State, number: u16) -> Vec<ShuffleKey> {
    state.workers[&id(number)].orders.pending().map_or(Vec::new(), |orders| orders.expired)
}

/// A worker deletes what it is ordered to delete, and confirms it.
pub fn delete(state: &mut State, number: u16) -> Vec<ShuffleKey> {
    let orders = state.worker_orders(NEWEST, &id(number), number.into(), 0).unwrap();
    let Some(orders) = orders else { return Vec::new() };
    assert_eq!(state.worker_orders(NEWEST, &id(number), number.into(), orders.sequence), Ok(None));
    orders.expired
}

pub fn state_of(workers: u16) -> Logged {
    let mut state = Logged { state: State::new(Limits::default()), log: Vec::new() };
    for number in 0..workers {
        let registered = state.register_worker(at(0), number.into(), registration(id(number), number.into()));
        assert!(registered.reply);
    }
    state
}

/// The state that another process builds from the records of the decisions. It must know no less than this one, and no more
/// than a snapshot of this one holds.
pub fn restarted(before: &Logged, now: Now) -> Logged {
    let made_of = |records: &[Record]| {
        let mut state = State::new(before.limits.clone());
        records.iter().for_each(|record| state.apply(now, record));
        state
    };
    let snapshot = before.records();
    assert_eq!(made_of(&before.log).records(), snapshot, "a decision has changed what it has no record of");
    let state = made_of(&snapshot);
    assert_eq!(state.records(), snapshot, "a snapshot makes another state");
    Logged { state, log: before.log.clone() }
}

/// Lets a master run that hears nobody; right after a pause nobody is lost yet.
pub fn run(state: &mut Logged, seconds: RangeInclusive<u64>) {
    seconds.step_by(5).for_each(|second| drop(state.expire(at(second))));
}

pub fn pulse() -> ApplicationPulse {
    ApplicationPulse { application: "app".into(), workers: Vec::new() }
}

pub fn request(excluded: BTreeSet<WorkerId>) -> SlotRequest {
    SlotRequest {
        application: "app".into(),
        user: User::default(),
        shuffle: ShuffleId(0),
        partitions: (0..1000).map(PartitionId).collect(),
        replicate: false,
        rack_aware: false,
        workers_max: 0,
        excluded,
        driver: String::new(),
        tagged: false,
        connection: 0,
    }
}

pub fn grant(state: &mut Logged, excluded: BTreeSet<WorkerId>) -> Result<SlotGrant, SlotRefusal> {
    state.request_slots(at(0), 5, request(excluded)).reply
}

pub fn health_of(state: &mut Logged, workers: Vec<WorkerId>) -> ApplicationHealth {
    state.application_heartbeat(at(0), ApplicationPulse { workers, ..pulse() }).reply.unwrap()
}
