//! `list[0]` and `map['a']` of Spark: elements are counted from 0.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, UInt64Array, new_empty_array};
use datafusion::arrow::compute::{SortOptions, cast, take};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use yeoul_base::ErrorKind;

use crate::Error;

/// Name of the function.
pub(crate) const ELEMENT: &str = "spark_element";

/// Name of the function of `element_at`.
pub(crate) const ELEMENT_AT: &str = "spark_element_at";

/// `spark_element(list, place)`: the element at a place from 0 on, an error if there is none; `spark_element(map, key)`: the value of a
/// key, null if there is none. `spark_element_at` counts from 1 on, and from the end for a negative place.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct SparkElement {
    name: &'static str,
    signature: Signature,
}

impl SparkElement {
    /// The functions.
    pub(crate) fn all() -> [Arc<ScalarUDF>; 2] {
        let signature = || Signature::user_defined(Volatility::Immutable);
        [ELEMENT, ELEMENT_AT].map(|name| Arc::new(Self { name, signature: signature() }.into()))
    }
}

impl ScalarUDFImpl for SparkElement {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let [of, place] = take_function_args(self.name(), kinds)?;
        match of {
            DataType::List(_) | DataType::Null if place.is_integer() || *place == DataType::Null => {
                Ok(vec![of.clone(), DataType::Int64])
            }
            DataType::LargeList(element)
            | DataType::FixedSizeList(element, _)
            | DataType::ListView(element)
                if place.is_integer() =>
            {
                Ok(vec![DataType::List(Arc::clone(element)), DataType::Int64])
            }
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(fields) => Ok(vec![of.clone(), fields[0].data_type().clone()]),
                other => plan_err!("a map of {other}"),
            },
            other => {
                let text = format!(
                    "a value of type {} has no element [{}]",
                    super::type_name(other),
                    super::type_name(place)
                );
                Err(Error::new(ErrorKind::Invalid, text)
                    .with_hint("lists have places from 0 on, maps have keys")
                    .into())
            }
        }
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        match &kinds[0] {
            DataType::List(element) => Ok(element.data_type().clone()),
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(fields) => Ok(fields[1].data_type().clone()),
                other => plan_err!("a map of {other}"),
            },
            _ => Ok(DataType::Null),
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let are_constant = arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if are_constant { 1 } else { arguments.number_rows };
        let arrays: Vec<ArrayRef> =
            arguments.args.iter().map(|argument| argument.to_array(rows)).collect::<Result<_>>()?;
        let [of, place] = take_function_args(self.name, arrays)?;
        let values = match of.data_type() {
            DataType::List(_) => of_lists(&of, &place, self.name == ELEMENT_AT)?,
            DataType::Map(..) => of_maps(&of, &place)?,
            _ => datafusion::arrow::array::new_null_array(&DataType::Null, rows),
        };
        if are_constant {
            return Ok(ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&values, 0)?));
        }
        Ok(ColumnarValue::Array(values))
    }
}

fn of_lists(lists: &ArrayRef, places: &ArrayRef, counts_from_one: bool) -> Result<ArrayRef> {
    let lists = lists.as_list::<i32>();
    let places = cast(places, &DataType::Int64)?;
    let places = places.as_primitive::<Int64Type>();
    let mut found = Vec::with_capacity(lists.len());
    for row in 0..lists.len() {
        if lists.is_null(row) || places.is_null(row) {
            found.push(None);
            continue;
        }
        let (place, length) = (places.value(row), i64::from(lists.value_length(row)));
        let written = place;
        let place = match place {
            place if !counts_from_one => place,
            0 => -1,
            place if place < 0 => length.saturating_add(place),
            place => place - 1,
        };
        if !(0..length).contains(&place) {
            let text = format!("there is no element [{written}] of a list with {length}");
            let error = Error::new(ErrorKind::Invalid, text);
            return Err(error
                .with_hint("the first is list[0], and element_at(list, 1); get(list, place) is null where there is none")
                .into());
        }
        found.push(Some(lists.value_offsets()[row] as u64 + place as u64));
    }
    Ok(take(lists.values(), &UInt64Array::from(found), None)?)
}

fn of_maps(maps: &ArrayRef, keys: &ArrayRef) -> Result<ArrayRef> {
    let maps = maps.as_map();
    if maps.keys().data_type() != keys.data_type() {
        return exec_err!("a key of type {} of a map of {}", keys.data_type(), maps.keys().data_type());
    }
    if maps.values().is_empty() {
        let none = UInt64Array::from(vec![None::<u64>; maps.len()]);
        return Ok(take(&new_empty_array(maps.values().data_type()), &none, None)?);
    }
    // Rows of two columns are equal if their bytes are.
    let options = SortOptions::default();
    let rows = RowConverter::new(vec![SortField::new_with_options(keys.data_type().clone(), options)])?;
    let of = rows.convert_columns(&[Arc::clone(maps.keys())])?;
    let wanted = rows.convert_columns(&[Arc::clone(keys)])?;
    let found = (0..maps.len()).map(|row| {
        if maps.is_null(row) || keys.is_null(row) {
            return None;
        }
        let entries = maps.value_offsets()[row] as usize..maps.value_offsets()[row + 1] as usize;
        entries.into_iter().find(|entry| of.row(*entry) == wanted.row(row)).map(|entry| entry as u64)
    });
    Ok(take(maps.values(), &found.collect::<UInt64Array>(), None)?)
}
