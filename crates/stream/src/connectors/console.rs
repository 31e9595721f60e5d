use std::io::Write;

use arrow::array::RecordBatch;

use super::Sink;
use super::format::write_json_lines;
use crate::BatchId;
use crate::error::Result;

/// Sink that prints each row as a line of JSON on stdout. A row is safe once it is written; a closed pipe takes them all.
#[derive(Debug, Default)]
pub struct ConsoleSink {
    acknowledged: Option<BatchId>,
}

impl Sink for ConsoleSink {
    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let text = write_json_lines(rows)?;
        let mut out = std::io::stdout().lock();
        match out.write_all(&text).and_then(|()| out.flush()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn barrier(&mut self, batch: BatchId) -> Result<()> {
        self.acknowledged = Some(batch);
        Ok(())
    }

    fn acknowledged(&mut self) -> Result<Option<BatchId>> {
        Ok(self.acknowledged)
    }
}
