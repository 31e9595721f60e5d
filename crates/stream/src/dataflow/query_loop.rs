use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::TimestampMicrosecondType;
use chrono::{DateTime, SecondsFormat};
use serde_json::Value;

use super::checkpointer::Checkpointer;
use super::events::{Progress, QueryEvent, SourceProgress};
use super::handle::Shared;
use super::latencies::Latencies;
use super::opened::Opened;
use crate::BatchId;
use crate::checkpoint::wire::{Manifest, SourcePosition};
use crate::checkpoint::{Command, Coordinator, Event, Marked, new_id};
use crate::connectors::kafka::DeadLetters;
use crate::connectors::{Decoder, Malformed, Sink, Source};
use crate::error::{Error, ErrorKind, Result, invalid};
use crate::operators::Calc;
use crate::plan::{Query, Trigger};

/// Longest wait for rows: how soon a stop is seen.
const WAIT_MAX: Duration = Duration::from_millis(50);
/// Wait for rows while a checkpoint is on its way to the disk.
const WAIT_IN_FLIGHT: Duration = Duration::from_millis(5);

/// A query at work: it takes rows, pushes them to the sink, and carries out what the coordinator says.
pub(super) struct QueryLoop<'a> {
    shared: &'a Shared,
    name: String,
    run_id: String,
    coordinator: Coordinator,
    checkpointer: Checkpointer,
    /// The last complete checkpoint.
    complete: Manifest,
    /// The one that is in flight.
    in_flight: Option<(Manifest, Progress)>,
    source: Box<dyn Source>,
    decoder: Decoder,
    dead_letters: Option<DeadLetters>,
    calc: Calc,
    sink: Box<dyn Sink>,
    epoch: Epoch,
    latencies: Latencies,
    is_at_end: bool,
    is_ended: bool,
}

/// Counts of the open epoch.
struct Epoch {
    began_ms: i64,
    input_rows: u64,
    malformed_rows: u64,
    output_rows: u64,
}

impl Epoch {
    fn begin(now_ms: i64) -> Self {
        Self { began_ms: now_ms, input_rows: 0, malformed_rows: 0, output_rows: 0 }
    }
}

impl<'a> QueryLoop<'a> {
    pub fn new(query: &Query, opened: Opened, shared: &'a Shared) -> Result<Self> {
        let Opened { store, recovered, mut source, decoder, dead_letters, calc, sink } = opened;
        if query.settings.trigger == Trigger::AvailableNow {
            source.stop_at_latest()?;
        }
        let (manifest, run_id) = (recovered.manifest, new_id());
        let open = manifest.batch.next();
        shared.tell(&QueryEvent::Started {
            name: query.name.clone(),
            id: manifest.query_id.clone(),
            run_id: run_id.clone(),
            batch_id: open,
            warnings: recovered.warnings,
        });
        Ok(Self {
            shared,
            name: query.name.clone(),
            run_id,
            coordinator: Coordinator::new(open, query.settings.checkpoint_interval_ms, now_ms()),
            checkpointer: Checkpointer::start(store)?,
            complete: manifest,
            in_flight: None,
            source,
            decoder,
            dead_letters,
            calc,
            sink,
            epoch: Epoch::begin(now_ms()),
            latencies: Latencies::new(),
            is_at_end: false,
            is_ended: false,
        })
    }

    /// Works until the query is stopped, its rows are at their end, or it fails.
    pub fn run(mut self) -> Result<()> {
        while !self.is_ended {
            self.look()?;
            if self.is_ended {
                break;
            }
            let is_leaving = self.shared.is_stopped() || self.is_at_end;
            let wait = if self.in_flight.is_some() { WAIT_IN_FLIGHT } else { self.wait() };
            if is_leaving {
                std::thread::sleep(WAIT_IN_FLIGHT.min(wait));
                continue;
            }
            let polled = self.source.poll(wait)?;
            self.is_at_end = polled.is_at_end;
            if let Some(rows) = polled.rows {
                self.push(rows)?;
            }
        }
        Ok(())
    }

    /// Until the next barrier, and no longer than a stop may wait.
    fn wait(&self) -> Duration {
        let due = Duration::from_millis(self.coordinator.due_in_ms(now_ms()).unsigned_abs());
        due.clamp(Duration::from_millis(1), WAIT_MAX)
    }

    /// Rows on their whole way.
    fn push(&mut self, raw: RecordBatch) -> Result<()> {
        let kept = raw.clone();
        let decoded = self.decoder.decode(raw)?;
        self.epoch.input_rows += kept.num_rows() as u64;
        self.epoch.malformed_rows += decoded.malformed.len() as u64;
        if !decoded.malformed.is_empty() {
            self.put_aside(&kept, &decoded.malformed)?;
        }
        let rows = self.calc.push(decoded.rows)?;
        if rows.num_rows() > 0 {
            self.epoch.output_rows += rows.num_rows() as u64;
            self.sink.write(&rows)?;
        }
        if let Some(times) = kept.column_by_name("timestamp") {
            let now_us = now_ms() * 1000;
            let times = times.as_primitive::<TimestampMicrosecondType>();
            times.iter().flatten().for_each(|time| self.latencies.record(now_us.saturating_sub(time) / 1000));
        }
        Ok(())
    }

    fn put_aside(&self, raw: &RecordBatch, malformed: &[Malformed]) -> Result<()> {
        match &self.dead_letters {
            Some(dead_letters) => dead_letters.write(raw, malformed),
            None => {
                let first = &malformed[0];
                let text = |name: &str| {
                    let column = raw.column_by_name(name)?;
                    arrow::util::display::array_value_to_string(column, first.row).ok()
                };
                let place =
                    ["topic", "partition", "offset"].map(|name| text(name).unwrap_or_default()).join(", ");
                Err(invalid(format!(
                    "a record cannot be read: {} (topic, partition, offset: {place})",
                    first.reason
                ))
                .with_hint("'dead-letter.topic' names a topic for such records"))
            }
        }
    }

    /// Looks at the clock, the sinks and the checkpoint in flight.
    fn look(&mut self) -> Result<()> {
        if self.shared.is_stopped() || self.is_at_end {
            self.carry_out(Event::Stop)?;
        }
        if let Some(batch) = self.in_flight.as_ref().map(|(manifest, _)| manifest.batch) {
            if self.is_acknowledged(batch)? {
                self.carry_out(Event::Acknowledged(batch))?;
            }
            match self.checkpointer.outcome()? {
                Some(Marked::Set) => self.carry_out(Event::Marked(batch))?,
                Some(Marked::Taken) => self.carry_out(Event::Fenced(batch))?,
                None => {}
            }
        }
        let has_news = self.epoch.input_rows > 0 || self.source.position() != self.last_offset();
        self.carry_out(Event::Clock { now_ms: now_ms(), has_news })
    }

    /// Where the last barrier was.
    fn last_offset(&self) -> Value {
        let manifest = self.in_flight.as_ref().map_or(&self.complete, |(manifest, _)| manifest);
        manifest.sources[0].offset.clone()
    }

    fn is_acknowledged(&mut self, batch: BatchId) -> Result<bool> {
        let sink = self.sink.acknowledged()?;
        let dead_letters = match &mut self.dead_letters {
            Some(dead_letters) => dead_letters.acknowledged()?,
            None => Some(batch),
        };
        Ok(sink >= Some(batch) && dead_letters >= Some(batch))
    }

    fn carry_out(&mut self, event: Event) -> Result<()> {
        for command in self.coordinator.handle(event) {
            match command {
                Command::Barrier(batch) => {
                    self.barrier(batch)?;
                    // There is no state yet whose changes would have to be stored.
                    self.carry_out(Event::Stored(batch))?;
                }
                Command::Mark(_) => {
                    let (manifest, _) =
                        self.in_flight.as_ref().expect("a marker is of a checkpoint in flight");
                    self.checkpointer.mark(manifest.clone())?;
                }
                Command::Complete(_) => {
                    let (manifest, mut progress) = self.in_flight.take().expect("it was marked");
                    progress.checkpoint_ms = now_ms() - manifest.timestamp_ms;
                    self.complete = manifest;
                    self.shared.progressed(progress);
                }
                Command::Yield => {
                    let text = format!("another process has taken the query '{}' over", self.name);
                    return Err(Error::new(ErrorKind::Conflict, text)
                        .with_hint("run one process for a checkpoint; this one has written nothing since"));
                }
                Command::End => self.is_ended = true,
            }
        }
        Ok(())
    }

    /// Ends the open epoch.
    fn barrier(&mut self, batch: BatchId) -> Result<()> {
        self.sink.barrier(batch)?;
        if let Some(dead_letters) = &mut self.dead_letters {
            dead_letters.barrier(batch)?;
        }
        let now = now_ms();
        let start_offset = self.last_offset();
        let end_offset = self.source.position();
        let description = self.complete.sources[0].description.clone();
        let sources = vec![SourcePosition { description: description.clone(), offset: end_offset.clone() }];
        let manifest = Manifest { batch, timestamp_ms: now, sources, ..self.complete.clone() };
        let epoch = std::mem::replace(&mut self.epoch, Epoch::begin(now));
        let duration = now - epoch.began_ms;
        let progress = Progress {
            id: manifest.query_id.clone(),
            run_id: self.run_id.clone(),
            name: self.name.clone(),
            timestamp: iso(now),
            batch_id: batch,
            batch_duration: duration,
            num_input_rows: epoch.input_rows,
            input_rows_per_second: epoch.input_rows as f64 * 1000.0 / duration.max(1) as f64,
            num_malformed_rows: epoch.malformed_rows,
            num_output_rows: epoch.output_rows,
            latency_ms_p50: self.latencies.quantile(0.5),
            latency_ms_p99: self.latencies.quantile(0.99),
            checkpoint_ms: 0,
            sources: vec![SourceProgress { description, start_offset, end_offset }],
        };
        self.latencies.clear();
        self.in_flight = Some((manifest, progress));
        Ok(())
    }
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
