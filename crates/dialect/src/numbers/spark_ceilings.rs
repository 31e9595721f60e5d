//! `ceil(x, digit)` and `floor(x, digit)` of Spark: the nearest decimal above or below that has no more digits behind a place.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Int64Array};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, Float64Type};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use yeoul_base::ErrorKind;

use super::decimal_overflow;
use crate::Error;
use crate::signatures::USER_DEFINED;
use crate::text::rows::invoke;
use crate::types::type_name;

/// The most digits of a decimal.
const PRECISION_MAX: i32 = 38;

/// `spark_ceil_at(x, digit)` and `spark_floor_at(x, digit)`. Without a digit the answer is a whole number: a BIGINT, if `x` is no decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CeilingAt {
    Above,
    Below,
}

impl CeilingAt {
    /// Both functions.
    pub(super) fn all() -> impl Iterator<Item = ScalarUDF> {
        [Self::Above, Self::Below].into_iter().map(ScalarUDF::from)
    }

    /// The name of the function.
    pub(crate) const fn function(self) -> &'static str {
        match self {
            Self::Above => "spark_ceil_at",
            Self::Below => "spark_floor_at",
        }
    }

    /// Whole numbers of floats, 0 of NaN; integers as they are.
    fn whole(self, values: &ArrayRef) -> Result<ArrayRef> {
        if *values.data_type() == DataType::Int64 {
            return Ok(Arc::clone(values));
        }
        let whole = |value: f64| {
            let rounded = if self == Self::Above { value.ceil() } else { value.floor() };
            // The bounds are powers of two, which a float holds.
            let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded);
            if !fits && !value.is_nan() {
                return Err(Error::new(ErrorKind::Invalid, format!("{value} does not fit a BIGINT")));
            }
            Ok(rounded as i64)
        };
        let values = values.as_primitive::<Float64Type>().iter();
        let wholes = values.map(|value| value.map(whole).transpose());
        Ok(Arc::new(wholes.collect::<Result<Int64Array, Error>>()?))
    }

    /// The digits of a value with another number of them behind the point. `None` for more than fit.
    fn rounded(self, value: i128, scale: i32, digit: i32) -> Option<i128> {
        if digit >= scale {
            return Some(value);
        }
        // A power of ten that does not fit is greater than each value.
        let unit = u32::try_from(scale - digit).ok().and_then(|power| 10_i128.checked_pow(power));
        let below = unit.map_or(if value < 0 { -1 } else { 0 }, |unit| value.div_euclid(unit));
        let is_exact = unit.map_or(value == 0, |unit| value.rem_euclid(unit) == 0);
        let units = below + i128::from(self == Self::Above && !is_exact);
        match u32::try_from(-digit) {
            Ok(zeros) if units != 0 => units.checked_mul(10_i128.checked_pow(zeros)?),
            _ => Some(units),
        }
    }
}

/// The type of the answer, as Spark has it: a digit more before the point, and none more behind it than asked for.
fn rounded_type(precision: u8, scale: i8, digit: i32) -> DataType {
    let before = i32::from(precision) - i32::from(scale) + 1;
    let (precision, scale) = if digit < 0 {
        (before.max(1 - digit), 0)
    } else {
        let scale = i32::from(scale).min(digit);
        (before + scale, scale)
    };
    let precision = u8::try_from(precision.min(PRECISION_MAX)).unwrap_or(38);
    DataType::Decimal128(precision, i8::try_from(scale).unwrap_or(0))
}

/// A digit that is not farther from the point than a decimal reaches.
fn digit_of(value: &ScalarValue) -> Option<i32> {
    let digit = match value {
        ScalarValue::Int32(digit) => (*digit)?,
        ScalarValue::Int64(digit) => i32::try_from((*digit)?).ok()?,
        _ => return None,
    };
    (-PRECISION_MAX..=PRECISION_MAX).contains(&digit).then_some(digit)
}

impl ScalarUDFImpl for CeilingAt {
    fn name(&self) -> &str {
        self.function()
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let (value, digit) = match kinds {
            [DataType::Decimal128(..)] => return Ok(kinds.to_vec()),
            [kind] if kind.is_integer() => return Ok(vec![DataType::Int64]),
            [kind] if kind.is_floating() || kind.is_string() || kind.is_null() => {
                return Ok(vec![DataType::Float64]);
            }
            [value, digit] => (value, digit),
            _ => return plan_err!("ceil and floor take a number, and a digit"),
        };
        if !digit.is_integer() {
            return plan_err!("the digit of ceil and floor is an integer");
        }
        let value = match value {
            DataType::Decimal128(precision, scale) => DataType::Decimal128(*precision, *scale),
            DataType::Int8 => DataType::Decimal128(3, 0),
            DataType::Int16 => DataType::Decimal128(5, 0),
            DataType::Int32 => DataType::Decimal128(10, 0),
            DataType::Int64 => DataType::Decimal128(20, 0),
            other => {
                let text = format!("not supported: ceil or floor of a {} at a digit", type_name(other));
                let error = Error::new(ErrorKind::Invalid, text);
                return Err(error.with_hint("cast the number to a DECIMAL with its digits").into());
            }
        };
        Ok(vec![value, digit.clone()])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        plan_err!("the type of {} follows from its arguments", self.function())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let digit = match arguments.scalar_arguments {
            [_] => Some(0),
            [_, digit] => digit.and_then(digit_of),
            _ => None,
        };
        let kind = match (arguments.arg_fields[0].data_type(), digit) {
            (DataType::Decimal128(precision, scale), Some(digit)) => rounded_type(*precision, *scale, digit),
            (_, Some(_)) if arguments.arg_fields.len() == 1 => DataType::Int64,
            _ => {
                let text = "the digit of ceil and floor is a constant from -38 to 38";
                return Err(Error::new(ErrorKind::Invalid, text)
                    .with_hint("write ceil(x, 2), or ceil(x) for a whole number")
                    .into());
            }
        };
        Ok(Arc::new(Field::new(self.name(), kind, true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let [ColumnarValue::Scalar(_) | ColumnarValue::Array(_)] = arguments.args.as_slice()
            && *arguments.return_field.data_type() == DataType::Int64
        {
            return invoke(&arguments, |arrays| self.whole(&arrays[0]));
        }
        let (DataType::Decimal128(_, scale), DataType::Decimal128(precision, new_scale)) =
            (arguments.args[0].data_type(), arguments.return_field.data_type().clone())
        else {
            return plan_err!("{} takes a decimal", self.function());
        };
        let digit = match arguments.args.get(1) {
            None => Some(0),
            Some(ColumnarValue::Scalar(digit)) => digit_of(digit),
            Some(ColumnarValue::Array(_)) => None,
        };
        let Some(digit) = digit else { return plan_err!("{} takes a constant digit", self.function()) };
        let most = 10_i128.pow(u32::from(precision));
        let row = |value: i128| {
            let found = self.rounded(value, scale.into(), digit).filter(|found| found.abs() < most);
            found.ok_or_else(|| decimal_overflow("a result has more than 38 digits"))
        };
        invoke(&arguments, |arrays| {
            let values = arrays[0].as_primitive::<Decimal128Type>().iter();
            let rounded = values.map(|value| value.map(row).transpose());
            let rounded = rounded.collect::<Result<Decimal128Array, Error>>()?;
            Ok(Arc::new(rounded.with_precision_and_scale(precision, new_scale)?) as ArrayRef)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers are those of Spark's tests.
    #[test]
    fn decimals_are_rounded_to_one_side_at_a_digit() {
        for (value, scale, digit, above, below) in [
            (-35, 2, 1, -3, -4),
            (25, 1, 0, 3, 2),
            (-25, 1, 0, -2, -3),
            (314_115, 5, -3, 1000, 0),
            (-35, 0, -1, -30, -40),
            (99, 0, -1, 100, 90),
            (1234, 2, 4, 1234, 1234),
            (-1, 37, -38, 0, -(10_i128.pow(38))),
        ] {
            assert_eq!(CeilingAt::Above.rounded(value, scale, digit), Some(above), "{value}");
            assert_eq!(CeilingAt::Below.rounded(value, scale, digit), Some(below), "{value}");
        }
    }

    #[test]
    fn an_answer_has_a_digit_more_before_the_point() {
        assert_eq!(rounded_type(2, 1, 0), DataType::Decimal128(2, 0));
        assert_eq!(rounded_type(6, 5, -3), DataType::Decimal128(4, 0));
        assert_eq!(rounded_type(10, 0, -1), DataType::Decimal128(11, 0));
        assert_eq!(rounded_type(38, 0, 2), DataType::Decimal128(38, 0));
    }
}
