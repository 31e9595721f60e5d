use std::time::Duration;

use arrow::array::RecordBatch;

use super::division::Division;
use super::exchange::{Done, Exchange, FromShard, OpenBatch, StartShards, ToShard};
use super::join::Out;
use super::node::Wakes;
use super::{OperatorCounts, Shard};
use crate::error::Result;
use crate::plan::{OutputMode, PlanNode};
use crate::state::{PartVersion, StateUsage};

/// Longest wait for a shard to tell something before it is asked for room again.
const WAIT_FOR_ROOM: Duration = Duration::from_millis(50);

/// A step whose state is divided among shards, as those before it and after it see it: rows go to the shard of their key, and what
/// comes out is taken as it comes. At the end of a batch all shards are done with it before anything else happens, so each batch
/// gives what it would give in one part.
///
/// Each step has shards, and ways to them and back, of its own: those of a step wait for room in the next one, never the other way
/// round, so the ways can be bounded and nothing waits for itself.
pub(super) struct Sharded {
    name: &'static str,
    step: PlanNode,
    wakes: Wakes,
    division: Division,
    exchange: Box<dyn Exchange>,
    /// Messages of each shard that are not answered.
    outstanding: Vec<usize>,
    next_timers_ms: Vec<Option<i64>>,
    usages: Vec<StateUsage>,
    counts: OperatorCounts,
    versions: Vec<PartVersion>,
    now_ms: i64,
    is_gathering: bool,
    /// True if the open batch has rows.
    has_rows: bool,
}

impl Sharded {
    /// A step with its shards, which are started.
    pub fn new(
        step: &PlanNode,
        mode: OutputMode,
        division: Division,
        mut shards: Vec<Shard>,
        table: &str,
        start: StartShards<'_>,
    ) -> Result<Self> {
        assert_eq!(shards.len(), division.shards(), "each part of the rows has its shard");
        let (mut name, mut usages, mut next_timers_ms) = ("", Vec::new(), Vec::new());
        for shard in &mut shards {
            let node = shard.node();
            let (named, usage, _) = node.take_usage().expect("a step that is divided has state");
            name = named;
            usages.push(usage);
            next_timers_ms.push(node.next_timer_ms());
        }
        Ok(Self {
            name,
            wakes: Wakes::of(step, mode),
            step: step.clone(),
            division,
            outstanding: vec![0; shards.len()],
            exchange: start(table, shards)?,
            next_timers_ms,
            usages,
            counts: OperatorCounts::default(),
            versions: Vec::new(),
            now_ms: 0,
            is_gathering: false,
            has_rows: false,
        })
    }

    /// Takes rows on an input of the open batch, with its watermarks.
    pub fn push(
        &mut self,
        input: usize,
        rows: RecordBatch,
        (current_ms, late_ms): (Option<i64>, Option<i64>),
        out: Out<'_>,
    ) -> Result<()> {
        self.has_rows |= rows.num_rows() > 0;
        let batch = self.open_batch(current_ms, late_ms);
        for (shard, rows) in self.division.divide(input, rows)? {
            self.send(shard, ToShard::Rows { input, rows, batch }, out)?;
        }
        self.take_ready(Duration::ZERO, out).map(drop)
    }

    /// Ends the open batch: all shards have done with it then.
    pub fn end_batch(
        &mut self,
        (current_ms, late_ms): (Option<i64>, Option<i64>),
        out: Out<'_>,
    ) -> Result<()> {
        let batch = self.open_batch(current_ms, late_ms);
        let has_rows = std::mem::take(&mut self.has_rows);
        for shard in 0..self.outstanding.len() {
            self.send(shard, ToShard::EndBatch { batch, has_rows }, out)?;
        }
        self.settle(out)
    }

    /// Changes of the state of all shards since this was asked last.
    ///
    /// # Panics
    /// Within a batch: a checkpoint is of whole ones.
    pub fn versions(&mut self) -> Result<Vec<PartVersion>> {
        assert!(!self.is_outstanding(), "a checkpoint within a batch");
        let out: Out<'_> = &mut |_| unreachable!("rows come out of rows and of the ends of batches");
        for shard in 0..self.outstanding.len() {
            self.send(shard, ToShard::Versions, out)?;
        }
        self.settle(out)?;
        Ok(std::mem::take(&mut self.versions))
    }

    /// True if shards are at work.
    pub fn is_outstanding(&self) -> bool {
        self.outstanding.iter().any(|count| *count > 0)
    }

    /// Takes what shards have told, or waits for the first of it at most so long. True if there was some.
    pub fn take_ready(&mut self, wait: Duration, out: Out<'_>) -> Result<bool> {
        let mut has_some = false;
        while self.is_outstanding() && self.take(if has_some { Duration::ZERO } else { wait }, out)? {
            has_some = true;
        }
        Ok(has_some)
    }

    /// True if the end of a batch without rows would let something go.
    pub fn wants_empty_batch(&self, has_risen: bool) -> bool {
        match self.wakes {
            Wakes::Never => false,
            Wakes::WhenRisen => has_risen,
            Wakes::AtTimer => self.next_timers_ms.iter().flatten().any(|at_ms| *at_ms < self.now_ms),
        }
    }

    /// Name with what the state of all shards is and what was done with it since this was asked last.
    pub fn take_usage(&mut self) -> (&'static str, StateUsage, OperatorCounts) {
        let mut usage = StateUsage::default();
        for part in &self.usages {
            usage.keys += part.keys;
            usage.memory_bytes += part.memory_bytes;
        }
        (self.name, usage, std::mem::take(&mut self.counts))
    }

    /// The step.
    pub fn step(&self) -> &PlanNode {
        &self.step
    }

    pub fn set_now_ms(&mut self, now_ms: i64) {
        self.now_ms = self.now_ms.max(now_ms);
    }

    pub fn set_gathering(&mut self, is_gathering: bool) {
        self.is_gathering = is_gathering;
    }

    fn open_batch(&self, current_ms: Option<i64>, late_ms: Option<i64>) -> OpenBatch {
        OpenBatch { now_ms: self.now_ms, current_ms, late_ms, is_gathering: self.is_gathering }
    }

    /// Sends a message; while its shard has no room, what shards tell is taken, so that they go on.
    fn send(&mut self, shard: usize, mut message: ToShard, out: Out<'_>) -> Result<()> {
        while let Some(back) = self.exchange.offer(shard, message)? {
            message = back;
            self.take(WAIT_FOR_ROOM, out)?;
        }
        self.outstanding[shard] += 1;
        Ok(())
    }

    /// Waits until all shards have done with what they were sent.
    fn settle(&mut self, out: Out<'_>) -> Result<()> {
        while self.is_outstanding() {
            self.take(WAIT_FOR_ROOM, out)?;
        }
        Ok(())
    }

    /// Takes one thing that a shard tells. False if there was none in that time.
    fn take(&mut self, wait: Duration, out: Out<'_>) -> Result<bool> {
        match self.exchange.take(wait)? {
            None => return Ok(false),
            Some(FromShard::Rows(rows)) => out(rows)?,
            Some(FromShard::Failed(error)) => return Err(error),
            Some(FromShard::Done(Done { shard, next_timer_ms, usage, versions })) => {
                let left = self.outstanding[shard].checked_sub(1);
                self.outstanding[shard] = left.expect("a shard answers what it was sent");
                self.next_timers_ms[shard] = next_timer_ms;
                self.versions.extend(versions);
                if let Some((usage, counts)) = usage {
                    self.usages[shard] = usage;
                    self.counts.updated += counts.updated;
                    self.counts.removed += counts.removed;
                    self.counts.late += counts.late;
                }
            }
        }
        Ok(true)
    }
}
