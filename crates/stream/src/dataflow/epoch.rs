use std::time::{Duration, Instant};

use super::checkpointer::Outcome;
use super::events::Progress;
use super::phases::{Phase, Phases};
use crate::checkpoint::wire::Manifest;

/// A checkpoint that is not complete yet.
pub(super) struct InFlight {
    pub manifest: Manifest,
    pub progress: Progress,
    pub triggered: Instant,
    pub phases: Phases,
}

impl InFlight {
    /// The checkpointer took so long for a part of it.
    pub fn took(&mut self, outcome: Option<&Outcome>, time: Duration) {
        match outcome {
            Some(Outcome::Prepared) => self.phases.add(Phase::WalCommit, time),
            Some(Outcome::Marked(_)) => self.phases.add(Phase::CommitOffsets, time),
            Some(Outcome::Stored(_) | Outcome::Committed(_)) | None => {}
        }
    }

    /// The checkpoint is complete.
    pub fn completed(mut self, now_ms: i64) -> (Manifest, Progress) {
        self.phases.add(Phase::TriggerExecution, self.triggered.elapsed());
        self.progress.duration_ms = self.phases.milliseconds();
        self.progress.checkpoint_ms = now_ms - self.manifest.timestamp_ms;
        (self.manifest, self.progress)
    }
}

/// Counts of the open epoch.
pub(super) struct Epoch {
    pub began_ms: i64,
    /// When its work began: with its plan, if it has one.
    pub triggered: Instant,
    pub phases: Phases,
    pub input_rows: u64,
    /// Those of each input.
    pub rows_of_inputs: Vec<u64>,
    pub malformed_rows: u64,
    pub output_rows: u64,
}

impl Epoch {
    /// An epoch that begins now.
    pub fn begin(now_ms: i64) -> Self {
        Self {
            began_ms: now_ms,
            triggered: Instant::now(),
            phases: Phases::default(),
            input_rows: 0,
            rows_of_inputs: Vec::new(),
            malformed_rows: 0,
            output_rows: 0,
        }
    }

    /// Sources were asked from then on what is there. The work of an epoch without rows begins there.
    pub fn planned(&mut self, asked: Instant) {
        if self.input_rows == 0 {
            (self.triggered, self.phases) = (asked, Phases::default());
        }
        self.phases.add(Phase::LatestOffset, asked.elapsed());
    }

    /// Rows of an input came.
    pub fn add_input(&mut self, input: usize, rows: usize) {
        self.input_rows += rows as u64;
        if self.rows_of_inputs.len() <= input {
            self.rows_of_inputs.resize(input + 1, 0);
        }
        self.rows_of_inputs[input] += rows as u64;
    }

    /// Rows of a second in an epoch that ends now.
    pub fn per_second(&self, rows: u64, now_ms: i64) -> f64 {
        rows as f64 * 1000.0 / (now_ms - self.began_ms).max(1) as f64
    }
}
