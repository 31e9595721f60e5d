//! `string_agg`, beside which other aggregates may have another order.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::functions_aggregate::string_agg::StringAgg;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF, Signature,
};

/// DataFusion's `string_agg`, without the rows' order that it asks for: its accumulator sorts what it has itself, as that of `array_agg`
/// does. DataFusion orders the rows once, for all aggregates of a query, and refuses `string_agg(a, ',' ORDER BY a)` beside one `ORDER BY b`.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct OrderedTexts(StringAgg);

impl AggregateUDFImpl for OrderedTexts {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        self.0.return_type(kinds)
    }

    fn state_fields(&self, call: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.0.state_fields(call)
    }

    fn accumulator(&self, call: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.0.accumulator(call)
    }

    fn groups_accumulator_supported(&self, call: AccumulatorArgs) -> bool {
        self.0.groups_accumulator_supported(call)
    }

    fn create_groups_accumulator(&self, call: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.0.create_groups_accumulator(call)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Beneficial
    }

    fn with_beneficial_ordering(self: Arc<Self>, _: bool) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::NotSupported
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }
}
