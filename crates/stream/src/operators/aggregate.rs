use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::filter;
use arrow::datatypes::FieldRef;

use super::OperatorCounts;
use super::accumulation::Accumulation;
use super::event_time::{EndTimes, key_columns};
use crate::error::{Result, computing};
use crate::plan::{AggregatePlan, OutputMode};
use crate::state::{Bucket, KeyHash, Keys, Layout, StateRows, StateTable};

/// Groups of rows, whose states are in a table: by the end of their window, so that windows that are over go at once.
pub struct Aggregate {
    plan: AggregatePlan,
    mode: OutputMode,
    accumulation: Accumulation,
    layout: Arc<Layout>,
    table: Box<dyn StateTable>,
    /// Groups of the open batch that changed, if they come out at its end.
    changed: Option<Keys>,
    has_changed: bool,
    /// True if batches are planned: Spark's, each of which gives something.
    is_planned: bool,
    counts: OperatorCounts,
}

impl Aggregate {
    /// What the table of an aggregation looks like.
    ///
    /// # Errors
    /// `Invalid` for types that state does not hold.
    pub fn layout(plan: &AggregatePlan, name: String) -> Result<Arc<Layout>> {
        let keys: Vec<FieldRef> = plan.schema.fields()[..plan.keys.len()].to_vec();
        let values = Accumulation::new(plan.calls.clone())?.state_fields()?;
        Ok(Arc::new(Layout::new(name, keys, values)?))
    }

    /// What the state is of: another plan does not go on with it.
    pub fn identity(plan: &AggregatePlan) -> String {
        let keys: Vec<String> = plan.keys.iter().map(ToString::to_string).collect();
        let calls: Vec<&str> = plan.calls.iter().map(|call| call.function.name()).collect();
        format!("aggregate 1: {} by {}", calls.join(", "), keys.join(", "))
    }

    /// An aggregation whose groups are in this table.
    ///
    /// # Errors
    /// As [`layout`](Self::layout).
    pub fn new(plan: AggregatePlan, mode: OutputMode, table: Box<dyn StateTable>) -> Result<Self> {
        let layout = Self::layout(&plan, String::new())?;
        let accumulation = Accumulation::new(plan.calls.clone())?;
        let counts = OperatorCounts::default();
        let (changed, has_changed, is_planned) = (None, false, false);
        Ok(Self { plan, mode, accumulation, layout, table, changed, has_changed, is_planned, counts })
    }

    /// The table.
    pub fn table(&mut self) -> &mut dyn StateTable {
        &mut *self.table
    }

    /// What it did since this was asked last.
    pub fn take_counts(&mut self) -> OperatorCounts {
        std::mem::take(&mut self.counts)
    }

    /// In update mode, whether each group that changed comes out once for the open batch, at its end, rather than at once; in
    /// complete mode, whether all groups come out at the end of each batch, rather than of one in which some changed.
    pub fn set_gathering(&mut self, is_gathering: bool) {
        self.is_planned = is_gathering;
        if self.mode == OutputMode::Update && is_gathering != self.changed.is_some() {
            self.changed = is_gathering.then(Keys::default);
        }
    }

    /// Takes note that the open batch has rows, which may all be of other parts of a table that is divided.
    pub fn note_rows_of_batch(&mut self) {
        self.has_changed = true;
    }

    /// True if the end of a batch lets groups go by the watermark.
    pub fn evicts(&self) -> bool {
        self.mode != OutputMode::Complete
    }

    /// Takes rows of the open batch, of which groups with a window that ends at `late` or before are late; gives the groups that
    /// changed, if they come out at once.
    ///
    /// # Errors
    /// `Invalid` for values that cannot be computed; as the table.
    pub fn push(&mut self, rows: &RecordBatch, late: Option<Bucket>) -> Result<Option<RecordBatch>> {
        if rows.num_rows() == 0 {
            return Ok(None);
        }
        let (mut keys, group_of_row) = self.grouped(rows)?;
        let mut states = self.accumulation.states(rows, &group_of_row, keys.len())?;
        if let Some(late) = late.filter(|_| self.mode != OutputMode::Complete) {
            let is_late = |at: usize| keys.bucket(at) <= late;
            let count = (0..keys.len()).filter(|at| is_late(*at)).count();
            if count > 0 {
                self.counts.late += count as u64;
                let kept = BooleanArray::from((0..keys.len()).map(|at| !is_late(at)).collect::<Vec<_>>());
                let kept_states: Result<Vec<_>, _> =
                    states.iter().map(|states| filter(states, &kept)).collect();
                states = kept_states.map_err(computing)?;
                keys = keys.filtered(|at| !is_late(at));
            }
        }
        if keys.is_empty() {
            return Ok(None);
        }
        let found = self.table.read(&keys)?;
        if !found.places.is_empty() {
            states = self.accumulation.merged(&found.values, &found.places, &states)?;
        }
        self.table.write(&keys, &states)?;
        self.counts.updated += keys.len() as u64;
        self.has_changed = true;
        if let Some(changed) = &mut self.changed {
            for at in 0..keys.len() {
                changed.insert(keys.bucket(at), keys.hash(at), keys.key(at));
            }
            return Ok(None);
        }
        if self.mode != OutputMode::Update {
            return Ok(None);
        }
        let key_columns = self.layout.columns_of(&keys)?;
        self.groups(key_columns, &states, keys.len()).map(Some)
    }

    /// Ends the open batch: windows that end at `evict_until` or before are over. Gives the groups that come out at its end.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn end_batch(&mut self, evict_until: Option<Bucket>) -> Result<Vec<RecordBatch>> {
        let mut out = Vec::new();
        if self.plan.keys.is_empty() && self.is_planned && !self.has_changed {
            self.touch_only_group()?;
        }
        if let Some(changed) = self.changed.as_mut().map(std::mem::take).filter(|changed| !changed.is_empty())
        {
            let found = self.table.read(&changed)?;
            assert_eq!(found.places.len(), changed.len(), "groups of the open batch are there");
            out.push(self.groups(self.layout.columns_of(&changed)?, &found.values, changed.len())?);
        }
        let has_changed = std::mem::take(&mut self.has_changed);
        if self.mode == OutputMode::Complete {
            if has_changed || self.is_planned {
                for rows in self.table.scan()? {
                    out.push(self.groups_of(rows)?);
                }
            }
            return Ok(out);
        }
        let Some(until) = evict_until.filter(|_| self.plan.window_key.is_some()) else { return Ok(out) };
        for rows in self.table.evict(until)? {
            self.counts.removed += rows.len() as u64;
            if self.mode == OutputMode::Append {
                out.push(self.groups_of(rows)?);
            }
        }
        Ok(out)
    }

    /// The group of all rows comes out of each planned batch, as in Spark, also of one without rows, and if there never were some.
    fn touch_only_group(&mut self) -> Result<()> {
        let mut keys = Keys::default();
        keys.insert(Bucket::FOR_EVER, KeyHash::of(&[]), &[]);
        if self.table.read(&keys)?.places.is_empty() {
            let nothing = RecordBatch::new_empty(Arc::clone(&self.plan.input));
            self.table.write(&keys, &self.accumulation.states(&nothing, &[], 1)?)?;
        }
        if let Some(changed) = &mut self.changed {
            *changed = keys;
        }
        Ok(())
    }

    /// Groups of rows, and which of them each row is in.
    fn grouped(&self, rows: &RecordBatch) -> Result<(Keys, Vec<usize>)> {
        let count = rows.num_rows();
        let columns = key_columns(&self.plan.keys, rows)?;
        let mut keys = Keys::default();
        if columns.is_empty() {
            keys.insert(Bucket::FOR_EVER, KeyHash::of(&[]), &[]);
            return Ok((keys, vec![0; count]));
        }
        let ends = match self.plan.window_key {
            Some(window) => Some(EndTimes::of_key(&columns, window)?),
            None => None,
        };
        let encoded = self.layout.encode_keys(&columns)?;
        let mut group_of_row = Vec::with_capacity(count);
        for (row, key) in encoded.iter().enumerate() {
            // A key that is not a window's has no end.
            let bucket = ends.as_ref().map_or(Bucket::FOR_EVER, |ends| ends.bucket(row));
            let key = key.data();
            group_of_row.push(keys.insert(bucket, KeyHash::of(key), key).0);
        }
        Ok((keys, group_of_row))
    }

    fn groups_of(&self, rows: StateRows) -> Result<RecordBatch> {
        let count = rows.len();
        self.groups(rows.keys, &rows.values, count)
    }

    fn groups(&self, keys: Vec<ArrayRef>, states: &[ArrayRef], count: usize) -> Result<RecordBatch> {
        let columns = keys.into_iter().chain(self.accumulation.results(states, count)?).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(Arc::clone(&self.plan.schema), columns, &options).map_err(computing)
    }
}
