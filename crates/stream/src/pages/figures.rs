use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use yeoul_net::metrics::Timer;

use crate::dataflow::{Progress, QueryEvent};

/// Figures of the queries of a process, which their events change.
#[derive(Debug, Default)]
pub struct QueryFigures {
    queries: Mutex<BTreeMap<String, Figures>>,
}

/// Figures of a query since the process started it.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub status: QueryStatus,
    /// From barriers until their checkpoints were complete.
    pub checkpoints: Timer,
    /// Totals of operators with state, in their order.
    pub operators: Vec<OperatorTotals>,
}

/// Totals of an operator with state.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct OperatorTotals {
    pub updated: u64,
    pub removed: u64,
    pub late: u64,
}

/// A query as programs see it.
#[derive(Debug, Default, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryStatus {
    /// Name.
    pub name: String,
    /// Id of the query.
    pub id: String,
    /// Id of this run.
    pub run_id: String,
    /// True if it has its checkpoint and its connectors, and has not ended.
    pub is_active: bool,
    /// Why it ended, if it failed, with its causes.
    pub exception: Option<String>,
    /// Epochs that this run completed.
    pub num_epochs: u64,
    /// Records that came in them.
    pub num_input_rows: u64,
    /// Records of them that could not be read and went to the dead-letter topic.
    pub num_malformed_rows: u64,
    /// Rows that went to the sink.
    pub num_output_rows: u64,
    /// Last epoch.
    pub last_progress: Option<Progress>,
}

impl QueryFigures {
    /// Names a query before it has told anything: it is not active yet.
    pub fn expect(&self, name: &str) {
        self.queries().entry(name.to_owned()).or_default().status.name = name.to_owned();
    }

    /// Takes what a query tells.
    pub fn observe(&self, event: &QueryEvent) {
        let mut queries = self.queries();
        match event {
            QueryEvent::Started { name, id, run_id, .. } => {
                let figures = queries.entry(name.clone()).or_default();
                let (name, id, run_id) = (name.clone(), id.clone(), run_id.clone());
                figures.status = QueryStatus { name, id, run_id, is_active: true, ..Default::default() };
            }
            QueryEvent::Warning { .. } => {}
            QueryEvent::Progress(progress) => {
                queries.entry(progress.name.clone()).or_default().add(progress);
            }
            QueryEvent::Terminated { name, exception } => {
                let status = &mut queries.entry(name.clone()).or_default().status;
                status.is_active = false;
                status.exception.clone_from(exception);
            }
        }
    }

    /// All queries, by their names.
    pub fn statuses(&self) -> Vec<QueryStatus> {
        self.queries().values().map(|figures| figures.status.clone()).collect()
    }

    pub(super) fn queries(&self) -> MutexGuard<'_, BTreeMap<String, Figures>> {
        self.queries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Figures {
    fn add(&mut self, progress: &Progress) {
        self.status.num_epochs += 1;
        self.status.num_input_rows += progress.num_input_rows;
        self.status.num_malformed_rows += progress.num_malformed_rows;
        self.status.num_output_rows += progress.num_output_rows;
        let ms = u64::try_from(progress.checkpoint_ms).unwrap_or(0);
        self.checkpoints.record(Duration::from_millis(ms));
        self.operators.resize(progress.state_operators.len(), OperatorTotals::default());
        for (totals, operator) in self.operators.iter_mut().zip(&progress.state_operators) {
            totals.updated += operator.num_rows_updated;
            totals.removed += operator.num_rows_removed;
            totals.late += operator.num_rows_dropped_by_watermark;
        }
        self.status.last_progress = Some(progress.clone());
    }
}
