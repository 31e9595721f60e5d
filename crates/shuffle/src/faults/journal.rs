//! A master's journal with its disk: a queue that dies with the process, files that lose what was not synced in a power
//! failure, and a disk that is full or hangs at times. A restart reads what is left, by the rules of the real journal.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use bytes::BytesMut;
use yeoul_journal::layout::{Entry, begins_of, encode, encoded};
use yeoul_journal::parsed::{Stop, is_rot, parse};

use super::scene::Scene;
use super::tally::Event;
use crate::master::record::Record;

/// The longest wait of a reply for a disk that does not answer.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// How long a journal that lacks records waits before it tries to be whole again.
const RETRY: Duration = Duration::from_secs(5);
/// A sector is written completely or not at all.
const SECTOR: usize = 512;

enum Order {
    Append(Vec<Record>),
    /// So many records were refused here: nothing may follow them before the next segment.
    Gap(u64),
    /// Begin a segment, for a snapshot of the state with these records.
    Begin(Vec<Record>),
}

/// A file of records.
struct Segment {
    first: u64,
    /// The number after its last record.
    end: u64,
    bytes: BytesMut,
    /// How much of it is on disk.
    synced_len: usize,
    /// Whether no records are missing after its last one.
    takes_records: bool,
}

impl Segment {
    fn new(first: u64) -> Self {
        Self { first, end: first, bytes: BytesMut::new(), synced_len: 0, takes_records: true }
    }
}

/// A snapshot in progress.
struct Attempt {
    /// The number of faults when it was requested: it repairs those.
    faults: u64,
    /// Its job, once its segment has begun.
    job: Option<Job>,
}

struct Job {
    /// The number of the first record of its segment.
    first: u64,
    step: Step,
}

/// The next step of the job. The process may be killed before each step.
enum Step {
    /// Write these records to a file.
    Write(Vec<Record>),
    /// Sync what the journal was given meanwhile, and rename the file.
    Settle(Vec<Record>),
    /// Sync the name. If power fails before that, the previous snapshot is back.
    Name(Option<Vec<Record>>),
    /// Remove the files that were replaced, one after the other.
    Remove,
}

/// What becomes of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// What it depends on is on its way.
    Waiting,
    /// It leaves.
    Kept,
    /// It is an error.
    Unkept,
}

/// A master's journal.
pub struct Journal {
    /// Snapshots by the number of the record after them. The last one counts, with the segments from there on.
    snapshots: BTreeMap<u64, Vec<Record>>,
    /// In order.
    segments: Vec<Segment>,
    /// The number of the next record.
    next: u64,
    /// All records below this are on disk.
    synced: u64,
    /// What the last segment last said of that, if this process has written to it.
    said_synced: Option<u64>,
    /// Each with the time when it was given.
    queue: VecDeque<(Duration, Order)>,
    /// The number of orders so far; `done`: how many of them are done.
    given: u64,
    done: u64,
    attempt: Option<Attempt>,
    /// Records are missing in the files; the time of the next attempt.
    lacking: Option<Duration>,
    faults: u64,
    full_until: Duration,
    hangs_until: Duration,
    /// The records written since the last snapshot, by their numbers. None may be missing after a restart, except those that were not synced
    /// when power failed.
    written: Vec<Range<u64>>,
}

impl Default for Journal {
    fn default() -> Self {
        Self {
            snapshots: BTreeMap::new(),
            segments: vec![Segment::new(0)],
            next: 0,
            synced: 0,
            said_synced: None,
            queue: VecDeque::new(),
            given: 0,
            done: 0,
            attempt: None,
            lacking: None,
            faults: 0,
            full_until: Duration::ZERO,
            hangs_until: Duration::ZERO,
            written: Vec::new(),
        }
    }
}

impl Journal {
    /// Appends records. They may be refused while the disk hangs and too much is queued.
    pub fn append(&mut self, scene: &mut Scene, records: Vec<Record>) {
        let something_waits = self.queue.iter().any(|(_, order)| matches!(order, Order::Append(_)));
        if something_waits && self.hangs(scene) && scene.random.percent(40) {
            scene.count(Event::JournalRefused);
            let refused = records.len() as u64;
            match self.queue.back_mut() {
                Some((_, Order::Gap(records))) => *records += refused,
                _ => self.give(scene.time, Order::Gap(refused)),
            }
            self.lacks(scene.time);
            return;
        }
        self.give(scene.time, Order::Append(records));
    }

    /// Begins a snapshot, unless one is in progress.
    pub fn begin_snapshot(&mut self, time: Duration, records: Vec<Record>) {
        if self.attempt.is_none() {
            self.attempt = Some(Attempt { faults: self.faults, job: None });
            self.give(time, Order::Begin(records));
        }
    }

    fn give(&mut self, time: Duration, order: Order) {
        self.given += 1;
        self.queue.push_back((time, order));
    }

    /// Whether it should try to become whole again.
    pub fn wants_snapshot(&self, time: Duration) -> bool {
        self.attempt.is_none() && self.lacking.is_some_and(|retry_at| time >= retry_at)
    }

    /// A mark of everything decided so far, to be checked later.
    pub fn reached(&self) -> u64 {
        self.given
    }

    /// What becomes of replies that depend on the decisions up to a mark, and have waited since then.
    pub fn fate(&self, reached: u64, since: Duration, now: Duration) -> Fate {
        if self.lacking.is_some() {
            Fate::Unkept
        } else if self.done >= reached {
            Fate::Kept
        } else if now >= since + ANSWER_MAX {
            Fate::Unkept
        } else {
            Fate::Waiting
        }
    }

    /// Whether a kill now would undo decisions, of which nobody has heard.
    pub fn is_lacking(&self) -> bool {
        self.lacking.is_some()
    }

    /// Whether its files hold every decision.
    pub fn has_all(&self) -> bool {
        self.queue.is_empty() && self.lacking.is_none()
    }

    pub fn fill(&mut self, scene: &mut Scene) {
        scene.count(Event::JournalFull);
        self.full_until = scene.time + Duration::from_millis(scene.random.next() % 20_000);
    }

    pub fn hang(&mut self, scene: &mut Scene) {
        scene.count(Event::JournalHung);
        self.hangs_until = scene.time + Duration::from_millis(scene.random.next() % 9_000);
    }

    fn is_full(&self, scene: &Scene) -> bool {
        !scene.calm && scene.time < self.full_until
    }

    fn hangs(&self, scene: &Scene) -> bool {
        !scene.calm && scene.time < self.hangs_until
    }

    /// Lets its threads work for a moment. Returns whether the process is killed during a write or a snapshot.
    pub fn work(&mut self, scene: &mut Scene) -> bool {
        if self.hangs(scene) {
            return false;
        }
        let is_quick = scene.calm || scene.random.percent(50);
        let orders = if is_quick { self.queue.len() } else { scene.random.below(self.queue.len() + 1) };
        for _ in 0..orders {
            let Some((_, order)) = self.queue.pop_front() else { break };
            match order {
                Order::Append(records) => {
                    if self.write(scene, &records) {
                        return true;
                    }
                }
                Order::Gap(records) => {
                    self.next += records;
                    self.segments.last_mut().expect("there is one").takes_records = false;
                }
                Order::Begin(records) => self.begin(records),
            }
            self.done += 1;
        }
        if scene.calm || scene.random.percent(30) {
            self.sync();
        }
        (scene.calm || scene.random.percent(50)) && self.go_on_with_snapshot(scene)
    }

    fn write(&mut self, scene: &mut Scene, records: &[Record]) -> bool {
        let is_full = self.is_full(scene);
        let segment = self.segments.last_mut().expect("there is one");
        if !segment.takes_records {
            self.next += records.len() as u64;
            self.still_lacks(scene.time);
            return false;
        }
        let first = self.next;
        assert_eq!(segment.end, first, "records are numbered one after the other");
        let mut frames = BytesMut::new();
        if self.said_synced.is_none() {
            encode(first, begins_of::<Record>(), &mut frames);
        }
        if self.said_synced.is_none_or(|said| self.synced > said) {
            encode(first, Entry::Synced(self.synced), &mut frames);
        }
        for record in records {
            encode(self.next, Entry::Record(&encoded(record)), &mut frames);
            self.next += 1;
        }
        if is_full {
            segment.takes_records = false;
            self.lacks(scene.time);
            return false;
        }
        if !scene.calm && scene.random.once_in(150) {
            segment.bytes.extend_from_slice(&frames[..scene.random.below(frames.len())]);
            return true;
        }
        segment.bytes.extend_from_slice(&frames);
        segment.end = self.next;
        self.said_synced = Some(self.synced);
        self.written.push(first..self.next);
        false
    }

    fn begin(&mut self, records: Vec<Record>) {
        self.sync();
        let first = self.next;
        if !self.segments.last().is_some_and(|last| last.first == first && last.takes_records) {
            self.segments.pop_if(|last| last.bytes.is_empty());
            self.segments.push(Segment::new(first));
            self.said_synced = None;
        }
        if let Some(attempt) = &mut self.attempt {
            attempt.job = Some(Job { first, step: Step::Write(records) });
        }
    }

    /// Syncs the last segment, which proves nothing if records before it are missing.
    fn sync(&mut self) {
        let last = self.segments.last_mut().expect("there is one");
        last.synced_len = last.bytes.len();
        if last.first <= self.synced {
            self.synced = self.synced.max(last.end);
        }
    }

    /// Does some steps of the snapshot's job, if its segment has begun. Returns whether the process is killed after one of
    /// them.
    fn go_on_with_snapshot(&mut self, scene: &mut Scene) -> bool {
        loop {
            let is_full = self.is_full(scene);
            let takes_records = self.segments.last().is_some_and(|last| last.takes_records);
            let Some(Attempt { faults, job: Some(Job { first, step }) }) = &mut self.attempt else {
                return false;
            };
            let (faults, first) = (*faults, *first);
            let next = match std::mem::replace(step, Step::Remove) {
                Step::Write(_) if is_full => {
                    self.fail_snapshot(scene.time);
                    return false;
                }
                Step::Write(records) => Step::Settle(records),
                Step::Settle(_) if !takes_records => {
                    self.fail_snapshot(scene.time);
                    return false;
                }
                Step::Settle(records) => {
                    self.sync();
                    Step::Name(self.snapshots.insert(first, records))
                }
                Step::Name(_) => {
                    self.synced = self.synced.max(first);
                    Step::Remove
                }
                Step::Remove => {
                    let old = self.snapshots.first_entry().filter(|snapshot| *snapshot.key() < first);
                    if let Some(snapshot) = old {
                        snapshot.remove();
                    } else if self.segments[0].first < first {
                        self.segments.remove(0);
                    } else {
                        self.written.retain(|written| written.end > first);
                        self.end_snapshot(scene, faults);
                        return false;
                    }
                    Step::Remove
                }
            };
            if let Some(Attempt { job: Some(Job { step, .. }), .. }) = &mut self.attempt {
                *step = next;
            }
            if !scene.calm && scene.random.percent(60) {
                return scene.random.once_in(50);
            }
        }
    }

    /// A journal that is whole otherwise continues.
    fn fail_snapshot(&mut self, time: Duration) {
        self.attempt = None;
        self.lacking = self.lacking.map(|_| time + RETRY);
    }

    /// The journal is whole again, unless it lost something since the snapshot was requested.
    fn end_snapshot(&mut self, scene: &mut Scene, faults: u64) {
        scene.count(Event::Snapshot);
        self.attempt = None;
        if self.lacking.is_some() && self.faults == faults {
            scene.count(Event::JournalMended);
            self.lacking = None;
        } else if self.lacking.is_some() {
            self.lacking = Some(scene.time + RETRY);
        }
        let takes_records = self.segments.last().is_some_and(|last| last.takes_records);
        assert!(takes_records || self.lacking.is_some(), "what is whole keeps what it is given");
    }

    fn lacks(&mut self, time: Duration) {
        self.faults += 1;
        self.lacking.get_or_insert(time + RETRY);
    }

    fn still_lacks(&mut self, time: Duration) {
        if self.lacking.is_none() {
            self.lacks(time);
        }
    }

    /// The process ends, and its queue is lost.
    pub fn die(&mut self, scene: &mut Scene) {
        if let Some(Attempt { job: Some(Job { step: Step::Name(_) | Step::Remove, .. }), .. }) = self.attempt
        {
            scene.count(Event::SnapshotHalf);
        }
        self.queue.clear();
        self.done = self.given;
        self.attempt = None;
        self.hangs_until = Duration::ZERO;
    }

    /// Power fails: sectors that were not synced may be there or not, and so may names.
    pub fn lose_power(&mut self, scene: &mut Scene) {
        self.written.retain(|written| written.end <= self.synced);
        if let Some(Attempt { job: Some(Job { first, step: Step::Name(replaced), .. }), .. }) =
            &mut self.attempt
            && scene.random.percent(50)
        {
            match replaced.take() {
                Some(replaced) => self.snapshots.insert(*first, replaced),
                None => self.snapshots.remove(first),
            };
        }
        for segment in &mut self.segments {
            let (synced, len) = (segment.synced_len, segment.bytes.len());
            segment.bytes.truncate(synced + scene.random.below(len - synced + 1));
            let len = segment.bytes.len();
            if scene.random.percent(50) {
                let begin = (synced + scene.random.below(len - synced + 1)) / SECTOR * SECTOR;
                let end = begin + SECTOR * (1 + scene.random.below(3));
                let (begin, end) = (begin.max(synced), end.min(len));
                segment.bytes[begin..end.max(begin)].fill(0);
            }
        }
    }

    /// The records that a restarted master finds; a torn end is cut off.
    pub fn replay(&mut self, scene: &mut Scene) -> Vec<Record> {
        let (mut records, mut next) = (Vec::new(), 0);
        if let Some((first, snapshot)) = self.snapshots.last_key_value() {
            (records, next) = (snapshot.clone(), *first);
        }
        self.written.retain(|written| written.end > next);
        let mut found = Vec::new();
        let replaced = self.segments.partition_point(|segment| segment.first < next);
        for at in replaced..self.segments.len() {
            let is_last = at + 1 == self.segments.len();
            if self.segments[at].first != next {
                // Records before it were lost, and the snapshot that was to have them is not there.
                assert!(self.lacking.is_some(), "what is whole has no gap");
                let left_out = &self.segments[at..];
                let synced = |segment: &Segment| parse(&segment.bytes, segment.first, |_: Record| ()).synced;
                assert!(left_out.iter().all(|segment| segment.first > next && synced(segment) <= next));
                scene.count(Event::JournalLeftOut);
                self.segments.truncate(at);
                self.written.retain(|written| written.end <= next);
                break;
            }
            let segment = &mut self.segments[at];
            let parsed = parse(&segment.bytes, segment.first, |record| records.push(record));
            if let Some(stop) = parsed.stop {
                assert!(is_last, "only the last segment may be torn");
                assert_eq!(stop, Stop::Broken);
                let is_rot = is_rot(&segment.bytes, &parsed);
                assert!(!is_rot, "a process or a machine that died left what looks like rot");
            }
            segment.bytes.truncate(parsed.len);
            (segment.synced_len, segment.takes_records) = (parsed.len, true);
            segment.end = parsed.next;
            self.written.retain(|written| written.start < segment.first || written.end > parsed.next);
            found.extend((segment.first < parsed.next).then_some(segment.first..parsed.next));
            next = parsed.next;
        }
        if replaced >= self.segments.len() {
            self.segments.push(Segment::new(next));
        }
        assert!(self.written.is_empty(), "{:?} is missing", self.written);
        (self.next, self.synced, self.said_synced, self.lacking) = (next, next, None, None);
        self.written = found;
        records
    }
}
