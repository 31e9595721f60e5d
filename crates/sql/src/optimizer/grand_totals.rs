use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::execution::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, Filter, GroupingSet, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// Keeps filters without columns, such as `HAVING (SELECT …) > 5`, above an aggregate that has a row even if nothing is left below:
/// its grand total.
///
/// DataFusion moves filters of group keys below an aggregate, and takes one without any columns for such a filter: the total would
/// be counted of no rows, and stay.
#[derive(Debug)]
pub(crate) struct GrandTotals(Arc<dyn OptimizerRule + Send + Sync>);

impl GrandTotals {
    /// `state` with the rule that moves filters replaced.
    pub(crate) fn add_to(state: SessionState) -> SessionState {
        let rules = state.optimizers().iter().map(|rule| match rule.name() {
            "push_down_filter" => Arc::new(Self(Arc::clone(rule))) as _,
            _ => Arc::clone(rule),
        });
        let rules = rules.collect();
        SessionStateBuilder::new_from_existing(state).with_optimizer_rules(rules).build()
    }
}

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

/// Whether this filter, or one below it with which it would become one, has no columns and stands on a grand total.
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

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::*;

    #[test]
    fn the_rule_that_moves_filters_is_there() {
        let state = GrandTotals::add_to(SessionContext::new().state());
        let kept = state.optimizers().iter().filter(|rule| format!("{rule:?}").starts_with("GrandTotals"));
        assert_eq!(kept.count(), 1);
    }
}
