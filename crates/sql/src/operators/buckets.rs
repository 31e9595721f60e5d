use std::sync::Arc;

use datafusion::arrow::array::{Array, RecordBatch, UInt64Array};
use datafusion::arrow::compute::BatchCoalescer;
use datafusion::common::Result;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::spill::SpillManager;
use datafusion::physical_plan::spill::spill_pool::{SpillPoolSink, spsc_channel};
use futures::StreamExt;

/// Into how many parts one division divides.
pub(super) const BUCKETS: usize = 16;

/// Rows that a bucket gathers before it writes them: enough that a column is not mostly header, few enough that sixteen
/// buckets of two sides and partitions stay small.
const ROWS_PER_WRITE: usize = 2048;

/// What distinguishes the hash of one division from that of the next, which divides what this one put together.
const SEEDS: [u64; 4] =
    [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb, 0x2545_f491_4f6c_dd1d];

/// How often a bucket that is still too large is divided again.
pub(super) const LEVELS_MAX: usize = SEEDS.len();

/// Rows on disk whose keys have the same bucket; the files go with it, or as they are read.
pub(super) struct Bucket {
    pub stream: SendableRecordBatchStream,
    pub rows: usize,
    /// The size of its batches in memory, bytes.
    pub bytes: usize,
}

/// Divides rows by the hash of their keys into files.
pub(super) struct Divider {
    keys: Vec<PhysicalExprRef>,
    random_state: RandomState,
    spill: Arc<SpillManager>,
    /// A bucket's file is followed by another from this size on, bytes.
    file_bytes_max: usize,
    parts: Vec<Part>,
    hashes: Vec<u64>,
    indices: Vec<Vec<u64>>,
}

struct Part {
    coalescer: BatchCoalescer,
    file: Option<(SpillPoolSink, SendableRecordBatchStream)>,
    rows: usize,
    bytes: usize,
}

impl Divider {
    /// `level` counts from 0; the same level divides equal keys of both sides alike.
    pub(super) fn new(
        keys: Vec<PhysicalExprRef>,
        level: usize,
        spill: SpillManager,
        file_bytes_max: usize,
    ) -> Self {
        let part = || Part {
            coalescer: BatchCoalescer::new(Arc::clone(spill.schema()), ROWS_PER_WRITE),
            file: None,
            rows: 0,
            bytes: 0,
        };
        let parts = (0..BUCKETS).map(|_| part()).collect();
        let random_state = RandomState::with_seed(SEEDS[level]);
        let indices = vec![Vec::new(); BUCKETS];
        Self {
            keys,
            random_state,
            spill: Arc::new(spill),
            file_bytes_max,
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
        self.indices.iter_mut().for_each(Vec::clear);
        for (row, hash) in self.hashes.iter().enumerate() {
            // The upper bits: hash tables take the lower ones, and would find them alike within a bucket.
            let bucket = ((hash >> 32) as usize * BUCKETS) >> 32;
            self.indices[bucket].push(row as u64);
        }
        for (part, indices) in self.parts.iter_mut().zip(&self.indices) {
            if indices.is_empty() {
                continue;
            }
            part.rows += indices.len();
            part.coalescer.push_batch_with_indices(batch.clone(), &UInt64Array::from(indices.clone()))?;
            part.write(&self.spill, self.file_bytes_max)?;
        }
        Ok(())
    }

    /// Divides all that comes.
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
    fn write(&mut self, spill: &Arc<SpillManager>, file_bytes_max: usize) -> Result<()> {
        while let Some(batch) = self.coalescer.next_completed_batch() {
            let (file, _) = self.file.get_or_insert_with(|| spsc_channel(file_bytes_max, Arc::clone(spill)));
            self.bytes += batch.get_array_memory_size();
            file.push_batch(&batch)?;
        }
        Ok(())
    }

    fn finish(mut self, spill: &Arc<SpillManager>, file_bytes_max: usize) -> Result<Option<Bucket>> {
        self.coalescer.finish_buffered_batch()?;
        self.write(spill, file_bytes_max)?;
        // Dropping the sink ends the file.
        Ok(self.file.map(|(_, stream)| Bucket { stream, rows: self.rows, bytes: self.bytes }))
    }
}
