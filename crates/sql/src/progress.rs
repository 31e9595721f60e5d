use std::sync::Arc;

use datafusion::common::stats::Precision;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

/// The progress of a running query.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// The share of the input that has been read, 0 to 1, where the input's size is known.
    pub input_share: Option<f64>,
    /// Rows that the scans have read.
    pub rows_read: u64,
    /// Bytes that operators have written to disk for want of memory.
    pub spilled_bytes: u64,
}

/// Metrics of the rows that a scan dropped, and that its output rows do not count.
const ROWS_PRUNED: [&str; 2] = ["pushdown_rows_pruned", "page_index_rows_pruned"];

impl Progress {
    /// Reads the plan's metrics.
    pub(crate) fn of(plan: &Arc<dyn ExecutionPlan>) -> Self {
        let mut sum = Sum::default();
        sum.add(plan);
        let input_share =
            sum.rows_total.filter(|total| *total > 0).map(|total| (sum.rows as f64 / total as f64).min(1.0));
        Self { input_share, rows_read: sum.rows, spilled_bytes: sum.spilled }
    }
}

#[derive(Default)]
struct Sum {
    rows: u64,
    rows_total: Option<u64>,
    spilled: u64,
    scans: usize,
}

impl Sum {
    fn add(&mut self, plan: &Arc<dyn ExecutionPlan>) {
        let metrics = plan.metrics();
        if let Some(metrics) = &metrics {
            self.spilled += metrics.spilled_bytes().unwrap_or(0) as u64;
        }
        let children = plan.children();
        if children.is_empty() {
            self.add_scan(plan, metrics.as_ref());
        }
        for child in children {
            self.add(child);
        }
    }

    fn add_scan(&mut self, scan: &Arc<dyn ExecutionPlan>, metrics: Option<&MetricsSet>) {
        if let Some(metrics) = metrics {
            let pruned =
                ROWS_PRUNED.iter().filter_map(|name| metrics.sum_by_name(name)).map(|value| value.as_usize());
            self.rows += (metrics.output_rows().unwrap_or(0) + pruned.sum::<usize>()) as u64;
        }
        let rows = match StatisticsContext::new()
            .compute(scan.as_ref(), &StatisticsArgs::new())
            .map(|statistics| statistics.num_rows)
        {
            Ok(Precision::Exact(rows) | Precision::Inexact(rows)) => Some(rows as u64),
            Ok(Precision::Absent) | Err(_) => None,
        };
        // One scan of unknown size makes the whole unknown.
        self.rows_total = match (self.scans, self.rows_total) {
            (0, _) => rows,
            (_, total) => total.zip(rows).map(|(total, rows)| total + rows),
        };
        self.scans += 1;
    }
}
