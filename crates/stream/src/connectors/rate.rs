use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arrow::array::{Int64Array, RecordBatch, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use serde_json::{Value, json};

use super::rate_schedule::RateSchedule;
use super::{Polled, Source};
use crate::error::{Result, computing, corrupt};
use crate::plan::TIMESTAMP;

/// Most rows that one poll gives.
const POLL_ROWS_MAX: i64 = 16_384;
/// Shortest sleep: rows of a high rate come some at a time.
const SLEEP_LEAST: Duration = Duration::from_millis(1);

/// Source of so many rows a second, each with its number and the time at which it is due: the same rows after a restart,
/// whose past ones come at once.
#[derive(Debug)]
pub struct RateSource {
    schedule: RateSchedule,
    /// Microseconds since 1970 at which row 0 is due.
    start_us: i64,
    next: i64,
    end: Option<i64>,
    planned_end: Option<i64>,
}

impl RateSource {
    /// Columns `timestamp` and `value`, as in Spark.
    pub fn schema() -> SchemaRef {
        let timestamp = Field::new("timestamp", TIMESTAMP(), true);
        Arc::new(Schema::new(vec![timestamp, Field::new("value", DataType::Int64, true)]))
    }

    /// The offset of a source that starts now.
    pub fn initial_offset() -> Value {
        json!({"startUs": now_us(), "next": 0})
    }

    /// Goes on at an offset.
    ///
    /// # Errors
    /// `Corrupt` if it is none.
    pub fn at(schedule: RateSchedule, offset: &Value) -> Result<Self> {
        let field = |name: &str| offset.get(name).and_then(Value::as_i64);
        let (Some(start_us), Some(next)) = (field("startUs"), field("next")) else {
            return Err(corrupt(format!("{offset} is no offset of a rate source")));
        };
        Ok(Self { schedule, start_us, next, end: None, planned_end: None })
    }

    /// Microseconds since 1970 at which a row is due.
    fn due_us(&self, row: i64) -> i64 {
        self.start_us.saturating_add(self.schedule.time_us(row))
    }

    /// Time until the next row is due.
    fn due_in(&self) -> Duration {
        let due_us = self.start_us.saturating_add(self.schedule.due_at_us(self.next));
        Duration::from_micros(u64::try_from(due_us.saturating_sub(now_us())).unwrap_or(0))
    }

    /// The row at which it stops.
    fn last(&self) -> Option<i64> {
        self.planned_end.or(self.end)
    }

    /// Rows that are due by now.
    fn due(&self) -> i64 {
        let rows = self.schedule.due(now_us().saturating_sub(self.start_us));
        self.last().map_or(rows, |end| rows.min(end))
    }
}

impl Source for RateSource {
    fn poll(&mut self, wait: Duration) -> Result<Polled> {
        let mut left = wait;
        while self.due() <= self.next && self.last().is_none() && !left.is_zero() {
            let sleep = self.due_in().max(SLEEP_LEAST).min(left);
            std::thread::sleep(sleep);
            left -= sleep;
        }
        let end = self.due().min(self.next.saturating_add(POLL_ROWS_MAX));
        let range = self.next..end.max(self.next);
        let is_empty = range.is_empty();
        self.next = range.end;
        let is_at_end = self.last().is_some_and(|end| self.next >= end);
        if is_empty {
            return Ok(Polled { rows: None, is_at_end });
        }
        // Neighbours are in different partitions, which come one after another.
        let partitions = self.schedule.partitions();
        let numbers = (0..partitions).flat_map(|first| range.clone().skip(first).step_by(partitions));
        let times = TimestampMicrosecondArray::from_iter_values(numbers.clone().map(|row| self.due_us(row)));
        let values = Int64Array::from_iter_values(numbers);
        let columns = vec![Arc::new(times.with_timezone("+00:00")) as _, Arc::new(values) as _];
        let rows = RecordBatch::try_new(Self::schema(), columns).map_err(computing)?;
        Ok(Polled { rows: Some(rows), is_at_end })
    }

    fn position(&self) -> Value {
        json!({"startUs": self.start_us, "next": self.next})
    }

    fn stop_at_latest(&mut self) -> Result<()> {
        self.end = Some(self.due().max(self.next));
        Ok(())
    }

    fn plan(&mut self, rows_max: Option<u64>) -> Result<u64> {
        self.planned_end = None;
        let there = u64::try_from(self.due() - self.next).unwrap_or(0);
        let planned = there.min(rows_max.unwrap_or(u64::MAX));
        self.planned_end = (planned > 0).then(|| self.next.saturating_add_unsigned(planned));
        Ok(planned)
    }

    fn lift_plan(&mut self) -> Result<()> {
        self.planned_end = None;
        Ok(())
    }
}

fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::{Int64Type, TimestampMicrosecondType};

    use super::*;

    #[test]
    fn rows_are_the_same_after_a_restart() {
        // The first 5 rows were due long ago.
        let offset = json!({"startUs": now_us() - 10_000_000, "next": 3});
        let mut source = RateSource::at(RateSchedule::even(2), &offset).unwrap();
        source.stop_at_latest().unwrap();
        let polled = source.poll(Duration::ZERO).unwrap();
        let rows = polled.rows.unwrap();
        let values: Vec<i64> = rows.column(1).as_primitive::<Int64Type>().values().to_vec();
        assert_eq!(values[..5], [3, 4, 5, 6, 7]);
        let times = rows.column(0).as_primitive::<TimestampMicrosecondType>().values().to_vec();
        assert_eq!(times[1] - times[0], 500_000);
        assert_eq!(times[0], offset["startUs"].as_i64().unwrap() + 1_500_000);
        assert!(polled.is_at_end);
        let again = RateSource::at(RateSchedule::even(2), &source.position()).unwrap();
        assert_eq!(again.next, values.last().unwrap() + 1);
        assert!(RateSource::at(RateSchedule::even(2), &json!({"next": 3})).is_err());
    }

    #[test]
    fn a_wait_lasts_until_the_next_row_is_due_and_no_longer_than_it_may() {
        let at = |begun_us: i64, next: i64| {
            let offset = json!({"startUs": now_us() - begun_us, "next": next});
            RateSource::at(RateSchedule::even(1), &offset).unwrap()
        };
        // Row 1 is due a second after the start.
        let source = at(900_000, 1);
        let due_in = source.due_in();
        assert!(due_in > Duration::ZERO && due_in <= Duration::from_millis(100), "{due_in:?}");
        assert_eq!(at(1_100_000, 1).due_in(), Duration::ZERO);
        let begun = std::time::Instant::now();
        assert!(at(0, 1).poll(Duration::from_millis(5)).unwrap().rows.is_none());
        assert!(begun.elapsed() >= Duration::from_millis(5));
        let rows = at(950_000, 1).poll(Duration::from_secs(60)).unwrap().rows.unwrap();
        assert_eq!(rows.num_rows(), 1);
        assert!(begun.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn partitions_of_a_poll_come_one_after_another() {
        let mut options = crate::plan::OptionMap::new("r", [("numPartitions".into(), "3".into())]).unwrap();
        let schedule = RateSchedule::take(&mut options).unwrap();
        let mut source =
            RateSource::at(schedule, &json!({"startUs": now_us() - 9_500_000, "next": 2})).unwrap();
        source.stop_at_latest().unwrap();
        let rows = source.poll(Duration::ZERO).unwrap().rows.unwrap();
        let values: Vec<i64> = rows.column(1).as_primitive::<Int64Type>().values().to_vec();
        assert_eq!(values, [2, 5, 8, 3, 6, 9, 4, 7]);
        assert_eq!(source.position()["next"], 10);
    }
}
