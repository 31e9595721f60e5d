//! HyperLogLog sketches: how many different values there are.

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use datasketches::hash::value::raw_bytes;
use datasketches::hll::{HllSketch, HllType, HllUnion};
use yeoul_base::ErrorKind;

use super::{Collected, refused};
use crate::Error;

/// The binary logarithm of the registers of a sketch, if a call names none.
pub(super) const LG_REGISTERS: i64 = 12;

/// The least and the greatest of these.
pub(super) const LG_REGISTERS_RANGE: [i64; 2] = [4, 21];

/// Registers of Java's library where none are asked for.
const KIND: HllType = HllType::Hll4;

fn sketch_of(function: &str, bytes: &[u8]) -> Result<HllSketch> {
    HllSketch::deserialize(bytes).map_err(|error| refused(function, error))
}

/// The number of different values of a sketch.
pub(super) fn estimate(bytes: &[u8]) -> Result<i64> {
    Ok(sketch_of("hll_sketch_estimate", bytes)?.estimate().round() as i64)
}

/// Refuses sketches of other numbers of registers, unless a call allows them.
fn check(function: &str, left: u8, right: u8, allows_different: bool) -> Result<()> {
    if left == right || allows_different {
        return Ok(());
    }
    let text = format!("{function}: sketches of 2^{left} and of 2^{right} registers");
    Err(Error::new(ErrorKind::Invalid, text).with_hint(format!("{function}(…, true) allows them")).into())
}

/// The sketch of the values of either.
pub(super) fn union(left: &[u8], right: &[u8], allows_different: bool) -> Result<Vec<u8>> {
    const NAME: &str = "hll_union";
    let [left, right] = [sketch_of(NAME, left)?, sketch_of(NAME, right)?];
    let [lg, of_right] = [left.lg_config_k(), right.lg_config_k()];
    check(NAME, lg, of_right, allows_different)?;
    let mut union = HllUnion::new(lg.min(of_right)).map_err(|error| refused(NAME, error))?;
    union.update(&left);
    union.update(&right);
    Ok(union.to_sketch(KIND).serialize())
}

/// The sketch of the values of rows.
#[derive(Debug)]
pub(super) struct Values {
    seen: HllSketch,
    merged: Option<HllUnion>,
}

impl Values {
    const NAME: &'static str = "hll_sketch_agg";

    /// One that has seen nothing.
    pub(super) fn new(lg: u8) -> Result<Self> {
        let seen = HllSketch::new(lg, KIND).map_err(|error| refused(Self::NAME, error))?;
        Ok(Self { seen, merged: None })
    }
}

impl Collected for Values {
    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        match values.data_type() {
            DataType::Int64 => {
                values.as_primitive::<Int64Type>().iter().flatten().for_each(|value| self.seen.update(value));
            }
            // Empty texts and bytes are no values, as in Java's library.
            DataType::Utf8 => {
                let texts = values.as_string::<i32>().iter().flatten().filter(|text| !text.is_empty());
                texts.for_each(|text| self.seen.update(raw_bytes::from_str(text)));
            }
            _ => {
                let values = values.as_binary::<i32>().iter().flatten().filter(|bytes| !bytes.is_empty());
                values.for_each(|bytes| self.seen.update(raw_bytes::from_slice(bytes)));
            }
        }
        Ok(())
    }

    fn merge(&mut self, sketch: &[u8]) -> Result<()> {
        let sketch = sketch_of(Self::NAME, sketch)?;
        let merged = match &mut self.merged {
            Some(merged) => merged,
            None => {
                let union = HllUnion::new(self.seen.lg_config_k());
                self.merged.insert(union.map_err(|error| refused(Self::NAME, error))?)
            }
        };
        merged.update(&sketch);
        Ok(())
    }

    fn bytes(&mut self) -> Result<Vec<u8>> {
        let Some(merged) = &mut self.merged else { return Ok(self.seen.serialize()) };
        merged.update(&self.seen);
        Ok(merged.to_sketch(KIND).serialize())
    }

    fn size(&self) -> usize {
        self.seen.estimated_size() + self.merged.as_ref().map_or(0, HllUnion::estimated_size)
    }
}

/// The union of the sketches of rows.
#[derive(Debug)]
pub(super) struct Union {
    allows_different: bool,
    union: Option<HllUnion>,
}

impl Union {
    const NAME: &'static str = "hll_union_agg";

    /// That of none.
    pub(super) fn new(allows_different: bool) -> Self {
        Self { allows_different, union: None }
    }
}

impl Collected for Union {
    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        values.as_binary::<i32>().iter().flatten().try_for_each(|bytes| self.merge(bytes))
    }

    fn merge(&mut self, sketch: &[u8]) -> Result<()> {
        let sketch = sketch_of(Self::NAME, sketch)?;
        let union = match &mut self.union {
            Some(union) => union,
            None => {
                let union =
                    HllUnion::new(sketch.lg_config_k()).map_err(|error| refused(Self::NAME, error))?;
                self.union.insert(union)
            }
        };
        check(Self::NAME, union.lg_config_k(), sketch.lg_config_k(), self.allows_different)?;
        union.update(&sketch);
        Ok(())
    }

    fn bytes(&mut self) -> Result<Vec<u8>> {
        match &self.union {
            Some(union) => Ok(union.to_sketch(KIND).serialize()),
            None => Values::new(u8::try_from(LG_REGISTERS).unwrap_or(12))?.bytes(),
        }
    }

    fn size(&self) -> usize {
        self.union.as_ref().map_or(0, HllUnion::estimated_size)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::Int64Array;

    use super::*;

    fn sketch(lg: u8, values: std::ops::Range<i64>) -> Vec<u8> {
        let mut sketch = Values::new(lg).unwrap();
        sketch.add(&(Arc::new(Int64Array::from_iter_values(values)) as ArrayRef)).unwrap();
        sketch.bytes().unwrap()
    }

    #[test]
    fn few_values_are_counted_exactly() {
        let [low, high] = [sketch(12, 0..40), sketch(12, 20..70)];
        assert_eq!(estimate(&union(&low, &high, false).unwrap()).unwrap(), 70);
        let coarse = sketch(10, 0..3);
        assert!(union(&low, &coarse, false).is_err());
        assert_eq!(estimate(&union(&low, &coarse, true).unwrap()).unwrap(), 40);
        assert!(estimate(b"no sketch").is_err());
    }
}
