use std::borrow::Cow;
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::functions_aggregate::median::median_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, Signature,
};

use super::decimal_type::DecimalType;
use crate::numbers::framed_accumulator::{Frame, Framed};

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
        Ok(if is_same { exact } else { Box::new(Framed { frame: Widened { kind }, accumulator: exact }) })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.stock.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let fields: Vec<FieldRef> = args.expr_fields.iter().map(exact_field).collect();
        let kind = fields[0].data_type().clone();
        let is_same = kind == *args.expr_fields[0].data_type();
        let exact = self.stock.create_groups_accumulator(AccumulatorArgs { expr_fields: &fields, ..args })?;
        Ok(if is_same { exact } else { Box::new(Framed { frame: Widened { kind }, accumulator: exact }) })
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.stock.documentation()
    }
}

/// What gives an accumulator its values as another type.
#[derive(Debug)]
struct Widened {
    kind: DataType,
}

impl Frame for Widened {
    fn given<'a>(&self, values: &'a [ArrayRef]) -> Result<Cow<'a, [ArrayRef]>> {
        values.iter().map(|values| Ok(cast(values, &self.kind)?)).collect::<Result<Vec<_>>>().map(Cow::Owned)
    }
}
