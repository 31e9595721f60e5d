//! Inputs: the streams of a query, whose rows come one batch at a time.

use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use serde_json::Value;

use super::future_rows::FutureRows;
use crate::BatchId;
use crate::connectors::kafka::DeadLetters;
use crate::connectors::{Bell, Decoded, Decoder, FailingRows, Malformed, ReachedEnds, Source, SourceReport};
use crate::error::{Result, invalid};

/// Longest wait for rows of one source while another may have some, if one of them does not ring.
const WAIT_EACH: Duration = Duration::from_millis(1);

/// A stream of a query, open.
pub(super) struct Input {
    /// Source.
    pub description: String,
    pub source: Box<dyn Source>,
    pub decoder: Decoder,
    pub dead_letters: Option<DeadLetters>,
    /// Rows that are set aside for their times.
    pub future_rows: Option<FutureRows>,
    /// The fate of rows that an expression fails on.
    pub failing_rows: FailingRows,
}

/// Streams of a query: their rows come one batch at a time, from whichever has some.
pub(super) struct Inputs {
    inputs: Vec<Input>,
    /// Inputs that are at their ends, of a plan or for good.
    are_at_end: Vec<bool>,
    /// Whose turn it is.
    turn: usize,
    /// Bell that all of them ring, if there are several and all can.
    bell: Option<Bell>,
}

/// Rows and positions that inputs gave.
#[derive(Debug, Default)]
pub(super) struct PolledInput {
    /// Rows as their source gives them, with the number of the input.
    pub rows: Option<(usize, RecordBatch)>,
    /// True if no input has more: of its plan, or for good.
    pub is_at_end: bool,
}

/// Rows of a planned epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlannedRows {
    pub rows: u64,
    /// Rows of the backlog that are in no plan yet.
    pub rows_left: u64,
}

impl Inputs {
    pub fn new(mut inputs: Vec<Input>) -> Self {
        let bell = Bell::default();
        // One is waited for by itself.
        let has_bell = inputs.len() > 1 && inputs.iter_mut().all(|input| input.source.ring(&bell));
        Self { are_at_end: vec![false; inputs.len()], inputs, turn: 0, bell: has_bell.then_some(bell) }
    }

    /// Number of inputs.
    pub fn len(&self) -> usize {
        self.inputs.len()
    }

    /// Gives rows of one input, or waits for them at most so long.
    ///
    /// # Errors
    /// As a source.
    pub fn poll(&mut self, wait: Duration) -> Result<PolledInput> {
        if let [input] = self.inputs.as_mut_slice() {
            let polled = input.source.poll(wait)?;
            return Ok(PolledInput { rows: polled.rows.map(|rows| (0, rows)), is_at_end: polled.is_at_end });
        }
        let (mut left, mut each) = (wait, Duration::ZERO);
        let begun = Instant::now();
        loop {
            let (count, first) = (self.inputs.len(), self.turn);
            for at in (first..first + count).map(|at| at % count) {
                if self.are_at_end[at] {
                    continue;
                }
                let polled = self.inputs[at].source.poll(each)?;
                left = left.saturating_sub(each);
                self.are_at_end[at] = polled.is_at_end;
                if let Some(rows) = polled.rows {
                    self.turn = at + 1;
                    return Ok(PolledInput { rows: Some((at, rows)), is_at_end: self.is_at_end() });
                }
            }
            if left.is_zero() || self.is_at_end() {
                return Ok(PolledInput { rows: None, is_at_end: self.is_at_end() });
            }
            // Nothing was there: now it is waited for.
            match &self.bell {
                Some(bell) => {
                    bell.wait(left);
                    left = wait.saturating_sub(begun.elapsed());
                }
                None => each = WAIT_EACH.min(left),
            }
        }
    }

    fn is_at_end(&self) -> bool {
        self.are_at_end.iter().all(|is_at_end| *is_at_end)
    }

    /// Plans an epoch of about so many rows at most, or of what is there. An epoch that a process before this
    /// one planned and did not complete is planned as it was.
    ///
    /// # Errors
    /// As a source.
    pub fn plan(&mut self, rows_max: Option<u64>) -> Result<PlannedRows> {
        let each = rows_max.map(|rows| (rows / self.inputs.len() as u64).max(1));
        let mut planned = PlannedRows { rows: 0, rows_left: 0 };
        let logged: Result<Vec<bool>> =
            self.inputs.iter().map(|input| input.source.has_logged_plan()).collect();
        let logged = logged?;
        let is_repeat = logged.contains(&true);
        let logged = logged.into_iter();
        for ((input, is_at_end), has_logged) in self.inputs.iter_mut().zip(&mut self.are_at_end).zip(logged) {
            let had_rows = !is_repeat || has_logged || !input.source.is_planned_only();
            let rows = if had_rows { input.source.plan(each)? } else { 0 };
            // One without rows has no plan: it would give what comes later.
            *is_at_end = rows == 0;
            planned.rows = planned.rows.saturating_add(rows);
            planned.rows_left = planned.rows_left.saturating_add(input.source.rows_left());
        }
        // One that has come to the end of its backlog waits for the others.
        if planned.rows_left == 0 {
            self.inputs.iter_mut().for_each(|input| input.source.end_backlog());
        }
        Ok(planned)
    }

    /// True if rows may be given before others that were there before them: they come in several parts.
    pub fn have_parts(&self) -> bool {
        self.inputs.iter().map(|input| input.source.parts()).sum::<usize>() > 1
    }

    /// Asks all sources which rows are there now, without waiting for the answers.
    ///
    /// # Errors
    /// As a source.
    pub fn ask_ends(&mut self) -> Result<()> {
        self.inputs.iter_mut().try_for_each(|input| input.source.ask_ends())
    }

    /// How far the rows that were given have come, of those that were there when it was asked last.
    pub fn reached_ends(&mut self) -> ReachedEnds {
        let reached = self.inputs.iter_mut().map(|input| input.source.reached_ends());
        reached.min().unwrap_or(ReachedEnds::All)
    }

    /// True if every epoch has to be planned.
    pub fn are_planned_only(&self) -> bool {
        self.inputs.iter().any(|input| input.source.is_planned_only())
    }

    /// Rows of a planned epoch at most, for each input, if one of them has a limit.
    pub fn epoch_rows_max(&self) -> Option<u64> {
        let limits = self.inputs.iter().filter_map(|input| input.source.epoch_rows_max());
        limits.min().map(|limit| limit.saturating_mul(self.inputs.len() as u64))
    }

    /// Ends the plan.
    ///
    /// # Errors
    /// As a source.
    pub fn lift_plan(&mut self) -> Result<()> {
        self.are_at_end.fill(false);
        self.inputs.iter_mut().try_for_each(|input| input.source.lift_plan())
    }

    /// Ends with what is there now.
    ///
    /// # Errors
    /// As a source.
    pub fn stop_at_latest(&mut self) -> Result<()> {
        self.inputs.iter_mut().try_for_each(|input| input.source.stop_at_latest())
    }

    /// Offsets after the last rows that were given.
    pub fn positions(&self) -> Vec<Value> {
        self.inputs.iter().map(|input| input.source.position()).collect()
    }

    /// What sources keep with their offsets.
    pub fn marks(&self) -> Vec<Option<Value>> {
        self.inputs.iter().map(|input| input.source.marks()).collect()
    }

    /// Reports of sources on rows that are still to come.
    pub fn reports(&self) -> Vec<SourceReport> {
        self.inputs.iter().map(|input| input.source.report()).collect()
    }

    /// Warnings of sources since it was asked last, each with the description of its source.
    pub fn take_warnings(&mut self) -> Vec<String> {
        let of_input = |input: &mut Input| {
            let warnings = input.source.take_warnings().into_iter();
            warnings.map(|text| format!("{}: {text}", input.description)).collect::<Vec<_>>()
        };
        self.inputs.iter_mut().flat_map(of_input).collect()
    }

    /// Descriptions of the sources.
    pub fn descriptions(&self) -> impl Iterator<Item = &str> {
        self.inputs.iter().map(|input| input.description.as_str())
    }

    /// Reads rows; what is malformed, or too far ahead of the clock, goes to the input's dead letters.
    ///
    /// # Errors
    /// `Invalid` for a malformed record if there is no place for such; as the decoder.
    pub fn decode(&self, input: usize, raw: RecordBatch, now_ms: i64) -> Result<Decoded> {
        let input = &self.inputs[input];
        let kept = raw.clone();
        let mut decoded = input.decoder.decode(raw)?;
        if let Some(rule) = input.future_rows {
            decoded = rule.set_aside(decoded, now_ms)?;
        }
        if !decoded.malformed.is_empty() {
            put_aside(input.dead_letters.as_ref(), &kept, &decoded.malformed)?;
        }
        Ok(decoded)
    }

    /// The fate of rows of an input that an expression fails on.
    pub fn failing_rows(&self, input: usize) -> FailingRows {
        self.inputs[input].failing_rows
    }

    /// Sends records of an input whose rows fail to its dead letters, or passes over them.
    ///
    /// # Errors
    /// As Kafka's client.
    pub fn set_failing_aside(&self, input: usize, raw: &RecordBatch, failing: &[Malformed]) -> Result<()> {
        let Input { failing_rows, dead_letters, .. } = &self.inputs[input];
        match failing_rows {
            FailingRows::Skip => Ok(()),
            FailingRows::SetAside | FailingRows::Fail => put_aside(dead_letters.as_ref(), raw, failing),
        }
    }

    /// Ends an epoch for the dead letters.
    ///
    /// # Errors
    /// As Kafka's client.
    pub fn barrier(&mut self, batch: BatchId) -> Result<()> {
        let mut letters = self.inputs.iter_mut().filter_map(|input| input.dead_letters.as_mut());
        letters.try_for_each(|letters| letters.barrier(batch))
    }

    /// True if all dead letters of an epoch are safe.
    ///
    /// # Errors
    /// As Kafka's client.
    pub fn are_acknowledged(&mut self, batch: BatchId) -> Result<bool> {
        for letters in self.inputs.iter_mut().filter_map(|input| input.dead_letters.as_mut()) {
            if letters.acknowledged()? < Some(batch) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Place of a connector's row, by the columns that say it; empty if there are none.
pub(super) fn place_of(raw: &RecordBatch, row: usize) -> String {
    let text = |name: &str| {
        let column = raw.column_by_name(name)?;
        arrow::util::display::array_value_to_string(column, row).ok()
    };
    let place =
        ["topic", "partition", "offset", "path", "line"].map(|name| Some(format!("{name} {}", text(name)?)));
    place.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn put_aside(dead_letters: Option<&DeadLetters>, raw: &RecordBatch, malformed: &[Malformed]) -> Result<()> {
    if let Some(dead_letters) = dead_letters {
        return dead_letters.write(raw, malformed);
    }
    let first = &malformed[0];
    let place = place_of(raw, first.row);
    let error = invalid(format!("a record cannot be read: {} ({place})", first.reason));
    let is_kafka = raw.column_by_name("topic").is_some();
    let hint = if is_kafka { "'dead-letter.topic' names a topic for such records" } else { "mend the file" };
    Err(error.with_hint(hint))
}

#[cfg(test)]
mod tests;
