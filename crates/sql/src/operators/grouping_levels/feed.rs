use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::streaming::PartitionStream;
use futures::Stream;

/// Input of an operator that is polled by whoever gives it its rows: a batch at a time, and after each the operator is polled until it
/// waits for the next.
#[derive(Clone, Debug)]
pub(super) struct Feed {
    schema: SchemaRef,
    next: Arc<Mutex<Next>>,
}

#[derive(Debug)]
enum Next {
    /// Nothing, for now.
    Wait,
    Batch(RecordBatch),
    End,
}

impl Feed {
    pub(super) fn new(schema: SchemaRef) -> Self {
        Self { schema, next: Arc::new(Mutex::new(Next::Wait)) }
    }

    pub(super) fn give(&self, batch: RecordBatch) {
        *self.next() = Next::Batch(batch);
    }

    pub(super) fn end(&self) {
        *self.next() = Next::End;
    }

    /// True once the operator has taken what was given.
    pub(super) fn is_taken(&self) -> bool {
        matches!(*self.next(), Next::Wait)
    }

    fn next(&self) -> MutexGuard<'_, Next> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartitionStream for Feed {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        Box::pin(self.clone())
    }
}

impl Stream for Feed {
    type Item = Result<RecordBatch>;

    /// Nobody has to be woken: who gives the next batch polls the operator.
    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut next = self.next();
        match std::mem::replace(&mut *next, Next::Wait) {
            Next::Wait => Poll::Pending,
            Next::Batch(batch) => Poll::Ready(Some(Ok(batch))),
            Next::End => {
                *next = Next::End;
                Poll::Ready(None)
            }
        }
    }
}

impl RecordBatchStream for Feed {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
