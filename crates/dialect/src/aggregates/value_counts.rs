//! `mode`, `histogram` and `entropy`: functions of how often each value occurs.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, ListArray, MapArray, StructArray, UInt64Array, new_empty_array,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, UInt64Type};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::aggregate_doc_sections::DOC_SECTION_STATISTICAL;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Documentation, Signature};

use super::refuse_distinct;
use crate::signatures::USER_DEFINED;

static DOCUMENTATION: LazyLock<[Documentation; 3]> = LazyLock::new(|| {
    [
        ("Most frequent value that is not null; of several the least.", "mode(x)"),
        ("Map of each value that is not null to the number of times that it occurs.", "histogram(x)"),
        ("Entropy of the values that are not null, in bits.", "entropy(x)"),
    ]
    .map(|(text, call)| Documentation::builder(DOC_SECTION_STATISTICAL, text, call).build())
});

/// A function of how often each value occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ValueCounts {
    Mode,
    Histogram,
    Entropy,
}

impl ValueCounts {
    pub const ALL: [Self; 3] = [Self::Mode, Self::Histogram, Self::Entropy];
}

/// True of types whose values have an order.
fn is_ordered(kind: &DataType) -> bool {
    kind.is_numeric()
        || kind.is_string()
        || kind.is_binary()
        || matches!(
            kind,
            DataType::Boolean
                | DataType::Null
                | DataType::Date32
                | DataType::Date64
                | DataType::Time32(_)
                | DataType::Time64(_)
                | DataType::Timestamp(..)
        )
}

/// Entries of a map from values of a type to counts.
fn entries_of(kind: &DataType) -> Fields {
    Fields::from(vec![Field::new("key", kind.clone(), false), Field::new("value", DataType::UInt64, true)])
}

fn map_of(kind: &DataType) -> FieldRef {
    Arc::new(Field::new("entries", DataType::Struct(entries_of(kind)), false))
}

impl AggregateUDFImpl for ValueCounts {
    fn name(&self) -> &str {
        match self {
            Self::Mode => "mode",
            Self::Histogram => "histogram",
            Self::Entropy => "entropy",
        }
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        match kinds {
            [kind] if is_ordered(kind) => Ok(vec![kind.clone()]),
            [kind] => plan_err!("{} of {kind} is not supported: take one of its parts", self.name()),
            _ => plan_err!("{} takes 1 argument", self.name()),
        }
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        Ok(match self {
            Self::Mode => kinds[0].clone(),
            Self::Histogram => DataType::Map(map_of(&kinds[0]), false),
            Self::Entropy => DataType::Float64,
        })
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let list = |name, kind: DataType| {
            Arc::new(Field::new_list(
                format_state_name(args.name, name),
                Field::new_list_field(kind, true),
                true,
            ))
        };
        Ok(vec![list("values", args.input_fields[0].data_type().clone()), list("counts", DataType::UInt64)])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        refuse_distinct(self.name(), &args)?;
        let kind = args.expr_fields[0].data_type().clone();
        Ok(Box::new(Counts { of: *self, kind, counts: HashMap::new(), heap: 0 }))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOCUMENTATION[*self as usize])
    }
}

/// Counts of the values, by value.
#[derive(Debug)]
struct Counts {
    of: ValueCounts,
    kind: DataType,
    counts: HashMap<ScalarValue, u64>,
    /// Bytes that values have beside themselves.
    heap: usize,
}

/// A float as the one of those that are equal.
fn only_one(value: ScalarValue) -> ScalarValue {
    match value {
        ScalarValue::Float64(Some(x)) if x.is_nan() => ScalarValue::from(f64::NAN),
        ScalarValue::Float64(Some(x)) => ScalarValue::from(x + 0.0),
        ScalarValue::Float32(Some(x)) if x.is_nan() => ScalarValue::from(f32::NAN),
        ScalarValue::Float32(Some(x)) => ScalarValue::from(x + 0.0),
        other => other,
    }
}

fn order(a: &ScalarValue, b: &ScalarValue) -> Ordering {
    match (a, b) {
        (ScalarValue::Float64(Some(a)), ScalarValue::Float64(Some(b))) => a.total_cmp(b),
        (ScalarValue::Float32(Some(a)), ScalarValue::Float32(Some(b))) => a.total_cmp(b),
        (a, b) => a.partial_cmp(b).expect("values of one type that has an order"),
    }
}

impl Counts {
    fn add(&mut self, value: ScalarValue, count: u64) {
        let value = only_one(value);
        let heap = value.size() - size_of::<ScalarValue>();
        let counted = self.counts.entry(value).or_insert_with(|| {
            self.heap += heap;
            0
        });
        *counted += count;
    }

    /// Values and counts, in the order of the values.
    fn sorted(&self) -> Vec<(&ScalarValue, u64)> {
        let mut counts: Vec<_> = self.counts.iter().map(|(value, count)| (value, *count)).collect();
        counts.sort_unstable_by(|(a, _), (b, _)| order(a, b));
        counts
    }

    fn values(&self, counts: &[(&ScalarValue, u64)]) -> Result<ArrayRef> {
        if counts.is_empty() {
            return Ok(new_empty_array(&self.kind));
        }
        ScalarValue::iter_to_array(counts.iter().map(|(value, _)| (*value).clone()))
    }

    fn histogram(&self) -> Result<ScalarValue> {
        let counts = self.sorted();
        if counts.is_empty() {
            return ScalarValue::try_new_null(&DataType::Map(map_of(&self.kind), false));
        }
        let numbers = UInt64Array::from_iter_values(counts.iter().map(|(_, count)| *count));
        let offsets = OffsetBuffer::from_lengths([counts.len()]);
        let columns: Vec<ArrayRef> = vec![self.values(&counts)?, Arc::new(numbers)];
        let entries = StructArray::try_new(entries_of(&self.kind), columns, None)?;
        let map = MapArray::try_new(map_of(&self.kind), offsets, entries, None, false)?;
        Ok(ScalarValue::Map(Arc::new(map)))
    }

    fn mode(&self) -> Result<ScalarValue> {
        let least = |a: &ScalarValue, b: &ScalarValue| order(b, a);
        let most = self.counts.iter().max_by(|(a, of_a), (b, of_b)| of_a.cmp(of_b).then_with(|| least(a, b)));
        most.map_or_else(|| ScalarValue::try_new_null(&self.kind), |(value, _)| Ok(value.clone()))
    }

    fn entropy(&self) -> f64 {
        let counts = self.sorted();
        let all: u64 = counts.iter().map(|(_, count)| count).sum();
        let bits = counts.iter().map(|(_, count)| {
            let share = *count as f64 / all as f64;
            -share * share.log2()
        });
        // Without a sign, if there is one value.
        bits.sum::<f64>().abs()
    }
}

impl Accumulator for Counts {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for row in 0..values[0].len() {
            let value = ScalarValue::try_from_array(&values[0], row)?;
            if !value.is_null() {
                self.add(value, 1);
            }
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for row in 0..values[0].len() {
            let value = only_one(ScalarValue::try_from_array(&values[0], row)?);
            if value.is_null() {
                continue;
            }
            let count = self.counts.get_mut(&value).expect("a value leaves a frame that it has entered");
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&value);
                self.heap -= value.size() - size_of::<ScalarValue>();
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match self.of {
            ValueCounts::Mode => self.mode(),
            ValueCounts::Histogram => self.histogram(),
            ValueCounts::Entropy => Ok(ScalarValue::from(self.entropy())),
        }
    }

    fn size(&self) -> usize {
        let entry = size_of::<(ScalarValue, u64)>() + 1;
        size_of_val(self) + self.counts.capacity() * entry + self.heap
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let counts = self.sorted();
        let numbers = UInt64Array::from_iter_values(counts.iter().map(|(_, count)| *count));
        let list = |values: ArrayRef| {
            let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
            let offsets = OffsetBuffer::from_lengths([values.len()]);
            ScalarValue::List(Arc::new(ListArray::new(field, offsets, values, None)))
        };
        Ok(vec![list(self.values(&counts)?), list(Arc::new(numbers))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (values, counts) = (states[0].as_list::<i32>(), states[1].as_list::<i32>());
        for row in (0..values.len()).filter(|row| values.is_valid(*row)) {
            let (values, counts) = (values.value(row), counts.value(row));
            let counts = counts.as_primitive::<UInt64Type>();
            for at in 0..values.len() {
                self.add(ScalarValue::try_from_array(&values, at)?, counts.value(at));
            }
        }
        Ok(())
    }
}
