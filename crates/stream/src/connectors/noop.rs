use arrow::array::RecordBatch;

use super::Sink;
use crate::BatchId;
use crate::error::Result;

/// Sink that forgets rows: to measure a query without one.
#[derive(Debug, Default)]
pub struct NoopSink {
    acknowledged: Option<BatchId>,
}

impl Sink for NoopSink {
    fn write(&mut self, _rows: &RecordBatch) -> Result<()> {
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
