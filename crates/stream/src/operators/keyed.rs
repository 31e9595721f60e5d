use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int8Array, Int64Array, RecordBatch, UInt32Array, new_null_array,
};
use arrow::compute::{concat_batches, interleave, take, take_record_batch};
use arrow::datatypes::{DataType, Field, FieldRef, Int8Type, Int64Type};

use super::OperatorCounts;
use super::event_time::{drop_late, key_columns};
use crate::error::{Error, ErrorKind, Result, computing};
use crate::plan::KeyedPlan;
use crate::state::{Bucket, Found, KeyHash, Keys, Layout, MemoryShare, StateTable, StateUsage};
use crate::state_function::{Changes, KeyGroups, StateChange, Timeout};

/// Columns of a table after those of the function's state: whether there is a state, and when the key times out.
const OWN_COLUMNS: [(&str, DataType); 2] =
    [("state.exists", DataType::Int8), ("timeout.ms", DataType::Int64)];
/// Bytes of an entry of a timer beside its key.
const TIMER_BYTES: usize = 48;

/// A state function over the rows of each key, whose states are in a table.
pub struct Keyed {
    plan: KeyedPlan,
    layout: Arc<Layout>,
    table: Box<dyn StateTable>,
    memory: MemoryShare,
    /// Keys that have a timeout, in its order; they are in the table, too, from which they are taken after a restart.
    timers: BTreeSet<(i64, Box<[u8]>)>,
    timer_bytes: usize,
    /// Rows of the open batch, if the function gets them at its end.
    gathered: Option<Vec<RecordBatch>>,
    now_ms: i64,
    counts: OperatorCounts,
}

/// Keys of a call with what is known of them.
struct Called {
    keys: Keys,
    /// States as the function gets them, a row for each key.
    states: Vec<ArrayRef>,
    has_state: Vec<bool>,
    /// Keys that are in the table, with a state or only with a timeout.
    is_stored: Vec<bool>,
    timeouts_ms: Vec<Option<i64>>,
}

impl Keyed {
    /// Layout of the table.
    ///
    /// # Errors
    /// `Invalid` for types that state does not hold.
    pub fn layout(plan: &KeyedPlan, name: String) -> Result<Arc<Layout>> {
        let own = OWN_COLUMNS.map(|(name, data_type)| Arc::new(Field::new(name, data_type, true)));
        let values: Vec<FieldRef> = plan.function.state().into_iter().chain(own).collect();
        Ok(Arc::new(Layout::new(name, plan.key_fields.clone(), values)?))
    }

    /// Identity of the state: another plan does not go on with it.
    pub fn identity(plan: &KeyedPlan) -> String {
        let fields = |fields: &[FieldRef]| {
            let named = |field: &FieldRef| format!("{} {}", field.name(), field.data_type());
            fields.iter().map(named).collect::<Vec<_>>().join(", ")
        };
        let (keys, state) = (fields(&plan.key_fields), fields(&plan.function.state()));
        format!("keyed 1: {} {} ({state}) by {keys}", plan.name, plan.function.version())
    }

    /// A function whose states are in this table.
    ///
    /// # Errors
    /// As [`layout`](Self::layout) and the table.
    pub fn new(plan: KeyedPlan, table: Box<dyn StateTable>) -> Result<Self> {
        let layout = Self::layout(&plan, String::new())?;
        let mut keyed = Self {
            plan,
            layout,
            table,
            memory: MemoryShare::default(),
            timers: BTreeSet::new(),
            timer_bytes: 0,
            gathered: None,
            now_ms: 0,
            counts: OperatorCounts::default(),
        };
        let mut timers: Vec<(i64, Box<[u8]>)> = Vec::new();
        for rows in keyed.table.scan()? {
            let timeouts = rows.values[rows.values.len() - 1].as_primitive::<Int64Type>();
            let encoded = keyed.layout.encode_keys(&rows.keys)?;
            for row in (0..rows.len()).filter(|row| timeouts.is_valid(*row)) {
                let key = encoded.row(row).data();
                keyed.timer_bytes += key.len() + TIMER_BYTES;
                timers.push((timeouts.value(row), key.into()));
            }
        }
        // All at once: a million one by one, in no order, would take most of a restart.
        keyed.timers = timers.into_iter().collect();
        Ok(keyed)
    }

    /// Has rows and timers that are kept beside the table grow into this memory.
    ///
    /// # Errors
    /// `ResourceExhausted` if those that are there do not fit.
    pub fn charge(&mut self, memory: &MemoryShare) -> Result<()> {
        self.memory = memory.clone();
        self.memory.grow(self.timer_bytes)
    }

    /// The table.
    pub fn table(&mut self) -> &mut dyn StateTable {
        &mut *self.table
    }

    /// Memory and keys.
    pub fn usage(&self) -> StateUsage {
        let usage = self.table.usage();
        StateUsage { memory_bytes: usage.memory_bytes + self.timer_bytes as u64, ..usage }
    }

    /// Counts since this was asked last.
    pub fn take_counts(&mut self) -> OperatorCounts {
        std::mem::take(&mut self.counts)
    }

    /// True if the function gets the rows of the open batch once, at its end, rather than as they come.
    pub fn set_gathering(&mut self, is_gathering: bool) {
        if is_gathering != self.gathered.is_some() {
            assert!(self.gathered.as_ref().is_none_or(Vec::is_empty), "rows of a batch wait for its end");
            self.gathered = is_gathering.then(Vec::new);
        }
    }

    /// Sets the machine's clock, in milliseconds since 1970. It never goes back.
    pub fn set_now_ms(&mut self, now_ms: i64) {
        self.now_ms = self.now_ms.max(now_ms);
    }

    /// True if the end of a batch without rows would let keys time out, or might.
    pub fn wants_empty_batch(&self, has_risen: bool) -> bool {
        match self.plan.function.timeout() {
            Timeout::None => false,
            Timeout::EventTime => has_risen,
            Timeout::ProcessingTime => self.timers.first().is_some_and(|(at_ms, _)| *at_ms < self.now_ms),
        }
    }

    /// The first time on the machine's clock at which a key times out.
    pub fn next_timer_ms(&self) -> Option<i64> {
        let is_by_clock = self.plan.function.timeout() == Timeout::ProcessingTime;
        self.timers.first().filter(|_| is_by_clock).map(|(at_ms, _)| *at_ms)
    }

    /// Takes rows of the open batch; gives what comes out at once.
    ///
    /// # Errors
    /// `Invalid` for values that cannot be computed; as the function and the table.
    pub fn push(
        &mut self,
        rows: RecordBatch,
        late_ms: Option<i64>,
        watermark_ms: Option<i64>,
    ) -> Result<Option<RecordBatch>> {
        let (rows, late) = drop_late(rows, self.plan.time, late_ms)?;
        self.counts.late += late;
        if rows.num_rows() == 0 {
            return Ok(None);
        }
        match &mut self.gathered {
            Some(gathered) => {
                self.memory.grow(rows.get_array_memory_size())?;
                gathered.push(rows);
                Ok(None)
            }
            None => self.call_with_rows(&rows, watermark_ms).map(Some),
        }
    }

    /// Ends the open batch: the function gets the rows that wait for it, and then the keys that have timed out.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn end_batch(&mut self, watermark_ms: Option<i64>) -> Result<Vec<RecordBatch>> {
        let mut out = Vec::new();
        if let Some(gathered) = self.gathered.as_mut().map(std::mem::take).filter(|rows| !rows.is_empty()) {
            let rows = concat_batches(&gathered[0].schema(), &gathered).map_err(computing)?;
            drop(gathered);
            out.push(self.call_with_rows(&rows, watermark_ms)?);
        }
        let until_ms = match self.plan.function.timeout() {
            Timeout::None => None,
            Timeout::ProcessingTime => Some(self.now_ms),
            Timeout::EventTime => watermark_ms,
        };
        if let Some(until_ms) = until_ms {
            out.extend(self.call_with_timed_out(until_ms, watermark_ms)?);
        }
        Ok(out)
    }

    fn call_with_rows(&mut self, rows: &RecordBatch, watermark_ms: Option<i64>) -> Result<RecordBatch> {
        let columns = key_columns(&self.plan.keys, rows)?;
        let encoded = self.layout.encode_keys(&columns)?;
        let (mut keys, mut sizes, mut group_of_row) = (Keys::default(), Vec::new(), Vec::new());
        for key in encoded.iter() {
            let (group, is_new) = keys.insert(Bucket::FOR_EVER, KeyHash::of(key.data()), key.data());
            if is_new {
                sizes.push(0);
            }
            sizes[group] += 1;
            group_of_row.push(group);
        }
        let (grouped, ends) = grouped(rows, &group_of_row, &sizes)?;
        self.call(keys, &grouped, Some(&ends), watermark_ms)
    }

    fn call_with_timed_out(
        &mut self,
        until_ms: i64,
        watermark_ms: Option<i64>,
    ) -> Result<Option<RecordBatch>> {
        // Strictly before, as in Spark.
        let mut keys = Keys::default();
        for (_, key) in self.timers.range(..(until_ms, Box::default())) {
            keys.insert(Bucket::FOR_EVER, KeyHash::of(key), key);
        }
        if keys.is_empty() {
            return Ok(None);
        }
        let rows = RecordBatch::new_empty(Arc::clone(&self.plan.input));
        self.call(keys, &rows, None, watermark_ms).map(Some)
    }

    /// Calls the function, and keeps what it says of states once it has given its rows.
    fn call(
        &mut self,
        keys: Keys,
        rows: &RecordBatch,
        ends: Option<&[usize]>,
        watermark_ms: Option<i64>,
    ) -> Result<RecordBatch> {
        let key_columns = self.layout.columns_of(&keys)?;
        let found = self.table.read(&keys)?;
        let called = Called::new(keys, found, &self.layout)?;
        let groups = KeyGroups {
            keys: &key_columns,
            rows,
            ends,
            states: &called.states,
            has_state: &called.has_state,
            watermark_ms,
            processing_time_ms: self.now_ms,
        };
        let mut changes = Changes::new(&groups, self.plan.function.timeout());
        let out = self.plan.function.call(&groups, &mut changes).map_err(|error| self.failed(error))?;
        if out.schema_ref() != &self.plan.schema {
            let text = format!("it gave rows of {:?}, and promised {:?}", out.schema(), self.plan.schema);
            return Err(self.failed(Error::new(ErrorKind::Internal, text)));
        }
        self.keep(&called, &changes)?;
        Ok(out)
    }

    fn failed(&self, error: Error) -> Error {
        let text = format!("the state function '{}' failed: {error}", self.plan.name);
        let hint = error.hint().map(ToOwned::to_owned);
        let failed = Error::new(error.kind(), text).with_source(error);
        match hint {
            Some(hint) => failed.with_hint(hint),
            None => failed,
        }
    }

    /// Writes states and timeouts as a call left them.
    fn keep(&mut self, called: &Called, changes: &Changes) -> Result<()> {
        let new = changes.states().map_err(|error| self.failed(error))?;
        let types = self.layout.values.iter().map(|field| field.data_type());
        if !new.is_empty() && !new.iter().map(|column| column.data_type()).eq(types.take(called.states.len()))
        {
            let text = "its states have other types than it promised";
            return Err(self.failed(Error::new(ErrorKind::Internal, text)));
        }
        // Of which array a written key's state is: the earlier one, the new one, or nothing.
        let (mut written, mut sources) = (Keys::default(), Vec::new());
        let (mut exists, mut timeouts_ms) = (Vec::new(), Vec::new());
        let mut removed = Keys::default();
        let timer_bytes = self.timer_bytes;
        for group in 0..called.keys.len() {
            let (change, timeout_ms) = (changes.change(group), changes.timeout_ms(group));
            let key = called.keys.key(group);
            let before_ms = called.timeouts_ms[group];
            let has_state = match change {
                StateChange::Update => true,
                StateChange::Remove => false,
                StateChange::Keep => called.has_state[group],
            };
            self.set_timer(key, before_ms, timeout_ms);
            if !has_state && timeout_ms.is_none() {
                if called.is_stored[group] {
                    removed.insert(Bucket::FOR_EVER, called.keys.hash(group), key);
                }
                continue;
            }
            if change == StateChange::Keep && before_ms == timeout_ms {
                continue;
            }
            written.insert(Bucket::FOR_EVER, called.keys.hash(group), key);
            sources.push(match change {
                StateChange::Keep => (0, group),
                StateChange::Update => (1, group),
                StateChange::Remove => (2, 0),
            });
            exists.push(i8::from(has_state));
            timeouts_ms.push(timeout_ms);
        }
        self.memory.grow(self.timer_bytes.saturating_sub(timer_bytes))?;
        if !removed.is_empty() {
            self.counts.removed += removed.len() as u64;
            self.table.remove(&removed)?;
        }
        if written.is_empty() {
            return Ok(());
        }
        let column = |(number, earlier): (usize, &ArrayRef)| {
            let null = new_null_array(earlier.data_type(), 1);
            let new = new.get(number).unwrap_or(earlier);
            interleave(&[earlier.as_ref(), new.as_ref(), null.as_ref()], &sources).map_err(computing)
        };
        let values: Result<Vec<ArrayRef>> = called.states.iter().enumerate().map(column).collect();
        let mut values = values?;
        values.push(Arc::new(Int8Array::from(exists)));
        values.push(Arc::new(Int64Array::from(timeouts_ms)));
        self.counts.updated += written.len() as u64;
        self.table.write(&written, &values)
    }

    fn set_timer(&mut self, key: &[u8], before_ms: Option<i64>, now_ms: Option<i64>) {
        if before_ms == now_ms {
            return;
        }
        if let Some(before_ms) = before_ms
            && self.timers.remove(&(before_ms, key.into()))
        {
            self.timer_bytes -= key.len() + TIMER_BYTES;
        }
        if let Some(at_ms) = now_ms
            && self.timers.insert((at_ms, key.into()))
        {
            self.timer_bytes += key.len() + TIMER_BYTES;
        }
    }
}

impl Called {
    fn new(keys: Keys, found: Found, layout: &Layout) -> Result<Self> {
        let count = keys.len();
        let mut places: Vec<Option<u32>> = vec![None; count];
        for (row, place) in (0_u32..).zip(&found.places) {
            places[*place] = Some(row);
        }
        let is_stored: Vec<bool> = places.iter().map(Option::is_some).collect();
        let places = UInt32Array::from(places);
        let values: Result<Vec<ArrayRef>, _> =
            found.values.iter().map(|column| take(column, &places, None)).collect();
        let mut states = values.map_err(computing)?;
        assert_eq!(states.len(), layout.values.len(), "a table gives all columns");
        let (timeouts, exists) = (states.pop(), states.pop());
        let (Some(timeouts), Some(exists)) = (timeouts, exists) else {
            unreachable!("the last columns of the table are its own")
        };
        let (timeouts, exists) = (timeouts.as_primitive::<Int64Type>(), exists.as_primitive::<Int8Type>());
        let has_state = (0..count).map(|at| exists.is_valid(at) && exists.value(at) == 1).collect();
        let timeouts_ms = timeouts.iter().collect();
        Ok(Self { keys, states, has_state, is_stored, timeouts_ms })
    }
}

/// Rows in the order of their groups, each group in its own order, and the end of each group.
fn grouped(rows: &RecordBatch, group_of_row: &[usize], sizes: &[usize]) -> Result<(RecordBatch, Vec<usize>)> {
    let ends: Vec<usize> = sizes
        .iter()
        .scan(0, |end, size| {
            *end += size;
            Some(*end)
        })
        .collect();
    if group_of_row.is_sorted() {
        return Ok((rows.clone(), ends));
    }
    let mut next: Vec<usize> = ends.iter().zip(sizes).map(|(end, size)| end - size).collect();
    let mut places = vec![0_u32; rows.num_rows()];
    for (row, group) in (0_u32..).zip(group_of_row) {
        places[next[*group]] = row;
        next[*group] += 1;
    }
    Ok((take_record_batch(rows, &UInt32Array::from(places)).map_err(computing)?, ends))
}
