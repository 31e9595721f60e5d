//! Goal: a windowed count ends with the counts of a batch computation and drops no row as late, whatever dies when and however
//! unevenly partitions are read. Method: the deciders (coordinator, pace, watermark) with real operators and state, between a source
//! of one to twelve partitions, a sink that loses what it has not acknowledged, and a disk of manifests and files of state; processes are
//! killed at any step, stand still, and are overtaken by others, and brokers die.

mod brokers;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, TimestampMicrosecondArray};
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};
use yeoul_simulation::{Random, Tally, Worlds, events};

use self::brokers::Brokers;
use super::pace::{Next, Pace, reach_of_plan};
use crate::BatchId;
use crate::checkpoint::wire::Manifest;
use crate::checkpoint::{BarrierTime, Command, Coordinator, Event as Happened};
use crate::connectors::ReachedEnds;
use crate::operators::{Operators, Reach};
use crate::plan::Query;
use crate::state::{MemoryShare, MemoryTable, StateTable, StoredVersion, VersionKind};

events! {
    faults {
        /// A process dies with nothing of a checkpoint on the disk.
        Killed,
        /// A process dies after its state was stored and before its marker was set.
        KilledBeforeMarker,
        /// A process stands still for seconds while rows come.
        StoodStill,
        /// A process is overtaken while it lives.
        Overtaken,
        /// A broker dies that leads partitions.
        BrokerDied,
    }
    others {
        /// A planned epoch ended.
        Planned,
        /// The watermark moved in an unplanned one.
        Ticked,
        /// A checkpoint is complete.
        Completed,
        /// Seconds of event time of all partitions became visible at once.
        Burst,
        /// A plan had a part of the backlog.
        PlannedInParts,
        /// A plan was made because rows stayed missing.
        Unstuck,
        /// A question for ends met partitions without a leader.
        AskedInVain,
        /// Rows that producers had kept became visible at once.
        SentLater,
        /// An overtaken process found its marker taken.
        Fenced,
        /// State was restored from deltas, too.
        Restored,
    }
}

const PARTITIONS_MAX: usize = 12;
const JOB: &str = "CREATE STREAM r (WATERMARK FOR timestamp AS timestamp - INTERVAL '2000 ms') WITH ('connector' = 'rate');\
    CREATE SINK nowhere WITH ('connector' = 'noop');\
    INSERT INTO nowhere SELECT window_start, value, count(*) AS n \
    FROM TUMBLE(TABLE r, DESCRIPTOR(timestamp), INTERVAL '500 ms') GROUP BY window_start, value EMIT UPDATES";
const WINDOW_MS: i64 = 500;
/// How much earlier than its arrival a row's time may be.
const DISORDER_MS: usize = 300;
/// Rows of a planned epoch, at least: rounding up a part of fewer would let a partition with few rows run ahead.
const PLANNED_ROWS_MIN: usize = 60;
/// Time that a planned epoch is to take, if that is limited.
const EPOCH_MS: i64 = 20;
/// Rows that one poll gives: more seconds of one partition than the watermark waits.
const POLL_ROWS_MAX: usize = 300;

type Group = (i64, i64);

/// What is on the disk of an epoch.
#[derive(Clone)]
struct Saved {
    generation: u64,
    positions: Vec<usize>,
    watermarks: (i64, i64),
    incomplete_ms: Vec<Option<i64>>,
    files: Vec<usize>,
}

/// What outlives processes.
struct Outside {
    random: Random,
    tally: Tally<Event>,
    now_ms: i64,
    query: Query,
    /// Event time, which leaps ahead of the clock with each burst.
    event_ms: i64,
    /// Rows of each partition that are visible: time and key.
    rows: Vec<Vec<(i64, i64)>>,
    /// Rows of each partition that have been fetched: each partition is fetched by itself.
    fetched: Vec<usize>,
    /// Time for which an upstream transaction is still open: of all partitions but the first nothing is visible then.
    held_for_ms: i64,
    brokers: Brokers,
    manifests: BTreeMap<u64, Saved>,
    files: Vec<StoredVersion>,
    /// The last count of each group that came out.
    counts: BTreeMap<Group, i64>,
}

/// One life of a process.
struct Life {
    operators: Operators,
    coordinator: Coordinator,
    pace: Pace,
    saved: Saved,
    ends: Option<Vec<usize>>,
    plan_reach: Reach,
    /// Ends of the backlog that is planned part by part.
    backlog: Option<Vec<usize>>,
    /// When the answer to a question arrives, and the ends of partitions in it.
    answer: Option<(i64, Vec<usize>)>,
    /// What the sink was given and did not acknowledge, with its epoch.
    sent: Vec<(BatchId, Group, i64)>,
    in_flight: Option<(BatchId, Saved)>,
    storing: Option<Option<StoredVersion>>,
    is_marking: bool,
    is_stopping: bool,
    is_ended: bool,
}

impl Outside {
    fn new(seed: u64) -> Self {
        let query = crate::parse_job(JOB).unwrap().remove(0);
        let mut random = Random::new(seed);
        let partitions = 1 + random.below(PARTITIONS_MAX);
        let brokers = Brokers::new(partitions, &mut random);
        Self {
            random,
            tally: Tally::default(),
            now_ms: 1_000_000,
            query,
            event_ms: 1_000_000,
            rows: vec![Vec::new(); partitions],
            fetched: vec![0; partitions],
            held_for_ms: 0,
            brokers,
            manifests: BTreeMap::new(),
            files: Vec::new(),
            counts: BTreeMap::new(),
        }
    }

    /// Time passes, and rows arrive all the while.
    fn pass(&mut self, ms: i64) {
        let end = self.now_ms + ms;
        while self.now_ms < end {
            let from_ms = self.now_ms;
            self.now_ms = end.min(self.now_ms + 5);
            let passed_ms = self.now_ms - from_ms;
            self.lead();
            if self.held_for_ms > 0 {
                self.hold(passed_ms);
                continue;
            }
            self.event_ms += passed_ms;
            for _ in 0..self.random.below(3) {
                let time = self.event_ms - self.random.below(DISORDER_MS) as i64;
                let (partition, key) = (self.random.below(self.rows.len()), self.random.below(3) as i64);
                self.produce(partition, (time, key));
            }
            if self.random.once_in(600) {
                self.held_for_ms = 1 + self.random.below(1500) as i64;
            }
        }
    }

    /// Brokers die, and what was kept for a partition is sent once that has a leader.
    fn lead(&mut self) {
        if self.brokers.may_die(self.now_ms, &mut self.random) {
            self.tally.count(Event::BrokerDied);
        }
        for partition in 0..self.rows.len() {
            let before = self.rows[partition].len();
            self.rows[partition].extend(self.brokers.sent(partition, self.now_ms));
            if self.rows[partition].len() > before {
                self.tally.count(Event::SentLater);
            }
        }
    }

    fn produce(&mut self, partition: usize, row: (i64, i64)) {
        if self.brokers.has_leader(partition, self.now_ms) {
            self.rows[partition].push(row);
        } else {
            self.brokers.keep(partition, row, self.now_ms);
        }
    }

    /// Waits until brokers tell the ends of all partitions.
    fn wait_for_leaders(&mut self) {
        while !self.brokers.have_leaders(self.now_ms) {
            self.pass(5);
        }
    }

    /// While a transaction is open, rows trickle into the first partition, whose times are before those of the transaction. Once it
    /// is committed, seconds of event time are visible at once.
    fn hold(&mut self, passed_ms: i64) {
        self.held_for_ms -= passed_ms;
        if self.random.once_in(20) {
            let key = self.random.below(3) as i64;
            self.produce(0, (self.event_ms, key));
        }
        if self.held_for_ms > 0 {
            return;
        }
        self.tally.count(Event::Burst);
        self.brokers.give_up();
        let until_ms = self.event_ms + 3000 + self.random.below(20_000) as i64;
        while self.event_ms < until_ms {
            self.event_ms += 20;
            let (partition, key) = (self.random.below(self.rows.len()), self.random.below(3) as i64);
            self.rows[partition].push((self.event_ms, key));
        }
    }

    /// Ends of partitions.
    fn visible(&self) -> Vec<usize> {
        self.rows.iter().map(Vec::len).collect()
    }

    /// Fetches some rows of one partition: how fast each is fetched has nothing to do with the others.
    fn fetch(&mut self) {
        let partition = self.random.below(self.rows.len());
        let rows = self.random.below(POLL_ROWS_MAX);
        if !self.brokers.has_leader(partition, self.now_ms) {
            return;
        }
        self.fetched[partition] = self.rows[partition].len().min(self.fetched[partition] + rows);
    }

    fn stand_still(&mut self) {
        self.tally.count(Event::StoodStill);
        let ms = 1000 + self.random.below(4000) as i64;
        self.pass(ms);
    }

    fn claim(&mut self) -> Life {
        self.wait_for_leaders();
        let last = self.manifests.last_key_value().map(|(batch, saved)| (*batch, saved.clone()));
        let new = Saved {
            generation: 0,
            positions: vec![0; self.rows.len()],
            watermarks: (0, 0),
            incomplete_ms: Vec::new(),
            files: Vec::new(),
        };
        let (batch, mut saved) = last.map_or((0, new), |(batch, saved)| (batch + 1, saved));
        saved.generation += 1;
        self.fetched.clone_from(&saved.positions);
        self.manifests.insert(batch, saved.clone());
        let layout = Operators::layout(&self.query).unwrap().unwrap();
        let mut table = MemoryTable::new(layout, MemoryShare::default()).unwrap();
        for file in &saved.files {
            let StoredVersion { kind, evicted_until, rows } = &self.files[*file];
            let version = StoredVersion { kind: *kind, evicted_until: *evicted_until, rows: rows.clone() };
            table.restore(version).unwrap();
        }
        if saved.files.len() > 1 {
            self.tally.count(Event::Restored);
        }
        let manifest = Manifest {
            generation: saved.generation,
            batch: BatchId(batch),
            timestamp_ms: self.now_ms,
            watermark_ms: saved.watermarks.0,
            late_watermark_ms: saved.watermarks.1,
            incomplete_times_ms: saved.incomplete_ms.clone(),
            ..Manifest::blank()
        };
        let rows_max = (PLANNED_ROWS_MIN + self.random.below(400)) as u64;
        let pace = Pace::unbounded(50, rows_max, self.now_ms);
        // As if output were in transactions.
        let has_limit = self.random.once_in(2);
        let pace = if has_limit { pace.with_epochs_of(EPOCH_MS) } else { pace };
        Life {
            operators: Operators::new(&self.query, &manifest, Some(Box::new(table))).unwrap(),
            coordinator: Coordinator::new(BatchId(batch + 1), 300, self.now_ms),
            pace,
            saved,
            ends: None,
            plan_reach: Reach::Everything,
            backlog: None,
            answer: None,
            sent: Vec::new(),
            in_flight: None,
            storing: None,
            is_marking: false,
            is_stopping: false,
            is_ended: false,
        }
    }

    /// The counts of a batch computation.
    fn batch_counts(&self) -> BTreeMap<Group, i64> {
        let mut counts = BTreeMap::new();
        for (time, key) in self.rows.iter().flatten() {
            *counts.entry((time.div_euclid(WINDOW_MS) * WINDOW_MS, *key)).or_insert(0) += 1;
        }
        counts
    }
}

impl Life {
    fn step(&mut self, outside: &mut Outside) {
        self.look(outside);
        if self.is_ended {
            return;
        }
        outside.fetch();
        let was_asking = self.pace.is_asking();
        let wants_batch = self.wants_batch();
        let next = self.pace.next(outside.now_ms, wants_batch);
        if was_asking && matches!(next, Next::Plan(_)) {
            outside.tally.count(Event::Unstuck);
        }
        match next {
            _ if self.is_stopping && !self.pace.is_within_plan() => {}
            Next::Plan(rows_max) => {
                if self.backlog.is_none() {
                    outside.wait_for_leaders();
                }
                let mut ends = self.saved.positions.clone();
                let partitions = ends.len();
                // Each partition's part of the backlog, and each with rows advances.
                let backlog = self.backlog.take().unwrap_or_else(|| outside.visible());
                let limit = rows_max.map_or(usize::MAX, |rows| rows as usize);
                let there: usize = (0..partitions).map(|p| backlog[p] - ends[p]).sum();
                for (end, latest) in ends.iter_mut().zip(&backlog) {
                    *end += ((latest - *end) * limit.min(there)).div_ceil(there.max(1));
                }
                let rows: usize =
                    ends.iter().zip(&self.saved.positions).map(|(end, position)| end - position).sum();
                self.plan_reach = reach_of_plan((there - rows) as u64, false);
                if self.plan_reach != Reach::Everything {
                    self.operators.watermark().hold_seen();
                    self.backlog = Some(backlog);
                    outside.tally.count(Event::PlannedInParts);
                }
                self.pace.planned(rows as u64, outside.now_ms);
                self.operators.set_gathering(self.pace.is_gathering());
                self.ends = self.pace.is_within_plan().then_some(ends);
                if self.ends.is_none() {
                    self.backlog = None;
                }
            }
            Next::Poll => {
                // Also after it looked whether a barrier is due, so that rows of a backlog come before that.
                if outside.random.once_in(150) {
                    outside.stand_still();
                }
                self.poll(outside);
            }
            Next::Ask => {
                self.operators.watermark().mark_asked();
                self.pace.asked(outside.now_ms);
                self.answer = None;
                self.ask(outside);
            }
            Next::Tick => {
                self.tick(outside.now_ms);
                outside.tally.count(Event::Ticked);
            }
            Next::EndEpoch => {}
            Next::Rest | Next::End => unreachable!("a query of what comes for ever"),
        }
    }

    /// Asks for the ends of partitions, in vain while one has no leader.
    fn ask(&mut self, outside: &mut Outside) {
        if !outside.brokers.have_leaders(outside.now_ms) {
            return outside.tally.count(Event::AskedInVain);
        }
        // The answer is as old as its way is long.
        let flight_ms = outside.random.below(20) as i64;
        self.answer = Some((outside.now_ms + flight_ms, outside.visible()));
    }

    /// Takes rows: of a plan from some partition, else of what is there.
    fn poll(&mut self, outside: &mut Outside) {
        let ends: Vec<usize> = self.ends.clone().unwrap_or_else(|| outside.visible());
        let mut rows = Vec::new();
        let partitions = ends.len();
        let first = outside.random.below(partitions);
        for partition in (0..partitions).map(|p| (p + first) % partitions) {
            let begin = self.saved.positions[partition];
            let end = ends[partition].min(outside.fetched[partition]).max(begin);
            let count = (end - begin).min(POLL_ROWS_MAX - rows.len());
            rows.extend_from_slice(&outside.rows[partition][begin..begin + count]);
            self.saved.positions[partition] += count;
        }
        self.pace.polled(rows.len(), self.ends.is_some() && self.saved.positions == ends, outside.now_ms);
        if rows.is_empty() {
            return;
        }
        let times = TimestampMicrosecondArray::from_iter_values(rows.iter().map(|(time, _)| time * 1000));
        let keys = Int64Array::from_iter_values(rows.iter().map(|(_, key)| *key));
        let columns: Vec<ArrayRef> = vec![Arc::new(times.with_timezone("+00:00")), Arc::new(keys)];
        let batch = RecordBatch::try_new(Arc::clone(&outside.query.stream_schema), columns).unwrap();
        let out = self.operators.push(batch).unwrap();
        self.send(out);
    }

    fn send(&mut self, out: impl IntoIterator<Item = RecordBatch>) {
        let batch = self.coordinator.open();
        for rows in out {
            let starts = rows.column(0).as_primitive::<TimestampMicrosecondType>();
            let (keys, counts) =
                (rows.column(1).as_primitive::<Int64Type>(), rows.column(2).as_primitive::<Int64Type>());
            for row in 0..rows.num_rows() {
                self.sent.push((batch, (starts.value(row) / 1000, keys.value(row)), counts.value(row)));
            }
        }
    }

    fn tick(&mut self, now_ms: i64) {
        self.end_batch(Reach::Asked);
        if self.operators.wants_empty_batch() {
            self.end_batch(Reach::Nothing);
        }
        self.pace.ticked(now_ms);
    }

    fn end_batch(&mut self, reach: Reach) {
        let mut out = Vec::new();
        let mut take = |rows| {
            out.push(rows);
            Ok(())
        };
        self.operators.end_batch_of(reach, &mut take).unwrap();
        self.send(out);
    }

    fn wants_batch(&mut self) -> bool {
        self.operators.wants_empty_batch() || self.operators.watermark().has_incomplete()
    }

    fn look(&mut self, outside: &mut Outside) {
        if self.is_stopping {
            self.carry_out(outside, Happened::Stop);
        }
        // The sink acknowledges some of what it has, in its order.
        let count = outside.random.below(self.sent.len() + 1);
        for (_, group, count) in self.sent.drain(..count) {
            outside.counts.insert(group, count);
        }
        if let Some(batch) = self.in_flight.as_ref().map(|(batch, _)| *batch) {
            if self.sent.iter().all(|(of, ..)| *of > batch) {
                self.carry_out(outside, Happened::Acknowledged(batch));
            }
            if outside.random.once_in(3)
                && let Some(version) = self.storing.take()
            {
                self.store(outside, version);
                self.carry_out(outside, Happened::Stored(batch));
            } else if self.is_marking && outside.random.once_in(3) {
                self.mark(outside, batch);
            }
        }
        if self.pace.is_asking() && self.answer.is_none() {
            self.ask(outside);
        }
        if let Some((at_ms, ends)) = &self.answer
            && self.pace.is_asking()
        {
            let is_behind = self.saved.positions.iter().zip(ends).any(|(position, end)| position < end);
            self.pace.reached_ends(match is_behind {
                _ if outside.now_ms < *at_ms => ReachedEnds::Unanswered,
                true => ReachedEnds::Behind,
                false => ReachedEnds::All,
            });
        }
        let is_due = self.in_flight.is_none() && self.coordinator.due_in_ms(outside.now_ms) == 0;
        let is_delayed = is_due && !self.is_stopping && self.pace.delays_barrier(outside.now_ms);
        let wants_batch = self.wants_batch();
        let barrier = if self.pace.is_epoch_over(wants_batch) {
            BarrierTime::Now
        } else if self.pace.is_within_plan() || is_delayed {
            BarrierTime::NotYet
        } else {
            BarrierTime::WhenDue
        };
        let event = Happened::Clock { now_ms: outside.now_ms, has_news: true, barrier };
        self.carry_out(outside, event);
    }

    fn store(&mut self, outside: &mut Outside, version: Option<StoredVersion>) {
        let Some(version) = version else { return };
        let (_, saved) = self.in_flight.as_mut().unwrap();
        if version.kind == VersionKind::Snapshot {
            saved.files.clear();
        }
        saved.files.push(outside.files.len());
        outside.files.push(version);
    }

    fn mark(&mut self, outside: &mut Outside, batch: BatchId) {
        self.is_marking = false;
        let (_, saved) = self.in_flight.clone().unwrap();
        if outside.manifests.contains_key(&batch.0) {
            outside.tally.count(Event::Fenced);
            return self.carry_out(outside, Happened::Fenced(batch));
        }
        outside.manifests.insert(batch.0, saved);
        self.carry_out(outside, Happened::Marked(batch));
    }

    fn carry_out(&mut self, outside: &mut Outside, event: Happened) {
        for command in self.coordinator.handle(event) {
            match command {
                Command::Barrier(batch) => self.barrier(outside, batch),
                Command::Mark(_) => self.is_marking = true,
                Command::Complete(_) => {
                    let (_, saved) = self.in_flight.take().unwrap();
                    self.saved.files = saved.files;
                    outside.tally.count(Event::Completed);
                }
                Command::Yield | Command::End => self.is_ended = true,
                Command::Prepare(_) | Command::Commit(_) | Command::GiveUp(_) => {
                    unreachable!("its output is in no transaction")
                }
            }
        }
    }

    fn barrier(&mut self, outside: &mut Outside, batch: BatchId) {
        // What the end of the batch brings is of the epoch that ends.
        let before = self.sent.len();
        if self.pace.is_within_plan() {
            self.pace.ended_epoch();
            self.ends = None;
            self.end_batch(self.plan_reach);
            outside.tally.count(Event::Planned);
        } else if !self.pace.has_answer() {
            self.end_batch(Reach::Nothing);
        } else {
            self.tick(outside.now_ms);
        }
        self.sent[before..].iter_mut().for_each(|(of, ..)| *of = batch);
        let (_, counts) = self.operators.take_usage().unwrap();
        assert_eq!(counts.late, 0, "rows were late");
        self.saved.watermarks = self.operators.watermarks_ms();
        self.saved.incomplete_ms = self.operators.watermark().incomplete_ms();
        self.in_flight = Some((batch, self.saved.clone()));
        let version = self.operators.version().unwrap().map(|version| StoredVersion {
            kind: version.kind,
            evicted_until: version.evicted_until,
            rows: version.rows.map(Result::unwrap).collect(),
        });
        self.storing = Some(version);
    }
}

fn world(seed: u64) -> Tally<Event> {
    let mut outside = Outside::new(seed);
    let mut life = outside.claim();
    // Brokers are away for seconds, in which a process that lives is to find rows of the others.
    let (steps, calm) = if outside.brokers.are_mortal { (3000, 900) } else { (600, 150) };
    for _ in 0..steps {
        let ms = 1 + outside.random.below(12) as i64;
        outside.pass(ms);
        life.step(&mut outside);
        match outside.random.below(calm) {
            0 => {
                let is_before_marker = life.is_marking;
                outside.tally.count(if is_before_marker { Event::KilledBeforeMarker } else { Event::Killed });
                // Some of what was on its way still arrives.
                let count = outside.random.below(life.sent.len() + 1);
                for (_, group, count) in life.sent.drain(..count) {
                    outside.counts.insert(group, count);
                }
                let down_ms = outside.random.below(6000) as i64;
                outside.pass(down_ms);
                life = outside.claim();
            }
            1 => outside.stand_still(),
            2 => {
                outside.tally.count(Event::Overtaken);
                let mut old = std::mem::replace(&mut life, outside.claim());
                // What it sends goes nowhere here: at least once promises no order between two processes.
                let counts = outside.counts.clone();
                let mut steps = 0;
                while !old.is_ended && steps < 5000 {
                    old.step(&mut outside);
                    outside.now_ms += 1;
                    steps += 1;
                }
                outside.counts = counts;
                assert!(old.is_ended, "an overtaken process goes on");
            }
            _ => {}
        }
    }
    // Until everything was read; then it is told to stop.
    for _ in 0..100_000 {
        outside.now_ms += 10;
        life.step(&mut outside);
        life.is_stopping |=
            life.saved.positions.iter().zip(&outside.rows).all(|(position, rows)| *position == rows.len());
        if life.is_ended {
            break;
        }
    }
    assert!(life.is_ended, "a query that is told to stop ends");
    assert_eq!(outside.counts, outside.batch_counts());
    outside.tally
}

#[test]
fn counts_are_those_of_a_batch_computation_whatever_dies() {
    let worlds = Worlds { faults: 2000, what: "windowed count" };
    worlds.run(world, |tally, worlds| tally.assert_each(worlds / 20));
}
