//! A master's journal with its disk: a queue that dies with the process, files of which a power failure takes what no
//! fsync has covered, and a disk that is full or hangs at times. What a restart finds is read as the real one reads it.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use bytes::BytesMut;

use super::scene::Scene;
use super::tally::Event;
use crate::master::journal::layout::{Entry, encode};
use crate::master::journal::parsed::{Stop, is_rot, parse, synced_in};
use crate::master::record::Record;

/// The longest that anybody waits for a disk that does not answer.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// How long a journal that lacks records waits before it tries to be whole again.
const RETRY: Duration = Duration::from_secs(5);
/// A sector is on the disk as a whole or is not there.
const SECTOR: usize = 512;

enum Order {
    Append(Vec<Record>),
    /// Records were refused here: nothing goes behind them before the next segment.
    Gap,
    /// Begin a segment, for a snapshot of the state with these records.
    Begin(Vec<Record>),
}

/// A file of records.
struct Segment {
    first: u64,
    bytes: BytesMut,
    /// Up to here it is on the disk.
    synced_len: usize,
    /// No records are missing behind its last one.
    takes_records: bool,
}

impl Segment {
    fn new(first: u64) -> Self {
        Self { first, bytes: BytesMut::new(), synced_len: 0, takes_records: true }
    }
}

/// A snapshot that is being made.
struct Attempt {
    /// The faults when it was asked for: it mends those.
    faults: u64,
    /// Its job, once its segment has begun.
    job: Option<Job>,
}

struct Job {
    /// The first sequence of its segment,
    first: u64,
    /// and of the one that took records until then.
    before: u64,
    step: Step,
}

/// What the job does next. The process may be killed before each step.
enum Step {
    /// Bring the segment before to the disk, for a snapshot of these records.
    Sync(Vec<Record>),
    /// Write them to a file, and give it its name.
    Write(Vec<Record>),
    /// Bring the name to the disk. Power may fail before, and then this is there again.
    Name(Option<Vec<Record>>),
    /// Remove what is replaced, one file after the other.
    Remove,
}

/// See the [module](self).
pub struct Journal {
    /// By the sequence behind them. The last one counts, with the segments from there on.
    snapshots: BTreeMap<u64, Vec<Record>>,
    /// In order.
    segments: Vec<Segment>,
    /// The sequence of the next entry.
    next: u64,
    /// All entries below are on the disk.
    synced: u64,
    said_synced: u64,
    /// With the moment in which each was given.
    queue: VecDeque<(Duration, Order)>,
    /// Orders so far, and how many of them are done.
    given: u64,
    done: u64,
    attempt: Option<Attempt>,
    /// Records are missing in the files; the next attempt is then.
    lacking: Option<Duration>,
    faults: u64,
    full_until: Duration,
    hangs_until: Duration,
    /// The sequences that were written since the last snapshot. None may be missing after a restart, but for those that were
    /// not synced when power failed.
    written: Vec<Range<u64>>,
}

impl Default for Journal {
    fn default() -> Self {
        Self {
            snapshots: BTreeMap::new(),
            segments: vec![Segment::new(0)],
            next: 0,
            synced: 0,
            said_synced: 0,
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
    /// Gives it records. While the disk hangs those that wait may leave no room for more.
    pub fn append(&mut self, scene: &mut Scene, records: Vec<Record>) {
        let something_waits = self.queue.iter().any(|(_, order)| matches!(order, Order::Append(_)));
        if something_waits && self.hangs(scene) && scene.random.percent(40) {
            scene.count(Event::JournalRefused);
            if !matches!(self.queue.back(), Some((_, Order::Gap))) {
                self.give(scene.time, Order::Gap);
            }
            self.lacks(scene.time);
            return;
        }
        self.give(scene.time, Order::Append(records));
    }

    /// Begins a snapshot, if none is being made.
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

    /// Whether it should try to be whole again.
    pub fn wants_snapshot(&self, time: Duration) -> bool {
        self.attempt.is_none() && self.lacking.is_some_and(|retry_at| time >= retry_at)
    }

    /// All that was decided so far, to be asked about later.
    pub fn reached(&self) -> u64 {
        self.given
    }

    /// Whether what rests on all that was decided then may leave.
    pub fn is_kept(&self, reached: u64) -> bool {
        self.done >= reached || self.lacking.is_some()
    }

    /// Whether replies have left that a kill makes untrue.
    pub fn is_lacking(&self) -> bool {
        self.lacking.is_some()
    }

    /// Whether its files hold all that was decided.
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

    /// What its threads do in a moment. Returns whether the process is killed in the middle of a write or a snapshot.
    pub fn work(&mut self, scene: &mut Scene) -> bool {
        if self.hangs(scene) {
            if self.queue.front().is_some_and(|(given, _)| scene.time >= *given + ANSWER_MAX) {
                self.still_lacks(scene.time);
            }
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
                Order::Gap => self.segments.last_mut().expect("there is one").takes_records = false,
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
        let is_news = segment.bytes.is_empty() || self.synced > self.said_synced;
        let news = is_news.then_some(Entry::Synced(self.synced));
        let mut frames = BytesMut::new();
        for entry in news.into_iter().chain(records.iter().cloned().map(Entry::Record)) {
            encode(self.next, &entry, &mut frames);
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
        self.said_synced = self.synced;
        self.written.push(first..self.next);
        false
    }

    fn begin(&mut self, records: Vec<Record>) {
        let last = self.segments.last_mut().expect("there is one");
        let (first, before) = (self.next, last.first);
        if before == first {
            last.takes_records = true;
        } else {
            self.segments.pop_if(|last| last.bytes.is_empty());
            self.segments.push(Segment::new(first));
        }
        if let Some(attempt) = &mut self.attempt {
            attempt.job = Some(Job { first, before, step: Step::Sync(records) });
        }
    }

    /// Brings the last segment to the disk, which says nothing of one before that is not there.
    fn sync(&mut self) {
        let last = self.segments.last_mut().expect("there is one");
        last.synced_len = last.bytes.len();
        if last.first <= self.synced {
            self.synced = self.next;
        }
    }

    /// The job of a snapshot, if its segment has begun, does some steps. Returns whether the process is killed behind one.
    fn go_on_with_snapshot(&mut self, scene: &mut Scene) -> bool {
        loop {
            let is_full = self.is_full(scene);
            let Some(Attempt { faults, job: Some(Job { first, before, step }) }) = &mut self.attempt else {
                return false;
            };
            let (faults, first, before) = (*faults, *first, *before);
            *step = match std::mem::replace(step, Step::Remove) {
                Step::Sync(records) => {
                    if let Some(segment) = self.segments.iter_mut().find(|segment| segment.first == before) {
                        segment.synced_len = segment.bytes.len();
                    }
                    if before <= self.synced {
                        self.synced = self.synced.max(first);
                    }
                    Step::Write(records)
                }
                Step::Write(_) if is_full => {
                    self.fail_snapshot(scene.time);
                    return false;
                }
                Step::Write(records) => Step::Name(self.snapshots.insert(first, records)),
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
            if !scene.calm && scene.random.percent(60) {
                return scene.random.once_in(50);
            }
        }
    }

    /// What keeps all that it is given goes on.
    fn fail_snapshot(&mut self, time: Duration) {
        self.attempt = None;
        self.lacking = self.lacking.map(|_| time + RETRY);
    }

    /// The journal is whole again, but for what was lost since the snapshot was asked for.
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

    /// The process ends, and what waits ends with it.
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

    /// Power fails: of what no fsync has covered, some sectors are there and some are not, nor need a name be.
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

    /// The records that a restarted master finds; a torn end goes.
    pub fn replay(&mut self) -> Vec<Record> {
        let (mut records, mut next) = (Vec::new(), 0);
        if let Some((first, snapshot)) = self.snapshots.last_key_value() {
            (records, next) = (snapshot.clone(), *first);
        }
        self.written.retain(|written| written.end > next);
        let mut found = Vec::new();
        let replaced = self.segments.partition_point(|segment| segment.first < next);
        for at in replaced..self.segments.len() {
            let synced_behind = self.segments[at + 1..].iter().map(|segment| synced_in(&segment.bytes)).max();
            let segment = &mut self.segments[at];
            let parsed = parse(&segment.bytes, segment.first);
            if let Some(stop) = parsed.stop {
                assert_eq!(stop, Stop::Broken);
                let is_rot = is_rot(&segment.bytes, parsed.len, parsed.next, synced_behind.unwrap_or(0));
                assert!(!is_rot, "a process or a machine that died left what looks like rot");
            }
            segment.bytes.truncate(parsed.len);
            (segment.synced_len, segment.takes_records) = (parsed.len, true);
            records.extend(parsed.records);
            self.written.retain(|written| written.start < segment.first || written.end > parsed.next);
            found.extend((segment.first < parsed.next).then_some(segment.first..parsed.next));
            next = parsed.next;
        }
        if replaced == self.segments.len() {
            self.segments.push(Segment::new(next));
        }
        assert!(self.written.is_empty(), "{:?} is missing", self.written);
        (self.next, self.synced, self.said_synced, self.lacking) = (next, next, 0, None);
        self.written = found;
        records
    }
}
