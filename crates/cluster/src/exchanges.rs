//! Exchanges between stages: operators of Ballista that divide rows by a hash, or read rows so divided.

use std::sync::Arc;

use ballista_core::execution_plans::sort_shuffle::SortShuffleWriterExec;
use ballista_core::execution_plans::{ShuffleReaderExec, UnresolvedShuffleExec};
use datafusion::common::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

/// Expressions that an exchange hashes, if Ballista's codec cannot write it: it knows columns, and no functions but DataFusion's own.
pub(crate) fn hashed(node: &dyn ExecutionPlan) -> Option<&[Arc<dyn PhysicalExpr>]> {
    let partitioning = match node.downcast_ref::<SortShuffleWriterExec>() {
        Some(writer) => writer.shuffle_output_partitioning(),
        None if node.is::<ShuffleReaderExec>() || node.is::<UnresolvedShuffleExec>() => {
            &node.properties().partitioning
        }
        None => return None,
    };
    match partitioning {
        Partitioning::Hash(by, _) if !by.iter().all(|by| by.is::<Column>()) => Some(by),
        _ => None,
    }
}

/// An exchange that hashes `by`, and is else as `node` is. `None` for what is no exchange by a hash.
///
/// # Errors
/// None but for a fault of ours.
pub(crate) fn hashing(
    node: &Arc<dyn ExecutionPlan>,
    by: Vec<Arc<dyn PhysicalExpr>>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(writer) = node.downcast_ref::<SortShuffleWriterExec>() {
        let count = writer.shuffle_output_partitioning().partition_count();
        let input = Arc::clone(node.children()[0]);
        let writer = SortShuffleWriterExec::try_new(
            writer.job_id().clone(),
            writer.stage_id(),
            input,
            String::new(), // the executor's, once it is there
            Partitioning::Hash(by, count),
            writer.config().clone(),
        )?;
        return Ok(Some(Arc::new(writer)));
    }
    let Partitioning::Hash(_, count) = node.output_partitioning() else { return Ok(None) };
    let (by, schema) = (Partitioning::Hash(by, *count), node.schema());
    if let Some(reader) = node.downcast_ref::<ShuffleReaderExec>() {
        let (stage, places) = (reader.stage_id, reader.partition.clone());
        let reader = match reader.coalesce.clone() {
            Some(merged) => ShuffleReaderExec::try_new_coalesced(stage, places, merged, schema, by)?,
            None => ShuffleReaderExec::try_new(stage, places, schema, by)?,
        };
        return Ok(Some(Arc::new(reader)));
    }
    let Some(reader) = node.downcast_ref::<UnresolvedShuffleExec>() else { return Ok(None) };
    Ok(Some(Arc::new(match reader.coalesce.clone() {
        Some(merged) => UnresolvedShuffleExec::new_coalesced(reader.stage_id, schema, by, merged),
        None => UnresolvedShuffleExec::new(reader.stage_id, schema, by),
    })))
}
