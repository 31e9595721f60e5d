//! The functions that read texts by Spark's patterns: `spark_parse_time(text, pattern)`, and `spark_try_parse_time`, which is null where
//! the other one is an error.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, AsArray, TimestampMicrosecondArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::Result;
use datafusion::common::utils::take_function_args;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use yeoul_base::ErrorKind;

use super::date_format::Pattern;
use super::date_parse::time_of;
use super::interval_span::as_given;
use crate::Error;

/// Texts as timestamps by a pattern; null for those that it does not fit.
///
/// # Errors
/// Those of the pattern.
pub(crate) fn read_times<'a>(
    texts: impl Iterator<Item = Option<&'a str>>,
    pattern: &str,
) -> crate::Result<ArrayRef> {
    let pattern = Pattern::of_parsing(pattern)?;
    let times = texts.map(|text| text.map_or(Ok(None), |text| micros_of(text, &pattern)));
    Ok(Arc::new(times.collect::<crate::Result<TimestampMicrosecondArray>>()?))
}

/// Microseconds of the time of a text by a pattern; `None` if it has none.
///
/// # Errors
/// `Invalid` for a text that may have a zone: a wall clock has none.
fn micros_of(text: &str, pattern: &Pattern) -> crate::Result<Option<i64>> {
    match time_of(text, pattern) {
        None if pattern.has_zone() => {
            let error =
                Error::new(ErrorKind::Invalid, format!("not supported: '{text}' by a pattern with a zone"));
            Err(error.with_hint("leave the zone out: a TIMESTAMP is a wall clock"))
        }
        time => Ok(time.map(|time| time.and_utc().timestamp_micros())),
    }
}

/// A function of a text and a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ParseByPattern {
    /// A text that the pattern does not fit is an error.
    OrFail,
    /// It is null.
    OrNull,
}

impl ParseByPattern {
    /// All of these functions.
    pub(crate) fn all() -> [Arc<ScalarUDF>; 2] {
        [Self::OrFail, Self::OrNull].map(|function| Arc::new(function.into()))
    }
}

impl ScalarUDFImpl for ParseByPattern {
    fn name(&self) -> &str {
        match self {
            Self::OrFail => "spark_parse_time",
            Self::OrNull => "spark_try_parse_time",
        }
    }

    fn signature(&self) -> &Signature {
        static OF_TWO: LazyLock<Signature> = LazyLock::new(|| Signature::any(2, Volatility::Immutable));
        &OF_TWO
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let is_text = |kind: &DataType| kind.is_string() || kind.is_null();
        if arguments.iter().all(is_text) {
            return Ok(DataType::Timestamp(TimeUnit::Microsecond, None));
        }
        let error = Error::new(ErrorKind::Invalid, "not supported: a pattern beside what is no text");
        Err(error.with_hint("leave the pattern out").into())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = arguments.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { arguments.number_rows };
        let [texts, patterns] = take_function_args(self.name(), arguments.args)?;
        let [texts, patterns] = [texts.into_array(rows)?, patterns.into_array(rows)?];
        let [texts, patterns] = [cast(&texts, &DataType::Utf8)?, cast(&patterns, &DataType::Utf8)?];
        let mut parsed: Option<(&str, Pattern)> = None;
        let mut times = Vec::with_capacity(rows);
        for (text, pattern) in texts.as_string::<i32>().iter().zip(patterns.as_string::<i32>()) {
            let (Some(text), Some(pattern)) = (text, pattern) else {
                times.push(None);
                continue;
            };
            let known = match &parsed {
                Some((of, known)) if *of == pattern => known,
                _ => &parsed.insert((pattern, Pattern::of_parsing(pattern)?)).1,
            };
            let time = micros_of(text, known)?;
            if time.is_none() && *self == Self::OrFail {
                let what = format!("'{text}' is no time by the pattern '{pattern}'");
                let hint = "try_to_timestamp(text, pattern) is null there";
                return Err(Error::new(ErrorKind::Invalid, what).with_hint(hint).into());
            }
            times.push(time);
        }
        as_given(Arc::new(times.into_iter().collect::<TimestampMicrosecondArray>()), is_scalar)
    }
}
