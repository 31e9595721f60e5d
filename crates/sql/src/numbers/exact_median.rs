use std::fmt;
use std::mem::size_of_val;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::median::median_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, Signature,
};

use super::decimal_type::DecimalType;

/// `median` that gives decimals a digit more than they have, which the middle of two may need; DataFusion's cuts it off.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ExactMedian {
    stock: Arc<AggregateUDF>,
}

impl ExactMedian {
    pub(crate) fn new() -> Self {
        Self { stock: median_udaf() }
    }
}

/// The type in which the middle of two values of this type is exact.
fn exact(kind: &DataType) -> DataType {
    DecimalType::of(kind).and_then(DecimalType::half).map_or_else(|| kind.clone(), DecimalType::data_type)
}

fn exact_field(field: &FieldRef) -> FieldRef {
    Arc::new(field.as_ref().clone().with_data_type(exact(field.data_type())))
}

impl AggregateUDFImpl for ExactMedian {
    fn name(&self) -> &str {
        self.stock.name()
    }

    fn signature(&self) -> &Signature {
        self.stock.signature()
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        let kinds: Vec<DataType> = kinds.iter().map(exact).collect();
        self.stock.return_type(&kinds)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let input_fields: Vec<FieldRef> = args.input_fields.iter().map(exact_field).collect();
        self.stock.state_fields(StateFieldsArgs { input_fields: &input_fields, ..args })
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let fields: Vec<FieldRef> = args.expr_fields.iter().map(exact_field).collect();
        let kind = fields[0].data_type().clone();
        let is_same = kind == *args.expr_fields[0].data_type();
        let exact = self.stock.accumulator(AccumulatorArgs { expr_fields: &fields, ..args })?;
        Ok(if is_same { exact } else { Box::new(Widened { kind, exact }) })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.stock.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let fields: Vec<FieldRef> = args.expr_fields.iter().map(exact_field).collect();
        let kind = fields[0].data_type().clone();
        let is_same = kind == *args.expr_fields[0].data_type();
        let exact = self.stock.create_groups_accumulator(AccumulatorArgs { expr_fields: &fields, ..args })?;
        Ok(if is_same { exact } else { Box::new(Widened { kind, exact }) })
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.stock.documentation()
    }
}

/// An accumulator that is given values as another type.
struct Widened<A> {
    kind: DataType,
    exact: A,
}

impl<A> Widened<A> {
    fn cast(&self, values: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        values.iter().map(|values| Ok(cast(values, &self.kind)?)).collect()
    }
}

impl<A> fmt::Debug for Widened<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Widened").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Accumulator for Widened<Box<dyn Accumulator>> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = self.cast(values)?;
        self.exact.update_batch(&values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.exact.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = self.cast(values)?;
        self.exact.retract_batch(&values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.exact.supports_retract_batch()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.exact.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.exact.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.exact.size()
    }
}

impl GroupsAccumulator for Widened<Box<dyn GroupsAccumulator>> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        groups_total: usize,
    ) -> Result<()> {
        let values = self.cast(values)?;
        self.exact.update_batch(&values, groups, filter, groups_total)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], groups_total: usize) -> Result<()> {
        self.exact.merge_batch(states, groups, groups_total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.exact.evaluate(emit_to)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.exact.state(emit_to)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.exact.convert_to_state(&self.cast(values)?, filter)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.exact.size()
    }
}
