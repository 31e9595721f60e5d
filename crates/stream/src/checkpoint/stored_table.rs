use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, TimestampMicrosecondArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};

use super::wire::{read_state_file, read_state_layout};
use crate::error::{Result, computing};
use crate::plan::TIMESTAMP;
use crate::state::{Bucket, Layout, MemoryShare, MemoryTable, StateRows, StateTable, VersionKind};

/// Microseconds of time whose keys lie together while a table is looked at: a minute.
const SPAN_US: i64 = 60_000_000;

/// A table of state as a checkpoint has it.
pub struct StoredTable {
    layout: Arc<Layout>,
    table: MemoryTable,
    /// Files that are a whole table.
    pub snapshots: usize,
    /// Files with what changed since the one before.
    pub deltas: usize,
    /// Bytes of these files.
    pub file_bytes: u64,
}

impl StoredTable {
    /// An empty table with the layout that its first file has.
    ///
    /// # Errors
    /// `Corrupt` if that is no file of this table.
    pub(super) fn new(name: &str, first: &[u8]) -> Result<Self> {
        let layout = Arc::new(read_state_layout(name, first)?.with_span_us(SPAN_US));
        let table = MemoryTable::new(Arc::clone(&layout), MemoryShare::default())?;
        Ok(Self { layout, table, snapshots: 0, deltas: 0, file_bytes: 0 })
    }

    /// Takes the next file in.
    ///
    /// # Errors
    /// `Corrupt` if it is none of this table.
    pub(super) fn take(&mut self, kind: VersionKind, content: Vec<u8>) -> Result<()> {
        self.file_bytes += content.len() as u64;
        match kind {
            VersionKind::Snapshot => self.snapshots += 1,
            VersionKind::Delta => self.deltas += 1,
        }
        self.table.restore(read_state_file(&self.layout, content)?)
    }

    /// Name.
    pub fn name(&self) -> &str {
        &self.layout.name
    }

    /// Kind of the operator that it is of: `aggregate`, `distinct`, `join` or `keyed`.
    pub fn kind(&self) -> &str {
        self.name().split('-').next().unwrap_or_default()
    }

    /// Columns of its keys and of its values.
    pub fn columns(&self) -> (&[FieldRef], &[FieldRef]) {
        (&self.layout.keys, &self.layout.values)
    }

    /// Number of keys.
    pub fn rows(&self) -> u64 {
        self.table.usage().keys
    }

    /// The first keys with their values, by the time at which they are over: columns `over_at`, which is null for those that
    /// never are, `key.…` and `value.…`.
    ///
    /// # Errors
    /// As the table.
    pub fn first_rows(&self, limit: usize) -> Result<RecordBatch> {
        let schema = self.schema();
        let (mut parts, mut left) = (Vec::new(), limit);
        for rows in self.table.scan()? {
            if left == 0 {
                break;
            }
            let batch = batch(&schema, rows)?;
            let part = batch.slice(0, batch.num_rows().min(left));
            left -= part.num_rows();
            parts.push(part);
        }
        concat_batches(&schema, &parts).map_err(computing)
    }

    fn schema(&self) -> SchemaRef {
        let (keys, values) = self.columns();
        let named = |prefix: &str, field: &FieldRef| {
            Field::new(format!("{prefix}.{}", field.name()), field.data_type().clone(), true)
        };
        let keys = keys.iter().map(|field| named("key", field));
        let values = values.iter().map(|field| named("value", field));
        let over = Field::new("over_at", TIMESTAMP(), true);
        Arc::new(Schema::new(std::iter::once(over).chain(keys).chain(values).collect::<Vec<_>>()))
    }
}

fn batch(schema: &SchemaRef, rows: StateRows) -> Result<RecordBatch> {
    let over = rows.buckets.iter().map(|bucket| (*bucket != Bucket::FOR_EVER).then_some(bucket.0));
    let over: ArrayRef = Arc::new(TimestampMicrosecondArray::from_iter(over).with_timezone("+00:00"));
    let columns = std::iter::once(over).chain(rows.keys).chain(rows.values).collect();
    RecordBatch::try_new(Arc::clone(schema), columns).map_err(computing)
}

impl fmt::Debug for StoredTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredTable").field("layout", &self.layout).finish_non_exhaustive()
    }
}
