use std::collections::HashMap;
use std::mem::{size_of, size_of_val, take};
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, ListArray, RecordBatch,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Schema};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::functions_aggregate::percentile_cont::percentile_cont_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Documentation, EmitTo, GroupsAccumulator,
    Signature,
};
use datafusion::physical_expr::PhysicalExpr;

use super::counted_rows::counted;
use crate::numbers::framed_accumulator::{Frame, Framed, collected};

/// `percentile_cont` that interpolates with all digits of the fraction; DataFusion's has six of them.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ExactPercentile {
    stock: Arc<AggregateUDF>,
}

impl ExactPercentile {
    pub(crate) fn new() -> Self {
        Self { stock: percentile_cont_udaf() }
    }
}

impl AggregateUDFImpl for ExactPercentile {
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
        self.stock.return_type(kinds)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if args.is_distinct || args.input_fields[0].data_type().is_null() {
            return self.stock.state_fields(args);
        }
        let name = format_state_name(args.name, "percentile_cont");
        Ok(vec![Arc::new(Field::new(name, DataType::List(list_field()), true))])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.expr_fields[0].data_type().is_null() {
            return self.stock.accumulator(args);
        }
        let place = Place { fraction: fraction_of(&args)?, result: args.return_type().clone() };
        // DataFusion's also checks the fraction.
        let distinct = args.is_distinct;
        let stock = self.stock.accumulator(args)?;
        Ok(if distinct {
            Box::new(Framed { frame: DistinctPercentile { place }, accumulator: stock })
        } else {
            Box::new(Percentile { place, values: Vec::new() })
        })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.stock.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let place = Place { fraction: fraction_of(&args)?, result: args.return_type().clone() };
        self.stock.create_groups_accumulator(args)?;
        Ok(Box::new(GroupPercentiles { place, groups: Vec::new() }))
    }

    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        self.stock.simplify()
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.stock.documentation()
    }
}

/// The fraction that it was called with; from the other end, if the order descends.
fn fraction_of(args: &AccumulatorArgs) -> Result<f64> {
    let Some(fraction) = args.exprs.get(1) else { return exec_err!("percentile_cont needs a fraction") };
    let descends = args.order_bys.first().is_some_and(|order| order.options.descending);
    let fraction = constant(fraction)?;
    Ok(if descends { 1.0 - fraction } else { fraction })
}

fn constant(expr: &Arc<dyn PhysicalExpr>) -> Result<f64> {
    match expr.evaluate(&RecordBatch::new_empty(Arc::new(Schema::empty())))? {
        ColumnarValue::Scalar(ScalarValue::Float64(Some(fraction))) => Ok(fraction),
        _ => exec_err!("the fraction of percentile_cont must be a constant"),
    }
}

fn list_field() -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Float64, true))
}

fn floats(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(cast(array, &DataType::Float64)?)
}

/// Where a percentile is among sorted values, and the type in which it is given.
#[derive(Clone, Debug)]
struct Place {
    /// 0 to 1.
    fraction: f64,
    /// A type of floats.
    result: DataType,
}

impl Place {
    /// The value there, between two if there is none. Values change their places.
    fn find(&self, values: &mut [f64]) -> Option<f64> {
        let last = values.len().checked_sub(1)?;
        let index = self.fraction * last as f64;
        let (lower, weight) = (index.floor() as usize, index.fract());
        let (_, &mut lower_value, above) = values.select_nth_unstable_by(lower.min(last), f64::total_cmp);
        if weight == 0.0 {
            return Some(lower_value);
        }
        let upper_value = above.iter().copied().min_by(f64::total_cmp).unwrap_or(lower_value);
        if lower_value == upper_value {
            return Some(lower_value); // infinite ones have no difference
        }
        Some(lower_value + (upper_value - lower_value) * weight)
    }

    fn scalar(&self, value: Option<f64>) -> Result<ScalarValue> {
        ScalarValue::Float64(value).cast_to(&self.result)
    }
}

/// The percentile of a whole column, or of the frame of a window.
#[derive(Debug)]
struct Percentile {
    place: Place,
    values: Vec<f64>,
}

impl Accumulator for Percentile {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = floats(&values[0])?;
        let values = values.as_primitive::<Float64Type>();
        if values.null_count() == 0 {
            self.values.extend_from_slice(values.values());
        } else {
            self.values.extend(values.iter().flatten());
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        states[0].as_list::<i32>().iter().flatten().try_for_each(|values| self.update_batch(&[values]))
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = floats(&values[0])?;
        let mut leaving: HashMap<u64, usize> = HashMap::new();
        for value in values.as_primitive::<Float64Type>().iter().flatten() {
            *leaving.entry(value.to_bits()).or_default() += 1;
        }
        self.values.retain(|value| match leaving.get_mut(&value.to_bits()) {
            Some(count) if *count > 0 => {
                *count -= 1;
                false
            }
            _ => true,
        });
        assert!(leaving.values().all(|count| *count == 0), "a value leaves a window that it is not in");
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let lists = list_of(vec![take(&mut self.values)])?;
        Ok(vec![ScalarValue::List(Arc::new(lists))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let value = self.place.find(&mut self.values);
        self.place.scalar(value)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * size_of::<f64>()
    }
}

/// The percentile of distinct values, which DataFusion's accumulator collects.
#[derive(Debug)]
struct DistinctPercentile {
    place: Place,
}

impl Frame for DistinctPercentile {
    fn value(&self, values: &mut dyn Accumulator) -> Result<ScalarValue> {
        let mut found = Percentile { place: self.place.clone(), values: Vec::new() };
        collected(values)?.into_iter().try_for_each(|values| found.update_batch(&[values]))?;
        found.evaluate()
    }
}

/// The percentile of each group.
#[derive(Debug)]
struct GroupPercentiles {
    place: Place,
    groups: Vec<Vec<f64>>,
}

impl GroupsAccumulator for GroupPercentiles {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        groups_total: usize,
    ) -> Result<()> {
        self.groups.resize_with(groups_total, Vec::new);
        let values = floats(&values[0])?;
        let values = values.as_primitive::<Float64Type>();
        let mut add = |row: usize| self.groups[groups[row]].push(values.value(row));
        match counted(values, filter) {
            None => (0..values.len()).for_each(add),
            Some(counted) => counted.set_indices().for_each(&mut add),
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], groups_total: usize) -> Result<()> {
        self.groups.resize_with(groups_total, Vec::new);
        let lists = states[0].as_list::<i32>();
        for (row, group) in groups.iter().enumerate() {
            if lists.is_valid(row) {
                let values = lists.value(row);
                self.groups[*group].extend_from_slice(values.as_primitive::<Float64Type>().values());
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let groups = emit_to.take_needed(&mut self.groups);
        let found = groups.into_iter().map(|mut values| self.place.find(&mut values));
        let found: ArrayRef = Arc::new(found.collect::<Float64Array>());
        Ok(cast(&found, &self.place.result)?)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![Arc::new(list_of(emit_to.take_needed(&mut self.groups))?)])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = floats(&values[0])?;
        let values = values.as_primitive::<Float64Type>();
        let counted = counted(values, filter);
        let alone = |row: usize| {
            let counts = counted.as_ref().is_none_or(|counted| counted.value(row));
            if counts { vec![values.value(row)] } else { Vec::new() }
        };
        Ok(vec![Arc::new(list_of((0..values.len()).map(alone).collect())?)])
    }

    fn size(&self) -> usize {
        let values = |group: &Vec<f64>| group.capacity() * size_of::<f64>() + size_of_val(group);
        size_of_val(self) + self.groups.iter().map(values).sum::<usize>()
    }
}

/// A list for each group. Each group is freed as soon as it is copied.
fn list_of(groups: Vec<Vec<f64>>) -> Result<ListArray> {
    let offsets = OffsetBuffer::from_lengths(groups.iter().map(Vec::len));
    let mut values = Vec::with_capacity(groups.iter().map(Vec::len).sum());
    for group in groups {
        values.extend_from_slice(&group);
    }
    Ok(ListArray::try_new(list_field(), offsets, Arc::new(Float64Array::from(values)), None)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(fraction: f64, values: &[f64]) -> Option<f64> {
        Place { fraction, result: DataType::Float64 }.find(&mut values.to_vec())
    }

    #[test]
    fn the_fraction_counts_with_all_its_digits() {
        assert_eq!(at(0.5, &[4.0, 1.0]), Some(2.5));
        assert_eq!(at(0.123_456_789, &[0.0, 1e9]), Some(123_456_789.0));
        assert_eq!(at(0.25, &[3.0, 1.0, 5.0]), Some(2.0));
        assert_eq!(at(0.0, &[3.0, 1.0]), Some(1.0));
        assert_eq!(at(1.0, &[3.0, 1.0, f64::NAN]).map(f64::is_nan), Some(true));
        assert_eq!(at(0.3, &[f64::INFINITY, f64::INFINITY]), Some(f64::INFINITY));
        assert_eq!(at(0.3, &[7.0]), Some(7.0));
        assert_eq!(at(0.3, &[]), None);
    }

    #[test]
    fn groups_hand_on_what_they_hold() {
        let place = Place { fraction: 0.5, result: DataType::Float64 };
        let groups = |groups: Vec<Vec<f64>>| GroupPercentiles { place: place.clone(), groups };
        let mut first = groups(Vec::new());
        let values: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), None, Some(2.0), Some(9.0)]));
        let filter = BooleanArray::from(vec![Some(true), Some(true), Some(true), None]);
        first.update_batch(&[Arc::clone(&values)], &[0, 0, 1, 1], Some(&filter), 3).unwrap();
        assert_eq!(first.groups, [vec![1.0], vec![2.0], vec![]]);
        let state = first.state(EmitTo::All).unwrap();
        let rows = first.convert_to_state(&[values], Some(&filter)).unwrap();
        let mut second = groups(Vec::new());
        second.merge_batch(&state, &[1, 0, 2], 3).unwrap();
        second.merge_batch(&rows, &[1, 1, 1, 1], 3).unwrap();
        assert_eq!(second.groups, [vec![2.0], vec![1.0, 1.0, 2.0], vec![]]);
        let found = second.evaluate(EmitTo::All).unwrap();
        assert_eq!(found.as_primitive(), &Float64Array::from(vec![Some(2.0), Some(1.0), None]));
    }

    #[test]
    fn what_leaves_a_window_leaves_once() {
        let mut found =
            Percentile { place: Place { fraction: 0.5, result: DataType::Float32 }, values: Vec::new() };
        let floats = |values: &[f64]| -> ArrayRef { Arc::new(Float64Array::from(values.to_vec())) };
        found.update_batch(&[floats(&[1.0, 1.0, 5.0])]).unwrap();
        found.retract_batch(&[floats(&[1.0])]).unwrap();
        assert_eq!(found.evaluate().unwrap(), ScalarValue::Float32(Some(3.0)));
    }
}
