//! The share of a file's rows that the keys of a join keep, before any is read.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue, Statistics};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr, InListExpr};

/// An estimate of the share of rows that match the join keys known by now: the number of keys over the width of the
/// column's range, which is right for keys that are numbered, as surrogate keys are. `None` where it is unknown.
pub(super) fn share_kept(
    predicate: &Arc<dyn PhysicalExpr>,
    schema: &Schema,
    statistics: &Statistics,
) -> Result<Option<f64>> {
    let mut keys: HashMap<String, usize> = HashMap::new();
    predicate.apply(|expr| {
        let Some(filter) = expr.downcast_ref::<DynamicFilterPhysicalExpr>() else {
            return Ok(TreeNodeRecursion::Continue);
        };
        filter.current()?.apply(|known| {
            if let Some(list) = known.downcast_ref::<InListExpr>().filter(|list| !list.negated())
                && let Some(column) = list.expr().downcast_ref::<Column>()
            {
                // The join has a list per partition; together they are its keys.
                *keys.entry(column.name().to_owned()).or_default() += list.len();
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(TreeNodeRecursion::Jump)
    })?;
    let shares = keys.iter().filter_map(|(column, keys)| {
        let statistics = statistics.column_statistics.get(schema.index_of(column).ok()?)?;
        let range = integer(statistics.max_value.get_value()?)? - integer(statistics.min_value.get_value()?)?;
        Some(*keys as f64 / (range as f64 + 1.0))
    });
    Ok(shares.min_by(f64::total_cmp))
}

fn integer(value: &ScalarValue) -> Option<i128> {
    match value {
        ScalarValue::Int32(Some(value)) => Some((*value).into()),
        ScalarValue::Int64(Some(value)) => Some((*value).into()),
        ScalarValue::UInt32(Some(value)) => Some((*value).into()),
        ScalarValue::UInt64(Some(value)) => Some((*value).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field};
    use datafusion::common::ColumnStatistics;
    use datafusion::common::stats::Precision;
    use datafusion::physical_expr::expressions::{in_list, lit};

    use super::*;

    fn keys(count: i64, schema: &Schema) -> Arc<dyn PhysicalExpr> {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new("key", 1));
        in_list(column, (0..count).map(lit).collect(), &false, schema).unwrap()
    }

    fn setting() -> (Schema, Statistics) {
        let field = |name: &str| Field::new(name, DataType::Int64, false);
        let schema = Schema::new(vec![field("other"), field("key")]);
        let mut statistics = Statistics::new_unknown(&schema);
        statistics.column_statistics[1] = ColumnStatistics::new_unknown()
            .with_min_value(Precision::Exact(ScalarValue::Int64(Some(1))))
            .with_max_value(Precision::Exact(ScalarValue::Int64(Some(1000))));
        (schema, statistics)
    }

    #[test]
    fn the_share_is_known_when_the_join_has_told_its_keys_and_not_before() {
        let (schema, statistics) = setting();
        let filter =
            Arc::new(DynamicFilterPhysicalExpr::new(vec![Arc::new(Column::new("key", 1))], lit(true)));
        let predicate = Arc::clone(&filter) as Arc<dyn PhysicalExpr>;
        assert_eq!(share_kept(&predicate, &schema, &statistics).unwrap(), None);
        filter.update(keys(20, &schema)).unwrap();
        assert_eq!(share_kept(&predicate, &schema, &statistics).unwrap(), Some(0.02));
    }

    #[test]
    fn a_list_that_the_query_wrote_itself_does_not_count() {
        let (schema, statistics) = setting();
        assert_eq!(share_kept(&keys(3, &schema), &schema, &statistics).unwrap(), None);
    }

    #[test]
    fn a_column_without_a_known_range_tells_nothing() {
        let (schema, _) = setting();
        let filter = DynamicFilterPhysicalExpr::new(vec![Arc::new(Column::new("key", 1))], keys(3, &schema));
        let predicate: Arc<dyn PhysicalExpr> = Arc::new(filter);
        assert_eq!(share_kept(&predicate, &schema, &Statistics::new_unknown(&schema)).unwrap(), None);
    }
}
