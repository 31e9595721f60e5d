//! Random numbers of Spark: those of a seed are the ones that Spark has.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, Float64Array, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use yeoul_base::ErrorKind;

use super::decimal_type::DecimalType;
use crate::Error;

/// Letters of one text of `randstr`, at most.
const LETTERS_MAX: i32 = 1 << 20;

/// The generator `XORShiftRandom` of Spark, below the methods of `java.util.Random`.
#[derive(Debug)]
struct XorShift {
    state: u64,
    /// The second of two numbers that are made at once.
    gaussian: Option<f64>,
}

impl XorShift {
    /// That of a seed.
    fn new(seed: i64) -> Self {
        let bytes = seed.to_be_bytes();
        let low = murmur(&bytes, 0x3c07_4a61);
        let high = murmur(&bytes, low);
        Self { state: u64::from(high) << 32 | u64::from(low), gaussian: None }
    }

    /// So many random bits.
    fn bits(&mut self, count: u32) -> u32 {
        let mut next = self.state ^ self.state << 21;
        next ^= next >> 35;
        next ^= next << 4;
        self.state = next;
        // The lowest 32 bits, cut to the number.
        let low = next as u32;
        if count == 32 { low } else { low & ((1 << count) - 1) }
    }

    /// A number from 0 to 1.
    fn double(&mut self) -> f64 {
        let bits = (u64::from(self.bits(26)) << 27) + u64::from(self.bits(27));
        bits as f64 / (1_u64 << 53) as f64
    }

    /// A number of the normal distribution.
    fn gaussian(&mut self) -> f64 {
        if let Some(kept) = self.gaussian.take() {
            return kept;
        }
        loop {
            let [x, y] = [2.0 * self.double() - 1.0, 2.0 * self.double() - 1.0];
            let square = x * x + y * y;
            if square < 1.0 && square != 0.0 {
                let factor = (-2.0 * square.ln() / square).sqrt();
                self.gaussian = Some(y * factor);
                return x * factor;
            }
        }
    }

    /// A text of digits and letters.
    fn text(&mut self, length: usize) -> String {
        const LETTERS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let mut letter = || {
            let place = (self.bits(32).cast_signed() % 62).unsigned_abs();
            char::from(LETTERS[place as usize])
        };
        (0..length).map(|_| letter()).collect()
    }
}

/// The hash of Scala's `MurmurHash3.bytesHash` of eight bytes.
fn murmur(bytes: &[u8; 8], seed: u32) -> u32 {
    let mut hash = seed;
    for word in bytes.chunks_exact(4) {
        let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        hash ^= word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
        hash = hash.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    hash ^= 8;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

/// A function of random values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// `spark_rand([seed])`: a number from 0 to 1.
    Uniform,
    /// `spark_randn([seed])`: one of the normal distribution.
    Normal,
    /// `spark_uniform(low, high[, seed])`: one from `low` to `high`, of their type.
    Between,
    /// `spark_randstr(length[, seed])`: a text.
    Text,
}

/// The function of a [`Kind`]. Each call of a query has one of its own, which counts the batches of rows: as Spark adds the number of a
/// partition to a seed, the number of a batch is added here.
#[derive(Debug)]
pub(super) struct SparkRandom {
    kind: Kind,
    batches: Option<Arc<AtomicI64>>,
}

impl SparkRandom {
    /// All of these functions.
    pub(super) fn all() -> impl Iterator<Item = ScalarUDF> {
        let kinds = [Kind::Uniform, Kind::Normal, Kind::Between, Kind::Text];
        kinds.into_iter().map(|kind| Self { kind, batches: None }.into())
    }

    /// The generator of the next batch. A seed that is null is 0.
    fn generator(&self, seed: Option<&ColumnarValue>) -> Result<XorShift> {
        let Some(seed) = seed else {
            // Keys of hash tables are random in each process and thread.
            let seed = RandomState::new().build_hasher().finish();
            return Ok(XorShift::new(seed.cast_signed()));
        };
        let ColumnarValue::Scalar(seed) = seed else { return Err(not_constant(self.name())) };
        let seed = match seed.cast_to(&DataType::Int64)? {
            ScalarValue::Int64(seed) => seed.unwrap_or(0),
            _ => 0,
        };
        let batch = self.batches.as_ref().map_or(0, |batches| batches.fetch_add(1, Ordering::Relaxed));
        Ok(XorShift::new(seed.wrapping_add(batch)))
    }

    /// The place of the seed among the arguments.
    const fn place_of_seed(&self) -> usize {
        match self.kind {
            Kind::Uniform | Kind::Normal => 0,
            Kind::Text => 1,
            Kind::Between => 2,
        }
    }
}

fn not_constant(name: &str) -> datafusion::common::DataFusionError {
    let name = name.trim_start_matches("spark_");
    let error = Error::new(ErrorKind::Invalid, format!("the arguments of {name} must be constants"));
    error.with_hint("compute with its answer: x + rand() * y").into()
}

/// Each query has its own function, whatever its name.
impl PartialEq for SparkRandom {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
            && match (&self.batches, &other.batches) {
                (Some(own), Some(other)) => Arc::ptr_eq(own, other),
                (None, None) => true,
                _ => false,
            }
    }
}

impl Eq for SparkRandom {}

impl Hash for SparkRandom {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kind.hash(state);
    }
}

/// The type of numbers between two.
///
/// # Errors
/// `Invalid` for types that are no numbers, and for decimals of which none holds both.
fn between(low: &DataType, high: &DataType) -> Result<DataType> {
    let refused = || {
        let [low, high] = [low, high].map(crate::types::type_name);
        let text = format!("not supported: uniform from {low} to {high}");
        Error::new(ErrorKind::Invalid, text).with_hint("both are numbers of one type").into()
    };
    let rank = |kind: &DataType| match kind {
        DataType::Null => Some(0),
        DataType::Int8 => Some(1),
        DataType::Int16 => Some(2),
        DataType::Int32 => Some(3),
        DataType::Int64 => Some(4),
        DataType::Decimal128(..) => Some(5),
        DataType::Float32 => Some(6),
        DataType::Float64 => Some(7),
        _ => None,
    };
    let (Some(of_low), Some(of_high)) = (rank(low), rank(high)) else { return Err(refused()) };
    if DecimalType::of(low).is_some() && DecimalType::of(high).is_some() {
        let holds = |this: &DataType, that: &DataType| match (this, that) {
            (DataType::Decimal128(p, s), DataType::Decimal128(q, t)) => {
                i16::from(*p) - i16::from(*s) >= i16::from(*q) - i16::from(*t) && s >= t
            }
            _ => false,
        };
        return match (holds(low, high), holds(high, low)) {
            (true, _) => Ok(low.clone()),
            (_, true) => Ok(high.clone()),
            _ => Err(refused()),
        };
    }
    Ok(match if of_low >= of_high { low } else { high } {
        DataType::Null => DataType::Float64,
        kind => kind.clone(),
    })
}

impl ScalarUDFImpl for SparkRandom {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Uniform => "spark_rand",
            Kind::Normal => "spark_randn",
            Kind::Between => "spark_uniform",
            Kind::Text => "spark_randstr",
        }
    }

    fn signature(&self) -> &Signature {
        static RANDOM: LazyLock<Signature> = LazyLock::new(|| Signature::user_defined(Volatility::Volatile));
        &RANDOM
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.name().trim_start_matches("spark_");
        let seed = self.place_of_seed();
        if kinds.len() != seed && kinds.len() != seed + 1 {
            return plan_err!("{name} takes {seed} arguments and a seed");
        }
        if kinds.get(seed).is_some_and(|kind| !kind.is_integer() && !kind.is_null()) {
            return plan_err!("the seed of {name} is a whole number");
        }
        let mut coerced = kinds.to_vec();
        if let Some(seed) = coerced.get_mut(seed) {
            *seed = DataType::Int64;
        }
        match self.kind {
            Kind::Text if !kinds[0].is_numeric() && !kinds[0].is_null() => {
                return plan_err!("the length of {name} is a number");
            }
            Kind::Text => coerced[0] = DataType::Int32,
            Kind::Between => {
                between(&kinds[0], &kinds[1])?;
            }
            _ => {}
        }
        Ok(coerced)
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        match self.kind {
            Kind::Uniform | Kind::Normal => Ok(DataType::Float64),
            Kind::Text => Ok(DataType::Utf8),
            Kind::Between => between(&kinds[0], &kinds[1]),
        }
    }

    /// Gives a call of a query its own count of batches.
    fn simplify(&self, arguments: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        if self.batches.is_some() {
            return Ok(ExprSimplifyResult::Original(arguments));
        }
        let own = Self { kind: self.kind, batches: Some(Arc::default()) };
        Ok(ExprSimplifyResult::Simplified(ScalarUDF::from(own).call(arguments)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let mut generator = self.generator(arguments.args.get(self.place_of_seed()))?;
        let constant = |at: usize| match &arguments.args[at] {
            ColumnarValue::Scalar(value) => Ok(value),
            ColumnarValue::Array(_) => Err(not_constant(self.name())),
        };
        let found: ArrayRef = match self.kind {
            Kind::Uniform => Arc::new(Float64Array::from_iter_values((0..rows).map(|_| generator.double()))),
            Kind::Normal => Arc::new(Float64Array::from_iter_values((0..rows).map(|_| generator.gaussian()))),
            Kind::Text => {
                let length = match constant(0)? {
                    ScalarValue::Int32(Some(length)) => *length,
                    _ => 0,
                };
                let letters =
                    (0..=LETTERS_MAX).contains(&length).then(|| usize::try_from(length).ok()).flatten();
                let letters = letters.ok_or_else(|| {
                    let text = format!("randstr of {length} letters");
                    Error::new(ErrorKind::Invalid, text).with_hint(format!("it has 0 to {LETTERS_MAX}"))
                })?;
                Arc::new(StringArray::from_iter_values((0..rows).map(|_| generator.text(letters))))
            }
            Kind::Between => {
                let (low, high) = (constant(0)?, constant(1)?);
                let kind = between(&low.data_type(), &high.data_type())?;
                if low.is_null() || high.is_null() {
                    return Ok(ColumnarValue::Scalar(ScalarValue::try_from(&kind)?));
                }
                let double = |value: &ScalarValue| match value.cast_to(&DataType::Float64) {
                    Ok(ScalarValue::Float64(Some(value))) => Ok(value),
                    _ => Err(not_constant(self.name())),
                };
                let (low, high) = (double(low)?, double(high)?);
                let values = (0..rows).map(|_| low + (high - low) * generator.double());
                let values: ArrayRef = Arc::new(Float64Array::from_iter_values(values));
                cast(&values, &kind)?
            }
        };
        Ok(ColumnarValue::Array(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers are those of Spark 4.
    #[test]
    fn a_seed_has_the_numbers_of_spark() {
        assert_eq!(XorShift::new(0).double(), 0.760_495_375_828_591_5);
        assert_eq!(XorShift::new(0).gaussian(), 1.603_499_160_927_843_3);
        assert_eq!(
            (XorShift::new(0).text(10), XorShift::new(-1).text(1)),
            ("ceV0PXaR2I".to_owned(), "S".to_owned())
        );
        assert_eq!((-20.0 + 10.0 * XorShift::new(-10).double()).trunc(), -17.0);
    }
}
