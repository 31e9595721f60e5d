//! Joins whose keys are recorded for the scans that they filter.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::datasource::physical_plan::{FileScanConfig, FileSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::operators::recorded_keys::{KeySet, RecordedKeysExec, is_recorded};

/// The keys of joins, by the number of the filter with which a join filters scans.
pub(super) type JoinKeys = HashMap<u64, Arc<KeySet>>;

/// The sets that joins of one key can fill: those whose filter reaches a scan that knows the range of the column.
pub(super) fn sets(plan: &Arc<dyn ExecutionPlan>) -> Result<JoinKeys> {
    let mut ranges: HashMap<u64, Option<(i64, i64)>> = HashMap::new();
    let mut partitions: HashMap<u64, usize> = HashMap::new();
    plan.apply(|node| {
        if let Some((id, _)) = single_key(node)? {
            let join = node.children();
            partitions.insert(id, join[0].output_partitioning().partition_count());
        }
        let scan = node.downcast_ref::<DataSourceExec>();
        if let Some((config, source)) =
            scan.and_then(DataSourceExec::downcast_to_file_source::<ParquetSource>)
        {
            for (id, column) in filters(source) {
                let range = range(config, &column);
                let joined = |known: &Option<(i64, i64)>| {
                    known.zip(range).map(|(known, range)| (known.0.min(range.0), known.1.max(range.1)))
                };
                let known = ranges.get(&id).map_or(range, joined);
                ranges.insert(id, known);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let set = |(id, range): (u64, Option<(i64, i64)>)| {
        let (first, last) = range?;
        Some((id, Arc::new(KeySet::new(first, last, *partitions.get(&id)?)?)))
    };
    Ok(ranges.into_iter().filter_map(set).collect())
}

/// A join that records its keys if these are asked for, or the node itself.
pub(super) fn recording(
    node: Arc<dyn ExecutionPlan>,
    keys: &JoinKeys,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some((id, key)) = single_key(&node)? else { return Ok(Transformed::no(node)) };
    let Some(set) = keys.get(&id) else { return Ok(Transformed::no(node)) };
    let mut sides: Vec<Arc<dyn ExecutionPlan>> = node.children().into_iter().cloned().collect();
    sides[0] = Arc::new(RecordedKeysExec::new(Arc::clone(&sides[0]), key, Arc::clone(set)));
    let recompute = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    node.replace_children(sides, recompute).map(Transformed::yes)
}

/// The number of the filter of a join that compares one key, of a type that is recorded, and the key of its build side.
fn single_key(node: &Arc<dyn ExecutionPlan>) -> Result<Option<(u64, Arc<dyn PhysicalExpr>)>> {
    let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(None) };
    let id = node.dynamic_expressions_produced().first().and_then(|filter| filter.expression_id());
    let (Some(id), [(left, right)]) = (id, join.on()) else { return Ok(None) };
    let (left_type, right_type) =
        (left.data_type(&join.left().schema())?, right.data_type(&join.right().schema())?);
    let is_recorded = left_type == right_type && is_recorded(&left_type);
    Ok(is_recorded.then(|| (id, Arc::clone(left))))
}

/// The filters of joins on one column of a table that reach its scan.
fn filters(source: &ParquetSource) -> Vec<(u64, Column)> {
    let predicate = source.filter();
    let parts = predicate.iter().flat_map(split_conjunction);
    let filter = |part: &Arc<dyn PhysicalExpr>| {
        let filter = part.downcast_ref::<DynamicFilterPhysicalExpr>()?;
        let [column] = &*filter.children() else { return None };
        Some((part.expression_id()?, column.downcast_ref::<Column>()?.clone()))
    };
    parts.filter_map(filter).collect()
}

/// The least and the greatest number of a column, by the footers of the files. Where these are wrong, more rows are kept.
fn range(config: &FileScanConfig, column: &Column) -> Option<(i64, i64)> {
    let told = config.statistics();
    let known = told.column_statistics.get(column.index())?;
    Some((number(known.min_value.get_value()?)?, number(known.max_value.get_value()?)?))
}

fn number(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::Int8(value) => value.map(i64::from),
        ScalarValue::Int16(value) => value.map(i64::from),
        ScalarValue::Int32(value) | ScalarValue::Date32(value) => value.map(i64::from),
        ScalarValue::Int64(value) => *value,
        ScalarValue::UInt8(value) => value.map(i64::from),
        ScalarValue::UInt16(value) => value.map(i64::from),
        ScalarValue::UInt32(value) => value.map(i64::from),
        _ => None,
    }
}
