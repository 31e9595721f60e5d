//! Estimated rows beside those that were counted, in what `EXPLAIN ANALYZE` shows.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::common::cast::as_string_array;
use datafusion::common::{Result, human_readable_count};
use datafusion::physical_plan::ExecutionPlan;

use super::of_plan;

/// What a line of a plan has before the metrics of its operator.
const METRICS: &str = "metrics=[";

/// The estimated rows of the operators of a plan, in the order in which it is shown.
#[derive(Debug)]
pub(crate) struct ShownEstimates(Vec<Option<f64>>);

impl ShownEstimates {
    pub(crate) fn of(plan: &Arc<dyn ExecutionPlan>) -> Self {
        let mut rows = Vec::new();
        push(plan, &mut rows);
        Self(rows)
    }

    /// A batch of `EXPLAIN ANALYZE`, a name and a plan in each row, with estimates in plans that have a line for each operator.
    ///
    /// # Errors
    /// DataFusion's, for a batch of other columns.
    pub(crate) fn put_into(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let plans = as_string_array(batch.column(1))?;
        let plans: StringArray = plans.iter().map(|plan| plan.map(|plan| self.beside(plan))).collect();
        let columns: Vec<ArrayRef> = vec![Arc::clone(batch.column(0)), Arc::new(plans)];
        Ok(RecordBatch::try_new(batch.schema(), columns)?)
    }

    fn beside(&self, plan: &str) -> String {
        // The text of an operator may have lines of its own, of a literal, say.
        if plan.lines().count() != self.0.len() {
            return plan.to_owned();
        }
        let mut text = String::with_capacity(plan.len());
        for (line, rows) in plan.lines().zip(&self.0) {
            match (line.rsplit_once(METRICS), rows) {
                (Some((operator, metrics)), Some(rows)) => {
                    let rows = human_readable_count(rows.round() as usize);
                    let comma = if metrics.starts_with(']') { "" } else { ", " };
                    text.push_str(&format!("{operator}{METRICS}estimated_rows={rows}{comma}{metrics}"));
                }
                _ => text.push_str(line),
            }
            text.push('\n');
        }
        text
    }
}

fn push(plan: &Arc<dyn ExecutionPlan>, rows: &mut Vec<Option<f64>>) {
    rows.push(of_plan(plan).map(|estimate| estimate.rows));
    for input in plan.children() {
        push(input, rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_stand_before_what_was_counted() {
        let estimates = ShownEstimates(vec![Some(1234.4), None, Some(0.0)]);
        let plan =
            "A: x, metrics=[output_rows=7]\n  B: metrics=[, metrics=[output_rows=8]\n  C, metrics=[]\n";
        let shown = "A: x, metrics=[estimated_rows=1.23 K, output_rows=7]\n  B: metrics=[, metrics=[output_rows=8]\n  C, metrics=[estimated_rows=0]\n";
        assert_eq!(estimates.beside(plan), shown);
    }

    #[test]
    fn a_text_of_other_lines_stays_as_it_is() {
        let estimates = ShownEstimates(vec![Some(1.0), Some(2.0)]);
        for text in ["A, metrics=[a]", "A: 'x\ny', metrics=[a]\n  B, metrics=[b]\n"] {
            assert_eq!(estimates.beside(text), text);
        }
    }
}
