use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::hiding::{Hidden, HidingExec, in_order};
use crate::rewrite::{PhysicalRule, TreeWalk};

/// Runs `EnsureRequirements`, and has sorted partitions merged by all that they are sorted by.
///
/// A `SortPreservingMergeExec` claims each order that its input has, whatever it merges by, and that rule relies on it: it sorts the
/// partitions of `SELECT * FROM (… ORDER BY c LIMIT 10) ORDER BY c, k` by `c, k`, and merges them by `c`. An order beside the one by
/// which they are merged, as that of a `row_number` in each input of a `UNION ALL`, is hidden, and the rule runs again.
#[derive(Debug)]
pub(super) struct MergedOrders(pub(super) PhysicalRule);

impl PhysicalOptimizerRule for MergedOrders {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (plan, hides) = merged(self.0.optimize(plan, config)?)?;
        if hides { Ok(merged(self.0.optimize(plan, config)?)?.0) } else { Ok(plan) }
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// A plan whose merges have the orders that they claim, and whether claims had to be hidden.
fn merged(plan: Arc<dyn ExecutionPlan>) -> Result<(Arc<dyn ExecutionPlan>, bool)> {
    let mut hides = false;
    let plan = plan.rewrite_up(&mut |node| {
        if hides_orders(&node) {
            // Its merge has been hidden again.
            let below = Arc::clone(node.children()[0]);
            return Ok(if hides_orders(&below) { Transformed::yes(below) } else { Transformed::no(node) });
        }
        let Some(merge) = node.downcast_ref::<SortPreservingMergeExec>() else {
            return Ok(Transformed::no(node));
        };
        if merge.input().output_partitioning().partition_count() < 2 {
            return Ok(Transformed::no(node));
        }
        let order = finest(merge);
        let is_finer = order.len() > merge.expr().len();
        let merge =
            SortPreservingMergeExec::new(order.clone(), Arc::clone(merge.input())).with_fetch(merge.fetch());
        let merge: Arc<dyn ExecutionPlan> = Arc::new(merge);
        let known = merge.equivalence_properties();
        let honest = in_order(known, order);
        for claimed in known.oeq_class().iter() {
            if !honest.ordering_satisfy(claimed.clone())? {
                hides = true;
                return Ok(Transformed::yes(Arc::new(HidingExec::new(merge, Hidden::Orders)?) as _));
            }
        }
        Ok(if is_finer { Transformed::yes(merge) } else { Transformed::no(node) })
    })?;
    Ok((plan.data, hides))
}

fn hides_orders(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.downcast_ref::<HidingExec>().is_some_and(|hiding| hiding.hidden() == Hidden::Orders)
}

/// What a merge merges by, and behind it the order of its partitions: rows that are equal to the first are in the second.
fn finest(merge: &SortPreservingMergeExec) -> LexOrdering {
    let mut order = merge.expr().clone();
    let known = merge.input().output_ordering().into_iter().flat_map(|known| known.iter());
    order.extend(known.cloned());
    order
}
