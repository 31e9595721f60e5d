//! Limit of the rounds of a `WITH RECURSIVE`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use yeoul_base::ErrorKind;

use super::passing::{Passing, PassingExec};
use crate::Error;

/// The recursive term of a `WITH RECURSIVE`, which stops one that never ends.
pub(crate) type RoundLimitExec = PassingExec<RoundLimit>;

/// Rounds that a recursive term may have, and those that have begun.
#[derive(Clone, Debug)]
pub(crate) struct RoundLimit {
    name: String,
    rounds_max: u64,
    /// The rounds that have begun.
    rounds: Arc<AtomicU64>,
}

impl RoundLimitExec {
    pub(crate) fn new(term: Arc<dyn ExecutionPlan>, name: &str, rounds_max: u64) -> Self {
        let passing = RoundLimit { name: name.to_owned(), rounds_max, rounds: Arc::default() };
        Self { input: term, passing }
    }
}

impl Passing for RoundLimit {
    const NAME: &'static str = "RoundLimitExec";

    fn parameters(&self) -> String {
        format!("rounds={}", self.rounds_max)
    }

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if self.rounds.fetch_add(1, Ordering::Relaxed) >= self.rounds_max {
            let what = format!(
                "the recursive WITH '{}' has no end after {} rounds, which is the limit",
                self.name, self.rounds_max
            );
            return Err(Error::new(ErrorKind::Invalid, what)
                .with_hint("end it with a WHERE in its recursive part; generate_series makes long series")
                .into());
        }
        input.execute(partition, context)
    }
}
