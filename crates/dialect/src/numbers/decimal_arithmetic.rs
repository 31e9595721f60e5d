use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, Datum, Decimal128Array, PrimitiveArray,
};
use datafusion::arrow::compute::{cast, try_binary};
use datafusion::arrow::datatypes::{
    DECIMAL256_MAX_PRECISION, DataType, Decimal128Type, Decimal256Type, Field, FieldRef, i256,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::utils::take_function_args;
use datafusion::common::{DataFusionError, ExprSchema, Result, internal_err};
use datafusion::logical_expr::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr_common::datum::apply;
use serde::{Deserialize, Serialize};

use super::decimal_overflow;
use super::decimal_type::DecimalType;
use super::rounding::Quotient;

/// `/` and `*` of decimals, as functions whose results are rounded half up, to the digits that [`DecimalType`] gives them.
///
/// Arrow's own cut quotients off four digits behind the dividend's last, and products have all digits behind the point, however few
/// are left before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum DecimalArithmetic {
    Divide,
    Multiply,
}

impl DecimalArithmetic {
    /// The function for an operator on decimals of which DataFusion's result would be another; `None` if there is none.
    pub(crate) fn in_place_of(
        operator: Operator,
        left: &Expr,
        right: &Expr,
        schema: &dyn ExprSchema,
    ) -> Option<Self> {
        if !matches!(operator, Operator::Divide | Operator::Multiply) {
            return None;
        }
        let kinds = (left.get_type(schema).ok()?, right.get_type(schema).ok()?);
        let (left, right) = BinaryTypeCoercer::new(&kinds.0, &operator, &kinds.1).get_input_types().ok()?;
        let (left, right) = (DecimalType::of(&left)?, DecimalType::of(&right)?);
        // Arrow's product has all digits behind the point.
        let all_digits = i16::from(left.scale) + i16::from(right.scale);
        match operator {
            Operator::Divide => Some(Self::Divide),
            _ => (i16::from(left.product(right).scale) != all_digits).then_some(Self::Multiply),
        }
    }

    pub(crate) fn call(self, left: Expr, right: Expr) -> Expr {
        ScalarUDF::from(self).call(vec![left, right])
    }

    fn operator(self) -> Operator {
        match self {
            Self::Divide => Operator::Divide,
            Self::Multiply => Operator::Multiply,
        }
    }

    fn result(self, left: &DataType, right: &DataType) -> Result<(DecimalType, DecimalType, DecimalType)> {
        let (Some(left), Some(right)) = (DecimalType::of(left), DecimalType::of(right)) else {
            return internal_err!("{} of {left} and {right}, which are no decimals", self.name());
        };
        let result = match self {
            Self::Divide => left.quotient(right),
            Self::Multiply => left.product(right),
        };
        Ok((left, right, result))
    }
}

impl ScalarUDFImpl for DecimalArithmetic {
    fn name(&self) -> &str {
        match self {
            Self::Divide => "decimal_divide",
            Self::Multiply => "decimal_multiply",
        }
    }

    /// The text of the operator, by which other nodes know the column.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let [left, right] = take_function_args(self.name(), args)?;
        Ok(format!("{} {} {}", left.schema_name(), self.operator(), right.schema_name()))
    }

    fn signature(&self) -> &Signature {
        static OF_DECIMALS: LazyLock<Signature> =
            LazyLock::new(|| Signature::user_defined(Volatility::Immutable));
        &OF_DECIMALS
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let [left, right] = take_function_args(self.name(), kinds)?;
        let (left, right) = BinaryTypeCoercer::new(left, &self.operator(), right).get_input_types()?;
        Ok(vec![widened(left), widened(right)])
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        let [left, right] = take_function_args(self.name(), kinds)?;
        Ok(self.result(left, right)?.2.data_type())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let kinds: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let may_be_null = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&kinds)?, may_be_null)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = take_function_args(self.name(), args.args)?;
        let (left_type, right_type, result) = self.result(&left.data_type(), &right.data_type())?;
        let scales = [left_type.scale, right_type.scale, result.scale].map(i16::from);
        let [of_left, of_right, of_result] = scales;
        let compute = |left: &dyn Datum, right: &dyn Datum| match self {
            Self::Divide => {
                let quotient = Quotient::new(of_result - of_left + of_right, result.precision);
                each(left, right, result, |a, b| quotient.of(a, b), |a, b| quotient.of_wide(a, b))
            }
            Self::Multiply => {
                let scaled = Quotient::new(of_result - of_left - of_right, result.precision);
                let of_wide = |a: i256, b: i256| match a.checked_mul(b) {
                    Some(product) => scaled.of_wide(product, i256::ONE),
                    None => Err(ArrowError::ArithmeticOverflow("a product of decimals".to_owned())),
                };
                let of = |a: i128, b: i128| match a.checked_mul(b) {
                    Some(product) => scaled.of(product, 1),
                    None => of_wide(i256::from_i128(a), i256::from_i128(b)),
                };
                each(left, right, result, of, of_wide)
            }
        };
        apply(&left, &right, compute).map_err(|error| match error {
            DataFusionError::ArrowError(arrow, trace) => match *arrow {
                ArrowError::ArithmeticOverflow(text) => decimal_overflow(&text).into(),
                other => DataFusionError::ArrowError(Box::new(other), trace),
            },
            other => other,
        })
    }
}

/// A decimal of at least 128 bits.
fn widened(kind: DataType) -> DataType {
    match kind {
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(precision, scale)
        }
        other => other,
    }
}

type Computed = std::result::Result<i128, ArrowError>;

/// What a function makes of each pair: of 128 bits if both are, else of 256.
fn each(
    left: &dyn Datum,
    right: &dyn Datum,
    result: DecimalType,
    narrow: impl Fn(i128, i128) -> Computed,
    wide: impl Fn(i256, i256) -> Computed,
) -> std::result::Result<ArrayRef, ArrowError> {
    let ((left, left_is_one), (right, right_is_one)) = (left.get(), right.get());
    let is_narrow = |array: &dyn Array| matches!(array.data_type(), DataType::Decimal128(..));
    let computed = if is_narrow(left) && is_narrow(right) {
        let sides = (left.as_primitive(), left_is_one, right.as_primitive(), right_is_one);
        pairwise::<Decimal128Type>(sides, narrow)
    } else {
        let (left, right) = (as_wide(left)?, as_wide(right)?);
        let sides = (left.as_primitive(), left_is_one, right.as_primitive(), right_is_one);
        pairwise::<Decimal256Type>(sides, wide)
    };
    Ok(Arc::new(computed?.with_precision_and_scale(result.precision, result.scale)?))
}

fn as_wide(array: &dyn Array) -> std::result::Result<ArrayRef, ArrowError> {
    let scale = DecimalType::of(array.data_type()).map_or(0, |decimal| decimal.scale);
    cast(array, &DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale))
}

/// Two arrays, and for each whether its only value stands for as many as the other has.
type Sides<'a, T> = (&'a PrimitiveArray<T>, bool, &'a PrimitiveArray<T>, bool);

fn pairwise<T: ArrowPrimitiveType>(
    (left, left_is_one, right, right_is_one): Sides<'_, T>,
    compute: impl Fn(T::Native, T::Native) -> Computed,
) -> std::result::Result<Decimal128Array, ArrowError> {
    let only = |array: &PrimitiveArray<T>| array.is_valid(0).then(|| array.value(0));
    match (left_is_one, right_is_one) {
        (false, false) | (true, true) => try_binary(left, right, compute),
        (true, false) => match only(left) {
            Some(left) => right.try_unary(|right| compute(left, right)),
            None => Ok(Decimal128Array::new_null(right.len())),
        },
        (false, true) => match only(right) {
            Some(right) => left.try_unary(|left| compute(left, right)),
            None => Ok(Decimal128Array::new_null(left.len())),
        },
    }
}
