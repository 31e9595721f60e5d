//! Values of files that the engine would take for others: a NaN with a sign, which is the least number to DataFusion and not the greatest;
//! what an Arrow file has under a null; the bytes of a UUID.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::Field;
use datafusion::catalog::Session;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use yeoul_dialect::{Identity, contains_float, has_children, one_nan};

use super::uuid_columns;

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
    let may_have_under_null = |field: &Field| format == "arrow" && has_children(field.data_type());
    let needs = |field: &Field| {
        contains_float(field.data_type()) || may_have_under_null(field) || uuid_columns::is_uuid(field)
    };
    if !read.fields().iter().any(|field| needs(field)) {
        return Ok(scan);
    }
    let columns = DFSchema::from_unqualified_fields(read.fields().clone(), HashMap::new())?;
    let exprs = read.fields().iter().map(|field| {
        let mut mended = Expr::from((None, field));
        if may_have_under_null(field) {
            mended = Identity::NullThroughout.call(mended);
        }
        if contains_float(field.data_type()) {
            mended = one_nan(mended);
        }
        if uuid_columns::is_uuid(field) {
            mended = uuid_columns::text_of(mended);
        }
        Ok((state.create_physical_expr(mended, &columns)?, field.name().clone()))
    });
    Ok(Arc::new(ProjectionExec::try_new(exprs.collect::<Result<Vec<_>>>()?, scan)?))
}
