//! `lpad` and `rpad`, of which DataFusion's reserve memory for a negative length as if it were the largest of all.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, Int64Array};
use datafusion::arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

/// DataFusion's function of a text, a length and what fills it up.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Pad(Arc<ScalarUDF>);

/// Replaces DataFusion's functions.
///
/// # Errors
/// Those of the registry.
pub(super) fn register(state: &mut SessionState) -> Result<()> {
    for name in ["lpad", "rpad"] {
        let pad = Pad(state.udf(name)?);
        state.register_udf(Arc::new(pad.into()))?;
    }
    Ok(())
}

impl ScalarUDFImpl for Pad {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        self.0.return_type(kinds)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        self.0.return_field_from_args(arguments)
    }

    fn invoke_with_args(&self, mut arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match arguments.args.get_mut(1) {
            Some(ColumnarValue::Array(lengths)) => {
                if let Some(signed) = lengths.as_primitive_opt::<Int64Type>() {
                    let lengths_from_0: Int64Array = signed.unary(|length| length.max(0));
                    *lengths = Arc::new(lengths_from_0);
                }
            }
            Some(ColumnarValue::Scalar(ScalarValue::Int64(Some(length)))) => *length = (*length).max(0),
            _ => {}
        }
        self.0.invoke_with_args(arguments)
    }

    fn is_strict(&self) -> bool {
        self.0.is_strict()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }
}
