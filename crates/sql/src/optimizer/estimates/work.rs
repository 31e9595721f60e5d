//! The work of a plan: how many times a row is handled, as estimated.

use std::sync::Arc;

use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};

use super::plans::{of_plan, rows_read};
use crate::operators::shared_subplan::SharedSubplanExec;

/// Work of a row, by what is done with it. A row that a hash join probes is 1; the others are guesses. With them, one query of TPC-DS at
/// scale 1 is slower for what it shares (Q95).
const DECODED_COLUMN: f64 = 0.3;
const GROUPED: f64 = 2.0;
const BUILT: f64 = 2.0;
const PROBED: f64 = 1.0;
const PAIRED: f64 = 0.2;
const SORTED: f64 = 4.0;
const FILTERED: f64 = 0.3;
const PASSED: f64 = 0.1;
/// Work of a row that a reader of a shared subplan gets.
pub(in crate::optimizer) const SHARED: f64 = 0.1;

/// The work of a plan; `None` if nothing is known about the rows that it reads. That of what it shares with others is not part of it.
pub(in crate::optimizer) fn work(plan: &Arc<dyn ExecutionPlan>) -> Option<f64> {
    let rows = of_plan(plan)?.rows;
    if plan.is::<SharedSubplanExec>() {
        return Some(rows * SHARED);
    }
    let inputs: Vec<f64> = plan
        .children()
        .into_iter()
        .map(|input| of_plan(input).map(|input| input.rows))
        .collect::<Option<_>>()?;
    let own = of_operator(plan, rows, &inputs);
    plan.children().into_iter().try_fold(own, |sum, input| Some(sum + work(input)?))
}

/// The work of an operator that gives so many rows, and gets so many of each input.
fn of_operator(plan: &Arc<dyn ExecutionPlan>, rows: f64, inputs: &[f64]) -> f64 {
    let of_inputs: f64 = inputs.iter().sum();
    match inputs {
        [] if let Some(scan) = plan.downcast_ref::<DataSourceExec>() => {
            let read = rows_read(scan).unwrap_or(rows);
            let asked = if rows < read { read * FILTERED } else { 0.0 };
            read * DECODED_COLUMN * plan.schema().fields().len().max(1) as f64 + asked
        }
        [build, probe] if plan.is::<HashJoinExec>() => build * BUILT + probe * PROBED + rows * PASSED,
        [left, right] if plan.is::<NestedLoopJoinExec>() || plan.is::<CrossJoinExec>() => {
            left * right.max(1.0) * PAIRED
        }
        [input] if plan.is::<AggregateExec>() => input * GROUPED + rows * PASSED,
        [input] if plan.is::<FilterExec>() => input * FILTERED,
        [input] if plan.is::<SortExec>() || plan.is::<WindowAggExec>() => input * SORTED,
        [input] if plan.is::<BoundedWindowAggExec>() => input * GROUPED,
        _ => (of_inputs + rows) * PASSED,
    }
}
