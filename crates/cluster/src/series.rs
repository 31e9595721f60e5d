//! Generated rows without a column, of which only the count matters: DataFusion's message of them has all columns.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::memory::LazyMemoryExec;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

/// The plan, in which generated rows have their columns, and a projection leaves them out.
///
/// # Errors
/// The generator's own.
pub(crate) fn with_columns(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let with_columns = plan.transform_up(|node| {
        let Some(rows) =
            node.downcast_ref::<LazyMemoryExec>().filter(|rows| rows.schema().fields().is_empty())
        else {
            return Ok(Transformed::no(node));
        };
        let fresh = || rows.generators().iter().map(|rows| rows.read().reset_state());
        let schema = fresh().find_map(|rows| match rows.write().generate_next_batch() {
            Ok(batch) => batch.map(|batch| Ok(batch.schema())),
            Err(error) => Some(Err(error)),
        });
        let Some(schema) = schema.transpose()? else {
            return Ok(Transformed::yes(Arc::new(EmptyExec::new(rows.schema())) as Arc<dyn ExecutionPlan>));
        };
        let all = Arc::new(LazyMemoryExec::try_new(schema, fresh().collect())?);
        let none = ProjectionExec::try_new(Vec::<ProjectionExpr>::new(), all)?;
        Ok(Transformed::yes(Arc::new(none) as Arc<dyn ExecutionPlan>))
    });
    with_columns.data()
}
