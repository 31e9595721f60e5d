//! Limits of what a balancer moves to and from this DataNode: replicas at a time, and bytes per second.

use std::sync::Mutex;
use std::sync::PoisonError;

use super::throttle::Throttle;

/// Moves at a time, as in HDFS (`dfs.datanode.balance.max.concurrent.moves`).
pub const MOVES_MAX: usize = 100;
/// Bytes per second of all moves together, as in HDFS (`dfs.datanode.balance.bandwidthPerSec`).
pub const MOVED_BYTES_PER_SECOND: u64 = 100 << 20;

/// The moves that this DataNode takes part in, as who sends a replica or as who takes it.
#[derive(Debug)]
pub struct Moves {
    /// Bandwidth of all of them together.
    pub throttle: Throttle,
    max: usize,
    open: Mutex<usize>,
}

impl Moves {
    /// At most so many moves at a time, and so many bytes per second of all of them.
    pub fn new(max: usize, bytes_per_second: u64) -> Self {
        Self { throttle: Throttle::new(bytes_per_second), max, open: Mutex::default() }
    }

    /// Begins a move: none if as many as may be are under way. It ends when the value is dropped.
    pub fn begin(&self) -> Option<Moving<'_>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if *open >= self.max {
            return None;
        }
        *open += 1;
        Some(Moving(self))
    }

    /// Number of moves that are under way.
    pub fn open(&self) -> usize {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Moves {
    fn default() -> Self {
        Self::new(MOVES_MAX, MOVED_BYTES_PER_SECOND)
    }
}

/// A move that is under way.
#[derive(Debug)]
pub struct Moving<'a>(&'a Moves);

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        *self.0.open.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
    }
}
