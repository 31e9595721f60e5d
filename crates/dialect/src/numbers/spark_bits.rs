//! Functions of the bits of integers, and of floats, that only Spark has, with the names of [`Kind`].

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int8Array, Int32Array, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};
use yeoul_base::ErrorKind;

use crate::Error;
use crate::signatures::USER_DEFINED;
use crate::text::rows::invoke;

/// A function of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// `spark_bit_get(x, place)`: a bit of an integer, places count from the lowest, 0.
    BitGet,
    /// `spark_shift_left(x, bits)` of an INT or BIGINT: of the number of bits the low five or six count.
    ShiftLeft,
    /// `spark_shift_right(x, bits)`, with the sign.
    ShiftRight,
    /// `spark_shift_right_unsigned(x, bits)`.
    ShiftRightUnsigned,
    /// `spark_hypot(x, y)`.
    Hypot,
    /// `spark_rint(x)`: the nearest whole number, the even one of two.
    Rint,
    /// `spark_expm1(x)`.
    Expm1,
    /// `spark_log1p(x)`: null of -1 and less.
    Log1p,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::BitGet,
        Self::ShiftLeft,
        Self::ShiftRight,
        Self::ShiftRightUnsigned,
        Self::Hypot,
        Self::Rint,
        Self::Expm1,
        Self::Log1p,
    ];

    /// All of these functions.
    pub(super) fn all() -> impl Iterator<Item = ScalarUDF> {
        Self::ALL.into_iter().map(ScalarUDF::from)
    }

    const fn arguments(self) -> usize {
        match self {
            Self::Rint | Self::Expm1 | Self::Log1p => 1,
            _ => 2,
        }
    }

    fn run(self, arrays: &[ArrayRef]) -> Result<ArrayRef> {
        let float = |at: usize| arrays[at].as_primitive::<Float64Type>();
        let bits = || arrays[1].as_primitive::<Int32Type>();
        match self {
            Self::BitGet => bits_at(&arrays[0], bits()),
            Self::ShiftLeft | Self::ShiftRight | Self::ShiftRightUnsigned => {
                Ok(self.shifted(&arrays[0], bits()))
            }
            Self::Hypot => {
                let pairs = float(0).iter().zip(float(1));
                Ok(Arc::new(pairs.map(|(x, y)| Some(x?.hypot(y?))).collect::<Float64Array>()))
            }
            Self::Rint => {
                let rounded = float(0).iter().map(|value| value.map(f64::round_ties_even));
                Ok(Arc::new(rounded.collect::<Float64Array>()))
            }
            Self::Expm1 => {
                Ok(Arc::new(float(0).iter().map(|value| value.map(f64::exp_m1)).collect::<Float64Array>()))
            }
            Self::Log1p => {
                let logarithms = float(0)
                    .iter()
                    .map(|value| value.filter(|value| *value > -1.0 || value.is_nan()).map(f64::ln_1p));
                Ok(Arc::new(logarithms.collect::<Float64Array>()))
            }
        }
    }

    fn shifted(self, values: &ArrayRef, bits: &Int32Array) -> ArrayRef {
        let count = |bits: i32| bits.cast_unsigned();
        match values.data_type() {
            DataType::Int64 => {
                let pairs = values.as_primitive::<Int64Type>().iter().zip(bits);
                let shifted = pairs.map(|(value, bits)| {
                    let (value, bits) = (value?, count(bits?));
                    Some(match self {
                        Self::ShiftLeft => value.wrapping_shl(bits),
                        Self::ShiftRight => value.wrapping_shr(bits),
                        _ => value.cast_unsigned().wrapping_shr(bits).cast_signed(),
                    })
                });
                Arc::new(shifted.collect::<Int64Array>())
            }
            _ => {
                let pairs = values.as_primitive::<Int32Type>().iter().zip(bits);
                let shifted = pairs.map(|(value, bits)| {
                    let (value, bits) = (value?, count(bits?));
                    Some(match self {
                        Self::ShiftLeft => value.wrapping_shl(bits),
                        Self::ShiftRight => value.wrapping_shr(bits),
                        _ => value.cast_unsigned().wrapping_shr(bits).cast_signed(),
                    })
                });
                Arc::new(shifted.collect::<Int32Array>())
            }
        }
    }
}

fn bits_at(values: &ArrayRef, places: &Int32Array) -> Result<ArrayRef> {
    let width = match values.data_type() {
        DataType::Int8 => 8,
        DataType::Int16 => 16,
        DataType::Int32 => 32,
        _ => 64,
    };
    let wide = cast(values, &DataType::Int64)?;
    let bits = wide.as_primitive::<Int64Type>().iter().zip(places).map(|(value, place)| {
        let (Some(value), Some(place)) = (value, place) else { return Ok(None) };
        if !(0..width).contains(&place) {
            let text = format!("bit_get has no bit {place} of an integer of {width}");
            return Err(Error::new(ErrorKind::Invalid, text).with_hint("places count from the lowest bit, 0"));
        }
        Ok(Some(i8::from(value >> place & 1 == 1)))
    });
    Ok(Arc::new(bits.collect::<Result<Int8Array, Error>>()?))
}

impl ScalarUDFImpl for Kind {
    fn name(&self) -> &str {
        match self {
            Self::BitGet => "spark_bit_get",
            Self::ShiftLeft => "spark_shift_left",
            Self::ShiftRight => "spark_shift_right",
            Self::ShiftRightUnsigned => "spark_shift_right_unsigned",
            Self::Hypot => "spark_hypot",
            Self::Rint => "spark_rint",
            Self::Expm1 => "spark_expm1",
            Self::Log1p => "spark_log1p",
        }
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.name().trim_start_matches("spark_");
        if kinds.len() != self.arguments() {
            return plan_err!("the function {name} takes {} arguments", self.arguments());
        }
        let is_whole = |kind: &DataType| kind.is_integer() || kind.is_null();
        let is_number = |kind: &DataType| kind.is_numeric() || kind.is_null() || kind.is_string();
        match self {
            Self::BitGet if kinds.iter().all(is_whole) => {
                let value = if kinds[0].is_null() { DataType::Int64 } else { kinds[0].clone() };
                Ok(vec![value, DataType::Int32])
            }
            Self::ShiftLeft | Self::ShiftRight | Self::ShiftRightUnsigned if kinds.iter().all(is_whole) => {
                let value = if kinds[0] == DataType::Int64 { DataType::Int64 } else { DataType::Int32 };
                Ok(vec![value, DataType::Int32])
            }
            Self::Hypot | Self::Rint | Self::Expm1 | Self::Log1p if kinds.iter().all(is_number) => {
                Ok(vec![DataType::Float64; kinds.len()])
            }
            _ => plan_err!("{name} takes other arguments"),
        }
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        Ok(match self {
            Self::BitGet => DataType::Int8,
            Self::ShiftLeft | Self::ShiftRight | Self::ShiftRightUnsigned => kinds[0].clone(),
            _ => DataType::Float64,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(&arguments, |arrays| self.run(arrays))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifts_count_the_low_bits_as_in_java() {
        let ints: ArrayRef = Arc::new(Int32Array::from(vec![-1, 1, i32::MIN]));
        let by = Int32Array::from(vec![31, 33, -1]);
        let run = |kind: Kind| kind.shifted(&ints, &by).as_primitive::<Int32Type>().values().to_vec();
        assert_eq!(run(Kind::ShiftLeft), [i32::MIN, 2, 0]);
        assert_eq!(run(Kind::ShiftRight), [-1, 0, -1]);
        assert_eq!(run(Kind::ShiftRightUnsigned), [1, 0, 1]);
    }

    #[test]
    fn a_bit_is_within_its_integer() {
        let tiny: ArrayRef = Arc::new(Int8Array::from(vec![-128]));
        let found = bits_at(&tiny, &Int32Array::from(vec![7])).unwrap();
        assert_eq!(found.as_ref(), &Int8Array::from(vec![1]) as &dyn Array);
        assert!(bits_at(&tiny, &Int32Array::from(vec![8])).is_err());
        assert!(bits_at(&tiny, &Int32Array::from(vec![-1])).is_err());
    }
}
