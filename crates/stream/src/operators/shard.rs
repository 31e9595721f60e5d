use arrow::array::RecordBatch;

use super::exchange::{Done, FromShard, OpenBatch, ToShard};
use super::node::Node;
use crate::error::Result;
use crate::state::PartitionSet;

/// Part of a step with state that has some of the virtual partitions: the operator over tables of its own.
pub struct Shard {
    number: usize,
    partitions: PartitionSet,
    node: Node,
}

impl Shard {
    pub(super) fn new(number: usize, partitions: PartitionSet, node: Node) -> Self {
        Self { number, partitions, node }
    }

    /// Number among the shards of its step.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Carries a message out, and tells what comes of it.
    ///
    /// # Errors
    /// As the operator, and `tell`. The shard takes no further message then.
    pub fn handle(&mut self, message: ToShard, tell: &mut dyn FnMut(FromShard) -> Result<()>) -> Result<()> {
        let (mut versions, mut usage) = (Vec::new(), None);
        match message {
            ToShard::Rows { input, rows, batch } => {
                self.open(batch);
                self.node.push(input, rows, &mut |rows: RecordBatch| tell(FromShard::Rows(rows)))?;
            }
            ToShard::EndBatch { batch, has_rows } => {
                self.open(batch);
                if has_rows {
                    self.node.note_rows_of_batch();
                }
                self.node.end_batch(&mut |rows: RecordBatch| tell(FromShard::Rows(rows)))?;
                usage = self.node.take_usage().map(|(_, usage, counts)| (usage, counts));
            }
            ToShard::Versions => {
                versions = self.node.versions()?;
                versions.iter_mut().for_each(|version| version.part.partitions = self.partitions);
            }
        }
        tell(FromShard::Done(Done {
            shard: self.number,
            next_timer_ms: self.node.next_timer_ms(),
            usage,
            versions,
        }))
    }

    fn open(&mut self, batch: OpenBatch) {
        self.node.set_now_ms(batch.now_ms);
        self.node.set_gathering(batch.is_gathering);
        (self.node.current_ms, self.node.late_ms) = (batch.current_ms, batch.late_ms);
    }

    pub(super) fn node(&mut self) -> &mut Node {
        &mut self.node
    }
}
