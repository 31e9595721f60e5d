//! Orders to a worker: deletions and commands that go out at once, on its watch.

use std::collections::{BTreeSet, VecDeque};

use super::super::report::Command;
use crate::ids::ShuffleKey;

/// The most deletions waiting for one worker. More are dropped: its next report lists those shuffles still, and the
/// answer to it names them again.
pub const WORKER_ORDERS_MAX: usize = 1 << 14;

/// What a worker is to do, since the sequence number it has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderBatch {
    /// To be named in the next watch.
    pub sequence: u64,
    /// Shuffles to delete.
    pub expired: Vec<ShuffleKey>,
    /// The last command, if there was one.
    pub command: Option<Command>,
}

/// Orders that a worker has not confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Orders {
    sequence: u64,
    expired: VecDeque<(u64, ShuffleKey)>,
    command: Option<(u64, Command)>,
}

impl Orders {
    /// Sequence numbers start above those of an earlier master's life, unless the clock went back; then the worker's
    /// number is ahead of ours and counts as none (see [`Orders::confirm`]).
    pub(super) fn starting_at(unix_ms: u64) -> Self {
        Self { sequence: unix_ms.saturating_mul(1024), expired: VecDeque::new(), command: None }
    }

    pub(super) fn delete(&mut self, shuffle: ShuffleKey) {
        if self.expired.len() < WORKER_ORDERS_MAX {
            self.sequence += 1;
            self.expired.push_back((self.sequence, shuffle));
        }
    }

    /// Takes back the order to delete a shuffle that is needed after all.
    pub(super) fn keep(&mut self, shuffle: &ShuffleKey) {
        self.expired.retain(|(_, waiting)| waiting != shuffle);
    }

    /// Whether the worker may still be about to delete a shuffle.
    pub(super) fn deletes(&self, shuffle: &ShuffleKey) -> bool {
        self.expired.iter().any(|(_, waiting)| waiting == shuffle)
    }

    pub(super) fn command(&mut self, command: Command) {
        self.sequence += 1;
        self.command = Some((self.sequence, command));
    }

    /// Another process begins under the worker's name. The one that was told to stop has ended, often before it could
    /// confirm the order, and this one must not end of it again.
    pub(super) fn begin_life(&mut self) {
        let stops = |command| matches!(command, Command::StopNow | Command::StopGracefully);
        self.command = self.command.filter(|(_, command)| !stops(*command));
    }

    /// Forgets what the worker has carried out, and says what it has deleted.
    pub(super) fn confirm(&mut self, seen: u64) -> BTreeSet<ShuffleKey> {
        if seen > self.sequence {
            return BTreeSet::new();
        }
        self.command = self.command.filter(|(sequence, _)| *sequence > seen);
        let done = self.expired.partition_point(|(sequence, _)| *sequence <= seen);
        self.expired.drain(..done).map(|(_, shuffle)| shuffle).collect()
    }

    pub(super) fn pending(&self) -> Option<OrderBatch> {
        if self.expired.is_empty() && self.command.is_none() {
            return None;
        }
        let expired = self.expired.iter().map(|(_, shuffle)| shuffle.clone()).collect();
        Some(OrderBatch {
            sequence: self.sequence,
            expired,
            command: self.command.map(|(_, command)| command),
        })
    }
}
