use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, Decimal128Array, PrimitiveArray, UInt64Array,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Decimal128Type, Decimal256Type, Field,
    FieldRef, UInt64Type, i256,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, ReversedUDAF,
    Signature,
};

use super::decimal_overflow;
use super::decimal_type::DecimalType;
use super::rounding::Quotient;
use crate::numbers::framed_accumulator::{Frame, Framed, collected};

/// `avg` that rounds the average of decimals half up; DataFusion's cuts it off. It counts and adds with DataFusion's, and divides by
/// itself. The average of other types is DataFusion's.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ExactAverage {
    stock: Arc<AggregateUDF>,
}

impl ExactAverage {
    pub(crate) fn new() -> Self {
        Self { stock: avg_udaf() }
    }

    /// What it was called with, but for the type of the result, which decides how DataFusion's would divide.
    fn stock_args<'a>(&self, args: AccumulatorArgs<'a>) -> Result<AccumulatorArgs<'a>> {
        let result = self.stock.return_type(&[args.expr_fields[0].data_type().clone()])?;
        let return_field: FieldRef = Arc::new(Field::new(args.name, result, true));
        Ok(AccumulatorArgs { return_field, ..args })
    }
}

impl AggregateUDFImpl for ExactAverage {
    fn name(&self) -> &str {
        self.stock.name()
    }

    fn aliases(&self) -> &[String] {
        self.stock.aliases()
    }

    fn signature(&self) -> &Signature {
        self.stock.signature()
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        match kinds.first().and_then(DecimalType::of) {
            Some(of) => Ok(of.average().data_type()),
            None => self.stock.return_type(kinds),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let kinds: Vec<DataType> = args.input_fields.iter().map(|field| field.data_type().clone()).collect();
        let return_field = Arc::new(Field::new(args.name, self.stock.return_type(&kinds)?, true));
        self.stock.state_fields(StateFieldsArgs { return_field, ..args })
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let Some(of) = DecimalType::of(args.expr_fields[0].data_type()) else {
            return self.stock.accumulator(args);
        };
        let is_distinct = args.is_distinct;
        let parts = self.stock.accumulator(self.stock_args(args)?)?;
        Ok(Box::new(Framed {
            frame: Average { is_distinct, division: Division::of(of) },
            accumulator: parts,
        }))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.stock_args(args).is_ok_and(|args| self.stock.groups_accumulator_supported(args))
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let Some(of) = DecimalType::of(args.expr_fields[0].data_type()) else {
            return self.stock.create_groups_accumulator(args);
        };
        let is_distinct = args.is_distinct;
        let parts = self.stock.create_groups_accumulator(self.stock_args(args)?)?;
        Ok(Box::new(Framed {
            frame: Average { is_distinct, division: Division::of(of) },
            accumulator: parts,
        }))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.stock.documentation()
    }
}

/// How the sum of decimals becomes their average.
#[derive(Clone, Copy, Debug)]
struct Division {
    result: DecimalType,
    quotient: Quotient,
}

impl Division {
    fn of(decimals: DecimalType) -> Self {
        let result = decimals.average();
        let shift = i16::from(result.scale) - i16::from(decimals.scale);
        Self { result, quotient: Quotient::new(shift, result.precision) }
    }

    /// The average of `count` values with this sum, which has as many digits behind the point as they.
    fn divided(&self, sum: i256, count: u64) -> Result<i128> {
        let count = i128::from(count);
        let average = match sum.to_i128() {
            Some(sum) => self.quotient.of(sum, count),
            None => self.quotient.of_wide(sum, i256::from_i128(count)),
        };
        average.map_err(|error| match error {
            ArrowError::ArithmeticOverflow(text) => decimal_overflow(&text).into(),
            other => other.into(),
        })
    }

    /// The averages of groups, by their counts and sums: null for a group without values.
    fn each(&self, counts: &dyn Array, sums: &ArrayRef) -> Result<Decimal128Array> {
        let counts = counts.as_primitive::<UInt64Type>();
        let averages = if matches!(sums.data_type(), DataType::Decimal256(..)) {
            self.averages(counts, sums.as_primitive::<Decimal256Type>(), |sum| sum)
        } else {
            let sums = cast(sums, &DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale_of(sums)))?;
            self.averages(counts, sums.as_primitive::<Decimal128Type>(), i256::from_i128)
        };
        Ok(averages?.with_precision_and_scale(self.result.precision, self.result.scale)?)
    }

    fn averages<T: ArrowPrimitiveType>(
        &self,
        counts: &UInt64Array,
        sums: &PrimitiveArray<T>,
        widened: impl Fn(T::Native) -> i256,
    ) -> Result<Decimal128Array> {
        let count = |row: usize| if counts.is_valid(row) { counts.value(row) } else { 0 };
        let average = |row: usize| self.divided(widened(sums.value(row)), count(row));
        (0..counts.len()).map(|row| (count(row) > 0).then(|| average(row)).transpose()).collect()
    }
}

/// The unscaled integer of a decimal.
fn whole_of(decimal: &ScalarValue) -> Option<i256> {
    match *decimal {
        ScalarValue::Decimal32(whole, ..) => whole.map(|whole| i256::from_i128(whole.into())),
        ScalarValue::Decimal64(whole, ..) => whole.map(|whole| i256::from_i128(whole.into())),
        ScalarValue::Decimal128(whole, ..) => whole.map(i256::from_i128),
        ScalarValue::Decimal256(whole, ..) => whole,
        _ => None,
    }
}

fn scale_of(array: &dyn Array) -> i8 {
    DecimalType::of(array.data_type()).map_or(0, |decimal| decimal.scale)
}

/// The average of a whole column, of the frame of a window, or of each group. DataFusion's accumulators count and add: their state is a
/// count and a sum, or a list of the distinct values.
#[derive(Debug)]
struct Average {
    is_distinct: bool,
    division: Division,
}

impl Average {
    /// The number of distinct values, and their sum.
    fn distinct_parts(accumulator: &mut dyn Accumulator) -> Result<(u64, i256)> {
        let (mut count, mut sum) = (0, i256::ZERO);
        for values in collected(accumulator)? {
            let values = cast(&values, &DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale_of(&values)))?;
            for value in values.as_primitive::<Decimal256Type>().iter().flatten() {
                count += 1;
                sum = sum.checked_add(value).ok_or_else(|| decimal_overflow("a sum of distinct values"))?;
            }
        }
        Ok((count, sum))
    }
}

impl Frame for Average {
    fn value(&self, accumulator: &mut dyn Accumulator) -> Result<ScalarValue> {
        let result = self.division.result;
        let average = if self.is_distinct {
            let (count, sum) = Self::distinct_parts(accumulator)?;
            (count > 0).then(|| self.division.divided(sum, count)).transpose()?
        } else {
            // Once for each row of a sliding window: no arrays are made of the two.
            match accumulator.state()?.as_slice() {
                [ScalarValue::UInt64(None | Some(0)), _] => None,
                [ScalarValue::UInt64(Some(count)), sum] => {
                    let sum =
                        whole_of(sum).expect("a sum of decimals is one, and there for a count above zero");
                    Some(self.division.divided(sum, *count)?)
                }
                state => unreachable!("an average is made of a count and a sum, not of {state:?}"),
            }
        };
        Ok(ScalarValue::Decimal128(average, result.precision, result.scale))
    }

    fn values(&self, accumulator: &mut dyn GroupsAccumulator, emit_to: EmitTo) -> Result<ArrayRef> {
        let state = accumulator.state(emit_to)?;
        let [counts, sums] = state.as_slice() else {
            unreachable!("an average is made of a count and a sum")
        };
        Ok(Arc::new(self.division.each(counts, sums)?))
    }
}
