use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::{Constraint, Result};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, LexRequirement, OrderingRequirements, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::hiding::{Hidden, HidingExec};

/// Hides that columns are unique where DataFusion takes them for those that a `GROUP BY` made unique, with a [`HidingExec`] above.
///
/// It keeps the places of a key in a projection as they are (`projected_constraints`), whatever stands there behind it: the first
/// column of `SELECT count(*) AS c, k FROM t GROUP BY k` is unique to it, because `k` is the first below. What is sorted by a unique
/// column is sorted by all columns, so it drops the second sort of `SELECT * FROM (… ORDER BY c LIMIT 10) ORDER BY c, k`, and a window
/// takes rows as they come. The key of several grouping sets is unique to it, too, though rows of two sets may be alike.
///
/// Only plans that order rows twice are changed: without an order there is nothing that a second sort could be spared.
#[derive(Debug)]
pub(super) struct MisplacedKeys;

impl PhysicalOptimizerRule for MisplacedKeys {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        hidden(plan, 0)
    }

    fn name(&self) -> &str {
        "MisplacedKeys"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A plan whose misplaced keys are hidden from `orders` nodes above that know its keys and order rows.
fn hidden(plan: Arc<dyn ExecutionPlan>, orders: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let orders = if plan.equivalence_properties().constraints().is_empty() { 0 } else { orders };
    let below = orders + usize::from(orders_rows(plan.as_ref()));
    let children = plan.children().into_iter().map(|child| hidden(Arc::clone(child), below));
    let children = children.collect::<Result<_>>()?;
    let plan = replace_children_if_necessary(plan, children)?;
    let has_order = orders >= 2 || (orders == 1 && plan.output_ordering().is_some());
    if has_order && has_misplaced_key(plan.as_ref()) {
        return Ok(Arc::new(HidingExec::new(plan, Hidden::Keys)?));
    }
    Ok(plan)
}

/// Whether it is a sort, or needs an order that no sort directly below it is there for.
fn orders_rows(node: &dyn ExecutionPlan) -> bool {
    if node.is::<SortPreservingMergeExec>() {
        return false;
    }
    let needs_order = |(order, child): (Option<OrderingRequirements>, &Arc<dyn ExecutionPlan>)| {
        let sorted = child.downcast_ref::<SortExec>().map(SortExec::expr);
        let sorted =
            sorted.or_else(|| child.downcast_ref::<SortPreservingMergeExec>().map(|merge| merge.expr()));
        order.is_some_and(|order| sorted.is_none_or(|sorted| !begins_with(sorted, order.first())))
    };
    let needed = node.required_input_ordering().into_iter().zip(node.children());
    node.is::<SortExec>() || needed.into_iter().any(needs_order)
}

fn begins_with(order: &LexOrdering, needed: &LexRequirement) -> bool {
    let mut pairs = order.iter().zip(needed.iter());
    needed.len() <= order.len() && pairs.all(|(by, needed)| by.expr.eq(&needed.expr))
}

/// Whether a key of the node's rows may be other columns than those that are unique.
fn has_misplaced_key(node: &dyn ExecutionPlan) -> bool {
    let keys = node.equivalence_properties().constraints();
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        let expressions = projection.expr();
        return moves(keys, &|place| {
            expressions.get(place).is_some_and(|projected| is_column(&projected.expr, place))
        });
    }
    if let Some(filter) = node.downcast_ref::<FilterExec>() {
        let projection = filter.projection().as_ref();
        return projection.is_some_and(|places| {
            moves(keys, &|place| places.get(place).is_some_and(|from| *from == place))
        });
    }
    let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return false };
    let groups = aggregate.group_expr();
    // The last is its own.
    let below = keys.split_last().map_or(&[][..], |(_, below)| below);
    !groups.is_single()
        || moves(below, &|place| groups.expr().get(place).is_some_and(|(expr, _)| is_column(expr, place)))
}

fn moves(keys: &[Constraint], keeps: &dyn Fn(usize) -> bool) -> bool {
    keys.iter().any(|key| match key {
        Constraint::PrimaryKey(places) | Constraint::Unique(places) => {
            !places.iter().all(|place| keeps(*place))
        }
    })
}

fn is_column(expr: &Arc<dyn PhysicalExpr>, place: usize) -> bool {
    expr.downcast_ref::<Column>().is_some_and(|column| column.index() == place)
}
