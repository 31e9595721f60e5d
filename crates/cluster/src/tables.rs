//! Rows of a session's tables. Each statement that has inserted some left them with its own schema, and on the wire all have that of the first:
//! a column without nulls there would have none later.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::physical_plan::ExecutionPlan;

/// The plan, in which all rows of a table have the table's schema.
///
/// # Errors
/// Arrow's, for rows that are not of the table.
pub(crate) fn with_one_schema(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let with_one_schema = plan.transform_up(|node| {
        let scan = node.downcast_ref::<DataSourceExec>().map(DataSourceExec::data_source);
        let Some(rows) = scan.and_then(|scan| scan.downcast_ref::<MemorySourceConfig>()) else {
            return Ok(Transformed::no(node));
        };
        let schema = rows.original_schema();
        let is_of_table = rows.partitions().iter().flatten().all(|batch| batch.schema() == schema);
        // Rows that are known to be in an order were not inserted.
        if is_of_table || !rows.sort_information().is_empty() {
            return Ok(Transformed::no(node));
        }
        let named = rows.partitions().iter().map(|batches| {
            let named = batches.iter().map(|batch| Ok(batch.clone().with_schema(Arc::clone(&schema))?));
            named.collect::<Result<Vec<_>>>()
        });
        let named = MemorySourceConfig::try_new(
            &named.collect::<Result<Vec<_>>>()?,
            Arc::clone(&schema),
            rows.projection().clone(),
        )?;
        let named = named.with_limit(rows.fetch()).with_show_sizes(rows.show_sizes());
        Ok(Transformed::yes(DataSourceExec::from_data_source(named) as Arc<dyn ExecutionPlan>))
    });
    with_one_schema.data()
}
