//! Joins in a form that tasks of their own run rightly.
//!
//! A join whose left side is collected once shares in one process what its partitions know of that side. Ballista sends the side to each task
//! if that suffices, and else divides both sides anew, without a thought for what reads the join: an operator that was planned for one
//! partition would read the first of several. So the client divides such joins itself.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, Result};
use datafusion::physical_expr::Partitioning;
use datafusion::physical_expr::expressions::UnKnownColumn;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use yeoul_base::ErrorKind;
use yeoul_dialect::Error;

use crate::limits::BROADCAST_BYTES_MAX;

/// Bytes that Ballista assumes of a value at most, where only rows are counted.
const VALUE_BYTES_MAX: usize = 32;

/// The plan, in which joins are divided into so many partitions whose left side cannot be sent to each task.
///
/// # Errors
/// DataFusion's.
pub(crate) fn divided(plan: Arc<dyn ExecutionPlan>, partitions: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let divided = plan.transform_up(|node| match undivided(&node) {
        Some(join) => Ok(Transformed::yes(as_before(&node, divided_join(join, partitions)?)?)),
        None => Ok(Transformed::no(node)),
    });
    divided.data()
}

/// Refuses a plan in which Ballista would divide a join, once it is read.
///
/// # Errors
/// `Invalid` for one.
pub(crate) fn check(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    plan.apply(|node| match undivided(node) {
        Some(_) => {
            let text = "a join whose left side is of unknown size cannot be sent to a cluster";
            Err(Error::new(ErrorKind::Invalid, text).into())
        }
        None => Ok(TreeNodeRecursion::Continue),
    })?;
    Ok(())
}

/// A join that Ballista would divide. It gives one to a single task that looks for nulls on both sides (`NOT IN`).
fn undivided(node: &Arc<dyn ExecutionPlan>) -> Option<&HashJoinExec> {
    let join = node.downcast_ref::<HashJoinExec>()?;
    let is_collected = *join.partition_mode() == PartitionMode::CollectLeft && !join.null_aware;
    let can_be_sent = is_of_right_rows(*join.join_type()) && is_small(join.left());
    (is_collected && !can_be_sent).then_some(join)
}

/// True of a join each of whose rows is decided by one row of its right side.
fn is_of_right_rows(kind: JoinType) -> bool {
    match kind {
        JoinType::Inner
        | JoinType::Right
        | JoinType::RightSemi
        | JoinType::RightAnti
        | JoinType::RightMark => true,
        JoinType::Left | JoinType::Full | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
            false
        }
    }
}

/// True of a side that is known to be small, by the counts that Ballista asks.
fn is_small(side: &Arc<dyn ExecutionPlan>) -> bool {
    let counted = StatisticsContext::new().compute(side.as_ref(), &StatisticsArgs::new());
    let Ok(counted) = counted else { return false };
    match counted.total_byte_size.get_value() {
        Some(bytes) if *bytes != 0 => *bytes < BROADCAST_BYTES_MAX,
        _ => counted.num_rows.get_value().is_some_and(|rows| {
            let width = (side.schema().fields().len() * VALUE_BYTES_MAX).max(VALUE_BYTES_MAX);
            *rows != 0 && rows.saturating_mul(width) < BROADCAST_BYTES_MAX
        }),
    }
}

/// The join over both sides divided by its keys.
fn divided_join(join: &HashJoinExec, partitions: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let by_keys = |side: &Arc<dyn ExecutionPlan>, keys| -> Result<Arc<dyn ExecutionPlan>> {
        let side = match side.downcast_ref::<CoalescePartitionsExec>() {
            Some(merged) if merged.fetch().is_none() => merged.input(),
            _ => side,
        };
        let by = Partitioning::Hash(keys, partitions);
        Ok(Arc::new(RepartitionExec::try_new(Arc::clone(side), by)?))
    };
    let (left, right) = join.on().iter().cloned().unzip();
    let sides = vec![by_keys(join.left(), left)?, by_keys(join.right(), right)?];
    join.builder().with_partition_mode(PartitionMode::Partitioned).with_new_children(sides)?.build_exec()
}

/// True of a hash that what reads the rows can rely on. A join that leaves its keys out is divided by them all the same.
fn is_by_columns_there(by: &Partitioning) -> bool {
    matches!(by, Partitioning::Hash(by, _) if !by.iter().any(|by| by.is::<UnKnownColumn>()))
}

/// The divided join with the partitions and the order of the join before: what reads it may rely on them.
fn as_before(
    before: &Arc<dyn ExecutionPlan>,
    divided: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let (by, mut rows) = (before.output_partitioning(), divided);
    let is_one = by.partition_count() == 1;
    if is_by_columns_there(by) && !is_one {
        rows = Arc::new(RepartitionExec::try_new(rows, by.clone())?);
    }
    let Some(order) = before.output_ordering().cloned() else {
        return Ok(if is_one { Arc::new(CoalescePartitionsExec::new(rows)) } else { rows });
    };
    rows = Arc::new(SortExec::new(order.clone(), rows).with_preserve_partitioning(true));
    Ok(if is_one { Arc::new(SortPreservingMergeExec::new(order, rows)) } else { rows })
}
