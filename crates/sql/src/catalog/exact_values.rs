//! Values that a reader would truncate to the type inferred for their column from the first records, or would not read. The column is read
//! as a wider type, and a value that would lose something is refused: the fraction of a JSON number, the time of day of a timestamp in a
//! CSV column of dates, its offset from UTC in one of timestamps without, the leading zeros of a number in a CSV column of numbers. Blanks
//! around a number or a time do not count. A date may be written in each way that arrow reads, such as 2024-1-5.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::DateTime;
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, Int64Array, PrimitiveArray};
use datafusion::arrow::compute::kernels::cast_utils::{Parser, string_to_datetime};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DecimalType, Field, FieldRef, Fields, Float64Type, Int64Type,
    Schema, SchemaRef, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
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

use super::csv_types::{INTEGER_DIGITS, has_leading_zero, has_zone, without_blanks};
use crate::Error;

/// Digits after the decimal point; before it there is room for any 64-bit number.
const SCALE: i8 = 18;

/// The wider type as which files of this format are read for a column inferred as `told`; `None` if it is read as it is.
fn read_as(format: &str, told: &DataType) -> Option<DataType> {
    match (format, told) {
        ("json", DataType::Int64) => Some(DataType::Decimal128(38, SCALE)),
        (
            "csv",
            DataType::Date32
            | DataType::Int64
            | DataType::Float64
            | DataType::Decimal128(INTEGER_DIGITS, 0)
            | DataType::Time64(TimeUnit::Microsecond)
            | DataType::Timestamp(..),
        ) => Some(DataType::Utf8),
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

    /// Values of texts, of which `parse` reads one without the blanks around it.
    fn of_texts<T: ArrowPrimitiveType>(
        &self,
        texts: &ArrayRef,
        parse: impl Fn(&str) -> Result<T::Native>,
    ) -> Result<PrimitiveArray<T>> {
        let texts = texts.as_string::<i32>().iter();
        texts.map(|text| text.map(|text| parse(without_blanks(text))).transpose()).collect()
    }

    /// The value that a text was parsed to; refuses one that is none.
    fn parsed<V>(&self, parsed: Option<V>, read: &str, first: &str) -> Result<V> {
        parsed.ok_or_else(|| {
            let declared = if read.parse().is_ok_and(f64::is_finite) { "DOUBLE" } else { "VARCHAR" };
            self.refused_text(read, first, declared)
        })
    }

    fn refused_text(&self, read: &str, first: &str, declared: &str) -> DataFusionError {
        self.refused(&format!("'{read}'"), first, &format!("{declared}, …) STORED AS CSV"))
    }

    fn number_of_text<V>(&self, read: &str, parsed: Option<V>, first: &str) -> Result<V> {
        if has_leading_zero(read) {
            return Err(self.refused_text(read, "a number without leading zeros", "VARCHAR"));
        }
        self.parsed(parsed, read, first)
    }

    /// The instant of a text in a column of times with or without a zone.
    fn instant<U>(
        &self,
        read: &str,
        zone: Option<&str>,
        of: impl Fn(DateTime<Tz>) -> Option<U>,
    ) -> Result<U> {
        if zone.is_none() && has_zone(read) {
            return Err(self.refused_text(read, "a time without an offset", "TIMESTAMP WITH TIME ZONE"));
        }
        let instant = string_to_datetime(&zone.unwrap_or("+00:00").parse::<Tz>()?, read).ok();
        self.parsed(instant.and_then(of), read, "a date and a time")
    }

    fn instants(&self, texts: &ArrayRef, unit: TimeUnit, zone: Option<&str>) -> Result<ArrayRef> {
        let zone_of_array = zone.map(Arc::from);
        macro_rules! instants {
            ($type:ty, $of:expr) => {{
                let instants = self.of_texts::<$type>(texts, |read| self.instant(read, zone, $of))?;
                Arc::new(instants.with_timezone_opt::<Arc<str>>(zone_of_array)) as ArrayRef
            }};
        }
        Ok(match unit {
            TimeUnit::Second => instants!(TimestampSecondType, |time| Some(time.timestamp())),
            TimeUnit::Millisecond => {
                instants!(TimestampMillisecondType, |time| Some(time.timestamp_millis()))
            }
            TimeUnit::Microsecond => {
                instants!(TimestampMicrosecondType, |time| Some(time.timestamp_micros()))
            }
            TimeUnit::Nanosecond => instants!(TimestampNanosecondType, |time| time.timestamp_nanos_opt()),
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
        let exact: ArrayRef = match (read.data_type(), &self.to) {
            (DataType::Utf8, DataType::Date32) => {
                Arc::new(self.of_texts::<Date32Type>(&read, |text| self.date(text))?)
            }
            (DataType::Utf8, DataType::Int64) => {
                let number = |text: &str| {
                    self.number_of_text(text, Int64Type::parse(text), "a whole number of 64 bits")
                };
                Arc::new(self.of_texts::<Int64Type>(&read, number)?)
            }
            (DataType::Utf8, DataType::Float64) => {
                let number = |text: &str| {
                    // Of more digits than a double has room for.
                    let is_larger = |number: &f64| {
                        number.is_infinite() && text.contains(|letter: char| letter.is_ascii_digit())
                    };
                    let number = Float64Type::parse(text).filter(|number| !is_larger(number));
                    self.number_of_text(text, number, "a number")
                };
                Arc::new(self.of_texts::<Float64Type>(&read, number)?)
            }
            (DataType::Utf8, DataType::Decimal128(digits, scale)) => {
                let most = 10i128.pow(INTEGER_DIGITS.into());
                let number = |text: &str| {
                    let number = text.parse::<i128>().ok().filter(|number| -most < *number && *number < most);
                    self.number_of_text(text, number, "a whole number of 38 digits")
                };
                let numbers = self.of_texts::<Decimal128Type>(&read, number)?;
                Arc::new(numbers.with_precision_and_scale(*digits, *scale)?)
            }
            (DataType::Utf8, DataType::Time64(_)) => {
                let time =
                    |text: &str| self.parsed(Time64MicrosecondType::parse(text), text, "a time of day");
                Arc::new(self.of_texts::<Time64MicrosecondType>(&read, time)?)
            }
            (DataType::Utf8, DataType::Timestamp(unit, zone)) => {
                self.instants(&read, *unit, zone.as_deref())?
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
