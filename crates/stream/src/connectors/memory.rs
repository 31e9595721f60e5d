use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;

use super::Sink;
use crate::BatchId;
use crate::error::{Error, ErrorKind, Result};

/// Most bytes that a memory sink keeps.
const MEMORY_SINK_BYTES_MAX: usize = 1 << 30;

/// Rows that a memory sink has, which the program that runs the query reads.
#[derive(Debug, Clone, Default)]
pub struct MemoryRows(Arc<Mutex<Rows>>);

#[derive(Debug, Default)]
struct Rows {
    batches: Vec<RecordBatch>,
    bytes: usize,
}

impl MemoryRows {
    /// What has been written so far.
    pub fn batches(&self) -> Vec<RecordBatch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).batches.clone()
    }
}

/// Sink that keeps rows in memory.
#[derive(Debug)]
pub struct MemorySink {
    rows: MemoryRows,
    acknowledged: Option<BatchId>,
}

impl MemorySink {
    /// A sink whose rows are read through `rows`.
    pub fn new(rows: MemoryRows) -> Self {
        Self { rows, acknowledged: None }
    }
}

impl Sink for MemorySink {
    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let mut kept = self.rows.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes += rows.get_array_memory_size();
        if kept.bytes > MEMORY_SINK_BYTES_MAX {
            let text = format!("the memory sink is full: it keeps {MEMORY_SINK_BYTES_MAX} bytes");
            return Err(Error::new(ErrorKind::ResourceExhausted, text));
        }
        kept.batches.push(rows.clone());
        Ok(())
    }

    fn barrier(&mut self, batch: BatchId) -> Result<()> {
        self.acknowledged = Some(batch);
        Ok(())
    }

    fn acknowledged(&mut self) -> Result<Option<BatchId>> {
        Ok(self.acknowledged)
    }
}
