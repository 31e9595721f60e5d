//! Query loop: the thread of a query, which takes rows, pushes them to the sink, and has checkpoints taken.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::TimestampMicrosecondType;
use chrono::{DateTime, SecondsFormat};
use serde_json::Value;

use super::checkpointer::{Checkpointer, Outcome};
use super::epoch::{Epoch, InFlight};
use super::events::{EventTime, Progress, QueryEvent, SinkProgress, SourceProgress, StateProgress};
use super::failed_row::{Records, prepared, with_place};
use super::gathering::Gathering;
use super::handle::Shared;
use super::inputs::{Inputs, PlannedRows};
use super::latencies::Latencies;
use super::opened::{Opened, taken_over};
use super::pace::{Next, PLANNED_ROWS_MAX, Pace, reach_of_plan};
use super::phases::Phase;
use crate::BatchId;
use crate::checkpoint::wire::{Manifest, SourcePosition};
use crate::checkpoint::{
    BarrierTime, Command, Coordinator, Event, Marked, OutputMarker, Resumption, add_state_files, new_id,
};
use crate::connectors::kafka::{CommitOutcome, Transactions};
use crate::connectors::{ReachedEnds, Sink, SinkConnector, SourceReport};
use crate::error::{Error, ErrorKind, Result};
use crate::operators::{Operators, Reach};
use crate::plan::{Query, Trigger};

/// Longest wait for rows: how soon a stop is seen.
const WAIT_MAX: Duration = Duration::from_millis(50);
/// Wait for rows while a checkpoint is on its way to the disk.
const WAIT_IN_FLIGHT: Duration = Duration::from_millis(5);
/// Part of the time that a transaction may be open which a planned epoch is to take: one in so many.
const TIMEOUT_PART: i64 = 4;
/// Shortest wait.
const WAIT_LEAST: Duration = Duration::from_millis(1);
/// Most batches of records whose latencies are counted together.
const ARRIVED_MAX: usize = 4096;

/// A query at work: it takes rows, pushes them to the sink, and carries out what the coordinator says.
pub(super) struct QueryLoop<'a> {
    shared: &'a Shared,
    query: &'a Query,
    name: String,
    run_id: String,
    /// The first epoch of this run.
    first: BatchId,
    coordinator: Coordinator,
    checkpointer: Checkpointer,
    /// The last complete checkpoint.
    complete: Manifest,
    /// The one that is in flight.
    in_flight: Option<InFlight>,
    inputs: Inputs,
    operators: Operators,
    /// When batches end, for operators that care.
    pace: Option<Pace>,
    /// Rows that the end of the open planned epoch completes.
    plan_reach: Reach,
    gathering: Gathering,
    sink: Box<dyn Sink>,
    sink_description: String,
    transactions: Option<Transactions>,
    epoch: Epoch,
    latencies: Latencies,
    /// Times of records that may still be on their way through shards.
    arrived: Vec<ArrayRef>,
    is_at_end: bool,
    is_ended: bool,
}

/// End of a query's work.
pub(super) enum Ended {
    /// It was stopped, or its rows are at their end.
    Done,
    /// Loss of the transaction: the query may go on from its last checkpoint with a new one.
    Lost(Error),
    /// It failed.
    Failed(Error),
}

impl<'a> QueryLoop<'a> {
    pub fn new(query: &'a Query, opened: Opened, shared: &'a Shared) -> Result<Self> {
        let Opened { store, recovered, mut inputs, operators, sink, transactions } = opened;
        if query.settings.trigger == Trigger::AvailableNow {
            inputs.stop_at_latest()?;
        }
        let is_planned_only = inputs.are_planned_only();
        let has_batches = matches!(query.settings.trigger, Trigger::Once | Trigger::Every(_));
        let has_pace = has_batches || operators.has_batches() || is_planned_only;
        let pace = has_pace.then(|| match query.settings.trigger {
            Trigger::AvailableNow => Pace::bounded(),
            Trigger::Once => Pace::once(),
            Trigger::Every(period_ms) => Pace::every(period_ms, now_ms()),
            Trigger::RealTime if is_planned_only => Pace::planned_only(query.settings.tick_ms, now_ms()),
            Trigger::RealTime => {
                let rows_max = inputs.epoch_rows_max().unwrap_or(u64::MAX).min(PLANNED_ROWS_MAX);
                Pace::unbounded(query.settings.tick_ms, rows_max, now_ms())
            }
        });
        // A planned epoch is one transaction, whose time brokers limit. Rows may become slower.
        let epoch_ms = transactions.as_ref().map(|transactions| transactions.timeout_ms() / TIMEOUT_PART);
        let pace = match epoch_ms {
            Some(epoch_ms) => pace.map(|pace| pace.with_epochs_of(epoch_ms)),
            None => pace,
        };
        let (manifest, run_id) = (recovered.manifest, new_id());
        let open = manifest.batch.next();
        shared.tell(&QueryEvent::Started {
            name: query.name.clone(),
            id: manifest.query_id.clone(),
            run_id: run_id.clone(),
            batch_id: open,
            warnings: recovered.warnings,
        });
        for text in inputs.take_warnings() {
            shared.tell(&QueryEvent::Warning { name: query.name.clone(), text });
        }
        Ok(Self {
            shared,
            query,
            name: query.name.clone(),
            run_id,
            first: open,
            coordinator: Coordinator::new(open, query.settings.checkpoint_interval_ms, now_ms()),
            checkpointer: Checkpointer::start(&query.name, manifest.generation, store, transactions.clone())?,
            complete: manifest,
            in_flight: None,
            inputs,
            operators,
            pace,
            plan_reach: Reach::Everything,
            gathering: Gathering::new(Instant::now()),
            sink,
            sink_description: SinkConnector::of(query)?.description(),
            transactions,
            epoch: Epoch::begin(now_ms()),
            latencies: Latencies::new(),
            arrived: Vec::new(),
            is_at_end: false,
            is_ended: false,
        })
    }

    /// Works until the query is stopped, its rows are at their end, or it fails.
    pub fn run(mut self, resumption: &mut Resumption) -> Ended {
        let outcome = self.work();
        if self.complete.batch >= self.first {
            resumption.progressed();
        }
        match outcome {
            Ok(()) => Ended::Done,
            Err(error) if self.transactions.as_ref().is_some_and(Transactions::can_begin_anew) => {
                Ended::Lost(error)
            }
            Err(error) => Ended::Failed(error),
        }
    }

    fn work(&mut self) -> Result<()> {
        while !self.is_ended {
            // Before it is asked what has timed out by it.
            self.operators.set_now_ms(now_ms());
            self.look()?;
            if self.is_ended {
                break;
            }
            let wants_empty_batch = self.wants_batch();
            let next = self.pace.as_mut().map_or(Next::Poll, |pace| pace.next(now_ms(), wants_empty_batch));
            let is_within_plan = self.pace.as_ref().is_some_and(Pace::is_within_plan);
            if self.coordinator.holds_output() {
                std::thread::sleep(WAIT_LEAST);
                continue;
            }
            let is_leaving = (self.shared.is_stopped() && !is_within_plan) || self.is_at_end;
            match next {
                _ if is_leaving => std::thread::sleep(WAIT_IN_FLIGHT.min(self.wait())),
                Next::Poll => self.poll()?,
                Next::Plan(rows_max) => self.plan(rows_max)?,
                Next::Ask => self.ask()?,
                Next::Tick => self.tick()?,
                // The barrier of the epoch before is still on its way to the disk.
                Next::EndEpoch => std::thread::sleep(WAIT_LEAST),
                Next::Rest => std::thread::sleep(self.wait()),
                Next::End => self.is_at_end = true,
            }
        }
        Ok(())
    }

    fn poll(&mut self) -> Result<()> {
        // What shards let out is not to wait for rows.
        let is_outstanding = self.operators.is_outstanding();
        let wait = match self.in_flight {
            _ if is_outstanding => Duration::ZERO,
            Some(_) => WAIT_IN_FLIGHT,
            None => self.wait(),
        };
        if !is_outstanding {
            std::thread::sleep(self.gathering.pause(Instant::now()));
        }
        let polled = self.inputs.poll(wait)?;
        self.warn();
        let (input, count) = polled.rows.as_ref().map_or((0, 0), |(input, rows)| (*input, rows.num_rows()));
        // Each input has its turn before there is a pause.
        self.gathering.polled(count, input + 1 == self.inputs.len(), Instant::now());
        match &mut self.pace {
            Some(pace) => pace.polled(count, polled.is_at_end, now_ms()),
            None => self.is_at_end = polled.is_at_end,
        }
        match polled.rows {
            Some((input, rows)) => self.push(input, rows),
            None if is_outstanding => self.take_outstanding(),
            None => Ok(()),
        }
    }

    /// Brings to the sink what shards let out, or waits for it, and soon looks for rows again.
    fn take_outstanding(&mut self) -> Result<()> {
        let (sink, epoch) = (&mut *self.sink, &mut self.epoch);
        self.operators.take_outstanding(WAIT_LEAST, &mut |rows| write(sink, epoch, &rows))?;
        self.record_latencies();
        Ok(())
    }

    fn plan(&mut self, rows_max: Option<u64>) -> Result<()> {
        let asked = Instant::now();
        let PlannedRows { rows, rows_left } = self.inputs.plan(rows_max)?;
        self.warn();
        self.epoch.planned(asked);
        self.plan_reach = reach_of_plan(rows_left, self.inputs.epoch_rows_max().is_some());
        if self.plan_reach != Reach::Everything {
            self.operators.watermark().hold_seen();
        }
        let pace = self.pace.as_mut().expect("it asked for the plan");
        pace.planned(rows, now_ms());
        self.operators.set_gathering(pace.is_gathering());
        if pace.is_within_plan() { Ok(()) } else { self.inputs.lift_plan() }
    }

    /// Tells what sources passed over.
    fn warn(&mut self) {
        for text in self.inputs.take_warnings() {
            self.shared.tell(&QueryEvent::Warning { name: self.name.clone(), text });
        }
    }

    /// Asks the sources which rows are there: once these have come, those that came before are complete.
    fn ask(&mut self) -> Result<()> {
        self.operators.watermark().mark_asked();
        let pace = self.pace.as_mut().expect("it asked for the question");
        pace.asked(now_ms());
        if self.inputs.have_parts() {
            return self.inputs.ask_ends();
        }
        // Rows of one part come in their order: whatever was there before one of them has come.
        pace.reached_ends(ReachedEnds::All);
        Ok(())
    }

    /// Ends the open batch and, if the watermark rose, an empty one after it: nothing that is over waits for more rows.
    fn tick(&mut self) -> Result<()> {
        let reach =
            if self.pace.is_some() && self.inputs.have_parts() { Reach::Asked } else { Reach::Everything };
        self.end_batch(reach)?;
        if self.operators.wants_empty_batch() {
            self.end_batch(Reach::Nothing)?;
        }
        if let Some(pace) = &mut self.pace {
            pace.ticked(now_ms());
        }
        Ok(())
    }

    /// True if the end of a batch without rows would bring something: what is over, or rows that are complete then.
    fn wants_batch(&mut self) -> bool {
        self.operators.wants_empty_batch() || self.operators.watermark().has_incomplete()
    }

    fn end_batch(&mut self, reach: Reach) -> Result<()> {
        let began = Instant::now();
        self.operators.set_now_ms(now_ms());
        let (sink, epoch) = (&mut *self.sink, &mut self.epoch);
        self.operators.end_batch_of(reach, &mut |rows| write(sink, epoch, &rows))?;
        self.epoch.phases.add(Phase::AddBatch, began.elapsed());
        self.record_latencies();
        Ok(())
    }

    /// Until something is due that no row brings, and no longer than a stop may wait.
    fn wait(&mut self) -> Duration {
        let now = now_ms();
        let wants_empty_batch = self.operators.wants_empty_batch();
        let barrier = self.has_news(wants_empty_batch).then(|| self.coordinator.due_in_ms(now));
        let wants_batch = self.wants_batch();
        let tick = self.pace.as_ref().map(|pace| pace.due_in_ms(now, wants_batch));
        let due = barrier.into_iter().chain(tick).min();
        due.map_or(WAIT_MAX, |ms| Duration::from_millis(ms.unsigned_abs())).clamp(WAIT_LEAST, WAIT_MAX)
    }

    /// True if a checkpoint now would differ from the last one.
    fn has_news(&self, wants_empty_batch: bool) -> bool {
        self.epoch.input_rows > 0
            || self.epoch.output_rows > 0
            || wants_empty_batch
            || self.inputs.positions() != self.last_offsets()
    }

    /// Rows on their whole way.
    fn push(&mut self, input: usize, raw: RecordBatch) -> Result<()> {
        let began = Instant::now();
        let kept = raw.clone();
        let decoded = self.inputs.decode(input, raw, now_ms())?;
        self.epoch.add_input(input, kept.num_rows());
        self.operators.set_now_ms(now_ms());
        let (query, raw) = (self.query, &kept);
        let (decoded, prepared) = prepared(
            &self.operators,
            &self.inputs,
            Records { query, input, raw, sink: &*self.sink },
            decoded,
        )?;
        self.epoch.malformed_rows += decoded.malformed.len() as u64;
        let (sink, epoch) = (&mut *self.sink, &mut self.epoch);
        let pushed = self.operators.push_prepared(prepared, &mut |rows| write(sink, epoch, &rows));
        pushed
            .map_err(|error| with_place(error, Records { query, input, raw, sink: &*self.sink }, &decoded))?;
        self.epoch.phases.add(Phase::AddBatch, began.elapsed());
        if let Some(times) = kept.column_by_name("timestamp") {
            self.arrived.push(Arc::clone(times));
        }
        self.record_latencies();
        Ok(())
    }

    /// Counts the latencies of records once all that comes of them has been written. Of very many it does so before.
    fn record_latencies(&mut self) {
        if self.operators.is_outstanding() && self.arrived.len() < ARRIVED_MAX {
            return;
        }
        let now_us = now_ms() * 1000;
        for times in self.arrived.drain(..) {
            let times = times.as_primitive::<TimestampMicrosecondType>();
            times.iter().flatten().for_each(|time| self.latencies.record(now_us.saturating_sub(time) / 1000));
        }
    }

    /// Looks at the clock, the sinks and the checkpoint in flight.
    fn look(&mut self) -> Result<()> {
        if self.shared.is_stopped() || self.is_at_end {
            self.carry_out(Event::Stop)?;
        }
        if let Some(batch) = self.in_flight.as_ref().map(|flight| flight.manifest.batch) {
            if self.is_acknowledged(batch)? {
                self.carry_out(Event::Acknowledged(batch))?;
            }
            let (outcome, took) = self.checkpointer.outcome()?.unzip();
            if let Some(flight) = &mut self.in_flight {
                flight.took(outcome.as_ref(), took.unwrap_or_default());
            }
            match outcome {
                Some(Outcome::Stored(files)) => {
                    let InFlight { manifest, .. } = self.in_flight.as_mut().expect("its state was stored");
                    add_state_files(&mut manifest.state_files, files);
                    self.carry_out(Event::Stored(batch))?;
                }
                Some(Outcome::Prepared) => self.carry_out(Event::Prepared(batch))?,
                Some(Outcome::Committed(outcome)) => self.carry_out(match outcome {
                    CommitOutcome::Committed => Event::Committed(batch),
                    CommitOutcome::InDoubt => Event::InDoubt(batch),
                })?,
                Some(Outcome::Marked(Marked::Set)) => self.carry_out(Event::Marked(batch))?,
                Some(Outcome::Marked(Marked::Taken)) => self.carry_out(Event::Fenced(batch))?,
                None => {}
            }
        }
        let now_ms = now_ms();
        let (wants_empty_batch, wants_batch) = (self.operators.wants_empty_batch(), self.wants_batch());
        let has_news = self.has_news(wants_empty_batch);
        let is_leaving = self.shared.is_stopped() || self.is_at_end;
        let is_due = has_news && self.in_flight.is_none() && self.coordinator.due_in_ms(now_ms) == 0;
        if let Some(pace) = &mut self.pace
            && pace.is_asking()
        {
            pace.reached_ends(self.inputs.reached_ends());
        }
        let is_delayed =
            is_due && !is_leaving && self.pace.as_mut().is_some_and(|pace| pace.delays_barrier(now_ms));
        let barrier = match &self.pace {
            Some(pace) if pace.is_epoch_over(wants_batch) => BarrierTime::Now,
            Some(pace) if pace.is_within_plan() => BarrierTime::NotYet,
            _ if is_delayed => BarrierTime::NotYet,
            _ => BarrierTime::WhenDue,
        };
        let has_news = barrier == BarrierTime::Now || has_news;
        self.carry_out(Event::Clock { now_ms, has_news, barrier })
    }

    /// Where the last barrier was.
    fn last_offsets(&self) -> Vec<Value> {
        let manifest = self.in_flight.as_ref().map_or(&self.complete, |flight| &flight.manifest);
        manifest.sources.iter().map(|source| source.offset.clone()).collect()
    }

    fn is_acknowledged(&mut self, batch: BatchId) -> Result<bool> {
        let sink = self.sink.acknowledged()?;
        Ok(sink >= Some(batch) && self.inputs.are_acknowledged(batch)?)
    }

    fn carry_out(&mut self, event: Event) -> Result<()> {
        for command in self.coordinator.handle(event) {
            match command {
                Command::Barrier(batch) => self.barrier(batch)?,
                Command::Mark(_) => {
                    let flight = self.in_flight.as_ref().expect("a marker is of a checkpoint in flight");
                    self.checkpointer.mark(flight.manifest.clone())?;
                }
                Command::Prepare(_) => {
                    let flight = self.in_flight.as_ref().expect("output is of a checkpoint in flight");
                    self.checkpointer.prepare(flight.manifest.clone())?;
                }
                Command::Commit(batch) => {
                    let flight = self.in_flight.as_ref().expect("output is of a checkpoint in flight");
                    let generation = flight.manifest.generation;
                    self.checkpointer.commit(OutputMarker { batch, generation })?;
                }
                Command::GiveUp(batch) => {
                    let text = format!("Kafka does not say whether the output of epoch {batch} is committed");
                    return Err(Error::new(ErrorKind::Unavailable, text).with_hint(
                        "start the query again: it asks Kafka, and goes on without loss or repeat",
                    ));
                }
                Command::Complete(_) => {
                    let flight = self.in_flight.take().expect("it was marked");
                    let (manifest, progress) = flight.completed(now_ms());
                    self.complete = manifest;
                    self.shared.progressed(progress);
                }
                Command::Yield => {
                    if let Some(InFlight { manifest, .. }) = &self.in_flight {
                        self.sink.withdraw(manifest.batch)?;
                    }
                    return Err(taken_over(&self.name));
                }
                Command::End => self.is_ended = true,
            }
        }
        Ok(())
    }

    /// Ends the open epoch.
    fn barrier(&mut self, batch: BatchId) -> Result<()> {
        match &mut self.pace {
            Some(pace) if pace.is_within_plan() => {
                pace.ended_epoch();
                self.end_batch(self.plan_reach)?;
            }
            Some(pace) if self.inputs.have_parts() && !pace.has_answer() => self.end_batch(Reach::Nothing)?,
            _ => self.tick()?,
        }
        self.sink.barrier(batch)?;
        self.inputs.barrier(batch)?;
        let now = now_ms();
        let offsets = self.last_offsets().into_iter().zip(self.inputs.positions());
        let sources = self.inputs.descriptions().zip(offsets);
        let mut reports = self.inputs.reports().into_iter();
        let epoch = &self.epoch;
        let source = |(input, (description, (start_offset, end_offset))): (usize, (&str, (Value, Value)))| {
            let SourceReport { latest_offset, metrics } = reports.next().unwrap_or_default();
            let rows = epoch.rows_of_inputs.get(input).copied().unwrap_or(0);
            SourceProgress {
                description: description.to_owned(),
                start_offset,
                end_offset,
                latest_offset,
                num_input_rows: rows,
                input_rows_per_second: epoch.per_second(rows, now),
                metrics,
            }
        };
        let sources: Vec<SourceProgress> = sources.enumerate().map(source).collect();
        let positions = sources.iter().zip(self.inputs.marks()).map(|(source, marks)| SourcePosition {
            description: source.description.clone(),
            offset: source.end_offset.clone(),
            marks,
        });
        let (watermark_ms, late_watermark_ms) = self.operators.watermarks_ms();
        let incomplete_times_ms = self.operators.watermark().incomplete_ms();
        let mut manifest = Manifest {
            batch,
            rows_until: None,
            timestamp_ms: now,
            sources: positions.collect(),
            watermark_ms,
            late_watermark_ms,
            incomplete_times_ms,
            ..self.complete.clone()
        };
        let has_output = self.transactions.as_ref().is_some_and(Transactions::is_open);
        if has_output && let Some(output) = &mut manifest.output {
            output.last = Some(OutputMarker { batch, generation: manifest.generation });
        }
        let (progress, Epoch { triggered, phases, .. }) = self.progress(&manifest, sources);
        let generation = manifest.generation;
        self.in_flight = Some(InFlight { manifest, progress, triggered, phases });
        if has_output {
            self.carry_out(Event::InTransaction(batch))?;
        }
        let versions = self.operators.versions()?;
        if versions.is_empty() {
            return self.carry_out(Event::Stored(batch));
        }
        self.checkpointer.store(batch, generation, versions)
    }

    /// Progress of the epoch that ends, but for what its checkpoint takes; a new one begins.
    fn progress(&mut self, manifest: &Manifest, sources: Vec<SourceProgress>) -> (Progress, Epoch) {
        let now = manifest.timestamp_ms;
        let epoch = std::mem::replace(&mut self.epoch, Epoch::begin(now));
        let duration = now - epoch.began_ms;
        let watermark = || EventTime { watermark: iso(manifest.watermark_ms) };
        let state = self.operators.take_usages().into_iter().map(|(name, usage, counts)| StateProgress {
            operator_name: name.to_owned(),
            num_rows_total: usage.keys,
            num_rows_updated: counts.updated,
            num_rows_removed: counts.removed,
            num_rows_dropped_by_watermark: counts.late,
            memory_used_bytes: usage.memory_bytes,
        });
        let progress = Progress {
            id: manifest.query_id.clone(),
            run_id: self.run_id.clone(),
            name: self.name.clone(),
            timestamp: iso(now),
            batch_id: manifest.batch,
            batch_duration: duration,
            duration_ms: epoch.phases.milliseconds(),
            num_input_rows: epoch.input_rows,
            input_rows_per_second: epoch.per_second(epoch.input_rows, now),
            num_malformed_rows: epoch.malformed_rows,
            num_output_rows: epoch.output_rows,
            latency_ms_p50: self.latencies.quantile(0.5),
            latency_ms_p99: self.latencies.quantile(0.99),
            checkpoint_ms: 0,
            event_time: self.operators.has_watermark().then(watermark),
            state_operators: state.collect(),
            sources,
            sink: SinkProgress {
                description: self.sink_description.clone(),
                num_output_rows: epoch.output_rows,
            },
        };
        self.latencies.clear();
        (progress, epoch)
    }
}

/// Rows on their way to the sink.
fn write(sink: &mut dyn Sink, epoch: &mut Epoch, rows: &RecordBatch) -> Result<()> {
    epoch.output_rows += rows.num_rows() as u64;
    sink.write(rows)
}

/// Now, in milliseconds since 1970.
pub(super) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn iso(ms: i64) -> String {
    DateTime::from_timestamp_millis(ms)
        .map(|time| time.to_rfc3339_opts(SecondsFormat::Millis, true))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
