//! Remembers what was removed, so that a worker's report that crossed the removal does not bring it back; and the shuffles
//! of silent applications, which may be heard again.
//!
//! A living application's removed shuffles are remembered for as long as it lives: a worker may come back with them after
//! any time, and otherwise they would be adopted. Everything else expires.

mod expiring;
mod removed_shuffles;
mod run_set;
mod shuffle_run;

use std::collections::BTreeMap;
use std::time::Duration;

use self::expiring::Expiring;
use self::removed_shuffles::RemovedShuffles;
use super::Limits;
use crate::ids::{ApplicationId, ShuffleId, ShuffleKey};
use crate::master::record::{RUNS_REMOVED_MAX, Record, User};

pub(super) use self::expiring::COUNT_MAX;
pub use self::shuffle_run::ShuffleRun;

/// Removed applications and shuffles.
#[derive(Debug)]
pub(super) struct Removals {
    applications: Expiring<ApplicationId>,
    shuffles: RemovedShuffles,
    /// The applications with removed shuffles that are not registered: these shuffles age.
    ageing: Expiring<ApplicationId>,
    /// Shuffles of silent applications: workers may bring them back, and they end only if the application does.
    let_go: Expiring<ShuffleKey>,
}

impl Removals {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            applications: Expiring::default(),
            shuffles: RemovedShuffles::new(limits.removed_runs_of_one_max, limits.removed_runs_max),
            ageing: Expiring::default(),
            let_go: Expiring::default(),
        }
    }

    pub(super) fn remove_application(&mut self, now: Duration, application: &ApplicationId) {
        self.applications.remove(now, application.clone());
    }

    /// Shuffles were removed; `lives` says whether their application is registered.
    pub(super) fn remove_shuffles(
        &mut self,
        now: Duration,
        application: &ApplicationId,
        run: ShuffleRun,
        lives: bool,
    ) {
        let [first, last] = [run.first(), run.last()].map(|id| ShuffleKey::new(application.clone(), id));
        let kept: Vec<ShuffleKey> = self.let_go.keys_in(first, last).cloned().collect();
        kept.iter().for_each(|shuffle| self.let_go.restore(shuffle));
        self.shuffles.remove(application, run);
        if !lives {
            self.let_shuffles_expire(now, application);
        }
    }

    /// The application is not registered any more, or not yet: its removed shuffles are forgotten some hours from now.
    pub(super) fn let_shuffles_expire(&mut self, now: Duration, application: &ApplicationId) {
        if self.shuffles.has_of(application)
            && let Some(oldest) = self.ageing.remove(now, application.clone())
        {
            self.shuffles.forget(&oldest);
        }
    }

    /// The application was silent for too long; these were its shuffles.
    pub(super) fn let_go(
        &mut self,
        now: Duration,
        application: &ApplicationId,
        shuffles: impl Iterator<Item = ShuffleId>,
    ) {
        for id in shuffles.take(COUNT_MAX) {
            self.let_go.remove(now, ShuffleKey::new(application.clone(), id));
        }
    }

    /// The shuffles that an application had when it was removed for its silence, and that have not been registered or
    /// removed since.
    pub(super) fn let_go_of(&self, application: &ApplicationId) -> impl Iterator<Item = ShuffleId> {
        let [first, last] = [i32::MIN, i32::MAX].map(|id| ShuffleKey::new(application.clone(), id));
        self.let_go.keys_in(first, last).map(|key| key.shuffle)
    }

    /// The application is registered, perhaps again.
    pub(super) fn revive(&mut self, application: &ApplicationId) {
        self.applications.restore(application);
        self.ageing.restore(application);
    }

    /// The shuffle's number is in use again.
    pub(super) fn restore(&mut self, shuffle: &ShuffleKey) {
        self.let_go.restore(shuffle);
        self.shuffles.restore(shuffle);
    }

    /// Whether the shuffle itself was removed, not only with its application, which may come back.
    pub(super) fn has_shuffle(&self, shuffle: &ShuffleKey) -> bool {
        self.shuffles.contains(shuffle)
    }

    /// Whether the application announced its end, and has not been back since.
    pub(super) fn has_application(&self, application: &ApplicationId) -> bool {
        self.applications.contains(application)
    }

    /// Whether data of the shuffle may certainly be deleted.
    pub(super) fn covers(&self, shuffle: &ShuffleKey) -> bool {
        self.has_shuffle(shuffle) || self.has_application(&shuffle.application)
    }

    pub(super) fn expire(&mut self, now: Duration) {
        self.applications.expire(now);
        self.let_go.expire(now);
        for application in self.ageing.expire(now) {
            self.shuffles.forget(&application);
        }
    }

    /// The records that mark the same shuffles as let go again.
    pub(super) fn records_of_let_go(&self) -> impl Iterator<Item = Record> {
        let mut shuffles: BTreeMap<&ApplicationId, Vec<ShuffleKey>> = BTreeMap::new();
        for key in self.let_go.keys() {
            shuffles.entry(&key.application).or_default().push(key.clone());
        }
        shuffles.into_iter().flat_map(|(application, shuffles)| {
            // Only known applications and shuffles can be let go.
            let (application, at_unix_ms) = (application.clone(), 0);
            let (user, properties, lives) = (User::default(), Vec::new(), Vec::new());
            let first = Record::ApplicationRegistered {
                application: application.clone(),
                user,
                properties,
                lives,
                at_unix_ms,
            };
            let registered =
                shuffles.into_iter().map(move |shuffle| Record::shuffle_registered(shuffle, at_unix_ms));
            let last = Record::ApplicationRemoved { application, at_unix_ms, silent: true };
            std::iter::once(first).chain(registered).chain(std::iter::once(last))
        })
    }

    /// The records that restore these removals, after those of the living applications; their age begins anew with the
    /// restart.
    pub(super) fn records(&self) -> impl Iterator<Item = Record> {
        let applications = self.applications.keys().map(|application| Record::ApplicationRemoved {
            application: application.clone(),
            at_unix_ms: 0,
            silent: false,
        });
        let removals = self.shuffles.iter().flat_map(|(application, runs)| {
            let removal = |runs: &[ShuffleRun]| Record::ShufflesRemoved {
                application: application.clone(),
                runs: runs.to_vec(),
                at_unix_ms: 0,
            };
            let runs: Vec<ShuffleRun> = runs.iter().collect();
            runs.chunks(RUNS_REMOVED_MAX).map(removal).collect::<Vec<_>>()
        });
        applications.chain(removals)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ApplicationPulse;
    use super::super::scene::{
        Logged, at, deletions_of, grant, holding, id, pulse, registration, restarted, state_of,
    };
    use super::expiring::KEPT;
    use super::*;
    use crate::report::{Registration, Report};

    /// Lets the time pass for one worker and, if it `lives`, the application.
    fn pass(state: &mut Logged, seconds: std::ops::Range<u64>, lives: bool) {
        for second in seconds.step_by(10) {
            let beat = state.worker_heartbeat(at(second), 0, &id(0), 0, Report::default());
            assert_eq!(beat.reply, Ok(()));
            if lives {
                assert!(state.application_heartbeat(at(second), pulse()).reply.is_some());
            }
            let _ = state.expire(at(second));
        }
    }

    /// What a worker is to delete that comes back with the application's first shuffle.
    fn deletions_of_returned(state: &mut Logged, second: u64) -> Vec<ShuffleKey> {
        let back = Registration { report: holding(), ..registration(id(7), 7) };
        assert!(state.register_worker(at(second), 7, back).reply);
        deletions_of(state, 7)
    }

    #[test]
    fn a_removal_is_remembered_while_its_application_lives() {
        let mut state = state_of(1);
        let _ = grant(&mut state, Default::default()).unwrap();
        let _ = state.unregister_shuffles(at(1), &pulse().application, &[ShuffleId(0)]);
        let late = 2 * KEPT.as_secs();
        pass(&mut state, 1..late, true);
        for mut state in [restarted(&state, at(late)), state] {
            assert_eq!(deletions_of_returned(&mut state, late), [ShuffleKey::new("app", 0)]);
        }
    }

    #[test]
    fn removals_age_once_their_application_has_ended_or_fell_silent_until_it_is_back() {
        let kept = KEPT.as_secs();
        for (ends, is_back) in [(true, false), (true, true), (false, false), (false, true)] {
            let mut state = state_of(1);
            let _ = grant(&mut state, Default::default()).unwrap();
            let _ = state.unregister_shuffles(at(1), &pulse().application, &[ShuffleId(0)]);
            if ends {
                let _ = state.remove_application(at(1), &pulse().application);
            }
            pass(&mut state, 1..kept - 100, false);
            assert!(state.applications().is_empty());
            let is_removed = |state: &Logged| state.removals.has_shuffle(&ShuffleKey::new("app", 0));
            assert!(is_removed(&state));
            pass(&mut state, kept - 100..kept + 1000, is_back);
            assert_eq!(is_removed(&state), is_back, "it has ended: {ends}");
        }
    }

    #[test]
    fn a_removal_is_remembered_whatever_another_application_removes() {
        let mut state = state_of(1);
        let _ = grant(&mut state, Default::default()).unwrap();
        let _ = state.unregister_shuffles(at(1), &pulse().application, &[ShuffleId(0)]);
        let long = ApplicationPulse { application: "long".into(), ..pulse() };
        assert!(state.application_heartbeat(at(1), long).reply.is_some());
        for begin in (0..1_000_000).step_by(10_000) {
            let shuffles: Vec<ShuffleId> = (begin..begin + 10_000).map(ShuffleId).collect();
            let _ = state.unregister_shuffles(at(1), &"long".into(), &shuffles);
        }
        assert_eq!(state.removals.records().count(), 2);
        for mut state in [restarted(&state, at(1)), state] {
            assert!(state.removals.has_shuffle(&ShuffleKey::new("long", 0)));
            assert_eq!(deletions_of_returned(&mut state, 2), [ShuffleKey::new("app", 0)]);
        }
    }

    #[test]
    fn removals_are_forgotten_some_hours_after_their_application() {
        let mut removals = Removals::new(&Limits::default());
        let (application, shuffle) = ("app".into(), ShuffleKey::new("app", 1));
        let hour = Duration::from_secs(3600);
        let remove = |removals: &mut Removals, hours: u32, lives| {
            removals.remove_shuffles(hours * hour, &application, ShuffleId(1).into(), lives);
        };
        remove(&mut removals, 1, true);
        removals.expire(100 * hour);
        assert!(removals.has_shuffle(&shuffle));
        removals.let_shuffles_expire(100 * hour, &shuffle.application);
        removals.revive(&shuffle.application);
        removals.expire(200 * hour);
        assert!(removals.has_shuffle(&shuffle), "it is back");
        removals.let_shuffles_expire(200 * hour, &shuffle.application);
        remove(&mut removals, 201, false);
        removals.expire(200 * hour + KEPT);
        assert!(removals.covers(&shuffle), "the second removal counts");
        removals.expire(201 * hour + KEPT);
        assert!(!removals.covers(&shuffle));
        removals.remove_application(hour, &shuffle.application);
        assert!(removals.covers(&shuffle) && !removals.has_shuffle(&shuffle));
        removals.revive(&shuffle.application);
        assert!(!removals.covers(&shuffle));
    }

    #[test]
    fn a_number_that_is_used_again_is_not_removed() {
        let mut state = state_of(1);
        let application = pulse().application;
        let shuffles: Vec<ShuffleId> = (0..9).map(ShuffleId).collect();
        let _ = state.unregister_shuffles(at(1), &application, &shuffles);
        let _ = grant(&mut state, Default::default()).unwrap();
        for state in [restarted(&state, at(2)), state] {
            let is_removed = |shuffle| state.removals.has_shuffle(&ShuffleKey::new("app", shuffle));
            assert!(!is_removed(0) && (1..9).all(is_removed));
            assert_eq!(state.shuffle_count(), 1);
        }
    }
}
