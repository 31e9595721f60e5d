use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue, Statistics};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileOpener, FileScanConfig, FileSource, ParquetSource};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr, InListExpr};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_datasource::morsel::{MorselPlanner, Morselizer};
use object_store::ObjectStore;

/// The share of rows kept up to which it is faster to decode the filter's columns first and the others only for those
/// rows: at TPC-H scale 1 on lineitem, keeping 0.1 % takes 0.7 of the time of decoding all, and keeping 5 % takes 1.3.
const SHARE_KEPT_MAX: f64 = 0.01;

/// A Parquet scan that decides for each file, when it is about to read it, whether to filter rows while it decodes.
///
/// A hash join pushes its build keys into the scan of its probe side once the build side is complete. Whether they keep
/// one row in a thousand or one in five is not known when the query is planned, but it is when the first file is read.
#[derive(Clone)]
pub(crate) struct SelectiveParquet {
    /// Decodes all columns; uses the filter only to skip row groups and pages.
    plain: ParquetSource,
    /// Decodes the filter's columns first, and the others only for the rows that it keeps.
    selective: ParquetSource,
}

impl SelectiveParquet {
    pub(crate) fn new(source: &ParquetSource) -> Self {
        Self { plain: source.clone(), selective: source.clone().with_pushdown_filters(true) }
    }

    fn like(plain: &Arc<dyn FileSource>) -> Option<Self> {
        plain.downcast_ref::<ParquetSource>().map(Self::new)
    }
}

impl FileSource for SelectiveParquet {
    fn create_file_opener(
        &self,
        store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        self.plain.create_file_opener(store, config, partition)
    }

    fn create_morselizer(
        &self,
        store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Box<dyn Morselizer>> {
        Ok(Box::new(SelectiveMorselizer {
            plain: self.plain.create_morselizer(Arc::clone(&store), config, partition)?,
            selective: self.selective.create_morselizer(store, config, partition)?,
            predicate: self.plain.filter(),
            schema: Arc::clone(self.plain.table_schema().table_schema()),
        }))
    }

    fn table_schema(&self) -> &TableSchema {
        self.plain.table_schema()
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        let plain = self.plain.with_batch_size(batch_size);
        Self::like(&plain).map_or(plain, |source| Arc::new(source))
    }

    fn filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        self.plain.filter()
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        self.plain.projection()
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        self.plain.metrics()
    }

    fn file_type(&self) -> &str {
        self.plain.file_type()
    }

    fn fmt_extra(&self, display: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        self.plain.fmt_extra(display, f)
    }

    fn reorder_files(&self, files: Vec<PartitionedFile>) -> Vec<PartitionedFile> {
        self.plain.reorder_files(files)
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.plain.apply_expressions(visit)
    }
}

#[derive(Debug)]
struct SelectiveMorselizer {
    plain: Box<dyn Morselizer>,
    selective: Box<dyn Morselizer>,
    predicate: Option<Arc<dyn PhysicalExpr>>,
    schema: Arc<Schema>,
}

impl Morselizer for SelectiveMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        let share = match (&self.predicate, &file.statistics) {
            (Some(predicate), Some(statistics)) => share_kept(predicate, &self.schema, statistics)?,
            _ => None,
        };
        if share.is_some_and(|share| share <= SHARE_KEPT_MAX) {
            self.selective.plan_file(file)
        } else {
            self.plain.plan_file(file)
        }
    }
}

/// An estimate of the share of rows that match the join keys known by now: the number of keys over the width of the
/// column's range, which is right for keys that are numbered, as surrogate keys are. `None` where it is unknown.
fn share_kept(
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
