use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
use yeoul_dialect::settings::Switch;

use crate::operators::grouping_levels::{GroupingLevelsExec, Level, levels};

/// Functions whose state of a group is a few numbers, or one value: to unite states takes no longer than to add a row.
const SMALL_STATES: [&str; 20] = [
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "max",
    "min",
    "stddev",
    "stddev_pop",
    "sum",
    "var",
    "var_pop",
    "count_if",
    "every",
    "any",
];

/// Has grouping sets computed from the groups of larger ones.
///
/// ```text
/// AggregateExec: mode=Partial, all sets            GroupingLevelsExec
///   input                                    =>      AggregateExec: mode=Partial, all keys
///                                                      input
/// ```
#[derive(Debug)]
pub(super) struct GroupingLevels;

impl PhysicalOptimizerRule for GroupingLevels {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !Switch::GroupingLevels.is_on(config) {
            return Ok(plan);
        }
        let plan = plan.transform_up(|node| {
            let aggregate = node.downcast_ref::<AggregateExec>();
            match aggregate.and_then(|aggregate| Some((aggregate, levels_of(aggregate)?))) {
                Some((aggregate, levels)) => Ok(Transformed::yes(computed_by(aggregate, levels)?)),
                None => Ok(Transformed::no(node)),
            }
        });
        plan.data()
    }

    fn name(&self) -> &str {
        "GroupingLevels"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The levels of an aggregate that reads rows, and whose states are united in any order.
fn levels_of(aggregate: &AggregateExec) -> Option<Vec<Level>> {
    let group = aggregate.group_expr();
    let is_first = matches!(aggregate.mode(), AggregateMode::Partial | AggregateMode::Single);
    let is_plain = aggregate.limit_options().is_none()
        && matches!(aggregate.input_order_mode(), InputOrderMode::Linear)
        // Groups without a state may have no column.
        && !aggregate.aggr_expr().is_empty()
        && aggregate.aggr_expr().iter().all(|call| is_small(call));
    (group.has_grouping_set() && group.groups().len() > 1 && is_first && is_plain).then(|| levels(group))?
}

fn is_small(call: &AggregateFunctionExpr) -> bool {
    !call.is_distinct() && call.order_bys().is_empty() && SMALL_STATES.contains(&call.fun().name())
}

fn computed_by(aggregate: &AggregateExec, levels: Vec<Level>) -> Result<Arc<dyn ExecutionPlan>> {
    let group = aggregate.group_expr();
    let calls = aggregate.aggr_expr();
    let first = AggregateExec::try_new(
        AggregateMode::Partial,
        PhysicalGroupBy::new_single(group.expr().to_vec()),
        calls.to_vec(),
        aggregate.filter_expr().to_vec(),
        Arc::clone(aggregate.input()),
        aggregate.input_schema(),
    )?;
    let sets = Arc::new(GroupingLevelsExec::new(Arc::new(first), aggregate, levels)?);
    if *aggregate.mode() == AggregateMode::Partial {
        return Ok(sets);
    }
    let last = AggregateExec::try_new(
        AggregateMode::Final,
        group.as_final(),
        calls.to_vec(),
        vec![None; calls.len()],
        sets,
        aggregate.input_schema(),
    )?;
    Ok(Arc::new(last))
}
