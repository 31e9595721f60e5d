use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, Int64Builder, ListBuilder, RecordBatch, TimestampMicrosecondArray,
    UInt32Array,
};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema, SchemaRef, TimestampMicrosecondType};

use super::{Changes, FunctionMode, KeyGroups, StateCall, StateFunction, Timeout};
use crate::error::{Result, computing, invalid};
use crate::plan::TIMESTAMP;

/// `sessions(TABLE t PARTITION BY k, time => DESCRIPTOR(ts), gap => INTERVAL '30' SECOND)`: rows of a key with no more than the gap
/// between them, once the watermark says that no other belongs to them. Rows without a time are dropped.
#[derive(Debug)]
pub struct Sessions {
    keys: Vec<FieldRef>,
    time_column: usize,
    gap_us: i64,
}

/// Rows that belong together: the first and the last time, in microseconds since 1970, and their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Session {
    first_us: i64,
    last_us: i64,
    count: i64,
}

impl Sessions {
    /// The function of a call.
    ///
    /// # Errors
    /// `Invalid` for arguments that cannot be.
    pub(super) fn of(call: &mut StateCall) -> Result<Self> {
        let time = call.arguments().take_column("time")?;
        let time = time.ok_or_else(|| call.arguments().missing("time"))?;
        let time_column = call.time_column(&time)?;
        let gap_ms = call.arguments().take_interval_ms("gap")?;
        let gap_ms = gap_ms.ok_or_else(|| call.arguments().missing("gap"))?;
        let gap_us = gap_ms.checked_mul(1000).ok_or_else(|| invalid("the gap is too long"))?;
        Ok(Self { keys: call.keys().to_vec(), time_column, gap_us })
    }

    /// Milliseconds since 1970 at which a session is over by the watermark.
    fn over_ms(&self, session: &Session) -> i64 {
        let end_us = session.last_us.saturating_add(self.gap_us);
        end_us.div_euclid(1000) + i64::from(end_us.rem_euclid(1000) > 0)
    }

    /// Sessions of all of these, of which none overlap any more.
    fn merged(&self, mut parts: Vec<Session>) -> Vec<Session> {
        parts.sort_unstable_by_key(|session| session.first_us);
        let mut sessions: Vec<Session> = Vec::with_capacity(parts.len());
        for part in parts {
            match sessions.last_mut() {
                Some(last) if part.first_us <= last.last_us.saturating_add(self.gap_us) => {
                    last.last_us = last.last_us.max(part.last_us);
                    last.count += part.count;
                }
                _ => sessions.push(part),
            }
        }
        sessions
    }

    /// Sessions of a key's state and of its rows.
    fn open(&self, groups: &KeyGroups<'_>, times: &TimestampMicrosecondArray, group: usize) -> Vec<Session> {
        let mut parts = Vec::new();
        if groups.has_state(group) {
            let [first, last, count] =
                [0, 1, 2].map(|column: usize| groups.states()[column].as_list::<i32>().value(group));
            let number = |column: &ArrayRef, at| column.as_primitive::<Int64Type>().value(at);
            parts.extend((0..first.len()).map(|at| Session {
                first_us: number(&first, at),
                last_us: number(&last, at),
                count: number(&count, at),
            }));
        }
        let rows = groups.rows_of(group).filter(|row| times.is_valid(*row)).map(|row| times.value(row));
        parts.extend(rows.map(|time| Session { first_us: time, last_us: time, count: 1 }));
        self.merged(parts)
    }
}

impl StateFunction for Sessions {
    fn state(&self) -> Vec<FieldRef> {
        let numbers = DataType::List(Arc::new(Field::new_list_field(DataType::Int64, true)));
        let list = |name: &str| Arc::new(Field::new(name, numbers.clone(), true));
        vec![list("first_us"), list("last_us"), list("count")]
    }

    fn output(&self) -> SchemaRef {
        let mut fields = self.keys.clone();
        for (name, data_type) in
            [("session_start", TIMESTAMP()), ("session_end", TIMESTAMP()), ("count", DataType::Int64)]
        {
            fields.push(Arc::new(Field::new(name, data_type, true)));
        }
        Arc::new(Schema::new(fields))
    }

    fn mode(&self) -> FunctionMode {
        FunctionMode::Append
    }

    fn timeout(&self) -> Timeout {
        Timeout::EventTime
    }

    fn call(&self, groups: &KeyGroups<'_>, changes: &mut Changes) -> Result<RecordBatch> {
        let times = cast(groups.rows().column(self.time_column), &TIMESTAMP()).map_err(computing)?;
        let times = times.as_primitive::<TimestampMicrosecondType>();
        let watermark_ms = groups.watermark_ms().unwrap_or(0);
        let mut states =
            [ListBuilder::new(Int64Builder::new()), ListBuilder::default(), ListBuilder::default()];
        let (mut places, mut over) = (Vec::new(), Vec::new());
        for group in (0_u32..).take(groups.len()) {
            let mut open = self.open(groups, times, group as usize);
            // Other rows of the batch may still belong to a session that is over by its end.
            if groups.have_timed_out() {
                let (closed, rest) =
                    open.into_iter().partition(|session| self.over_ms(session) <= watermark_ms);
                over.extend(closed);
                places.resize(over.len(), group);
                open = rest;
            }
            match open.iter().map(|session| self.over_ms(session)).min() {
                None => changes.remove(group as usize),
                Some(first_over_ms) => {
                    changes.update(group as usize);
                    // A timeout comes once the watermark is past it.
                    let at_ms = (first_over_ms - 1).max(watermark_ms).max(1);
                    changes.set_timeout_timestamp_ms(group as usize, at_ms)?;
                }
            }
            for session in &open {
                let numbers = [session.first_us, session.last_us, session.count];
                states
                    .iter_mut()
                    .zip(numbers)
                    .for_each(|(state, number)| state.values().append_value(number));
            }
            states.iter_mut().for_each(|state| state.append(true));
        }
        changes.set_states(states.into_iter().map(|mut state| Arc::new(state.finish()) as _).collect());
        let places = UInt32Array::from(places);
        let keys: Result<Vec<ArrayRef>, _> =
            groups.keys().iter().map(|column| take(column, &places, None)).collect();
        let time = |us: &dyn Fn(&Session) -> i64| {
            let times = TimestampMicrosecondArray::from_iter_values(over.iter().map(us));
            Arc::new(times.with_timezone("+00:00")) as ArrayRef
        };
        let mut columns = keys.map_err(computing)?;
        columns.push(time(&|session| session.first_us));
        columns.push(time(&|session| session.last_us.saturating_add(self.gap_us)));
        columns.push(Arc::new(Int64Array::from_iter_values(over.iter().map(|session| session.count))));
        RecordBatch::try_new(self.output(), columns).map_err(computing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_that_touch_are_one() {
        let sessions = Sessions { keys: Vec::new(), time_column: 0, gap_us: 10 };
        let session = |first_us, last_us, count| Session { first_us, last_us, count };
        let at = |time| session(time, time, 1);
        assert_eq!(
            sessions.merged(vec![at(50), session(0, 20, 3), at(61), at(30), at(41)]),
            [session(0, 30, 4), session(41, 50, 2), at(61)]
        );
        assert_eq!(sessions.merged(vec![at(11), at(0), at(10)]), [session(0, 11, 3)]);
        assert_eq!((sessions.over_ms(&at(990)), sessions.over_ms(&at(991))), (1, 2));
    }
}
