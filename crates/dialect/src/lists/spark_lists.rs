//! Functions of lists that only Spark has, with the names of [`Kind`].

use std::collections::HashSet;
use std::sync::Arc;

use arrow::row::{RowConverter, SortField};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, StringArray, StructArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Int32Type};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use yeoul_base::ErrorKind;

use super::common_type;
use super::picked::{Picked, list_field};
use crate::Error;
use crate::signatures::USER_DEFINED;
use crate::text::rows::invoke;

/// A function of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// `spark_array_insert(list, place, value)`: places count from 1, or from the end.
    Insert,
    /// `spark_slice(list, start, length)`.
    Slice,
    /// `spark_overlap(a, b)`: whether two lists have an element in common; null if a null may be one.
    Overlap,
    /// `spark_any(list)` of BOOLEANs: whether one is true; null if none is, and one is null.
    Any,
    /// `spark_all(list)`: whether all are true.
    All,
    /// `spark_zip(a, b)`: pairs of elements, the shorter list filled up with nulls.
    Zip,
    /// `spark_fields(list, 'place')`: the field at a place from 0 on of each struct in a list.
    Fields,
}

impl Kind {
    const ALL: [Self; 7] =
        [Self::Insert, Self::Slice, Self::Overlap, Self::Any, Self::All, Self::Zip, Self::Fields];

    /// All of these functions.
    pub(super) fn all() -> impl Iterator<Item = ScalarUDF> {
        Self::ALL.into_iter().map(ScalarUDF::from)
    }

    fn run(self, arrays: &[ArrayRef]) -> Result<ArrayRef> {
        let lists = arrays[0].as_list::<i32>();
        match self {
            Self::Insert => inserted(lists, arrays[1].as_primitive::<Int32Type>(), &arrays[2]),
            Self::Slice => {
                sliced(lists, arrays[1].as_primitive::<Int32Type>(), arrays[2].as_primitive::<Int32Type>())
            }
            Self::Overlap => overlapping(lists, arrays[1].as_list::<i32>()),
            Self::Any => Ok(Arc::new(decided(lists, true))),
            Self::All => Ok(Arc::new(decided(lists, false))),
            Self::Zip => zipped(lists, arrays[1].as_list::<i32>()),
            Self::Fields => fields_at(lists, arrays[1].as_string::<i32>()),
        }
    }

    const fn arguments(self) -> usize {
        match self {
            Self::Any | Self::All => 1,
            Self::Overlap | Self::Zip | Self::Fields => 2,
            Self::Insert | Self::Slice => 3,
        }
    }
}

/// The places of a list's elements in the array of all.
pub(super) fn places(lists: &ListArray, row: usize) -> std::ops::Range<usize> {
    let [begin, end] = [row, row + 1].map(|at| usize::try_from(lists.value_offsets()[at]).unwrap_or(0));
    begin..end
}

/// Values as bytes that are equal if the values are: 0 and -0 are, and so are all NaNs.
pub(super) fn comparable(values: &ArrayRef) -> Result<arrow::row::Rows> {
    let values = crate::lists::spark_maps::without_negative_zeros(values)?;
    let converter = RowConverter::new(vec![SortField::new(values.data_type().clone())])?;
    Ok(converter.convert_columns(&[values])?)
}

fn refused(text: String, hint: &str) -> datafusion::common::DataFusionError {
    Error::new(ErrorKind::Invalid, text).with_hint(hint).into()
}

fn inserted(
    lists: &ListArray,
    at: &datafusion::arrow::array::Int32Array,
    values: &ArrayRef,
) -> Result<ArrayRef> {
    let mut picked = Picked::default();
    for row in 0..lists.len() {
        if lists.is_null(row) || at.is_null(row) {
            picked.end_row(false);
            continue;
        }
        let places = places(lists, row);
        let length = places.len();
        let at = i64::from(at.value(row));
        let distance = usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX);
        match at {
            0 => {
                return Err(refused(
                    "array_insert has no place 0".to_owned(),
                    "places count from 1, or from the end by negative numbers",
                ));
            }
            1.. => {
                let before = (distance - 1).min(length);
                places.clone().take(before).for_each(|place| picked.push(0, place));
                picked.push_nulls(distance - 1 - before)?;
                picked.push(1, row);
                places.skip(before).for_each(|place| picked.push(0, place));
            }
            // -1 is behind the last element.
            _ if distance <= length + 1 => {
                let before = length + 1 - distance;
                places.clone().take(before).for_each(|place| picked.push(0, place));
                picked.push(1, row);
                places.skip(before).for_each(|place| picked.push(0, place));
            }
            _ => {
                picked.push(1, row);
                picked.push_nulls(distance - length - 1)?;
                places.for_each(|place| picked.push(0, place));
            }
        }
        picked.end_row(true);
    }
    picked.into_list(&[lists.values(), values])
}

fn sliced(
    lists: &ListArray,
    starts: &datafusion::arrow::array::Int32Array,
    lengths: &datafusion::arrow::array::Int32Array,
) -> Result<ArrayRef> {
    let mut picked = Picked::default();
    for row in 0..lists.len() {
        if lists.is_null(row) || starts.is_null(row) || lengths.is_null(row) {
            picked.end_row(false);
            continue;
        }
        let (start, length) = (i64::from(starts.value(row)), lengths.value(row));
        if start == 0 {
            return Err(refused(
                "slice has no start 0".to_owned(),
                "places count from 1, or from the end by negative numbers",
            ));
        }
        let Ok(length) = usize::try_from(length) else {
            return Err(refused(format!("slice has no length {length}"), "it is at least 0"));
        };
        let places = places(lists, row);
        let count = i64::try_from(places.len()).unwrap_or(i64::MAX);
        let from = if start > 0 { start - 1 } else { count + start };
        if let Ok(from) = usize::try_from(from) {
            places.skip(from).take(length).for_each(|place| picked.push(0, place));
        }
        picked.end_row(true);
    }
    picked.into_list(&[lists.values()])
}

fn overlapping(left: &ListArray, right: &ListArray) -> Result<ArrayRef> {
    let [of_left, of_right] = [comparable(left.values())?, comparable(right.values())?];
    let answer = |row: usize| {
        if left.is_null(row) || right.is_null(row) {
            return None;
        }
        let (mine, others) = (places(left, row), places(right, row));
        let is_set = |list: &ListArray, place: &usize| list.values().is_valid(*place);
        let has_null = mine.clone().any(|place| !is_set(left, &place))
            || others.clone().any(|place| !is_set(right, &place));
        let is_empty = mine.is_empty() || others.is_empty();
        let known: HashSet<&[u8]> =
            mine.filter(|place| is_set(left, place)).map(|place| of_left.row(place).data()).collect();
        let mut others = others.filter(|place| is_set(right, place));
        if others.any(|place| known.contains(of_right.row(place).data())) {
            return Some(true);
        }
        (is_empty || !has_null).then_some(false)
    };
    Ok(Arc::new((0..left.len()).map(answer).collect::<BooleanArray>()))
}

/// One of the elements is `decisive`, null if that is not known.
fn decided(lists: &ListArray, decisive: bool) -> BooleanArray {
    let elements = lists.values().as_boolean();
    let answer = |row: usize| {
        if lists.is_null(row) {
            return None;
        }
        let places = places(lists, row);
        if places.clone().any(|place| elements.is_valid(place) && elements.value(place) == decisive) {
            return Some(decisive);
        }
        let has_null = places.into_iter().any(|place| elements.is_null(place));
        (!has_null).then_some(!decisive)
    };
    (0..lists.len()).map(answer).collect()
}

fn zipped(left: &ListArray, right: &ListArray) -> Result<ArrayRef> {
    let [mut lefts, mut rights] = [Picked::default(), Picked::default()];
    for row in 0..left.len() {
        let is_valid = left.is_valid(row) && right.is_valid(row);
        if is_valid {
            let (mine, others) = (places(left, row), places(right, row));
            let length = mine.len().max(others.len());
            for (picked, places) in [(&mut lefts, mine), (&mut rights, others)] {
                let missing = length - places.len();
                places.for_each(|place| picked.push(0, place));
                picked.push_nulls(missing)?;
            }
        }
        lefts.end_row(is_valid);
        rights.end_row(is_valid);
    }
    let columns = vec![lefts.values(&[left.values()])?, rights.values(&[right.values()])?];
    let fields = pair_fields(columns[0].data_type(), columns[1].data_type());
    lefts.list_of(Arc::new(StructArray::try_new(fields, columns, None)?))
}

fn fields_at(lists: &ListArray, place: &StringArray) -> Result<ArrayRef> {
    let structs = lists.values().as_struct();
    let place = if place.is_empty() { 0 } else { place.value(0).parse().unwrap_or(usize::MAX) };
    let Some(column) = structs.columns().get(place) else {
        return plan_err!("a struct of {} fields has none at {place}", structs.num_columns());
    };
    let nulls = NullBuffer::union(column.logical_nulls().as_ref(), structs.nulls());
    let nulls = nulls.filter(|_| !column.data_type().is_null());
    let values = column.to_data().into_builder().nulls(nulls).build()?;
    let field = Arc::new(list_field(column.data_type()));
    let values = datafusion::arrow::array::make_array(values);
    Ok(Arc::new(ListArray::try_new(field, lists.offsets().clone(), values, lists.nulls().cloned())?))
}

fn pair_fields(left: &DataType, right: &DataType) -> Fields {
    Fields::from(vec![Field::new("left", left.clone(), true), Field::new("right", right.clone(), true)])
}

/// The type of the elements of a list.
pub(super) fn element_of(kind: &DataType) -> Option<DataType> {
    match kind {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            Some(field.data_type().clone())
        }
        DataType::Null => Some(DataType::Null),
        _ => None,
    }
}

fn list_of(element: &DataType) -> DataType {
    DataType::List(Arc::new(list_field(element)))
}

impl ScalarUDFImpl for Kind {
    fn name(&self) -> &str {
        match self {
            Self::Insert => "spark_array_insert",
            Self::Slice => "spark_slice",
            Self::Overlap => "spark_overlap",
            Self::Any => "spark_any",
            Self::All => "spark_all",
            Self::Zip => "spark_zip",
            Self::Fields => "spark_fields",
        }
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.name().trim_start_matches("spark_");
        if kinds.len() != self.arguments() {
            return plan_err!("the function {name} takes {} arguments", self.arguments());
        }
        let Some(element) = element_of(&kinds[0]) else { return plan_err!("{name} takes a list first") };
        let one = |left: &DataType, right: &DataType| common_type(name, left, right);
        let is_place = |kind: &DataType| kind.is_integer() || kind.is_null();
        Ok(match self {
            Self::Insert if is_place(&kinds[1]) => {
                let common = one(&element, &kinds[2])?;
                vec![list_of(&common), DataType::Int32, common]
            }
            Self::Slice if is_place(&kinds[1]) && is_place(&kinds[2]) => {
                vec![list_of(&element), DataType::Int32, DataType::Int32]
            }
            Self::Any | Self::All => vec![list_of(&DataType::Boolean)],
            Self::Fields => vec![list_of(&element), DataType::Utf8],
            Self::Overlap | Self::Zip => {
                let Some(other) = element_of(&kinds[1]) else {
                    return plan_err!("{name} takes two lists");
                };
                if *self == Self::Zip {
                    return Ok(vec![list_of(&element), list_of(&other)]);
                }
                vec![list_of(&one(&element, &other)?); 2]
            }
            _ => return plan_err!("{name} takes integers as places"),
        })
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let kinds: Vec<DataType> =
            arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        if *self != Self::Fields {
            return Ok(Arc::new(Field::new(self.name(), self.return_type(&kinds)?, true)));
        }
        let place = match arguments.scalar_arguments {
            [_, Some(ScalarValue::Utf8(Some(place)))] => place.parse::<usize>().ok(),
            _ => None,
        };
        match (element_of(&kinds[0]), place) {
            (Some(DataType::Struct(fields)), Some(place)) if place < fields.len() => {
                Ok(Arc::new(Field::new(self.name(), list_of(fields[place].data_type()), true)))
            }
            _ => plan_err!("inline takes a list of structs, and as many names as they have fields"),
        }
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        Ok(match self {
            Self::Insert | Self::Slice => kinds[0].clone(),
            Self::Fields => return plan_err!("spark_fields has the type of a field"),
            Self::Overlap | Self::Any | Self::All => DataType::Boolean,
            Self::Zip => {
                let of = |at: usize| element_of(&kinds[at]).unwrap_or(DataType::Null);
                list_of(&DataType::Struct(pair_fields(&of(0), &of(1))))
            }
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(&arguments, |arrays| self.run(arrays))
    }
}
