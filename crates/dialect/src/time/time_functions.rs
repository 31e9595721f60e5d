use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, TimestampMicrosecondArray};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Field, FieldRef, TimeUnit, TimestampNanosecondType,
};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature,
};
use yeoul_base::ErrorKind;

use super::time_bins::{binned, truncated};
use super::time_casts::TimeCast;
use crate::Error;

/// Functions of times in microseconds, as those of Spark, PostgreSQL and DuckDB are. DataFusion's compute in nanoseconds, which end in the
/// years 1677 and 2262: outside of them `date_bin` is null, `date_trunc` an error, and `to_timestamp` the last that there is.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct TimeFunction {
    inner: Arc<ScalarUDF>,
    kind: Kind,
    signature: Signature,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Now,
    /// Numbers are seconds since 1970, whatever the session's zone.
    ToTimestamp,
    DateTrunc,
    DateBin,
}

/// Puts these functions in place of DataFusion's.
///
/// # Errors
/// Those of the registry.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    for (name, kind) in [
        ("now", Kind::Now),
        ("to_timestamp", Kind::ToTimestamp),
        ("date_trunc", Kind::DateTrunc),
        ("date_bin", Kind::DateBin),
    ] {
        // Those of a zone know it once the session's settings are read again.
        let inner = state.udf(name)?;
        let inner = inner.inner().with_updated_config(state.config_options()).map_or(inner, Arc::new);
        state.register_udf(Arc::new(TimeFunction::new(inner, kind).into()))?;
    }
    Ok(())
}

impl TimeFunction {
    fn new(inner: Arc<ScalarUDF>, kind: Kind) -> Self {
        let signature = match kind {
            Kind::DateTrunc | Kind::DateBin => Signature::user_defined(inner.signature().volatility),
            _ => inner.signature().clone(),
        };
        Self { inner, kind, signature }
    }

    fn in_microseconds(&self, kind: &DataType) -> DataType {
        match (self.kind, kind) {
            (Kind::Now | Kind::ToTimestamp, DataType::Timestamp(_, zone)) => {
                DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
            }
            (_, kind) => kind.clone(),
        }
    }

    fn to_timestamp(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let to = arguments.return_type().clone();
        let DataType::Timestamp(_, zone) = &to else { unreachable!("what it returns is a timestamp") };
        let of = arguments.args.first().map(ColumnarValue::data_type);
        match of {
            Some(of) if of.is_numeric() => each(&arguments.args[0], |numbers| {
                // What does not fit is an error, and not null.
                let options = CastOptions { safe: false, ..CastOptions::default() };
                let microseconds = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 6);
                let numbers = cast_with_options(numbers, &microseconds, &options)?;
                let times: TimestampMicrosecondArray =
                    numbers.as_primitive::<Decimal128Type>().try_unary(|number| {
                        i64::try_from(number).map_err(|_| out_of_range(&format!("{number} µs since 1970")))
                    })?;
                Ok(Arc::new(times.with_timezone_opt(zone.clone())))
            }),
            Some(DataType::Timestamp(..)) => arguments.args[0].cast_to(&to, None),
            Some(text) if text.is_string() && arguments.args.len() == 1 => {
                match TimeCast::between(&text, &to, false) {
                    Some(cast) => each(&arguments.args[0], |texts| cast.run(texts)),
                    None => unreachable!("texts have a cast of ours"),
                }
            }
            _ => each(&self.inner.invoke_with_args(arguments)?, |times| {
                let times = times.as_primitive::<TimestampNanosecondType>();
                let times: TimestampMicrosecondArray = times.unary(|time| time.div_euclid(1000));
                Ok(Arc::new(times.with_timezone_opt(zone.clone())))
            }),
        }
    }
}

impl ScalarUDFImpl for TimeFunction {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let kinds = kinds.iter().enumerate().map(|(place, kind)| {
            let kind = match kind {
                DataType::Date32 | DataType::Date64 => DataType::Timestamp(TimeUnit::Microsecond, None),
                text if place > 0 && (text.is_string() || text.is_null()) => {
                    DataType::Timestamp(TimeUnit::Microsecond, None)
                }
                kind => kind.clone(),
            };
            match kind {
                // The origin of bins has nanoseconds, whatever the times have.
                DataType::Timestamp(_, zone) if place == 2 => DataType::Timestamp(TimeUnit::Nanosecond, zone),
                kind => kind,
            }
        });
        let fields: Vec<FieldRef> =
            kinds.map(|kind| Arc::new(Field::new("", kind, true)) as FieldRef).collect();
        let fields = fields_with_udf(&fields, self.inner.as_ref())?;
        Ok(fields.iter().map(|field| field.data_type().clone()).collect())
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        Ok(self.in_microseconds(&self.inner.return_type(kinds)?))
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let field = self.inner.return_field_from_args(arguments)?;
        let kind = self.in_microseconds(field.data_type());
        Ok(Arc::new(Arc::unwrap_or_clone(field).with_data_type(kind)))
    }

    fn with_updated_config(&self, settings: &ConfigOptions) -> Option<ScalarUDF> {
        let inner = self.inner.inner().with_updated_config(settings)?;
        Some(Self::new(Arc::new(inner), self.kind).into())
    }

    fn simplify(&self, arguments: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(match self.inner.inner().simplify(arguments, context)? {
            ExprSimplifyResult::Simplified(Expr::Literal(
                ScalarValue::TimestampNanosecond(time, zone),
                metadata,
            )) if self.kind == Kind::Now => {
                let time = time.map(|time| time.div_euclid(1000));
                let time = ScalarValue::TimestampMicrosecond(time, zone);
                ExprSimplifyResult::Simplified(Expr::Literal(time, metadata))
            }
            other => other,
        })
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match self.kind {
            Kind::Now => self.inner.invoke_with_args(arguments),
            Kind::ToTimestamp => self.to_timestamp(arguments),
            Kind::DateTrunc => truncated(arguments, &self.inner),
            Kind::DateBin => binned(arguments, &self.inner),
        }
    }

    fn is_strict(&self) -> bool {
        self.inner.is_strict()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// An array's function of a value, which may be one for all rows.
pub(super) fn each(
    value: &ColumnarValue,
    function: impl Fn(&ArrayRef) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    Ok(match value {
        ColumnarValue::Array(array) => ColumnarValue::Array(function(array)?),
        ColumnarValue::Scalar(scalar) => {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&function(&scalar.to_array()?)?, 0)?)
        }
    })
}

/// The error for a time that a TIMESTAMP cannot hold.
pub(super) fn out_of_range(what: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("{what} is beyond the times of a TIMESTAMP"))
}
