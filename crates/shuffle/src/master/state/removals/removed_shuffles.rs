//! The removed shuffles of all applications, within limits.

use std::collections::{BTreeMap, BTreeSet};

use super::run_set::RunSet;
use super::shuffle_run::ShuffleRun;
use crate::ids::{ApplicationId, ShuffleKey};

/// Removed shuffles by application. One run takes some 80 bytes here, however many shuffles it is.
#[derive(Debug)]
pub(super) struct RemovedShuffles {
    /// No application is without runs.
    runs: BTreeMap<ApplicationId, RunSet>,
    /// Each application with the age of its oldest run; the one with the oldest of all comes first.
    by_age: BTreeSet<(u64, ApplicationId)>,
    /// The runs of all applications.
    count: usize,
    /// How many removals there were: the age of the next. A time would not do: those of a journal that is read back are of one
    /// instant.
    removals: u64,
    of_one_max: usize,
    of_all_max: usize,
}

impl RemovedShuffles {
    /// With the most runs of one application and of all together; one more drops the oldest.
    pub(super) fn new(of_one_max: usize, of_all_max: usize) -> Self {
        let (runs, by_age) = (BTreeMap::new(), BTreeSet::new());
        Self { runs, by_age, count: 0, removals: 0, of_one_max, of_all_max }
    }

    pub(super) fn contains(&self, shuffle: &ShuffleKey) -> bool {
        self.runs.get(&shuffle.application).is_some_and(|runs| runs.contains(shuffle.shuffle))
    }

    /// Whether any shuffle of the application is there.
    pub(super) fn has_of(&self, application: &ApplicationId) -> bool {
        self.runs.contains_key(application)
    }

    pub(super) fn remove(&mut self, application: &ApplicationId, run: ShuffleRun) {
        let (age, most) = (self.removals, self.of_one_max);
        self.removals += 1;
        self.change(application, |runs| {
            runs.insert(run, age);
            while runs.len() > most {
                runs.drop_oldest();
            }
        });
        while self.count > self.of_all_max
            && let Some((_, application)) = self.by_age.first().cloned()
        {
            self.change(&application, RunSet::drop_oldest);
        }
    }

    /// The shuffle's number is in use again.
    pub(super) fn restore(&mut self, shuffle: &ShuffleKey) {
        if self.contains(shuffle) {
            self.change(&shuffle.application, |runs| runs.remove(shuffle.shuffle));
        }
    }

    /// Forgets the application's shuffles.
    pub(super) fn forget(&mut self, application: &ApplicationId) {
        if self.has_of(application) {
            self.change(application, |runs| *runs = RunSet::default());
        }
    }

    /// The applications with their runs.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&ApplicationId, &RunSet)> {
        self.runs.iter()
    }

    fn change(&mut self, application: &ApplicationId, change: impl FnOnce(&mut RunSet)) {
        let runs = self.runs.entry(application.clone()).or_default();
        let (len, oldest) = (runs.len(), runs.oldest());
        change(runs);
        self.count = self.count - len + runs.len();
        let oldest_now = runs.oldest();
        if oldest_now.is_none() {
            self.runs.remove(application);
        }
        if oldest_now != oldest {
            if let Some(age) = oldest {
                self.by_age.remove(&(age, application.clone()));
            }
            self.by_age.extend(oldest_now.map(|age| (age, application.clone())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ShuffleId;

    /// Every second number, so that no two make one run.
    fn remove(removed: &mut RemovedShuffles, application: &str, numbers: std::ops::Range<i32>) {
        numbers.for_each(|number| removed.remove(&application.into(), ShuffleId(2 * number).into()));
    }

    fn numbers_of(removed: &RemovedShuffles, application: &str) -> Vec<i32> {
        let runs = removed.iter().filter(|(of, _)| of.as_str() == application);
        runs.flat_map(|(_, runs)| runs.iter().map(|run| run.first().0 / 2)).collect()
    }

    #[test]
    fn the_oldest_are_forgotten_when_there_are_too_many() {
        let mut removed = RemovedShuffles::new(4, 7);
        remove(&mut removed, "a", 0..3);
        remove(&mut removed, "b", 0..5);
        let [of_a, of_b] = ["a", "b"].map(|application| numbers_of(&removed, application));
        assert_eq!((of_a, of_b), (vec![0, 1, 2], vec![1, 2, 3, 4]), "an application with many loses its own");
        // The oldest of all is in use again, and removed again.
        removed.restore(&ShuffleKey::new("a", 0));
        assert!(!removed.contains(&ShuffleKey::new("a", 0)));
        remove(&mut removed, "a", 0..1);
        remove(&mut removed, "c", 0..2);
        let [of_a, of_b] = ["a", "b"].map(|application| numbers_of(&removed, application));
        assert_eq!((of_a, of_b), (vec![0], vec![1, 2, 3, 4]), "it is the newest now");
        removed.forget(&"b".into());
        assert!(!removed.has_of(&"b".into()));
        assert_eq!((removed.count, removed.by_age.len()), (3, 2));
        removed.forget(&"unknown".into());
        assert!(!removed.has_of(&"unknown".into()));
    }

    #[test]
    fn very_many_that_are_removed_nearly_in_order_take_little() {
        let mut removed = RemovedShuffles::new(4, 6);
        for number in 0..1_000_000 {
            // Each pair in the wrong order.
            removed.remove(&"a".into(), ShuffleId(number ^ 1).into());
        }
        assert_eq!(removed.count, 1);
        assert!(
            removed.contains(&ShuffleKey::new("a", 0)) && removed.contains(&ShuffleKey::new("a", 999_999))
        );
        assert!(!removed.contains(&ShuffleKey::new("a", 1_000_000)));
    }
}
