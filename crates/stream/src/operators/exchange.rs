use std::time::Duration;

use arrow::array::RecordBatch;

use super::{OperatorCounts, Shard};
use crate::error::{Error, Result};
use crate::state::{PartVersion, StateUsage};

/// Exchange between the query's thread and the shards of one step: messages to each in their order, and what they tell back.
///
/// It is the place for another way between them than threads and channels of one process.
pub trait Exchange: Send {
    /// Offers a message to a shard, which gives it back if it has no room for another one.
    ///
    /// # Errors
    /// If the shard is gone.
    fn offer(&mut self, shard: usize, message: ToShard) -> Result<Option<ToShard>>;

    /// Takes what any shard tells next, or waits for it at most so long.
    ///
    /// # Errors
    /// If the shards are gone.
    fn take(&mut self, wait: Duration) -> Result<Option<FromShard>>;
}

/// Starter of the shards of a step, by the name of the step's first table.
pub type StartShards<'a> = &'a mut dyn FnMut(&str, Vec<Shard>) -> Result<Box<dyn Exchange>>;

/// Message to a shard. Each is answered by one [`FromShard::Done`].
pub enum ToShard {
    /// Rows of the open batch, on an input of the step.
    Rows {
        /// Input.
        input: usize,
        /// Rows of keys that are the shard's.
        rows: RecordBatch,
        /// Facts on the batch.
        batch: OpenBatch,
    },
    /// End of the open batch.
    EndBatch {
        /// Facts on it.
        batch: OpenBatch,
        /// True if it had rows, in whichever shards.
        has_rows: bool,
    },
    /// Question for the changes of its state since the last such.
    Versions,
}

/// Facts on the open batch that a step goes by. They come with each message, so that a shard keeps no clock of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenBatch {
    /// The machine's clock, in milliseconds since 1970.
    pub now_ms: i64,
    /// The watermark of the batch, by which what is over goes at its end.
    pub current_ms: Option<i64>,
    /// The watermark by which its rows are late.
    pub late_ms: Option<i64>,
    /// True if groups that changed come out once, at its end.
    pub is_gathering: bool,
}

/// Message from a shard.
pub enum FromShard {
    /// Rows that come out of it.
    Rows(RecordBatch),
    /// The oldest message that is not answered yet is done with; its rows were told before.
    Done(Done),
    /// The shard has ended because of this.
    Failed(Error),
}

/// Answer to a message.
pub struct Done {
    /// Number of the shard.
    pub shard: usize,
    /// The first time on the machine's clock at which a key times out.
    pub next_timer_ms: Option<i64>,
    /// State, and what was done with it since the answer before, at the end of a batch.
    pub usage: Option<(StateUsage, OperatorCounts)>,
    /// Changes of state, if they were asked for.
    pub versions: Vec<PartVersion>,
}
