//! Workers: registration, heartbeats, orders, end.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::record::Record;
use super::{Decision, Held, Link, Now, OrderBatch, Silent, State, Worker};
use crate::ids::{ApplicationId, ShuffleId, ShuffleKey, WorkerId};
use crate::report::{Command, HeldShuffle, Phase, Registration, Report};

/// The answer to a worker that must register first: the master does not know it, or knows another incarnation of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the worker is not registered here")]
pub struct Unregistered;

impl Worker {
    /// How long it has been silent.
    pub fn silent_for(&self, now: Now) -> Duration {
        now.monotonic.saturating_sub(self.heard)
    }

    /// What it holds of each application, known or not.
    pub fn held(&self) -> impl Iterator<Item = (&ApplicationId, Held)> {
        let sum = |held: &BTreeMap<ShuffleId, Held>| {
            held.values().fold(Held::default(), |sum, held| sum.plus(*held))
        };
        self.held.iter().map(move |(application, held)| (application, sum(held)))
    }

    /// What it holds of all applications together.
    pub fn held_of_all(&self) -> Held {
        self.held().fold(Held::default(), |sum, (_, held)| sum.plus(held))
    }

    /// Whether it holds something of a shuffle.
    pub(super) fn holds(&self, shuffle: &ShuffleKey) -> bool {
        self.held.get(&shuffle.application).is_some_and(|held| held.contains_key(&shuffle.shuffle))
    }

    /// It has deleted a shuffle.
    fn forget(&mut self, shuffle: &ShuffleKey) {
        let Some(held) = self.held.get_mut(&shuffle.application) else { return };
        held.remove(&shuffle.shuffle);
        if held.is_empty() {
            self.held.remove(&shuffle.application);
        }
    }
}

impl Held {
    /// The sum of both; it saturates, because workers may report any number.
    pub fn plus(self, more: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(more.bytes),
            locations: self.locations.saturating_add(more.locations),
            locations_written: self.locations_written.saturating_add(more.locations_written),
        }
    }
}

impl State {
    /// A worker registers on a connection. Returns whether there is room for it.
    pub fn register_worker(
        &mut self,
        now: Now,
        connection: u64,
        registration: Registration,
    ) -> Decision<bool> {
        let mut decision = Decision::of(false);
        let Registration { worker, incarnation, http_port, network_location, version, report, push_ports } =
            registration;
        let known = self.workers.get(&worker);
        if known.is_none() && self.workers.len() >= self.limits.workers_max {
            return decision;
        }
        if known.is_none_or(|held| held.http_port != http_port || held.network_location != network_location) {
            let record = Record::WorkerRegistered { worker: worker.clone(), http_port, network_location };
            self.commit(now, &mut decision, record);
        }
        let held = self.workers.get_mut(&worker).expect("registered above");
        if held.incarnation.is_some_and(|before| before != incarnation) {
            held.orders.begin_life();
        }
        held.incarnation = Some(incarnation);
        held.version = version;
        held.push_ports = push_ports;
        held.link = Link::Up(connection);
        // Earlier orders may not have reached it or its process; the order to stop, if waiting, was the last.
        let told = match report.phase {
            _ if held.orders.has_stop() => None,
            Phase::Normal => self.leaving_by_hand.contains(&worker).then_some(Command::Decommission),
            Phase::Decommissioning => self.staying_by_hand.contains(&worker).then_some(Command::Recommission),
            Phase::Stopping => None,
        };
        if let Some(command) = told {
            held.orders.command(command);
            decision.wake.push(worker.clone());
        }
        self.take_report(now, &worker, report, &mut decision);
        decision.reply = true;
        decision
    }

    /// A worker's heartbeat.
    pub fn worker_heartbeat(
        &mut self,
        now: Now,
        connection: u64,
        worker: &WorkerId,
        incarnation: u64,
        report: Report,
    ) -> Decision<Result<(), Unregistered>> {
        let mut decision = Decision::of(Err(Unregistered));
        let Ok(held) = self.registered_mut(worker, incarnation) else { return decision };
        decision.reply = Ok(());
        // Connections are numbered in order: a late message on an older one describes the past.
        if matches!(held.link, Link::Up(newest) if connection < newest) {
            return decision;
        }
        held.link = Link::Up(connection);
        self.take_report(now, worker, report, &mut decision);
        decision
    }

    /// A worker asks for orders newer than `seen`. `None` means that there are none yet.
    ///
    /// # Errors
    /// [`Unregistered`] if it must register first, or has registered on a newer connection since it asked: the numbers may
    /// have restarted with that.
    pub fn worker_orders(
        &mut self,
        connection: u64,
        worker: &WorkerId,
        incarnation: u64,
        seen: u64,
    ) -> Result<Option<OrderBatch>, Unregistered> {
        let held = self.registered_mut(worker, incarnation)?;
        if matches!(held.link, Link::Up(newest) if connection < newest) {
            return Err(Unregistered);
        }
        for deleted in held.orders.confirm(seen) {
            held.forget(&deleted);
        }
        Ok(held.orders.pending())
    }

    /// A worker begins to stop or leave, or, with `gone`, is about to exit.
    pub fn worker_leaves(
        &mut self,
        now: Now,
        worker: &WorkerId,
        incarnation: u64,
        phase: Phase,
        gone: bool,
    ) -> Decision<Result<(), Unregistered>> {
        let mut decision = Decision::of(Err(Unregistered));
        let Ok(held) = self.registered_mut(worker, incarnation) else { return decision };
        held.report.phase = phase;
        decision.reply = Ok(());
        // A worker that will come back stays registered: its shuffles can then be read again.
        if gone && phase == Phase::Decommissioning {
            let record =
                Record::WorkerRemoved { worker: worker.clone(), at_unix_ms: now.unix_ms, left: true };
            self.commit(now, &mut decision, record);
        }
        decision
    }

    /// The connection on which a worker was last heard has ended: it is granted nothing until heard again, unless no one
    /// else is available. Its data counts as there until the worker timeout. Returns the workers affected.
    pub fn worker_link_lost(&mut self, connection: u64) -> Vec<WorkerId> {
        let mut lost = Vec::new();
        for (worker, held) in &mut self.workers {
            if held.link == Link::Up(connection) {
                held.link = Link::Broken;
                lost.push(worker.clone());
            }
        }
        lost
    }

    /// A client could not reach these workers. The master trusts its own connection more than a client, but grants nothing
    /// on them until they are heard again, unless no one else is available.
    pub fn workers_reported_failed(&mut self, workers: &[WorkerId]) {
        for worker in workers {
            let known = self.known_as(worker).cloned();
            if let Some(held) = known.and_then(|worker| self.workers.get_mut(&worker)) {
                held.link = Link::Broken;
            }
        }
    }

    /// Removes workers that have been silent for too long, and forgets those that went long ago.
    pub(super) fn expire_workers(&mut self, now: Now, decision: &mut Decision<Silent>) {
        for held in self.workers.values_mut() {
            if held.silent_for(now) >= self.limits.worker_quiet {
                held.link = Link::Broken;
            }
        }
        let timeout = self.limits.worker_timeout;
        let silent = self.workers.iter().filter(|(_, held)| held.silent_for(now) >= timeout);
        let silent: Vec<_> = silent.map(|(worker, held)| (worker.clone(), held.report.phase)).collect();
        for (worker, _) in &silent {
            let (worker, at_unix_ms) = (worker.clone(), now.unix_ms);
            self.commit(now, decision, Record::WorkerRemoved { worker, at_unix_ms, left: false });
        }
        decision.reply.workers = silent;
        let kept = self.limits.unavailable_kept;
        let old = self
            .departed
            .iter()
            .filter(|(_, departure)| now.monotonic.saturating_sub(departure.seen) >= kept);
        let old: Vec<WorkerId> = old.map(|(worker, _)| worker.clone()).collect();
        for worker in old {
            self.commit(now, decision, Record::WorkerForgotten { worker });
        }
    }

    fn registered_mut(&mut self, worker: &WorkerId, incarnation: u64) -> Result<&mut Worker, Unregistered> {
        let held = self.workers.get_mut(worker).ok_or(Unregistered)?;
        if held.incarnation == Some(incarnation) { Ok(held) } else { Err(Unregistered) }
    }

    /// Replaces a worker's report, and orders the deletion of its shuffles that were removed, or have been unknown for as
    /// long as an application may be silent. Unknown shuffles of a live application are adopted.
    fn take_report<T>(
        &mut self,
        now: Now,
        worker: &WorkerId,
        mut report: Report,
        decision: &mut Decision<T>,
    ) {
        let begin = self.listened_by(now);
        let mut expired = Vec::new();
        let mut unknown = BTreeMap::new();
        let mut adopted = Vec::new();
        let reporter = self.workers.get_mut(worker).expect("only registered workers report");
        reporter.held.clear();
        for HeldShuffle { shuffle, locations, bytes } in std::mem::take(&mut report.shuffles) {
            let of_application = reporter.held.entry(shuffle.application.clone()).or_default();
            let sum = of_application.entry(shuffle.shuffle).or_default();
            let locations_written = if bytes > 0 { locations } else { 0 };
            *sum = sum.plus(Held { bytes, locations, locations_written });
            let application = self.applications.get(&shuffle.application);
            match application.map(|application| application.shuffles.get(&shuffle.shuffle)) {
                Some(Some(known)) if known.is_earlier_on(worker) == Some(true) => expired.push(shuffle),
                Some(Some(_)) => {}
                _ if self.removals.covers(&shuffle) => expired.push(shuffle),
                Some(None) => adopted.push(shuffle),
                None => {
                    let since = reporter.unknown.get(&shuffle).copied().unwrap_or(begin);
                    if self.listened.saturating_sub(since) >= self.limits.application_timeout {
                        expired.push(shuffle.clone());
                    }
                    unknown.insert(shuffle, since); // further on, for the order may be dropped
                }
            }
        }
        // While a command is waiting, it may report that it works only because it has not heard yet that it is to leave.
        let has_stayed = report.phase == Phase::Normal && !reporter.orders.has_command();
        expired.retain(|shuffle| !reporter.orders.deletes(shuffle));
        // A report lists last what the worker is deleting already: however much of that a disk keeps, the others are heard.
        expired.truncate(self.limits.worker_deletions_max);
        if !expired.is_empty() {
            decision.wake.push(worker.clone());
        }
        expired
            .into_iter()
            .for_each(|shuffle| reporter.orders.delete(shuffle, self.limits.worker_deletions_max));
        reporter.unknown = unknown;
        reporter.report = report;
        reporter.heard = now.monotonic;
        reporter.heartbeat_unix_ms = now.unix_ms;
        reporter.locations_granted = 0;
        if has_stayed && self.staying_by_hand.contains(worker) {
            self.commit(now, decision, Record::WorkerStayed { worker: worker.clone() });
        }
        self.learn_sizes(worker);
        adopted.truncate(self.limits.shuffles_max.saturating_sub(self.slots.shuffles()));
        // The application may have been gone for a while, and a pending order may stem from its end.
        self.take_back_deletions(&adopted);
        for shuffle in adopted {
            self.commit(now, decision, Record::shuffle_registered(shuffle, now.unix_ms));
        }
    }

    /// Updates the estimates of the applications' partition sizes. Locations without bytes have not been written yet, or
    /// never will be, so they do not count.
    fn learn_sizes(&mut self, worker: &WorkerId) {
        for (application, held) in self.workers[worker].held() {
            let Some(known) = self.applications.get_mut(application).filter(|_| held.bytes > 0) else {
                continue;
            };
            let mean = held.bytes / held.locations_written.max(1);
            known.location_bytes =
                Some(known.location_bytes.map_or(mean, |before| before / 4 * 3 + mean / 4));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::scene::{
        Logged, NEWEST, at, delete, deletions_of, grant, health_of, holding, id, pulse, registration,
        request, restarted, run, state_of,
    };
    use super::*;
    use crate::master::state::{Limits, SlotRefusal, SlotRequest, Standing};

    #[test]
    fn a_quiet_worker_gets_nothing_while_there_are_others() {
        let mut state = state_of(2);
        let quiet = state.limits.worker_quiet.as_secs();
        let beat = |state: &mut Logged, second, number: u16| {
            let report = Report { memory_limit_bytes: 1 << 30, ..Report::default() };
            let beat = state.worker_heartbeat(at(second), number.into(), &id(number), number.into(), report);
            assert_eq!(beat.reply, Ok(()));
            let _ = state.expire(at(second));
        };
        for second in (0..quiet).step_by(5) {
            beat(&mut state, second, 1);
            assert_eq!(state.workers_available(), 2, "after {second} s");
        }
        beat(&mut state, quiet, 1);
        let granted = grant(&mut state, BTreeSet::new()).unwrap();
        assert!(granted.workers.iter().all(|(worker, _)| *worker == id(1)));
        // A client that is told of no worker falls back to its own shuffle, so it is told of these.
        assert_eq!(state.worker_link_lost(1), [id(1)]);
        assert_eq!((state.workers_available(), state.has_available_worker()), (0, true));
        let granted = grant(&mut state, BTreeSet::from([id(1)])).unwrap();
        assert!(granted.workers.iter().all(|(worker, _)| *worker == id(0)));
        beat(&mut state, quiet, 0);
        beat(&mut state, quiet, 1);
        assert_eq!(state.workers_available(), 2);
        let lost = quiet + state.limits.worker_timeout.as_secs();
        run(&mut state, quiet..=lost);
        assert!(!state.has_available_worker(), "both are lost");
    }

    #[test]
    fn what_was_late_on_an_older_connection_changes_nothing() {
        let mut state = state_of(1);
        let _ = state.register_worker(at(1), 5, registration(id(0), 0));
        let late = Report { memory_limit_bytes: 1, ..Report::default() };
        assert_eq!(state.worker_heartbeat(at(2), 3, &id(0), 0, late).reply, Ok(()));
        assert_eq!(state.worker_link_lost(3), []);
        assert_eq!(state.standing(&id(0)), Some(Standing::Available));
        assert_eq!(state.workers[&id(0)].report.memory_limit_bytes, 1 << 30);
        assert_eq!(state.worker_link_lost(5), [id(0)]);
    }

    #[test]
    fn a_sequence_that_was_seen_on_an_older_connection_confirms_nothing() {
        let mut state = state_of(1);
        let lost = state.limits.worker_timeout.as_secs() + 5;
        run(&mut state, 0..=lost);
        // The same process, which this master does not know any more: its orders are numbered from 1 again.
        let _ = state.register_worker(at(lost), 5, holder(0));
        let _ = state.unregister_shuffles(at(lost), &ApplicationId::from("app"), &[ShuffleId(0)]);
        let _ = state.worker_heartbeat(at(lost), 5, &id(0), 0, holding());
        assert_eq!(state.worker_orders(0, &id(0), 0, 1), Err(Unregistered));
        assert_eq!(deletions_of(&state, 0), [ShuffleKey::new("app", 0)]);
        assert_eq!(state.worker_orders(5, &id(0), 0, 1), Ok(None));
        assert_eq!(deletions_of(&state, 0), []);
    }

    #[test]
    fn a_worker_that_is_to_leave_for_good_is_told_after_each_restart_of_either_side() {
        let told = |state: &mut Logged, life| {
            let registered = state.register_worker(at(life), life, registration(id(0), life));
            assert!(registered.reply);
            let orders = state.worker_orders(NEWEST, &id(0), life, 0).expect("it is registered");
            // Confirmed: the process has begun to leave.
            let command = orders.as_ref().and_then(|orders| orders.command);
            let _ = state.worker_orders(NEWEST, &id(0), life, orders.map_or(0, |orders| orders.sequence));
            command
        };
        let mut state = state_of(1);
        let _ = state.command_workers(at(0), Command::Decommission, &[id(0)]);
        assert_eq!(told(&mut state, 0), Some(Command::Decommission));
        assert_eq!(told(&mut state, 1), Some(Command::Decommission), "another process of the worker");
        let mut again = restarted(&state, at(2));
        assert_eq!(told(&mut again, 2), Some(Command::Decommission), "another process of the master");
        let stays = again.command_workers(at(3), Command::Recommission, &[id(0)]);
        assert_eq!(stays.records.len(), 1);
        let _ = told(&mut again, 3);
        assert_eq!(told(&mut again, 4), None);
        // A worker that has left may come back under its name.
        assert_eq!(told(&mut state, 5), Some(Command::Decommission));
        let left = state.worker_leaves(at(6), &id(0), 5, Phase::Decommissioning, true);
        assert_eq!(left.reply, Ok(()));
        assert!(restarted(&state, at(6)).departed()[&id(0)].left);
        assert_eq!(told(&mut state, 7), None);
    }

    #[test]
    fn a_worker_that_is_to_leave_for_good_gets_nothing_even_before_it_knows() {
        let mut state = state_of(2);
        let _ = state.command_workers(at(0), Command::Decommission, &[id(0)]);
        assert_eq!(state.standing(&id(0)), Some(Standing::Decommissioning));
        for state in [&mut restarted(&state, at(0)), &mut state] {
            let granted = grant(state, BTreeSet::new()).unwrap();
            assert_eq!(granted.workers.iter().map(|(worker, _)| worker).collect::<Vec<_>>(), [&id(1)]);
            assert_eq!(health_of(state, Vec::new()).shutting, [id(0)]);
        }
        // Nor after an absence that has been forgotten, until it has left or is told to stay.
        let Limits { worker_timeout, unavailable_kept, .. } = state.limits;
        let lost = worker_timeout.as_secs() + 5;
        let forgotten = lost + unavailable_kept.as_secs() + 5;
        run(&mut state, 0..=lost);
        assert!(state.departed().contains_key(&id(0)));
        run(&mut state, lost..=forgotten);
        assert!(state.departed().is_empty(), "it is forgotten");
        let _ = state.register_worker(at(forgotten), 9, registration(id(0), 9));
        assert_eq!(state.standing(&id(0)), Some(Standing::Decommissioning));
        run(&mut state, forgotten..=forgotten + lost);
        let _ = state.forget_departed(at(forgotten + lost), &[id(0)]);
        let _ = state.register_worker(at(forgotten + lost), 10, registration(id(0), 10));
        assert_eq!(state.standing(&id(0)), Some(Standing::Available), "an operator has let it go");
    }

    #[test]
    fn a_restarted_worker_is_not_told_to_stop_again() {
        let mut state = state_of(1);
        let told = |state: &mut Logged, life| {
            let orders = state.worker_orders(NEWEST, &id(0), life, 0).expect("it is registered");
            orders.and_then(|orders| orders.command)
        };
        for (life, stop) in [(0, Command::StopNow), (1, Command::StopGracefully)] {
            let _ = state.command_workers(at(0), stop, &[id(0)]);
            assert_eq!(told(&mut state, life), Some(stop));
            // The order may not have reached a new connection of the same process yet.
            let _ = state.register_worker(at(1), 7, registration(id(0), life));
            assert_eq!(told(&mut state, life), Some(stop));
            let _ = state.register_worker(at(2), 8, registration(id(0), life + 1));
            assert_eq!(told(&mut state, life + 1), None);
        }
        // A worker that is to leave for good still is when it comes back.
        let _ = state.command_workers(at(3), Command::Decommission, &[id(0)]);
        let _ = state.register_worker(at(3), 9, registration(id(0), 3));
        assert_eq!(told(&mut state, 3), Some(Command::Decommission));
    }

    #[test]
    fn a_shuffle_given_up_in_its_applications_absence_stays_given_up() {
        let mut state = state_of(1);
        let application = ApplicationId::from("app");
        let _ = grant(&mut state, BTreeSet::new()).unwrap();
        let _ = state.remove_application(at(1), &application);
        let _ = state.unregister_shuffles(at(2), &application, &[ShuffleId(0)]);
        assert_eq!(state.application_heartbeat(at(3), pulse()).reply.unwrap().shuffles, []);
        // A worker that was away all the time comes back with its data.
        let _ = state.register_worker(at(4), 7, Registration { report: holding(), ..registration(id(7), 7) });
        assert_eq!(deletions_of(&state, 7), [ShuffleKey::new("app", 0)]);
    }

    #[test]
    fn only_locations_with_bytes_say_how_large_locations_are() {
        let mut state = state_of(1);
        let _ = grant(&mut state, BTreeSet::new()).unwrap();
        let held = |shuffle, locations, bytes| {
            let shuffle = ShuffleKey::new("app", shuffle);
            HeldShuffle { shuffle, locations, bytes }
        };
        let mut beat = |shuffles| {
            let report = Report { shuffles, ..Report::default() };
            assert!(state.worker_heartbeat(at(1), 0, &id(0), 0, report).reply.is_ok());
            state.applications()[&ApplicationId::from("app")].location_bytes
        };
        assert_eq!(beat(vec![held(0, 8, 0)]), None);
        assert_eq!(beat(vec![held(0, 8, 0), held(1, 2, 600), held(2, 4, 600)]), Some(200));
        assert_eq!(beat(vec![held(1, 2, 1200)]), Some(300), "the newer one weighs a quarter");
    }

    #[test]
    fn what_a_worker_has_deleted_is_not_counted() {
        let mut state = state_of(1);
        let _ = grant(&mut state, BTreeSet::new()).unwrap();
        let shuffles = [("app", 0, 1), ("app", 1, 20), ("other", 0, 300)];
        let shuffles = shuffles.map(|(application, shuffle, bytes)| {
            let shuffle = ShuffleKey::new(application, shuffle);
            HeldShuffle { shuffle, locations: bytes, bytes }
        });
        let report = Report { shuffles: shuffles.into(), ..Report::default() };
        assert!(state.worker_heartbeat(at(1), 0, &id(0), 0, report).reply.is_ok());
        let mut delete = |shuffle| {
            let _ = state.unregister_shuffles(at(2), &"app".into(), &[ShuffleId(shuffle)]);
            let sequence = state.worker_orders(NEWEST, &id(0), 0, 0).unwrap().expect("a deletion").sequence;
            assert_eq!(state.worker_orders(NEWEST, &id(0), 0, sequence), Ok(None));
            let held = state.workers[&id(0)].held();
            held.map(|(application, held)| (application.to_string(), held.bytes, held.locations))
                .collect::<Vec<_>>()
        };
        let other = ("other".to_owned(), 300, 300);
        assert_eq!(delete(0), [("app".to_owned(), 20, 20), other.clone()]);
        assert_eq!(delete(1), [other]);
    }

    #[test]
    fn a_number_is_used_again_only_where_nothing_of_it_is_left() {
        let mut state = state_of(2);
        let application = ApplicationId::from("app");
        let _ = grant(&mut state, BTreeSet::new()).unwrap();
        let _ = state.unregister_shuffles(at(1), &application, &[ShuffleId(0)]);
        let orders = |state: &Logged, worker: u16| state.workers[&id(worker)].orders.pending();
        let sequence = orders(&state, 0).expect("a deletion").sequence;
        assert_eq!(grant(&mut state, BTreeSet::new()), Err(SlotRefusal::NoWorker), "both still have it");
        assert_eq!(state.worker_orders(NEWEST, &id(0), 0, sequence), Ok(None));
        let granted = grant(&mut state, BTreeSet::new()).unwrap();
        assert!(granted.workers.iter().all(|(worker, _)| *worker == id(0)));
        assert!(orders(&state, 1).is_some(), "the other one is still to delete it");
    }

    #[test]
    fn a_number_is_not_used_again_on_a_worker_that_may_hear_a_dropped_order() {
        let mut state = state_of(1);
        state.limits.worker_deletions_max = 1;
        for shuffle in [0, 1] {
            let shuffle = ShuffleId(shuffle);
            let granted = state.request_slots(at(0), 5, SlotRequest { shuffle, ..request(BTreeSet::new()) });
            assert!(granted.reply.is_ok());
            let _ = state.unregister_shuffles(at(1), &ApplicationId::from("app"), &[shuffle]);
        }
        assert_eq!(deletions_of(&state, 0), [ShuffleKey::new("app", 1)]);
        assert_eq!(grant(&mut state, BTreeSet::new()), Err(SlotRefusal::NoWorker), "a reply may name it");
        assert_eq!(delete(&mut state, 0), [ShuffleKey::new("app", 1)]);
        assert!(grant(&mut state, BTreeSet::new()).is_ok());
    }

    #[test]
    fn a_restarted_master_uses_a_number_again_only_where_nothing_of_it_is_left() {
        for is_whole_application in [false, true] {
            let mut before = state_of(1);
            let _ = grant(&mut before, BTreeSet::new()).unwrap();
            let application = ApplicationId::from("app");
            let _ = if is_whole_application {
                before.remove_application(at(1), &application)
            } else {
                before.unregister_shuffles(at(1), &application, &[ShuffleId(0)])
            };
            let mut state = restarted(&before, at(2));
            assert_eq!(health_of(&mut state, Vec::new()).shuffles, []);
            assert_eq!(
                grant(&mut state, BTreeSet::new()),
                Err(SlotRefusal::NoWorker),
                "nobody knows what it has"
            );
            let back = Registration { report: holding(), ..registration(id(0), 0) };
            assert_eq!(state.register_worker(at(3), 7, back).wake, [id(0)]);
            assert_eq!(
                grant(&mut state, BTreeSet::new()),
                Err(SlotRefusal::NoWorker),
                "it may not have deleted it"
            );
            assert_eq!(delete(&mut state, 0), [ShuffleKey::new("app", 0)]);
            assert!(grant(&mut state, BTreeSet::new()).is_ok());
        }
    }

    #[test]
    fn a_request_that_is_repeated_finds_nothing_of_an_earlier_shuffle_either() {
        let mut before = state_of(3);
        let _ = grant(&mut before, BTreeSet::new()).unwrap();
        let _ = before.unregister_shuffles(at(1), &ApplicationId::from("app"), &[ShuffleId(0)]);
        let mut state = restarted(&before, at(2));
        let _ = state.register_worker(at(3), 0, registration(id(0), 0));
        let _ = state.register_worker(at(3), 1, holder(1));
        // The first answer was lost on its way, and the number is in use.
        for _ in 0..2 {
            assert_eq!(granted(&mut state), [id(0)].into(), "the others have it, or have yet to say");
        }
        let again = restarted(&state, at(4));
        let _ = state.register_worker(at(4), 2, holder(2));
        for worker in [1, 2] {
            assert_eq!(delete(&mut state, worker), [ShuffleKey::new("app", 0)]);
        }
        assert_eq!(granted(&mut state), [0, 1, 2].map(id).into());
        // Another process does not know which workers were listed.
        let mut state = again;
        for (worker, report) in [registration(id(0), 0), holder(1), holder(2)].into_iter().enumerate() {
            let _ = state.register_worker(at(5), worker as u64, report);
        }
        assert_eq!(granted(&mut state), [id(0)].into());
        let _ = state.unregister_shuffles(at(6), &ApplicationId::from("app"), &[ShuffleId(0)]);
        for worker in [0, 1, 2] {
            assert_eq!(delete(&mut state, worker), [ShuffleKey::new("app", 0)]);
        }
        assert_eq!(granted(&mut state), [0, 1, 2].map(id).into());
    }

    /// The registration of a worker that holds the application's first shuffle.
    fn holder(number: u16) -> Registration {
        Registration { report: holding(), ..registration(id(number), number.into()) }
    }

    /// The workers on which the application's first shuffle is granted.
    fn granted(state: &mut Logged) -> BTreeSet<WorkerId> {
        let granted = grant(state, BTreeSet::new()).unwrap().workers;
        granted.into_iter().map(|(worker, _)| worker).collect()
    }

    #[test]
    fn what_was_away_while_its_number_was_used_again_is_deleted_when_it_is_back() {
        let mut state = state_of(2);
        let _ = grant(&mut state, BTreeSet::new()).unwrap();
        let lost = state.limits.worker_timeout.as_secs();
        for second in (0..=lost).step_by(5) {
            assert!(state.worker_heartbeat(at(second), 0, &id(0), 0, holding()).reply.is_ok());
            let _ = state.expire(at(second));
        }
        assert_eq!(state.workers.len(), 1);
        let _ = state.unregister_shuffles(at(lost), &ApplicationId::from("app"), &[ShuffleId(0)]);
        assert_eq!(delete(&mut state, 0), [ShuffleKey::new("app", 0)]);
        assert_eq!(granted(&mut state), [id(0)].into());
        assert_eq!(state.register_worker(at(lost + 10), 9, holder(1)).wake, [id(1)]);
        assert_eq!(granted(&mut state), [id(0)].into());
        assert_eq!(delete(&mut state, 1), [ShuffleKey::new("app", 0)]);
        assert_eq!(granted(&mut state), [id(0), id(1)].into());
        // What they hold of it now belongs to this one.
        for (number, connection) in [(0, 0), (1, 9)] {
            let beat =
                state.worker_heartbeat(at(lost + 20), connection, &id(number), number.into(), holding());
            assert_eq!((beat.reply, beat.wake), (Ok(()), Vec::new()));
        }
        assert_eq!(granted(&mut state), [id(0), id(1)].into());
    }

    #[test]
    fn what_a_worker_is_to_delete_it_hears_once_and_as_an_order_only() {
        let mut state = state_of(1);
        let _ = grant(&mut state, BTreeSet::new()).unwrap();
        let _ = state.unregister_shuffles(at(1), &ApplicationId::from("app"), &[ShuffleId(0)]);
        let beat = |state: &mut Logged| {
            let beat = state.worker_heartbeat(at(2), 0, &id(0), 0, holding());
            (beat.reply, beat.wake)
        };
        assert_eq!(beat(&mut state), (Ok(()), Vec::new()), "it is on its way");
        assert_eq!(delete(&mut state, 0), [ShuffleKey::new("app", 0)]);
        // An earlier report arrives after that.
        assert_eq!(beat(&mut state), (Ok(()), vec![id(0)]));
        assert_eq!(grant(&mut state, BTreeSet::new()), Err(SlotRefusal::NoWorker));
        assert_eq!(delete(&mut state, 0), [ShuffleKey::new("app", 0)]);
        assert_eq!(granted(&mut state), [id(0)].into());
        assert_eq!(beat(&mut state), (Ok(()), Vec::new()), "nothing that is on its way is about another one");
    }

    #[test]
    fn a_driver_is_not_told_to_leave_too_many_alone() {
        for (replicate, excluded) in [(false, vec![id(0)]), (true, vec![])] {
            let mut state = state_of(2);
            let request = SlotRequest { replicate, ..request(BTreeSet::new()) };
            assert!(state.request_slots(at(0), 5, request).reply.is_ok());
            assert_eq!(state.worker_link_lost(0), [id(0)]);
            assert_eq!(health_of(&mut state, Vec::new()).excluded, excluded, "with copies: {replicate}");
            assert_eq!(state.worker_link_lost(1), [id(1)]);
            assert_eq!(health_of(&mut state, Vec::new()).excluded, []);
        }
    }

    #[test]
    fn a_client_that_wants_tags_gets_no_worker_unless_tags_are_ignored() {
        let mut state = state_of(3);
        let tagged = || SlotRequest { tagged: true, ..request(BTreeSet::new()) };
        let refused = state.request_slots(at(0), 5, tagged());
        assert_eq!((refused.reply, refused.records), (Err(SlotRefusal::NoTags), vec![]));
        state.limits.tags_enabled = false;
        assert!(state.request_slots(at(0), 5, tagged()).reply.is_ok());
    }

    #[test]
    fn a_stopped_worker_gets_nothing_and_is_named() {
        let mut state = state_of(3);
        let left = state.worker_leaves(at(0), &id(0), 0, Phase::Stopping, false);
        assert_eq!(left.reply, Ok(()));
        let health = health_of(&mut state, vec![id(9), id(0)]);
        assert_eq!((health.shutting, health.unknown), (vec![id(0)], vec![id(9)]));
        assert_eq!(state.standing(&id(0)), Some(Standing::Stopping));
        let granted = grant(&mut state, BTreeSet::new()).unwrap();
        assert!(granted.workers.iter().all(|(worker, _)| *worker != id(0)));
        let refused = grant(&mut state, (0..3).map(id).collect());
        assert_eq!(refused, Err(SlotRefusal::NoWorker));
    }
}
