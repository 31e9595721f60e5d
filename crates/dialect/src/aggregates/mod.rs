//! Aggregate functions that DataFusion has not.
//!
//! - [`value_counts`]: `mode`, `histogram` and `entropy`, of how often each value occurs;
//! - [`moments`]: the arithmetic of `skewness` and `kurtosis`; [`moment_functions`]: these functions, and `product`.

mod moment_functions;
mod moments;
mod value_counts;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::AggregateUDF;
use datafusion::logical_expr::function::AccumulatorArgs;
use yeoul_base::ErrorKind;

use crate::Error;

/// Adds these functions.
///
/// # Errors
/// Those of the registry.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    let of_counts = value_counts::ValueCounts::ALL.map(AggregateUDF::from);
    let of_moments = moment_functions::MomentFunction::ALL.map(AggregateUDF::from);
    for function in of_counts.into_iter().chain(of_moments) {
        state.register_udaf(Arc::new(function))?;
    }
    Ok(())
}

/// Refuses `DISTINCT` in a call of one of these.
fn refuse_distinct(name: &str, call: &AccumulatorArgs<'_>) -> Result<()> {
    if call.is_distinct {
        let text = format!("not supported: DISTINCT in {name}");
        let hint =
            format!("take the different values first: SELECT {name}(x) FROM (SELECT DISTINCT x FROM t)");
        return Err(Error::new(ErrorKind::Invalid, text).with_hint(hint).into());
    }
    Ok(())
}
