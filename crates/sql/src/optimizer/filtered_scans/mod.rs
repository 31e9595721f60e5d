//! Scans that ask conditions and filters of their rows, and joins that record their keys for them.

use std::sync::Arc;

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::datasource::physical_plan::parquet::can_expr_be_pushed_down_with_schemas;
use datafusion::datasource::physical_plan::{FileScanConfig, FileSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr};
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use yeoul_dialect::settings::Switch;

mod join_keys;

use super::safe_conditions::is_safe;
use crate::memory::measured_function::makes_large_values;
use crate::operators::filtered_parquet::FilteredParquet;
use crate::operators::filtered_parquet::conditions::{Condition, Kind};
use crate::operators::recorded_keys::{IsRecorded, KeySet};
use join_keys::{JoinKey, JoinKeys};

/// Makes Parquet scans with filters, and the filters directly above them, [`FilteredParquet`]s. Other rules match on the scan's type, and
/// run before.
#[derive(Debug)]
pub(super) struct FilteredScans;

impl PhysicalOptimizerRule for FilteredScans {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !Switch::FilterScans.is_on(config) {
            return Ok(plan);
        }
        let keys = join_keys::sets(&plan)?;
        plan.transform_down(|node| {
            let scan = match node.downcast_ref::<FilterExec>() {
                Some(filter) => filtered(filter.input(), Some(filter), &keys)?,
                None => filtered(&node, None, &keys)?,
            };
            Ok(match scan {
                Some(scan) => Transformed::new(scan, true, TreeNodeRecursion::Jump),
                None => join_keys::recording(node, &keys)?,
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "FilteredScans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A scan that also asks what a filter above it asks, or `None` where this is not a scan whose rows may be asked.
fn filtered(
    node: &Arc<dyn ExecutionPlan>,
    filter: Option<&FilterExec>,
    keys: &JoinKeys,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(scan) = node.downcast_ref::<DataSourceExec>() else { return Ok(None) };
    let Some((config, source)) = scan.downcast_to_file_source::<ParquetSource>() else { return Ok(None) };
    // A limit counts rows that are kept: no filter of another operator may drop some of them before.
    let is_limited = config.limit.is_some() || filter.is_some_and(|filter| filter.fetch().is_some());
    // The operators above rely on columns that a filter makes constant where rows come in an order.
    let is_ordered = filter.is_some() && !config.output_ordering.is_empty();
    let has_virtual_columns = !source.table_schema().virtual_columns().is_empty();
    if is_limited || is_ordered || has_virtual_columns || source.parquet_file_reader_factory().is_none() {
        return Ok(None);
    }
    let Some(asked) = Asked::of(source, filter)? else { return Ok(None) };
    if asked.is_empty() {
        return Ok(None);
    }
    let Some(read) = asked.columns.source(source)? else { return Ok(None) };
    let count = source.projection().map_or(0, |projection| projection.as_ref().len());
    let output = match filter.and_then(|filter| filter.projection().as_ref()) {
        Some(output) => output.to_vec(),
        None => (0..count).collect(),
    };
    let conditions = asked.conditions(keys)?;
    let is_divided = !is_read_in_another_order(source);
    let mut config: FileScanConfig = config.clone();
    config.file_source = Arc::new(FilteredParquet::new(read, output, conditions, is_divided));
    Ok(Some(DataSourceExec::from_data_source(config)))
}

/// True of a source that reads row groups by their statistics, or from the last to the first. It tells nobody else.
fn is_read_in_another_order(source: &ParquetSource) -> bool {
    let told = format!("{source:?}");
    told.contains("reverse_row_groups: true") || told.contains("sort_order_for_reorder: Some")
}

/// The columns that a scan reads.
struct ReadColumns {
    table: SchemaRef,
    exprs: Vec<ProjectionExpr>,
    /// Columns of the scan itself; those behind are read for conditions only.
    count: usize,
}

impl ReadColumns {
    /// A condition on columns of the table as one on the columns that are read.
    fn on_batch(&mut self, condition: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let placed = Arc::clone(condition).transform_down(|expr| {
            let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
            let at = self.place(column);
            Ok(Transformed::new(Arc::new(Column::new(column.name(), at)) as _, true, TreeNodeRecursion::Jump))
        });
        placed.data()
    }

    /// The place of a column of the table, which is read from now on.
    fn place(&mut self, column: &Column) -> usize {
        let is_it = |read: &ProjectionExpr| {
            read.expr.downcast_ref::<Column>().is_some_and(|other| other.index() == column.index())
        };
        self.exprs.iter().position(is_it).unwrap_or_else(|| {
            let expr = Arc::new(column.clone()) as Arc<dyn PhysicalExpr>;
            self.exprs.push(ProjectionExpr::new(expr, column.name()));
            self.exprs.len() - 1
        })
    }

    /// A condition on the columns that are read as one on columns of the table, if none of its columns is computed.
    fn on_table(&self, condition: &Arc<dyn PhysicalExpr>) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let columns = collect_columns(condition);
        if columns.iter().any(|column| !self.exprs[column.index()].expr.is::<Column>()) {
            return Ok(None);
        }
        let placed = Arc::clone(condition).transform_down(|expr| match expr.downcast_ref::<Column>() {
            Some(column) => {
                let column = Arc::clone(&self.exprs[column.index()].expr);
                Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
            }
            None => Ok(Transformed::no(expr)),
        });
        placed.data().map(Some)
    }

    /// The source with these columns. `None` if it has to be made anew, and its order would be lost.
    fn source(&self, source: &ParquetSource) -> Result<Option<ParquetSource>> {
        let source = source.clone().with_pushdown_filters(false);
        if self.exprs.len() == self.count {
            return Ok(Some(source));
        }
        let (Some(readers), false) =
            (source.parquet_file_reader_factory(), is_read_in_another_order(&source))
        else {
            return Ok(None);
        };
        let options = source.table_parquet_options().clone();
        let mut wide = ParquetSource::new(source.table_schema().clone())
            .with_parquet_file_reader_factory(Arc::clone(readers));
        if let Some(bytes) = options.global.metadata_size_hint {
            wide = wide.with_metadata_size_hint(bytes);
        }
        wide = wide.with_table_parquet_options(options);
        if let Some(filter) = source.filter() {
            wide = wide.with_predicate(filter);
        }
        let wide = wide.try_pushdown_projection(&ProjectionExprs::new(self.exprs.iter().cloned()))?;
        Ok(wide.and_then(|wide| wide.downcast_ref::<ParquetSource>().cloned()))
    }

    fn schema(&self) -> Result<Schema> {
        ProjectionExprs::new(self.exprs.iter().cloned()).project_schema(&self.table)
    }
}

/// Conditions of the rows of a scan.
struct Asked {
    columns: ReadColumns,
    /// The query's own conditions, on the columns that are read.
    own: Vec<Arc<dyn PhysicalExpr>>,
    /// Filters of other operators, on the columns that are read.
    filters: Vec<Arc<dyn PhysicalExpr>>,
}

impl Asked {
    /// Conditions of a source, and then of a filter above it; `None` where both have to stay as they are.
    fn of(source: &ParquetSource, filter: Option<&FilterExec>) -> Result<Option<Self>> {
        let Some(projection) = source.projection() else { return Ok(None) };
        let exprs: Vec<ProjectionExpr> = projection.iter().cloned().collect();
        // The memory of large values that are gathered is asked for by the operators above.
        if exprs.iter().any(|read| makes_large_values(&read.expr)) {
            return Ok(None);
        }
        let count = exprs.len();
        let table = Arc::clone(source.table_schema().table_schema());
        let mut asked =
            Self { columns: ReadColumns { table, exprs, count }, own: Vec::new(), filters: Vec::new() };
        let predicate = source.filter();
        let parts = predicate.iter().flat_map(split_conjunction);
        let (filters, own): (Vec<_>, Vec<_>) = parts.partition(|part| part.is::<DynamicFilterPhysicalExpr>());
        if source.table_parquet_options().global.pushdown_filters && !own.is_empty() {
            // What is computed of the rows of the answer must not be computed of others.
            let is_computed = asked.columns.exprs.iter().any(|read| !read.expr.is::<Column>());
            if is_computed || own.iter().any(|part| is_volatile(part)) {
                return Ok(None);
            }
            for part in own {
                let part = asked.columns.on_batch(part)?;
                asked.own.push(part);
            }
        }
        if let Some(filter) = filter {
            if is_volatile(filter.predicate()) {
                return Ok(None);
            }
            asked.own.extend(split_conjunction(filter.predicate()).into_iter().cloned());
        }
        for filter in filters {
            // What an operator computes of a row may fail, and floats are equal to others than a filter knows.
            if filter.children().into_iter().all(|child| child.is::<Column>()) {
                let filter = asked.columns.on_batch(filter)?;
                asked.filters.push(filter);
            }
        }
        Ok(Some(asked))
    }

    fn is_empty(&self) -> bool {
        self.own.is_empty() && self.filters.is_empty()
    }

    /// The conditions, the query's own in the order in which it has them.
    fn conditions(&self, keys: &JoinKeys) -> Result<Vec<Condition>> {
        let schema = self.columns.schema()?;
        let is_safe = |condition: &Arc<dyn PhysicalExpr>| is_safe(condition, &schema);
        let may_fail = self.own.iter().any(|condition| !is_safe(condition));
        let own = self.own.iter().map(|condition| {
            let kind = if is_safe(condition) { Kind::Own } else { Kind::Fallible };
            let on_table = match kind {
                Kind::Own => self.while_decoding(condition, &schema)?,
                _ => None,
            };
            Condition::new(Arc::clone(condition), on_table, kind, None, &schema)
        });
        let filters = self.filters.iter().map(|filter| {
            // Otherwise it would depend on what is measured whether a condition fails.
            let on_table = if may_fail { None } else { self.while_decoding(filter, &schema)? };
            let keys = sole_key(filter).and_then(|key| keys.get(&key)).cloned();
            Condition::new(Arc::clone(filter), on_table, Kind::Filter, keys, &schema)
        });
        // Of several keys, each is asked for by itself, which takes less time than to ask for all together.
        let recorded = self.filters.iter().filter(|filter| sole_key(filter).is_none());
        let recorded = recorded.flat_map(|filter| recorded_keys(filter, keys)).map(|(recorded, set)| {
            let on_table = if may_fail { None } else { self.while_decoding(&recorded, &schema)? };
            Condition::new(recorded, on_table, Kind::Filter, Some(set), &schema)
        });
        own.chain(recorded).chain(filters).collect()
    }

    /// A condition on columns of the table, if a reader can ask it while it decodes. Floats are not among them: it would skip row groups
    /// with NaN.
    fn while_decoding(
        &self,
        condition: &Arc<dyn PhysicalExpr>,
        schema: &Schema,
    ) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let is_float = |column: &Column| schema.field(column.index()).data_type().is_floating();
        if collect_columns(condition).iter().any(is_float) {
            return Ok(None);
        }
        let on_table = self.columns.on_table(condition)?;
        Ok(on_table.filter(|condition| can_expr_be_pushed_down_with_schemas(condition, &self.columns.table)))
    }
}

/// The key of a filter of a join that has one.
fn sole_key(filter: &Arc<dyn PhysicalExpr>) -> Option<JoinKey> {
    (filter.children().len() == 1).then(|| Some((filter.expression_id()?, 0)))?
}

/// The conditions that columns which a filter of a join compares are among the recorded keys.
fn recorded_keys(
    filter: &Arc<dyn PhysicalExpr>,
    keys: &JoinKeys,
) -> Vec<(Arc<dyn PhysicalExpr>, Arc<KeySet>)> {
    let Some(id) = filter.expression_id() else { return Vec::new() };
    let columns = filter.children().into_iter().enumerate();
    let recorded = columns.filter_map(|(place, column)| {
        let set = keys.get(&(id, place))?;
        Some((Arc::new(IsRecorded::new(Arc::clone(column), Arc::clone(set))) as _, Arc::clone(set)))
    });
    recorded.collect()
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field};
    use datafusion::common::stats::Precision;
    use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
    use datafusion::datasource::listing::PartitionedFile;
    use datafusion::datasource::physical_plan::FileScanConfigBuilder;
    use datafusion::datasource::physical_plan::parquet::DefaultParquetFileReaderFactory;
    use datafusion::execution::object_store::ObjectStoreUrl;
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{binary, col, lit};
    use datafusion::physical_plan::filter::FilterExecBuilder;
    use object_store::memory::InMemory;

    use super::super::estimates::{of_plan, work};
    use super::*;

    /// 73,000 days of 200 years.
    fn days() -> SchemaRef {
        let field = |name: &str| Field::new(name, DataType::Int64, true);
        Arc::new(Schema::new(vec![field("day"), field("year")]))
    }

    fn of_one_year() -> Arc<dyn PhysicalExpr> {
        binary(col("year", &days()).unwrap(), Operator::Eq, lit(2001i64), &days()).unwrap()
    }

    fn scan(source: ParquetSource) -> Arc<dyn ExecutionPlan> {
        let told = |min, max| {
            let bound = |value| Precision::Exact(ScalarValue::Int64(Some(value)));
            ColumnStatistics::new_unknown()
                .with_min_value(bound(min))
                .with_max_value(bound(max))
                .with_null_count(Precision::Exact(0))
        };
        let statistics = Statistics {
            num_rows: Precision::Exact(73_000),
            total_byte_size: Precision::Absent,
            column_statistics: vec![told(0, 72_999), told(1900, 2099)],
        };
        let readers = DefaultParquetFileReaderFactory::new(Arc::new(InMemory::new()));
        let source = source.with_parquet_file_reader_factory(Arc::new(readers));
        let config = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), Arc::new(source))
            .with_file(PartitionedFile::new("days.parquet", 1_000_000))
            .with_statistics(statistics);
        DataSourceExec::from_data_source(config.build())
    }

    fn above(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let filter = FilterExecBuilder::new(of_one_year(), plan).apply_projection(Some(vec![0]));
        Arc::new(filter.unwrap().build().unwrap())
    }

    /// What is shared, and joined in which order, must not depend on who asks a condition.
    #[test]
    fn a_scan_that_asks_a_condition_has_as_few_rows_as_a_filter_above_it() {
        let config = ConfigOptions::default();
        let filter = above(scan(ParquetSource::new(days())));
        let asking = FilteredScans.optimize(Arc::clone(&filter), &config).unwrap();
        assert!(asking.is::<DataSourceExec>(), "{asking:?}");
        let source = ParquetSource::new(days()).with_predicate(of_one_year()).with_pushdown_filters(true);
        for plan in [&filter, &asking, &scan(source)] {
            let estimate = of_plan(plan).unwrap();
            assert!((360.0..370.0).contains(&estimate.rows), "{}", estimate.rows);
            assert!(work(plan).unwrap() > 20_000.0, "all rows are read");
        }
    }
}
