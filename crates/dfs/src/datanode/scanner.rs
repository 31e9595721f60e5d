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
/// How long after the end of a pass the next one begins, at the earliest.
const PASSES_APART_MIN: Duration = Duration::from_millis(100);
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
            let left = self.period.saturating_sub(pass.elapsed()).max(PASSES_APART_MIN);
            // What comes first is not to wait for weeks.
            sleep(if count == 0 { left.min(NOTHING_THERE) } else { left }).await;
        }
    }

    fn somewhere(&self) -> Option<BlockId> {
        let count = self.transfers.store.volume_len(self.volume);
        let skipped = fastrand::usize(..count.max(1));
        let next = |after: Option<BlockId>| Some(self.transfers.store.next_to_check(self.volume, after)?.0);
        (0..skipped).fold(None, |after, _| next(after).or(after))
    }

    async fn open(&self, id: BlockId, stamp: GenerationStamp) -> Option<Slice> {
        let transfers = Arc::clone(&self.transfers);
        let opening = move || transfers.open_replica(&transfers.store.pool(), id, stamp);
        let opened = tokio::task::spawn_blocking(opening).await.ok()?;
        opened.inspect_err(|error| debug!(%id, %error, "a replica is not checked")).ok().map(Slice::new)
    }

    async fn check(&self, id: BlockId, stamp: GenerationStamp, began: Instant, pace: &mut Pace) {
        let Some(mut slice) = self.open(id, stamp).await else { return };
        let mut next = 0;
        while let Some(bytes) = slice.bytes_at(next) {
            sleep(pace.wait(began.elapsed(), bytes)).await;
            let reading = tokio::task::spawn_blocking(move || {
                let checked = slice.check(next);
                (slice, checked)
            });
            let Ok((same, checked)) = reading.await else { return };
            slice = same;
            if checked.is_err() {
                return self.look_again(id, stamp, next).await;
            }
            next += bytes;
        }
    }

    /// Looks at a slice once more: the replica may have been replaced by a good one while its old files were read.
    async fn look_again(&self, id: BlockId, stamp: GenerationStamp, offset: u64) {
        let Some(mut slice) = self.open(id, stamp).await else { return };
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || slice.check(offset)).await {
            self.transfers.tell_damaged(id, stamp, &error);
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
