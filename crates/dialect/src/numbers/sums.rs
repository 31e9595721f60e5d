use std::fmt;
use std::mem::{size_of, size_of_val};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::{cast, nullif};
use datafusion::arrow::datatypes::{DataType, Decimal128Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

use super::counted_rows::{counted, passed};
use crate::Error;
use crate::numbers::framed_accumulator::{Frame, Framed, collected};

/// What a sum adds up, and what it gives: integers of 64 bits, or decimals.
///
/// Sums are kept in 128 bits. Those of integers do not overflow there whatever is added; whether the whole fits the type is asked at
/// the end, so that the answer does not depend on the order of rows.
#[derive(Clone, Debug)]
pub(crate) struct SumType {
    /// The result's.
    pub result: DataType,
    /// The state's: what partial sums are handed on in.
    pub state: DataType,
    /// What to say of a sum that does not fit.
    pub overflow: fn() -> Error,
}

/// Integers of which 128 bits hold the sum.
pub(super) trait Addend: ArrowPrimitiveType<Native: Into<i128> + TryFrom<i128>> + fmt::Debug {}

impl<T: ArrowPrimitiveType<Native: Into<i128> + TryFrom<i128>> + fmt::Debug> Addend for T {}

impl SumType {
    /// The sum as a value of `T`, the result's type.
    fn narrowed<T: Addend>(&self, sum: i128) -> Result<T::Native> {
        let within = match self.result {
            DataType::Decimal128(precision, _) => sum.unsigned_abs() < 10u128.pow(u32::from(precision)),
            _ => true,
        };
        T::Native::try_from(sum).ok().filter(|_| within).ok_or_else(|| (self.overflow)().into())
    }

    fn scalar_of<T: Addend>(&self, sum: Option<i128>) -> Result<ScalarValue> {
        let sum = sum.map(|sum| self.narrowed::<T>(sum)).transpose()?;
        ScalarValue::new_primitive::<T>(sum, &self.result)
    }

    fn state_of(&self, sum: Option<i128>) -> Result<ScalarValue> {
        ScalarValue::new_primitive::<Decimal128Type>(sum, &self.state)
    }
}

/// The sum of values that are not null, and how many there are.
fn total<T: Addend>(values: &PrimitiveArray<T>, overflow: fn() -> Error) -> Result<(i128, u64)> {
    let mut sum = 0i128;
    let mut has_overflowed = false;
    let mut add = |value: T::Native| {
        let (next, overflowed) = sum.overflowing_add(value.into());
        (sum, has_overflowed) = (next, has_overflowed | overflowed);
    };
    if values.null_count() == 0 {
        values.values().iter().copied().for_each(&mut add);
    } else {
        values.iter().flatten().for_each(&mut add);
    }
    if has_overflowed {
        return Err(overflow().into());
    }
    Ok((sum, (values.len() - values.null_count()) as u64))
}

/// The sum of a whole column, or of the frame of a window.
#[derive(Debug)]
pub(crate) struct Sum<T> {
    kind: SumType,
    sum: i128,
    /// How many values are in it.
    count: u64,
    of: std::marker::PhantomData<fn(T)>,
}

impl<T: Addend> Sum<T> {
    pub(super) fn new(kind: SumType) -> Self {
        Self { kind, sum: 0, count: 0, of: std::marker::PhantomData }
    }

    fn value(&self) -> Option<i128> {
        (self.count > 0).then_some(self.sum)
    }

    fn add(&mut self, (sum, count): (i128, u64)) -> Result<()> {
        self.sum = self.sum.checked_add(sum).ok_or_else(self.kind.overflow)?;
        self.count += count;
        Ok(())
    }
}

impl<T: Addend> Accumulator for Sum<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(total(values[0].as_primitive::<T>(), self.kind.overflow)?)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.add(total(states[0].as_primitive::<Decimal128Type>(), self.kind.overflow)?)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, count) = total(values[0].as_primitive::<T>(), self.kind.overflow)?;
        assert!(count <= self.count, "{count} values leave a window of {}", self.count);
        self.sum = self.sum.checked_sub(sum).ok_or_else(self.kind.overflow)?;
        self.count -= count;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.kind.state_of(self.value())?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.kind.scalar_of::<T>(self.value())
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The sum of distinct values, which DataFusion's accumulator collects.
#[derive(Debug)]
pub(crate) struct DistinctSum<T> {
    kind: SumType,
    of: std::marker::PhantomData<fn(T)>,
}

impl<T: Addend> DistinctSum<T> {
    /// `values`: an accumulator whose state is the list of the values.
    pub(super) fn framing(kind: SumType, values: Box<dyn Accumulator>) -> Framed<Self, Box<dyn Accumulator>> {
        Framed { frame: Self { kind, of: std::marker::PhantomData }, accumulator: values }
    }
}

impl<T: Addend> Frame for DistinctSum<T> {
    fn value(&self, values: &mut dyn Accumulator) -> Result<ScalarValue> {
        let mut sum = Sum::<T>::new(self.kind.clone());
        collected(values)?.into_iter().try_for_each(|values| sum.update_batch(&[values]))?;
        sum.evaluate()
    }
}

/// The sum of each group.
#[derive(Debug)]
pub(crate) struct GroupSums<T> {
    kind: SumType,
    sums: Vec<i128>,
    /// Which groups have a value.
    has_value: Vec<bool>,
    of: std::marker::PhantomData<fn(T)>,
}

impl<T: Addend> GroupSums<T> {
    pub(super) fn new(kind: SumType) -> Self {
        Self { kind, sums: Vec::new(), has_value: Vec::new(), of: std::marker::PhantomData }
    }

    fn add<A: Addend>(
        &mut self,
        values: &PrimitiveArray<A>,
        groups: &[usize],
        filter: Option<&BooleanArray>,
        groups_total: usize,
    ) -> Result<()> {
        assert_eq!(values.len(), groups.len(), "a group for each value");
        self.sums.resize(groups_total, 0);
        self.has_value.resize(groups_total, false);
        let mut has_overflowed = false;
        let mut add = |group: usize, value: A::Native| {
            let (sum, overflowed) = self.sums[group].overflowing_add(value.into());
            self.sums[group] = sum;
            self.has_value[group] = true;
            has_overflowed |= overflowed;
        };
        match counted(values, filter) {
            None => groups.iter().zip(values.values()).for_each(|(group, value)| add(*group, *value)),
            Some(counted) => {
                for index in counted.set_indices() {
                    add(groups[index], values.value(index));
                }
            }
        }
        if has_overflowed {
            return Err((self.kind.overflow)().into());
        }
        Ok(())
    }

    fn take(&mut self, emit_to: EmitTo) -> (Vec<i128>, NullBuffer) {
        let sums = emit_to.take_needed(&mut self.sums);
        (sums, NullBuffer::from(emit_to.take_needed(&mut self.has_value)))
    }
}

impl<T: Addend> GroupsAccumulator for GroupSums<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        groups_total: usize,
    ) -> Result<()> {
        self.add(values[0].as_primitive::<T>(), groups, filter, groups_total)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], groups_total: usize) -> Result<()> {
        self.add(states[0].as_primitive::<Decimal128Type>(), groups, None, groups_total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (sums, has_value) = self.take(emit_to);
        let values: Result<Vec<T::Native>> =
            sums.into_iter().map(|sum| self.kind.narrowed::<T>(sum)).collect();
        let values = PrimitiveArray::<T>::new(values?.into(), Some(has_value));
        Ok(Arc::new(values.with_data_type(self.kind.result.clone())))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (sums, has_value) = self.take(emit_to);
        let sums = PrimitiveArray::<Decimal128Type>::new(sums.into(), Some(has_value));
        Ok(vec![Arc::new(sums.with_data_type(self.kind.state.clone()))])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let state = cast(&values[0], &self.kind.state)?;
        let Some(filter) = filter else { return Ok(vec![state]) };
        let left_out = BooleanArray::new(!&passed(filter), None);
        Ok(vec![nullif(&state, &left_out)?])
    }

    fn size(&self) -> usize {
        size_of_val(self)
            + self.sums.capacity() * size_of::<i128>()
            + self.has_value.capacity() * size_of::<bool>()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Decimal128Array, Int64Array};
    use datafusion::arrow::datatypes::Int64Type;
    use yeoul_base::ErrorKind;

    use super::super::integer_overflow;
    use super::*;

    fn of_integers() -> SumType {
        SumType {
            result: DataType::Int64,
            state: DataType::Decimal128(38, 0),
            overflow: || integer_overflow("sum"),
        }
    }

    fn of_decimals() -> SumType {
        let kind = DataType::Decimal128(38, 0);
        SumType { result: kind.clone(), state: kind, overflow: || integer_overflow("sum") }
    }

    fn integers(values: &[Option<i64>]) -> ArrayRef {
        Arc::new(Int64Array::from(values.to_vec()))
    }

    fn decimals(values: &[i128]) -> ArrayRef {
        let values = Decimal128Array::from(values.to_vec());
        Arc::new(values.with_precision_and_scale(38, 0).unwrap())
    }

    #[test]
    fn what_fits_in_the_end_may_be_too_large_in_between() {
        let mut sum = Sum::<Int64Type>::new(of_integers());
        sum.update_batch(&[integers(&[Some(i64::MAX), None, Some(5)])]).unwrap();
        let error = Error::from(sum.evaluate().unwrap_err());
        assert_eq!(error.kind(), ErrorKind::Invalid);
        sum.update_batch(&[integers(&[Some(-7)])]).unwrap();
        assert_eq!(sum.evaluate().unwrap(), ScalarValue::Int64(Some(i64::MAX - 2)));
        sum.retract_batch(&[integers(&[Some(i64::MAX), None, Some(5)])]).unwrap();
        assert_eq!(sum.evaluate().unwrap(), ScalarValue::Int64(Some(-7)));
        sum.retract_batch(&[integers(&[Some(-7)])]).unwrap();
        assert_eq!(sum.evaluate().unwrap(), ScalarValue::Int64(None));
    }

    #[test]
    fn groups_add_what_is_counted_and_hand_on_more_than_fits() {
        let mut sums = GroupSums::<Int64Type>::new(of_integers());
        let values = integers(&[Some(i64::MAX), Some(2), None, Some(4), Some(8)]);
        let filter = BooleanArray::from(vec![Some(true), Some(true), Some(true), Some(false), None]);
        sums.update_batch(&[Arc::clone(&values)], &[0, 0, 1, 0, 1], Some(&filter), 3).unwrap();
        let state = sums.state(EmitTo::First(2)).unwrap();
        assert_eq!(state[0].as_primitive::<Decimal128Type>().value(0), i128::from(i64::MAX) + 2);
        assert!(state[0].is_null(1));
        let mut merged = GroupSums::<Int64Type>::new(of_integers());
        merged.merge_batch(&state, &[1, 0], 2).unwrap();
        merged.update_batch(&[integers(&[Some(-3)])], &[1], None, 2).unwrap();
        let found = merged.evaluate(EmitTo::All).unwrap();
        assert_eq!(found.as_primitive::<Int64Type>(), &Int64Array::from(vec![None, Some(i64::MAX - 1)]));
        sums.update_batch(&[values], &[0, 0, 0, 0, 0], None, 1).unwrap();
        assert!(sums.evaluate(EmitTo::All).is_err());
    }

    #[test]
    fn a_row_is_a_state_of_its_own_if_it_passes_the_filter() {
        let sums = GroupSums::<Int64Type>::new(of_integers());
        let filter = BooleanArray::from(vec![Some(true), Some(false), None, Some(true)]);
        let values = integers(&[Some(1), Some(2), Some(3), None]);
        let state = sums.convert_to_state(&[values], Some(&filter)).unwrap();
        let expected = Decimal128Array::from(vec![Some(1), None, None, None]);
        assert_eq!(state[0].as_primitive(), &expected.with_precision_and_scale(38, 0).unwrap());
    }

    #[test]
    fn decimals_have_38_digits() {
        let most = 10i128.pow(38) - 1;
        let mut sum = Sum::<Decimal128Type>::new(of_decimals());
        sum.update_batch(&[decimals(&[most])]).unwrap();
        sum.update_batch(&[decimals(&[1])]).unwrap();
        assert!(sum.evaluate().is_err(), "39 digits, though 128 bits hold them");
        sum.update_batch(&[decimals(&[-1])]).unwrap();
        assert_eq!(sum.evaluate().unwrap(), ScalarValue::Decimal128(Some(most), 38, 0));
        assert!(sum.update_batch(&[decimals(&[most, most])]).is_err());
        let mut sums = GroupSums::<Decimal128Type>::new(of_decimals());
        assert!(sums.update_batch(&[decimals(&[most, most])], &[0, 0], None, 1).is_err());
    }
}
