//! Numbers that are exact or an error: integers that do not wrap around, decimals that are rounded and not cut off.
//!
//! - [`decimal_type`]: how many digits a quotient, a product and an average of decimals have;
//! - [`decimal_texts`]: texts beside decimals, which keep their digits;
//! - [`rounding`]: quotients of integers, rounded half up;
//! - [`decimal_arithmetic`]: `/` and `*` of decimals, as functions;
//! - [`checked_integers`]: `+`, `-`, `*` and unary `-` of integers, as functions that fail where the result does not fit;
//! - [`checked_results`]: digits and NaNs of what operators give;
//! - [`exact_sum`]: `sum` of integers and decimals; [`sums`]: what it adds up in;
//! - [`counted_rows`]: the rows that an aggregate counts;
//! - [`exact_average`]: `avg` of decimals;
//! - [`exact_percentile`]: `percentile_cont` with all digits of its fraction; [`exact_median`]: `median` of decimals;
//! - [`float_aggregates`]: sums, averages and statistics of floats; [`float_frames`]: those of frames that slide;
//! - [`float_decimals`]: decimals beside floats, which are floats;
//! - [`float_digits`]: floats as decimals in Spark's dialect;
//! - [`float_zeros`]: -0.0 and 0.0 as one key of sorts and windows;
//! - [`float_extremes`]: `min` and `max` of floats by groups;
//! - [`number_functions`]: `power` and `log` of nulls, `round` at any digit;
//! - [`quotients`]: plans `/` and `*` of decimals with these functions;
//! - [`regression`]: the function `regr_r2`;
//! - [`spark_operators`]: `/` and `div` of Spark; [`spark_ceilings`]: its `ceil` and `floor` at a digit; [`spark_numbers`]: its functions; [`spark_random`]: its random numbers.
//!
//! [`exact_numbers`] puts the functions in place of the operators; [`framed_accumulator`]: accumulators of DataFusion's of which one thing
//! is done otherwise.

pub(crate) mod checked_integers;
pub(crate) mod checked_results;
mod counted_rows;
pub(crate) mod decimal_arithmetic;
mod decimal_texts;
mod decimal_type;
mod exact_average;
mod exact_median;
pub(crate) mod exact_numbers;
mod exact_percentile;
pub(crate) mod exact_sum;
mod float_aggregates;
pub(crate) mod float_decimals;
pub(crate) mod float_digits;
pub(crate) mod float_extremes;
mod float_frames;
pub(crate) mod float_zeros;
pub mod framed_accumulator;
mod integer_division;
mod number_functions;
mod quotients;
mod regression;
mod rounding;
mod spark_bits;
pub(crate) mod spark_ceilings;
mod spark_numbers;
pub(crate) mod spark_operators;
mod spark_random;
mod sums;

pub use checked_results::{contains_float, one_nan};

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::AggregateUDF;
use yeoul_base::ErrorKind;

use crate::Error;

/// Puts these functions in place of DataFusion's.
///
/// # Errors
/// Those of the registry.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    state.register_expr_planner(Arc::new(quotients::ExactQuotients))?;
    state.register_expr_planner(Arc::new(integer_division::IntegerDivision))?;
    number_functions::NumberFunction::register(state)?;
    for function in spark_numbers::Kind::all()
        .chain(spark_bits::Kind::all())
        .chain(spark_random::SparkRandom::all())
        .chain(spark_ceilings::CeilingAt::all())
    {
        state.register_udf(Arc::new(function))?;
    }
    let signum = state.udf("signum")?;
    state.register_udf(Arc::new(signum.as_ref().clone().with_aliases(["sign"])))?;
    state.register_udaf(Arc::new(AggregateUDF::from(exact_sum::ExactSum::new())))?;
    state.register_udaf(Arc::new(AggregateUDF::from(exact_average::ExactAverage::new())))?;
    state.register_udaf(Arc::new(AggregateUDF::from(exact_median::ExactMedian::new())))?;
    state.register_udaf(Arc::new(AggregateUDF::from(regression::RegrR2::new())))?;
    state.register_udaf(Arc::new(AggregateUDF::from(exact_percentile::ExactPercentile::new())))?;
    float_aggregates::FloatAggregate::register(state)?;
    Ok(())
}

/// The error of integers whose sum, difference or product does not fit their type.
fn integer_overflow(what: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("integer overflow: {what}")).with_hint(
        "cast to a larger type, such as DECIMAL(38, 0); after SET yeoul.wrap_integers = true integers wrap around",
    )
}

/// The error of a decimal that has more digits than its type.
fn decimal_overflow(what: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("decimal overflow: {what}"))
        .with_hint("cast to a decimal with fewer digits behind the point, or to DOUBLE")
}
