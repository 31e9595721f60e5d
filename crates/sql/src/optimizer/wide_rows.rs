use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use crate::operators::batch_rows::BatchRowsExec;

/// Gives all operators above a scan whose batches have few rows, because these are wide, batches of no more.
///
/// DataFusion's operators put batches together until they have 8192 rows, whatever these weigh.
#[derive(Debug)]
pub(super) struct WideRows;

impl PhysicalOptimizerRule for WideRows {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let mut least: Option<usize> = None;
        plan.apply(|node| {
            let scan = node.downcast_ref::<DataSourceExec>();
            let config = scan.and_then(|scan| scan.data_source().downcast_ref::<FileScanConfig>());
            if let Some(rows) = config.and_then(|config| config.batch_size) {
                least = Some(least.map_or(rows, |least| least.min(rows)));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        let Some(rows) = least.filter(|_| !plan.is::<DataSourceExec>()) else { return Ok(plan) };
        let plan = plan.transform_up(|node| {
            Ok(match node.downcast_ref::<BatchRowsExec>().and_then(|batches| batches.with_at_most(rows)) {
                Some(fewer) => Transformed::yes(Arc::new(fewer) as Arc<dyn ExecutionPlan>),
                None => Transformed::no(node),
            })
        });
        Ok(Arc::new(BatchRowsExec::new(plan.data()?, rows)))
    }

    fn name(&self) -> &str {
        "WideRows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
