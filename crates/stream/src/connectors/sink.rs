use arrow::array::RecordBatch;

use crate::BatchId;
use crate::error::Result;

/// Where the rows of a query go. It gets epochs one after another, and says when it has them safe.
pub trait Sink: Send {
    /// Checks rows before they are written, where each can still be left out.
    ///
    /// # Errors
    /// `Invalid` if one will be refused whatever is tried, such as one that is too large for a record.
    fn check(&self, _rows: &RecordBatch) -> Result<()> {
        Ok(())
    }

    /// Takes rows of the open epoch. It may wait while too much is on its way.
    ///
    /// # Errors
    /// If the rows cannot be written, or earlier ones could not be: then the query ends and goes on from its last checkpoint.
    fn write(&mut self, rows: &RecordBatch) -> Result<()>;

    /// Ends an epoch: all rows before belong to it or to earlier ones.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    fn barrier(&mut self, batch: BatchId) -> Result<()>;

    /// The newest epoch of which, and of all before it, every row is safe.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    fn acknowledged(&mut self) -> Result<Option<BatchId>>;

    /// Takes back what it can of an epoch that has ended and is no checkpoint: another process has taken the query over, and gives
    /// the rows.
    ///
    /// # Errors
    /// If they stay where a reader takes them for rows of the query.
    fn withdraw(&mut self, _batch: BatchId) -> Result<()> {
        Ok(())
    }
}
