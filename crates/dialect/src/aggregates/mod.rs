//! Aggregate functions that DataFusion has not, or not so.
//!
//! - [`bitmaps`]: bitmaps of Spark; [`numeric_histogram`]: `histogram_numeric`; [`ranked_values`]: values by their rank;
//! - [`value_counts`]: `mode`, `histogram` and `entropy`, of how often each value occurs;
//! - [`ordered_texts`]: `string_agg` in any order;
//! - [`moments`]: the arithmetic of `skewness` and `kurtosis`; [`moment_functions`]: these functions, and `product`.

mod bitmaps;
mod moment_functions;
mod moments;
mod numeric_histogram;
mod ordered_texts;
mod ranked_values;
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
    let of_ranks = ranked_values::RankedValue::ALL.map(AggregateUDF::from);
    let of_bits = bitmaps::Bitmap::ALL.map(AggregateUDF::from);
    state.register_udaf(Arc::new(numeric_histogram::NumericHistogram.into()))?;
    state.register_udaf(Arc::new(ordered_texts::OrderedTexts::default().into()))?;
    state.register_udf(Arc::new(bitmaps::BitmapCount.into()))?;
    for function in of_counts.into_iter().chain(of_moments).chain(of_ranks).chain(of_bits) {
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
