//! The lives of an application: each driver that registers under its name begins one.
//!
//! An application may come back under its name after a crash, without having ended its shuffles: Sail's sessions do, and a
//! driver with a fixed application id. Its first shuffle then has the number that the first one of its earlier life had. So
//! a registration removes what was there before, as if it had been unregistered: the records are kept before the answer
//! leaves, workers are ordered to delete, and those that may hold something of an earlier shuffle are granted to none of its
//! number.
//!
//! A registration is no new life if it repeats an earlier one, with the same id: its answer was lost, or the client of 0.6
//! sent it again over another connection. What was registered over the registration's own connection stays: a client of 0.6
//! does not wait for the answer, and its first shuffle may overtake a registration that it has to repeat.

use std::collections::BTreeSet;

use super::super::record::{LIVES_MAX, LifeId, PROPERTIES_MAX, Record, User};
use super::{Decision, Link, Now, Refusal, State};
use crate::ids::{ApplicationId, ShuffleId};

/// The longest key, and the longest value, of a property that is kept, in bytes.
const PROPERTY_BYTES_MAX: usize = 4096;

/// An application's registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplicationRegistration {
    /// The application.
    pub application: ApplicationId,
    /// Its user.
    pub user: User,
    /// Properties for people, of which [`PROPERTIES_MAX`] are kept.
    pub properties: Vec<(String, String)>,
    /// The life that begins; `None` from a client whose requests have no ids, and then none begins.
    pub life: Option<LifeId>,
    /// The connection on which it was sent.
    pub connection: u64,
}

impl State {
    /// An application registers. Returns how many shuffles of its earlier lives are removed for that.
    pub fn register_application(
        &mut self,
        now: Now,
        registration: ApplicationRegistration,
    ) -> Decision<Result<usize, Refusal>> {
        let ApplicationRegistration { application, user, mut properties, life, connection } = registration;
        let fits = |text: &String| text.len() <= PROPERTY_BYTES_MAX;
        properties.retain(|(key, value)| fits(key) && fits(value));
        properties.truncate(PROPERTIES_MAX);
        let mut decision = Decision::of(Ok(0));
        let known = self.applications.get(&application);
        if known.is_none()
            && let Err(refusal) = self.check_new(&application)
        {
            decision.reply = Err(refusal);
            return decision;
        }
        let mut lives = known.map_or_else(Vec::new, |known| known.lives.clone());
        if let Some(life) = life.filter(|life| !lives.contains(life)) {
            let earlier = self.of_earlier_lives(&application, connection);
            let Decision { records, wake, reply: () } = self.unregister_shuffles(now, &application, &earlier);
            decision = Decision { reply: Ok(earlier.len()), records, wake };
            if lives.len() >= LIVES_MAX {
                lives.remove(0);
            }
            lives.push(life);
        }
        let heard = self.listened_by(now);
        if let Some(held) = self.applications.get_mut(&application) {
            held.heard = heard;
            held.heartbeat_unix_ms = now.unix_ms;
            if held.user == user && held.properties == properties && held.lives == lives {
                return decision;
            }
        }
        let at_unix_ms = now.unix_ms;
        let record = Record::ApplicationRegistered { application, user, properties, lives, at_unix_ms };
        self.commit(now, &mut decision, record);
        decision
    }

    /// Whether a worker that can be reached has yet to delete a shuffle of the application.
    pub fn is_deleting_of(&self, application: &ApplicationId) -> bool {
        let mut workers = self.workers.values();
        workers.any(|held| matches!(held.link, Link::Up(_)) && held.orders.deletes_of(application))
    }

    /// Every shuffle that is known of the application or that a worker reports, but for those that were registered over the
    /// connection.
    fn of_earlier_lives(&self, application: &ApplicationId, connection: u64) -> Vec<ShuffleId> {
        let mut found: BTreeSet<ShuffleId> = self.known_shuffles(application);
        for worker in self.workers.values() {
            found.extend(worker.held.get(application).into_iter().flat_map(|held| held.keys()));
        }
        if let Some(known) = self.applications.get(application) {
            let is_of_this = |id: &ShuffleId| {
                known.shuffles.get(id).is_some_and(|shuffle| shuffle.connection == Some(connection))
            };
            found.retain(|id| !is_of_this(id));
        }
        found.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::scene::{
        Logged, NEWEST, at, delete, deletions_of, grant, holding, id, pulse, registration, request,
        restarted, state_of,
    };
    use super::super::{SlotRefusal, SlotRequest};
    use super::*;
    use crate::ids::ShuffleKey;
    use crate::report::{HeldShuffle, Registration, Report};

    fn registered(life: &str, connection: u64) -> ApplicationRegistration {
        let life = LifeId::new(life);
        ApplicationRegistration { life, connection, ..ApplicationRegistration::of(pulse().application) }
    }

    fn register(state: &mut Logged, second: u64, life: &str, connection: u64) -> usize {
        state.register_application(at(second), registered(life, connection)).reply.unwrap()
    }

    fn ask(state: &mut Logged, shuffle: i32, connection: u64) -> Result<usize, SlotRefusal> {
        let wanted = SlotRequest { shuffle: ShuffleId(shuffle), connection, ..request([].into()) };
        state.request_slots(at(2), 5, wanted).reply.map(|grant| grant.workers.len())
    }

    fn beat(state: &mut Logged, report: Report) {
        assert_eq!(state.worker_heartbeat(at(2), 0, &id(0), 0, report).reply, Ok(()));
    }

    #[test]
    fn an_application_that_comes_back_finds_nothing_of_its_earlier_life() {
        let mut state = state_of(1);
        assert_eq!(register(&mut state, 0, "a#0", 1), 0);
        assert_eq!([1, 2].map(|shuffle| ask(&mut state, shuffle, 1)), [Ok(1), Ok(1)]);
        assert_eq!(register(&mut state, 1, "b#0", 2), 2);
        for state in [restarted(&state, at(1)), state] {
            let mut state = state;
            assert_eq!(state.shuffle_count(), 0, "that is durable");
            let back = Registration { report: held(&[1, 2]), ..registration(id(0), 0) };
            let _ = state.register_worker(at(2), 0, back);
            assert!(state.is_deleting_of(&pulse().application));
            let wanted = SlotRequest { shuffle: ShuffleId(1), ..request([].into()) };
            assert!(state.awaits_deletion(&wanted));
            assert_eq!(ask(&mut state, 1, 2), Err(SlotRefusal::NoWorker), "the worker has the earlier one");
            let names = [1, 2].map(|shuffle| ShuffleKey::new("app", shuffle));
            assert_eq!(delete(&mut state, 0), names);
            assert!(!state.is_deleting_of(&pulse().application) && !state.awaits_deletion(&wanted));
            assert_eq!(ask(&mut state, 1, 2), Ok(1));
            beat(&mut state, held(&[1]));
            assert_eq!(deletions_of(&state, 0), [], "it is the new one");
        }
    }

    fn held(shuffles: &[i32]) -> Report {
        let held =
            |shuffle: &i32| HeldShuffle { shuffle: ShuffleKey::new("app", *shuffle), locations: 1, bytes: 1 };
        Report { shuffles: shuffles.iter().map(held).collect(), ..holding() }
    }

    #[test]
    fn a_registration_that_is_repeated_begins_no_life() {
        let mut state = state_of(1);
        let _ = register(&mut state, 0, "a#0", 1);
        assert_eq!(ask(&mut state, 0, 1), Ok(1));
        for mut state in [restarted(&state, at(1)), state] {
            assert_eq!(register(&mut state, 1, "a#0", 2), 0, "over another connection, too");
            assert_eq!(state.shuffle_count(), 1);
            // Nor does one of an earlier life that was long under way.
            assert_eq!(register(&mut state, 1, "b#0", 3), 1);
            assert_eq!(ask(&mut state, 7, 3), Ok(1));
            assert_eq!(register(&mut state, 1, "a#0", 4), 0);
            assert_eq!(register(&mut state, 1, "", 4), 0, "a client whose requests have no ids");
            assert_eq!(state.shuffle_count(), 1);
        }
    }

    #[test]
    fn what_was_registered_over_the_same_connection_is_of_the_same_life() {
        let mut state = state_of(1);
        let _ = register(&mut state, 0, "a#0", 1);
        assert_eq!([0, 1].map(|shuffle| ask(&mut state, shuffle, 1)), [Ok(1), Ok(1)]);
        // A client of 0.6 does not wait for the answer to its registration.
        assert_eq!(ask(&mut state, 2, 2), Ok(1));
        assert_eq!(register(&mut state, 1, "b#0", 2), 2);
        let left: Vec<_> = state.applications()[&pulse().application].shuffles.keys().copied().collect();
        assert_eq!(left, [ShuffleId(2)]);
    }

    #[test]
    fn what_an_earlier_life_left_under_a_number_in_use_goes_with_the_number_after_a_restart() {
        let mut state = state_of(1);
        let _ = register(&mut state, 0, "a#0", 1);
        assert_eq!(ask(&mut state, 1, 1), Ok(1));
        assert_eq!(register(&mut state, 1, "b#0", 2), 1);
        let other = registration(id(7), 7);
        assert!(state.register_worker(at(2), 7, other.clone()).reply);
        assert_eq!(ask(&mut state, 1, 2), Ok(1), "only the one that has nothing of the earlier one");
        let mut again = restarted(&state, at(2));
        let back = Registration { report: held(&[1]), ..registration(id(0), 0) };
        assert!(state.register_worker(at(2), 0, back.clone()).reply);
        let name = ShuffleKey::new("app", 1);
        assert_eq!(
            deletions_of(&state, 0),
            std::slice::from_ref(&name),
            "this process knows whom it has listed"
        );
        assert!(again.register_worker(at(2), 0, back).reply);
        assert_eq!(deletions_of(&again, 0), [], "for all that its successor knows, it is the new one");
        assert_eq!(ask(&mut again, 1, 2), Ok(1), "the one that was listed, heard or not");
        assert!(again.register_worker(at(2), 7, other).reply);
        assert_eq!(ask(&mut again, 1, 2), Ok(1), "nothing is added to what may be the earlier one");
        let _ = again.unregister_shuffles(at(3), &pulse().application, &[ShuffleId(1)]);
        assert_eq!(delete(&mut again, 0), [name]);
    }

    #[test]
    fn a_running_shuffle_of_a_later_life_gets_further_locations_after_a_restart_of_the_master() {
        let mut state = state_of(2);
        let _ = register(&mut state, 0, "a#0", 1);
        assert_eq!(ask(&mut state, 1, 1), Ok(2));
        assert_eq!(register(&mut state, 1, "b#0", 2), 1);
        // The second worker is away while the shuffle begins, and is listed only later.
        let name = ShuffleKey::new("app", 1);
        assert_eq!(delete(&mut state, 0), std::slice::from_ref(&name));
        assert_eq!(ask(&mut state, 1, 2), Ok(1));
        assert_eq!(delete(&mut state, 1), std::slice::from_ref(&name));
        assert_eq!(ask(&mut state, 1, 2), Ok(2));
        let back = |number| Registration { report: held(&[1]), ..registration(id(number), number.into()) };
        for _ in 0..2 {
            state = restarted(&state, at(3));
            for number in [0, 1] {
                assert!(state.register_worker(at(3), number.into(), back(number)).reply);
            }
            assert_eq!(ask(&mut state, 1, 3), Ok(2), "both hold what they were granted");
            assert_eq!([0, 1].map(|number| deletions_of(&state, number)), [[], []], "it is needed");
        }
        // A third one, which is listed by a later process, stays listed as well.
        assert!(state.register_worker(at(4), 2, registration(id(2), 2)).reply);
        assert_eq!(ask(&mut state, 1, 3), Ok(3));
        let mut state = restarted(&state, at(5));
        assert!(state.register_worker(at(5), 2, back(2)).reply);
        assert_eq!(ask(&mut state, 1, 3), Ok(3));
    }

    #[test]
    fn a_journal_that_listed_nobody_is_read_and_its_shuffle_stays_apart_from_an_earlier_one() {
        let mut state = state_of(1);
        let _ = register(&mut state, 0, "a#0", 1);
        assert_eq!(ask(&mut state, 1, 1), Ok(1));
        assert_eq!(register(&mut state, 1, "b#0", 2), 1);
        let _ = delete(&mut state, 0);
        assert_eq!(ask(&mut state, 1, 2), Ok(1));
        let mut older = State::new(state.limits.clone());
        for mut record in state.records() {
            if let Record::ShuffleRegistered { listed, .. } = &mut record {
                assert_eq!(std::mem::take(listed), [id(0)]);
            }
            older.apply(at(2), &record);
        }
        let back = Registration { report: held(&[1]), ..registration(id(0), 0) };
        assert!(older.register_worker(at(2), 0, back).reply);
        assert_eq!(deletions_of(&older, 0), [], "it may be the present one");
        let wanted = SlotRequest { shuffle: ShuffleId(1), ..request([].into()) };
        assert_eq!(
            older.request_slots(at(2), 5, wanted).reply,
            Err(SlotRefusal::NoWorker),
            "or the earlier one"
        );
    }

    #[test]
    fn what_only_a_worker_knows_is_of_an_earlier_life() {
        let mut state = state_of(2);
        // Of a master that has lost its journal, and before the application is heard.
        beat(&mut state, held(&[4]));
        assert_eq!(state.shuffle_count(), 0);
        assert_eq!(register(&mut state, 1, "b#0", 2), 1);
        beat(&mut state, held(&[4]));
        assert_eq!(deletions_of(&state, 0), [ShuffleKey::new("app", 4)]);
        assert_eq!(state.shuffle_count(), 0, "it is not adopted");
        assert_eq!(restarted(&state, at(2)).shuffle_count(), 0);
    }

    #[test]
    fn what_a_silent_application_left_behind_is_of_an_earlier_life() {
        let mut state = state_of(1);
        let _ = grant(&mut state, BTreeSet::new()).unwrap();
        let end = state.limits.application_timeout.as_secs() + 10;
        for second in (0..=end).step_by(5) {
            let beat = state.worker_heartbeat(at(second), 0, &id(0), 0, Report::default());
            assert_eq!(beat.reply, Ok(()));
            let _ = state.expire(at(second));
        }
        assert!(state.applications().is_empty());
        assert_eq!(register(&mut state, end, "b#0", 2), 1);
        let back = Registration { report: holding(), ..registration(id(7), 7) };
        assert!(state.register_worker(at(end), 7, back).reply);
        assert_eq!(deletions_of(&state, 7), [ShuffleKey::new("app", 0)]);
        assert!(state.worker_orders(NEWEST, &id(7), 7, 0).unwrap().is_some());
    }

    #[test]
    fn the_last_lives_are_remembered() {
        let mut state = state_of(1);
        for life in 0..2 * LIVES_MAX {
            let _ = register(&mut state, 1, &format!("{life}#0"), life as u64);
        }
        let lives = &state.applications()[&pulse().application].lives;
        let kept: Vec<_> = lives.iter().map(LifeId::as_str).collect();
        assert_eq!(kept, ["4#0", "5#0", "6#0", "7#0"]);
        assert_eq!(restarted(&state, at(1)).applications()[&pulse().application].lives, *lives);
    }
}
