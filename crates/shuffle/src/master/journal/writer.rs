//! Writes the journal's segments, on a thread of its own: a disk that hangs holds up this thread and nobody else.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::BytesMut;

use super::health::Health;
use super::layout::{Entry, frame, payload};
use super::queue::{Begun, Order, Queue};
use super::segment::Segment;
use super::syncer::Syncer;
use crate::{Error, Kind, Result};

/// See the [module](self).
pub struct Writer {
    pub dir: PathBuf,
    pub segment: Segment,
    /// The sequence of the next entry.
    pub next: u64,
    /// What the last [`Entry::Synced`] said.
    pub said_synced: u64,
    /// The length of the segment, for others.
    pub len: Arc<AtomicU64>,
    pub health: Arc<Health>,
    pub syncer: Arc<Syncer>,
    /// Nobody else writes before this is done.
    pub _lock: Arc<File>,
}

impl Writer {
    /// Does what is in the queue until that is stopped.
    pub fn start(self, queue: Arc<Queue>) {
        let health = self.health.clone();
        let thread = std::thread::Builder::new().name("journal-write".to_owned());
        let ends = Ends(queue);
        if let Err(error) = thread.spawn(move || self.run(&ends.0)) {
            health.poison(format!("cannot start a thread: {error}"));
        }
    }

    fn run(mut self, queue: &Queue) {
        while let Some(order) = queue.next() {
            match order {
                Order::Append { payloads, written } => {
                    // Whoever asked may have given up.
                    let _ = written.send(self.append(&payloads));
                }
                Order::Reach { written } => drop(written.send(self.keeps_all())),
                Order::Gap => self.segment.end(),
                Order::Begin { begun } => {
                    let _ = begun.send(self.begin());
                }
                #[cfg(test)]
                Order::Show(show) => show(&mut self),
            }
            self.len.store(self.segment.len(), Ordering::Relaxed);
        }
        self.syncer.stop();
        if self.health.takes_records()
            && let Err(error) = self.segment.unsynced(self.next).sync()
        {
            tracing::error!(%error, "the journal's last records may not be on the disk");
        }
    }

    fn append(&mut self, payloads: &[Vec<u8>]) -> Result<()> {
        // Where nothing more can be kept, the next snapshot has the records. The segment that such a snapshot begins takes
        // what is decided while it is written, although the journal still lacks records.
        if !self.segment.takes_records() || !self.health.takes_records() {
            self.next += payloads.len() as u64;
            self.health.passes_over(Instant::now());
            return Err(lacks_earlier());
        }
        let synced = self.syncer.synced();
        let news = self.segment.len() == 0 || synced > self.said_synced;
        let news = news.then(|| payload(&Entry::Synced(synced)));
        let mut frames = BytesMut::new();
        for payload in news.iter().chain(payloads) {
            frame(self.next, payload, &mut frames);
            self.next += 1;
        }
        if let Err(error) = self.segment.append(&frames) {
            self.health.lacks(Instant::now(), format!("cannot write: {error}"));
            return Err(error);
        }
        self.said_synced = synced;
        self.syncer.request(self.segment.unsynced(self.next));
        self.keeps_all()
    }

    /// Whether all is kept that was given so far. What stands in the segment that a snapshot begins may rest on records
    /// that are in no file before the snapshot is.
    fn keeps_all(&self) -> Result<()> {
        let keeps_all = self.segment.takes_records() && self.health.is_whole();
        if keeps_all { Ok(()) } else { Err(lacks_earlier()) }
    }

    /// Goes on in a new segment. The one before is the same if it holds nothing yet.
    fn begin(&mut self) -> Result<Begun> {
        self.segment.mend()?;
        let before = self.segment.unsynced(self.next);
        if self.next != self.segment.first() {
            let next = Segment::open(&self.dir, self.next)?;
            std::mem::replace(&mut self.segment, next).remove_if_empty();
        } else {
            self.segment.restart();
        }
        Ok(Begun { first: self.segment.first(), before })
    }
}

fn lacks_earlier() -> Error {
    Error::new(Kind::Unavailable, "records before these are missing in the journal")
}

/// Says that the thread has ended, however it does, when the writer and its lock are gone.
struct Ends(Arc<Queue>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.end();
    }
}
