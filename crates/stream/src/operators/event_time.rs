use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float32Array, Float64Array, RecordBatch,
    TimestampMicrosecondArray,
};
use arrow::compute::{cast, filter_record_batch};
use arrow::datatypes::{DataType, Float32Type, Float64Type, TimestampMicrosecondType};
use datafusion::physical_expr::PhysicalExpr;

use crate::error::{Result, computing};
use crate::plan::{TIMESTAMP, TimeColumn, WindowKey};
use crate::state::Bucket;

/// Buckets that are over at a time: never what is for ever.
pub(super) fn bucket_at(ms: i64) -> Bucket {
    Bucket(ms.saturating_mul(1000).min(Bucket::FOR_EVER.0 - 1))
}

/// Times of rows that say when they are over.
pub(super) struct EndTimes {
    times: TimestampMicrosecondArray,
    more_us: i64,
}

impl EndTimes {
    /// Times of a column, so many milliseconds before those that count.
    pub fn new(column: &ArrayRef, to_end_ms: i64) -> Result<Self> {
        let times = cast(column, &TIMESTAMP()).map_err(computing)?;
        let times = times.as_primitive::<TimestampMicrosecondType>().clone();
        Ok(Self { times, more_us: to_end_ms.saturating_mul(1000) })
    }

    /// Times of the key among these that has them.
    pub fn of_key(keys: &[ArrayRef], key: WindowKey) -> Result<Self> {
        Self::new(&keys[key.key], key.to_end_ms)
    }

    /// Microseconds since 1970 at which a row is over; nothing for a row without a time.
    pub fn at(&self, row: usize) -> Option<i64> {
        self.times.is_valid(row).then(|| self.times.value(row).saturating_add(self.more_us))
    }

    /// Bucket of a row: one without a time is never over.
    pub fn bucket(&self, row: usize) -> Bucket {
        self.at(row).map_or(Bucket::FOR_EVER, Bucket)
    }
}

/// Rows that are not late by a watermark, and how many were. A row without a time is not late.
pub(super) fn drop_late(
    rows: RecordBatch,
    time: Option<TimeColumn>,
    late_ms: Option<i64>,
) -> Result<(RecordBatch, u64)> {
    let (Some(time), Some(late_ms)) = (time, late_ms) else { return Ok((rows, 0)) };
    let times = EndTimes::new(rows.column(time.column), time.to_end_ms)?;
    let late_us = late_ms.saturating_mul(1000);
    let is_kept: BooleanArray =
        (0..rows.num_rows()).map(|row| Some(times.at(row).is_none_or(|at| at > late_us))).collect();
    let late = rows.num_rows() - is_kept.true_count();
    if late == 0 {
        return Ok((rows, 0));
    }
    Ok((filter_record_batch(&rows, &is_kept).map_err(computing)?, late as u64))
}

/// Columns of keys, of which equal values are the same bytes: there is one zero and one number that is none, as in Spark.
pub(super) fn key_columns(keys: &[Arc<dyn PhysicalExpr>], rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
    let column = |key: &Arc<dyn PhysicalExpr>| {
        let column = key.evaluate(rows).and_then(|value| value.into_array(rows.num_rows()));
        Ok(with_one_zero(column.map_err(computing)?))
    };
    keys.iter().map(column).collect()
}

fn with_one_zero(column: ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float64 => {
            let one = |value: f64| if value.is_nan() { f64::NAN } else { value + 0.0 };
            let column: Float64Array = column.as_primitive::<Float64Type>().unary(one);
            Arc::new(column)
        }
        DataType::Float32 => {
            let one = |value: f32| if value.is_nan() { f32::NAN } else { value + 0.0 };
            let column: Float32Array = column.as_primitive::<Float32Type>().unary(one);
            Arc::new(column)
        }
        _ => column,
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;

    use super::*;

    #[test]
    fn rows_at_the_watermark_are_late_and_those_without_a_time_are_not() {
        let times = TimestampMicrosecondArray::from(vec![Some(5_000), Some(5_001), None, Some(4_999)]);
        let schema = arrow::datatypes::Schema::new(vec![Field::new("ts", TIMESTAMP(), true)]);
        let rows =
            RecordBatch::try_new(Arc::new(schema), vec![Arc::new(times.with_timezone("+00:00"))]).unwrap();
        let time = |to_end_ms| Some(TimeColumn { column: 0, to_end_ms, is_window: false, delay_ms: 0 });
        let (kept, late) = drop_late(rows.clone(), time(0), Some(5)).unwrap();
        assert_eq!((kept.num_rows(), late), (2, 2));
        assert_eq!(drop_late(rows.clone(), time(1), Some(5)).unwrap().1, 0);
        assert_eq!(drop_late(rows.clone(), None, Some(5)).unwrap().1, 0);
        assert_eq!(drop_late(rows, time(0), None).unwrap().1, 0);
    }

    #[test]
    fn zeros_and_numbers_that_are_none_are_one_key_each() {
        let column: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, 0.0, f64::NAN, -f64::NAN, 1.5]));
        let column = with_one_zero(column);
        let bits: Vec<u64> =
            column.as_primitive::<Float64Type>().values().iter().map(|v| v.to_bits()).collect();
        assert_eq!((bits[0], bits[2]), (bits[1], bits[3]));
        assert_eq!(bits[4], 1.5_f64.to_bits());
    }
}
