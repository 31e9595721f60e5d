use std::fmt;

use arrow::array::RecordBatch;
use arrow::datatypes::{FieldRef, SchemaRef};

use super::{Changes, KeyGroups};
use crate::error::Result;

/// A function over the rows of each key and the key's state. It has no memory but the state: what it is called with is all that
/// it goes by, so that a query can go on after a crash and on other threads.
pub trait StateFunction: fmt::Debug + Send + Sync {
    /// Columns of a key's state, of any types that Arrow's row format has.
    fn state(&self) -> Vec<FieldRef>;

    /// Schema of the rows that come out.
    fn output(&self) -> SchemaRef;

    /// Relation of the rows that come out to those before them.
    fn mode(&self) -> FunctionMode;

    /// Timeouts that it sets.
    fn timeout(&self) -> Timeout {
        Timeout::None
    }

    /// Identity of the state: a function with another one does not go on with it. Change it when states mean something else.
    fn version(&self) -> u32 {
        1
    }

    /// Takes the rows of all keys of a batch, and says what becomes of their states. After the data of a batch it is called once more
    /// with all keys that have timed out, without rows. Gives the rows that come out.
    ///
    /// A key that it does nothing about keeps its state and loses its timeout, as in Spark.
    ///
    /// # Errors
    /// Why it fails: then nothing of the batch is kept, and the query ends.
    fn call(&self, groups: &KeyGroups<'_>, changes: &mut Changes) -> Result<RecordBatch>;
}

/// Relation of the rows of a function to those that it gave before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FunctionMode {
    /// Rows that never change again.
    Append,
    /// Rows that stand in the place of earlier ones of their key.
    Update,
}

/// Clock of the timeouts that a function sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Timeout {
    /// It sets none.
    #[default]
    None,
    /// The machine's clock: a time after the call.
    ProcessingTime,
    /// The watermark, which a stream of the query has to have; late rows are dropped before the function.
    EventTime,
}
