//! A journal in files of one directory: a snapshot, and the records since then.
//!
//! A record is written to the file before the reply that depends on it leaves, so it survives the process. The file is
//! synced every [`FileJournalOptions::sync_interval`], so a power failure loses at most that much, and the workers' reports
//! and the applications' heartbeats restore it.
//!
//! Nothing waits for the disk while the state is locked: one thread writes, another syncs, and a snapshot runs on its
//! caller's. A disk that hangs is a fault like any other; replies then leave without it.

use std::fs::{self, File};
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
#[cfg(test)]
use std::sync::mpsc::SyncSender;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::directory::{Files, at, lock};
use super::health::Health;
use super::layout::{Entry, payload};
use super::queue::{Begun, Order, Queue};
use super::segment::{self, Segment};
use super::snapshot::{self, SnapshotError, sync_dir};
use super::syncer::Syncer;
use super::writer::Writer;
use super::{Journal, Kept};
use crate::error::{Error, Kind, Result, unusable_directory};
use crate::master::record::Record;

/// Where and how to keep the files.
#[derive(Debug, Clone)]
pub struct FileJournalOptions {
    /// The directory; created if missing. Only one process may use it at a time.
    pub dir: PathBuf,
    /// A snapshot is due when the records since the last one have at least this many bytes, and twice the snapshot's.
    pub snapshot_after_bytes: u64,
    /// The longest that a record waits for its fsync.
    pub sync_interval: Duration,
    /// The longest wait for a disk that does not answer; after that replies leave, as with any other fault.
    pub answer_max: Duration,
}

impl FileJournalOptions {
    /// The defaults for a directory.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            snapshot_after_bytes: 4 << 20,
            sync_interval: Duration::from_millis(50),
            answer_max: Duration::from_secs(3),
        }
    }
}

/// A journal in files of one directory.
pub struct FileJournal {
    options: FileJournalOptions,
    queue: Arc<Queue>,
    segment_len: Arc<AtomicU64>,
    snapshot_len: Arc<AtomicU64>,
    health: Arc<Health>,
    syncer: Arc<Syncer>,
    /// Snapshots hold it too: they may take longer than the journal lives.
    lock: Arc<File>,
}

impl FileJournal {
    /// Opens or creates the directory's journal and returns its records, in order.
    ///
    /// # Errors
    /// `Conflict` if another process uses the directory, or a snapshot of this one is still being written there; `Corrupt`
    /// if a file is damaged in a part that had been synced; others as the file system reports.
    pub fn open(options: FileJournalOptions) -> Result<(Self, Vec<Record>)> {
        let unusable = |error| unusable_directory(&options.dir, "the journal", error);
        fs::create_dir_all(&options.dir).map_err(unusable)?;
        let lock = Arc::new(lock(&options.dir)?);
        snapshot::remove_unfinished(&options.dir);
        let Files { snapshots, journals } = Files::list(&options.dir)?;
        let mut records = Vec::new();
        let mut next = 0;
        let mut snapshot_len = 0;
        if let Some((first, path)) = snapshots.last_key_value() {
            records = snapshot::read(path)?;
            (next, snapshot_len) = (*first, path.metadata().map_err(at(path))?.len());
        }
        let mut last_read = None;
        for (first, path) in journals.range(next..) {
            if *first > next {
                tracing::warn!(path = %path.display(), expected = next, "records are missing before this journal file");
            }
            let behind = (Bound::Excluded(*first), Bound::Unbounded);
            let synced_behind = || segment::synced_in_all(journals.range(behind).map(|(_, path)| path));
            let contents = segment::read(path, *first, synced_behind)?;
            records.extend(contents.records);
            (next, last_read) = (contents.next, Some(*first));
        }
        // Continuing the last file keeps the number of files bounded, however often the process restarts.
        let segment = Segment::open(&options.dir, last_read.unwrap_or(next))?;
        sync_dir(&options.dir)?;
        let health = Health::new();
        let syncer = Syncer::start(options.sync_interval, next, health.clone());
        let (queue, segment_len) = (Arc::new(Queue::default()), Arc::new(AtomicU64::new(segment.len())));
        let (dir, len) = (options.dir.clone(), segment_len.clone());
        Writer {
            dir,
            segment,
            next,
            said_synced: 0,
            len,
            health: health.clone(),
            syncer: syncer.clone(),
            _lock: lock.clone(),
        }
        .start(queue.clone());
        let snapshot_len = Arc::new(AtomicU64::new(snapshot_len));
        let journal = Self { options, queue, segment_len, snapshot_len, health, syncer, lock };
        Ok((journal, records))
    }

    fn is_snapshot_due(&self, now: Instant) -> bool {
        let snapshot_len = self.snapshot_len.load(Ordering::Relaxed);
        let segment_len = self.segment_len.load(Ordering::Relaxed);
        let has_grown = segment_len >= self.options.snapshot_after_bytes.max(2 * snapshot_len);
        self.health.wants_snapshot(now, has_grown)
    }
}

#[cfg(test)]
impl FileJournal {
    /// Blocks the writing thread until the returned value is dropped.
    pub(in crate::master) fn hold_up(&self) -> SyncSender<()> {
        let (go, gone) = sync_channel(0);
        self.queue.push(Order::Show(Box::new(move |_| gone.recv().unwrap_or_default())));
        go
    }
}

impl Journal for FileJournal {
    fn append(&mut self, records: &[Record]) -> Kept {
        if self.syncer.is_stalled(Instant::now(), self.options.answer_max) {
            self.health.stalls(Instant::now());
        }
        let (written, answer) = oneshot::channel();
        let waits = if records.is_empty() {
            self.health.is_whole() && self.queue.reach(written)
        } else {
            let payloads = records.iter().map(|record| payload(&Entry::Record(record.clone()))).collect();
            if !self.queue.append(payloads, written) {
                self.health.lacks(Instant::now(), "too much waits for the disk".to_owned());
            }
            self.health.is_whole()
        };
        if !waits {
            // Nobody waits for a record that is not going to be kept: with a disk that hangs each would wait in vain.
            return Box::pin(std::future::ready(Ok(())));
        }
        let (health, answer_max) = (self.health.clone(), self.options.answer_max);
        Box::pin(async move {
            match tokio::time::timeout(answer_max, answer).await {
                Ok(Ok(written)) => written,
                Ok(Err(_)) => {
                    health.poison("the thread that writes has ended".to_owned());
                    Err(Error::new(Kind::Internal, "the thread that writes the journal has ended"))
                }
                Err(_) => {
                    health.stalls(Instant::now());
                    let message = format!("the journal's disk has not answered for {answer_max:?}");
                    Err(Error::new(Kind::Unavailable, message))
                }
            }
        })
    }

    fn wants_snapshot(&self) -> bool {
        self.is_snapshot_due(Instant::now())
    }

    fn snapshot(&mut self, records: Vec<Record>) -> Box<dyn FnOnce() + Send> {
        let attempt = self.health.begin();
        let (begun, answer) = sync_channel(1);
        self.queue.push(Order::Begin { begun });
        let dir = self.options.dir.clone();
        let (snapshot_len, syncer, health) =
            (self.snapshot_len.clone(), self.syncer.clone(), self.health.clone());
        let write = move |begun: Result<Begun>| -> Result<(), SnapshotError> {
            let Begun { first, before } = begun?;
            syncer.sync(&before).map_err(SnapshotError::Sync)?;
            // The new file's name is not synced yet, and a power failure may take the file with it.
            let lacks_name = |_: &SnapshotError| {
                health.lacks(Instant::now(), "the name of a new file may not be on the disk".to_owned());
            };
            sync_dir(&dir).inspect_err(lacks_name)?;
            let len = snapshot::write(&dir, first, &records)?;
            syncer.has_snapshot(first);
            snapshot_len.store(len, Ordering::Relaxed);
            Files::list(&dir)?.remove_before(first);
            Ok(())
        };
        let lock = self.lock.clone();
        Box::new(move || {
            let _lock = lock;
            // Without an answer the journal has ended.
            if let Ok(begun) = answer.recv() {
                attempt.end(Instant::now(), write(begun));
            }
        })
    }

    fn fault(&self) -> Option<String> {
        self.health.why()
    }

    fn failed_snapshots(&self) -> u64 {
        self.health.failed_snapshots()
    }
}

impl Drop for FileJournal {
    fn drop(&mut self) {
        if !self.queue.stop(self.options.answer_max) {
            tracing::error!("the journal's disk does not answer, and may not have the last records");
        }
    }
}

#[cfg(test)]
mod tests;
