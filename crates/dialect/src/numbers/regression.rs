use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::regr::regr_r2_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Signature};

use super::framed_accumulator::{Frame, Framed};

/// `regr_r2` of one `y` for each `x`, which is 1: the line goes through all points. DataFusion's is null.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct RegrR2(Arc<AggregateUDF>);

impl RegrR2 {
    pub(super) fn new() -> Self {
        Self(regr_r2_udaf())
    }
}

impl AggregateUDFImpl for RegrR2 {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        self.0.return_type(kinds)
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.0.state_fields(arguments)
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Framed { frame: FlatLine, accumulator: self.0.accumulator(arguments)? }))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }
}

#[derive(Debug)]
struct FlatLine;

impl Frame for FlatLine {
    fn value(&self, accumulator: &mut dyn Accumulator) -> Result<ScalarValue> {
        let state = accumulator.state()?;
        // The count, two means, the squares of the distances from each, and the product of both.
        let [_, _, _, ScalarValue::Float64(Some(of_x)), ScalarValue::Float64(Some(of_y)), _] =
            state.as_slice()
        else {
            return accumulator.evaluate();
        };
        if *of_x > 0.0 && *of_y == 0.0 { Ok(ScalarValue::from(1.0)) } else { accumulator.evaluate() }
    }
}
