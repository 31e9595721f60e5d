use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array,
};
use arrow::compute::{filter_record_batch, take, take_record_batch};
use arrow::datatypes::SchemaRef;
use arrow::row::{RowConverter, SortField};
use hashbrown::HashMap;

use super::event_time::key_columns;
use super::join::{Out, truths};
use crate::error::{Error, ErrorKind, Result, computing};
use crate::plan::{LookupKind, LookupPlan, TableRows};
use crate::state::MemoryShare;

/// Most pairs of rows that are looked at together.
const PAIRS_MAX: usize = 8192;
/// Bytes that the index takes for each row of the table beside its key.
const INDEX_BYTES: usize = 64;

/// A join of a stream's rows with those of a table, which lies in memory.
pub struct Lookup {
    plan: LookupPlan,
    table: RecordBatch,
    /// Rows of the table by their keys as bytes; none is there with a key that is null.
    index: HashMap<Box<[u8]>, Vec<u32>>,
    keys: RowConverter,
    bytes: usize,
}

impl Lookup {
    /// The join of a plan whose table was read.
    ///
    /// # Errors
    /// `Internal` if it was not; `Invalid` for keys that cannot be computed.
    pub fn new(plan: LookupPlan) -> Result<Self> {
        let TableRows::Read(table) = &plan.table else {
            return Err(Error::new(ErrorKind::Internal, "the table of a join was not read"));
        };
        let table = table.clone();
        let fields = plan.key_fields.iter().map(|field| SortField::new(field.data_type().clone()));
        let mut keys = RowConverter::new(fields.collect()).map_err(computing)?;
        let mut index: HashMap<Box<[u8]>, Vec<u32>> = HashMap::new();
        let mut bytes = 0;
        for (row, key) in row_keys(&mut keys, &key_columns(&plan.table_keys, &table)?, table.num_rows())? {
            bytes += key.len() + INDEX_BYTES;
            index.entry(key).or_default().push(row);
        }
        Ok(Self { plan, table, index, keys, bytes })
    }

    /// Has the index grow into this memory; the table's rows were charged as they were read.
    ///
    /// # Errors
    /// `ResourceExhausted` if it does not fit.
    pub fn charge(&self, memory: &MemoryShare) -> Result<()> {
        memory.grow(self.bytes)
    }

    /// Takes rows of the stream and gives what comes out.
    ///
    /// # Errors
    /// `Invalid` for values that cannot be computed; as `out`.
    pub fn push(&mut self, rows: &RecordBatch, out: Out<'_>) -> Result<()> {
        let keys = key_columns(&self.plan.stream_keys, rows)?;
        let keys = row_keys(&mut self.keys, &keys, rows.num_rows())?;
        let mut has_match = vec![false; rows.num_rows()];
        let (mut of_stream, mut of_table) = (Vec::new(), Vec::new());
        for (row, key) in keys {
            for at in self.index.get(&key).into_iter().flatten() {
                of_stream.push(row);
                of_table.push(*at);
                if of_stream.len() == PAIRS_MAX {
                    let pairs = (std::mem::take(&mut of_stream), std::mem::take(&mut of_table));
                    self.pairs(rows, pairs, &mut has_match, out)?;
                }
            }
        }
        self.pairs(rows, (of_stream, of_table), &mut has_match, out)?;
        let alone = |is_wanted: bool| {
            let mask: BooleanArray = has_match.iter().map(|has| Some(*has == is_wanted)).collect();
            filter_record_batch(rows, &mask).map_err(computing)
        };
        let given = match self.plan.kind {
            LookupKind::Inner => return Ok(()),
            LookupKind::Outer => {
                let rows = alone(false)?;
                let nulls = |column: &ArrayRef| new_null_array(column.data_type(), rows.num_rows());
                let nulls = self.table.columns().iter().map(nulls).collect();
                batch(&self.plan.schema, self.in_order(rows.columns().to_vec(), nulls), rows.num_rows())?
            }
            LookupKind::Semi | LookupKind::Anti => {
                let rows = alone(self.plan.kind == LookupKind::Semi)?;
                batch(&self.plan.schema, rows.columns().to_vec(), rows.num_rows())?
            }
        };
        if given.num_rows() == 0 { Ok(()) } else { out(given) }
    }

    /// Looks at pairs of rows with equal keys; those that match are noted, and come out if pairs do.
    fn pairs(
        &self,
        rows: &RecordBatch,
        (of_stream, of_table): (Vec<u32>, Vec<u32>),
        has_match: &mut [bool],
        out: Out<'_>,
    ) -> Result<()> {
        let (of_stream, of_table) = (UInt32Array::from(of_stream), UInt32Array::from(of_table));
        let picked = |batch: &RecordBatch, at: &UInt32Array| -> Result<Vec<ArrayRef>> {
            batch.columns().iter().map(|column| take(column, at, None).map_err(computing)).collect()
        };
        let columns = self.in_order(picked(rows, &of_stream)?, picked(&self.table, &of_table)?);
        let mut pairs = batch(&self.plan.pair_schema, columns, of_stream.len())?;
        let mut of_stream = of_stream;
        if let Some(filter) = &self.plan.filter {
            let holds = truths(filter, &pairs)?;
            let places: UInt32Array =
                (0..).zip(holds.values()).filter(|(_, holds)| *holds).map(|(at, _)| at).collect();
            pairs = take_record_batch(&pairs, &places).map_err(computing)?;
            of_stream = places.values().iter().map(|at| of_stream.value(*at as usize)).collect();
        }
        of_stream.values().iter().for_each(|row| has_match[*row as usize] = true);
        if pairs.num_rows() == 0 || matches!(self.plan.kind, LookupKind::Semi | LookupKind::Anti) {
            return Ok(());
        }
        out(batch(&self.plan.schema, pairs.columns().to_vec(), pairs.num_rows())?)
    }

    /// Left columns and then right ones.
    fn in_order(&self, of_stream: Vec<ArrayRef>, of_table: Vec<ArrayRef>) -> Vec<ArrayRef> {
        let (left, right) =
            if self.plan.stream_side == 0 { (of_stream, of_table) } else { (of_table, of_stream) };
        left.into_iter().chain(right).collect()
    }
}

/// Rows whose keys have no null, with the keys as bytes; all rows have the same one if there are no keys.
fn row_keys(keys: &mut RowConverter, columns: &[ArrayRef], count: usize) -> Result<Vec<(u32, Box<[u8]>)>> {
    let count = u32::try_from(count).map_err(computing)?;
    if columns.is_empty() {
        return Ok((0..count).map(|row| (row, Box::default())).collect());
    }
    let converted = keys.convert_columns(columns).map_err(computing)?;
    let is_whole = |row: &u32| columns.iter().all(|column| column.is_valid(*row as usize));
    let key = |row: u32| (row, Box::from(converted.row(row as usize).as_ref()));
    Ok((0..count).filter(is_whole).map(key).collect())
}

fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(computing)
}
