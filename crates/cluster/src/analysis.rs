//! `EXPLAIN ANALYZE` of a query on a cluster: it runs, its rows are counted, and its stages are shown.

use std::sync::Arc;

use ballista_core::serde::protobuf::ExecuteQueryParams;
use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use futures::TryStreamExt;

use crate::job::{Job, rows};
use crate::token::SchedulerAddress;

/// The stages of a query that has run, a row each: what its tasks took and wrote, and its operators.
///
/// # Errors
/// Those of the query.
pub(crate) async fn stages(
    scheduler: SchedulerAddress,
    mut query: ExecuteQueryParams,
    schema: SchemaRef,
) -> Result<RecordBatch> {
    query.operation_id = uuid::Uuid::new_v4().to_string();
    let mut job = Job::submit(&scheduler, query).await?;
    let places = job.finished().await?;
    let mut rows = Box::pin(rows(places, scheduler.to_executors()));
    while rows.try_next().await?.is_some() {}
    let stages = job.stages().await?.stages;
    let lines: ArrayRef = Arc::new(StringArray::from_iter_values(stages.iter().map(|stage| stage.line())));
    let plans: ArrayRef = Arc::new(StringArray::from_iter_values(stages.iter().map(|stage| &stage.plan)));
    Ok(RecordBatch::try_new(schema, vec![lines, plans])?)
}
