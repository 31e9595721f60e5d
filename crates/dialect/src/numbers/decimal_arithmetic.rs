use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, Datum, Decimal128Array, PrimitiveArray,
};
use datafusion::arrow::compute::{binary, cast, try_binary};
use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Decimal128Type, Decimal256Type, Field,
    FieldRef, i256,
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

/// Arithmetic of decimals, as functions whose results are rounded half up, to the digits that [`DecimalType`] gives them.
///
/// Arrow's own cut quotients off four digits behind the dividend's last; products have all digits behind the point, however few
/// are left before it; and results may have more digits than their type. All of it asks each step whether 128 bits overflow, which numbers
/// of 64 bits cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum DecimalArithmetic {
    Divide,
    Multiply,
    Add,
    Subtract,
}

/// The most digits by which a number of 64 bits is made longer for a sum that 128 bits hold in any case.
const SHORT_DIGITS_MORE_MAX: u32 = 18;

impl DecimalArithmetic {
    /// The function for an operator on decimals; `None` where DataFusion's own result is the same, and as fast.
    pub(crate) fn in_place_of(
        operator: Operator,
        left: &Expr,
        right: &Expr,
        schema: &dyn ExprSchema,
    ) -> Option<Self> {
        let function = match operator {
            Operator::Divide => Self::Divide,
            Operator::Multiply => Self::Multiply,
            Operator::Plus => Self::Add,
            Operator::Minus => Self::Subtract,
            _ => return None,
        };
        let kinds = (left.get_type(schema).ok()?, right.get_type(schema).ok()?);
        let (left, right) = BinaryTypeCoercer::new(&kinds.0, &operator, &kinds.1).get_input_types().ok()?;
        let are_narrow = [&left, &right].iter().all(|kind| matches!(kind, DataType::Decimal128(..)));
        let (left, right) = (DecimalType::of(&left)?, DecimalType::of(&right)?);
        let is_function = match function {
            Self::Divide => true,
            Self::Multiply => {
                let may_be_too_long = left.precision + right.precision >= DECIMAL128_MAX_PRECISION;
                may_be_too_long || !keeps_all_digits(left, right)
            }
            Self::Add | Self::Subtract => are_narrow && left.scale >= 0 && right.scale >= 0,
        };
        is_function.then_some(function)
    }

    pub(crate) fn call(self, left: Expr, right: Expr) -> Expr {
        ScalarUDF::from(self).call(vec![left, right])
    }

    fn operator(self) -> Operator {
        match self {
            Self::Divide => Operator::Divide,
            Self::Multiply => Operator::Multiply,
            Self::Add => Operator::Plus,
            Self::Subtract => Operator::Minus,
        }
    }

    fn result(self, left: &DataType, right: &DataType) -> Result<(DecimalType, DecimalType, DecimalType)> {
        let (Some(left), Some(right)) = (DecimalType::of(left), DecimalType::of(right)) else {
            return internal_err!("{} of {left} and {right}, which are no decimals", self.name());
        };
        let result = match self {
            Self::Divide => left.quotient(right),
            Self::Multiply => left.product(right),
            Self::Add | Self::Subtract => left.sum(right),
        };
        Ok((left, right, result))
    }
}

impl ScalarUDFImpl for DecimalArithmetic {
    fn name(&self) -> &str {
        match self {
            Self::Divide => "decimal_divide",
            Self::Multiply => "decimal_multiply",
            Self::Add => "decimal_add",
            Self::Subtract => "decimal_subtract",
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
            Self::Multiply if keeps_all_digits(left_type, right_type) && are_narrow(left, right) => {
                whole_products(left, right, result)
            }
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
            Self::Add | Self::Subtract => {
                let more = [of_left, of_right].map(|scale| (of_result - scale).unsigned_abs().into());
                whole_sums(left, right, more, if *self == Self::Add { 1 } else { -1 }, result)
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

/// True if a product has all digits behind the point that its factors have, as Arrow's has.
fn keeps_all_digits(left: DecimalType, right: DecimalType) -> bool {
    i16::from(left.product(right).scale) == i16::from(left.scale) + i16::from(right.scale)
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
    let is_narrow = are_narrow(left, right);
    let ((left, left_is_one), (right, right_is_one)) = (left.get(), right.get());
    let computed = if is_narrow {
        let sides = (left.as_primitive(), left_is_one, right.as_primitive(), right_is_one);
        pairwise::<Decimal128Type>(sides, narrow)
    } else {
        let (left, right) = (as_wide(left)?, as_wide(right)?);
        let sides = (left.as_primitive(), left_is_one, right.as_primitive(), right_is_one);
        pairwise::<Decimal256Type>(sides, wide)
    };
    Ok(Arc::new(computed?.with_precision_and_scale(result.precision, result.scale)?))
}

fn are_narrow(left: &dyn Datum, right: &dyn Datum) -> bool {
    [left, right].iter().all(|side| matches!(side.get().0.data_type(), DataType::Decimal128(..)))
}

/// The products of decimals of 128 bits, with all their digits behind the point.
fn whole_products(
    left: &dyn Datum,
    right: &dyn Datum,
    result: DecimalType,
) -> std::result::Result<ArrayRef, ArrowError> {
    // A product of two numbers of 64 bits is at most 2^126, which has 38 digits.
    let can_be_short = result.precision == DECIMAL128_MAX_PRECISION;
    whole(left, right, result, can_be_short.then_some(short_product), i128::checked_mul)
}

/// The sums of decimals of 128 bits, each made longer by so many digits behind the point, the right one with a sign.
fn whole_sums(
    left: &dyn Datum,
    right: &dyn Datum,
    more: [u32; 2],
    sign: i128,
    result: DecimalType,
) -> std::result::Result<ArrayRef, ArrowError> {
    let [of_left, of_right] = more.map(|digits| 10i128.pow(digits));
    let of_right = of_right * sign;
    let can_be_short = more.iter().all(|digits| *digits <= SHORT_DIGITS_MORE_MAX);
    let short = |a, b| short_product(a, of_left).wrapping_add(short_product(b, of_right));
    let exact = |a: i128, b: i128| a.checked_mul(of_left)?.checked_add(b.checked_mul(of_right)?);
    whole(left, right, result, can_be_short.then_some(short), exact)
}

/// The product of two numbers that 64 bits hold.
fn short_product(a: i128, b: i128) -> i128 {
    i128::from(a as i64).wrapping_mul(i128::from(b as i64))
}

/// What arithmetic without rounding makes of each pair of decimals of 128 bits; `short`: of those that 64 bits hold, where the result has no
/// more digits than its type in any case.
fn whole(
    left: &dyn Datum,
    right: &dyn Datum,
    result: DecimalType,
    short: Option<impl Fn(i128, i128) -> i128>,
    exact: impl Fn(i128, i128) -> Option<i128>,
) -> std::result::Result<ArrayRef, ArrowError> {
    let ((left, left_is_one), (right, right_is_one)) = (left.get(), right.get());
    let (left, right) = (left.as_primitive::<Decimal128Type>(), right.as_primitive::<Decimal128Type>());
    let computed = match short {
        Some(short) if are_short(left) && are_short(right) => match (left_is_one, right_is_one) {
            (true, false) if left.is_valid(0) => {
                let left = left.value(0);
                right.unary(|right| short(left, right))
            }
            (false, true) if right.is_valid(0) => {
                let right = right.value(0);
                left.unary(|left| short(left, right))
            }
            (true, false) => Decimal128Array::new_null(right.len()),
            (false, true) => Decimal128Array::new_null(left.len()),
            _ => binary(left, right, short)?,
        },
        _ => {
            let most = 10u128.pow(u32::from(result.precision)) - 1;
            let of = |a: i128, b: i128| {
                exact(a, b).filter(|value| value.unsigned_abs() <= most).ok_or_else(|| {
                    let text = format!("a result of more than {} digits", result.precision);
                    ArrowError::ArithmeticOverflow(text)
                })
            };
            pairwise::<Decimal128Type>((left, left_is_one, right, right_is_one), of)?
        }
    };
    Ok(Arc::new(computed.with_precision_and_scale(result.precision, result.scale)?))
}

/// True if 64 bits hold each value, those under nulls too.
fn are_short(decimals: &Decimal128Array) -> bool {
    let beyond = |value: &i128| i128::from(*value as i64) ^ value;
    decimals.values().iter().fold(0, |bits, value| bits | beyond(value)) == 0
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

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Scalar;

    use super::*;

    const RESULT: DecimalType = DecimalType { precision: 38, scale: 4 };
    const LEAST: i128 = i64::MIN as i128;

    fn decimals(values: &[Option<i128>]) -> Decimal128Array {
        values.iter().copied().collect::<Decimal128Array>().with_precision_and_scale(38, 2).unwrap()
    }

    fn products(left: &dyn Datum, right: &dyn Datum) -> std::result::Result<Vec<Option<i128>>, ArrowError> {
        Ok(whole_products(left, right, RESULT)?.as_primitive::<Decimal128Type>().iter().collect())
    }

    #[test]
    fn products_are_exact_whether_their_factors_are_short_or_long() {
        let short = [Some(3), None, Some(LEAST), Some(-7), Some(i64::MAX.into())];
        let long = [Some(10i128.pow(30)), Some(5), Some(LEAST - 1), None, Some(0)];
        let other = [Some(-2), Some(4), Some(LEAST), Some(9), Some(i64::MAX.into())];
        let exact = |one: &[Option<i128>], other: &[Option<i128>]| -> Vec<Option<i128>> {
            one.iter().zip(other).map(|(one, other)| Some((*one)? * (*other)?)).collect()
        };
        assert_eq!(products(&decimals(&short), &decimals(&other)).unwrap(), exact(&short, &other));
        let small = [Some(7), Some(1), Some(2), Some(1), None];
        assert_eq!(products(&decimals(&long), &decimals(&small)).unwrap(), exact(&long, &small));
        for factor in [Some(5), None] {
            let one = Scalar::new(decimals(&[factor]));
            let all = vec![factor; short.len()];
            assert_eq!(products(&decimals(&short), &one).unwrap(), exact(&short, &all));
            assert_eq!(products(&one, &decimals(&long)).unwrap(), exact(&all, &long));
        }
    }

    #[test]
    fn sums_are_exact_whether_their_terms_are_short_or_long() {
        let short = [Some(3), None, Some(LEAST), Some(-7), Some(i64::MAX.into())];
        let long = [Some(10i128.pow(30)), Some(5), Some(LEAST - 1), None, Some(0)];
        let sums = |left: &dyn Datum, right: &dyn Datum, more: [u32; 2], sign: i128| {
            let sums = whole_sums(left, right, more, sign, RESULT)?;
            Ok::<Vec<_>, ArrowError>(sums.as_primitive::<Decimal128Type>().iter().collect())
        };
        let exact =
            |one: &[Option<i128>], other: &[Option<i128>], more: [u32; 2], sign: i128| -> Vec<Option<i128>> {
                let of = |(one, other): (&Option<i128>, &Option<i128>)| {
                    Some((*one)? * 10i128.pow(more[0]) + (*other)? * 10i128.pow(more[1]) * sign)
                };
                one.iter().zip(other).map(of).collect()
            };
        for (more, sign) in
            [([0, 0], 1), ([0, 0], -1), ([2, 0], -1), ([0, 5], 1), ([18, 0], -1), ([0, 18], 1)]
        {
            for (one, other) in [(short, short), (short, long), (long, short)] {
                let fits = more == [0, 0] || (one == short && other == short);
                if fits {
                    let sums = sums(&decimals(&one), &decimals(&other), more, sign).unwrap();
                    assert_eq!(sums, exact(&one, &other, more, sign), "{more:?} {sign}");
                }
            }
            for term in [Some(1), None] {
                let one = Scalar::new(decimals(&[term]));
                let all = vec![term; short.len()];
                assert_eq!(
                    sums(&one, &decimals(&short), more, sign).unwrap(),
                    exact(&all, &short, more, sign)
                );
                assert_eq!(
                    sums(&decimals(&short), &one, more, sign).unwrap(),
                    exact(&short, &all, more, sign)
                );
            }
        }
        let most = decimals(&[Some(10i128.pow(38) - 1)]);
        assert!(sums(&most, &decimals(&[Some(1)]), [0, 0], 1).is_err());
        assert_eq!(sums(&most, &decimals(&[Some(1)]), [0, 0], -1).unwrap(), [Some(10i128.pow(38) - 2)]);
        assert!(sums(&most, &decimals(&[Some(1)]), [3, 0], 1).is_err(), "128 bits do not hold it");
    }

    #[test]
    fn a_sum_has_one_digit_more_before_the_point() {
        let of = |precision, scale| DecimalType { precision, scale };
        assert_eq!(of(15, 2).sum(of(20, 0)), of(23, 2));
        assert_eq!(of(38, 10).sum(of(38, 2)), of(38, 10));
    }

    #[test]
    fn a_product_of_more_digits_than_its_type_is_an_error_unless_it_is_null() {
        let most = decimals(&[Some(10i128.pow(37))]);
        assert_eq!(products(&most, &decimals(&[Some(9)])).unwrap(), [Some(9 * 10i128.pow(37))]);
        for factor in [10, -10, i128::MAX] {
            assert!(products(&most, &decimals(&[Some(factor)])).is_err(), "{factor}");
        }
        assert_eq!(products(&most, &decimals(&[None])).unwrap(), [None]);
    }
}
