//! `arrays_zip` of Spark: a list of structs of the elements at the same place of several lists.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, StructArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature,
};

use super::picked::{Picked, list_field};
use super::spark_lists::{element_of, places};
use crate::signatures::USER_DEFINED;
use crate::text::rows::invoke;

/// `spark_arrays_zip('a', list, 'b', list, …)`: names of fields and the lists of their values, by turns. Shorter lists are filled up with
/// nulls; the answer is null if one of the lists is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ArraysZip;

/// The elements of lists side by side.
fn zipped(lists: &[&ListArray], fields: &Fields) -> Result<ArrayRef> {
    let mut columns: Vec<Picked> = lists.iter().map(|_| Picked::default()).collect();
    for row in 0..lists[0].len() {
        let is_valid = lists.iter().all(|list| list.is_valid(row));
        let length = lists.iter().map(|list| places(list, row).len()).max().unwrap_or(0);
        for (picked, list) in columns.iter_mut().zip(lists) {
            if is_valid {
                let places = places(list, row);
                let missing = length - places.len();
                places.for_each(|place| picked.push(0, place));
                picked.push_nulls(missing)?;
            }
            picked.end_row(is_valid);
        }
    }
    let values = columns.iter().zip(lists).map(|(picked, list)| picked.values(&[list.values()]));
    let structs = StructArray::try_new(fields.clone(), values.collect::<Result<_>>()?, None)?;
    columns[0].list_of(Arc::new(structs))
}

impl ScalarUDFImpl for ArraysZip {
    fn name(&self) -> &str {
        "spark_arrays_zip"
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let pair = |pair: &[DataType]| match pair {
            [name, list] if name.is_string() => {
                let element = element_of(list)?;
                Some([DataType::Utf8, DataType::List(Arc::new(list_field(&element)))])
            }
            _ => None,
        };
        let pairs: Option<Vec<[DataType; 2]>> = kinds.chunks(2).map(pair).collect();
        match pairs {
            Some(pairs) if !pairs.is_empty() => Ok(pairs.into_iter().flatten().collect()),
            _ => plan_err!("arrays_zip takes lists"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        plan_err!("the type of arrays_zip has the names of its arguments")
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let pairs = arguments.arg_fields.chunks(2).zip(arguments.scalar_arguments.chunks(2));
        let field = |(fields, scalars): (&[FieldRef], &[Option<&ScalarValue>])| {
            let name = scalars.first().copied().flatten()?.try_as_str().flatten()?;
            Some(Field::new(name, element_of(fields.get(1)?.data_type())?, true))
        };
        let Some(fields) = pairs.map(field).collect::<Option<Fields>>() else {
            return plan_err!("arrays_zip takes lists");
        };
        Ok(Arc::new(Field::new_list(self.name(), list_field(&DataType::Struct(fields)), true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let DataType::List(element) = arguments.return_field.data_type().clone() else {
            return plan_err!("arrays_zip answers a list");
        };
        let DataType::Struct(fields) = element.data_type() else {
            return plan_err!("arrays_zip answers structs");
        };
        invoke(&arguments, |arrays| {
            let lists: Vec<&ListArray> =
                arrays.iter().skip(1).step_by(2).map(|array| array.as_list::<i32>()).collect();
            zipped(&lists, fields)
        })
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Int32Array;
    use datafusion::arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn shorter_lists_are_filled_up_and_null_lists_make_null() {
        let list =
            |rows: Vec<Option<Vec<Option<i32>>>>| ListArray::from_iter_primitive::<Int32Type, _, _>(rows);
        let left = list(vec![Some(vec![Some(1)]), None, Some(vec![])]);
        let right = list(vec![Some(vec![Some(2), Some(3)]), Some(vec![Some(4)]), Some(vec![])]);
        let fields: Fields =
            ["0", "b"].map(|name| Field::new(name, DataType::Int32, true)).into_iter().collect();
        let found = zipped(&[&left, &right], &fields).unwrap();
        let found = found.as_list::<i32>();
        assert_eq!((found.is_null(0), found.is_null(1), found.value_length(2)), (false, true, 0));
        let first = found.value(0);
        let column = |at: usize| first.as_struct().column(at).clone();
        assert_eq!(column(0).as_primitive::<Int32Type>(), &Int32Array::from(vec![Some(1), None]));
        assert_eq!(column(1).as_primitive::<Int32Type>(), &Int32Array::from(vec![2, 3]));
    }
}
