//! Source: what every connector that is read gives the dataflow.

use std::collections::BTreeMap;
use std::time::Duration;

use arrow::array::RecordBatch;
use serde_json::Value;

use super::Bell;
use crate::error::Result;

/// Rows of an external system, at offsets from which it gives them again.
pub trait Source: Send {
    /// Gives rows that are there, or waits for the first of them at most so long. Rows come once, in the order of their
    /// offsets within each part of the source.
    ///
    /// # Errors
    /// If rows are lost, or the source cannot be used any more. What passes, such as a broker that restarts, is waited for.
    fn poll(&mut self, wait: Duration) -> Result<Polled>;

    /// Has the source ring whenever rows come after a poll that found none. False if it cannot: then it has to be asked again and
    /// again.
    fn ring(&mut self, _: &Bell) -> bool {
        false
    }

    /// The offset after the last row that was given, in the form of Spark's logs.
    fn position(&self) -> Value;

    /// What the source keeps with the offset to know its rows again, if it does.
    fn marks(&self) -> Option<Value> {
        None
    }

    /// Gives rows only up to what is there now, and says so in [`Polled::is_at_end`].
    ///
    /// # Errors
    /// If the source cannot say what is there.
    fn stop_at_latest(&mut self) -> Result<()>;

    /// Plans an epoch: gives rows only up to an end that is about so many rows away at most, or what is there now, and says so in
    /// [`Polled::is_at_end`]. All parts of the source advance in proportion to what they have. Gives how many rows were planned;
    /// if there are none, no plan holds.
    ///
    /// # Errors
    /// If the source cannot say what is there.
    fn plan(&mut self, rows_max: Option<u64>) -> Result<u64>;

    /// Rows of the backlog that are in no plan yet. A backlog is what was there when the first plan with a limit was made: later plans
    /// do not go beyond its ends.
    fn rows_left(&self) -> u64 {
        0
    }

    /// Ends the backlog: the next plan is one of what is there then.
    fn end_backlog(&mut self) {}

    /// Rows of a planned epoch at most, if the source has a limit of its own, which [`plan`](Self::plan) keeps.
    fn epoch_rows_max(&self) -> Option<u64> {
        None
    }

    /// Number of its parts: rows of one may have been there before rows that another one gave earlier.
    fn parts(&self) -> usize {
        1
    }

    /// Asks which rows are there now. It does not wait for the answer, and rows go on meanwhile.
    ///
    /// # Errors
    /// If the system has no thread.
    fn ask_ends(&mut self) -> Result<()> {
        Ok(())
    }

    /// How far the rows that were given have come, of those that were there when it was asked last.
    fn reached_ends(&mut self) -> ReachedEnds {
        ReachedEnds::All
    }

    /// Ends the plan: what comes next is given as it comes.
    ///
    /// # Errors
    /// If the source cannot be used any more.
    fn lift_plan(&mut self) -> Result<()>;

    /// True if its rows come in planned epochs only, whose ends it keeps in a log of its own: it gives none without a plan, and its
    /// offset moves at the end of a plan.
    fn is_planned_only(&self) -> bool {
        false
    }

    /// True if its log has the plan of the next epoch, which a process before this one did not complete.
    ///
    /// # Errors
    /// If the log cannot be read.
    fn has_logged_plan(&self) -> Result<bool> {
        Ok(false)
    }

    /// Report on rows that are still to come, without asking for it now.
    fn report(&self) -> SourceReport {
        SourceReport::default()
    }

    /// Warnings since it was asked last: what went wrong and was passed over, as the job wants.
    fn take_warnings(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// Knowledge of a source on rows that are still to come.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct SourceReport {
    /// Offset after the last row that is there, in the form of its positions; null if it is not known.
    pub latest_offset: Value,
    /// Figures by Spark's names.
    pub metrics: BTreeMap<String, String>,
}

/// Rows that a source gave, of those that were there when it was asked for its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReachedEnds {
    /// There is no answer yet.
    Unanswered,
    /// Some are missing.
    Behind,
    /// All of them.
    All,
}

/// What a source gave.
#[derive(Debug, Default)]
pub struct Polled {
    /// Rows, if there were any.
    pub rows: Option<RecordBatch>,
    /// Whether no row will come any more.
    pub is_at_end: bool,
}
