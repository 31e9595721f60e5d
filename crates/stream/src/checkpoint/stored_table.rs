use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, TimestampMicrosecondArray};
use arrow::compute::{SortOptions, concat_batches, sort_to_indices, take_record_batch};
use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};

use super::wire::{StateFile, read_state_file, read_state_layout};
use crate::error::{Result, computing};
use crate::plan::TIMESTAMP;
use crate::state::{
    Bucket, Layout, MemoryShare, MemoryTable, PartitionSet, StateRows, StateTable, VersionKind,
};

/// Microseconds of time whose keys lie together while a table is looked at: a minute.
const SPAN_US: i64 = 60_000_000;

/// A table of state as a checkpoint has it.
pub struct StoredTable {
    layout: Arc<Layout>,
    /// Parts of the table, by the partitions that their files are of.
    parts: Vec<(PartitionSet, MemoryTable)>,
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
        Ok(Self { layout, parts: Vec::new(), snapshots: 0, deltas: 0, file_bytes: 0 })
    }

    /// Takes the next file in.
    ///
    /// # Errors
    /// `Corrupt` if it is none of this table.
    pub(super) fn take(&mut self, file: &StateFile, content: Vec<u8>) -> Result<()> {
        self.file_bytes += content.len() as u64;
        match file.kind {
            VersionKind::Snapshot => self.snapshots += 1,
            VersionKind::Delta => self.deltas += 1,
        }
        let version = read_state_file(&self.layout, content)?;
        if let Some((_, part)) = self.parts.iter_mut().find(|(of, _)| *of == file.partitions) {
            return part.restore(version);
        }
        let mut part = MemoryTable::new(Arc::clone(&self.layout), MemoryShare::default())?;
        part.restore(version)?;
        self.parts.push((file.partitions, part));
        Ok(())
    }

    /// Number of parts: of the threads that wrote it.
    pub fn parts(&self) -> usize {
        self.parts.len()
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
        self.parts.iter().map(|(_, part)| part.usage().keys).sum()
    }

    /// The first keys with their values, by the time at which they are over: columns `over_at`, which is null for those that
    /// never are, `key.…` and `value.…`.
    ///
    /// # Errors
    /// As the table.
    pub fn first_rows(&self, limit: usize) -> Result<RecordBatch> {
        let schema = self.schema();
        let mut found = Vec::new();
        for (_, part) in &self.parts {
            let mut left = limit;
            for rows in part.scan()? {
                if left == 0 {
                    break;
                }
                let batch = batch(&schema, rows)?;
                let first = batch.slice(0, batch.num_rows().min(left));
                left -= first.num_rows();
                found.push(first);
            }
        }
        let found = concat_batches(&schema, &found).map_err(computing)?;
        if self.parts.len() < 2 {
            return Ok(found);
        }
        // Each part has its own first ones.
        let by_time = SortOptions { descending: false, nulls_first: false };
        let first = sort_to_indices(found.column(0), Some(by_time), Some(limit)).map_err(computing)?;
        take_record_batch(&found, &first).map_err(computing)
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
