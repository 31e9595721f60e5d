use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

/// `power` and `log` of nulls, which are null: DataFusion simplifies `power(a, 0)` to 1 and `log(a, 1)` to 0 whatever `a` is
/// (datafusion#24246).
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct NullPower(Arc<ScalarUDF>);

impl NullPower {
    /// Puts these functions in place of DataFusion's.
    ///
    /// # Errors
    /// Those of the registry.
    pub(super) fn register(state: &mut SessionState) -> Result<()> {
        for name in ["power", "log"] {
            let function = ScalarUDF::from(Self(state.udf(name)?));
            state.register_udf(Arc::new(function))?;
        }
        Ok(())
    }
}

impl ScalarUDFImpl for NullPower {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(kinds)
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        self.0.return_type(kinds)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        self.0.return_field_from_args(arguments)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.0.output_ordering(inputs)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.0.invoke_with_args(arguments)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }
}
