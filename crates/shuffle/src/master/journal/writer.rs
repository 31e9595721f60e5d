//! Writes the journal's segments on its own thread: a disk that hangs holds up only this thread.

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

/// Writes the journal's segments.
pub struct Writer {
    pub dir: PathBuf,
    pub segment: Segment,
    /// The sequence of the next entry.
    pub next: u64,
    /// The sequence in the last [`Entry::Synced`] that was written.
    pub said_synced: u64,
    /// The length of the segment, for other threads.
    pub len: Arc<AtomicU64>,
    pub health: Arc<Health>,
    pub syncer: Arc<Syncer>,
    /// No one else may write before this ends.
    pub _lock: Arc<File>,
}

impl Writer {
    /// Works on the queue until that is stopped.
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
                    // The receiver may have given up waiting.
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
        // When no more can be kept, the next snapshot has the records. The segment that it begins takes new ones, although
        // the journal still lacks some.
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

    /// Whether everything given so far is kept. Records in the segment that a snapshot begins may depend on ones that only
    /// that snapshot will have.
    fn keeps_all(&self) -> Result<()> {
        let keeps_all = self.segment.takes_records() && self.health.is_whole();
        if keeps_all { Ok(()) } else { Err(lacks_earlier()) }
    }

    /// Continues in a new segment, or in the current one if that is empty.
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

/// Reports that the thread has ended, for whatever reason, after the writer and its lock are dropped.
struct Ends(Arc<Queue>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.end();
    }
}
