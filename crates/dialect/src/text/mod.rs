//! Functions of texts that DataFusion has not.
//!
//! - [`hex`]: `hex` and `unhex`;
//! - [`regexp_extract`]: parts of a text that match a regular expression;
//! - [`rows`]: functions that are computed row by row.

mod hex;
mod regexp_extract;
mod rows;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::ScalarUDF;

/// Adds these functions.
///
/// # Errors
/// Those of the registry.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    for function in [
        ScalarUDF::from(hex::Hex::default()),
        ScalarUDF::from(hex::Unhex::default()),
        ScalarUDF::from(regexp_extract::RegexpExtract::one()),
        ScalarUDF::from(regexp_extract::RegexpExtract::all()),
    ] {
        state.register_udf(Arc::new(function))?;
    }
    Ok(())
}
