//! `percentile_disc` and `approx_percentile` of Spark: values of which a share of all is not greater.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, ListArray, RecordBatch, UInt64Array, new_empty_array,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{cast, concat, filter, is_not_null, take};
use datafusion::arrow::datatypes::{
    DataType, Field, FieldRef, Float64Type, IntervalMonthDayNanoType, Schema,
};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::aggregate_doc_sections::DOC_SECTION_STATISTICAL;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, ColumnarValue, Documentation, Signature};
use datafusion::physical_expr::PhysicalExpr;
use yeoul_base::ErrorKind;

use super::refuse_distinct;
use crate::Error;
use crate::signatures::USER_DEFINED;
use crate::time::interval_span::INTERVAL;

/// A function of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RankedValue {
    /// `spark_percentile_disc(share) WITHIN GROUP (ORDER BY x)`: a DOUBLE of a number.
    Discrete,
    /// `spark_approx_percentile(x, share[, accuracy])`: of the type of `x`, or a list for a list of shares.
    Approximate,
}

impl RankedValue {
    pub const ALL: [Self; 2] = [Self::Discrete, Self::Approximate];

    /// The constant that an argument is.
    fn constant(self, expr: &Arc<dyn PhysicalExpr>) -> Result<ScalarValue> {
        match expr.evaluate(&RecordBatch::new_empty(Arc::new(Schema::empty())))? {
            ColumnarValue::Scalar(value) => Ok(value),
            ColumnarValue::Array(_) => {
                let text = format!("the share of {} must be a constant", self.name());
                Err(Error::new(ErrorKind::Invalid, text).with_hint("it is a number from 0 to 1").into())
            }
        }
    }

    /// The shares that a call asks for.
    fn shares(self, value: &ScalarValue) -> Result<Vec<f64>> {
        let refused = || {
            let text = format!("{} of the share {value}", self.name());
            Error::new(ErrorKind::Invalid, text).with_hint("it is a number from 0 to 1")
        };
        let values = match value {
            ScalarValue::List(list) => list.value(0),
            other => other.cast_to(&DataType::Float64)?.to_array()?,
        };
        let values = cast(&values, &DataType::Float64)?;
        let shares = values.as_primitive::<Float64Type>().iter();
        let shares: Option<Vec<f64>> =
            shares.map(|share| share.filter(|share| (0.0..=1.0).contains(share))).collect();
        Ok(shares.ok_or_else(refused)?)
    }
}

impl AggregateUDFImpl for RankedValue {
    fn name(&self) -> &str {
        match self {
            Self::Discrete => "spark_percentile_disc",
            Self::Approximate => "spark_approx_percentile",
        }
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let is_share = |kind: &DataType| kind.is_numeric();
        let is_ranked = |kind: &DataType| {
            kind.is_numeric()
                || kind.is_null()
                || *kind == INTERVAL
                || kind.is_temporal() && *self == Self::Approximate
        };
        let of_list = |kind: &DataType| match kind {
            DataType::List(field) => is_share(field.data_type()),
            _ => false,
        };
        let floats = || DataType::List(Arc::new(Field::new_list_field(DataType::Float64, true)));
        match (self, kinds) {
            (_, [value, share, ..]) if is_ranked(value) && is_share(share) && kinds.len() <= 3 => {
                let mut coerced = vec![value.clone(), DataType::Float64, DataType::Int64];
                coerced.truncate(kinds.len());
                Ok(coerced)
            }
            (Self::Approximate, [value, share, ..])
                if is_ranked(value) && of_list(share) && kinds.len() <= 3 =>
            {
                let mut coerced = vec![value.clone(), floats(), DataType::Int64];
                coerced.truncate(kinds.len());
                Ok(coerced)
            }
            _ => plan_err!("{} takes numbers, and a share from 0 to 1", self.name()),
        }
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        let value = &kinds[0];
        Ok(match (self, kinds.get(1)) {
            (Self::Discrete, _) if value.is_numeric() || value.is_null() => DataType::Float64,
            (Self::Approximate, Some(DataType::List(_))) => {
                DataType::List(Arc::new(Field::new_list_field(value.clone(), true)))
            }
            _ => value.clone(),
        })
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let value = Field::new_list_field(args.input_fields[0].data_type().clone(), true);
        Ok(vec![Arc::new(Field::new_list(format_state_name(args.name, "values"), value, true))])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        refuse_distinct(self.name(), &args)?;
        let Some(share) = args.exprs.get(1) else { return plan_err!("{} needs a share", self.name()) };
        let share = self.constant(share)?;
        Ok(Box::new(Values {
            of: *self,
            shares: self.shares(&share)?,
            is_list: matches!(share, ScalarValue::List(_)),
            descends: args.order_bys.first().is_some_and(|order| order.options.descending),
            kind: args.expr_fields[0].data_type().clone(),
            seen: Vec::new(),
        }))
    }

    fn supports_within_group_clause(&self) -> bool {
        *self == Self::Discrete
    }

    fn documentation(&self) -> Option<&Documentation> {
        static DOCUMENTATION: LazyLock<[Documentation; 2]> = LazyLock::new(|| {
            [
                (
                    "Least value of which a share of all is not greater.",
                    "spark_percentile_disc(share) WITHIN GROUP (ORDER BY x)",
                ),
                ("Value of which a share of all is not greater.", "spark_approx_percentile(x, share)"),
            ]
            .map(|(text, call)| Documentation::builder(DOC_SECTION_STATISTICAL, text, call).build())
        });
        Some(&DOCUMENTATION[*self as usize])
    }
}

/// The values that were seen.
#[derive(Debug)]
struct Values {
    of: RankedValue,
    shares: Vec<f64>,
    is_list: bool,
    descends: bool,
    kind: DataType,
    /// Values that are not null.
    seen: Vec<ArrayRef>,
}

impl Values {
    fn all(&self) -> Result<ArrayRef> {
        let seen: Vec<&dyn Array> = self.seen.iter().map(AsRef::as_ref).collect();
        Ok(if seen.is_empty() { new_empty_array(&self.kind) } else { concat(&seen)? })
    }

    fn keep(&mut self, values: &ArrayRef) -> Result<()> {
        if *values.data_type() == DataType::Null {
            return Ok(());
        }
        let kept = if values.null_count() == 0 {
            Arc::clone(values)
        } else {
            filter(values, &is_not_null(values)?)?
        };
        if !kept.is_empty() {
            self.seen.push(kept);
        }
        Ok(())
    }

    /// The places of values in their order.
    fn order(&self, values: &ArrayRef) -> Result<Vec<u64>> {
        let mut places: Vec<u64> = (0..values.len()).map(|place| place as u64).collect();
        if self.kind == INTERVAL {
            let values = values.as_primitive::<IntervalMonthDayNanoType>();
            let key = |place: &u64| {
                let value = values.value(*place as usize);
                (value.months, i128::from(value.days) * 86_400_000_000_000 + i128::from(value.nanoseconds))
            };
            places.sort_by_key(key);
        } else if self.kind.is_floating() {
            let values = cast(values, &DataType::Float64)?;
            let values = values.as_primitive::<Float64Type>();
            places.sort_by(|a, b| values.value(*a as usize).total_cmp(&values.value(*b as usize)));
        } else {
            let sorted = datafusion::arrow::compute::sort_to_indices(values, None, None)?;
            places = sorted.values().iter().map(|place| u64::from(*place)).collect();
        }
        if self.descends {
            places.reverse();
        }
        Ok(places)
    }

    /// The place in an order of so many that a share asks for.
    fn place(share: f64, count: usize) -> usize {
        // The first of which the share of those up to it is not less.
        let mut place = (share * count as f64).ceil() as usize;
        while place > 1 && (place - 1) as f64 / count as f64 >= share {
            place -= 1;
        }
        place.clamp(1, count) - 1
    }
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.keep(&values[0])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        states[0].as_list::<i32>().iter().flatten().try_for_each(|values| self.keep(&values))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = self.all()?;
        let field = Arc::new(Field::new_list_field(self.kind.clone(), true));
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        Ok(vec![ScalarValue::List(Arc::new(ListArray::try_new(field, offsets, values, None)?))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let values = self.all()?;
        let to = match self.of {
            RankedValue::Discrete if self.kind.is_numeric() || self.kind.is_null() => DataType::Float64,
            _ => self.kind.clone(),
        };
        if values.is_empty() {
            let field = Arc::new(Field::new_list_field(to.clone(), true));
            return ScalarValue::try_from(&if self.is_list { DataType::List(field) } else { to });
        }
        let order = self.order(&values)?;
        let places = self.shares.iter().map(|share| order[Self::place(*share, order.len())]);
        let found = take(&values, &places.collect::<UInt64Array>(), None)?;
        let found = cast(&found, &to)?;
        if self.is_list {
            let field = Arc::new(Field::new_list_field(to, true));
            let offsets = OffsetBuffer::from_lengths([found.len()]);
            return Ok(ScalarValue::List(Arc::new(ListArray::try_new(field, offsets, found, None)?)));
        }
        ScalarValue::try_from_array(&found, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.seen.iter().map(|values| values.get_array_memory_size()).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_of_the_values_up_to_one() {
        let places = |share: f64, counts: [usize; 4]| counts.map(|count| Values::place(share, count));
        assert_eq!(places(0.0, [1, 2, 3, 10]), [0, 0, 0, 0]);
        assert_eq!(places(0.5, [1, 2, 3, 10]), [0, 0, 1, 4]);
        assert_eq!(places(0.6, [1, 2, 3, 5]), [0, 1, 1, 2]);
        assert_eq!(places(1.0, [1, 2, 3, 10]), [0, 1, 2, 9]);
    }
}
