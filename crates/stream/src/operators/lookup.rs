use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array,
};
use arrow::compute::{filter_record_batch, take};
use arrow::row::{RowConverter, SortField};

use super::Calc;
use super::event_time::key_columns;
use super::join::{Out, truths};
use crate::error::{Result, computing, corrupt};
use crate::plan::{LookupKind, LookupPlan};
use crate::state::{Bucket, KeyHash, Keys, MemoryShare};

/// Most pairs that come out at once.
const PAIRS_MAX: usize = 8192;

/// Rows of a stream with those of a table at rest, which lies in memory by its keys. It keeps no state.
pub struct Lookup {
    plan: LookupPlan,
    converter: RowConverter,
    at_rest: Option<AtRest>,
}

/// Rows of the table.
struct AtRest {
    rows: RecordBatch,
    keys: Keys,
    /// Rows of each key.
    places: Vec<Vec<u32>>,
}

/// Rows of the stream and of the table that have equal keys.
#[derive(Default)]
struct Pairs {
    of_stream: Vec<u32>,
    of_table: Vec<u32>,
}

impl Lookup {
    /// A join whose table is not read yet.
    ///
    /// # Errors
    /// `Invalid` for keys of a type that has no order.
    pub fn new(plan: LookupPlan) -> Result<Self> {
        let fields = plan.key_fields.iter().map(|field| SortField::new(field.data_type().clone())).collect();
        let converter = RowConverter::new(fields).map_err(computing)?;
        Ok(Self { plan, converter, at_rest: None })
    }

    /// Number of its table among the query's.
    pub fn table(&self) -> usize {
        self.plan.table
    }

    /// Takes the rows of its table, which grow into this memory.
    ///
    /// # Errors
    /// `Invalid` for values that cannot be computed; `ResourceExhausted` if they do not fit.
    pub fn set_table(&mut self, rows: RecordBatch, memory: &MemoryShare) -> Result<()> {
        let rows = Calc::new(self.plan.table_stages.iter().cloned()).push(rows)?;
        let columns = key_columns(&self.plan.table_keys, &rows)?;
        let encoded = self.converter.convert_columns(&columns).map_err(computing)?;
        let (mut keys, mut places) = (Keys::default(), Vec::<Vec<u32>>::new());
        for (row, key) in encoded.iter().enumerate() {
            // Null equals nothing.
            if columns.iter().any(|column| column.is_null(row)) {
                continue;
            }
            let row = u32::try_from(row).map_err(|_| corrupt("a table at rest has more than 2^32 rows"))?;
            let (place, is_new) = keys.insert(Bucket::FOR_EVER, KeyHash::of(key.data()), key.data());
            if is_new {
                places.push(Vec::new());
            }
            places[place].push(row);
        }
        let own = places.iter().map(|rows| size_of::<Vec<u32>>() + rows.capacity() * size_of::<u32>());
        memory.grow(rows.get_array_memory_size() + keys.memory_bytes() + own.sum::<usize>())?;
        self.at_rest = Some(AtRest { rows, keys, places });
        Ok(())
    }

    /// Takes rows of the stream, and gives what comes of them.
    ///
    /// # Errors
    /// `Invalid` for values that cannot be computed; as `out`.
    ///
    /// # Panics
    /// If the table is not there yet.
    pub fn push(&self, rows: &RecordBatch, out: Out<'_>) -> Result<()> {
        let at_rest = self.at_rest.as_ref().expect("tables at rest are there before rows of streams come");
        let columns = key_columns(&self.plan.keys, rows)?;
        let encoded = self.converter.convert_columns(&columns).map_err(computing)?;
        let mut has_match = vec![false; rows.num_rows()];
        let mut pairs = Pairs::default();
        for (row, key) in encoded.iter().enumerate() {
            if columns.iter().any(|column| column.is_null(row)) {
                continue;
            }
            let Some(place) = at_rest.keys.find(KeyHash::of(key.data()), key.data()) else {
                continue;
            };
            for other in &at_rest.places[place] {
                pairs.of_stream.push(row as u32);
                pairs.of_table.push(*other);
                if pairs.of_table.len() == PAIRS_MAX {
                    self.give(rows, at_rest, std::mem::take(&mut pairs), &mut has_match, out)?;
                }
            }
        }
        self.give(rows, at_rest, pairs, &mut has_match, out)?;
        let wants_matched = match self.plan.kind {
            LookupKind::Inner => return Ok(()),
            LookupKind::LeftSemi => true,
            LookupKind::LeftAnti | LookupKind::Outer => false,
        };
        let wanted: BooleanArray = has_match.iter().map(|had| Some(*had == wants_matched)).collect();
        let rows = filter_record_batch(rows, &wanted).map_err(computing)?;
        let own = rows.columns().to_vec();
        if self.plan.kind != LookupKind::Outer {
            return self.give_rows(own, rows.num_rows(), out);
        }
        let fields = self.plan.table_schema.fields().iter();
        let nulls = fields.map(|field| new_null_array(field.data_type(), rows.num_rows())).collect();
        self.give_rows(self.in_order(own, nulls), rows.num_rows(), out)
    }

    /// Columns of the stream and of the table as they stand in the join.
    fn in_order(&self, own: Vec<ArrayRef>, table: Vec<ArrayRef>) -> Vec<ArrayRef> {
        if self.plan.is_stream_first { [own, table] } else { [table, own] }.concat()
    }

    /// Gives the pairs for which the condition holds, and notes which rows had one.
    fn give(
        &self,
        rows: &RecordBatch,
        at_rest: &AtRest,
        pairs: Pairs,
        has_match: &mut [bool],
        out: Out<'_>,
    ) -> Result<()> {
        let (mine, theirs) = (UInt32Array::from(pairs.of_stream), UInt32Array::from(pairs.of_table));
        if mine.is_empty() {
            return Ok(());
        }
        let taken = |columns: &[ArrayRef], places: &UInt32Array| -> Result<Vec<ArrayRef>> {
            columns.iter().map(|column| take(column, places, None).map_err(computing)).collect()
        };
        let (own, other) = (taken(rows.columns(), &mine)?, taken(at_rest.rows.columns(), &theirs)?);
        let columns = self.in_order(own, other);
        let options = RecordBatchOptions::new().with_row_count(Some(mine.len()));
        let pairs = RecordBatch::try_new_with_options(Arc::clone(&self.plan.pair_schema), columns, &options);
        let mut pairs = pairs.map_err(computing)?;
        let mut holds = BooleanArray::from(vec![true; mine.len()]);
        if let Some(filter) = &self.plan.filter {
            holds = truths(filter, &pairs)?;
            pairs = filter_record_batch(&pairs, &holds).map_err(computing)?;
        }
        for pair in (0..mine.len()).filter(|pair| holds.value(*pair)) {
            has_match[mine.value(pair) as usize] = true;
        }
        if matches!(self.plan.kind, LookupKind::LeftSemi | LookupKind::LeftAnti) {
            return Ok(());
        }
        self.give_rows(pairs.columns().to_vec(), pairs.num_rows(), out)
    }

    fn give_rows(&self, columns: Vec<ArrayRef>, count: usize, out: Out<'_>) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let schema = Arc::clone(&self.plan.schema);
        out(RecordBatch::try_new_with_options(schema, columns, &options).map_err(computing)?)
    }
}
