//! `min` and `max` of intervals by their length.

use std::collections::BTreeMap;
use std::mem::size_of;
use std::sync::LazyLock;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Signature, Volatility};
use serde::{Deserialize, Serialize};

use super::interval_span::{INTERVAL, span};

/// The shortest or the longest of some intervals. Of several that are as long, it is the one with the fewest months, then days, so
/// that an answer does not depend on the order of rows. It has the name of DataFusion's function, in whose place it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum IntervalExtreme {
    Min,
    Max,
}

impl AggregateUDFImpl for IntervalExtreme {
    fn name(&self) -> &str {
        match self {
            Self::Min => "min",
            Self::Max => "max",
        }
    }

    fn signature(&self) -> &Signature {
        static OF_INTERVAL: LazyLock<Signature> =
            LazyLock::new(|| Signature::exact(vec![INTERVAL], Volatility::Immutable));
        &OF_INTERVAL
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Extreme { of: *self, found: None }))
    }

    fn create_sliding_accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(SlidingExtreme { of: *self, counts: BTreeMap::new() }))
    }
}

/// Intervals in the order of their lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ranked(i128, IntervalMonthDayNano);

fn ranked(values: &[ArrayRef]) -> impl Iterator<Item = Ranked> + '_ {
    let values = values[0].as_primitive::<IntervalMonthDayNanoType>();
    values.iter().flatten().map(|interval| Ranked(span(interval), interval))
}

fn scalar(found: Option<Ranked>) -> ScalarValue {
    ScalarValue::IntervalMonthDayNano(found.map(|Ranked(_, interval)| interval))
}

#[derive(Debug)]
struct Extreme {
    of: IntervalExtreme,
    found: Option<Ranked>,
}

impl Accumulator for Extreme {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let seen = ranked(values).chain(self.found);
        self.found = match self.of {
            IntervalExtreme::Min => seen.min(),
            IntervalExtreme::Max => seen.max(),
        };
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(scalar(self.found))
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![scalar(self.found)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

/// The same over the frame of a window, which rows leave again.
#[derive(Debug)]
struct SlidingExtreme {
    of: IntervalExtreme,
    /// How many rows of the frame have each interval.
    counts: BTreeMap<Ranked, u64>,
}

impl SlidingExtreme {
    fn found(&self) -> Option<Ranked> {
        let (found, _) = match self.of {
            IntervalExtreme::Min => self.counts.first_key_value(),
            IntervalExtreme::Max => self.counts.last_key_value(),
        }?;
        Some(*found)
    }
}

impl Accumulator for SlidingExtreme {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for interval in ranked(values) {
            *self.counts.entry(interval).or_default() += 1;
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for interval in ranked(values) {
            let count = self.counts.get_mut(&interval).expect("only rows of the frame leave it");
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&interval);
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(scalar(self.found()))
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.counts.len() * size_of::<(Ranked, u64)>() * 2
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![scalar(self.found())])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::IntervalMonthDayNanoArray;

    use super::*;

    fn days(months: i32, days: i32) -> IntervalMonthDayNano {
        IntervalMonthDayNano { months, days, nanoseconds: 0 }
    }

    fn array(intervals: &[IntervalMonthDayNano]) -> ArrayRef {
        let with_null = intervals.iter().copied().map(Some).chain([None]);
        Arc::new(IntervalMonthDayNanoArray::from(with_null.collect::<Vec<_>>()))
    }

    #[test]
    fn the_longest_is_not_the_one_with_most_months() {
        let rows = array(&[days(1, 0), days(0, 45), days(0, 30), days(0, 2)]);
        for (of, expected) in [(IntervalExtreme::Min, days(0, 2)), (IntervalExtreme::Max, days(0, 45))] {
            let mut whole = Extreme { of, found: None };
            whole.update_batch(&[Arc::clone(&rows)]).unwrap();
            assert_eq!(whole.evaluate().unwrap(), ScalarValue::IntervalMonthDayNano(Some(expected)));
        }
        let mut none = Extreme { of: IntervalExtreme::Min, found: None };
        none.update_batch(&[array(&[])]).unwrap();
        assert_eq!(none.evaluate().unwrap(), ScalarValue::IntervalMonthDayNano(None));
    }

    #[test]
    fn a_frame_forgets_the_rows_that_leave_it() {
        let mut sliding = SlidingExtreme { of: IntervalExtreme::Max, counts: BTreeMap::new() };
        let mut longest = |enter: &[IntervalMonthDayNano], leave: &[IntervalMonthDayNano]| {
            sliding.update_batch(&[array(enter)]).unwrap();
            sliding.retract_batch(&[array(leave)]).unwrap();
            sliding.evaluate().unwrap()
        };
        let some = |interval| ScalarValue::IntervalMonthDayNano(Some(interval));
        assert_eq!(longest(&[days(1, 0), days(0, 45), days(0, 45)], &[]), some(days(0, 45)));
        assert_eq!(longest(&[], &[days(0, 45)]), some(days(0, 45)));
        assert_eq!(longest(&[], &[days(0, 45)]), some(days(1, 0)));
        assert_eq!(longest(&[], &[days(1, 0)]), ScalarValue::IntervalMonthDayNano(None));
    }
}
