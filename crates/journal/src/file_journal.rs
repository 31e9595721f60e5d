//! A journal in files of one directory: a snapshot, and the segments of records since then.
//!
//! Nothing waits for the disk while the owner's state is locked: one thread writes, another syncs, and a snapshot runs on its
//! caller's. Records that wait together share a write, and replies that wait together share a sync. A disk that hangs costs
//! each reply an error after [`FileJournalOptions::answer_max`].

use std::future::Future;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use yeoul_base::{Error, ErrorKind, Result};
use yeoul_disk::{
    Disk, Failure, FolderLock, LockOptions, RealDisk, remove_unfinished, sync_folder_of, unusable_folder,
};

use crate::directory::{Files, corrupt, unfinished_path};
use crate::health::{Health, SnapshotError};
use crate::layout::{begins_of, encoded};
use crate::queue::{Append, Order, Queue};
use crate::segment::{self, Segment};
use crate::syncer::Syncer;
use crate::writer::Writer;
use crate::{Begun, Journal, Kept, Promise, Record, Snapshot, snapshot};

/// Files that owners have begun since the last snapshot, after which one is due: a start reads all of them.
const ROLLED_MAX: u64 = 100;

/// Where and how to keep the files.
#[derive(Debug, Clone)]
pub struct FileJournalOptions {
    /// The directory; created if missing. Only one process may use it at a time.
    pub dir: PathBuf,
    /// What it belongs to, as messages say it: "server".
    pub owner: &'static str,
    /// The disk that the directory is on.
    pub disk: Arc<dyn Disk>,
    /// A snapshot is due when the records since the last one have at least this many bytes, and twice the snapshot's.
    pub snapshot_after_bytes: u64,
    /// A segment with at least this many bytes is followed by another.
    pub segment_bytes_max: u64,
    /// The longest that a record waits for its sync when nobody waits for that.
    pub sync_interval: Duration,
    /// The longest wait of a reply for a disk that does not answer; after that it is an error.
    pub answer_max: Duration,
}

impl FileJournalOptions {
    /// The defaults for a directory of an `owner`.
    pub fn new(dir: impl Into<PathBuf>, owner: &'static str) -> Self {
        Self {
            dir: dir.into(),
            owner,
            disk: Arc::new(RealDisk),
            snapshot_after_bytes: 4 << 20,
            segment_bytes_max: 8 << 20,
            sync_interval: Duration::from_millis(50),
            answer_max: Duration::from_secs(3),
        }
    }
}

/// A journal in files of one directory.
pub struct FileJournal<R> {
    options: FileJournalOptions,
    /// The number of the next record.
    next: u64,
    queue: Arc<Queue>,
    bytes_since: Arc<AtomicU64>,
    rolled_since: Arc<AtomicU64>,
    snapshot_len: Arc<AtomicU64>,
    health: Arc<Health>,
    syncer: Arc<Syncer>,
    /// Snapshots hold it too: they may take longer than the journal lives.
    lock: Arc<FolderLock>,
    of: PhantomData<fn(R)>,
}

/// What a directory held when it was opened.
struct Found {
    /// The number after the last record.
    next: u64,
    /// The segment to go on with, by the number of its first record.
    last: Option<u64>,
    snapshot_len: u64,
    /// Bytes of the segments behind the snapshot.
    segment_bytes: u64,
    /// How many segments they are.
    segments: u64,
}

impl<R: Record> FileJournal<R> {
    /// Opens or creates the directory's journal and passes on its records, in order. Blocks.
    ///
    /// # Errors
    /// `Conflict` if another process uses the directory, or a snapshot of this one is still being written there, or if
    /// another version or kind of server has written it; `Corrupt` if a file is damaged in a part that had been synced;
    /// others as the file system reports. What was passed on is then of no use.
    pub fn open(options: FileJournalOptions, apply: impl FnMut(R)) -> Result<Self> {
        let (disk, dir) = (options.disk.clone(), options.dir.clone());
        let unusable = |error| unusable_folder(&dir, "the journal", error);
        disk.create_folder_all(&dir).map_err(unusable)?;
        let how = LockOptions { name: "LOCK", owner: options.owner, wait: Duration::ZERO };
        let lock = Arc::new(FolderLock::acquire(&dir, how)?);
        remove_unfinished(&*disk, &unfinished_path(&dir));
        let Found { next, last, snapshot_len, segment_bytes, segments } = read(&options, apply)?;
        // Continuing the last file keeps the number of files bounded, however often the process restarts.
        let segment = Segment::open(&*disk, &dir, last.unwrap_or(next), next)?;
        sync_folder_of(&*disk, segment.path())?;
        let health = Health::new();
        let syncer = Syncer::start(options.sync_interval, next, health.clone());
        let (queue, bytes_since) = (Arc::new(Queue::default()), Arc::new(AtomicU64::new(segment_bytes)));
        let rolled_since = Arc::new(AtomicU64::new(segments));
        Writer {
            disk,
            dir,
            segment,
            next,
            said_synced: None,
            begins: begins_of::<R>(),
            segment_bytes_max: options.segment_bytes_max,
            bytes_since: bytes_since.clone(),
            rolled_since: rolled_since.clone(),
            health: health.clone(),
            syncer: syncer.clone(),
            _lock: lock.clone(),
        }
        .start(queue.clone());
        let snapshot_len = Arc::new(AtomicU64::new(snapshot_len));
        Ok(Self {
            options,
            next,
            queue,
            bytes_since,
            rolled_since,
            snapshot_len,
            health,
            syncer,
            lock,
            of: PhantomData,
        })
    }

    /// The number of the next record: so many were ever appended here.
    pub fn next(&self) -> u64 {
        self.next
    }

    fn is_snapshot_due(&self, now: Instant) -> bool {
        let snapshot_len = self.snapshot_len.load(Ordering::Relaxed);
        let bytes = self.bytes_since.load(Ordering::Relaxed);
        let has_grown = bytes >= self.options.snapshot_after_bytes.max(2 * snapshot_len)
            || self.rolled_since.load(Ordering::Relaxed) >= ROLLED_MAX;
        self.health.wants_snapshot(now, has_grown)
    }

    fn is_stalled(&self) -> bool {
        let (now, limit) = (Instant::now(), self.options.answer_max);
        self.queue.is_stalled(now, limit) || self.syncer.is_stalled(now, limit)
    }

    /// The error of who would wait for a journal that does not keep records at the moment.
    fn refusal(&self) -> Option<Error> {
        let why = self.fault()?;
        let error = Error::new(ErrorKind::Unavailable, format!("the journal does not keep records: {why}"));
        Some(error.with_hint("see to its disk; what is tried again then is kept"))
    }
}

/// Reads the newest snapshot and the segments behind it.
fn read<R: Record>(options: &FileJournalOptions, mut apply: impl FnMut(R)) -> Result<Found> {
    let (disk, dir) = (&*options.disk, &options.dir);
    let Files { snapshots, journals } = Files::list(disk, dir)?;
    let mut found = Found { next: 0, last: None, snapshot_len: 0, segment_bytes: 0, segments: 0 };
    if let Some((first, path)) = snapshots.last_key_value() {
        snapshot::read(disk, path, &mut apply)?;
        let len = disk.open(path, yeoul_disk::Open::Read).and_then(|file| file.len());
        (found.next, found.snapshot_len) = (*first, len.map_err(Failure::at(path))?);
    }
    let segments: Vec<_> = journals.range(found.next..).collect();
    for (at, (first, path)) in segments.iter().enumerate() {
        if **first != found.next {
            leave_out::<R>(disk, found.next, &segments[at..])?;
            break;
        }
        let is_last = at + 1 == segments.len();
        let (next, len) = segment::read(disk, path, **first, is_last, &mut apply)?;
        (found.next, found.last) = (next, Some(**first));
        found.segment_bytes += len;
        found.segments += 1;
    }
    Ok(found)
}

/// Removes segments behind records that are missing, if those were never kept. A snapshot was to have them, and the process
/// ended before it was there: nobody was told that what is here is kept.
///
/// # Errors
/// `Corrupt` if they say that the missing records were on the disk.
fn leave_out<R: Record>(disk: &dyn Disk, missing: u64, segments: &[(&u64, &PathBuf)]) -> Result<()> {
    for (first, path) in segments {
        if **first < missing || segment::synced_by::<R>(disk, path, **first)? > missing {
            return Err(corrupt(path, 0));
        }
    }
    for (_, path) in segments {
        tracing::warn!(path = %path.display(), missing, "left out a journal file: records before it were not kept");
        disk.remove_file(path).map_err(Failure::at(path))?;
    }
    Ok(())
}

impl<R: Record> Journal<R> for FileJournal<R> {
    fn append(&mut self, records: &[R], promise: Promise) -> Kept {
        let (told, answer) = oneshot::channel();
        // The receiver may have given up waiting.
        let kept = Box::new(move |kept| drop(told.send(kept)));
        if records.is_empty() {
            let is_done =
                self.queue.is_idle() && (promise == Promise::Written || self.syncer.synced() >= self.next);
            match self.refusal() {
                Some(refusal) => return Box::pin(std::future::ready(Err(refusal))),
                None if is_done => return Box::pin(std::future::ready(Ok(()))),
                None => self.queue.push(Order::Reach { promise, kept }),
            }
        } else {
            let first = self.next;
            self.next += records.len() as u64;
            let records = records.iter().map(encoded).collect();
            if !self.queue.append(Append { first, records, promise, kept }) {
                self.health.lacks(Instant::now(), "too much waits for the disk".to_owned());
            }
            if let Some(refusal) = self.refusal() {
                // With a disk that hangs each would wait in vain.
                return Box::pin(std::future::ready(Err(refusal)));
            }
        }
        let (health, answer_max) = (self.health.clone(), self.options.answer_max);
        Box::pin(async move {
            match tokio::time::timeout(answer_max, answer).await {
                Ok(Ok(kept)) => kept,
                Ok(Err(_)) => {
                    health.poison("the thread that writes has ended".to_owned());
                    Err(Error::new(ErrorKind::Internal, "the thread that writes the journal has ended"))
                }
                Err(_) => {
                    let message = format!("the journal's disk has not answered for {answer_max:?}");
                    Err(Error::new(ErrorKind::Unavailable, message))
                }
            }
        })
    }

    fn wants_snapshot(&self) -> bool {
        self.is_snapshot_due(Instant::now())
    }

    fn begin_snapshot(&mut self) -> Snapshot<R> {
        let attempt = self.health.begin();
        let (begun, first) = sync_channel(1);
        self.queue.push(Order::Begin(Box::new(move |answer| drop(begun.send(answer)))));
        let (disk, dir, lock) = (self.options.disk.clone(), self.options.dir.clone(), self.lock.clone());
        let (queue, syncer, snapshot_len) =
            (self.queue.clone(), self.syncer.clone(), self.snapshot_len.clone());
        let settle = move || {
            let (told, settled) = sync_channel(1);
            queue.push(Order::Settle(Box::new(move |answer| drop(told.send(answer)))));
            let has_ended = || Error::new(ErrorKind::Unavailable, "the journal has ended");
            settled.recv().unwrap_or_else(|_| Err(SnapshotError::Other(has_ended())))
        };
        Snapshot::new(move |records| {
            let _lock = lock;
            // Without an answer the journal has ended.
            let Ok(begun) = first.recv() else { return };
            let written = begun.and_then(|first| {
                let len = snapshot::write(&*disk, &dir, first, records, settle)?;
                syncer.reached(first);
                snapshot_len.store(len, Ordering::Relaxed);
                Files::list(&*disk, &dir)?.remove_before(&*disk, first);
                Ok(())
            });
            attempt.end(Instant::now(), written);
        })
    }

    fn begin_segment(&mut self) -> Begun {
        let (told, answer) = oneshot::channel();
        self.queue.push(Order::Roll(Box::new(move |begun| drop(told.send(begun)))));
        let answer_max = self.options.answer_max;
        Box::pin(async move {
            let unavailable = |why: String| Err(Error::new(ErrorKind::Unavailable, why));
            match tokio::time::timeout(answer_max, answer).await {
                Ok(Ok(Ok(first))) => Ok(first),
                Ok(Ok(Err(SnapshotError::Sync(error) | SnapshotError::Other(error)))) => Err(error),
                Ok(Err(_)) => unavailable("the journal has ended".to_owned()),
                Err(_) => unavailable(format!("the journal's disk has not answered for {answer_max:?}")),
            }
        })
    }

    fn fault(&self) -> Option<String> {
        let stalled = || self.is_stalled().then(|| "the disk does not answer".to_owned());
        self.health.why().or_else(stalled)
    }

    fn failed_snapshots(&self) -> u64 {
        self.health.failed_snapshots()
    }

    fn ended(&self) -> Pin<Box<dyn Future<Output = Error> + Send>> {
        let health = self.health.clone();
        Box::pin(async move { health.ended().wait().await })
    }
}

impl<R> Drop for FileJournal<R> {
    fn drop(&mut self) {
        if !self.queue.stop(self.options.answer_max) {
            tracing::error!("the journal's disk does not answer, and may not have the last records");
        }
    }
}

#[cfg(test)]
mod tests;
