//! Remembers what was removed, so that a worker's report that crossed the removal does not bring it back; and the shuffles
//! of silent applications, which may be heard again.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::super::record::{Record, SHUFFLES_REMOVED_MAX, User};
use crate::ids::{ApplicationId, ShuffleId, ShuffleKey};

/// How long a removal is remembered: far longer than any message is on its way or any worker stays away with its data.
const KEPT: Duration = Duration::from_secs(6 * 3600);
/// The most removals of each kind that are remembered; the oldest are dropped first.
pub(super) const COUNT_MAX: usize = 1 << 16;

/// Removed applications and shuffles.
#[derive(Debug, Default)]
pub(super) struct Tombstones {
    applications: Graves<ApplicationId>,
    shuffles: Graves<ShuffleKey>,
    /// Shuffles of silent applications: workers may bring them back, and they end only if the application does.
    let_go: Graves<ShuffleKey>,
}

impl Tombstones {
    pub(super) fn bury_application(&mut self, now: Duration, application: &ApplicationId) {
        self.applications.bury(now, application.clone());
    }

    pub(super) fn bury_shuffle(&mut self, now: Duration, shuffle: &ShuffleKey) {
        self.let_go.unbury(shuffle);
        self.shuffles.bury(now, shuffle.clone());
    }

    /// The application was silent for too long; these were its shuffles.
    pub(super) fn let_go(
        &mut self,
        now: Duration,
        application: &ApplicationId,
        shuffles: impl Iterator<Item = ShuffleId>,
    ) {
        shuffles
            .take(COUNT_MAX)
            .for_each(|id| self.let_go.bury(now, ShuffleKey::new(application.clone(), id)));
    }

    /// The shuffles that an application had when it was removed for its silence, and that have not been registered or
    /// removed since.
    pub(super) fn let_go_of(&self, application: &ApplicationId) -> impl Iterator<Item = ShuffleId> {
        let from = ShuffleKey::new(application.clone(), i32::MIN);
        let later = self.let_go.since.range(from..).map(|(key, _)| key);
        later.take_while(move |key| key.application == *application).map(|key| key.shuffle)
    }

    /// The application is back.
    pub(super) fn revive(&mut self, application: &ApplicationId) {
        self.applications.unbury(application);
    }

    /// The shuffle's number is in use again.
    pub(super) fn unbury(&mut self, shuffle: &ShuffleKey) {
        self.let_go.unbury(shuffle);
        self.shuffles.unbury(shuffle);
    }

    /// Whether the shuffle itself was removed, not only with its application, which may come back.
    pub(super) fn has_shuffle(&self, shuffle: &ShuffleKey) -> bool {
        self.shuffles.since.contains_key(shuffle)
    }

    /// Whether the application announced its end, and has not been back since.
    pub(super) fn has_application(&self, application: &ApplicationId) -> bool {
        self.applications.since.contains_key(application)
    }

    /// Whether data of the shuffle may certainly be deleted.
    pub(super) fn covers(&self, shuffle: &ShuffleKey) -> bool {
        self.shuffles.since.contains_key(shuffle)
            || self.applications.since.contains_key(&shuffle.application)
    }

    pub(super) fn expire(&mut self, now: Duration) {
        self.applications.expire(now);
        self.shuffles.expire(now);
        self.let_go.expire(now);
    }

    /// The records that mark the same shuffles as let go again.
    pub(super) fn records_of_let_go(&self) -> impl Iterator<Item = Record> {
        let mut shuffles: BTreeMap<&ApplicationId, Vec<ShuffleKey>> = BTreeMap::new();
        for key in self.let_go.since.keys() {
            shuffles.entry(&key.application).or_default().push(key.clone());
        }
        shuffles.into_iter().flat_map(|(application, shuffles)| {
            // Only known applications and shuffles can be let go.
            let (application, at_unix_ms) = (application.clone(), 0);
            let (user, properties) = (User::default(), Vec::new());
            let first = Record::ApplicationRegistered {
                application: application.clone(),
                user,
                properties,
                at_unix_ms,
            };
            let registered =
                shuffles.into_iter().map(move |shuffle| Record::ShuffleRegistered { shuffle, at_unix_ms });
            let last = Record::ApplicationRemoved { application, at_unix_ms, silent: true };
            std::iter::once(first).chain(registered).chain(std::iter::once(last))
        })
    }

    /// The records that restore these tombstones; their age begins anew with the restart.
    pub(super) fn records(&self) -> impl Iterator<Item = Record> {
        let applications = self.applications.since.keys().map(|application| Record::ApplicationRemoved {
            application: application.clone(),
            at_unix_ms: 0,
            silent: false,
        });
        let mut shuffles: BTreeMap<&ApplicationId, Vec<ShuffleId>> = BTreeMap::new();
        for key in self.shuffles.since.keys() {
            shuffles.entry(&key.application).or_default().push(key.shuffle);
        }
        let removals = shuffles.into_iter().flat_map(|(application, shuffles)| {
            let removal = |shuffles: &[ShuffleId]| Record::ShufflesRemoved {
                application: application.clone(),
                shuffles: shuffles.to_vec(),
                at_unix_ms: 0,
            };
            shuffles.chunks(SHUFFLES_REMOVED_MAX).map(removal).collect::<Vec<_>>()
        });
        applications.chain(removals)
    }
}

/// Keys with the times of their removal, oldest first in the queue.
#[derive(Debug)]
struct Graves<K> {
    since: BTreeMap<K, Duration>,
    order: VecDeque<(Duration, K)>,
}

impl<K> Default for Graves<K> {
    fn default() -> Self {
        Self { since: BTreeMap::new(), order: VecDeque::new() }
    }
}

impl<K: Ord + Clone> Graves<K> {
    fn bury(&mut self, now: Duration, key: K) {
        if self.since.insert(key.clone(), now) != Some(now) {
            self.order.push_back((now, key));
        }
        while self.order.len() > COUNT_MAX {
            self.drop_oldest();
        }
    }

    fn unbury(&mut self, key: &K) {
        self.since.remove(key);
    }

    fn expire(&mut self, now: Duration) {
        while self.order.front().is_some_and(|(at, _)| now.saturating_sub(*at) >= KEPT) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some((at, key)) = self.order.pop_front() {
            // Removed again since, or revived: then this queue entry is outdated.
            if self.since.get(&key) == Some(&at) {
                self.since.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(shuffle: i32) -> ShuffleKey {
        ShuffleKey::new("app", shuffle)
    }

    #[test]
    fn remembers_for_hours_and_a_bounded_number() {
        let mut tombstones = Tombstones::default();
        let hour = Duration::from_secs(3600);
        tombstones.bury_shuffle(hour, &key(1));
        tombstones.bury_shuffle(2 * hour, &key(1));
        tombstones.expire(hour + KEPT);
        assert!(tombstones.covers(&key(1)), "the second burial counts");
        tombstones.expire(2 * hour + KEPT);
        assert!(!tombstones.covers(&key(1)));
        for shuffle in 0..=COUNT_MAX as i32 {
            tombstones.bury_shuffle(2 * hour, &key(shuffle));
        }
        assert!(!tombstones.covers(&key(0)) && tombstones.covers(&key(1)));
        tombstones.bury_application(hour, &"other".into());
        assert!(tombstones.covers(&ShuffleKey::new("other", 9)));
        tombstones.revive(&"other".into());
        assert!(!tombstones.covers(&ShuffleKey::new("other", 9)));
    }
}
