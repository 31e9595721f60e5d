//! Functions that make large values of small ones, and ask for the memory before they do.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, FieldRef, Int64Type, IntervalMonthDayNanoType, TimeUnit, TimestampNanosecondType,
};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use yeoul_base::{ByteSize, ErrorKind};
use yeoul_dialect::error::Shortage;
use yeoul_memory::ProcessMemory;

use crate::Error;
use crate::answer::room_hint;

/// The functions, and how large their values are.
const MEASURED: [(&str, Measure); 18] = [
    ("repeat", Measure::Repeated),
    ("lpad", Measure::Padded),
    ("rpad", Measure::Padded),
    ("range", Measure::Series),
    ("generate_series", Measure::Series),
    ("array_repeat", Measure::ListOfOne),
    ("array_resize", Measure::Resized),
    ("replace", Measure::Replaced),
    ("concat", Measure::Joined),
    ("concat_ws", Measure::Joined),
    ("json_extract", Measure::Joined),
    ("json_extract_string", Measure::Joined),
    ("get_json_object", Measure::Joined),
    ("split", Measure::Joined),
    ("string_split_regex", Measure::Joined),
    ("printf", Measure::Written),
    ("format_string", Measure::Written),
    ("format", Measure::Written),
];

/// What is asked for less is not worth a look at the process.
const ASKED_BYTES_MIN: u64 = 1 << 20;

/// A text is copied once while its builder grows.
const COPIES: u64 = 2;

/// Nanoseconds of the shortest month, for series of times by months.
const MONTH_NS: i128 = 28 * DAY_NS;
const DAY_NS: i128 = 86_400_000_000_000;

/// The way in which the size of a function's values follows from its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Measure {
    /// A text so many times.
    Repeated,
    /// A text, filled up to so many letters.
    Padded,
    /// Numbers or times from one to another.
    Series,
    /// A value so many times.
    ListOfOne,
    /// A list of so many items.
    Resized,
    /// A text in which another one takes the place of a third.
    Replaced,
    /// Texts one after the other.
    Joined,
    /// A pattern whose fields are the values.
    Written,
}

/// A stock function that asks first.
struct MeasuredFunction {
    stock: Arc<ScalarUDF>,
    measure: Measure,
    process: Arc<ProcessMemory>,
}

/// Puts these functions in place of the stock ones of a session whose process has a memory limit.
///
/// # Errors
/// Those of the registry.
pub(crate) fn register(state: &mut SessionState, process: &Arc<ProcessMemory>) -> Result<()> {
    for (name, measure) in MEASURED {
        let Ok(stock) = state.udf(name) else { continue };
        let process = Arc::clone(process);
        state.register_udf(Arc::new(ScalarUDF::from(MeasuredFunction { stock, measure, process })))?;
    }
    Ok(())
}

/// True if a physical expression has such a function in it.
pub(crate) fn makes_large_values(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let function = expr.downcast_ref::<ScalarFunctionExpr>().map(|call| call.fun().inner());
    function.is_some_and(|function| function.is::<MeasuredFunction>())
        || expr.children().into_iter().any(makes_large_values)
}

/// A function that joins its arguments, and asks first.
pub(super) fn joining(stock: ScalarUDF, process: &Arc<ProcessMemory>) -> ScalarUDF {
    let (stock, process) = (Arc::new(stock), Arc::clone(process));
    ScalarUDF::from(MeasuredFunction { stock, measure: Measure::Joined, process })
}

impl Measure {
    /// The bytes of all values, at most; 0 where nobody can tell.
    fn bytes(self, args: &[ColumnarValue], rows: usize) -> Result<u64> {
        let columns = args.iter().map(|arg| Column::of(arg, rows)).collect::<Result<Vec<_>>>()?;
        let mut total = 0u64;
        match self {
            // No row multiplies another: the sum of the arguments is that of the values.
            Self::Joined => {
                for column in &columns {
                    total = total.saturating_add(column.bytes_of_all(rows));
                }
                return Ok(total);
            }
            // Most calls have constants, of which one row says all.
            _ if columns.iter().all(|column| column.is_constant) => {
                return Ok(self.bytes_of_row(&columns, 0)?.saturating_mul(rows.max(1) as u64));
            }
            _ => {}
        }
        for row in 0..rows {
            total = total.saturating_add(self.bytes_of_row(&columns, row)?);
        }
        Ok(total)
    }

    fn bytes_of_row(self, columns: &[Column], row: usize) -> Result<u64> {
        let bytes = |at: usize| columns.get(at).map_or(0, |column| column.bytes(row));
        let count = |at: usize| columns.get(at).map_or(0, |column| column.count(row));
        Ok(match self {
            Self::Repeated => bytes(0).saturating_mul(count(1)),
            Self::Padded => {
                let width = if columns.get(2).is_none_or(|fill| fill.is_ascii(row)) { 1 } else { 4 };
                bytes(0).saturating_add(count(1).saturating_mul(width))
            }
            Self::Series => series_items(columns, row).saturating_mul(8),
            Self::ListOfOne => bytes(0).max(1).saturating_mul(count(1)),
            Self::Resized => bytes(2).max(8).saturating_mul(count(1)),
            Self::Replaced if bytes(2) > bytes(1) => {
                let places = bytes(0) / bytes(1).max(1) + 1;
                bytes(0).saturating_add(places.saturating_mul(bytes(2)))
            }
            Self::Replaced => bytes(0),
            Self::Joined => 0,
            Self::Written => {
                let values = (1..columns.len()).map(bytes).fold(0, u64::saturating_add);
                let fields = columns.first().map_or(0, |pattern| pattern.fields(row));
                bytes(0).saturating_add(values.saturating_mul(fields))
            }
        })
    }
}

/// The number of items of a series from one end to the other.
fn series_items(columns: &[Column], row: usize) -> u64 {
    let Some(first) = columns.first() else { return 0 };
    let (start, stop, step) = match columns.len() {
        1 => (Some(0), first.number(row), Some(1)),
        2 => (first.number(row), columns[1].number(row), Some(if first.is_time() { DAY_NS } else { 1 })),
        _ => (first.number(row), columns[1].number(row), columns[2].number(row)),
    };
    match (start, stop, step) {
        (Some(start), Some(stop), Some(step)) if step != 0 => {
            let items = (stop - start) / step;
            if items < 0 { 0 } else { u64::try_from(items).unwrap_or(u64::MAX).saturating_add(1) }
        }
        _ => 0,
    }
}

/// An argument.
struct Column {
    values: ArrayRef,
    is_constant: bool,
}

impl Column {
    fn of(arg: &ColumnarValue, rows: usize) -> Result<Self> {
        let is_constant = matches!(arg, ColumnarValue::Scalar(_));
        let values = arg.to_array(if is_constant { 1 } else { rows })?;
        let wide = match values.data_type() {
            DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => {
                DataType::Timestamp(TimeUnit::Nanosecond, None)
            }
            DataType::Interval(_) => {
                DataType::Interval(datafusion::arrow::datatypes::IntervalUnit::MonthDayNano)
            }
            other if other.is_integer() => DataType::Int64,
            _ => return Ok(Self { values, is_constant }),
        };
        Ok(Self { values: cast(&values, &wide)?, is_constant })
    }

    fn place(&self, row: usize) -> Option<usize> {
        let row = if self.is_constant { 0 } else { row };
        (row < self.values.len() && self.values.is_valid(row)).then_some(row)
    }

    fn bytes(&self, row: usize) -> u64 {
        let Some(row) = self.place(row) else { return 0 };
        let bytes = match self.values.data_type() {
            DataType::Utf8 => self.values.as_string::<i32>().value_length(row) as usize,
            DataType::LargeUtf8 => self.values.as_string::<i64>().value_length(row) as usize,
            DataType::Utf8View => self.values.as_string_view().value(row).len(),
            other => match other.primitive_width() {
                Some(width) => width,
                None => self.values.get_array_memory_size() / self.values.len().max(1),
            },
        };
        bytes as u64
    }

    fn bytes_of_all(&self, rows: usize) -> u64 {
        if self.is_constant {
            return self.bytes(0).saturating_mul(rows as u64);
        }
        (0..self.values.len()).map(|row| self.bytes(row)).fold(0, u64::saturating_add)
    }

    fn count(&self, row: usize) -> u64 {
        self.number(row).map_or(0, |number| u64::try_from(number).unwrap_or(0))
    }

    fn is_time(&self) -> bool {
        matches!(self.values.data_type(), DataType::Timestamp(..))
    }

    /// A number, a time in nanoseconds, or the length of an interval, of which the months are short.
    fn number(&self, row: usize) -> Option<i128> {
        let row = self.place(row)?;
        match self.values.data_type() {
            DataType::Int64 => Some(self.values.as_primitive::<Int64Type>().value(row).into()),
            DataType::Timestamp(..) => {
                Some(self.values.as_primitive::<TimestampNanosecondType>().value(row).into())
            }
            DataType::Interval(_) => {
                let span = self.values.as_primitive::<IntervalMonthDayNanoType>().value(row);
                let days = i128::from(span.months) * MONTH_NS + i128::from(span.days) * DAY_NS;
                Some(days + i128::from(span.nanoseconds))
            }
            _ => None,
        }
    }

    /// Fields of a pattern, at most: each begins with one of these letters, and may write the same value again.
    fn fields(&self, row: usize) -> u64 {
        let pattern = match (self.place(row), self.values.data_type()) {
            (Some(row), DataType::Utf8) => self.values.as_string::<i32>().value(row),
            (Some(row), DataType::Utf8View) => self.values.as_string_view().value(row),
            _ => return 0,
        };
        pattern.matches(['%', '{']).count() as u64
    }

    fn is_ascii(&self, row: usize) -> bool {
        let Some(row) = self.place(row) else { return true };
        match self.values.data_type() {
            DataType::Utf8 => self.values.as_string::<i32>().value(row).is_ascii(),
            DataType::Utf8View => self.values.as_string_view().value(row).is_ascii(),
            _ => false,
        }
    }
}

impl MeasuredFunction {
    fn refused(&self, bytes: u64, free: usize) -> DataFusionError {
        let size = ByteSize::from_bytes;
        let what = format!(
            "the values that {} makes need up to {}, and the process has {} left under its limit",
            self.stock.name(),
            size(bytes),
            size(free as u64)
        );
        let asked = usize::try_from(bytes.saturating_mul(COPIES)).unwrap_or(usize::MAX);
        let error = Error::new(ErrorKind::ResourceExhausted, what).with_shortage(Shortage::Memory);
        error.with_hint(room_hint(&self.process, asked)).into()
    }
}

impl fmt::Debug for MeasuredFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MeasuredFunction").field(&self.stock).finish()
    }
}

/// Two of one session are the same function if what they stand for is.
impl PartialEq for MeasuredFunction {
    fn eq(&self, other: &Self) -> bool {
        self.stock == other.stock
    }
}

impl Eq for MeasuredFunction {}

impl Hash for MeasuredFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.stock.hash(state);
    }
}

impl ScalarUDFImpl for MeasuredFunction {
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let bytes = self.measure.bytes(&args.args, rows)?;
        if bytes < ASKED_BYTES_MIN {
            return self.stock.inner().invoke_with_args(args);
        }
        let asked = usize::try_from(bytes.saturating_mul(COPIES)).unwrap_or(usize::MAX);
        let _claim = self.process.claim(asked).map_err(|free| self.refused(bytes, free))?;
        self.stock.inner().invoke_with_args(args)
    }

    fn name(&self) -> &str {
        self.stock.name()
    }

    fn aliases(&self) -> &[String] {
        self.stock.aliases()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.stock.inner().schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.stock.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.stock.inner().return_type(types)
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let stock = Arc::new(self.stock.inner().with_updated_config(config)?);
        Some(Self { stock, measure: self.measure, process: Arc::clone(&self.process) }.into())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.stock.inner().return_field_from_args(args)
    }

    fn is_strict(&self) -> bool {
        self.stock.inner().is_strict()
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.stock.inner().simplify(args, info)
    }

    fn short_circuits(&self) -> bool {
        self.stock.inner().short_circuits()
    }

    fn evaluate_bounds(&self, input: &[&Interval]) -> Result<Interval> {
        self.stock.inner().evaluate_bounds(input)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.stock.inner().output_ordering(inputs)
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.stock.inner().preserves_lex_ordering(inputs)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.stock.inner().coerce_types(types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.stock.inner().documentation()
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        self.stock.inner().placement(args)
    }
}
