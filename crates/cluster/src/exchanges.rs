//! Exchanges between stages: operators of Ballista that divide rows by a hash, or read rows so divided.

use std::sync::Arc;

use ballista_core::execution_plans::sort_shuffle::SortShuffleWriterExec;
use ballista_core::execution_plans::{ShuffleReaderExec, UnresolvedShuffleExec};
use datafusion::common::Result;
use datafusion::physical_expr::expressions::{Column, UnKnownColumn};
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

/// The reader without the hash that it tells of, if that is of columns which its rows lack: a join that leaves its keys out is divided by
/// them all the same, and there is no message for such a column. `None` for another operator.
///
/// # Errors
/// None but for a fault of ours.
pub(crate) fn without_lost_hash(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if node.is::<SortShuffleWriterExec>() {
        return Ok(None);
    }
    match node.output_partitioning() {
        Partitioning::Hash(by, count) if by.iter().any(|by| by.is::<UnKnownColumn>()) => {
            divided(node, Partitioning::UnknownPartitioning(*count))
        }
        _ => Ok(None),
    }
}

/// An exchange that divides rows by `by`, and is else as `node` is. `None` for what is no exchange.
///
/// # Errors
/// None but for a fault of ours.
pub(crate) fn divided(
    node: &Arc<dyn ExecutionPlan>,
    by: Partitioning,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(writer) = node.downcast_ref::<SortShuffleWriterExec>() {
        let writer = SortShuffleWriterExec::try_new(
            writer.job_id().clone(),
            writer.stage_id(),
            Arc::clone(node.children()[0]),
            String::new(), // the executor's, once it is there
            by,
            writer.config().clone(),
        )?;
        return Ok(Some(Arc::new(writer)));
    }
    let schema = node.schema();
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

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::Schema;
    use datafusion::prelude::SessionContext;
    use datafusion_proto::physical_plan::AsExecutionPlan;
    use datafusion_proto::protobuf::PhysicalPlanNode;
    use prost::Message;

    use super::*;
    use crate::PlanCodec;

    #[test]
    fn a_reader_of_rows_that_a_lost_column_divides_can_be_sent() {
        let lost: Arc<dyn PhysicalExpr> = Arc::new(UnKnownColumn::new("key"));
        let by = Partitioning::Hash(vec![lost], 3);
        let reader: Arc<dyn ExecutionPlan> =
            Arc::new(UnresolvedShuffleExec::new(1, Arc::new(Schema::empty()), by));
        let codec = PlanCodec::new().unwrap();
        let written = PhysicalPlanNode::try_from_physical_plan(reader, &codec).unwrap().encode_to_vec();
        let arrives = codec.read(&written, &SessionContext::new().task_ctx()).unwrap();
        assert!(matches!(arrives.output_partitioning(), Partitioning::UnknownPartitioning(3)));
    }
}
