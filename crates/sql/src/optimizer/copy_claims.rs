use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::work_table::WorkTableExec;

use crate::memory::measured_function::makes_large_values;
use crate::operators::copy_claim::CopyClaimExec;

/// Has operators that gather batches ask for the memory of their copies, above functions that make large values: a batch of few rows
/// may be as large as the whole promise, and they count rows.
#[derive(Debug)]
pub(super) struct CopyClaims;

impl PhysicalOptimizerRule for CopyClaims {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if !makes_any_large(&plan)? {
            return Ok(plan);
        }
        Ok(claimed(plan)?.0)
    }

    fn name(&self) -> &str {
        "CopyClaims"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// True if an operator has a function that makes large values.
fn makes_any_large(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let mut is_large = false;
    plan.apply(|node| {
        is_large |= makes_large(node)?;
        Ok(if is_large { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(is_large)
}

fn makes_large(node: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let mut is_large = false;
    node.apply_expressions(&mut |expr| {
        is_large |= makes_large_values(expr);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(is_large)
}

/// The plan with claims, and whether its rows may have large values.
fn claimed(plan: Arc<dyn ExecutionPlan>) -> Result<(Arc<dyn ExecutionPlan>, bool)> {
    // What it gives is what the operators above it made in the round before.
    let mut is_large = makes_large(&plan)? || plan.is::<WorkTableExec>();
    let mut is_changed = false;
    let mut children = Vec::new();
    let outputs = gathers_in(&plan);
    for child in plan.children() {
        let (mut mended, has_large) = claimed(Arc::clone(child))?;
        if has_large && let Some(outputs) = outputs {
            mended = Arc::new(CopyClaimExec::new(mended, outputs));
        }
        is_large |= has_large;
        is_changed |= !Arc::ptr_eq(child, &mended);
        children.push(mended);
    }
    if is_changed {
        let recompute = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        return Ok((plan.replace_children(children, recompute)?, is_large));
    }
    Ok((plan, is_large))
}

/// The number of places in which an operator gathers batches, if it does.
fn gathers_in(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    if plan.is::<FilterExec>() {
        return Some(1);
    }
    let repartition =
        plan.downcast_ref::<RepartitionExec>().filter(|repartition| !repartition.preserve_order());
    repartition.map(|repartition| repartition.partitioning().partition_count())
}
