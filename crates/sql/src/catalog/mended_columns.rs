//! Values of files that the engine would take for others: a NaN with a sign, which is the least number to DataFusion and not the greatest;
//! what an Arrow file has under a null.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::Field;
use datafusion::catalog::Session;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use yeoul_dialect::{Identity, has_children, one_nan};

/// The rows of a scan of files of this format, with such values mended.
///
/// # Errors
/// DataFusion's, for a function that it does not plan.
pub(super) fn mended(
    format: &str,
    scan: Arc<dyn ExecutionPlan>,
    state: &dyn Session,
) -> Result<Arc<dyn ExecutionPlan>> {
    let read = scan.schema();
    let needs = |field: &Field| {
        field.data_type().is_floating() || (format == "arrow" && has_children(field.data_type()))
    };
    if !read.fields().iter().any(|field| needs(field)) {
        return Ok(scan);
    }
    let columns = DFSchema::from_unqualified_fields(read.fields().clone(), HashMap::new())?;
    let exprs = read.fields().iter().map(|field| {
        let column = Expr::from((None, field));
        let mended = match field.data_type() {
            _ if !needs(field) => column,
            kind if kind.is_floating() => one_nan(column),
            _ => Identity::NullThroughout.call(column),
        };
        Ok((state.create_physical_expr(mended, &columns)?, field.name().clone()))
    });
    Ok(Arc::new(ProjectionExec::try_new(exprs.collect::<Result<Vec<_>>>()?, scan)?))
}
