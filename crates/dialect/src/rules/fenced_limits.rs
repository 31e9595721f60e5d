use std::sync::Arc;

use crate::rewrite::TreeWalk;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

/// Keeps dynamic filters (a join's keys, a top-k's bound) above a LIMIT: pushed through it into the scan they would
/// filter before the limit counts, and the query would give other rows.
///
/// DataFusion moves a limit into the scan below it, and pushes a join's keys into the same scan, which then filters
/// first and counts afterwards. It also lets a scan with a limit skip row groups at the front although its rows are to
/// come in the order that the table declares (datafusion#24272).
#[derive(Debug)]
pub(super) struct FencedLimits;

impl PhysicalOptimizerRule for FencedLimits {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.rewrite_up(&mut |node| Ok(in_order(node))).data()?;
        let fenced = plan.rewrite_down(&mut |node| {
            if !tells_scans(&node) {
                return Ok(Transformed::no(node));
            }
            let below = node.children().into_iter().map(|child| {
                let child = Arc::clone(child);
                child.rewrite_up(&mut |node| Ok(fence(node))).data()
            });
            let below = below.collect::<Result<_>>()?;
            let node = replace_children_if_necessary(node, below)?;
            Ok(Transformed::new(node, true, TreeNodeRecursion::Jump))
        });
        fenced.data()
    }

    fn name(&self) -> &str {
        "FencedLimits"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Makes a scan with a limit and a declared order keep that order: it must not skip row groups at the front.
fn in_order(node: Arc<dyn ExecutionPlan>) -> Transformed<Arc<dyn ExecutionPlan>> {
    if !node.is::<DataSourceExec>() || node.fetch().is_none() || node.output_ordering().is_none() {
        return Transformed::no(node);
    }
    match node.with_preserve_order(true) {
        Some(kept) => Transformed::yes(kept),
        None => Transformed::no(node),
    }
}

/// True if the operator makes dynamic filters for the scans below it, or pushes its order into them.
fn tells_scans(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.is::<HashJoinExec>() || node.is::<SortExec>() || node.is::<AggregateExec>()
}

/// Puts a limit operator, which no filter passes, above a node that has a limit of its own and lets filters through.
fn fence(node: Arc<dyn ExecutionPlan>) -> Transformed<Arc<dyn ExecutionPlan>> {
    let keeps_filters_out = node.is::<SortExec>()
        || node.is::<SortPreservingMergeExec>()
        || node.is::<GlobalLimitExec>()
        || node.is::<LocalLimitExec>();
    match node.fetch() {
        Some(fetch) if !keeps_filters_out => {
            Transformed::yes(Arc::new(LocalLimitExec::new(node, fetch)) as _)
        }
        _ => Transformed::no(node),
    }
}
