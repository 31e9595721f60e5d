//! The workers and requests of the state's tests: one application, workers with names by number.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::{ApplicationHealth, ApplicationPulse, Limits, Now, SlotGrant, SlotRefusal, SlotRequest, State};
use crate::ids::{PartitionId, ShuffleId, WorkerId};
use crate::master::report::{Registration, Report};

pub fn id(number: u16) -> WorkerId {
    format!("worker:{number}:2:3:4").parse().unwrap()
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

pub fn state_of(workers: u16) -> State {
    let mut state = State::new(Limits::default());
    for number in 0..workers {
        let registered = state.register_worker(at(0), number.into(), registration(id(number), number.into()));
        assert_eq!(registered.reply, Some(Vec::new()));
    }
    state
}

/// What another process makes of the state's records.
pub fn restarted(state: &State, now: Now) -> State {
    let mut restarted = State::new(state.limits().clone());
    state.records().iter().for_each(|record| restarted.apply(now, record));
    restarted
}

/// Lets a master run that hears nobody: after a pause nobody is lost at once.
pub fn run(state: &mut State, seconds: RangeInclusive<u64>) {
    seconds.step_by(5).for_each(|second| drop(state.expire(at(second))));
}

pub fn pulse() -> ApplicationPulse {
    ApplicationPulse { application: "app".into(), workers: Vec::new() }
}

pub fn request(excluded: BTreeSet<WorkerId>) -> SlotRequest {
    SlotRequest {
        application: "app".into(),
        shuffle: ShuffleId(0),
        partitions: (0..1000).map(PartitionId).collect(),
        replicate: false,
        rack_aware: false,
        workers_max: 0,
        excluded,
        driver: String::new(),
    }
}

pub fn grant(state: &mut State, excluded: BTreeSet<WorkerId>) -> Result<SlotGrant, SlotRefusal> {
    state.request_slots(at(0), 5, request(excluded)).reply
}

pub fn health_of(state: &mut State, workers: Vec<WorkerId>) -> ApplicationHealth {
    state.application_heartbeat(at(0), ApplicationPulse { workers, ..pulse() }).reply.unwrap()
}
