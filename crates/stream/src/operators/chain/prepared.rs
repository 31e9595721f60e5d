//! Rows on their way to the first step with state: until there nothing remembers them, so that rows that fail can be left out.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;

use super::{Operators, Taker, greatest_ms, push_on};
use crate::error::{ErrorKind, Result, computing};
use crate::plan::PlanNode;

/// Rows of a stream after filters and columns, for the steps after these.
pub struct Prepared(Vec<PreparedScan>);

/// Rows of one of the places where the stream comes in.
struct PreparedScan {
    /// Number of the scan's watermark, if it has one, with the greatest time of the rows.
    seen: Option<(usize, Option<i64>)>,
    rows: RecordBatch,
    /// The step that takes them; nothing if they come out.
    to: Option<Taker>,
}

impl Prepared {
    /// Rows that come out as they are: no step takes them.
    pub fn coming_out(&self) -> impl Iterator<Item = &RecordBatch> {
        self.0.iter().filter(|scan| scan.to.is_none()).map(|scan| &scan.rows)
    }
}

/// A row that an expression fails on, or that the sink refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailingRow {
    /// Its number among those of the stream.
    pub row: usize,
    /// Why.
    pub reason: String,
}

impl Operators {
    /// Takes rows of a stream, by its number, through the filters and columns before the first step of another kind. It changes nothing.
    ///
    /// # Errors
    /// `Invalid` for values that cannot be computed.
    pub fn prepare(&self, stream: usize, rows: &RecordBatch) -> Result<Prepared> {
        let mut prepared = Vec::new();
        for scan in self.scans.iter().filter(|scan| scan.stream == stream) {
            let mut rows = scan.before_watermark.push(rows.clone())?;
            if rows.num_rows() == 0 {
                continue;
            }
            let seen = match scan.time {
                Some((column, number)) => {
                    Some((number, greatest_ms(&rows, column, self.watermark.limit_ms(number))?))
                }
                None => None,
            };
            let mut to = scan.to;
            while let Some(taker) = to.filter(|_| rows.num_rows() > 0) {
                let node = &self.nodes[taker.node];
                let Some(calc) = node.calc() else { break };
                rows = calc.push(rows)?;
                to = node.to;
            }
            prepared.push(PreparedScan { seen, rows, to });
        }
        Ok(Prepared(prepared))
    }

    /// Takes rows for the open batch, and gives what comes out at once.
    ///
    /// # Errors
    /// As [`push_from`](Self::push_from).
    pub fn push_prepared(
        &mut self,
        prepared: Prepared,
        out: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        for PreparedScan { seen, rows, to } in prepared.0 {
            if let Some((number, greatest_ms)) = seen {
                self.watermark.observe(number, greatest_ms);
            }
            match to {
                _ if rows.num_rows() == 0 => {}
                Some(to) => push_on(&mut self.nodes, 0, to, rows, out)?,
                None => out(rows)?,
            }
        }
        Ok(())
    }

    /// Rows of a stream that an expression fails on before the first step with state, or in its keys and arguments, and rows that fail
    /// this check after that, in their order.
    ///
    /// # Errors
    /// If something else fails.
    pub fn failing_rows(
        &self,
        stream: usize,
        rows: &RecordBatch,
        check: &dyn Fn(&Prepared) -> Result<()>,
    ) -> Result<Vec<FailingRow>> {
        let mut failing = Vec::new();
        self.find_failing(stream, (rows, 0), check, &mut failing)?;
        Ok(failing)
    }

    fn find_failing(
        &self,
        stream: usize,
        (rows, first): (&RecordBatch, usize),
        check: &dyn Fn(&Prepared) -> Result<()>,
        failing: &mut Vec<FailingRow>,
    ) -> Result<()> {
        let tried = self.prepare(stream, rows).and_then(|prepared| {
            self.try_steps(&prepared)?;
            check(&prepared)
        });
        match tried {
            Ok(()) => Ok(()),
            Err(error) if error.kind() != ErrorKind::Invalid => Err(error),
            Err(error) if rows.num_rows() <= 1 => {
                let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
                let reason = format!("{error}{}", cause.unwrap_or_default());
                failing.push(FailingRow { row: first, reason });
                Ok(())
            }
            Err(_) => {
                let half = rows.num_rows() / 2;
                let after = rows.slice(half, rows.num_rows() - half);
                self.find_failing(stream, (&rows.slice(0, half), first), check, failing)?;
                self.find_failing(stream, (&after, first + half), check, failing)
            }
        }
    }

    /// Computes what the next steps will: their keys and arguments, but for columns as they are.
    ///
    /// # Errors
    /// `Invalid` for values that cannot be computed.
    pub fn try_steps(&self, prepared: &Prepared) -> Result<()> {
        for PreparedScan { rows, to, .. } in &prepared.0 {
            let Some(to) = to.filter(|_| rows.num_rows() > 0) else { continue };
            for expression in &self.nodes[to.node].trials[to.input] {
                expression.evaluate(rows).map_err(computing)?;
            }
        }
        Ok(())
    }
}

/// Expressions that a step computes of each row of its inputs, but for columns as they are.
pub(super) fn trials(step: &PlanNode) -> Vec<Vec<Arc<dyn PhysicalExpr>>> {
    let mut trials = vec![Vec::new(); step.inputs().len()];
    match step {
        PlanNode::Aggregate { plan, .. } => {
            trials[0].extend(plan.keys.iter().cloned());
            for call in &plan.calls {
                match &call.filter {
                    // Rows that it leaves out may fail in the arguments.
                    Some(filter) => trials[0].push(Arc::clone(filter)),
                    None => trials[0].extend(call.function.expressions()),
                }
            }
        }
        PlanNode::Deduplicate { plan, .. } => trials[0].extend(plan.keys.iter().cloned()),
        PlanNode::Lookup { plan, .. } => trials[0].extend(plan.keys.iter().cloned()),
        PlanNode::Join { plan, .. } => {
            for (side, own) in plan.sides.iter().zip(&mut trials) {
                own.extend(side.keys.iter().chain(&side.own_filter).cloned());
            }
        }
        PlanNode::Scan(_)
        | PlanNode::Calc { .. }
        | PlanNode::Windows { .. }
        | PlanNode::Keyed { .. }
        | PlanNode::Union { .. } => {}
    }
    trials.iter_mut().for_each(|own| own.retain(|expression| expression.downcast_ref::<Column>().is_none()));
    trials
}
