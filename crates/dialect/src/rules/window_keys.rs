use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::hiding::{Hidden, HidingExec};

/// Hides which columns are equal from windows that compute one of several keys of their partitions, with a [`HidingExec`] below.
///
/// To see whether rows are sorted by the next key, DataFusion takes the one before for constant (`find_longest_permutation`). If that is
/// computed, it does not know it again where the rows are sorted by the same of an equal column, and fails while the query runs:
/// `PARTITION BY upper(b.name), b.k ORDER BY upper(a.name)` where `a.name = b.name`.
#[derive(Debug)]
pub(super) struct WindowKeys;

impl PhysicalOptimizerRule for WindowKeys {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(apart).data()
    }

    fn name(&self) -> &str {
        "WindowKeys"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn apart(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(keys) = keys(plan.as_ref()) else { return Ok(Transformed::no(plan)) };
    let is_computed = keys.len() > 1 && keys.iter().any(|key| !key.is::<Column>());
    let [input] = plan.children()[..] else { return Ok(Transformed::no(plan)) };
    let classes = input.equivalence_properties().eq_group();
    if !is_computed || classes.iter().all(|class| class.len() < 2) {
        return Ok(Transformed::no(plan));
    }
    let hiding = HidingExec::new(Arc::clone(input), Hidden::Equalities)?;
    Ok(Transformed::yes(replace_children_if_necessary(plan, vec![Arc::new(hiding)])?))
}

/// The keys by which a window parts rows; `None` for other nodes.
fn keys(plan: &dyn ExecutionPlan) -> Option<&[Arc<dyn PhysicalExpr>]> {
    let windows = match plan.downcast_ref::<BoundedWindowAggExec>() {
        Some(window) => window.window_expr(),
        None => plan.downcast_ref::<WindowAggExec>()?.window_expr(),
    };
    Some(windows.first()?.partition_by())
}
