//! Memory of the copies that an operator makes of its input, asked for before it makes them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use futures::{Stream, StreamExt};
use yeoul_base::{ByteSize, ErrorKind};
use yeoul_dialect::error::Shortage;
use yeoul_memory::{Claim, ProcessMemory};

use super::passing::{Passing, PassingExec};
use crate::Error;
use crate::answer::room_hint;
use crate::memory::pool::PromisePool;

/// Bytes of batches that are claimed at once.
const CLAIM_BYTES_MIN: usize = 1 << 20;

/// The input of an operator that gathers batches until they have so many rows, whatever these weigh, and then copies all of them at
/// once, without asking the pool. Each batch that it is given is claimed here until that copy is made.
pub(crate) type CopyClaimExec = PassingExec<CopyClaim>;

/// Claims of the copies of one operator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyClaim {
    /// Places in which the operator gathers.
    outputs: usize,
}

impl CopyClaimExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, outputs: usize) -> Self {
        assert!(outputs > 0, "an operator without output");
        Self { input, passing: CopyClaim { outputs } }
    }
}

impl Passing for CopyClaim {
    const NAME: &'static str = "CopyClaimExec";

    fn parameters(&self) -> String {
        String::new()
    }

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let batch_rows = context.session_config().batch_size();
        let runtime = context.runtime_env();
        let process = PromisePool::process_of(&runtime.memory_pool).cloned();
        let input = input.execute(partition, context)?;
        let Some(process) = process else { return Ok(input) };
        let gathered =
            Gathered { batch_rows, rows_max: batch_rows.saturating_mul(self.outputs), ..Gathered::default() };
        Ok(Box::pin(ClaimedBatches { input, process, gathered }))
    }
}

/// The rows that the operator above has gathered and not copied yet.
#[derive(Debug, Default)]
struct Gathered {
    /// Rows of a whole batch: one with half of them is passed on as it is.
    batch_rows: usize,
    /// Rows from which on at least one copy has been made.
    rows_max: usize,
    rows: usize,
    /// Bytes that are not claimed yet, as they are few.
    bytes: usize,
    claims: Vec<Claim>,
}

impl Gathered {
    /// Claims a batch that is gathered next.
    ///
    /// # Errors
    /// The process has no room for a copy of it.
    fn add(&mut self, batch: &RecordBatch, process: &Arc<ProcessMemory>) -> Result<()> {
        if batch.num_rows() > self.batch_rows / 2 {
            return Ok(());
        }
        self.rows += batch.num_rows();
        if self.rows > self.rows_max {
            self.rows = batch.num_rows();
            self.bytes = 0;
            self.claims.clear();
        }
        self.bytes = self.bytes.saturating_add(copied_bytes(batch));
        if self.bytes >= CLAIM_BYTES_MIN {
            let bytes = std::mem::take(&mut self.bytes);
            self.claims.push(process.claim(bytes).map_err(|free| refused(process, bytes, free))?);
        }
        Ok(())
    }
}

/// Bytes of a batch that a copy would have: of values that lie in a buffer that it shares only its own.
fn copied_bytes(batch: &RecordBatch) -> usize {
    let sizes = batch.columns().iter().map(|column| {
        let data = column.to_data();
        data.get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size())
    });
    sizes.fold(0, usize::saturating_add)
}

fn refused(process: &ProcessMemory, bytes: usize, free: usize) -> DataFusionError {
    let size = |bytes: usize| ByteSize::from_bytes(bytes as u64);
    let what = format!(
        "a copy of rows with large values needs {}, and the process has {} left under its limit",
        size(bytes),
        size(free)
    );
    let error = Error::new(ErrorKind::ResourceExhausted, what).with_shortage(Shortage::Memory);
    error.with_hint(room_hint(process, bytes)).into()
}

struct ClaimedBatches {
    input: SendableRecordBatchStream,
    process: Arc<ProcessMemory>,
    /// Dropped after the input, at whose end the last copy is made.
    gathered: Gathered,
}

impl Stream for ClaimedBatches {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let Some(batch) = ready!(this.input.poll_next_unpin(cx)).transpose()? else {
            return Poll::Ready(None);
        };
        this.gathered.add(&batch, &this.process)?;
        Poll::Ready(Some(Ok(batch)))
    }
}

impl RecordBatchStream for ClaimedBatches {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
