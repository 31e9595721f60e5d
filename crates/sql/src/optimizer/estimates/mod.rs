//! Estimates of the rows of a physical plan and of the values of its columns, from what the footers of files say.
//!
//! Wrong ones make a plan slow, never wrong. All are `f64`, which do not overflow.
//!
//! - [`filters`]: the rows that a condition keeps;
//! - [`joins`]: the rows of two sides joined;
//! - [`plans`]: the rows of an operator, by its inputs;
//! - [`numbers`]: values as numbers;
//! - [`shown`]: estimates in `EXPLAIN ANALYZE`;
//! - [`work`]: the work of a plan.

mod filters;
mod joins;
mod numbers;
mod plans;
mod shown;
mod work;

use datafusion::common::ColumnStatistics;
use datafusion::common::stats::Precision;

pub(super) use filters::{kept, selectivity};
pub(super) use joins::{Match, joined_rows, tested_share};
pub(super) use plans::{absent, of_plan};
pub(crate) use shown::ShownEstimates;
pub(super) use work::{SHARED, work};

use self::numbers::{number, step};

/// Estimate of the rows of a plan and of the values of its columns.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Estimate {
    pub(super) rows: f64,
    pub(super) columns: Vec<ColumnEstimate>,
}

/// Estimate of the values of a column.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ColumnEstimate {
    /// The number of distinct values, if anything is known about it.
    pub(super) distinct: Option<f64>,
    /// The least and the greatest value.
    pub(super) range: Option<(f64, f64)>,
    /// The distance of neighbouring values: 1 for integers; `None` if there is none.
    pub(super) step: Option<f64>,
    /// The share of rows that are null, 0 to 1.
    pub(super) nulls: f64,
}

impl Estimate {
    /// An estimate of so many rows, with `width` columns of which nothing is known.
    pub(super) fn of_rows(rows: f64, width: usize) -> Self {
        Self { rows, columns: vec![ColumnEstimate::default(); width] }
    }

    /// The column at `place`; one of which nothing is known if there is none.
    pub(super) fn column(&self, place: usize) -> ColumnEstimate {
        self.columns.get(place).cloned().unwrap_or_default()
    }

    /// The number of distinct values of a column, at least 1: at most the rows, and as many if nothing is known.
    pub(super) fn distinct(&self, place: usize) -> f64 {
        let known = self.columns.get(place).and_then(|column| column.distinct);
        known.unwrap_or(self.rows).min(self.rows).max(1.0)
    }

    /// The same values in fewer rows, which were chosen without regard to them.
    fn thinned(&self, share: f64) -> Self {
        let share = bounded(share, 0.0, 1.0);
        let thin = |column: &ColumnEstimate| {
            let distinct = column.distinct.map(|distinct| thinned(distinct, self.rows, share));
            ColumnEstimate { distinct, ..column.clone() }
        };
        Self { rows: self.rows * share, columns: self.columns.iter().map(thin).collect() }
    }
}

/// A number within bounds, the least if it is none (NaN).
pub(super) fn bounded(number: f64, least: f64, most: f64) -> f64 {
    if number.is_nan() { least } else { number.clamp(least, most) }
}

/// The number of distinct values in a share of the rows, each of which has the same number of rows.
fn thinned(distinct: f64, rows: f64, share: f64) -> f64 {
    if distinct < 1.0 {
        return distinct.max(0.0);
    }
    let rows_of_each = (rows / distinct).max(1.0);
    distinct * (1.0 - (1.0 - share).max(0.0).powf(rows_of_each))
}

impl ColumnEstimate {
    /// The estimate of a column in so many rows, by its statistics. A range whose ends are the wrong way round says nothing.
    fn told(told: &ColumnStatistics, rows: f64) -> Self {
        let bound = |value: &Precision<_>| value.get_value().and_then(number);
        let range = bound(&told.min_value).zip(bound(&told.max_value)).filter(|(min, max)| min <= max);
        let step = told.min_value.get_value().and_then(step);
        let by_range = range.zip(step).map(|((min, max), step)| (max - min) / step + 1.0);
        let by_count = told.distinct_count.get_value().map(|count| *count as f64);
        // Of texts, nothing but this is known.
        let ends = told.min_value.get_value().zip(told.max_value.get_value());
        let is_one = ends.is_some_and(|(min, max)| min == max && !min.is_null());
        let counts = [by_range, by_count, is_one.then_some(1.0)];
        let distinct = counts.into_iter().flatten().reduce(f64::min);
        let nulls = told.null_count.get_value().map_or(0.0, |nulls| *nulls as f64 / rows.max(1.0));
        Self { distinct: distinct.map(|count| count.min(rows).max(1.0)), range, step, nulls: nulls.min(1.0) }
    }

    /// The column of a value that is the same in each row.
    fn constant(value: Option<f64>) -> Self {
        Self { distinct: Some(1.0), range: value.map(|value| (value, value)), step: None, nulls: 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::ScalarValue;

    use super::*;

    fn told(min: i64, max: i64) -> ColumnStatistics {
        ColumnStatistics::new_unknown()
            .with_min_value(Precision::Exact(ScalarValue::Int64(Some(min))))
            .with_max_value(Precision::Exact(ScalarValue::Int64(Some(max))))
    }

    #[test]
    fn distinct_integers_are_at_most_their_range_and_the_rows() {
        assert_eq!(ColumnEstimate::told(&told(1, 50), 1000.0).distinct, Some(50.0));
        assert_eq!(ColumnEstimate::told(&told(1, 5000), 1000.0).distinct, Some(1000.0));
        assert_eq!(ColumnEstimate::told(&told(i64::MIN, i64::MAX), 7.0).distinct, Some(7.0));
    }

    #[test]
    fn a_text_that_is_the_least_and_the_greatest_is_the_only_one() {
        let value = Precision::Inexact(ScalarValue::from("TN"));
        let one = ColumnStatistics::new_unknown().with_min_value(value.clone()).with_max_value(value.clone());
        assert_eq!(ColumnEstimate::told(&one, 12.0).distinct, Some(1.0));
        let several = one.with_max_value(Precision::Exact(ScalarValue::from("TX")));
        assert_eq!(ColumnEstimate::told(&several, 12.0).distinct, None);
        let null = Precision::Exact(ScalarValue::Utf8(None));
        let none = ColumnStatistics::new_unknown().with_min_value(null.clone()).with_max_value(null);
        assert_eq!(ColumnEstimate::told(&none, 12.0).distinct, None);
    }

    #[test]
    fn contradictory_statistics_say_nothing() {
        let column = ColumnEstimate::told(&told(9, 1), 100.0);
        assert_eq!((column.distinct, column.range), (None, None));
        let nulls = told(1, 9).with_null_count(Precision::Exact(usize::MAX));
        let column = ColumnEstimate::told(&nulls, 0.0);
        assert_eq!((column.distinct, column.nulls), (Some(1.0), 1.0));
    }

    #[test]
    fn what_is_no_number_is_the_least() {
        assert_eq!(bounded(f64::NAN, 1.0, 2.0), 1.0);
        assert_eq!(bounded(f64::INFINITY, 1.0, f64::MAX), f64::MAX);
    }

    #[test]
    fn fewer_rows_have_fewer_values() {
        assert_eq!(thinned(100.0, 100.0, 0.25), 25.0);
        assert!(thinned(10.0, 1000.0, 0.1) > 9.9);
        assert_eq!(thinned(0.0, 0.0, 0.5), 0.0);
        assert!(thinned(f64::MAX, 1.0, 0.5).is_finite());
    }
}
