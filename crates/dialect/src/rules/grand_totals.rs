use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, Filter, GroupingSet, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::rewrite::LogicalRule;

/// Keeps filters without columns, such as `HAVING (SELECT …) > 5`, above an aggregate that has a row even if nothing is left below:
/// its grand total.
///
/// DataFusion moves filters of group keys below an aggregate, and takes one without any columns for such a filter: the total would
/// be counted of no rows, and stay.
#[derive(Debug)]
pub(super) struct GrandTotals(pub(super) LogicalRule);

impl OptimizerRule for GrandTotals {
    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match &plan {
            LogicalPlan::Filter(filter) if must_stay(filter) => Ok(Transformed::no(plan)),
            _ => self.0.rewrite(plan, config),
        }
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }
}

/// True if this filter, or one below it with which it would become one, has no columns and stands on a grand total.
fn must_stay(filter: &Filter) -> bool {
    let mut has_no_columns = false;
    let mut filter = filter;
    loop {
        has_no_columns |= split_conjunction(&filter.predicate)
            .into_iter()
            .any(|condition| condition.column_refs().is_empty());
        match &*filter.input {
            LogicalPlan::Filter(below) => filter = below,
            LogicalPlan::Aggregate(aggregate) => return has_no_columns && has_total(&aggregate.group_expr),
            _ => return false,
        }
    }
}

fn has_total(groups: &[Expr]) -> bool {
    match groups {
        [] => true,
        [Expr::GroupingSet(GroupingSet::GroupingSets(sets))] => sets.iter().any(Vec::is_empty),
        [Expr::GroupingSet(_)] => true,
        _ => false,
    }
}
