//! `histogram_numeric`, the histogram of Ben-Haim and Tom-Tov with which Hive and Spark describe many numbers by a few.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, ListArray, RecordBatch, StructArray};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Float64Type, Schema};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, ColumnarValue, Signature};
use yeoul_base::ErrorKind;

use super::refuse_distinct;
use crate::Error;
use crate::signatures::USER_DEFINED;

/// Bins of a histogram, at most.
const BINS_MAX: i64 = 1_000_000;

/// The function `spark_histogram_numeric(x, bins)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct NumericHistogram;

fn bin_fields(kind: &DataType) -> Fields {
    Fields::from(vec![Field::new("x", kind.clone(), true), Field::new("y", DataType::Float64, true)])
}

fn list_of(kind: &DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Struct(bin_fields(kind)), true)))
}

fn of_nulls(kind: &DataType) -> DataType {
    if kind.is_null() { DataType::Float64 } else { kind.clone() }
}

impl AggregateUDFImpl for NumericHistogram {
    fn name(&self) -> &str {
        "spark_histogram_numeric"
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        match kinds {
            [value, bins]
                if (value.is_numeric()
                    || value.is_null()
                    || matches!(value, DataType::Timestamp(_, None)))
                    && bins.is_integer() =>
            {
                Ok(vec![of_nulls(value), DataType::Int64])
            }
            _ => plan_err!("histogram_numeric takes numbers or timestamps, and a number of bins"),
        }
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        Ok(list_of(&kinds[0]))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(
            format_state_name(args.name, "bins"),
            list_of(&DataType::Float64),
            true,
        ))])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        refuse_distinct("histogram_numeric", &args)?;
        let Some(bins) = args.exprs.get(1) else {
            return plan_err!("histogram_numeric needs a number of bins");
        };
        let bins = match bins.evaluate(&RecordBatch::new_empty(Arc::new(Schema::empty())))? {
            ColumnarValue::Scalar(ScalarValue::Int64(Some(bins))) if (2..=BINS_MAX).contains(&bins) => bins,
            _ => {
                let error = Error::new(ErrorKind::Invalid, "the number of bins of histogram_numeric");
                return Err(error.with_hint(format!("it is a constant from 2 to {BINS_MAX}")).into());
            }
        };
        let kind = args.expr_fields[0].data_type().clone();
        let most = usize::try_from(bins).unwrap_or(2);
        Ok(Box::new(Histogram {
            kind,
            bins: Bins { most, bins: Vec::new(), random: JavaRandom::new(31_183) },
        }))
    }
}

/// `java.util.Random`, for the numbers by which equal distances are chosen among.
#[derive(Debug)]
struct JavaRandom(u64);

impl JavaRandom {
    const MASK: u64 = (1 << 48) - 1;
    const FACTOR: u64 = 0x5_deec_e66d;

    fn new(seed: u64) -> Self {
        Self((seed ^ Self::FACTOR) & Self::MASK)
    }

    fn bits(&mut self, count: u32) -> u64 {
        self.0 = self.0.wrapping_mul(Self::FACTOR).wrapping_add(0xb) & Self::MASK;
        self.0 >> (48 - count)
    }

    fn double(&mut self) -> f64 {
        ((self.bits(26) << 27) + self.bits(27)) as f64 / (1_u64 << 53) as f64
    }
}

/// Centers of bins in their order, each with the number of values.
#[derive(Debug)]
struct Bins {
    most: usize,
    bins: Vec<(f64, f64)>,
    random: JavaRandom,
}

impl Bins {
    fn add(&mut self, value: f64) {
        let place = self.bins.partition_point(|(center, _)| *center < value);
        match self.bins.get_mut(place) {
            Some((center, count)) if *center == value => *count += 1.0,
            _ => {
                self.bins.insert(place, (value, 1.0));
                self.trim();
            }
        }
    }

    fn merge(&mut self, others: Vec<(f64, f64)>) {
        if self.bins.is_empty() {
            self.bins = others;
            return;
        }
        self.bins.extend(others);
        self.bins.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        self.trim();
    }

    /// Joins the nearest bins until there are no more than there may be.
    fn trim(&mut self) {
        while self.bins.len() > self.most {
            let distance = |place: usize| self.bins[place + 1].0 - self.bins[place].0;
            let (mut least, mut found, mut equal) = (distance(0), 0, 1);
            for place in 1..self.bins.len() - 1 {
                let next = distance(place);
                if next < least {
                    (least, found, equal) = (next, place, 1);
                } else if next == least {
                    equal += 1;
                    if self.random.double() <= 1.0 / f64::from(equal) {
                        found = place;
                    }
                }
            }
            let (right, of_right) = self.bins.remove(found + 1);
            let (left, of_left) = &mut self.bins[found];
            let count = *of_left + of_right;
            *left = *left * (*of_left / count) + right / count * of_right;
            *of_left = count;
        }
    }
}

#[derive(Debug)]
struct Histogram {
    kind: DataType,
    bins: Bins,
}

impl Histogram {
    fn list(&self, kind: &DataType) -> Result<ScalarValue> {
        if self.bins.bins.is_empty() {
            return ScalarValue::try_from(&list_of(kind));
        }
        let centers: ArrayRef =
            Arc::new(self.bins.bins.iter().map(|(center, _)| Some(*center)).collect::<Float64Array>());
        let counts = self.bins.bins.iter().map(|(_, count)| Some(*count)).collect::<Float64Array>();
        let centers = match kind {
            DataType::Timestamp(..) => cast(&cast(&centers, &DataType::Int64)?, kind)?,
            kind => cast(&centers, kind)?,
        };
        let columns: Vec<ArrayRef> = vec![centers, Arc::new(counts)];
        let bins = StructArray::try_new(bin_fields(kind), columns, None)?;
        let field = Arc::new(Field::new_list_field(DataType::Struct(bin_fields(kind)), true));
        let offsets = OffsetBuffer::from_lengths([bins.len()]);
        Ok(ScalarValue::List(Arc::new(ListArray::try_new(field, offsets, Arc::new(bins), None)?)))
    }
}

impl Accumulator for Histogram {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = match values[0].data_type() {
            DataType::Timestamp(..) => cast(&cast(&values[0], &DataType::Int64)?, &DataType::Float64)?,
            _ => cast(&values[0], &DataType::Float64)?,
        };
        values.as_primitive::<Float64Type>().iter().flatten().for_each(|value| self.bins.add(value));
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for bins in states[0].as_list::<i32>().iter().flatten() {
            let bins = bins.as_struct();
            let [centers, counts] = [0, 1].map(|at| bins.column(at).as_primitive::<Float64Type>());
            let bins = centers.values().iter().copied().zip(counts.values().iter().copied());
            self.bins.merge(bins.collect());
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.list(&DataType::Float64)?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.list(&self.kind)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bins.bins.capacity() * size_of::<(f64, f64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bins are those of Spark 4.
    #[test]
    fn the_nearest_bins_are_joined() {
        let mut bins = Bins { most: 5, bins: Vec::new(), random: JavaRandom::new(31_183) };
        [0.0, 1.0, 2.0, 10.0].into_iter().for_each(|value| bins.add(value));
        assert_eq!(bins.bins, [(0.0, 1.0), (1.0, 1.0), (2.0, 1.0), (10.0, 1.0)]);
        let mut bins = Bins { most: 2, bins: Vec::new(), random: JavaRandom::new(31_183) };
        (1..=50).for_each(|value| bins.add(f64::from(value)));
        let shown: Vec<(f64, f64)> = bins.bins.iter().map(|(x, y)| (x.trunc(), *y)).collect();
        assert_eq!(shown, [(2.0, 3.0), (26.0, 47.0)]);
    }
}
