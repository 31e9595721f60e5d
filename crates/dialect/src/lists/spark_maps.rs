//! Functions of maps that only Spark has, with the names of [`Kind`]. A map has no key twice: that is an error, as in Spark.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StringBuilder, StructArray};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType, Field, Fields, Float32Type, Float64Type};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};
use regex::Regex;
use yeoul_base::ErrorKind;

use super::common_type;
use super::picked::{Picked, list_field};
use super::spark_lists::{comparable, places};
use crate::Error;
use crate::signatures::USER_DEFINED;
use crate::text::rows::invoke;

/// A function of maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// `spark_map_from_arrays(keys, values)`.
    FromArrays,
    /// `spark_map_from_entries(list)`: of structs of a key and a value; null if one of them is.
    FromEntries,
    /// `spark_map_concat(a, b, …)`.
    Concat,
    /// `spark_str_to_map(text, pairs, value)`: the regular expressions between pairs, and between a key and its value.
    OfText,
    /// `spark_zip_maps(a, b)`: a list of all keys with the values in both.
    Zip,
}

impl Kind {
    const ALL: [Self; 5] = [Self::FromArrays, Self::FromEntries, Self::Concat, Self::OfText, Self::Zip];

    /// All of these functions.
    pub(super) fn all() -> impl Iterator<Item = ScalarUDF> {
        Self::ALL.into_iter().map(ScalarUDF::from)
    }

    fn run(self, arrays: &[ArrayRef]) -> Result<ArrayRef> {
        match self {
            Self::FromArrays => from_arrays(arrays[0].as_list::<i32>(), arrays[1].as_list::<i32>()),
            Self::FromEntries => from_entries(arrays[0].as_list::<i32>()),
            Self::Concat => joined(arrays),
            Self::OfText => of_texts(arrays),
            Self::Zip => zipped(arrays[0].as_map(), arrays[1].as_map()),
        }
    }
}

/// The type of maps.
fn map_of(key: &DataType, value: &DataType) -> DataType {
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entry_fields(key, value)), false)), false)
}

fn entry_fields(key: &DataType, value: &DataType) -> Fields {
    Fields::from(vec![Field::new("key", key.clone(), false), Field::new("value", value.clone(), true)])
}

fn zipped_fields(key: &DataType, left: &DataType, right: &DataType) -> Fields {
    Fields::from(vec![
        Field::new("key", key.clone(), true),
        Field::new("left", left.clone(), true),
        Field::new("right", right.clone(), true),
    ])
}

/// Floats with 0 in the place of -0, and other values as they are.
pub(super) fn without_negative_zeros(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(match values.data_type() {
        DataType::Float64 => {
            let one = |value: f64| if value.is_nan() { f64::NAN } else { value + 0.0 };
            Arc::new(values.as_primitive::<Float64Type>().unary::<_, Float64Type>(one))
        }
        DataType::Float32 => {
            let one = |value: f32| if value.is_nan() { f32::NAN } else { value + 0.0 };
            Arc::new(values.as_primitive::<Float32Type>().unary::<_, Float32Type>(one))
        }
        _ => Arc::clone(values),
    })
}

/// The maps of keys and values.
///
/// # Errors
/// `Invalid` for a key that is null or there twice.
fn maps(
    keys: ArrayRef,
    values: ArrayRef,
    offsets: OffsetBuffer<i32>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let keys = without_negative_zeros(&keys)?;
    let refused = |text: &str, hint: &str| Error::new(ErrorKind::Invalid, text).with_hint(hint);
    if keys.logical_null_count() > 0 {
        return Err(
            refused("a key of a map is null", "leave such entries out with map_filter or WHERE").into()
        );
    }
    let rows = comparable(&keys)?;
    for places in offsets.windows(2) {
        let [begin, end] = [places[0], places[1]].map(|at| usize::try_from(at).unwrap_or(0));
        let mut seen = HashSet::with_capacity(end - begin);
        if !(begin..end).all(|place| seen.insert(rows.row(place).data())) {
            return Err(refused("a map would have a key twice", "each key is there once").into());
        }
    }
    let fields = entry_fields(keys.data_type(), values.data_type());
    let entries = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
    let field = Arc::new(Field::new("entries", DataType::Struct(fields), false));
    Ok(Arc::new(MapArray::try_new(field, offsets, entries, nulls, false)?))
}

fn from_arrays(keys: &ListArray, values: &ListArray) -> Result<ArrayRef> {
    let [mut of_keys, mut of_values] = [Picked::default(), Picked::default()];
    for row in 0..keys.len() {
        let is_valid = keys.is_valid(row) && values.is_valid(row);
        if is_valid {
            let (keys, values) = (places(keys, row), places(values, row));
            if keys.len() != values.len() {
                let text = format!("a map of {} keys and {} values", keys.len(), values.len());
                return Err(Error::new(ErrorKind::Invalid, text)
                    .with_hint("both lists have one length")
                    .into());
            }
            keys.for_each(|place| of_keys.push(0, place));
            values.for_each(|place| of_values.push(0, place));
        }
        of_keys.end_row(is_valid);
        of_values.end_row(is_valid);
    }
    let (found, values) = (of_keys.values(&[keys.values()])?, of_values.values(&[values.values()])?);
    maps(found, values, of_keys.offsets(), of_keys.nulls())
}

fn from_entries(lists: &ListArray) -> Result<ArrayRef> {
    let entries = lists.values().as_struct();
    let [keys, values] = [entries.column(0), entries.column(1)];
    let mut picked = Picked::default();
    for row in 0..lists.len() {
        let mut is_valid = lists.is_valid(row);
        if is_valid {
            is_valid = places(lists, row).all(|place| entries.is_valid(place));
            places(lists, row).for_each(|place| picked.push(0, place));
        }
        picked.end_row(is_valid);
    }
    maps(picked.values(&[keys])?, picked.values(&[values])?, picked.offsets(), picked.nulls())
}

/// The entries of a map in the arrays of all.
fn entries_of(map: &MapArray, row: usize) -> std::ops::Range<usize> {
    let [begin, end] = [row, row + 1].map(|at| usize::try_from(map.value_offsets()[at]).unwrap_or(0));
    begin..end
}

fn joined(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let of: Vec<&MapArray> = arrays.iter().map(|array| array.as_map()).collect();
    let mut picked = Picked::default();
    for row in 0..of[0].len() {
        let is_valid = of.iter().all(|map| map.is_valid(row));
        if is_valid {
            for (array, map) in of.iter().enumerate() {
                entries_of(map, row).for_each(|place| picked.push(array, place));
            }
        }
        picked.end_row(is_valid);
    }
    let keys: Vec<&ArrayRef> = of.iter().map(|map| map.keys()).collect();
    let values: Vec<&ArrayRef> = of.iter().map(|map| map.values()).collect();
    maps(picked.values(&keys)?, picked.values(&values)?, picked.offsets(), picked.nulls())
}

fn of_texts(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let [texts, pairs, between] = [0, 1, 2].map(|at| arrays[at].as_string::<i32>());
    let mut known: HashMap<&str, Regex> = HashMap::new();
    for pattern in pairs.iter().chain(between.iter()).flatten() {
        if !known.contains_key(pattern) {
            let regex = Regex::new(pattern).map_err(|error| {
                let text = format!("'{pattern}' is no regular expression: {error}");
                Error::new(ErrorKind::Invalid, text)
                    .with_hint("escape a letter that is meant by two backslashes")
            })?;
            known.insert(pattern, regex);
        }
    }
    let (mut keys, mut values) = (StringBuilder::new(), StringBuilder::new());
    let (mut lengths, mut valid) = (Vec::new(), Vec::new());
    for ((text, pairs), between) in texts.iter().zip(pairs).zip(between) {
        let (Some(text), Some(pairs), Some(between)) = (text, pairs, between) else {
            lengths.push(0);
            valid.push(false);
            continue;
        };
        let mut length = 0;
        for pair in known[pairs].split(text) {
            let mut parts = known[between].splitn(pair, 2);
            keys.append_value(parts.next().unwrap_or_default());
            values.append_option(parts.next());
            length += 1;
        }
        lengths.push(length);
        valid.push(true);
    }
    let nulls = Some(NullBuffer::from(valid));
    maps(Arc::new(keys.finish()), Arc::new(values.finish()), OffsetBuffer::from_lengths(lengths), nulls)
}

fn zipped(left: &MapArray, right: &MapArray) -> Result<ArrayRef> {
    let [of_left, of_right] = [comparable(left.keys())?, comparable(right.keys())?];
    let [mut keys, mut lefts, mut rights] = [Picked::default(), Picked::default(), Picked::default()];
    for row in 0..left.len() {
        let is_valid = left.is_valid(row) && right.is_valid(row);
        if is_valid {
            let mut others: HashMap<&[u8], usize> =
                entries_of(right, row).map(|place| (of_right.row(place).data(), place)).collect();
            for place in entries_of(left, row) {
                keys.push(0, place);
                lefts.push(0, place);
                match others.remove(of_left.row(place).data()) {
                    Some(other) => rights.push(0, other),
                    None => rights.push_nulls(1)?,
                }
            }
            for place in entries_of(right, row) {
                if others.contains_key(of_right.row(place).data()) {
                    keys.push(1, place);
                    lefts.push_nulls(1)?;
                    rights.push(0, place);
                }
            }
        }
        for picked in [&mut keys, &mut lefts, &mut rights] {
            picked.end_row(is_valid);
        }
    }
    let columns = vec![
        keys.values(&[left.keys(), right.keys()])?,
        lefts.values(&[left.values()])?,
        rights.values(&[right.values()])?,
    ];
    let fields = zipped_fields(columns[0].data_type(), columns[1].data_type(), columns[2].data_type());
    keys.list_of(Arc::new(StructArray::try_new(fields, columns, None)?))
}

/// The types of a map's keys and values.
fn parts_of(kind: &DataType) -> Option<(DataType, DataType)> {
    let DataType::Map(entries, _) = kind else { return None };
    let DataType::Struct(fields) = entries.data_type() else { return None };
    Some((fields[0].data_type().clone(), fields[1].data_type().clone()))
}

fn element_of(kind: &DataType) -> Option<&DataType> {
    match kind {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            Some(field.data_type())
        }
        DataType::Null => Some(&DataType::Null),
        _ => None,
    }
}

impl ScalarUDFImpl for Kind {
    fn name(&self) -> &str {
        match self {
            Self::FromArrays => "spark_map_from_arrays",
            Self::FromEntries => "spark_map_from_entries",
            Self::Concat => "spark_map_concat",
            Self::OfText => "spark_str_to_map",
            Self::Zip => "spark_zip_maps",
        }
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.name().trim_start_matches("spark_");
        let list = |kind: &DataType| DataType::List(Arc::new(list_field(kind)));
        let one = |left: &DataType, right: &DataType| common_type(name, left, right);
        match (self, kinds) {
            (Self::FromArrays, [keys, values]) => match (element_of(keys), element_of(values)) {
                (Some(keys), Some(values)) => Ok(vec![list(keys), list(values)]),
                _ => plan_err!("{name} takes two lists"),
            },
            (Self::FromEntries, [entries]) => match element_of(entries) {
                Some(entry @ DataType::Struct(fields)) if fields.len() == 2 => Ok(vec![list(entry)]),
                _ => plan_err!("{name} takes a list of structs with two fields"),
            },
            (Self::OfText, [_, _, _]) => Ok(vec![DataType::Utf8; 3]),
            (Self::Concat, [first, rest @ ..]) => {
                let Some(mut common) = parts_of(first) else { return plan_err!("{name} takes maps") };
                for kind in rest {
                    let Some((key, value)) = parts_of(kind) else { return plan_err!("{name} takes maps") };
                    common = (one(&common.0, &key)?, one(&common.1, &value)?);
                }
                Ok(vec![map_of(&common.0, &common.1); kinds.len()])
            }
            (Self::Zip, [left, right]) => match (parts_of(left), parts_of(right)) {
                (Some((key, left)), Some((other, right))) => {
                    let key = one(&key, &other)?;
                    Ok(vec![map_of(&key, &left), map_of(&key, &right)])
                }
                _ => plan_err!("map_zip_with takes two maps"),
            },
            _ => plan_err!("{name} takes other arguments"),
        }
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        let element = |at: usize| element_of(&kinds[at]).cloned().unwrap_or(DataType::Null);
        Ok(match self {
            Self::FromArrays => map_of(&element(0), &element(1)),
            Self::FromEntries => match element(0) {
                DataType::Struct(fields) => map_of(fields[0].data_type(), fields[1].data_type()),
                _ => DataType::Null,
            },
            Self::Concat => kinds[0].clone(),
            Self::OfText => map_of(&DataType::Utf8, &DataType::Utf8),
            Self::Zip => {
                let of = |at: usize| parts_of(&kinds[at]).unwrap_or((DataType::Null, DataType::Null));
                let ((key, left), (_, right)) = (of(0), of(1));
                DataType::List(Arc::new(list_field(&DataType::Struct(zipped_fields(&key, &left, &right)))))
            }
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(&arguments, |arrays| self.run(arrays))
    }
}
