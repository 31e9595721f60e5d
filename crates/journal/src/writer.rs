//! Writes the journal's segments on its own thread: a disk that hangs holds up only this thread.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::BytesMut;
use yeoul_base::{Error, ErrorKind, Result, failpoint};
use yeoul_disk::{Disk, FolderLock};

use crate::Promise;
use crate::health::{Health, SnapshotError};
use crate::layout::{Entry, encode};
use crate::queue::{Append, Order, Queue};
use crate::segment::Segment;
use crate::syncer::Syncer;

/// Writes the journal's segments.
pub struct Writer {
    pub disk: Arc<dyn Disk>,
    pub dir: PathBuf,
    pub segment: Segment,
    /// The number of the next record, whether those before it could be written or not.
    pub next: u64,
    /// What the segment last said was synced; `None` until this writer has written to it.
    pub said_synced: Option<u64>,
    /// What each file begins with.
    pub begins: Entry<'static>,
    /// The most bytes of a segment before another one begins.
    pub segment_bytes_max: u64,
    /// Bytes written since the last snapshot began, for other threads.
    pub bytes_since: Arc<AtomicU64>,
    /// Segments begun since then because somebody asked, for other threads.
    pub rolled_since: Arc<AtomicU64>,
    pub health: Arc<Health>,
    pub syncer: Arc<Syncer>,
    /// No one else may write before this ends.
    pub _lock: Arc<FolderLock>,
}

impl Writer {
    /// Works on the queue until that is stopped.
    pub fn start(self, queue: Arc<Queue>) {
        let health = self.health.clone();
        let thread = std::thread::Builder::new().name("journal-write".to_owned());
        let ends = Ends { queue, health: health.clone() };
        if let Err(error) = thread.spawn(move || self.run(&ends.queue)) {
            health.poison(format!("cannot start a thread: {error}"));
        }
    }

    fn run(mut self, queue: &Queue) {
        while let Some(order) = queue.next() {
            match order {
                Order::Append(group) => self.append(group),
                Order::Reach { promise, kept } => self.answer(promise, self.next, kept),
                Order::Gap { first, records } => {
                    assert_eq!(first, self.next, "the first record that was refused");
                    self.next += records;
                    self.segment.stop();
                }
                Order::Begin(begun) => begun(self.begin_for_snapshot()),
                Order::Roll(rolled) => rolled(self.roll()),
                Order::Settle(settled) => settled(self.settle()),
            }
        }
        self.syncer.stop();
        if let Err(error) = self.sync(|writer| Ok(writer.syncer.sync(&writer.segment.written())?)) {
            tracing::error!(%error, "the journal's last records may not be on the disk");
        }
    }

    /// Writes records that share a write, and lets all know who wait for them.
    fn append(&mut self, group: Vec<Append>) {
        failpoint("journal-write");
        let begin = self.next;
        for append in &group {
            assert_eq!(append.first, self.next, "records arrive in the order of their numbers");
            self.next += append.records.len() as u64;
        }
        // When no more can be kept, the next snapshot has the records. The segment that it begins takes new ones, although
        // the journal still lacks some.
        let written = if self.segment.takes_records() && self.health.takes_records() {
            self.write(begin, &group)
        } else {
            self.health.passes_over(Instant::now());
            Err(lacks_earlier())
        };
        if let Err(error) = written {
            group.into_iter().for_each(|append| (append.kept)(Err(error.clone())));
            return;
        }
        self.syncer.request(self.segment.written());
        for Append { first, records, promise, kept } in group {
            self.answer(promise, first + records.len() as u64, kept);
        }
        if self.segment.len() >= self.segment_bytes_max {
            // Its failure is known to the health; the full segment goes on.
            let _ = self.begin();
        }
    }

    /// Writes records, the first of number `begin`, and before them what is synced, if that is news.
    fn write(&mut self, begin: u64, group: &[Append]) -> Result<()> {
        assert_eq!(begin, self.segment.end(), "the segment goes on with the next record");
        let mut frames = BytesMut::new();
        if self.said_synced.is_none() {
            encode(begin, self.begins, &mut frames);
        }
        let synced = self.syncer.synced();
        if self.said_synced.is_none_or(|said| synced > said) {
            encode(begin, Entry::Synced(synced), &mut frames);
        }
        let records = group.iter().flat_map(|append| &append.records);
        records.zip(begin..).for_each(|(record, number)| encode(number, Entry::Record(record), &mut frames));
        if let Err(failure) = self.segment.append(&frames, self.next - begin) {
            self.health.lacks(Instant::now(), format!("cannot write: {failure}"));
            return Err(failure.into());
        }
        self.said_synced = Some(synced);
        self.bytes_since.fetch_add(frames.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Answers who waits for the records below `next`, which were given: at once, or when they are synced.
    fn answer(&self, promise: Promise, next: u64, kept: Box<dyn FnOnce(Result<()>) + Send>) {
        // Records in the segment that a snapshot begins may depend on ones that only that snapshot will have.
        match (self.segment.takes_records() && self.health.is_whole(), promise) {
            (false, _) => kept(Err(lacks_earlier())),
            (true, Promise::Written) => kept(Ok(())),
            (true, Promise::Synced) => self.syncer.when_synced(next, kept),
        }
    }

    fn begin_for_snapshot(&mut self) -> Result<u64, SnapshotError> {
        self.begin()?;
        self.bytes_since.store(0, Ordering::Relaxed);
        self.rolled_since.store(0, Ordering::Relaxed);
        Ok(self.segment.first())
    }

    /// Continues in a new segment for somebody who asks, and counts it: a start reads all of them.
    fn roll(&mut self) -> Result<u64, SnapshotError> {
        // Behind records that are missing only a snapshot may begin.
        if !self.segment.takes_records() || !self.health.is_whole() {
            return Err(lacks_earlier().into());
        }
        let before = self.segment.first();
        self.begin()?;
        if self.segment.first() != before {
            self.rolled_since.fetch_add(1, Ordering::Relaxed);
        }
        Ok(self.segment.first())
    }

    /// Brings what was written to the disk, and continues in a new segment whose name is on the disk, too, or in the current
    /// one if that is empty and nothing is missing before it.
    fn begin(&mut self) -> Result<(), SnapshotError> {
        self.segment.mend()?;
        self.sync(|writer| Ok(writer.syncer.sync(&writer.segment.written())?))?;
        if self.segment.first() == self.next && self.segment.takes_records() {
            return Ok(());
        }
        let next = Segment::open(&*self.disk, &self.dir, self.next, self.next)?;
        assert!(next.is_empty(), "{} is not new", next.path().display());
        let before = std::mem::replace(&mut self.segment, next);
        self.said_synced = None;
        if before.is_empty() && before.first() != self.segment.first() {
            // It stays so.
            if let Err(error) = self.disk.remove_file(before.path()) {
                tracing::warn!(path = %before.path().display(), %error, "cannot remove an empty journal file");
            }
        }
        self.sync(|writer| {
            writer.disk.sync_folder(&writer.dir).map_err(yeoul_disk::Failure::of_sync(&writer.dir))?;
            Ok(())
        })
    }

    /// Brings everything before to the disk: the records that a snapshot has seen while it was written, from the start of
    /// this segment on.
    fn settle(&self) -> Result<(), SnapshotError> {
        if !self.segment.takes_records() {
            return Err(lacks_earlier().into());
        }
        self.sync(|writer| Ok(writer.syncer.sync(&writer.segment.written())?))
    }

    /// A sync, after whose failure nothing is written any more.
    fn sync(&self, sync: impl FnOnce(&Self) -> Result<(), SnapshotError>) -> Result<(), SnapshotError> {
        if !self.health.takes_records() {
            return Err(SnapshotError::Other(Error::new(ErrorKind::Unavailable, "an earlier sync failed")));
        }
        sync(self).inspect_err(|error| {
            if let SnapshotError::Sync(error) = error {
                self.health.poison(format!("cannot bring records to the disk: {error}"));
            }
        })
    }
}

fn lacks_earlier() -> Error {
    Error::new(ErrorKind::Unavailable, "records before these are missing in the journal")
}

/// Reports that the thread has ended, for whatever reason, after the writer and its lock are dropped.
struct Ends {
    queue: Arc<Queue>,
    health: Arc<Health>,
}

impl Drop for Ends {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Before anybody hears that nothing comes any more.
            self.health.poison("the thread that writes has panicked".to_owned());
        }
        self.queue.end();
    }
}
