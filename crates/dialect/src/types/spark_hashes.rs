//! `hash` and `xxhash64` of Spark: hashes of values by their types, one after the other.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int32Array, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int64Type, TimeUnit,
    TimestampMicrosecondType,
};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use yeoul_base::ErrorKind;

use super::type_name;
use crate::Error;

/// Digits of decimals that Spark keeps in 64 bits.
const LONG_DIGITS_MAX: u8 = 18;

/// The seed of both functions.
const SEED: u64 = 42;

/// A function that hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HashOf {
    /// `spark_hash(a, b, …)`: Murmur3 of 32 bits.
    Murmur3,
    /// `spark_xxhash64(a, b, …)`.
    XxHash64,
}

impl HashOf {
    /// All of these functions.
    pub(crate) fn all() -> [Arc<ScalarUDF>; 2] {
        [Self::Murmur3, Self::XxHash64].map(|function| Arc::new(function.into()))
    }

    /// The hash of bytes.
    fn bytes(self, bytes: &[u8], seed: u64) -> u64 {
        match self {
            Self::Murmur3 => u64::from(murmur3(bytes, seed as u32)),
            Self::XxHash64 => xxhash64(bytes, seed),
        }
    }

    fn int(self, value: i32, seed: u64) -> u64 {
        self.bytes(&value.to_le_bytes(), seed)
    }

    fn long(self, value: i64, seed: u64) -> u64 {
        self.bytes(&value.to_le_bytes(), seed)
    }

    /// The hash of a value behind those before it. A null leaves it as it is.
    fn of(self, values: &ArrayRef, row: usize, seed: u64) -> Result<u64> {
        if values.is_null(row) {
            return Ok(seed);
        }
        Ok(match values.data_type() {
            DataType::Null => seed,
            DataType::Boolean => self.int(i32::from(values.as_boolean().value(row)), seed),
            DataType::Int64 => self.long(values.as_primitive::<Int64Type>().value(row), seed),
            DataType::Date32 => self.int(values.as_primitive::<Date32Type>().value(row), seed),
            DataType::Timestamp(..) => {
                let zone = match values.data_type() {
                    DataType::Timestamp(_, zone) => zone.clone(),
                    _ => None,
                };
                let micros = cast(&values.slice(row, 1), &DataType::Timestamp(TimeUnit::Microsecond, zone))?;
                self.long(micros.as_primitive::<TimestampMicrosecondType>().value(0), seed)
            }
            DataType::Float32 => {
                let value = values.as_primitive::<Float32Type>().value(row);
                let bits = if value.is_nan() { f32::NAN.to_bits() } else { (value + 0.0).to_bits() };
                self.int(bits.cast_signed(), seed)
            }
            DataType::Float64 => {
                let value = values.as_primitive::<Float64Type>().value(row);
                let bits = if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() };
                self.long(bits.cast_signed(), seed)
            }
            DataType::Decimal128(precision, _) => {
                let value = values.as_primitive::<Decimal128Type>().value(row);
                match i64::try_from(value) {
                    Ok(value) if *precision <= LONG_DIGITS_MAX => self.long(value, seed),
                    _ => self.bytes(&java_bytes(value), seed),
                }
            }
            DataType::Utf8 => self.bytes(values.as_string::<i32>().value(row).as_bytes(), seed),
            DataType::Binary => self.bytes(values.as_binary::<i32>().value(row), seed),
            DataType::List(_) => {
                let list = values.as_list::<i32>().value(row);
                let list = plain(&list)?;
                (0..list.len()).try_fold(seed, |seed, place| self.of(&list, place, seed))?
            }
            DataType::Struct(_) => {
                let mut seed = seed;
                for column in values.as_struct().columns() {
                    seed = self.of(&plain(column)?, row, seed)?;
                }
                seed
            }
            kind if kind.is_integer() => {
                let value = cast(&values.slice(row, 1), &DataType::Int64)?;
                let value = value.as_primitive::<Int64Type>().value(0);
                self.int(i32::try_from(value).unwrap_or_default(), seed)
            }
            other => {
                let text = format!("not supported: the hash of {}", type_name(other));
                return Err(Error::new(ErrorKind::Invalid, text).with_hint("hash its text").into());
            }
        })
    }
}

/// Texts and bytes in the one form of theirs that is hashed.
fn plain(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(match values.data_type() {
        DataType::LargeUtf8 | DataType::Utf8View => cast(values, &DataType::Utf8)?,
        DataType::LargeBinary | DataType::BinaryView => cast(values, &DataType::Binary)?,
        _ => Arc::clone(values),
    })
}

/// The bytes of `BigInteger.toByteArray`: the fewest that have the sign.
fn java_bytes(value: i128) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let sign = if value < 0 { 0xff } else { 0 };
    let is_needed = |at: usize| bytes[at] != sign || (bytes[at + 1] ^ sign) & 0x80 != 0;
    let from = (0..bytes.len() - 1).find(|at| is_needed(*at)).unwrap_or(bytes.len() - 1);
    bytes[from..].to_vec()
}

/// Murmur3 as Spark has it: bytes behind the last word are words of their own.
fn murmur3(bytes: &[u8], seed: u32) -> u32 {
    let mix = |hash: u32, word: u32| {
        let word = word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
        (hash ^ word).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
    };
    let words = bytes.chunks_exact(4);
    let rest = words.remainder();
    let words = words.map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    let rest = rest.iter().map(|byte| i32::from(byte.cast_signed()).cast_unsigned());
    let mut hash = words.chain(rest).fold(seed, mix) ^ bytes.len() as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

/// The hash XXH64.
fn xxhash64(bytes: &[u8], seed: u64) -> u64 {
    const P1: u64 = 0x9e37_79b1_85eb_ca87;
    const P2: u64 = 0xc2b2_ae3d_27d4_eb4f;
    const P3: u64 = 0x1656_67b1_9e37_79f9;
    const P4: u64 = 0x85eb_ca77_c2b2_ae63;
    const P5: u64 = 0x27d4_eb2f_1656_67c5;
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
    let round =
        |lane: u64, input: u64| lane.wrapping_add(input.wrapping_mul(P2)).rotate_left(31).wrapping_mul(P1);
    let mut rest = bytes;
    let mut hash = if bytes.len() >= 32 {
        let mut lanes =
            [seed.wrapping_add(P1).wrapping_add(P2), seed.wrapping_add(P2), seed, seed.wrapping_sub(P1)];
        while let Some((stripe, behind)) = rest.split_at_checked(32) {
            for (lane, input) in lanes.iter_mut().zip(stripe.chunks_exact(8)) {
                *lane = round(*lane, word(input));
            }
            rest = behind;
        }
        let turned = [1, 7, 12, 18].into_iter().zip(lanes).map(|(bits, lane)| lane.rotate_left(bits));
        let joined = turned.fold(0, u64::wrapping_add);
        lanes.into_iter().fold(joined, |hash, lane| (hash ^ round(0, lane)).wrapping_mul(P1).wrapping_add(P4))
    } else {
        seed.wrapping_add(P5)
    };
    hash = hash.wrapping_add(bytes.len() as u64);
    while let Some((eight, behind)) = rest.split_at_checked(8) {
        hash = (hash ^ round(0, word(eight))).rotate_left(27).wrapping_mul(P1).wrapping_add(P4);
        rest = behind;
    }
    if let Some((four, behind)) = rest.split_at_checked(4) {
        hash = (hash ^ word(four).wrapping_mul(P1)).rotate_left(23).wrapping_mul(P2).wrapping_add(P3);
        rest = behind;
    }
    for byte in rest {
        hash = (hash ^ u64::from(*byte).wrapping_mul(P5)).rotate_left(11).wrapping_mul(P1);
    }
    hash = (hash ^ hash >> 33).wrapping_mul(P2);
    hash = (hash ^ hash >> 29).wrapping_mul(P3);
    hash ^ hash >> 32
}

impl ScalarUDFImpl for HashOf {
    fn name(&self) -> &str {
        match self {
            Self::Murmur3 => "spark_hash",
            Self::XxHash64 => "spark_xxhash64",
        }
    }

    fn signature(&self) -> &Signature {
        static ANY: LazyLock<Signature> = LazyLock::new(|| Signature::variadic_any(Volatility::Immutable));
        &ANY
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        if kinds.is_empty() {
            return plan_err!("a hash needs a value");
        }
        Ok(match self {
            Self::Murmur3 => DataType::Int32,
            Self::XxHash64 => DataType::Int64,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        crate::text::rows::invoke(&arguments, |arrays| {
            let columns = arrays.iter().map(plain).collect::<Result<Vec<ArrayRef>>>()?;
            let hash = |row: usize| columns.iter().try_fold(SEED, |seed, column| self.of(column, row, seed));
            let hashes = (0..arrays[0].len()).map(hash).collect::<Result<Vec<u64>>>()?;
            Ok(match self {
                Self::Murmur3 => Arc::new(Int32Array::from_iter_values(
                    hashes.into_iter().map(|hash| (hash as u32).cast_signed()),
                )) as ArrayRef,
                Self::XxHash64 => {
                    Arc::new(Int64Array::from_iter_values(hashes.into_iter().map(u64::cast_signed)))
                }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hashes are those of Spark's documentation, and of the specification of XXH64.
    #[test]
    fn hashes_are_those_of_spark() {
        assert_eq!(xxhash64(b"", 0), 0xef46_db37_51d8_e999);
        assert_eq!(xxhash64(b"abc", 0), 0x44bc_2cf5_ad77_0999);
        assert_eq!(xxhash64(b"Nobody inspects the spammish repetition", 0), 0xfbce_a83c_8a37_8bf1);
        let seeds = |of: HashOf| {
            let seed = of.bytes(b"Spark", SEED);
            of.int(2, of.int(123, seed))
        };
        assert_eq!((seeds(HashOf::Murmur3) as u32).cast_signed(), -1_321_691_492);
        assert_eq!(seeds(HashOf::XxHash64).cast_signed(), 5_602_566_077_635_097_486);
    }

    #[test]
    fn wide_decimals_have_the_bytes_of_java() {
        for (value, expected) in [
            (0, vec![0]),
            (127, vec![127]),
            (128, vec![0, 128]),
            (-128, vec![128]),
            (-129, vec![255, 127]),
            (256, vec![1, 0]),
        ] {
            assert_eq!(java_bytes(value), expected, "{value}");
        }
    }
}
