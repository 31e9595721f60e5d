//! Sketches of Apache DataSketches, as Spark has them: bytes that estimate how many different values there are, and quantiles.
//!
//! Counts and quantiles are exact as long as a sketch holds all values (some thousands); beyond that they are estimates within the bounds
//! of the library, and may be others than Spark's.
//!
//! - [`aggregates`]: the functions that make a sketch of rows;
//! - [`functions`]: those of sketches that there are;
//! - [`hll`], [`kll`], [`theta`]: the three kinds of sketches.

mod aggregates;
mod functions;
mod hll;
mod kll;
mod theta;

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use yeoul_base::ErrorKind;

use crate::Error;

/// Adds these functions.
///
/// # Errors
/// Those of the registry.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    for function in functions::Kind::all() {
        state.register_udf(Arc::new(ScalarUDF::from(function)))?;
    }
    for function in aggregates::SketchAggregate::all() {
        state.register_udaf(Arc::new(AggregateUDF::from(function)))?;
    }
    Ok(())
}

/// A sketch that values and other sketches are added to.
trait Collected: std::fmt::Debug + Send + Sync {
    /// Adds the values of a column that are not null.
    ///
    /// # Errors
    /// Those of a value that is no sketch, where sketches are added.
    fn add(&mut self, values: &ArrayRef) -> Result<()>;

    /// Adds what another sketch has seen.
    ///
    /// # Errors
    /// `Invalid` for bytes that are no such sketch.
    fn merge(&mut self, sketch: &[u8]) -> Result<()>;

    /// The bytes of the sketch.
    ///
    /// # Errors
    /// `Invalid` for what no sketch has been added to, where there is no empty one.
    fn bytes(&mut self) -> Result<Vec<u8>>;

    /// Bytes of memory, about.
    fn size(&self) -> usize;
}

/// The error of a function for bytes or parameters that the library refuses.
fn refused(function: &str, error: datasketches::error::Error) -> DataFusionError {
    let text = format!("{function}: {}", error.message());
    let error = Error::new(ErrorKind::Invalid, text).with_source(error);
    error
        .with_hint("its arguments are sketches of the same kind, and parameters within the bounds of Spark")
        .into()
}
