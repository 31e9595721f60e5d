use std::sync::Arc;

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, DFSchema, ExprSchema, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use super::unnesting::map_outer_columns;
use crate::rewrite::{AnalyzingRule, PlanWalk};

/// Gives the outer columns of subqueries the types that they have once the query around them has its own, which this rule finds.
///
/// A `UNION` has its types by then only: `'x'` and a column of another kind of text have one. A subquery is planned with the type that
/// the column had before, and compares it, or computes with it, by that.
#[derive(Debug)]
pub(crate) struct OuterTypes(pub(crate) AnalyzingRule);

/// How often types are found anew: as deep as subqueries may stand in each other, each of which may change those in it.
const ROUNDS_MAX: usize = 16;

impl AnalyzerRule for OuterTypes {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut plan = self.0.analyze(plan, config)?;
        for _ in 0..ROUNDS_MAX {
            let mapped = map_outer_columns(plan, &mut Vec::new(), &with_type)?;
            if !mapped.transformed {
                return Ok(mapped.data);
            }
            let typed = mapped
                .data
                .rewrite_up_with_subqueries(&mut |node| node.recompute_schema().map(Transformed::yes));
            plan = self.0.analyze(typed.data()?, config)?;
        }
        Ok(plan)
    }

    fn name(&self) -> &str {
        self.0.name()
    }
}

/// An outer column with its type in the innermost query that has it, if that is another.
fn with_type(field: &FieldRef, column: &Column, around: &[DFSchema]) -> Option<Expr> {
    let found = around.iter().rev().find_map(|schema| schema.field_from_column(column).ok())?;
    let is_other = found.data_type() != field.data_type();
    is_other.then(|| Expr::OuterReferenceColumn(Arc::clone(found), column.clone()))
}
