//! JSON in texts: a value is read where it stands, without a tree of it, so that neither its depth nor its size takes memory.
//!
//! `datafusion-functions-json` has some of these names with other meanings: null for a text that is no JSON, unions of types for values,
//! and no paths.
//!
//! - [`document`]: a value in a text;
//! - [`path`]: paths as in DuckDB; [`spark_path`]: as in Spark;
//! - [`functions`]: DuckDB's functions; [`spark_functions`]: Spark's; [`spark_documents`]: those of whole documents;
//! - [`ddl`]: schemas as texts; [`typed_values`]: values as columns of a type; [`written_values`]: values as JSON and CSV;
//! - [`rows`]: the rows of a call.

mod ddl;
mod document;
mod functions;
mod path;
mod rows;
pub(crate) mod spark_documents;
mod spark_functions;
mod spark_path;
mod typed_values;
mod written_values;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::ScalarUDF;

use self::functions::JsonFunction;
use self::spark_documents::Document;
use self::spark_functions::SparkFunction;

/// Adds these functions.
///
/// # Errors
/// Those of the registry.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    for function in JsonFunction::ALL {
        state.register_udf(Arc::new(ScalarUDF::from(function)))?;
    }
    for function in SparkFunction::ALL {
        state.register_udf(Arc::new(ScalarUDF::from(function)))?;
    }
    for function in Document::ALL {
        state.register_udf(Arc::new(ScalarUDF::from(function)))?;
    }
    Ok(())
}
