//! Checks whole replicas against their checksums, slowly and again and again, so that damage is found before a reader needs them.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;
use tracing::debug;

use super::pace::Pace;
use super::replicas::VolumeIndex;
use super::store::ReadableReplica;
use super::transfer::Transfers;
use crate::ids::{BlockId, GenerationStamp};

/// Bytes of a replica that are checked at a time, if they are whole chunks.
const SLICE_BYTES: usize = 256 << 10;
/// How long a volume without a replica to check is left alone.
const NOTHING_THERE: Duration = Duration::from_secs(10);

/// The check of one volume.
pub struct Scanner {
    /// The replicas, and who is told of damage.
    pub transfers: Arc<Transfers>,
    /// The volume.
    pub volume: VolumeIndex,
    /// Bytes per second that are read.
    pub bytes_per_second: u64,
    /// How long after the beginning of a pass the next one begins, at the earliest.
    pub period: Duration,
}

impl Scanner {
    /// Checks, as long as the DataNode runs.
    pub async fn run(self) {
        let began = Instant::now();
        let mut pace = Pace::new(self.bytes_per_second);
        // A pass takes weeks: a DataNode that is started again is not to check the same replicas first each time.
        let mut after = self.somewhere();
        loop {
            let pass = Instant::now();
            let (first, mut has_wrapped, mut count) = (after, false, 0);
            loop {
                match self.transfers.store.next_to_check(self.volume, after) {
                    Some((id, _)) if has_wrapped && first.is_none_or(|first| id > first) => break,
                    Some((id, stamp)) => {
                        after = Some(id);
                        count += 1;
                        self.check(id, stamp, began, &mut pace).await;
                    }
                    None if has_wrapped => break,
                    None => (after, has_wrapped) = (None, true),
                }
            }
            debug!(volume = self.volume.0, count, "checked all replicas");
            let wait = if count == 0 { NOTHING_THERE } else { self.period.saturating_sub(pass.elapsed()) };
            sleep(wait.max(Duration::from_millis(100))).await;
        }
    }

    fn somewhere(&self) -> Option<BlockId> {
        let count = self.transfers.store.volume_len(self.volume);
        let skipped = fastrand::usize(..count.max(1));
        let next = |after: Option<BlockId>| Some(self.transfers.store.next_to_check(self.volume, after)?.0);
        (0..skipped).fold(None, |after, _| next(after).or(after))
    }

    async fn check(&self, id: BlockId, stamp: GenerationStamp, began: Instant, pace: &mut Pace) {
        let transfers = Arc::clone(&self.transfers);
        let opening = move || transfers.open_replica(&transfers.store.pool(), id, stamp);
        let Ok(Ok(replica)) = tokio::task::spawn_blocking(opening).await else { return };
        let (mut slice, mut next) = (Slice::new(replica), 0);
        while let Some(bytes) = slice.bytes_at(next) {
            sleep(pace.wait(began.elapsed(), bytes)).await;
            let reading = tokio::task::spawn_blocking(move || {
                let checked = slice.check(next);
                (slice, checked)
            });
            let Ok((same, checked)) = reading.await else { return };
            slice = same;
            if let Err(error) = checked {
                self.transfers.tell_damaged(id, stamp, &error);
                return;
            }
            next += bytes;
        }
    }
}

/// A part of a replica, and room for it.
struct Slice {
    replica: ReadableReplica,
    data: Vec<u8>,
    checksums: Vec<u8>,
}

impl Slice {
    fn new(replica: ReadableReplica) -> Self {
        Self { replica, data: Vec::new(), checksums: Vec::new() }
    }

    /// Bytes of the slice at an offset; none at the end.
    fn bytes_at(&self, offset: u64) -> Option<u64> {
        let chunk = self.replica.chunking.bytes_per_checksum();
        let usual = (SLICE_BYTES / chunk).max(1) * chunk;
        let left = self.replica.visible.length.saturating_sub(offset);
        (left > 0).then(|| left.min(usual as u64))
    }

    /// Reads the slice at an offset, and compares it with its checksums.
    fn check(&mut self, offset: u64) -> io::Result<()> {
        let bytes = self.bytes_at(offset).unwrap_or(0);
        self.data.resize(usize::try_from(bytes).expect("a slice fits into memory"), 0);
        self.replica.read_checked(offset, &mut self.data, &mut self.checksums)
    }
}
