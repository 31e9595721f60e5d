use std::fmt;
use std::mem::size_of_val;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DECIMAL256_MAX_PRECISION, DataType, Decimal128Type, Decimal256Type, Field, FieldRef, UInt64Type, i256,
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
        Ok(Box::new(Average { parts, is_distinct, division: Division::of(of) }))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.stock_args(args).is_ok_and(|args| self.stock.groups_accumulator_supported(args))
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let Some(of) = DecimalType::of(args.expr_fields[0].data_type()) else {
            return self.stock.create_groups_accumulator(args);
        };
        let parts = self.stock.create_groups_accumulator(self.stock_args(args)?)?;
        Ok(Box::new(GroupAverages { parts, division: Division::of(of) }))
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
        let count = |row: usize| if counts.is_valid(row) { counts.value(row) } else { 0 };
        let rows = 0..counts.len();
        let averages: Result<Vec<Option<i128>>> = if matches!(sums.data_type(), DataType::Decimal256(..)) {
            let sums = sums.as_primitive::<Decimal256Type>();
            let average = |row| self.divided(sums.value(row), count(row));
            rows.map(|row| (count(row) > 0).then(|| average(row)).transpose()).collect()
        } else {
            let sums = cast(sums, &DataType::Decimal128(38, scale_of(sums)))?;
            let sums = sums.as_primitive::<Decimal128Type>();
            let average = |row| self.divided(i256::from_i128(sums.value(row)), count(row));
            rows.map(|row| (count(row) > 0).then(|| average(row)).transpose()).collect()
        };
        let averages = Decimal128Array::from(averages?);
        Ok(averages.with_precision_and_scale(self.result.precision, self.result.scale)?)
    }
}

fn scale_of(array: &dyn Array) -> i8 {
    DecimalType::of(array.data_type()).map_or(0, |decimal| decimal.scale)
}

/// The average of a whole column, or of the frame of a window.
struct Average {
    /// DataFusion's, whose state is a count and a sum, or a list of the distinct values.
    parts: Box<dyn Accumulator>,
    is_distinct: bool,
    division: Division,
}

impl fmt::Debug for Average {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Average").field("division", &self.division).finish_non_exhaustive()
    }
}

impl Average {
    /// The number of distinct values, and their sum.
    fn distinct_parts(&mut self) -> Result<(u64, i256)> {
        let (mut count, mut sum) = (0, i256::ZERO);
        for state in self.parts.state()? {
            let list = state.to_array()?;
            for values in list.as_list::<i32>().iter().flatten() {
                let values =
                    cast(&values, &DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale_of(&values)))?;
                for value in values.as_primitive::<Decimal256Type>().iter().flatten() {
                    count += 1;
                    sum =
                        sum.checked_add(value).ok_or_else(|| decimal_overflow("a sum of distinct values"))?;
                }
            }
        }
        Ok((count, sum))
    }
}

impl Accumulator for Average {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.parts.update_batch(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.parts.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.parts.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.parts.supports_retract_batch()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.parts.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let result = self.division.result;
        let average = if self.is_distinct {
            let (count, sum) = self.distinct_parts()?;
            (count > 0).then(|| self.division.divided(sum, count)).transpose()?
        } else {
            let state = self.parts.state()?;
            let [count, sum] = state.as_slice() else {
                unreachable!("an average is made of a count and a sum")
            };
            let averages = self.division.each(&count.to_array()?, &sum.to_array()?)?;
            averages.is_valid(0).then(|| averages.value(0))
        };
        Ok(ScalarValue::Decimal128(average, result.precision, result.scale))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.parts.size()
    }
}

/// The average of each group.
struct GroupAverages {
    parts: Box<dyn GroupsAccumulator>,
    division: Division,
}

impl GroupsAccumulator for GroupAverages {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        groups_total: usize,
    ) -> Result<()> {
        self.parts.update_batch(values, groups, filter, groups_total)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], groups_total: usize) -> Result<()> {
        self.parts.merge_batch(states, groups, groups_total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let state = self.parts.state(emit_to)?;
        let [counts, sums] = state.as_slice() else {
            unreachable!("an average is made of a count and a sum")
        };
        Ok(Arc::new(self.division.each(counts, sums)?))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.parts.state(emit_to)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.parts.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.parts.size()
    }
}
