//! Functions of lists and maps that only Spark has.
//!
//! - [`aggregate`]: a fold by a lambda;
//! - [`picked`]: lists of the elements of others;
//! - [`spark_lists`]: functions of lists; [`spark_maps`]: functions of maps; [`spark_zips`]: several lists as one.

pub(crate) mod aggregate;
mod picked;
mod spark_lists;
mod spark_maps;
mod spark_zips;

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::HigherOrderUDF;
use datafusion::logical_expr::type_coercion::binary::type_union_coercion;
use yeoul_base::ErrorKind;

use crate::Error;

/// Adds these functions.
///
/// # Errors
/// Those of the registry.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    for function in spark_lists::Kind::all().chain(spark_maps::Kind::all()) {
        state.register_udf(Arc::new(function))?;
    }
    state.register_udf(Arc::new(spark_zips::ArraysZip.into()))?;
    state.register_higher_order_function(Arc::new(HigherOrderUDF::new_from_impl(aggregate::Aggregate)))?;
    Ok(())
}

/// The one type of keys or elements that meet: as in Spark, or an error where Spark would round them or make texts of them.
///
/// # Errors
/// `Invalid` for types that have none.
fn common_type(function: &str, left: &DataType, right: &DataType) -> Result<DataType> {
    let refused = || {
        let (left, right) = (crate::types::type_name(left), crate::types::type_name(right));
        let text = format!("not supported: {function} of {left} and {right}");
        DataFusionError::from(Error::new(ErrorKind::Invalid, text).with_hint("cast them to one type"))
    };
    if left == right {
        return Ok(left.clone());
    }
    let is_other =
        |one: &DataType, other: &DataType| one.is_string() && !other.is_string() && !other.is_null();
    if is_other(left, right) || is_other(right, left) {
        return Err(refused());
    }
    let exact = |kind: &DataType| {
        let digits = match kind {
            DataType::Decimal128(precision, scale) => {
                return Some((precision.checked_add_signed(-*scale)?, *scale));
            }
            DataType::Int8 => 3,
            DataType::Int16 => 5,
            DataType::Int32 => 10,
            DataType::Int64 => 20,
            _ => return None,
        };
        Some((digits, 0))
    };
    let is_decimal = |kind: &DataType| matches!(kind, DataType::Decimal128(..));
    if let (Some((before, scale)), Some((other, behind))) = (exact(left), exact(right))
        && (is_decimal(left) || is_decimal(right))
    {
        let (before, scale) = (before.max(other), scale.max(behind));
        let precision = before.saturating_add_signed(scale);
        return if precision <= 38 { Ok(DataType::Decimal128(precision, scale)) } else { Err(refused()) };
    }
    type_union_coercion(left, right).ok_or_else(refused)
}
