//! Functions that are computed row by row.

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};

/// Calls a function with its arguments as arrays of one length. The answer to constants is one.
pub(crate) fn invoke(
    arguments: &ScalarFunctionArgs,
    call: impl FnOnce(&[ArrayRef]) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    let is_constant = arguments.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
    let answer = call(&ColumnarValue::values_to_arrays(&arguments.args)?)?;
    Ok(if is_constant {
        ColumnarValue::Scalar(ScalarValue::try_from_array(&answer, 0)?)
    } else {
        ColumnarValue::Array(answer)
    })
}
