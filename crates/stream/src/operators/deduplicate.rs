use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, TimestampMicrosecondArray, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::Field;

use super::OperatorCounts;
use super::event_time::{EndTimes, bucket_at, drop_late, key_columns};
use crate::error::{Result, computing};
use crate::plan::{DeduplicatePlan, KeptKeys, TIMESTAMP};
use crate::state::{Bucket, KeyHash, Keys, Layout, StateTable};

/// Microseconds of time whose keys lie together.
const SPAN_US: i64 = 1_000_000;

/// The first row of each key, whose keys are in a table.
pub struct Deduplicate {
    plan: DeduplicatePlan,
    layout: Arc<Layout>,
    table: Box<dyn StateTable>,
    counts: OperatorCounts,
}

impl Deduplicate {
    /// Layout of the table: it has keys and no values; within the watermark the key goes on with the time at which it
    /// expires, and is looked up without it.
    ///
    /// # Errors
    /// `Invalid` for types that state does not hold.
    pub fn layout(plan: &DeduplicatePlan, name: String) -> Result<Arc<Layout>> {
        let mut keys = plan.key_fields.clone();
        let count = keys.len();
        Ok(Arc::new(match plan.kept {
            KeptKeys::ForEver => Layout::new(name, keys, Vec::new())?,
            KeptKeys::UntilTime(_) => Layout::new(name, keys, Vec::new())?.with_span_us(SPAN_US),
            KeptKeys::WithinWatermark => {
                keys.push(Arc::new(Field::new("expires", TIMESTAMP(), false)));
                Layout::new(name, keys, Vec::new())?.with_prefix(count).with_span_us(SPAN_US)
            }
        }))
    }

    /// Identity of the state: another plan does not go on with it.
    pub fn identity(plan: &DeduplicatePlan) -> String {
        let keys: Vec<String> = plan.keys.iter().map(ToString::to_string).collect();
        let kept = match plan.kept {
            KeptKeys::ForEver => "",
            KeptKeys::UntilTime(_) => " until their time",
            KeptKeys::WithinWatermark => " within the watermark",
        };
        format!("distinct 1: {}{kept}", keys.join(", "))
    }

    /// A deduplication whose keys are in this table.
    ///
    /// # Errors
    /// As [`layout`](Self::layout).
    pub fn new(plan: DeduplicatePlan, table: Box<dyn StateTable>) -> Result<Self> {
        let layout = Self::layout(&plan, String::new())?;
        Ok(Self { plan, layout, table, counts: OperatorCounts::default() })
    }

    /// The table.
    pub fn table(&mut self) -> &mut dyn StateTable {
        &mut *self.table
    }

    /// Name among Spark's operators.
    pub fn name(&self) -> &'static str {
        if self.plan.kept == KeptKeys::WithinWatermark { "dedupeWithinWatermark" } else { "dedupe" }
    }

    /// Counts since this was asked last.
    pub fn take_counts(&mut self) -> OperatorCounts {
        std::mem::take(&mut self.counts)
    }

    /// Takes rows of the open batch, of which those at `late_ms` or before are late; gives those whose keys are new.
    ///
    /// # Errors
    /// `Invalid` for values that cannot be computed; as the table.
    pub fn push(&mut self, rows: RecordBatch, late_ms: Option<i64>) -> Result<Option<RecordBatch>> {
        let (rows, late) = drop_late(rows, self.plan.time, late_ms)?;
        self.counts.late += late;
        if rows.num_rows() == 0 {
            return Ok(None);
        }
        let columns = key_columns(&self.plan.keys, &rows)?;
        let first = match self.plan.kept {
            KeptKeys::ForEver => self.first_of(&columns, |_| Bucket::FOR_EVER)?,
            KeptKeys::UntilTime(key) => {
                let times = EndTimes::of_key(&columns, key)?;
                self.first_of(&columns, |row| times.bucket(row))?
            }
            KeptKeys::WithinWatermark => self.first_within(&rows, columns)?,
        };
        if first.is_empty() {
            return Ok(None);
        }
        self.counts.updated += first.len() as u64;
        if first.len() == rows.num_rows() {
            return Ok(Some(rows));
        }
        take_record_batch(&rows, &UInt32Array::from(first)).map(Some).map_err(computing)
    }

    /// Rows whose keys are new, which they are no more then.
    fn first_of(&mut self, columns: &[ArrayRef], bucket: impl Fn(usize) -> Bucket) -> Result<Vec<u32>> {
        let (keys, rows) = distinct(&self.layout.encode_keys(columns)?, bucket);
        let new = new_places(keys.len(), &self.table.read(&keys)?.places);
        if new.len() == keys.len() {
            self.table.write(&keys, &[])?;
        } else if !new.is_empty() {
            self.table.write(&picked(&keys, &new), &[])?;
        }
        Ok(new.into_iter().map(|place| rows[place]).collect())
    }

    fn first_within(&mut self, rows: &RecordBatch, mut columns: Vec<ArrayRef>) -> Result<Vec<u32>> {
        let time = self.plan.time.expect("within the watermark there is one");
        let times = EndTimes::new(rows.column(time.column), time.to_end_ms)?;
        let delay_us = time.delay_ms.saturating_mul(1000);
        // A row without a time counts as 1970, as in Spark.
        let expires = (0..rows.num_rows()).map(|row| times.at(row).unwrap_or(0).saturating_add(delay_us));
        let expires = TimestampMicrosecondArray::from_iter_values(expires).with_timezone("+00:00");
        columns.push(Arc::new(expires.clone()));
        let encoded = self.layout.encode_keys(&columns)?;
        let (mut prefixes, mut first) = (Keys::default(), Vec::new());
        for (row, key) in (0_u32..).zip(encoded.iter()) {
            let prefix = self.layout.prefix_of(key.data());
            if prefixes.insert(Bucket::FOR_EVER, KeyHash::of(prefix), prefix).1 {
                first.push(row);
            }
        }
        // Whether a key has expired is not asked: it is there until a batch's end takes it out.
        let known = self.table.read_prefixed(&prefixes)?.places;
        let new = new_places(prefixes.len(), &known);
        let mut keys = Keys::default();
        for row in new.iter().map(|place| first[*place] as usize) {
            let key = encoded.row(row);
            keys.insert(Bucket(expires.value(row)), KeyHash::of(key.data()), key.data());
        }
        if !keys.is_empty() {
            self.table.write(&keys, &[])?;
        }
        Ok(new.into_iter().map(|place| first[place]).collect())
    }

    /// Ends the open batch: keys at `evict_until_ms` or before are over.
    ///
    /// # Errors
    /// As the table.
    pub fn end_batch(&mut self, evict_until_ms: Option<i64>) -> Result<()> {
        let Some(until_ms) = evict_until_ms.filter(|_| self.plan.kept != KeptKeys::ForEver) else {
            return Ok(());
        };
        let gone = self.table.evict(bucket_at(until_ms))?;
        self.counts.removed += gone.iter().map(|rows| rows.len() as u64).sum::<u64>();
        Ok(())
    }
}

/// Keys of rows, each once, and the first row of each.
fn distinct(encoded: &arrow::row::Rows, bucket: impl Fn(usize) -> Bucket) -> (Keys, Vec<u32>) {
    let (mut keys, mut rows) = (Keys::default(), Vec::new());
    for (row, key) in (0_u32..).zip(encoded.iter()) {
        if keys.insert(bucket(row as usize), KeyHash::of(key.data()), key.data()).1 {
            rows.push(row);
        }
    }
    (keys, rows)
}

/// Places that are not among the known ones, which ascend and may come several times.
fn new_places(count: usize, known: &[usize]) -> Vec<usize> {
    let mut known = known.iter().copied().peekable();
    let mut new = Vec::new();
    for place in 0..count {
        let is_known = known.next_if_eq(&place).is_some();
        while known.next_if_eq(&place).is_some() {}
        if !is_known {
            new.push(place);
        }
    }
    new
}

fn picked(keys: &Keys, places: &[usize]) -> Keys {
    let mut picked = Keys::default();
    for at in places {
        picked.insert(keys.bucket(*at), keys.hash(*at), keys.key(*at));
    }
    picked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_are_known_are_not_new() {
        assert_eq!(new_places(5, &[1, 1, 3]), [0, 2, 4]);
        assert_eq!(new_places(2, &[0, 1]), [0; 0]);
        assert_eq!(new_places(2, &[]), [0, 1]);
    }
}
