//! Applications: registration, heartbeats, end.

use std::collections::BTreeSet;

use super::super::record::{RUNS_REMOVED_MAX, Record, User};
use super::ShuffleRun;
use super::{Application, Decision, Link, Now, Silent, Standing, State, Worker};
use crate::ids::{ApplicationId, ShuffleId, ShuffleKey, WorkerId};
use crate::stored_name::NotStorable;

/// The content of an application's heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplicationPulse {
    /// The application.
    pub application: ApplicationId,
    /// Workers that it uses and asks about.
    pub workers: Vec<WorkerId>,
}

/// The answer to an application's heartbeat.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApplicationHealth {
    /// Workers to use for nothing new.
    pub excluded: Vec<WorkerId>,
    /// Workers that it asked about and that are unknown.
    pub unknown: Vec<WorkerId>,
    /// Workers that are stopping or leaving: it should commit what they hold.
    pub shutting: Vec<WorkerId>,
    /// All its shuffles that the master knows.
    pub shuffles: Vec<ShuffleId>,
}

/// Why an application, or a shuffle of it, is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A limit on applications or shuffles is reached.
    #[error("the master's limit on applications or shuffles is reached")]
    Full,
    /// No worker could store its shuffles.
    #[error(transparent)]
    NotStorable(#[from] NotStorable),
}

impl State {
    /// An application's heartbeat. An unknown application becomes known: the journal's tail may have been lost in a restart,
    /// or the client never registers, as the JVM's.
    pub fn application_heartbeat(
        &mut self,
        now: Now,
        pulse: ApplicationPulse,
    ) -> Decision<Option<ApplicationHealth>> {
        let mut decision = Decision::of(None);
        let Ok(application) = self.hear(now, &pulse.application, &mut decision) else { return decision };
        let shuffles = application.shuffles.keys().copied().collect();
        let mut health = ApplicationHealth { shuffles, ..ApplicationHealth::default() };
        // A driver never uses a worker that is listed as excluded; with too few others its tasks would fail. Then it is not
        // listed, and the driver finds out itself.
        let workers_min = application.workers_min;
        let reached = self.workers_available();
        for (worker, held) in &self.workers {
            let list = match self.standing_of(worker, held) {
                Standing::Stopping | Standing::Decommissioning => &mut health.shutting,
                Standing::ExcludedByHand | Standing::WithoutStorage => &mut health.excluded,
                Standing::Unreached if reached >= workers_min => &mut health.excluded,
                Standing::Unreached | Standing::Unconfirmed | Standing::Saturated | Standing::Available => {
                    continue;
                }
            };
            list.extend(held.names(worker));
        }
        health.unknown = pulse.workers.into_iter().filter(|worker| self.known_as(worker).is_none()).collect();
        decision.reply = Some(health);
        decision
    }

    /// An application ended: all its shuffles, also those from before a silence, may be deleted at once, and do not come
    /// back with another application of its name.
    pub fn remove_application(&mut self, now: Now, application: &ApplicationId) -> Decision<()> {
        let shuffles: Vec<ShuffleId> = self.known_shuffles(application).into_iter().collect();
        let mut decision = self.unregister_shuffles(now, application, &shuffles);
        self.let_go(now, application, false, &mut decision);
        decision
    }

    /// Shuffles that the application no longer needs: deleted at once. Unknown ones get a removal too: a worker may hold
    /// one that a lost journal does not name, and its next report brings it the order.
    pub fn unregister_shuffles(
        &mut self,
        now: Now,
        application: &ApplicationId,
        shuffles: &[ShuffleId],
    ) -> Decision<()> {
        let mut decision = Decision::of(());
        let known = self.applications.get(application);
        let is_news = |id: &ShuffleId| {
            let shuffle = ShuffleKey { application: application.clone(), shuffle: *id };
            known.is_some_and(|known| known.shuffles.contains_key(id)) || !self.removals.has_shuffle(&shuffle)
        };
        let removed: BTreeSet<ShuffleId> = shuffles.iter().copied().filter(is_news).collect();
        let removed: Vec<ShuffleId> = removed.into_iter().collect();
        decision.wake = self.order_deletion(application, &removed, false);
        for runs in ShuffleRun::all_of(removed).chunks(RUNS_REMOVED_MAX) {
            let (application, runs) = (application.clone(), runs.to_vec());
            let record = Record::ShufflesRemoved { application, runs, at_unix_ms: now.unix_ms };
            self.commit(now, &mut decision, record);
        }
        decision
    }

    /// An application lists shuffles that the master has lost: as many are registered again as there is room for.
    pub fn revise_shuffles(
        &mut self,
        now: Now,
        application: &ApplicationId,
        shuffles: &[ShuffleId],
    ) -> Decision<Result<(), Refusal>> {
        let mut decision = Decision::of(Ok(()));
        // It counts as a sign of life: a client of 0.6.0 to 0.6.3 cannot read the answer and asks for minutes, and sends no
        // heartbeat meanwhile.
        let held = match self.hear(now, application, &mut decision) {
            Ok(held) => held,
            Err(refusal) => {
                decision.reply = Err(refusal);
                return decision;
            }
        };
        let known = &held.shuffles;
        let lost: BTreeSet<&ShuffleId> = shuffles.iter().filter(|id| !known.contains_key(*id)).collect();
        let key = |id: &ShuffleId| ShuffleKey { application: application.clone(), shuffle: *id };
        let mut lost: Vec<ShuffleKey> = lost.into_iter().map(key).collect();
        let room = self.limits.shuffles_max.saturating_sub(self.slots.shuffles());
        if lost.len() > room {
            decision.reply = Err(Refusal::Full);
            lost.truncate(room);
        }
        self.take_back_deletions(&lost);
        for shuffle in lost {
            let record = Record::shuffle_registered(shuffle, now.unix_ms);
            self.commit(now, &mut decision, record);
        }
        decision
    }

    /// Removes applications that have been silent for too long.
    pub(super) fn expire_applications(&mut self, now: Now, decision: &mut Decision<Silent>) {
        let timeout = self.limits.application_timeout;
        let silent: Vec<ApplicationId> = self
            .applications
            .iter()
            .filter(|(_, held)| self.listened.saturating_sub(held.heard) >= timeout)
            .map(|(application, _)| application.clone())
            .collect();
        for application in &silent {
            self.let_go(now, application, true, decision);
        }
        decision.reply.applications = silent;
    }

    /// An application was heard; if unknown it becomes known.
    ///
    /// # Errors
    /// It is unknown and not taken.
    pub(super) fn hear<T>(
        &mut self,
        now: Now,
        application: &ApplicationId,
        decision: &mut Decision<T>,
    ) -> Result<&mut Application, Refusal> {
        if !self.applications.contains_key(application) {
            self.check_new(application)?;
            let record = Record::ApplicationRegistered {
                application: application.clone(),
                user: User::default(),
                properties: Vec::new(),
                lives: Vec::new(),
                at_unix_ms: now.unix_ms,
            };
            self.commit(now, decision, record);
        }
        let heard = self.listened_by(now);
        let held = self.applications.get_mut(application).expect("it is registered");
        held.heard = heard;
        held.heartbeat_unix_ms = now.unix_ms;
        Ok(held)
    }

    /// Whether an unknown application may become known.
    pub(super) fn check_new(&self, application: &ApplicationId) -> Result<(), Refusal> {
        application.check_storable()?;
        if self.applications.len() < self.limits.applications_max { Ok(()) } else { Err(Refusal::Full) }
    }

    /// Sets the user of a known application, unless it has one already.
    pub(super) fn name_user<T>(
        &mut self,
        now: Now,
        application: &ApplicationId,
        user: User,
        decision: &mut Decision<T>,
    ) {
        let held = &self.applications[application];
        if held.user == User::default() && user != held.user {
            let (properties, lives) = (held.properties.clone(), held.lives.clone());
            let (application, at_unix_ms) = (application.clone(), held.registered_unix_ms);
            let record = Record::ApplicationRegistered { application, user, properties, lives, at_unix_ms };
            self.commit(now, decision, record);
        }
    }

    /// Cancels orders to delete shuffles that turn out to be needed.
    pub(super) fn take_back_deletions(&mut self, shuffles: &[ShuffleKey]) {
        if shuffles.is_empty() {
            return;
        }
        for worker in self.workers.values_mut().filter(|worker| worker.orders.has_deletions()) {
            shuffles.iter().for_each(|shuffle| worker.orders.keep(shuffle));
        }
    }

    /// Removes an application with all its shuffles. The end of an unknown one matters too: it may have been silent before,
    /// and workers may still report its shuffles.
    fn let_go<T>(&mut self, now: Now, application: &ApplicationId, silent: bool, decision: &mut Decision<T>) {
        let shuffles: Vec<ShuffleId> = match self.applications.get(application) {
            Some(known) => known.shuffles.keys().copied().collect(),
            None if silent || self.removals.has_application(application) => return,
            None => Vec::new(),
        };
        decision.wake.extend(self.order_deletion(application, &shuffles, silent));
        let (application, at_unix_ms) = (application.clone(), now.unix_ms);
        self.commit(now, decision, Record::ApplicationRemoved { application, at_unix_ms, silent });
    }

    /// Orders every worker that may hold the shuffles to delete them; if the application is only `silent`, every such worker
    /// that is not silent itself. Returns the workers that have new orders.
    fn order_deletion(
        &mut self,
        application: &ApplicationId,
        shuffles: &[ShuffleId],
        silent: bool,
    ) -> Vec<WorkerId> {
        let Some(known) = self.applications.get(application) else { return Vec::new() };
        let deletions_max = self.limits.worker_deletions_max;
        let mut wake = BTreeSet::new();
        for id in shuffles {
            let Some(shuffle) = known.shuffles.get(id) else { continue };
            let mut order = |worker: &WorkerId, state: &mut Worker| {
                if !(silent && state.link == Link::Broken) {
                    let shuffle = ShuffleKey { application: application.clone(), shuffle: *id };
                    state.orders.delete(shuffle, deletions_max);
                    wake.insert(worker.clone());
                }
            };
            // Most shuffles are on few workers: going through all workers for each of thousands would take too long.
            match &shuffle.listed {
                listed if shuffle.is_list_whole => {
                    for worker in listed {
                        if let Some(state) = self.workers.get_mut(worker) {
                            order(worker, state);
                        }
                    }
                }
                _ => self.workers.iter_mut().for_each(|(worker, state)| order(worker, state)),
            }
        }
        wake.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::scene::{
        Logged, NEWEST, at, delete, deletions_of, grant, holding, id, pulse, registration, request,
        restarted, run, state_of,
    };
    use super::super::{ApplicationRegistration, Limits, NAMED_MAX, SlotRefusal, SlotRequest};
    use super::*;
    use crate::report::{HeldShuffle, Registration, Report};

    /// A worker is heard on a connection, and the master checks its timeouts. Returns what the worker is to delete.
    fn beat(
        state: &mut Logged,
        second: u64,
        connection: u64,
        worker: u16,
        report: Report,
    ) -> Vec<ShuffleKey> {
        let heard = state.worker_heartbeat(at(second), connection, &id(worker), worker.into(), report);
        assert_eq!(heard.reply, Ok(()));
        let _ = state.expire(at(second));
        deletions_of(state, worker)
    }

    #[test]
    fn an_application_has_the_user_that_it_names_first() {
        let now = at(1);
        let mut state = state_of(1);
        let user = |name: &str| User { tenant: "t".to_owned(), name: name.to_owned() };
        let app = pulse().application;
        let ask = |state: &mut Logged, user| {
            let asked = state.request_slots(now, 5, SlotRequest { user, ..request([].into()) });
            assert!(asked.reply.is_ok());
            asked.records.len()
        };
        assert_eq!(ask(&mut state, User::default()), 2, "the application and its shuffle");
        assert_eq!(state.applications()[&app].heartbeat_unix_ms, now.unix_ms, "it was heard");
        assert_eq!([user("a"), User::default(), user("b")].map(|user| ask(&mut state, user)), [1, 0, 0]);
        let properties = vec![("key".to_owned(), "value".to_owned())];
        let registered = ApplicationRegistration {
            user: user("a"),
            properties: properties.clone(),
            ..ApplicationRegistration::of(app.clone())
        };
        assert!(state.register_application(now, registered).reply.is_ok());
        assert_eq!(restarted(&state, now).applications()[&app].properties, properties);
        assert_eq!(state.applications()[&app].user, user("a"));
    }

    #[test]
    fn a_master_that_was_cut_off_deletes_nothing_of_an_application_that_comes_back() {
        let Limits { application_timeout, worker_timeout, .. } = Limits::default();
        let timeout = application_timeout.as_secs();
        let long = worker_timeout.as_secs() + 2 * timeout + 10;
        for silence in [timeout - 10, timeout, long] {
            let mut cut_off = state_of(1);
            let _ = grant(&mut cut_off, BTreeSet::new()).unwrap();
            run(&mut cut_off, 0..=silence);
            assert!(cut_off.workers().is_empty(), "it heard nobody for {silence} s");
            assert_eq!(cut_off.applications().is_empty(), silence == long);
            let again = restarted(&cut_off, at(silence));
            for mut state in [cut_off, again] {
                // Workers' connections are back before the driver's, whose requests fail first.
                let back = Registration { report: holding(), ..registration(id(0), 0) };
                assert!(state.register_worker(at(silence + 1), 7, back).reply);
                for second in (silence + 5..silence + 70).step_by(5) {
                    assert_eq!(beat(&mut state, second, 7, 0, holding()), []);
                    assert_eq!(state.worker_orders(NEWEST, &id(0), 0, 0), Ok(None), "{second} s");
                }
                assert!(state.application_heartbeat(at(silence + 70), pulse()).reply.is_some());
                assert_eq!(beat(&mut state, silence + 71, 7, 0, holding()), []);
                assert!(state.applications()[&pulse().application].shuffles.contains_key(&ShuffleId(0)));
            }
        }
    }

    /// In seconds: the timeouts of an application and of a worker, and the silence after which a worker is quiet.
    fn limits() -> [u64; 3] {
        let Limits { application_timeout, worker_timeout, worker_quiet, .. } = Limits::default();
        [application_timeout, worker_timeout, worker_quiet].map(|limit| limit.as_secs())
    }

    /// Whether the worker is ordered to delete something.
    fn is_told(state: &mut Logged, number: u16) -> bool {
        state.worker_orders(NEWEST, &id(number), number.into(), 0).unwrap().is_some()
    }

    /// Until `end` the master hears one of three workers, and nobody else.
    fn cut_off_with_a_worker_until(end: u64) -> Logged {
        let mut state = state_of(3);
        state.limits.unavailable_kept = Duration::from_secs(10);
        let _ = grant(&mut state, BTreeSet::new()).unwrap();
        // It also holds a shuffle that nobody knows.
        let mut report = holding();
        report.shuffles.push(HeldShuffle { shuffle: ShuffleKey::new("other", 0), locations: 1, bytes: 1 });
        for second in (0..=end).step_by(5) {
            assert_eq!(beat(&mut state, second, 0, 0, report.clone()), [], "{second} s");
            assert!(!is_told(&mut state, 0), "{second} s");
        }
        assert_eq!((state.workers().len(), state.applications().len()), (1, 1));
        state
    }

    #[test]
    fn a_master_that_hears_only_a_worker_beside_it_may_be_cut_off_with_it() {
        let [timeout, lost, quiet] = limits();
        let end = lost + 2 * timeout - quiet;
        let mut state = cut_off_with_a_worker_until(end - 5);
        let deleted = beat(&mut state, end, 0, 0, holding());
        assert_eq!(deleted, [ShuffleKey::new("app", 0)], "the others may be gone for good");
    }

    #[test]
    fn a_master_that_is_no_longer_cut_off_gives_applications_the_rest_of_their_time() {
        let [timeout, _, quiet] = limits();
        let mut state = cut_off_with_a_worker_until(timeout);
        for number in [1, 2] {
            let back = registration(id(number), number.into());
            assert!(state.register_worker(at(timeout + 1), number.into(), back).reply);
        }
        let mut beats = |second| {
            let _ = [0, 1, 2].map(|number| beat(&mut state, second, number.into(), number, holding()));
            [0, 1, 2].map(|number| is_told(&mut state, number))
        };
        let end = 2 * timeout + 5 - quiet;
        let silence = (timeout + 5..end).step_by(5);
        silence.for_each(|second| assert_eq!(beats(second), [false; 3], "{second} s"));
        assert_eq!(beats(end), [true; 3]);
    }

    #[test]
    fn a_worker_that_dies_again_and_again_stops_no_end() {
        let mut state = state_of(3);
        let _ = grant(&mut state, BTreeSet::new()).unwrap();
        let [timeout, ..] = limits();
        for second in (0..timeout + 100).step_by(5) {
            if second % 30 == 0 {
                // With free ports it is another worker each time.
                let worker = WorkerId { rpc_port: 100 + second as u16, ..id(9) };
                let registered = state.register_worker(at(second), 9, registration(worker, second));
                assert!(registered.reply);
            }
            let _ = [0, 1, 2].map(|number| beat(&mut state, second, number.into(), number, holding()));
        }
        assert!(state.departed().len() > 3 && state.workers().len() > 6);
        assert!(state.applications().is_empty());
    }

    #[test]
    fn a_worker_that_is_away_again_and_again_stops_no_end() {
        let mut state = state_of(2);
        let _ = grant(&mut state, BTreeSet::new()).unwrap();
        let [timeout, ..] = limits();
        for second in (0..timeout + 100).step_by(5) {
            let there = if second % 240 < 30 { 0..1 } else { 0..2 };
            there.for_each(|number| drop(beat(&mut state, second, number.into(), number, holding())));
        }
        assert!(state.applications().is_empty());
    }

    #[test]
    fn data_of_an_application_that_stays_silent_goes() {
        let mut state = state_of(1);
        let _ = grant(&mut state, BTreeSet::new()).unwrap();
        let timeout = state.limits.application_timeout.as_secs();
        for second in (0..timeout).step_by(5) {
            assert_eq!(beat(&mut state, second, 0, 0, holding()), []);
            assert_eq!(state.worker_orders(NEWEST, &id(0), 0, 0), Ok(None));
        }
        assert_eq!(beat(&mut state, timeout, 0, 0, holding()), [ShuffleKey::new("app", 0)]);
        assert_eq!(delete(&mut state, 0), [ShuffleKey::new("app", 0)]);
        // A worker that was away keeps its data for as long as the application may be silent.
        let back = Registration { report: holding(), ..registration(id(1), 1) };
        assert!(state.register_worker(at(timeout), 8, back).reply);
        let mut beats = |second| {
            assert_eq!(beat(&mut state, second, 0, 0, Report::default()), []);
            beat(&mut state, second, 8, 1, holding())
        };
        (timeout..2 * timeout).step_by(5).for_each(|second| assert_eq!(beats(second), []));
        assert_eq!(beats(2 * timeout), [ShuffleKey::new("app", 0)]);
    }

    #[test]
    fn an_application_has_its_time_from_when_it_was_heard() {
        let [timeout, ..] = limits();
        // Once between two checks; and once right after a pause, which gives it only a moment.
        for (heard, end) in [(9, timeout + 10), (36_000, 36_000 + timeout + 15)] {
            let mut state = state_of(1);
            let _ = [0, 5].map(|second| beat(&mut state, second, 0, 0, Report::default()));
            assert!(state.application_heartbeat(at(heard), pulse()).reply.is_some());
            for second in (heard.next_multiple_of(5)..=end).step_by(5) {
                assert_eq!(beat(&mut state, second, 0, 0, Report::default()), []);
                assert_eq!(state.applications().is_empty(), second == end, "{second} s");
            }
        }
    }

    /// An application is removed for its silence, while one of three workers is silent too.
    fn let_go_without_the_first_worker() -> (Logged, u64) {
        let mut state = state_of(3);
        state.limits.worker_timeout = 2 * state.limits.application_timeout;
        let _ = grant(&mut state, BTreeSet::new()).unwrap();
        let timeout = state.limits.application_timeout.as_secs();
        for second in (0..=timeout).step_by(5) {
            let _ = [1, 2].map(|number| beat(&mut state, second, number.into(), number, holding()));
        }
        assert!(state.applications().is_empty() && state.workers().len() == 3);
        (state, timeout)
    }

    #[test]
    fn a_worker_that_is_silent_together_with_its_application_is_not_told_to_delete() {
        let (mut state, _) = let_go_without_the_first_worker();
        assert_eq!([0, 1, 2].map(|number| is_told(&mut state, number)), [false, true, true]);
    }

    #[test]
    fn an_application_that_was_let_go_may_still_say_that_it_has_ended() {
        let (state, end) = let_go_without_the_first_worker();
        let application = pulse().application;
        for mut state in [restarted(&state, at(end)), state] {
            assert_eq!(state.remove_application(at(end), &application).records.len(), 2);
            assert_eq!(state.remove_application(at(end), &application).records, [], "it is known");
            let again = restarted(&state, at(end));
            // Another application may have its name by now, and has nothing of it.
            assert_eq!(state.application_heartbeat(at(end), pulse()).records.len(), 1);
            for mut state in [again, restarted(&state, at(end)), state] {
                let back = Registration { report: holding(), ..registration(id(0), 0) };
                assert!(state.register_worker(at(end), 7, back).reply);
                assert_eq!(deletions_of(&state, 0), [ShuffleKey::new("app", 0)]);
                assert_eq!(state.shuffle_count(), 0);
            }
        }
    }

    #[test]
    fn a_snapshot_keeps_what_was_let_go_from_an_application_that_is_back() {
        let (mut state, end) = let_go_without_the_first_worker();
        for is_back in [false, true] {
            if is_back {
                assert!(state.application_heartbeat(at(end), pulse()).reply.is_some());
            }
            let mut again = State::new(Limits::default());
            restarted(&state, at(end)).records().iter().for_each(|record| again.apply(at(end), record));
            assert_eq!(again.applications().len(), usize::from(is_back));
            assert_eq!(again.remove_application(at(end), &pulse().application).records.len(), 2);
        }
    }

    #[test]
    fn an_order_to_delete_what_is_adopted_is_taken_back() {
        let mut state = state_of(1);
        let _ = grant(&mut state, BTreeSet::new()).unwrap();
        let end = state.limits.application_timeout.as_secs();
        (0..=end).step_by(5).for_each(|second| drop(beat(&mut state, second, 0, 0, holding())));
        assert!(state.applications().is_empty() && state.workers[&id(0)].orders.pending().is_some());
        assert!(state.application_heartbeat(at(end), pulse()).reply.is_some());
        assert_eq!(beat(&mut state, end, 0, 0, holding()), []);
        assert!(state.applications()[&pulse().application].shuffles.contains_key(&ShuffleId(0)));
        assert_eq!(state.worker_orders(NEWEST, &id(0), 0, 0), Ok(None));
        assert_eq!(restarted(&state, at(end)).shuffle_count(), 1);
    }

    #[test]
    fn what_an_application_misses_is_registered_again() {
        let mut state = state_of(1);
        state.limits.shuffles_max = 2;
        let _ = grant(&mut state, BTreeSet::new()).unwrap();
        let application = pulse().application;
        let _ = state.unregister_shuffles(at(1), &application, &[ShuffleId(0)]);
        assert!(state.workers[&id(0)].orders.pending().is_some());
        let mut revise = |shuffles: [i32; 3]| {
            let revised = state.revise_shuffles(at(2), &application, &shuffles.map(ShuffleId));
            (revised.reply, revised.records.len())
        };
        assert_eq!(revise([1, 0, 1]), (Ok(()), 2));
        assert_eq!(revise([1, 0, 2]), (Err(Refusal::Full), 0), "there is no room");
        assert_eq!(revise([1, 0, 1]), (Ok(()), 0), "nothing is lost");
        assert_eq!(state.worker_orders(NEWEST, &id(0), 0, 0), Ok(None));
        assert_eq!(restarted(&state, at(2)).shuffle_count(), 2);
    }

    #[test]
    fn an_application_that_no_worker_could_store_is_not_taken() {
        let mut state = state_of(1);
        for (id, taken) in [
            ("a".repeat(200), true),
            ("a".repeat(201), false),
            ("é".repeat(33), true),
            ("é".repeat(34), false),
        ] {
            let application = ApplicationId::from(id);
            let expected = application.check_storable().map_err(Refusal::from);
            assert_eq!(expected.is_ok(), taken);
            let asked = SlotRequest { application: application.clone(), ..request([].into()) };
            let granted = state.request_slots(at(0), 5, asked).reply;
            assert_eq!(granted.map(drop), expected.map_err(SlotRefusal::from));
            assert_eq!(state.revise_shuffles(at(0), &application, &[ShuffleId(1)]).reply, expected);
            let registered = ApplicationRegistration::of(application.clone());
            let registered = state.register_application(at(0), registered);
            assert_eq!(registered.reply.map(drop), expected);
            let pulse = ApplicationPulse { application: application.clone(), workers: vec![] };
            assert_eq!(state.application_heartbeat(at(0), pulse).reply.is_some(), taken);
            assert_eq!(state.applications().contains_key(&application), taken);
        }
        assert_eq!(state.applications().len(), 2);
    }

    #[test]
    fn an_application_that_lists_its_lost_shuffles_lives() {
        let mut state = state_of(1);
        let _ = grant(&mut state, BTreeSet::new()).unwrap();
        let application = pulse().application;
        let timeout = state.limits.application_timeout.as_secs();
        for second in (0..3 * timeout).step_by(5) {
            if second % (timeout / 2) == 0 {
                assert_eq!(state.revise_shuffles(at(second), &application, &[ShuffleId(0)]).reply, Ok(()));
                assert_eq!(state.applications()[&application].heartbeat_unix_ms, at(second).unix_ms);
            }
            assert_eq!(beat(&mut state, second, 0, 0, holding()), []);
        }
        assert!(state.applications().contains_key(&application));
    }

    #[test]
    fn many_shuffles_that_nobody_knows_take_few_records_and_no_orders() {
        many_shuffles_that_nobody_knows(1, 1);
        many_shuffles_that_nobody_knows(2, NAMED_MAX / RUNS_REMOVED_MAX);
    }

    /// Numbers `step` apart.
    fn many_shuffles_that_nobody_knows(step: usize, records: usize) {
        let mut state = state_of(3);
        let _ = grant(&mut state, BTreeSet::new()).unwrap();
        let application = pulse().application;
        let many = (0..(step * NAMED_MAX) as i32).step_by(step).rev().chain([0, step as i32]);
        let many: Vec<ShuffleId> = many.map(ShuffleId).collect();
        let removed = state.unregister_shuffles(at(1), &application, &many);
        assert_eq!(removed.records.len(), records);
        assert_eq!(removed.wake, [id(0), id(1), id(2)], "each once");
        for number in 0..3 {
            let orders = state.workers[&id(number)].orders.pending().expect("the shuffle that was there");
            assert_eq!(orders.expired, [ShuffleKey::new("app", 0)]);
        }
        for mut state in [restarted(&state, at(1)), state] {
            assert_eq!(state.unregister_shuffles(at(2), &application, &many).records, []);
            let late = HeldShuffle { shuffle: ShuffleKey::new("app", 4096), locations: 1, bytes: 1 };
            let report = Report { shuffles: vec![late], ..Report::default() };
            let back = Registration { report, ..registration(id(7), 7) };
            assert_eq!(state.register_worker(at(3), 7, back).wake, [id(7)]);
            assert_eq!(deletions_of(&state, 7), [ShuffleKey::new("app", 4096)]);
        }
    }

    #[test]
    fn a_restarted_master_does_not_know_how_many_workers_a_driver_needs() {
        let mut before = state_of(2);
        let _ = grant(&mut before, BTreeSet::new()).unwrap();
        let mut state = restarted(&before, at(0));
        for number in 0..2 {
            let _ = state.register_worker(at(0), number.into(), registration(id(number), number.into()));
        }
        assert_eq!(state.worker_link_lost(0), [id(0)]);
        let excluded = |state: &mut Logged| {
            let health = state.application_heartbeat(at(0), pulse()).reply;
            health.unwrap().excluded
        };
        assert_eq!(excluded(&mut state), [], "it may want two copies of everything");
        let _ = grant(&mut state, BTreeSet::new()).unwrap();
        assert_eq!(excluded(&mut state), [id(0)], "it does not");
    }
}
