//! The numbers of shuffles that executors have heard of: decisions, without I/O.

use std::collections::BTreeMap;

use crate::ids::ShuffleId;

/// Numbers of shuffles, as runs of consecutive ones: shuffles are registered nearly in the order of their numbers, so very
/// many are few runs.
#[derive(Debug, Default)]
pub(super) struct UsedNumbers {
    /// By its first number, the last one of a run. No two runs touch.
    runs: BTreeMap<ShuffleId, ShuffleId>,
}

/// The most runs that are kept. Beyond that the two with the smallest numbers become one: what is between them counts as
/// used, too.
const RUNS_MAX: usize = 4096;

impl UsedNumbers {
    pub fn contains(&self, number: ShuffleId) -> bool {
        self.runs.range(..=number).next_back().is_some_and(|(_, last)| number <= *last)
    }

    /// The smallest number from 0 on that was not inserted, and does not count as used.
    pub fn first_free(&self) -> Option<ShuffleId> {
        match self.runs.range(..=ShuffleId(0)).next_back() {
            // No two runs touch, so the number behind one is free.
            Some((_, last)) if last.0 >= 0 => last.0.checked_add(1).map(ShuffleId),
            _ => Some(ShuffleId(0)),
        }
    }

    pub fn insert(&mut self, number: ShuffleId) {
        if self.contains(number) {
            return;
        }
        let (mut first, mut last) = (number, number);
        let before = self.runs.range(..number).next_back().map(|(first, last)| (*first, *last));
        if let Some((before, end)) = before
            && i64::from(end.0) + 1 == i64::from(number.0)
        {
            first = before;
        }
        let behind = self.runs.range(number..).next().map(|(first, last)| (*first, *last));
        if let Some((begin, end)) = behind
            && i64::from(begin.0) == i64::from(number.0) + 1
        {
            self.runs.remove(&begin);
            last = end;
        }
        self.runs.insert(first, last);
        if self.runs.len() > RUNS_MAX
            && let Some((first, _)) = self.runs.pop_first()
            && let Some((_, last)) = self.runs.pop_first()
        {
            self.runs.insert(first, last);
        }
        assert!(self.runs.len() <= RUNS_MAX, "one run more became one less");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_touch_are_one_run() {
        let mut used = UsedNumbers::default();
        for number in [5, 1, 3, 2, i32::MAX, i32::MIN, 5, 4] {
            assert!(used.contains(ShuffleId(number)) == (number == 5 && used.runs.len() > 1));
            used.insert(ShuffleId(number));
        }
        let runs: Vec<_> = used.runs.iter().map(|(first, last)| (first.0, last.0)).collect();
        assert_eq!(runs, [(i32::MIN, i32::MIN), (1, 5), (i32::MAX, i32::MAX)]);
        for (number, is_used) in [(0, false), (1, true), (5, true), (6, false), (i32::MAX, true)] {
            assert_eq!(used.contains(ShuffleId(number)), is_used, "{number}");
        }
    }

    #[test]
    fn the_first_free_number_was_never_inserted() {
        let mut used = UsedNumbers::default();
        for (inserted, free) in [(-1, 0), (1, 0), (0, 2), (3, 2), (2, 4), (5, 4), (i32::MAX, 4)] {
            used.insert(ShuffleId(inserted));
            assert_eq!(used.first_free(), Some(ShuffleId(free)), "after {inserted}");
        }
        let mut full = UsedNumbers::default();
        full.runs.insert(ShuffleId(i32::MIN), ShuffleId(i32::MAX));
        assert_eq!(full.first_free(), None);
    }

    #[test]
    fn scattered_numbers_take_bounded_room_and_none_is_forgotten() {
        let mut used = UsedNumbers::default();
        let numbers: Vec<_> = (0..3 * RUNS_MAX as i32).map(|at| ShuffleId(at * 2)).collect();
        for number in &numbers {
            used.insert(*number);
        }
        assert_eq!(used.runs.len(), RUNS_MAX);
        assert!(numbers.iter().all(|number| used.contains(*number)));
        assert!(!used.contains(ShuffleId(6 * RUNS_MAX as i32 - 3)), "the newest gaps are still known");
    }
}
