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

/// A key of a join: the number of the filter with which the join filters scans, and the place of the key among the join's.
pub(super) type JoinKey = (u64, usize);

/// The keys of joins that are recorded.
pub(super) type JoinKeys = HashMap<JoinKey, Arc<KeySet>>;

/// The sets that joins can fill, one for each key: of those whose filter reaches a scan that knows the range of the key's column.
pub(super) fn sets(plan: &Arc<dyn ExecutionPlan>) -> Result<JoinKeys> {
    let mut ranges: HashMap<JoinKey, Option<(i64, i64)>> = HashMap::new();
    let mut partitions: HashMap<JoinKey, usize> = HashMap::new();
    plan.apply(|node| {
        for (key, _) in keys_of(node)? {
            partitions.insert(key, node.children()[0].output_partitioning().partition_count());
        }
        let scan = node.downcast_ref::<DataSourceExec>();
        if let Some((config, source)) =
            scan.and_then(DataSourceExec::downcast_to_file_source::<ParquetSource>)
        {
            for (key, column) in filtered_columns(source) {
                let range = range(config, &column);
                let joined = |known: &Option<(i64, i64)>| {
                    known.zip(range).map(|(known, range)| (known.0.min(range.0), known.1.max(range.1)))
                };
                let known = ranges.get(&key).map_or(range, joined);
                ranges.insert(key, known);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let set = |(key, range): (JoinKey, Option<(i64, i64)>)| {
        let (first, last) = range?;
        Some((key, Arc::new(KeySet::new(first, last, *partitions.get(&key)?)?)))
    };
    Ok(ranges.into_iter().filter_map(set).collect())
}

/// A join that records its keys if these are asked for, or the node itself.
pub(super) fn recording(
    node: Arc<dyn ExecutionPlan>,
    keys: &JoinKeys,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let recorded: Vec<_> =
        keys_of(&node)?.into_iter().filter_map(|(at, key)| Some((key, keys.get(&at)?))).collect();
    if recorded.is_empty() {
        return Ok(Transformed::no(node));
    }
    let mut sides: Vec<Arc<dyn ExecutionPlan>> = node.children().into_iter().cloned().collect();
    for (key, set) in recorded {
        sides[0] = Arc::new(RecordedKeysExec::new(Arc::clone(&sides[0]), key, Arc::clone(set)));
    }
    let recompute = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    node.replace_children(sides, recompute).map(Transformed::yes)
}

/// The keys of a join's build side that have a type that is recorded.
fn keys_of(node: &Arc<dyn ExecutionPlan>) -> Result<Vec<(JoinKey, Arc<dyn PhysicalExpr>)>> {
    let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(Vec::new()) };
    let filters = node.dynamic_expressions_produced();
    let Some((filter, id)) = filters.first().and_then(|filter| Some((filter, filter.expression_id()?)))
    else {
        return Ok(Vec::new());
    };
    let compared = filter.children();
    let mut keys = Vec::new();
    for (place, (left, right)) in join.on().iter().enumerate() {
        let (left_type, right_type) =
            (left.data_type(&join.left().schema())?, right.data_type(&join.right().schema())?);
        // A scan knows the places of keys by the filter.
        let is_in_place = compared.get(place).is_some_and(|key| key.eq(&right));
        if is_in_place && left_type == right_type && is_recorded(&left_type) {
            keys.push(((id, place), Arc::clone(left)));
        }
    }
    Ok(keys)
}

/// The columns of a table that filters of joins which reach its scan compare, with the keys that these are compared with.
fn filtered_columns(source: &ParquetSource) -> Vec<(JoinKey, Column)> {
    let mut columns = Vec::new();
    for part in source.filter().iter().flat_map(split_conjunction) {
        let filter = part.downcast_ref::<DynamicFilterPhysicalExpr>();
        let Some((filter, id)) = filter.zip(part.expression_id()) else { continue };
        for (place, key) in filter.children().into_iter().enumerate() {
            columns.extend(key.downcast_ref::<Column>().map(|column| ((id, place), column.clone())));
        }
    }
    columns
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
