//! The choice how the next row groups of a scan are read, by the time that the last ones took.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::conditions::without_interruptions;

/// The share of rows up to which it is tried to decode the columns of conditions first. At TPC-H scale 1 on lineitem, decoding all other
/// columns for 5 % of the rows takes 1.3 of decoding them for all rows if these lie apart, and much less if they lie together.
const SHARE_TRIED_MAX: f64 = 0.1;

/// The share of rows up to which the columns of conditions are decoded first without a trial.
const SHARE_CERTAIN_MAX: f64 = 0.01;

/// The part of the time of the other way that a way must stay below to be chosen: what is measured varies.
const GAIN_MIN: f64 = 0.9;

/// Row groups that are read before the other way is tried: the first ones are slow, as they fill memory that the others use again.
const GROUPS_BEFORE_TRIAL: usize = 4;

/// A row that takes less than this was not read: statistics excluded its row group.
const NANOS_OF_ROW_READ: f64 = 0.2;

/// The way in which the rows of a row group are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// All columns are decoded, and conditions asked of the rows.
    AfterDecoding,
    /// The columns of the conditions are decoded, and the others for those rows only that these keep.
    WhileDecoding,
}

/// Measurements of the two ways, by all threads that read the scan.
#[derive(Debug, Default)]
pub(super) struct Choice {
    measured: Mutex<[Option<Measured>; 2]>,
    /// True while a thread tries to decode the columns of conditions first: one trial is enough.
    is_tried: AtomicBool,
}

/// The last row groups that were read in a way.
#[derive(Clone, Copy, Debug)]
struct Measured {
    nanos_of_row: f64,
    share_kept: f64,
    groups: usize,
}

impl Choice {
    /// The way for the next row groups, of which a share is kept by an estimate.
    pub(super) fn next(&self, estimate: Option<f64>) -> Way {
        let [after, within] = *self.lock();
        match (after, within) {
            (None, None) if estimate.is_some_and(|share| share <= SHARE_CERTAIN_MAX) => Way::WhileDecoding,
            (None, None) => Way::AfterDecoding,
            (Some(after), None)
                if after.groups >= GROUPS_BEFORE_TRIAL
                    && after.share_kept <= SHARE_TRIED_MAX
                    && !self.is_tried.swap(true, Relaxed) =>
            {
                Way::WhileDecoding
            }
            (Some(_), None) => Way::AfterDecoding,
            (None, Some(within)) if within.share_kept <= SHARE_CERTAIN_MAX => Way::WhileDecoding,
            (None, Some(_)) => Way::AfterDecoding,
            (Some(after), Some(within)) if within.nanos_of_row < after.nanos_of_row * GAIN_MIN => {
                Way::WhileDecoding
            }
            (Some(_), Some(_)) => Way::AfterDecoding,
        }
    }

    /// Notes how long so many rows took to read, and how many of them were kept.
    pub(super) fn note(&self, way: Way, groups: usize, rows: u64, kept: u64, nanos: u64) {
        if way == Way::WhileDecoding {
            self.is_tried.store(false, Relaxed);
        }
        let nanos_of_row = nanos as f64 / rows.max(1) as f64;
        if rows == 0 || nanos_of_row < NANOS_OF_ROW_READ {
            return;
        }
        let share_kept = (kept as f64 / rows as f64).min(1.0);
        let mut measured = self.lock();
        let before = &mut measured[way as usize];
        let mean = |last: f64, now: f64| (last + now) / 2.0;
        *before = Some(match *before {
            None => Measured { nanos_of_row, share_kept, groups },
            Some(last) => Measured {
                nanos_of_row: without_interruptions(last.nanos_of_row, nanos_of_row),
                share_kept: mean(last.share_kept, share_kept),
                groups: last.groups + groups,
            },
        });
    }

    /// True once nothing is left to try.
    pub(super) fn is_settled(&self) -> bool {
        match *self.lock() {
            [Some(_), Some(_)] => true,
            [Some(after), None] => after.share_kept > SHARE_TRIED_MAX,
            [None, Some(within)] => within.share_kept <= SHARE_CERTAIN_MAX,
            [None, None] => false,
        }
    }

    /// The row groups that were read in each way.
    pub(super) fn groups(&self) -> [usize; 2] {
        self.lock().map(|measured| measured.map_or(0, |measured| measured.groups))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, [Option<Measured>; 2]> {
        self.measured.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_many_rows_is_asked_after_decoding() {
        let choice = Choice::default();
        assert_eq!(choice.next(None), Way::AfterDecoding);
        assert_eq!(choice.next(Some(0.5)), Way::AfterDecoding);
        choice.note(Way::AfterDecoding, 1, 1000, 500, 10_000);
        assert_eq!(choice.next(None), Way::AfterDecoding);
    }

    #[test]
    fn what_keeps_few_rows_is_tried_and_the_faster_way_stays() {
        for (nanos, way) in [(5_000, Way::WhileDecoding), (15_000, Way::AfterDecoding)] {
            let choice = Choice::default();
            (0..3).for_each(|_| choice.note(Way::AfterDecoding, 1, 1000, 50, 10_000));
            assert_eq!(choice.next(None), Way::AfterDecoding, "the first row groups are slow");
            choice.note(Way::AfterDecoding, 1, 1000, 50, 10_000);
            assert_eq!(choice.next(None), Way::WhileDecoding);
            assert_eq!(choice.next(None), Way::AfterDecoding, "one trial is enough");
            choice.note(Way::WhileDecoding, 1, 1000, 50, nanos);
            assert_eq!(choice.next(None), way);
            assert_eq!(choice.groups(), [4, 1]);
        }
    }

    #[test]
    fn an_estimate_of_very_few_rows_saves_the_first_trial() {
        let choice = Choice::default();
        assert_eq!(choice.next(Some(0.001)), Way::WhileDecoding);
        choice.note(Way::WhileDecoding, 1, 1000, 1, 5_000);
        assert_eq!(choice.next(Some(0.001)), Way::WhileDecoding);
        // The estimate was wrong.
        choice.note(Way::WhileDecoding, 1, 1000, 900, 5_000);
        assert_eq!(choice.next(Some(0.001)), Way::AfterDecoding);
    }

    #[test]
    fn row_groups_that_were_skipped_say_nothing() {
        let choice = Choice::default();
        choice.note(Way::AfterDecoding, 1, 1_000_000, 0, 1_000);
        choice.note(Way::AfterDecoding, 1, 0, 0, 1_000);
        assert_eq!((choice.next(None), choice.groups()), (Way::AfterDecoding, [0, 0]));
        choice.note(Way::AfterDecoding, 4, 4000, 200, 40_000);
        assert_eq!(choice.next(None), Way::WhileDecoding);
        choice.note(Way::WhileDecoding, 1, 1_000_000, 0, 1_000);
        assert_eq!(choice.next(None), Way::WhileDecoding, "the trial is to be made again");
    }

    #[test]
    fn rows_that_change_change_the_way() {
        let choice = Choice::default();
        choice.note(Way::AfterDecoding, 1, 1000, 50, 10_000);
        choice.note(Way::WhileDecoding, 1, 1000, 50, 2_000);
        assert_eq!(choice.next(None), Way::WhileDecoding);
        (0..20).for_each(|_| choice.note(Way::WhileDecoding, 1, 1000, 900, 30_000));
        assert_eq!(choice.next(None), Way::AfterDecoding);
    }
}
