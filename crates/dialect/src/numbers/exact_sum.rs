use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, Int64Type, UInt64Type};
use datafusion::common::Result;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature,
};

use super::sums::{DistinctSum, GroupSums, Sum, SumType};
use super::{decimal_overflow, integer_overflow};

/// Sums of decimals have ten digits more than these, up to 38 of them: with fewer than 38, ten billion rows cannot overflow.
const PRECISION_MAX: u8 = 38;

/// `sum` of integers and decimals that fails where the sum does not fit its type, and does not wrap around. The rest is DataFusion's.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ExactSum {
    stock: Arc<AggregateUDF>,
}

impl ExactSum {
    pub(crate) fn new() -> Self {
        Self { stock: sum_udaf() }
    }

    /// How to add up to this result; `None` for a type of which DataFusion's `sum` is right.
    fn kind(result: &DataType) -> Option<SumType> {
        match result {
            DataType::Int64 | DataType::UInt64 => Some(SumType {
                result: result.clone(),
                state: DataType::Decimal128(38, 0),
                overflow: || integer_overflow("a sum does not fit 64 bits"),
            }),
            DataType::Decimal128(PRECISION_MAX, _) => Some(SumType {
                result: result.clone(),
                state: result.clone(),
                overflow: || decimal_overflow("a sum has more than 38 digits"),
            }),
            _ => None,
        }
    }
}

/// One of the accumulators of a sum, for the type of its result.
macro_rules! of_type {
    ($kind:expr, $made:ident :: $new:ident $(, $more:expr)*) => {
        match $kind.result {
            DataType::Int64 => Ok(Box::new($made::<Int64Type>::$new($kind $(, $more)*))),
            DataType::UInt64 => Ok(Box::new($made::<UInt64Type>::$new($kind $(, $more)*))),
            _ => Ok(Box::new($made::<Decimal128Type>::$new($kind $(, $more)*))),
        }
    };
}

impl AggregateUDFImpl for ExactSum {
    fn name(&self) -> &str {
        self.stock.name()
    }

    fn signature(&self) -> &Signature {
        self.stock.signature()
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        self.stock.return_type(kinds)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        match Self::kind(args.return_type()).filter(|_| !args.is_distinct) {
            Some(kind) => {
                Ok(vec![Arc::new(Field::new(format_state_name(args.name, "sum"), kind.state, true))])
            }
            None => self.stock.state_fields(args),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let Some(kind) = Self::kind(args.return_type()) else { return self.stock.accumulator(args) };
        if args.is_distinct {
            let values = self.stock.accumulator(args)?;
            return of_type!(kind, DistinctSum::framing, values);
        }
        of_type!(kind, Sum::new)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let Some(kind) = Self::kind(args.return_type()) else {
            return self.stock.create_sliding_accumulator(args);
        };
        if args.is_distinct {
            let values = self.stock.create_sliding_accumulator(args)?;
            return of_type!(kind, DistinctSum::framing, values);
        }
        of_type!(kind, Sum::new)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        match Self::kind(args.return_type()) {
            Some(kind) => of_type!(kind, GroupSums::new),
            None => self.stock.create_groups_accumulator(args),
        }
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

    fn set_monotonicity(&self, kind: &DataType) -> SetMonotonicity {
        self.stock.inner().set_monotonicity(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_that_could_overflow_are_checked() {
        for precision in 1..=38 {
            let result = ExactSum::new().return_type(&[DataType::Decimal128(precision, 0)]).unwrap();
            assert_eq!(result, DataType::Decimal128((precision + 10).min(38), 0), "ten digits more");
            assert_eq!(ExactSum::kind(&result).is_some(), precision >= 28, "{precision} digits");
        }
    }
}
