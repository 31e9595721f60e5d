use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, make_array};
use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Decimal128Type, Decimal256Type, FieldRef,
    Float16Type, Float32Type, Float64Type,
};
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExpressionPlacement, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use serde::{Deserialize, Serialize};

use super::decimal_overflow;

/// Functions around what an operator gives, which is checked once for all operators in each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum CheckedResult {
    /// A float whose NaN is the one that is greater than all numbers. Processors give one with a sign for `0 / 0`, as `-NaN` is, and
    /// DataFusion takes that for the least.
    OneNan,
    /// The same for a column of a file, whose rows are then mended beside the scan.
    OneNanOfFile,
    /// A decimal that has no more digits than its type. The kernels let one more pass, and texts are written without it.
    Digits,
}

impl CheckedResult {
    /// The check for an operator between operands of a type; `None` if it needs none.
    pub(crate) fn of(operator: Operator, left: &DataType, right: &DataType) -> Option<Self> {
        use Operator::{Divide, Minus, Modulo, Multiply, Plus};
        match (operator, left, right) {
            (Plus | Minus | Multiply | Divide | Modulo, left, _) if left.is_floating() => Some(Self::OneNan),
            (Plus | Minus, DataType::Decimal128(p, s), DataType::Decimal128(q, t)) => {
                let (before, behind) = ((*p as i8 - s).max(*q as i8 - t), *s.max(t));
                (before + behind >= DECIMAL128_MAX_PRECISION as i8).then_some(Self::Digits)
            }
            (Multiply, DataType::Decimal128(p, _), DataType::Decimal128(q, _)) => {
                (p + q >= DECIMAL128_MAX_PRECISION).then_some(Self::Digits)
            }
            (Plus | Minus | Multiply, DataType::Decimal256(..), DataType::Decimal256(..)) => {
                Some(Self::Digits)
            }
            _ => None,
        }
    }

    /// Checks what an expression gives.
    pub(crate) fn call(self, expr: Expr) -> Expr {
        ScalarUDF::from(self).call(vec![expr])
    }

    /// The expression without the check around it.
    pub(crate) fn unchecked(expr: Expr) -> Expr {
        match expr {
            Expr::ScalarFunction(mut call) if call.func.inner().is::<Self>() && call.args.len() == 1 => {
                call.args.swap_remove(0)
            }
            other => other,
        }
    }

    /// Values of a type that has such a check, checked.
    pub(super) fn checked(self, values: ArrayRef) -> Result<ArrayRef> {
        Ok(match values.data_type() {
            _ if self != Self::Digits => with_one_nan(&values)?.unwrap_or(values),
            DataType::Decimal128(precision, _) => {
                let decimals = values.as_primitive::<Decimal128Type>();
                let most = 10u128.pow(u32::from(*precision)) - 1;
                // Those under nulls are asked, too: that is faster, and mostly enough.
                let is_long = |is_any: bool, value: &i128| is_any | (value.unsigned_abs() > most);
                if decimals.values().iter().fold(false, is_long) {
                    decimals
                        .validate_decimal_precision(*precision)
                        .map_err(|_| too_long(DECIMAL128_MAX_PRECISION))?;
                }
                values
            }
            DataType::Decimal256(precision, _) => {
                let decimals = values.as_primitive::<Decimal256Type>();
                decimals
                    .validate_decimal_precision(*precision)
                    .map_err(|_| too_long(DECIMAL256_MAX_PRECISION))?;
                values
            }
            _ => values,
        })
    }
}

fn too_long(digits_max: u8) -> crate::Error {
    decimal_overflow(&format!("a result of more than {digits_max} digits"))
}

/// The values with the one NaN for each other, also within structs, lists and maps; `None` if they are so.
fn with_one_nan(values: &ArrayRef) -> Result<Option<ArrayRef>> {
    type Half = <Float16Type as ArrowPrimitiveType>::Native;
    fn of<T: ArrowPrimitiveType>(
        values: &PrimitiveArray<T>,
        nan: T::Native,
        is_nan: impl Fn(&T::Native) -> bool,
    ) -> Option<ArrayRef> {
        let has_any = values.values().iter().any(&is_nan);
        has_any.then(|| Arc::new(values.unary::<_, T>(|value| if is_nan(&value) { nan } else { value })) as _)
    }
    Ok(match values.data_type() {
        DataType::Float16 => of(values.as_primitive::<Float16Type>(), Half::NAN, |value| value.is_nan()),
        DataType::Float32 => of(values.as_primitive::<Float32Type>(), f32::NAN, |value| value.is_nan()),
        DataType::Float64 => of(values.as_primitive::<Float64Type>(), f64::NAN, |value| value.is_nan()),
        kind if contains_float(kind) => {
            let data = values.to_data();
            let mut children = data.child_data().to_vec();
            let mut has_any = false;
            for child in &mut children {
                if let Some(mended) = with_one_nan(&make_array(child.clone()))? {
                    (*child, has_any) = (mended.to_data(), true);
                }
            }
            match has_any {
                true => Some(make_array(data.into_builder().child_data(children).build()?)),
                false => None,
            }
        }
        _ => None,
    })
}

/// True of floats, and of types that have them within.
pub fn contains_float(kind: &DataType) -> bool {
    use DataType::{
        Dictionary, FixedSizeList, LargeList, LargeListView, List, ListView, Map, RunEndEncoded, Struct,
    };
    match kind {
        kind if kind.is_floating() => true,
        List(of) | ListView(of) | LargeList(of) | LargeListView(of) | FixedSizeList(of, _) | Map(of, _) => {
            contains_float(of.data_type())
        }
        Struct(fields) => fields.iter().any(|field| contains_float(field.data_type())),
        Dictionary(_, of) => contains_float(of),
        RunEndEncoded(_, of) => contains_float(of.data_type()),
        _ => false,
    }
}

/// Values of a file, of which a NaN may have a sign.
pub fn one_nan(column: Expr) -> Expr {
    CheckedResult::OneNanOfFile.call(column)
}

impl ScalarUDFImpl for CheckedResult {
    fn name(&self) -> &str {
        match self {
            Self::OneNan | Self::OneNanOfFile => "one_nan",
            Self::Digits => "digits",
        }
    }

    fn signature(&self) -> &Signature {
        static OF_ONE: LazyLock<Signature> = LazyLock::new(|| Signature::any(1, Volatility::Immutable));
        &OF_ONE
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        let [kind] = take_function_args(self.name(), kinds)?;
        Ok(kind.clone())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let [of] = take_function_args(self.name(), arguments.arg_fields)?;
        Ok(Arc::clone(of))
    }

    fn is_strict(&self) -> bool {
        true
    }

    /// A file's column is mended beside the scan, as by `Identity::NullThroughout`. What an operator gives is checked where it is computed:
    /// where two expressions share it, it is a column to its check, which would compute it once more further below.
    fn placement(&self, arguments: &[ExpressionPlacement]) -> ExpressionPlacement {
        match (self, arguments) {
            (Self::OneNanOfFile, [ExpressionPlacement::Column]) => ExpressionPlacement::MoveTowardsLeafNodes,
            _ => ExpressionPlacement::KeepInPlace,
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = take_function_args(self.name(), arguments.args)?;
        match value {
            ColumnarValue::Array(values) => self.checked(values).map(ColumnarValue::Array),
            ColumnarValue::Scalar(value) => {
                let checked = self.checked(value.to_array()?)?;
                ScalarValue::try_from_array(&checked, 0).map(ColumnarValue::Scalar)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_checked_where_their_results_may_need_it() {
        let of = |operator, left: (u8, i8), right: (u8, i8)| {
            let [left, right] = [left, right].map(|(digits, scale)| DataType::Decimal128(digits, scale));
            CheckedResult::of(operator, &left, &right).is_some()
        };
        assert!(of(Operator::Plus, (38, 0), (1, 0)) && of(Operator::Minus, (30, 10), (28, 0)));
        assert!(!of(Operator::Plus, (37, 2), (37, 2)) && !of(Operator::Multiply, (15, 2), (16, 2)));
        assert!(of(Operator::Multiply, (32, 4), (16, 2)));
        assert_eq!(CheckedResult::of(Operator::Plus, &DataType::Int64, &DataType::Int64), None);
    }
}
