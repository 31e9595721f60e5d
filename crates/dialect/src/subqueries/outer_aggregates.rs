use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use yeoul_base::ErrorKind;

use crate::Error;
use crate::rewrite::{PlanWalk, TreeWalk};

/// An aggregate in a subquery whose arguments name columns of the query around only is, in SQL, an aggregate of that query:
/// `SELECT (SELECT max(t.x)) FROM t` has one row. DataFusion computes it in the subquery, once for each row of `t` (not reported). This
/// rule refuses it, and says what to write instead.
#[derive(Debug)]
pub(crate) struct OuterAggregates;

impl AnalyzerRule for OuterAggregates {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.each_with_subqueries(&mut |node| {
            if let LogicalPlan::Aggregate(aggregate) = node {
                aggregate.aggr_expr.iter().try_for_each(check)?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(plan)
    }

    fn name(&self) -> &str {
        "outer_aggregates"
    }
}

/// Refuses an aggregate of outer columns only.
fn check(expr: &Expr) -> Result<()> {
    let (mut outer, mut has_own) = (None, false);
    expr.each(&mut |expr| {
        match expr {
            Expr::OuterReferenceColumn(_, column) => outer = Some(column.clone()),
            Expr::Column(_) => has_own = true,
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let Some(column) = outer.filter(|_| !has_own) else { return Ok(()) };
    let text = format!(
        "not supported: an aggregate of '{}' alone in a subquery, which is an aggregate of the query around it",
        column.name
    );
    Err(Error::new(ErrorKind::Invalid, text)
        .with_hint("compute it there: WITH a AS (SELECT max(x) AS m FROM t) SELECT … FROM a; for each row, leave the aggregate out")
        .into())
}
