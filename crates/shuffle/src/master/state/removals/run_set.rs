//! Numbers of shuffles of one application, as runs of consecutive ones that have ages.

use std::collections::{BTreeMap, BTreeSet};

use super::shuffle_run::ShuffleRun;
use crate::ids::ShuffleId;

/// A set of shuffle numbers. Numbers that touch are one run, as old as the removal with which it last grew.
#[derive(Debug, Default)]
pub(super) struct RunSet {
    /// By its first number: the last number of a run, and its age. No two runs touch.
    runs: BTreeMap<ShuffleId, (ShuffleId, u64)>,
    /// Ages and first numbers; oldest first.
    by_age: BTreeSet<(u64, ShuffleId)>,
}

impl RunSet {
    pub(super) fn len(&self) -> usize {
        self.runs.len()
    }

    pub(super) fn contains(&self, number: ShuffleId) -> bool {
        self.at(number).is_some()
    }

    /// Adds the numbers of a run; `age` is the number of the removal, which is higher than all before.
    pub(super) fn insert(&mut self, run: ShuffleRun, age: u64) {
        let (mut first, mut last) = (run.first(), run.last());
        // From the end: those that overlap it, or end or begin right beside it.
        while let Some((&before, &(end, _))) =
            self.runs.range(..=ShuffleId(last.0.saturating_add(1))).next_back()
            && end.0 >= first.0.saturating_sub(1)
        {
            self.take(before);
            (first, last) = (first.min(before), last.max(end));
        }
        self.put(first, last, age);
    }

    /// Takes one number out; what is left of its run keeps its age.
    pub(super) fn remove(&mut self, number: ShuffleId) {
        let Some((first, last, age)) = self.at(number) else { return };
        self.take(first);
        if first < number {
            self.put(first, ShuffleId(number.0 - 1), age);
        }
        if number < last {
            self.put(ShuffleId(number.0 + 1), last, age);
        }
    }

    /// The age of the oldest run.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.by_age.first().map(|(age, _)| *age)
    }

    pub(super) fn drop_oldest(&mut self) {
        if let Some((_, first)) = self.by_age.pop_first() {
            self.runs.remove(&first);
        }
    }

    /// All runs, in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = ShuffleRun> {
        let run = |(first, (last, _)): (&ShuffleId, &(ShuffleId, u64))| ShuffleRun::new(*first, *last);
        self.runs.iter().filter_map(run)
    }

    /// The run that holds a number: its first and last number and its age.
    fn at(&self, number: ShuffleId) -> Option<(ShuffleId, ShuffleId, u64)> {
        let (first, (last, age)) = self.runs.range(..=number).next_back()?;
        (number <= *last).then_some((*first, *last, *age))
    }

    fn put(&mut self, first: ShuffleId, last: ShuffleId, age: u64) {
        self.runs.insert(first, (last, age));
        self.by_age.insert((age, first));
    }

    fn take(&mut self, first: ShuffleId) {
        if let Some((_, age)) = self.runs.remove(&first) {
            self.by_age.remove(&(age, first));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A change of a set of few numbers at either end of their range or in the middle.
    #[derive(Debug, Clone, Copy)]
    enum Change {
        Insert(i32, i32),
        Remove(i32),
        DropOldest,
    }

    fn number() -> impl Strategy<Value = i32> {
        prop_oneof![i32::MIN..i32::MIN + 6, -8..8, i32::MAX - 6..=i32::MAX]
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            6 => (number(), 0..5).prop_map(|(first, more)| Change::Insert(first, first.saturating_add(more))),
            4 => number().prop_map(Change::Remove),
            1 => Just(Change::DropOldest),
        ]
    }

    /// The runs of a set, each with the last removal of any of its numbers or of those removed from it.
    fn runs_of(model: &BTreeMap<i32, u64>) -> Vec<ShuffleRun> {
        ShuffleRun::all_of(model.keys().copied().map(ShuffleId))
    }

    proptest! {
        #[test]
        fn runs_hold_what_was_inserted_and_not_removed(changes in prop::collection::vec(change(), 0..60)) {
            let (mut runs, mut model) = (RunSet::default(), BTreeMap::new());
            for (age, change) in (0_u64..).zip(changes) {
                match change {
                    Change::Insert(first, last) => {
                        let run = ShuffleRun::new(ShuffleId(first), ShuffleId(last)).unwrap();
                        runs.insert(run, age);
                        model.extend((first..=last).map(|number| (number, age)));
                        // The whole run has grown.
                        let whole = runs_of(&model).into_iter().find(|run| run.last().0 >= last).unwrap();
                        model.extend((whole.first().0..=whole.last().0).map(|number| (number, age)));
                    }
                    Change::Remove(number) => {
                        runs.remove(ShuffleId(number));
                        model.remove(&number);
                    }
                    Change::DropOldest => {
                        // Two parts of one run are equally old: then the lower one goes.
                        let oldest = runs_of(&model).into_iter().min_by_key(|run| model[&run.first().0]);
                        prop_assert_eq!(oldest.map(|run| model[&run.first().0]), runs.oldest());
                        runs.drop_oldest();
                        if let Some(run) = oldest {
                            (run.first().0..=run.last().0).for_each(|number| {
                                model.remove(&number);
                            });
                        }
                    }
                }
                prop_assert_eq!(runs.iter().collect::<Vec<_>>(), runs_of(&model));
                prop_assert_eq!((runs.len(), runs.by_age.len()), (runs_of(&model).len(), runs.runs.len()));
                for number in [i32::MIN, -8, 0, 7, i32::MAX] {
                    prop_assert_eq!(runs.contains(ShuffleId(number)), model.contains_key(&number));
                }
            }
        }
    }
}
