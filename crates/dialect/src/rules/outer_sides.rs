use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{JoinType, Result};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::hiding::{Hidden, HidingExec};
use crate::rewrite::TreeWalk;

/// Hides from an outer join which columns are constant on the side that it fills with nulls, with a [`HidingExec`] between.
///
/// DataFusion takes them for constant above the join, too, and drops a sort by them: `SELECT b.n FROM a LEFT JOIN (SELECT * FROM b WHERE
/// n = 7) AS b ON … ORDER BY b.n`. The nodes stay in the plan: a sort asks again when it runs whether there is anything to do.
#[derive(Debug)]
pub(super) struct OuterSides;

impl PhysicalOptimizerRule for OuterSides {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let hidden = plan.rewrite_up(&mut |node| {
            let (left, right) = match join_type(&node) {
                Some(JoinType::Left) => (false, true),
                Some(JoinType::Right) => (true, false),
                Some(JoinType::Full) => (true, true),
                _ => return Ok(Transformed::no(node)),
            };
            let children = node.children().into_iter().zip([left, right]);
            let children = children.map(|(side, is_filled)| match is_filled && has_constants(side) {
                true => Ok(Arc::new(HidingExec::new(Arc::clone(side), Hidden::Constants)?) as _),
                false => Ok(Arc::clone(side)),
            });
            let children = children.collect::<Result<_>>()?;
            Ok(Transformed::yes(replace_children_if_necessary(node, children)?))
        });
        hidden.data()
    }

    fn name(&self) -> &str {
        "OuterSides"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn join_type(node: &Arc<dyn ExecutionPlan>) -> Option<JoinType> {
    let hash = node.downcast_ref::<HashJoinExec>().map(|join| *join.join_type());
    let merge = || node.downcast_ref::<SortMergeJoinExec>().map(SortMergeJoinExec::join_type);
    let nested = || node.downcast_ref::<NestedLoopJoinExec>().map(|join| *join.join_type());
    hash.or_else(merge).or_else(nested)
}

fn has_constants(side: &Arc<dyn ExecutionPlan>) -> bool {
    !side.equivalence_properties().constants().is_empty()
}
