use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, TimestampMicrosecondArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema, SchemaRef, TimestampMicrosecondType};

use super::{Argument, Changes, FunctionMode, KeyGroups, StateCall, StateFunction, Timeout};
use crate::error::{Result, computing};
use crate::plan::TIMESTAMP;

/// `running_count(TABLE t PARTITION BY k [, time => DESCRIPTOR(ts)] [, timeout => INTERVAL '30' SECOND [, clock => 'processing time']])`:
/// the number of rows of each key so far, and the greatest of their times, each time that rows come. A key without rows for as
/// long as the timeout begins anew: by the watermark from its greatest time on, or by the machine's clock from its last rows on.
#[derive(Debug)]
pub struct RunningCount {
    keys: Vec<FieldRef>,
    time_column: Option<usize>,
    timeout: Timeout,
    timeout_ms: i64,
}

impl RunningCount {
    /// The function of a call.
    ///
    /// # Errors
    /// `Invalid` for arguments that cannot be.
    pub(super) fn of(call: &mut StateCall) -> Result<Self> {
        let time = call.arguments().take_column("time")?;
        let time_column = time.as_deref().map(|name| call.time_column(name)).transpose()?;
        let timeout_ms = call.arguments().take_interval_ms("timeout")?;
        let clock = call.arguments().take_text("clock")?;
        let timeout = match (timeout_ms, clock.as_deref()) {
            (None, None) => Timeout::None,
            (None, Some(_)) => return Err(call.arguments().missing("timeout")),
            (Some(_), None) if time_column.is_none() => Timeout::ProcessingTime,
            (Some(_), None) => Timeout::EventTime,
            (Some(_), Some(text)) => match text.to_lowercase().replace('_', " ").as_str() {
                "processing time" => Timeout::ProcessingTime,
                "event time" if time_column.is_none() => return Err(call.arguments().missing("time")),
                "event time" => Timeout::EventTime,
                _ => {
                    let value = Argument::Text(text.to_owned());
                    return Err(call.arguments().wrong("clock", &value, "'event time' or 'processing time'"));
                }
            },
        };
        let keys = call.keys().to_vec();
        Ok(Self { keys, time_column, timeout, timeout_ms: timeout_ms.unwrap_or(0) })
    }

    /// Greatest time of each key's rows and of its state, in microseconds since 1970.
    fn last_times(&self, groups: &KeyGroups<'_>) -> Result<Vec<Option<i64>>> {
        let Some(column) = self.time_column else { return Ok(vec![None; groups.len()]) };
        let times = cast(groups.rows().column(column), &TIMESTAMP()).map_err(computing)?;
        let times = times.as_primitive::<TimestampMicrosecondType>();
        let before = groups.states()[1].as_primitive::<TimestampMicrosecondType>();
        let last = |group: usize| {
            let rows = groups.rows_of(group).filter(|row| times.is_valid(*row));
            let known = before.is_valid(group).then(|| before.value(group));
            rows.map(|row| times.value(row)).max().max(known)
        };
        Ok((0..groups.len()).map(last).collect())
    }

    fn set_timeout(
        &self,
        groups: &KeyGroups<'_>,
        changes: &mut Changes,
        group: usize,
        last_us: Option<i64>,
    ) -> Result<()> {
        match self.timeout {
            Timeout::None => Ok(()),
            Timeout::ProcessingTime => changes.set_timeout_duration_ms(group, self.timeout_ms),
            Timeout::EventTime => {
                let watermark_ms = groups.watermark_ms().unwrap_or(0);
                let last_ms = last_us.map_or(watermark_ms, |us| us.div_euclid(1000));
                // The watermark may have passed it since the rows before these.
                let at_ms = last_ms.saturating_add(self.timeout_ms).max(watermark_ms).max(1);
                changes.set_timeout_timestamp_ms(group, at_ms)
            }
        }
    }
}

impl StateFunction for RunningCount {
    fn state(&self) -> Vec<FieldRef> {
        let count = Field::new("count", DataType::Int64, true);
        vec![Arc::new(count), Arc::new(Field::new("last_time", TIMESTAMP(), true))]
    }

    fn output(&self) -> SchemaRef {
        let mut fields = self.keys.clone();
        fields.push(Arc::new(Field::new("count", DataType::Int64, true)));
        if self.time_column.is_some() {
            fields.push(Arc::new(Field::new("last_time", TIMESTAMP(), true)));
        }
        Arc::new(Schema::new(fields))
    }

    fn mode(&self) -> FunctionMode {
        FunctionMode::Update
    }

    fn timeout(&self) -> Timeout {
        self.timeout
    }

    fn call(&self, groups: &KeyGroups<'_>, changes: &mut Changes) -> Result<RecordBatch> {
        if groups.have_timed_out() {
            (0..groups.len()).for_each(|group| changes.remove(group));
            return Ok(RecordBatch::new_empty(self.output()));
        }
        let before = groups.states()[0].as_primitive::<Int64Type>();
        let last_times = self.last_times(groups)?;
        let mut counts = Vec::with_capacity(groups.len());
        for (group, last_us) in last_times.iter().enumerate() {
            let known = if groups.has_state(group) { before.value(group) } else { 0 };
            counts.push(known + i64::try_from(groups.rows_of(group).len()).unwrap_or(i64::MAX));
            changes.update(group);
            self.set_timeout(groups, changes, group, *last_us)?;
        }
        let counts: ArrayRef = Arc::new(Int64Array::from(counts));
        let last_times = TimestampMicrosecondArray::from(last_times).with_timezone("+00:00");
        let last_times: ArrayRef = Arc::new(last_times);
        changes.set_states(vec![Arc::clone(&counts), Arc::clone(&last_times)]);
        let mut columns = groups.keys().to_vec();
        columns.push(counts);
        columns.extend(self.time_column.map(|_| last_times));
        RecordBatch::try_new(self.output(), columns).map_err(computing)
    }
}
