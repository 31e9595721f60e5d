//! Whole numbers of JSON files. A column is of such if the first records have no other, and arrow-json would leave out what
//! later ones have behind the point. They are read as decimals, and one that is not whole is refused.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array};
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, DecimalType, Field, FieldRef, Fields, Schema, SchemaRef,
};
use datafusion::catalog::Session;
use datafusion::common::utils::take_function_args;
use datafusion::common::{DFSchema, Result};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use yeoul_base::ErrorKind;

use crate::Error;

/// Digits behind the point; before it there is room for any 64-bit number.
const SCALE: i8 = 18;
const AS_READ: DataType = DataType::Decimal128(38, SCALE);

/// The schema with which files are scanned that shall have this one.
pub(super) fn as_read(schema: &TableSchema) -> TableSchema {
    let field = |field: &FieldRef| match field.data_type() {
        DataType::Int64 => Arc::new(field.as_ref().clone().with_data_type(AS_READ)),
        _ => Arc::clone(field),
    };
    let columns = schema.file_schema();
    let fields: Fields = columns.fields().iter().map(field).collect();
    let columns = Schema::new_with_metadata(fields, columns.metadata().clone());
    let keys = schema.table_partition_cols().iter().cloned().collect::<Fields>();
    TableSchema::builder(Arc::new(columns)).with_table_partition_cols(keys).build()
}

/// Makes whole numbers of what a scan has read of the columns that are such in `schema`.
pub(super) fn exact(
    scan: Arc<dyn ExecutionPlan>,
    schema: &SchemaRef,
    state: &dyn Session,
) -> Result<Arc<dyn ExecutionPlan>> {
    let read = scan.schema();
    let fields = read.fields().iter().zip(schema.fields());
    if fields.clone().all(|(read, told)| read.data_type() == told.data_type()) {
        return Ok(scan);
    }
    let columns = DFSchema::from_unqualified_fields(read.fields().clone(), HashMap::new())?;
    let exprs = fields.map(|(read, told)| {
        let mut expr = Expr::from((None, read));
        if read.data_type() != told.data_type() {
            let of = told.name().clone();
            expr = ScalarUDF::from(Whole { of, signature: Signature::any(1, Volatility::Immutable) })
                .call(vec![expr]);
        }
        Ok((state.create_physical_expr(expr, &columns)?, told.name().clone()))
    });
    Ok(Arc::new(ProjectionExec::try_new(exprs.collect::<Result<Vec<_>>>()?, scan)?))
}

/// A function that gives the number that it is given, and refuses one that is not whole.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Whole {
    /// The column, for people.
    of: String,
    signature: Signature,
}

impl Whole {
    fn number(&self, read: i128) -> Result<i64> {
        let one = 10i128.pow(SCALE.unsigned_abs().into());
        match i64::try_from(read / one) {
            Ok(number) if read % one == 0 => Ok(number),
            _ => {
                let written = Decimal128Type::format_decimal(read, 38, SCALE);
                let written = written.trim_end_matches('0').trim_end_matches('.');
                let what = format!(
                    "'{}' is {written} in one record, and a whole number of 64 bits in the first",
                    self.of
                );
                let hint = format!(
                    "say what it is: CREATE EXTERNAL TABLE t (\"{}\" DOUBLE, …) STORED AS JSON …",
                    self.of
                );
                Err(Error::new(ErrorKind::Invalid, what).with_hint(hint).into())
            }
        }
    }
}

impl ScalarUDFImpl for Whole {
    fn name(&self) -> &str {
        "whole"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let [read] = take_function_args(self.name(), args.arg_fields)?;
        Ok(Arc::new(Field::new(&self.of, DataType::Int64, read.is_nullable())))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let [read] = take_function_args(self.name(), arguments.args)?;
        let read = read.into_array(rows)?;
        let read = read.as_primitive::<Decimal128Type>();
        let numbers: Int64Array = read.try_unary(|read| self.number(read))?;
        Ok(ColumnarValue::Array(Arc::new(numbers) as ArrayRef))
    }
}
