use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, UInt64Array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::BatchCoalescer;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::common::{NullEquality, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::spill::SpillManager;
use datafusion::physical_plan::spill::spill_pool::{SpillPoolSink, spsc_channel};
use futures::StreamExt;

/// The number of buckets that a division makes.
pub(super) const BUCKETS: usize = 16;

/// Rows that a bucket buffers before it writes them, if there is memory for as many: enough that a column is not mostly
/// header, few enough that the buffers of sixteen buckets, for each partition, stay small.
const ROWS_PER_WRITE: usize = 2048;

/// A hash seed per level of division: with the same seed all rows of a bucket would fall into one bucket again.
const SEEDS: [u64; 4] =
    [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb, 0x2545_f491_4f6c_dd1d];

/// The most divisions that a row goes through, the first one included.
pub(super) const LEVELS_MAX: usize = SEEDS.len();

/// Rows on disk whose keys hash to the same bucket. Its files are deleted as they are read, or when it is dropped.
pub(super) struct Bucket {
    pub stream: SendableRecordBatchStream,
    pub rows: usize,
    /// The size of its batches in memory, bytes.
    pub bytes: usize,
}

/// Divides rows into buckets on disk by the hash of their keys.
pub(super) struct Divider {
    keys: Vec<PhysicalExprRef>,
    nulls: NullEquality,
    /// Rows so far with a null key that equals no other: they go to the buckets in turn.
    unequal_rows: usize,
    random_state: RandomState,
    spill: Arc<SpillManager>,
    /// The size of a file, in bytes, from which on its bucket continues in another.
    file_bytes_max: usize,
    /// For buffered rows. When it is refused, they are written, however few they are.
    reservation: MemoryReservation,
    parts: Vec<Part>,
    hashes: Vec<u64>,
    indices: Vec<Vec<u64>>,
}

struct Part {
    coalescer: BatchCoalescer,
    file: Option<(SpillPoolSink, SendableRecordBatchStream)>,
    /// The size of the buffered rows, bytes.
    gathered_bytes: usize,
    rows: usize,
    bytes: usize,
}

impl Divider {
    /// `level` counts from 0; at the same level, equal keys of both sides go to the same bucket.
    pub(super) fn new(
        keys: Vec<PhysicalExprRef>,
        nulls: NullEquality,
        level: usize,
        spill: SpillManager,
        file_bytes_max: usize,
        reservation: MemoryReservation,
    ) -> Self {
        let part = || Part {
            coalescer: BatchCoalescer::new(Arc::clone(spill.schema()), ROWS_PER_WRITE),
            file: None,
            gathered_bytes: 0,
            rows: 0,
            bytes: 0,
        };
        let parts = (0..BUCKETS).map(|_| part()).collect();
        let random_state = RandomState::with_seed(SEEDS[level]);
        let indices = vec![Vec::new(); BUCKETS];
        Self {
            keys,
            nulls,
            unequal_rows: 0,
            random_state,
            spill: Arc::new(spill),
            file_bytes_max,
            reservation,
            parts,
            hashes: Vec::new(),
            indices,
        }
    }

    pub(super) fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        let keys =
            self.keys.iter().map(|key| key.evaluate(batch)?.into_array(rows)).collect::<Result<Vec<_>>>()?;
        self.hashes.clear();
        self.hashes.resize(rows, 0);
        create_hashes(
            keys.iter().map(|key| key.as_ref() as &dyn Array),
            &self.random_state,
            &mut self.hashes,
        )?;
        let unequal = match self.nulls {
            NullEquality::NullEqualsNothing => null_rows(&keys),
            NullEquality::NullEqualsNull => None,
        };
        self.indices.iter_mut().for_each(Vec::clear);
        for (row, hash) in self.hashes.iter().enumerate() {
            let bucket = if unequal.as_ref().is_some_and(|unequal| unequal.is_null(row)) {
                // It matches nothing. By hash all such rows would go to one bucket, which no division makes smaller.
                self.unequal_rows += 1;
                self.unequal_rows % BUCKETS
            } else {
                // The upper 32 bits, scaled to a bucket's number.
                ((hash >> 32) as usize * BUCKETS) >> 32
            };
            self.indices[bucket].push(row as u64);
        }
        let row_bytes = get_record_batch_memory_size(batch).div_ceil(rows.max(1));
        for (part, indices) in self.parts.iter_mut().zip(&self.indices) {
            if indices.is_empty() {
                continue;
            }
            part.gather(batch, indices, row_bytes)?;
            part.write(&self.spill, self.file_bytes_max)?;
        }
        self.account()
    }

    /// Reserves memory for the buffered rows, and writes them if that is refused.
    fn account(&mut self) -> Result<()> {
        let gathered_bytes = self.parts.iter().map(|part| part.gathered_bytes).sum();
        if self.reservation.try_resize(gathered_bytes).is_ok() {
            return Ok(());
        }
        for part in &mut self.parts {
            part.write_all(&self.spill, self.file_bytes_max)?;
        }
        self.reservation.free();
        Ok(())
    }

    /// Divides all rows of a stream.
    pub(super) async fn push_all(&mut self, mut rows: SendableRecordBatchStream) -> Result<()> {
        while let Some(batch) = rows.next().await {
            self.push(&batch?)?;
        }
        Ok(())
    }

    /// The buckets, `None` for one that got no rows.
    pub(super) fn finish(self) -> Result<Vec<Option<Bucket>>> {
        let Self { spill, file_bytes_max, parts, .. } = self;
        parts.into_iter().map(|part| part.finish(&spill, file_bytes_max)).collect()
    }
}

impl Part {
    fn gather(&mut self, batch: &RecordBatch, rows: &[u64], row_bytes: usize) -> Result<()> {
        self.coalescer.push_batch_with_indices(batch.clone(), &UInt64Array::from(rows.to_vec()))?;
        self.rows += rows.len();
        self.gathered_bytes += rows.len() * row_bytes;
        if self.coalescer.has_completed_batch() {
            self.gathered_bytes = self.coalescer.get_buffered_rows() * row_bytes;
        }
        Ok(())
    }

    /// Writes the buffered batches that are full.
    fn write(&mut self, spill: &Arc<SpillManager>, file_bytes_max: usize) -> Result<()> {
        while let Some(batch) = self.coalescer.next_completed_batch() {
            let (file, _) = self.file.get_or_insert_with(|| spsc_channel(file_bytes_max, Arc::clone(spill)));
            self.bytes += batch.get_array_memory_size();
            file.push_batch(&batch)?;
        }
        Ok(())
    }

    fn write_all(&mut self, spill: &Arc<SpillManager>, file_bytes_max: usize) -> Result<()> {
        self.coalescer.finish_buffered_batch()?;
        self.gathered_bytes = 0;
        self.write(spill, file_bytes_max)
    }

    fn finish(mut self, spill: &Arc<SpillManager>, file_bytes_max: usize) -> Result<Option<Bucket>> {
        self.write_all(spill, file_bytes_max)?;
        // Dropping the sink ends the file.
        Ok(self.file.map(|(_, stream)| Bucket { stream, rows: self.rows, bytes: self.bytes }))
    }
}

/// The rows in which a key is null.
fn null_rows(keys: &[ArrayRef]) -> Option<NullBuffer> {
    keys.iter().fold(None, |rows, key| NullBuffer::union(rows.as_ref(), key.logical_nulls().as_ref()))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, StringArray};
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};
    use datafusion::execution::runtime_env::RuntimeEnv;
    use datafusion::physical_expr::expressions::Column;
    use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};

    use super::*;

    const TEXT_BYTES: usize = 10_000;

    /// 100 rows of a key and a long text.
    fn batch(start: i64) -> RecordBatch {
        let keys: Int64Array = (start..start + 100).map(Some).collect();
        let texts: StringArray = (0..100).map(|_| Some("x".repeat(TEXT_BYTES))).collect();
        let schema = Schema::new(vec![
            Field::new("key", DataType::Int64, false),
            Field::new("text", DataType::Utf8, false),
        ]);
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(keys), Arc::new(texts)]).unwrap()
    }

    #[tokio::test]
    async fn what_is_gathered_is_reserved_and_written_where_that_is_refused() {
        // Room for three batches of a megabyte: without a limit the buckets would gather all twenty.
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(3 << 20));
        let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
        let spill = SpillManager::new(Arc::new(RuntimeEnv::default()), metrics, batch(0).schema());
        let reservation = MemoryConsumer::new("test").register(&pool);
        let keys: Vec<PhysicalExprRef> = vec![Arc::new(Column::new("key", 0))];
        let mut divider = Divider::new(keys, NullEquality::NullEqualsNothing, 0, spill, 1 << 30, reservation);
        let mut written = 0;
        for start in 0..20 {
            divider.push(&batch(start * 100)).unwrap();
            let gathered: usize = divider.parts.iter().map(|part| part.coalescer.get_buffered_rows()).sum();
            assert!(pool.reserved() >= gathered * TEXT_BYTES, "{} for {gathered} rows", pool.reserved());
            assert!(gathered < 400, "{gathered} rows");
            written += usize::from(gathered == 0);
        }
        assert!((4..=10).contains(&written), "{written}");

        let mut rows = 0;
        for bucket in divider.finish().unwrap().into_iter().flatten() {
            let expected = bucket.rows;
            let found: usize =
                bucket.stream.map(|batch| batch.unwrap().num_rows()).collect::<Vec<_>>().await.iter().sum();
            assert_eq!(found, expected);
            rows += found;
        }
        assert_eq!(rows, 2000);
        assert_eq!(pool.reserved(), 0);
    }
}
