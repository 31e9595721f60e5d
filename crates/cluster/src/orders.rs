//! Orders that operators of a stage rely on.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

/// The plan of a stage, whose rows leave it in the order that they had before its operators were replaced: the next stage may merge them.
pub(crate) fn in_order_of(
    before: &Arc<dyn ExecutionPlan>,
    plan: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = in_order(plan)?;
    let (before, after) = (before.children(), plan.children());
    let ([before], [rows]) = (before.as_slice(), after.as_slice()) else {
        return internal_err!("a stage ends in an operator that writes its rows");
    };
    let Some(order) = before.output_ordering().cloned() else { return Ok(plan) };
    if rows.equivalence_properties().ordering_satisfy(order.iter().cloned())? {
        return Ok(plan);
    }
    let rows = SortExec::new(order, Arc::clone(rows)).with_preserve_partitioning(true);
    replace_children_if_necessary(plan, vec![Arc::new(rows)])
}

/// The plan of a stage in which each operator has the order that it requires of its inputs.
///
/// Where a query was planned, columns were known to be constant or equal by what is in another stage now: a window by five columns was
/// sorted by four of them.
pub(crate) fn in_order(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let ordered = plan.transform_up(|node| {
        let required = node.required_input_ordering();
        let mut is_changed = false;
        let children = node.children().into_iter().zip(required).map(|(child, required)| {
            let Some(required) = required.map(|required| required.into_single()) else {
                return Ok(Arc::clone(child));
            };
            if child.equivalence_properties().ordering_satisfy_requirement(required.iter().cloned())? {
                return Ok(Arc::clone(child));
            }
            is_changed = true;
            let order = LexOrdering::from(required);
            let sort = SortExec::new(order, Arc::clone(child)).with_preserve_partitioning(true);
            Ok(Arc::new(sort) as Arc<dyn ExecutionPlan>)
        });
        let children = children.collect::<Result<Vec<_>>>()?;
        match is_changed {
            true => Ok(Transformed::yes(replace_children_if_necessary(node, children)?)),
            false => Ok(Transformed::no(node)),
        }
    });
    ordered.data()
}
