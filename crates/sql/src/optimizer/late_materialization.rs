use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::datasource::physical_plan::{FileScanConfig, FileSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use crate::operators::selective_parquet::SelectiveParquet;

/// Makes Parquet scans with a dynamic filter [`SelectiveParquet`]s. Runs last: other rules match on the scan's type.
#[derive(Debug)]
pub(super) struct LateMaterialization;

impl PhysicalOptimizerRule for LateMaterialization {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if config.execution.parquet.pushdown_filters {
            // Every scan already filters while it decodes.
            return Ok(plan);
        }
        plan.transform_up(|node| match selective(&node)? {
            Some(scan) => Ok(Transformed::yes(scan)),
            None => Ok(Transformed::no(node)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "LateMaterialization"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The scan as a [`SelectiveParquet`], if it is a Parquet scan with a dynamic filter.
fn selective(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(scan) = node.downcast_ref::<DataSourceExec>() else { return Ok(None) };
    let Some((config, source)) = scan.downcast_to_file_source::<ParquetSource>() else { return Ok(None) };
    let Some(predicate) = source.filter() else { return Ok(None) };
    if !has_dynamic_filter(&predicate)? {
        return Ok(None);
    }
    let mut config: FileScanConfig = config.clone();
    config.file_source = Arc::new(SelectiveParquet::new(source));
    Ok(Some(DataSourceExec::from_data_source(config)))
}

fn has_dynamic_filter(predicate: &Arc<dyn PhysicalExpr>) -> Result<bool> {
    let mut found = false;
    predicate.apply(|expr| {
        found |= expr.is::<DynamicFilterPhysicalExpr>();
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}
