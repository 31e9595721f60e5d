//! Values that a reader would truncate to the type inferred for their column from the first records. The column is read as a
//! wider type, and a value that would lose something is refused: the fraction of a JSON number, the time of day of a
//! timestamp in a CSV column of dates, the leading zeros of a number in a CSV column of numbers. A date may be written in each way that arrow reads, such as 2024-1-5.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{ArrayRef, AsArray, Date32Array, Int64Array};
use datafusion::arrow::compute::kernels::cast_utils::{Parser, string_to_datetime};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DecimalType, Field, FieldRef, Fields, Int64Type, Schema, SchemaRef,
};
use datafusion::arrow::temporal_conversions::SECONDS_IN_DAY;
use datafusion::catalog::Session;
use datafusion::common::utils::take_function_args;
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use yeoul_base::ErrorKind;

use super::leading_zeros::has_leading_zero;
use crate::Error;

/// Digits after the decimal point; before it there is room for any 64-bit number.
const SCALE: i8 = 18;

/// The wider type as which files of this format are read for a column inferred as `told`; `None` if it is read as it is.
fn read_as(format: &str, told: &DataType) -> Option<DataType> {
    match (format, told) {
        ("json", DataType::Int64) => Some(DataType::Decimal128(38, SCALE)),
        ("csv", DataType::Date32 | DataType::Int64) => Some(DataType::Utf8),
        _ => None,
    }
}

/// The schema to scan files of this format with, for a table that has `schema`.
pub(super) fn as_read(format: &str, schema: TableSchema) -> TableSchema {
    let columns = schema.file_schema();
    let field = |field: &FieldRef| match read_as(format, field.data_type()) {
        Some(wider) => Arc::new(field.as_ref().clone().with_data_type(wider)),
        None => Arc::clone(field),
    };
    let fields: Fields = columns.fields().iter().map(field).collect();
    let columns = Schema::new_with_metadata(fields, columns.metadata().clone());
    let keys = schema.table_partition_cols().iter().cloned().collect::<Fields>();
    TableSchema::builder(Arc::new(columns)).with_table_partition_cols(keys).build()
}

/// Casts what a scan has read back to the types of `schema`.
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
            let exact = Exact::new(told.name().clone(), told.data_type().clone());
            expr = ScalarUDF::from(exact).call(vec![expr]);
        }
        Ok((state.create_physical_expr(expr, &columns)?, told.name().clone()))
    });
    Ok(Arc::new(ProjectionExec::try_new(exprs.collect::<Result<Vec<_>>>()?, scan)?))
}

/// A function that casts a value to the narrower type, and refuses one that does not fit.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Exact {
    /// The column's name, for the error.
    of: String,
    to: DataType,
    signature: Signature,
}

impl Exact {
    /// The function for a column of this name and type.
    pub(crate) fn new(of: String, to: DataType) -> Self {
        Self { of, to, signature: Signature::any(1, Volatility::Immutable) }
    }

    /// Name and type of the column.
    pub(crate) fn column(&self) -> (&str, &DataType) {
        (&self.of, &self.to)
    }

    fn number(&self, read: i128) -> Result<i64> {
        let one = 10i128.pow(SCALE.unsigned_abs().into());
        match i64::try_from(read / one) {
            Ok(number) if read % one == 0 => Ok(number),
            _ => {
                let written = Decimal128Type::format_decimal(read, 38, SCALE);
                let written = written.trim_end_matches('0').trim_end_matches('.');
                Err(self.refused(written, "a whole number of 64 bits", "DOUBLE, …) STORED AS JSON"))
            }
        }
    }

    fn number_of_text(&self, read: &str) -> Result<i64> {
        let declared = |of: &str| format!("{of}, …) STORED AS CSV");
        if has_leading_zero(read) {
            return Err(self.refused(
                &format!("'{read}'"),
                "a number without leading zeros",
                &declared("VARCHAR"),
            ));
        }
        Int64Type::parse(read).ok_or_else(|| {
            let kind = if read.parse::<f64>().is_ok() { "DOUBLE" } else { "VARCHAR" };
            self.refused(&format!("'{read}'"), "a whole number of 64 bits", &declared(kind))
        })
    }

    fn date(&self, read: &str) -> Result<i32> {
        let date = Date32Type::parse(read);
        let date =
            date.ok_or_else(|| self.refused(&format!("'{read}'"), "a date", "VARCHAR, …) STORED AS CSV"))?;
        // Longer texts are times, but for a year of more than four digits, which begins with its sign.
        if read.len() > "2024-01-05".len() && !read.starts_with(['+', '-']) {
            let time = string_to_datetime(&"+00:00".parse::<Tz>()?, read)?;
            let seconds = time.timestamp().rem_euclid(SECONDS_IN_DAY);
            if (seconds, time.timestamp_subsec_nanos()) != (0, 0) {
                let written = time.naive_utc().to_string();
                return Err(self.refused(&written, "a date", "TIMESTAMP, …) STORED AS CSV"));
            }
        }
        Ok(date)
    }

    fn refused(&self, written: &str, first: &str, declared: &str) -> DataFusionError {
        let what = format!("'{}' is {written} in one record, and {first} in the first", self.of);
        let hint = format!(
            "read_csv('file', sample_size = -1) or read_json looks at all records first; or say what it is: CREATE EXTERNAL TABLE t (\"{}\" {declared} …",
            self.of
        );
        Error::new(ErrorKind::Invalid, what).with_hint(hint).into()
    }
}

impl ScalarUDFImpl for Exact {
    fn name(&self) -> &str {
        "exact"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let [read] = take_function_args(self.name(), args.arg_fields)?;
        Ok(Arc::new(Field::new(&self.of, self.to.clone(), read.is_nullable())))
    }

    /// Beside the scan: DataFusion would hand rows out to threads for the sake of an expression that is worth it, and they would come in
    /// another order than the file has.
    fn placement(&self, _: &[ExpressionPlacement]) -> ExpressionPlacement {
        ExpressionPlacement::MoveTowardsLeafNodes
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let [read] = take_function_args(self.name(), arguments.args)?;
        let read = read.into_array(rows)?;
        let texts = || read.as_string::<i32>().iter();
        let exact: ArrayRef = match (read.data_type(), &self.to) {
            (DataType::Utf8, DataType::Date32) => {
                let dates = texts().map(|read| read.map(|read| self.date(read)).transpose());
                Arc::new(dates.collect::<Result<Date32Array>>()?)
            }
            (DataType::Utf8, _) => {
                let numbers = texts().map(|read| read.map(|read| self.number_of_text(read)).transpose());
                Arc::new(numbers.collect::<Result<Int64Array>>()?)
            }
            _ => {
                let read = read.as_primitive::<Decimal128Type>();
                let numbers: Int64Array = read.try_unary(|read| self.number(read))?;
                Arc::new(numbers)
            }
        };
        Ok(ColumnarValue::Array(exact))
    }
}
