//! Theta sketches: how many different values there are, also in unions, intersections and differences.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type};
use datafusion::common::Result;
use datasketches::hash::value::{canonical_float, raw_bytes};
use datasketches::theta::{
    CompactThetaSketch, ThetaANotB, ThetaIntersection, ThetaSketch, ThetaSketchBuilder, ThetaUnion,
    ThetaUnionBuilder,
};

use super::{Collected, refused};

/// The binary logarithm of the values that a sketch holds, if a call names none.
pub(super) const LG_NOMINAL: i64 = 12;

/// [`LG_NOMINAL`] as the library takes it.
const LG: u8 = 12;

/// The least and the greatest of these.
pub(super) const LG_NOMINAL_RANGE: [i64; 2] = [4, 26];

fn sketch_of(function: &str, bytes: &[u8]) -> Result<CompactThetaSketch> {
    CompactThetaSketch::deserialize(bytes).map_err(|error| refused(function, error))
}

fn union_of(function: &str, lg: u8) -> Result<ThetaUnion> {
    ThetaUnionBuilder::default().lg_k(lg).build().map_err(|error| refused(function, error))
}

/// The number of different values of a sketch.
pub(super) fn estimate(bytes: &[u8]) -> Result<i64> {
    Ok(sketch_of("theta_sketch_estimate", bytes)?.estimate().round() as i64)
}

/// The sketch of the values of either.
pub(super) fn union(left: &[u8], right: &[u8], lg: u8) -> Result<Vec<u8>> {
    const NAME: &str = "theta_union";
    let mut union = union_of(NAME, lg)?;
    for bytes in [left, right] {
        union.update(&sketch_of(NAME, bytes)?).map_err(|error| refused(NAME, error))?;
    }
    Ok(union.to_sketch(true).serialize())
}

/// The sketch of the values of both.
pub(super) fn intersection(left: &[u8], right: &[u8]) -> Result<Vec<u8>> {
    let mut found = Intersection::new("theta_intersection");
    found.merge(left)?;
    found.merge(right)?;
    found.bytes()
}

/// The sketch of the values of the first that are not of the second.
pub(super) fn difference(left: &[u8], right: &[u8]) -> Result<Vec<u8>> {
    const NAME: &str = "theta_difference";
    let [left, right] = [sketch_of(NAME, left)?, sketch_of(NAME, right)?];
    let found = ThetaANotB::default().compute(&left, &right, true);
    Ok(found.map_err(|error| refused(NAME, error))?.serialize())
}

/// The sketch of the values of rows.
#[derive(Debug)]
pub(super) struct Values {
    seen: ThetaSketch,
    merged: ThetaUnion,
}

impl Values {
    const NAME: &'static str = "theta_sketch_agg";

    /// One that has seen nothing.
    pub(super) fn new(lg: u8) -> Result<Self> {
        let seen = ThetaSketchBuilder::default().lg_k(lg).build();
        Ok(Self {
            seen: seen.map_err(|error| refused(Self::NAME, error))?,
            merged: union_of(Self::NAME, lg)?,
        })
    }
}

impl Collected for Values {
    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        match values.data_type() {
            DataType::Int64 => {
                values.as_primitive::<Int64Type>().iter().flatten().for_each(|value| self.seen.update(value));
            }
            DataType::Float64 => {
                let values = values.as_primitive::<Float64Type>().iter().flatten();
                values.for_each(|value| self.seen.update(canonical_float::from_f64(value)));
            }
            // Empty texts, bytes and lists are no values, as in Java's library.
            DataType::Utf8 => {
                let texts = values.as_string::<i32>().iter().flatten().filter(|text| !text.is_empty());
                texts.for_each(|text| self.seen.update(raw_bytes::from_str(text)));
            }
            DataType::Binary => {
                let values = values.as_binary::<i32>().iter().flatten().filter(|bytes| !bytes.is_empty());
                values.for_each(|bytes| self.seen.update(raw_bytes::from_slice(bytes)));
            }
            _ => {
                for list in values.as_list::<i32>().iter().flatten().filter(|list| !list.is_empty()) {
                    self.seen.update(raw_bytes::from_vec(bytes_of(&list)));
                }
            }
        }
        Ok(())
    }

    fn merge(&mut self, sketch: &[u8]) -> Result<()> {
        let sketch = sketch_of(Self::NAME, sketch)?;
        self.merged.update(&sketch).map_err(|error| refused(Self::NAME, error))
    }

    fn bytes(&mut self) -> Result<Vec<u8>> {
        self.merged.update(&self.seen).map_err(|error| refused(Self::NAME, error))?;
        let bytes = self.merged.to_sketch(true).serialize();
        self.seen.reset();
        Ok(bytes)
    }

    fn size(&self) -> usize {
        self.seen.estimated_size() + self.merged.estimated_size()
    }
}

/// The integers of a list as bytes, 0 in the places of nulls.
fn bytes_of(list: &ArrayRef) -> Vec<u8> {
    match list.data_type() {
        DataType::Int32 => list
            .as_primitive::<Int32Type>()
            .iter()
            .flat_map(|value| value.unwrap_or(0).to_le_bytes())
            .collect(),
        _ => list
            .as_primitive::<Int64Type>()
            .iter()
            .flat_map(|value| value.unwrap_or(0).to_le_bytes())
            .collect(),
    }
}

/// The union of the sketches of rows.
#[derive(Debug)]
pub(super) struct Union(ThetaUnion);

impl Union {
    const NAME: &'static str = "theta_union_agg";

    /// That of none.
    pub(super) fn new(lg: u8) -> Result<Self> {
        Ok(Self(union_of(Self::NAME, lg)?))
    }
}

impl Collected for Union {
    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        values.as_binary::<i32>().iter().flatten().try_for_each(|bytes| self.merge(bytes))
    }

    fn merge(&mut self, sketch: &[u8]) -> Result<()> {
        let sketch = sketch_of(Self::NAME, sketch)?;
        self.0.update(&sketch).map_err(|error| refused(Self::NAME, error))
    }

    fn bytes(&mut self) -> Result<Vec<u8>> {
        Ok(self.0.to_sketch(true).serialize())
    }

    fn size(&self) -> usize {
        self.0.estimated_size()
    }
}

/// The intersection of the sketches of rows.
#[derive(Debug)]
pub(super) struct Intersection {
    name: &'static str,
    found: ThetaIntersection,
}

impl Intersection {
    /// That of none, which has no sketch.
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, found: ThetaIntersection::default() }
    }
}

impl Collected for Intersection {
    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        values.as_binary::<i32>().iter().flatten().try_for_each(|bytes| self.merge(bytes))
    }

    fn merge(&mut self, sketch: &[u8]) -> Result<()> {
        let sketch = sketch_of(self.name, sketch)?;
        self.found.update(&sketch).map_err(|error| refused(self.name, error))
    }

    fn bytes(&mut self) -> Result<Vec<u8>> {
        match self.found.to_sketch(true) {
            Some(found) => Ok(found.serialize()),
            // As in Spark, one of no values.
            None => Union::new(LG)?.bytes(),
        }
    }

    fn size(&self) -> usize {
        self.found.estimated_size()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Int64Array, StringArray};

    use super::*;

    fn sketch(values: ArrayRef) -> Vec<u8> {
        let mut sketch = Values::new(12).unwrap();
        sketch.add(&values).unwrap();
        sketch.bytes().unwrap()
    }

    #[test]
    fn sets_have_as_many_values_as_there_are() {
        let low = sketch(Arc::new(Int64Array::from_iter_values(0..100)));
        let high = sketch(Arc::new(Int64Array::from_iter_values(60..180)));
        let count = |bytes: Vec<u8>| estimate(&bytes).unwrap();
        assert_eq!(count(union(&low, &high, 12).unwrap()), 180);
        assert_eq!(count(intersection(&low, &high).unwrap()), 40);
        assert_eq!(count(difference(&low, &high).unwrap()), 60);
        let texts =
            sketch(Arc::new(StringArray::from(vec![Some(""), None, Some("a"), Some("b"), Some("a")])));
        assert_eq!(count(texts), 2);
    }

    #[test]
    fn what_is_no_sketch_is_an_error() {
        assert!(estimate(b"").is_err() && estimate(b"no sketch").is_err() && union(b"x", b"y", 12).is_err());
        assert_eq!(estimate(&Intersection::new("theta_intersection_agg").bytes().unwrap()).unwrap(), 0);
    }
}
