use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::function::{AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature,
};

use super::checked_results::CheckedResult;
use super::float_frames::{self, Correlation};
use super::framed_accumulator::{Frame, Framed};

/// The aggregates of floats, by one of their names.
pub(super) const NAMES: [&str; 17] = [
    "sum",
    "avg",
    "var_samp",
    "var_pop",
    "stddev_samp",
    "stddev_pop",
    "covar_samp",
    "covar_pop",
    "corr",
    "regr_slope",
    "regr_intercept",
    "regr_r2",
    "regr_avgx",
    "regr_avgy",
    "regr_sxx",
    "regr_syy",
    "regr_sxy",
];

/// An aggregate whose result is a float. DataFusion's differ in three things:
///
/// - a frame that slides takes back what leaves it: a NaN or an infinity never leaves, and beside a large number small ones are lost. Here
///   frames are folded anew ([`float_frames`]);
/// - `corr` by groups subtracts sums of squares, in which values far from zero lose all their digits. Here it goes from mean to mean;
/// - a NaN that the processor made has a sign, and is the least number. Here it is the one NaN.
///
/// All else, and what is no float, is the function's own.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct FloatAggregate(Arc<AggregateUDF>);

impl FloatAggregate {
    /// Puts these in place of the functions that are there.
    pub(super) fn register(state: &mut SessionState) -> Result<()> {
        for name in NAMES {
            let stock = state.udaf(name)?;
            state.register_udaf(Arc::new(AggregateUDF::from(Self(stock))))?;
        }
        Ok(())
    }

    fn is_correlation(&self) -> bool {
        self.0.name() == "corr"
    }
}

fn is_float(arguments: &AccumulatorArgs) -> bool {
    *arguments.return_type() == DataType::Float64
}

impl AggregateUDFImpl for FloatAggregate {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        self.0.return_type(kinds)
    }

    fn is_nullable(&self) -> bool {
        self.0.is_nullable()
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(kinds)
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.0.state_fields(arguments)
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if !is_float(&arguments) {
            return self.0.accumulator(arguments);
        }
        if self.is_correlation() && !arguments.is_distinct {
            return Ok(Box::new(Correlation::default()));
        }
        Ok(Box::new(Framed { frame: OneNan, accumulator: self.0.accumulator(arguments)? }))
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if is_float(&arguments)
            && !arguments.is_distinct
            && let Some(frames) = float_frames::of(self.name())
        {
            return Ok(frames);
        }
        self.0.create_sliding_accumulator(arguments)
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs) -> bool {
        !self.is_correlation() && self.0.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let is_float = is_float(&arguments);
        let groups = self.0.create_groups_accumulator(arguments)?;
        Ok(if is_float { Box::new(Framed { frame: OneNan, accumulator: groups }) } else { groups })
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.0.order_sensitivity()
    }

    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        self.0.simplify()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.0.reverse_udf() {
            ReversedUDAF::Identical => ReversedUDAF::Identical,
            ReversedUDAF::NotSupported | ReversedUDAF::Reversed(_) => ReversedUDAF::NotSupported,
        }
    }

    fn default_value(&self, kind: &DataType) -> Result<ScalarValue> {
        self.0.default_value(kind)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }

    fn set_monotonicity(&self, kind: &DataType) -> SetMonotonicity {
        self.0.inner().set_monotonicity(kind)
    }
}

/// Results whose NaN is the one that is greater than all numbers.
#[derive(Debug)]
struct OneNan;

impl Frame for OneNan {
    fn value(&self, accumulator: &mut dyn Accumulator) -> Result<ScalarValue> {
        Ok(match accumulator.evaluate()? {
            ScalarValue::Float64(Some(value)) if value.is_nan() => ScalarValue::from(f64::NAN),
            other => other,
        })
    }

    fn values(&self, accumulator: &mut dyn GroupsAccumulator, emit_to: EmitTo) -> Result<ArrayRef> {
        CheckedResult::OneNan.checked(accumulator.evaluate(emit_to)?)
    }
}
