//! Consecutive numbers of shuffles: an application removes its shuffles nearly in the order of their numbers, so few runs
//! name very many of them.

use crate::ids::ShuffleId;

/// Consecutive numbers of shuffles, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShuffleRun {
    first: ShuffleId,
    last: ShuffleId,
}

impl ShuffleRun {
    /// The numbers from `first` to `last`, both included; `None` if there are none.
    pub fn new(first: ShuffleId, last: ShuffleId) -> Option<Self> {
        (first <= last).then_some(Self { first, last })
    }

    /// The fewest runs that hold the numbers, which ascend and are each there once.
    pub fn all_of(numbers: impl IntoIterator<Item = ShuffleId>) -> Vec<Self> {
        let mut runs: Vec<Self> = Vec::new();
        for number in numbers {
            match runs.last_mut() {
                Some(run) if run.last.0.checked_add(1) == Some(number.0) => run.last = number,
                _ => runs.push(number.into()),
            }
        }
        runs
    }

    /// The lowest number.
    pub fn first(self) -> ShuffleId {
        self.first
    }

    /// The highest number.
    pub fn last(self) -> ShuffleId {
        self.last
    }
}

impl From<ShuffleId> for ShuffleRun {
    fn from(number: ShuffleId) -> Self {
        Self { first: number, last: number }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_a_row_are_one_run() {
        let runs_of = |numbers: &[i32]| {
            let runs = ShuffleRun::all_of(numbers.iter().copied().map(ShuffleId));
            runs.into_iter().map(|run| (run.first().0, run.last().0)).collect::<Vec<_>>()
        };
        assert_eq!(runs_of(&[]), []);
        assert_eq!(
            runs_of(&[i32::MIN, -1, 0, 1, 3, i32::MAX - 1, i32::MAX]),
            [(i32::MIN, i32::MIN), (-1, 1), (3, 3), (i32::MAX - 1, i32::MAX)]
        );
        assert_eq!(ShuffleRun::new(ShuffleId(2), ShuffleId(1)), None);
    }
}
