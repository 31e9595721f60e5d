use std::sync::Arc;

use crate::rewrite::TreeWalk;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

/// Lets an aggregate forget how many groups are enough, where it would count them wrongly.
///
/// `SELECT DISTINCT … LIMIT` stops early. DataFusion notes the number in a distinct aggregate without an order; later rules may find
/// an order, if only because a filter leaves a single value, and then it takes the number for that of a top-k, and finds no direction.
///
/// A top-k looks its groups up by `==`, which no NaN is to itself: each NaN would be a group of its own, or end the query.
#[derive(Debug)]
pub(super) struct LimitedGroups;

impl PhysicalOptimizerRule for LimitedGroups {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.rewrite_up(&mut |node| {
            Ok(match node.downcast_ref::<AggregateExec>() {
                Some(aggregate) if has_no_direction(aggregate) || has_float_keys(aggregate) => {
                    Transformed::yes(Arc::new(aggregate.with_new_limit_options(None)) as _)
                }
                _ => Transformed::no(node),
            })
        });
        plan.data()
    }

    fn name(&self) -> &str {
        "LimitedGroups"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn has_no_direction(aggregate: &AggregateExec) -> bool {
    aggregate.limit_options().is_some_and(|limit| limit.descending.is_none())
        && !aggregate.is_unordered_unfiltered_group_by_distinct()
        && aggregate.get_minmax_desc().is_none()
}

fn has_float_keys(aggregate: &AggregateExec) -> bool {
    let input = aggregate.input().schema();
    let is_top_k = aggregate.limit_options().is_some_and(|limit| limit.descending.is_some());
    let mut keys = aggregate.group_expr().expr().iter();
    is_top_k && keys.any(|(key, _)| key.data_type(&input).is_ok_and(|of| of.is_floating()))
}
