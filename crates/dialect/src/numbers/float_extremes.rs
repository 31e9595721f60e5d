use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray};
use datafusion::arrow::datatypes::{
    DataType, Field, FieldRef, Float32Type, Float64Type, Int32Type, Int64Type,
};
use datafusion::common::Result;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, ReversedUDAF,
    Signature,
};

/// `min` and `max` of floats by groups, in which NaN is the greatest, as in a sort and without groups. DataFusion's compare floats with
/// `<`, which is false of NaN, so that the order of rows decides.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct FloatExtreme(Arc<AggregateUDF>);

impl FloatExtreme {
    /// The function in the place of this one of DataFusion's.
    pub(crate) fn of(stock: Arc<AggregateUDF>) -> Self {
        Self(stock)
    }

    /// DataFusion's function.
    pub(crate) fn stock(&self) -> &Arc<AggregateUDF> {
        &self.0
    }

    /// The function in whose place this one comes, if a call is one of it.
    pub(super) fn in_place_of(call: &AggregateFunction, kind: &DataType) -> Option<Self> {
        let is_stock = !call.func.inner().is::<Self>() && matches!(call.func.name(), "min" | "max");
        let is_float = matches!(kind, DataType::Float32 | DataType::Float64);
        (is_stock && is_float).then(|| Self(Arc::clone(&call.func)))
    }
}

impl AggregateUDFImpl for FloatExtreme {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(kinds)
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        self.0.return_type(kinds)
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.0.state_fields(arguments)
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.0.accumulator(arguments)
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.0.create_sliding_accumulator(arguments)
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let kind = arguments.return_field.data_type().clone();
        let of_integers = Arc::new(Field::new(arguments.name, integers_for(&kind), true));
        let expr_fields = [Arc::clone(&of_integers)];
        let arguments = AccumulatorArgs { return_field: of_integers, expr_fields: &expr_fields, ..arguments };
        Ok(Box::new(ByIntegers { inner: self.0.create_groups_accumulator(arguments)?, kind }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }
}

fn integers_for(float: &DataType) -> DataType {
    match float {
        DataType::Float32 => DataType::Int32,
        _ => DataType::Int64,
    }
}

/// Extremes of the integers that have the order of floats.
struct ByIntegers {
    inner: Box<dyn GroupsAccumulator>,
    /// The floats' type.
    kind: DataType,
}

/// The bits of a float as an integer of the same order, and back.
fn turned_64(bits: i64) -> i64 {
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

fn turned_32(bits: i32) -> i32 {
    bits ^ ((bits >> 31) as u32 >> 1) as i32
}

fn integers(floats: &ArrayRef) -> ArrayRef {
    match floats.data_type() {
        DataType::Float32 => {
            let floats = floats.as_primitive::<Float32Type>();
            let integers: PrimitiveArray<Int32Type> = floats.unary(|float| turned_32(float.to_bits() as i32));
            Arc::new(integers)
        }
        _ => {
            let floats = floats.as_primitive::<Float64Type>();
            let integers: PrimitiveArray<Int64Type> = floats.unary(|float| turned_64(float.to_bits() as i64));
            Arc::new(integers)
        }
    }
}

fn floats(integers: &ArrayRef) -> ArrayRef {
    match integers.data_type() {
        DataType::Int32 => {
            let integers = integers.as_primitive::<Int32Type>();
            let floats: PrimitiveArray<Float32Type> =
                integers.unary(|integer| f32::from_bits(turned_32(integer) as u32));
            Arc::new(floats)
        }
        _ => {
            let integers = integers.as_primitive::<Int64Type>();
            let floats: PrimitiveArray<Float64Type> =
                integers.unary(|integer| f64::from_bits(turned_64(integer) as u64));
            Arc::new(floats)
        }
    }
}

impl ByIntegers {
    fn given(&self, values: &[ArrayRef]) -> Vec<ArrayRef> {
        values
            .iter()
            .map(
                |values| if *values.data_type() == self.kind { integers(values) } else { Arc::clone(values) },
            )
            .collect()
    }
}

impl GroupsAccumulator for ByIntegers {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        groups_total: usize,
    ) -> Result<()> {
        self.inner.update_batch(&self.given(values), groups, filter, groups_total)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], groups_total: usize) -> Result<()> {
        self.inner.merge_batch(&self.given(states), groups, groups_total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        Ok(floats(&self.inner.evaluate(emit_to)?))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(self.inner.state(emit_to)?.iter().map(floats).collect())
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        Ok(self.inner.convert_to_state(&self.given(values), filter)?.iter().map(floats).collect())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Float32Array, Float64Array};

    use super::*;

    #[test]
    fn integers_have_the_order_of_floats_and_become_them_again() {
        let ordered = [f64::NEG_INFINITY, -2.5, -0.0, 0.0, 1e-300, 1.5, f64::INFINITY, f64::NAN];
        let made: ArrayRef = Arc::new(Float64Array::from(ordered.to_vec()));
        let of_integers = integers(&made);
        assert!(of_integers.as_primitive::<Int64Type>().values().is_sorted(), "{of_integers:?}");
        assert_eq!(format!("{:?}", floats(&of_integers)), format!("{made:?}"));
        let ordered = [f32::NEG_INFINITY, -2.5, -0.0, 0.0, 1.5, f32::INFINITY, f32::NAN];
        let made: ArrayRef = Arc::new(Float32Array::from(ordered.to_vec()));
        let of_integers = integers(&made);
        assert!(of_integers.as_primitive::<Int32Type>().values().is_sorted(), "{of_integers:?}");
        assert_eq!(format!("{:?}", floats(&of_integers)), format!("{made:?}"));
    }
}
