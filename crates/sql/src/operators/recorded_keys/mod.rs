//! Keys of a join's build side, recorded while it is read, and asked for by scans of the other side.
//!
//! DataFusion's filter of a join asks its hash table: some 15 ns a row at TPC-H scale 1, as long as the join itself takes. A bit for each
//! number takes 1 ns.

mod key_set;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use futures::{Stream, StreamExt};

pub(crate) use key_set::{KeySet, is_recorded};

use super::passing::{Passing, PassingExec};

/// Records the keys of a join's build side.
pub(crate) type RecordedKeysExec = PassingExec<RecordedKeys>;

/// The expression of the keys, and where they go.
#[derive(Clone, Debug)]
pub(crate) struct RecordedKeys {
    key: Arc<dyn PhysicalExpr>,
    set: Arc<KeySet>,
}

impl RecordedKeysExec {
    /// `key`: of the rows of the input.
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, key: Arc<dyn PhysicalExpr>, set: Arc<KeySet>) -> Self {
        Self { input, passing: RecordedKeys { key, set } }
    }
}

impl Passing for RecordedKeys {
    const NAME: &'static str = "RecordedKeysExec";

    fn parameters(&self) -> String {
        self.key.to_string()
    }

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let is_recording = self.set.start(partition, context.memory_pool());
        let rows = input.execute(partition, context)?;
        if !is_recording {
            return Ok(rows);
        }
        Ok(Box::pin(Recorded { rows, keys: Some(self.clone()) }))
    }
}

/// Rows whose keys are recorded.
struct Recorded {
    rows: SendableRecordBatchStream,
    /// `None` once nothing more is recorded.
    keys: Option<RecordedKeys>,
}

impl Stream for Recorded {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.rows.poll_next_unpin(context);
        match (&polled, &self.keys) {
            (Poll::Ready(Some(Ok(batch))), Some(RecordedKeys { key, set })) => {
                let keys = key.evaluate(batch).and_then(|keys| keys.into_array(batch.num_rows()));
                if keys.and_then(|keys| set.add(&keys)).is_err() {
                    // The join evaluates the same, and says what is wrong.
                    set.give_up();
                    self.keys = None;
                }
            }
            (Poll::Ready(None), Some(RecordedKeys { set, .. })) => {
                set.end();
                self.keys = None;
            }
            (Poll::Ready(Some(Err(_))), _) => self.keys = None,
            _ => {}
        }
        polled
    }
}

impl RecordBatchStream for Recorded {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}

/// The condition that a column may be one of the recorded keys.
#[derive(Clone)]
pub(crate) struct IsRecorded {
    column: Arc<dyn PhysicalExpr>,
    set: Arc<KeySet>,
}

impl IsRecorded {
    pub(crate) fn new(column: Arc<dyn PhysicalExpr>, set: Arc<KeySet>) -> Self {
        Self { column, set }
    }
}

impl PhysicalExpr for IsRecorded {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let column = self.column.evaluate(batch)?.into_array(batch.num_rows())?;
        Ok(ColumnarValue::Array(Arc::new(self.set.may_have(&column)?)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.column]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let Ok([column]) = <[_; 1]>::try_from(children) else {
            return internal_err!("a recorded key is one column");
        };
        Ok(Arc::new(Self::new(column, Arc::clone(&self.set))))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.column.fmt_sql(f)?;
        f.write_str(" IN (recorded keys)")
    }
}

impl fmt::Display for IsRecorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} IN (recorded keys)", self.column)
    }
}

impl fmt::Debug for IsRecorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl PartialEq for IsRecorded {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.set, &other.set) && self.column.eq(&other.column)
    }
}

impl Eq for IsRecorded {}

impl Hash for IsRecorded {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.set).hash(state);
        self.column.hash(state);
    }
}
