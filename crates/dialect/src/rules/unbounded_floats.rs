use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::datasource::physical_plan::{FileSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::ScalarUDF;
use datafusion::physical_expr::expressions::{Column, IsNotNullExpr, IsNullExpr};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use crate::rewrite::TreeWalk;
use crate::types::identity::Identity;

/// Lets Parquet scans skip nothing for the ranges of floats: NaN, the greatest number to DataFusion, is in none that a file
/// notes. Other columns, and nulls, are asked for as before.
///
/// Runs before `FilteredScans` of `yeoul sql`, which changes the scan's kind.
#[derive(Debug, Default)]
pub(super) struct UnboundedFloats;

impl PhysicalOptimizerRule for UnboundedFloats {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.rewrite_up(&mut |node| match unbounded(&node, config)? {
            Some(scan) => Ok(Transformed::yes(scan)),
            None => Ok(Transformed::no(node)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "UnboundedFloats"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The scan with another filter, if it has one on floats.
fn unbounded(
    node: &Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(scan) = node.downcast_ref::<DataSourceExec>() else { return Ok(None) };
    let Some((files, source)) = scan.downcast_to_file_source::<ParquetSource>() else { return Ok(None) };
    let Some(predicate) = source.filter() else { return Ok(None) };
    let schema = source.table_schema().table_schema();
    // A dynamic filter keeps what is put for its columns here, whatever it is told later.
    let predicate = predicate.rewrite_down(&mut |expr| {
        if expr.is::<IsNullExpr>() || expr.is::<IsNotNullExpr>() {
            return Ok(Transformed::new(expr, false, TreeNodeRecursion::Jump));
        }
        if !expr.is::<Column>() || !expr.data_type(schema)?.is_floating() {
            return Ok(Transformed::no(expr));
        }
        let float = Arc::new(ScalarUDF::from(Identity::AnyFloat));
        let float = ScalarFunctionExpr::try_new(float, vec![expr], schema, Arc::new(config.clone()))?;
        Ok(Transformed::new(Arc::new(float) as Arc<dyn PhysicalExpr>, true, TreeNodeRecursion::Jump))
    })?;
    if !predicate.transformed {
        return Ok(None);
    }
    let mut files = files.clone();
    files.file_source = Arc::new(source.with_predicate(predicate.data));
    Ok(Some(DataSourceExec::from_data_source(files)))
}
