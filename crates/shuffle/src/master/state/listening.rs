//! How long applications and workers have been silent, and when silence counts.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Decision, Limits, Now, State};
use crate::ids::{ApplicationId, WorkerId};
use crate::report::Phase;

/// A gap between two calls of [`State::expire`] from which it follows that the process did not run.
const PAUSE_NOTICED: Duration = Duration::from_secs(15);

/// Who has been silent for too long.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Silent {
    /// Workers that are lost, each with the phase that it reported last.
    pub workers: Vec<(WorkerId, Phase)>,
    /// Applications whose shuffles are deleted.
    pub applications: Vec<ApplicationId>,
}

impl State {
    /// Removes applications and workers that have been silent for too long. To be called every few seconds.
    pub fn expire(&mut self, now: Now) -> Decision<Silent> {
        let mut decision = Decision::of(Silent::default());
        self.listen(now);
        if now.monotonic < self.expire_not_before {
            return decision;
        }
        self.expire_applications(now, &mut decision);
        self.expire_workers(now, &mut decision);
        self.removals.expire(now.monotonic);
        decision
    }

    /// Counts the time since the last check, unless this master may be cut off. If this process was stopped meanwhile (a
    /// suspended machine, a debugger), everybody seems silent: they get as much time as they could not be heard.
    fn listen(&mut self, now: Now) {
        let gap = self.unseen(now);
        self.ran_last = Some(now.monotonic);
        let Limits { application_timeout, worker_timeout, .. } = self.limits;
        self.lost.retain(|_, since| now.monotonic.saturating_sub(*since) < application_timeout);
        if gap > PAUSE_NOTICED {
            self.expire_not_before = now.monotonic + gap.min(application_timeout.max(worker_timeout));
        } else if !self.hears_few(now) {
            self.listened += gap;
        }
    }

    /// The time since the last check of timeouts.
    pub(super) fn unseen(&self, now: Now) -> Duration {
        now.monotonic.saturating_sub(self.ran_last.unwrap_or(now.monotonic))
    }

    /// What [`State::listened`] will be if the time since the last check counts, so that a silence does not begin before the
    /// last message. A pause does not count.
    pub(super) fn listened_by(&self, now: Now) -> Duration {
        self.listened + self.unseen(now).min(PAUSE_NOTICED)
    }

    /// Whether half of the workers' hosts or more are missing. Then this master may be cut off, perhaps together with the
    /// workers on its own machine, and living applications seem silent too. Hosts count rather than workers: a worker on
    /// free ports is a new one each time it is killed and restarted.
    pub(super) fn hears_few(&self, now: Now) -> bool {
        let mut heard: BTreeMap<&str, bool> = self.lost.keys().map(|host| (&**host, false)).collect();
        for (worker, held) in &self.workers {
            *heard.entry(&*worker.host).or_default() |= held.silent_for(now) < self.limits.worker_quiet;
        }
        let missing = heard.values().filter(|is_heard| !**is_heard).count();
        missing > 0 && 2 * missing >= heard.len()
    }
}
