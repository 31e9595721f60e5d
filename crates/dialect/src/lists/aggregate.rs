//! `aggregate(list, start, (acc, x) -> …[, acc -> …])`, as in Spark: the elements of a list taken one by one into a value.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, StructArray, UInt64Array};
use datafusion::arrow::compute::{cast, interleave, take, take_arrays};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, HigherOrderFunctionArgs, HigherOrderReturnFieldArgs, HigherOrderSignature,
    HigherOrderUDFImpl, LambdaArgument, LambdaParametersProgress, ValueOrLambda, Volatility,
};

use super::spark_lists::places;

/// The name of the function.
pub(crate) const AGGREGATE: &str = "spark_aggregate";

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Aggregate;

impl HigherOrderUDFImpl for Aggregate {
    fn name(&self) -> &str {
        AGGREGATE
    }

    fn signature(&self) -> &HigherOrderSignature {
        static ANY: LazyLock<HigherOrderSignature> =
            LazyLock::new(|| HigherOrderSignature::user_defined(Volatility::Immutable));
        &ANY
    }

    fn coerce_value_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let [list, start] = kinds else { return plan_err!("aggregate takes a list, a value and a lambda") };
        let element = match list {
            DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
                field.data_type().clone()
            }
            DataType::Null => DataType::Null,
            _ => return plan_err!("aggregate takes a list first"),
        };
        Ok(vec![DataType::List(Arc::new(super::picked::list_field(&element))), start.clone()])
    }

    fn lambda_parameters(
        &self,
        _step: usize,
        fields: &[ValueOrLambda<FieldRef, Option<FieldRef>>],
    ) -> Result<LambdaParametersProgress> {
        let [ValueOrLambda::Value(list), ValueOrLambda::Value(start), lambdas @ ..] = fields else {
            return plan_err!("aggregate takes a list, a value and a lambda");
        };
        let DataType::List(element) = list.data_type() else {
            return plan_err!("aggregate takes a list first");
        };
        let value = Arc::new(Field::new("acc", start.data_type().clone(), true));
        let element = Arc::new(Field::new("element", element.data_type().clone(), true));
        let parameters = vec![vec![Arc::clone(&value), element], vec![value]];
        Ok(LambdaParametersProgress::Complete(parameters.into_iter().take(lambdas.len()).collect()))
    }

    fn return_field_from_args(&self, args: HigherOrderReturnFieldArgs) -> Result<FieldRef> {
        let kind = match args.arg_fields {
            [ValueOrLambda::Value(_), ValueOrLambda::Value(start), ValueOrLambda::Lambda(merged)] => {
                if relabelled_type(merged.data_type(), start.data_type()).is_none() {
                    return plan_err!(
                        "the lambda of aggregate answers {}, and not {} as its start",
                        crate::types::type_name(merged.data_type()),
                        crate::types::type_name(start.data_type())
                    );
                }
                start.data_type().clone()
            }
            [_, _, ValueOrLambda::Lambda(_), ValueOrLambda::Lambda(finished)] => finished.data_type().clone(),
            _ => return plan_err!("aggregate takes a list, a value, and one or two lambdas"),
        };
        Ok(Arc::new(Field::new("", kind, true)))
    }

    fn invoke_with_args(&self, args: HigherOrderFunctionArgs) -> Result<ColumnarValue> {
        let (list, start, merge, finish) = match args.args.as_slice() {
            [ValueOrLambda::Value(list), ValueOrLambda::Value(start), ValueOrLambda::Lambda(merge)] => {
                (list, start, merge, None)
            }
            [
                ValueOrLambda::Value(list),
                ValueOrLambda::Value(start),
                ValueOrLambda::Lambda(merge),
                ValueOrLambda::Lambda(finish),
            ] => (list, start, merge, Some(finish)),
            _ => return plan_err!("aggregate takes a list, a value, and one or two lambdas"),
        };
        let rows = args.number_rows;
        let lists = list.to_array(rows)?;
        let lists = lists.as_list::<i32>();
        let merged = merged(lists, start.to_array(rows)?, merge)?;
        let found = match finish {
            Some(finish) => finish
                .evaluate(&[&|| Ok(Arc::clone(&merged))], |captured| Ok(captured.to_vec()))?
                .into_array(rows)?,
            None => merged,
        };
        let nulls = datafusion::arrow::compute::is_null(lists)?;
        Ok(ColumnarValue::Array(datafusion::arrow::compute::nullif(&found, &nulls)?))
    }
}

/// The values of all rows once the elements of their lists are in them.
fn merged(lists: &ListArray, start: ArrayRef, merge: &LambdaArgument) -> Result<ArrayRef> {
    let length = |row: usize| if lists.is_valid(row) { places(lists, row).len() } else { 0 };
    let lengths: Vec<usize> = (0..lists.len()).map(length).collect();
    let mut values = start;
    for step in 0..lengths.iter().copied().max().unwrap_or(0) {
        let active: Vec<usize> = (0..lengths.len()).filter(|row| lengths[*row] > step).collect();
        let number = |place: usize| u64::try_from(place).unwrap_or(u64::MAX);
        let rows: UInt64Array = active.iter().map(|row| Some(number(*row))).collect();
        let elements: UInt64Array =
            active.iter().map(|row| Some(number(places(lists, *row).start + step))).collect();
        let found = merge.evaluate(
            &[&|| Ok(take(&values, &rows, None)?), &|| Ok(take(lists.values(), &elements, None)?)],
            |captured| Ok(take_arrays(captured, &rows, None)?),
        )?;
        let found = relabelled(&found.into_array(active.len())?, values.data_type())?;
        if active.len() == lengths.len() {
            values = found;
            continue;
        }
        let mut places: Vec<(usize, usize)> = (0..lengths.len()).map(|row| (0, row)).collect();
        for (place, row) in active.into_iter().enumerate() {
            places[row] = (1, place);
        }
        values = interleave(&[values.as_ref(), found.as_ref()], &places)?;
    }
    Ok(values)
}

/// The type of a value that stands in the place of one of another: structs of the same types, whatever their fields are called.
fn relabelled_type(kind: &DataType, like: &DataType) -> Option<DataType> {
    match (kind, like) {
        (kind, like) if kind == like => Some(like.clone()),
        (DataType::Null, like) => Some(like.clone()),
        (DataType::Struct(fields), DataType::Struct(others)) if fields.len() == others.len() => fields
            .iter()
            .zip(others)
            .all(|(field, other)| relabelled_type(field.data_type(), other.data_type()).is_some())
            .then(|| like.clone()),
        (DataType::List(field), DataType::List(other)) => {
            relabelled_type(field.data_type(), other.data_type()).map(|_| like.clone())
        }
        _ => None,
    }
}

fn relabelled(values: &ArrayRef, like: &DataType) -> Result<ArrayRef> {
    match (values.data_type(), like) {
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let structs = values.as_struct();
            let columns = structs.columns().iter().zip(fields);
            let columns = columns.map(|(column, field)| relabelled(column, field.data_type()));
            let nullable: Vec<Field> =
                fields.iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
            let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
            let made = StructArray::try_new(nullable.into(), columns, structs.nulls().cloned())?;
            Ok(cast(&made, like)?)
        }
        (kind, like) if kind == like => Ok(Arc::clone(values)),
        (_, like) => Ok(cast(values, like)?),
    }
}
