//! What a worker counts while it works; [`pages`](super::pages) show it.

use crate::error::Kind;
use crate::metrics::{Counter, RpcMeters, Sizes, Timer, UnderWay};

/// Counts and times since the worker started.
#[derive(Debug, Default)]
pub struct Meters {
    /// Reservations, each of all locations of a shuffle here.
    pub reservations: Timer,
    /// Locations that were reserved.
    pub slots: Counter,
    /// Requests of drivers.
    pub rpc: RpcMeters,
    /// Commits.
    pub commits: Timer,
    /// Commits that named a location which is not here, or could not be synced.
    pub failed_commits: Counter,
    /// Bytes of the locations that were committed.
    pub committed_sizes: Sizes,
    /// Attempts to register that failed.
    pub failed_registrations: Counter,
    /// Pushes of clients, from head to answer.
    pub pushes: Timer,
    /// Copies of pushes from other workers, from head to answer.
    pub copies: Timer,
    /// Pushes and copies that were taken.
    pub taken: Counter,
    /// Pushes and copies that are to be brought to another location.
    pub split: Counter,
    /// Pushes and copies that failed.
    pub failed: Counter,
    /// Pushes of which the other worker's copy failed.
    pub failed_copies: FailedCopies,
    /// Copies that are sent on while their bodies arrive, and that the other worker has answered, however early.
    pub forwarded: Counter,
    /// Pushes and copies that had to wait for memory.
    pub waits: Timer,
    /// The copies among them.
    pub copy_waits: Timer,
    /// Those that wait now.
    pub waiting: UnderWay,
    /// The copies among these.
    pub copies_waiting: UnderWay,
    /// Streams opened.
    pub opens: Timer,
    /// Streams that could not be opened.
    pub failed_opens: Counter,
    /// Chunks sent, from request to the last byte.
    pub chunks: Timer,
    /// The same chunks, from the first byte that the connection took to the last.
    pub transfers: Timer,
    /// Bytes of them.
    pub transfer_sizes: Sizes,
    /// Those of which a part was read from a disk, and those that were in memory.
    pub disk_chunks: Timer,
    pub memory_chunks: Timer,
    /// Those among the failed ones, as far as they had begun.
    pub failed_disk_chunks: Counter,
    pub failed_memory_chunks: Counter,
    /// Chunks that could not be read.
    pub failed_chunks: Counter,
    /// Those among them of streams in which a batch on disk is damaged: all that are asked for once that is known.
    pub corrupt_chunks: Counter,
}

impl Meters {
    /// Counts a chunk that could not be read.
    pub fn chunk_failed(&self, kind: Kind) {
        self.failed_chunks.add(1);
        self.corrupt_chunks.add(u64::from(kind == Kind::Corrupt));
    }
}

/// Copies that failed, by what went wrong.
#[derive(Debug, Default)]
pub struct FailedCopies {
    /// No connection to the other worker.
    pub connect: Counter,
    /// The connection broke off.
    pub connection: Counter,
    /// No answer in time.
    pub timeout: Counter,
    /// No disk of the other worker took it.
    pub write: Counter,
    /// The other worker refused.
    pub other: Counter,
}
