use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, PrimitiveArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, FieldRef, Float32Type, Float64Type, Int64Type,
};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

/// Functions of numbers that DataFusion's forget a case of.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct NumberFunction {
    inner: Arc<ScalarUDF>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// Null of nulls: DataFusion simplifies `power(a, 0)` to 1 and `log(a, 1)` to 0 whatever `a` is (datafusion#24246).
    Power,
    /// `round` of a float at a digit that no float has: DataFusion's is NaN, because the power of ten is infinite.
    Round,
    /// The same of `trunc`.
    Trunc,
}

impl NumberFunction {
    /// Puts these functions in place of DataFusion's.
    ///
    /// # Errors
    /// Those of the registry.
    pub(super) fn register(state: &mut SessionState) -> Result<()> {
        let functions =
            [("power", Kind::Power), ("log", Kind::Power), ("round", Kind::Round), ("trunc", Kind::Trunc)];
        for (name, kind) in functions {
            let function = ScalarUDF::from(Self { inner: state.udf(name)?, kind });
            state.register_udf(Arc::new(function))?;
        }
        Ok(())
    }
}

impl ScalarUDFImpl for NumberFunction {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(kinds)
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        self.inner.return_type(kinds)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(arguments)
    }

    fn is_strict(&self) -> bool {
        self.inner.is_strict()
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let at_digit = match (self.kind, arguments.args.as_slice()) {
            (Kind::Round | Kind::Trunc, [value, digit]) if is_float(&value.data_type()) => {
                Some((value.clone(), digit.clone()))
            }
            _ => None,
        };
        let computed = self.inner.invoke_with_args(arguments)?;
        let Some((value, digit)) = at_digit else { return Ok(computed) };
        let computed = match (computed, &value, &digit) {
            // Most floats are rounded at a digit that they have.
            (ColumnarValue::Scalar(number), _, _) if !is_not_finite(&number) => {
                return Ok(ColumnarValue::Scalar(number));
            }
            (computed, _, _) => computed.into_array(rows)?,
        };
        let (value, digit) = (value.into_array(rows)?, digit.into_array(rows)?);
        let mended: ArrayRef = match value.data_type() {
            DataType::Float32 => Arc::new(mended::<Float32Type>(&computed, &value, &digit)?),
            _ => Arc::new(mended::<Float64Type>(&computed, &value, &digit)?),
        };
        Ok(ColumnarValue::Array(mended))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

fn is_float(kind: &DataType) -> bool {
    matches!(kind, DataType::Float32 | DataType::Float64)
}

fn is_not_finite(number: &ScalarValue) -> bool {
    match number {
        ScalarValue::Float32(Some(number)) => !number.is_finite(),
        ScalarValue::Float64(Some(number)) => !number.is_finite(),
        _ => false,
    }
}

/// What is rounded, but where a finite value has become none: it has no such digit. Behind the last one it stays as it is, before the first
/// one it is 0.
fn mended<T: ArrowPrimitiveType<Native: Into<f64> + Default>>(
    computed: &ArrayRef,
    value: &ArrayRef,
    digit: &ArrayRef,
) -> Result<PrimitiveArray<T>> {
    let digit = cast(digit, &DataType::Int64)?;
    let rows = computed
        .as_primitive::<T>()
        .iter()
        .zip(value.as_primitive::<T>())
        .zip(digit.as_primitive::<Int64Type>());
    Ok(rows
        .map(|((computed, value), digit)| match (computed, value, digit) {
            (Some(computed), Some(value), Some(digit))
                if !computed.into().is_finite() && value.into().is_finite() =>
            {
                Some(if digit < 0 { T::Native::default() } else { value })
            }
            _ => computed,
        })
        .collect())
}
