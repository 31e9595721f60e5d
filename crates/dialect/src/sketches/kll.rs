//! KLL sketches: quantiles and ranks.

use std::fmt::{Debug, Write as _};

use datafusion::arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type, Int64Type};
use datafusion::common::Result;
use datasketches::common::SearchCriteria;
use datasketches::kll::{KllFloat, KllSketch, KllValue};
use yeoul_base::ErrorKind;

use super::{Collected, refused};
use crate::Error;
use crate::types::spark_values::{double_text, float_text};

/// The parameter of accuracy, if a call names none.
pub(super) const K: i64 = 200;

/// The least and the greatest of these.
pub(super) const K_RANGE: [i64; 2] = [8, 65_535];

/// The type of the values of a sketch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Of {
    Bigint,
    Float,
    Double,
}

impl Of {
    /// All of them.
    pub(super) const ALL: [Self; 3] = [Self::Bigint, Self::Float, Self::Double];

    /// The type of the values.
    pub(super) const fn kind(self) -> DataType {
        match self {
            Self::Bigint => DataType::Int64,
            Self::Float => DataType::Float32,
            Self::Double => DataType::Float64,
        }
    }

    /// True of types whose values such a sketch takes.
    pub(super) fn takes(self, kind: &DataType) -> bool {
        match self {
            Self::Bigint => kind.is_integer(),
            Self::Float => *kind == DataType::Float32,
            Self::Double => kind.is_floating(),
        }
    }
}

/// A value of a sketch.
pub(super) trait Item: KllValue + Ord + Copy + Debug + Send + Sync + 'static {
    /// Name of the sketch in Java.
    const JAVA: &'static str;
    /// Its type in a column.
    type Column: ArrowPrimitiveType;

    /// The value of a column; `None` for one that a sketch passes over.
    fn of(value: <Self::Column as ArrowPrimitiveType>::Native) -> Option<Self>;

    /// The value for a column.
    fn value(self) -> <Self::Column as ArrowPrimitiveType>::Native;

    /// The text of the value in Java.
    fn text(self) -> String;
}

impl Item for i64 {
    const JAVA: &'static str = "KllLongsSketch";
    type Column = Int64Type;

    fn of(value: i64) -> Option<Self> {
        Some(value)
    }

    fn value(self) -> i64 {
        self
    }

    fn text(self) -> String {
        self.to_string()
    }
}

impl Item for KllFloat<f32> {
    const JAVA: &'static str = "KllFloatsSketch";
    type Column = Float32Type;

    fn of(value: f32) -> Option<Self> {
        Self::new(value).ok()
    }

    fn value(self) -> f32 {
        self.into_inner()
    }

    fn text(self) -> String {
        float_text(self.into_inner())
    }
}

impl Item for KllFloat<f64> {
    const JAVA: &'static str = "KllDoublesSketch";
    type Column = Float64Type;

    fn of(value: f64) -> Option<Self> {
        Self::new(value).ok()
    }

    fn value(self) -> f64 {
        self.into_inner()
    }

    fn text(self) -> String {
        double_text(self.into_inner())
    }
}

/// The sketch in bytes.
///
/// # Errors
/// `Invalid` for bytes that are none.
pub(super) fn sketch_of<T: Item>(function: &str, bytes: &[u8]) -> Result<KllSketch<T>> {
    KllSketch::deserialize(bytes).map_err(|error| refused(function, error))
}

fn empty(function: &str) -> datafusion::common::DataFusionError {
    let error = Error::new(ErrorKind::Invalid, format!("{function} of a sketch of no values"));
    error.with_hint("kll_sketch_get_n_… tells how many there are").into()
}

/// The value of a rank from 0 to 1.
pub(super) fn quantile<T: Item>(
    function: &str,
    sketch: &KllSketch<T>,
    rank: f64,
) -> Result<<T::Column as ArrowPrimitiveType>::Native> {
    let found = sketch.quantile(rank, SearchCriteria::Inclusive).map_err(|error| refused(function, error))?;
    found.map(Item::value).ok_or_else(|| empty(function))
}

/// The share of the values up to one.
pub(super) fn rank<T: Item>(function: &str, sketch: &KllSketch<T>, value: T) -> Result<f64> {
    sketch.rank(&value, SearchCriteria::Inclusive).ok_or_else(|| empty(function))
}

/// The sketch of the values of both.
pub(super) fn merged<T: Item>(function: &str, left: &[u8], right: &[u8]) -> Result<Vec<u8>> {
    let mut left = sketch_of::<T>(function, left)?;
    left.merge(&sketch_of(function, right)?).map_err(|error| refused(function, error))?;
    Ok(left.serialize())
}

/// The summary that Java's library writes of a sketch.
///
/// # Errors
/// `Invalid` for a sketch that has left values out, whose summary depends on which.
pub(super) fn text<T: Item>(function: &str, sketch: &KllSketch<T>) -> Result<String> {
    if sketch.is_estimation_mode() {
        let text = format!("not supported: {function} of a sketch of more values than it holds");
        return Err(Error::new(ErrorKind::Invalid, text).with_hint("a greater k holds more values").into());
    }
    let percent = |error: f64| format!("{:.3}%", error * 100.0);
    let retained = sketch.num_retained();
    let width = T::MIN_SERIALIZED_SIZE;
    let bytes = sketch.serialize();
    let capacity = usize::from(sketch.k());
    let item = |value: Option<&T>| value.map_or_else(|| "NaN".to_owned(), |value| value.text());
    let mut text = format!("\n### Kll{} Summary:\n", T::JAVA);
    let lines = [
        ("K", sketch.k().to_string()),
        ("Dynamic min K", sketch.min_k().to_string()),
        ("M", "8".to_owned()),
        ("N", sketch.n().to_string()),
        ("Epsilon", percent(sketch.normalized_rank_error())),
        ("Epsilon PMF", percent(sketch.normalized_pmf_error())),
        ("Empty", sketch.is_empty().to_string()),
        ("Estimation Mode", "false".to_owned()),
        ("Levels", "1".to_owned()),
        ("Level 0 Sorted", (bytes[3] & 2 != 0).to_string()),
        ("Capacity Items", capacity.to_string()),
        ("Retained Items", retained.to_string()),
        ("Free Space", (capacity - retained).to_string()),
        ("ReadOnly", "false".to_owned()),
        ("Updatable Storage Bytes", (28 + (capacity + 2) * width).to_string()),
        ("Compact Storage Bytes", bytes.len().to_string()),
        ("Min Item", item(sketch.min_item())),
        ("Max Item", item(sketch.max_item())),
    ];
    for (name, value) in lines {
        writeln!(text, "   {name:<23}: {value}").expect("a String takes everything");
    }
    text.push_str("### End sketch summary\n");
    Ok(text)
}

/// The sketch of the values of rows, or of the sketches of rows.
#[derive(Debug)]
pub(super) struct Values<T: Item> {
    function: String,
    /// `None` until the first sketch decides.
    k: Option<u16>,
    takes_sketches: bool,
    sketch: Option<KllSketch<T>>,
}

impl<T: Item> Values<T> {
    /// One that has seen nothing.
    pub(super) fn new(function: String, k: Option<u16>, takes_sketches: bool) -> Self {
        Self { function, k, takes_sketches, sketch: None }
    }

    fn sketch(&mut self, k: u16) -> Result<&mut KllSketch<T>> {
        match &mut self.sketch {
            Some(sketch) => Ok(sketch),
            slot => {
                let sketch = KllSketch::new(self.k.unwrap_or(k));
                Ok(slot.insert(sketch.map_err(|error| refused(&self.function, error))?))
            }
        }
    }
}

/// [`K`] as the library takes it.
const DEFAULT_K: u16 = 200;

impl<T: Item> Collected for Values<T> {
    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        if self.takes_sketches {
            return values.as_binary::<i32>().iter().flatten().try_for_each(|bytes| self.merge(bytes));
        }
        let sketch = self.sketch(DEFAULT_K)?;
        values
            .as_primitive::<T::Column>()
            .iter()
            .flatten()
            .filter_map(T::of)
            .for_each(|item| sketch.update(item));
        Ok(())
    }

    fn merge(&mut self, sketch: &[u8]) -> Result<()> {
        let other = sketch_of::<T>(&self.function, sketch)?;
        let merged = self.sketch(other.k())?.merge(&other);
        merged.map_err(|error| refused(&self.function, error))
    }

    fn bytes(&mut self) -> Result<Vec<u8>> {
        Ok(self.sketch(DEFAULT_K)?.serialize())
    }

    fn size(&self) -> usize {
        let items = self.sketch.as_ref().map_or(0, KllSketch::num_retained);
        size_of::<Self>() + 2 * items * size_of::<T>()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::Int64Array;

    use super::*;

    fn sketch(values: std::ops::Range<i64>) -> Vec<u8> {
        let mut sketch = Values::<i64>::new("kll_sketch_agg_bigint".to_owned(), None, false);
        sketch.add(&(Arc::new(Int64Array::from_iter_values(values)) as ArrayRef)).unwrap();
        sketch.bytes().unwrap()
    }

    #[test]
    fn quantiles_and_ranks_are_those_of_the_values() {
        let bytes = merged::<i64>("kll_sketch_merge_bigint", &sketch(1..5), &sketch(5..8)).unwrap();
        let found = sketch_of::<i64>("", &bytes).unwrap();
        assert_eq!((quantile("", &found, 0.5).unwrap(), found.n()), (4, 7));
        assert_eq!(rank("", &found, 3).unwrap(), 3.0 / 7.0);
        let none = sketch_of::<i64>("", &sketch(0..0)).unwrap();
        assert!(quantile("", &none, 0.5).is_err() && sketch_of::<i64>("", b"no sketch").is_err());
    }
}
