//! Bitmaps of Spark: 4,096 bytes, of which each bit is a number of a bucket.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature,
};
use yeoul_base::ErrorKind;

use crate::Error;
use crate::signatures::USER_DEFINED;
use crate::text::rows::invoke;

/// Bytes of a bitmap.
const BYTES: usize = 4_096;

/// An aggregate whose answer is a bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Bitmap {
    /// `spark_bitmap_construct_agg(place)`: the bits at these places.
    Places,
    /// `spark_bitmap_or_agg(bitmap)`: the bits of one of them.
    Any,
    /// `spark_bitmap_and_agg(bitmap)`: the bits of all.
    All,
}

impl Bitmap {
    pub const ALL: [Self; 3] = [Self::Places, Self::Any, Self::All];
}

impl AggregateUDFImpl for Bitmap {
    fn name(&self) -> &str {
        match self {
            Self::Places => "spark_bitmap_construct_agg",
            Self::Any => "spark_bitmap_or_agg",
            Self::All => "spark_bitmap_and_agg",
        }
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.name().trim_start_matches("spark_");
        match (self, kinds) {
            (Self::Places, [kind]) if kind.is_integer() || kind.is_null() => Ok(vec![DataType::Int64]),
            (Self::Any | Self::All, [kind]) if kind.is_binary() || kind.is_null() => {
                Ok(vec![DataType::Binary])
            }
            (Self::Places, _) => plan_err!("{name} takes places of bits"),
            _ => plan_err!("{name} takes bitmaps, which are BINARY"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Binary)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format_state_name(args.name, "bits"), DataType::Binary, true))])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        super::refuse_distinct(self.name(), &args)?;
        let first = if *self == Self::All { 0xff } else { 0 };
        Ok(Box::new(Bits { of: *self, bits: vec![first; BYTES] }))
    }
}

#[derive(Debug)]
struct Bits {
    of: Bitmap,
    bits: Vec<u8>,
}

impl Bits {
    /// Joins a bitmap; one that is shorter ends with zeros.
    fn join(&mut self, bitmap: &[u8]) {
        let joined = bitmap.iter().copied().chain(std::iter::repeat(0));
        for (own, other) in self.bits.iter_mut().zip(joined) {
            *own = if self.of == Bitmap::All { *own & other } else { *own | other };
        }
    }
}

impl Accumulator for Bits {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if self.of != Bitmap::Places {
            values[0].as_binary::<i32>().iter().flatten().for_each(|bitmap| self.join(bitmap));
            return Ok(());
        }
        for place in values[0].as_primitive::<Int64Type>().iter().flatten() {
            let at = usize::try_from(place).ok().filter(|at| *at < 8 * BYTES).ok_or_else(|| {
                let text = format!("a bitmap has no bit {place}");
                Error::new(ErrorKind::Invalid, text)
                    .with_hint("bitmap_bit_position(n) is the place of a number")
            })?;
            self.bits[at / 8] |= 1 << (at % 8);
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        states[0].as_binary::<i32>().iter().flatten().for_each(|bitmap| self.join(bitmap));
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Binary(Some(self.bits.clone())))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bits.capacity()
    }
}

/// `spark_bitmap_count(bitmap)`: the number of bits that are set.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct BitmapCount;

impl ScalarUDFImpl for BitmapCount {
    fn name(&self) -> &str {
        "spark_bitmap_count"
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        match kinds {
            [kind] if kind.is_binary() || kind.is_null() => Ok(vec![DataType::Binary]),
            _ => plan_err!("bitmap_count takes a bitmap, which is BINARY"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(&arguments, |arrays| {
            let count = |bytes: &[u8]| bytes.iter().map(|byte| i64::from(byte.count_ones())).sum::<i64>();
            let counts = arrays[0].as_binary::<i32>().iter().map(|bytes| bytes.map(count));
            Ok(Arc::new(counts.collect::<Int64Array>()) as ArrayRef)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bitmaps_are_joined_bit_by_bit() {
        let bits = |of: Bitmap, first: u8| Bits { of, bits: vec![first; BYTES] };
        let mut places = bits(Bitmap::Places, 0);
        places.update_batch(&[Arc::new(Int64Array::from(vec![0, 9, 0]))]).unwrap();
        assert_eq!(places.bits[..3], [1, 2, 0]);
        assert!(places.update_batch(&[Arc::new(Int64Array::from(vec![32_768]))]).is_err());
        let mut all = bits(Bitmap::All, 0xff);
        all.join(&[0xf0]);
        all.join(&[0x70, 1]);
        assert_eq!(all.bits[..2], [0x70, 0]);
    }
}
