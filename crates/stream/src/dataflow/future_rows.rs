//! Rows whose times are further ahead of the machine's clock than `watermark.future-limit`: the job may have them set aside.

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{Schema, TimestampMicrosecondType};

use crate::connectors::Decoded;
use crate::error::{Result, computing};
use crate::plan::{StreamDefinition, TIMESTAMP};

/// Rule by which rows of a stream are set aside, as malformed ones are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FutureRows {
    /// Column of the time.
    column: usize,
    limit_ms: i64,
}

impl FutureRows {
    /// The rule of a stream with these columns, if it has one.
    pub fn of(stream: &StreamDefinition, schema: &Schema) -> Option<Self> {
        let watermark = stream.watermark.as_ref().filter(|watermark| watermark.clock.sets_future_aside)?;
        let column = schema.index_of(&watermark.column).ok()?;
        Some(Self { column, limit_ms: watermark.clock.future_limit_ms? })
    }

    /// Rows without those that are too far ahead of `now_ms`, which are among the malformed ones then.
    ///
    /// # Errors
    /// `Invalid` for times that cannot be computed.
    pub fn set_aside(self, decoded: Decoded, now_ms: i64) -> Result<Decoded> {
        let last_us = now_ms.saturating_add(self.limit_ms).saturating_add(1).saturating_mul(1000) - 1;
        let times = cast(decoded.rows.column(self.column), &TIMESTAMP()).map_err(computing)?;
        let times = times.as_primitive::<TimestampMicrosecondType>();
        let is_future = |row: usize| times.is_valid(row) && times.value(row) > last_us;
        if !(0..times.len()).any(is_future) {
            return Ok(decoded);
        }
        let reason = |row: usize| {
            let ahead_ms = times.value(row).div_euclid(1000).saturating_sub(now_ms);
            format!("its time is {ahead_ms} ms ahead of the clock, at most {} ms are allowed", self.limit_ms)
        };
        let aside = (0..times.len()).filter(|row| is_future(*row)).map(|row| (row, reason(row))).collect();
        decoded.without(aside)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, RecordBatch, TimestampMicrosecondArray};

    use super::*;
    use crate::connectors::Malformed;

    #[test]
    fn rows_ahead_of_the_limit_are_set_aside_with_their_numbers() {
        let times = TimestampMicrosecondArray::from(vec![Some(5_000_999), Some(5_001_000), None, Some(9)]);
        let rows = RecordBatch::try_from_iter_with_nullable([
            ("id", Arc::new(Int64Array::from(vec![1, 2, 3, 4])) as _, true),
            ("ts", Arc::new(times.with_timezone("+00:00")) as _, true),
        ])
        .unwrap();
        let earlier = Malformed { row: 3, reason: "it is no object".into() };
        let decoded = Decoded { rows, indices: Some(vec![0, 1, 2, 4]), malformed: vec![earlier.clone()] };
        let rule = FutureRows { column: 1, limit_ms: 1000 };
        let found = rule.set_aside(decoded, 4000).unwrap();
        assert_eq!(found.rows.column(0).as_primitive::<arrow::datatypes::Int64Type>().values(), &[1, 3, 4]);
        assert_eq!(found.indices, Some(vec![0, 2, 4]));
        let reason = "its time is 1001 ms ahead of the clock, at most 1000 ms are allowed".to_owned();
        assert_eq!(found.malformed, [Malformed { row: 1, reason }, earlier]);
        let all = FutureRows { column: 1, limit_ms: i64::MAX }.set_aside(found, 4000).unwrap();
        assert_eq!((all.rows.num_rows(), all.malformed.len()), (3, 2));
    }
}
