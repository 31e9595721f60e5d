//! The functions `strftime`, `strptime` and `try_strptime`, as in DuckDB.

use std::sync::{Arc, LazyLock};

use chrono::{NaiveDateTime, Offset, TimeZone};
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, ListArray, StringArray, StringBuilder, TimestampMicrosecondArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit, TimestampMicrosecondType};
use datafusion::arrow::temporal_conversions::as_datetime;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_DATETIME;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use serde::{Deserialize, Serialize};
use yeoul_base::ErrorKind;

use super::interval_span::as_given;
use super::strftime::{Local, TimePattern};
use crate::Error;
use crate::signatures::USER_DEFINED;

static FORMAT: LazyLock<Documentation> = LazyLock::new(|| {
    let text = "Text of a date or time by a pattern such as '%Y-%m-%d %H:%M:%S'.";
    Documentation::builder(DOC_SECTION_DATETIME, text, "strftime(t, pattern)").build()
});

static PARSE: LazyLock<Documentation> = LazyLock::new(|| {
    let text = "Timestamp of a text by a pattern such as '%Y-%m-%d %H:%M:%S', or by the first of a list that fits. A pattern with %z makes it one with a zone.";
    Documentation::builder(DOC_SECTION_DATETIME, text, "strptime(text, pattern)").build()
});

static TRY_PARSE: LazyLock<Documentation> = LazyLock::new(|| {
    let text = "As strptime, and null where that is an error of the text.";
    Documentation::builder(DOC_SECTION_DATETIME, text, "try_strptime(text, pattern)").build()
});

/// Adds these functions.
///
/// # Errors
/// Those of the registry.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    let settings = state.config_options();
    let functions: [ScalarUDF; 3] =
        [FormatTime.into(), ParseTime::new(settings, false).into(), ParseTime::new(settings, true).into()];
    for function in functions {
        state.register_udf(Arc::new(function))?;
    }
    Ok(())
}

/// `strftime`. The pattern may be the first argument.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FormatTime;

impl ScalarUDFImpl for FormatTime {
    fn name(&self) -> &str {
        "strftime"
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let time = |kind: &DataType| match kind {
            DataType::Timestamp(_, zone) => Some(DataType::Timestamp(TimeUnit::Microsecond, zone.clone())),
            DataType::Date32 | DataType::Date64 | DataType::Null => {
                Some(DataType::Timestamp(TimeUnit::Microsecond, None))
            }
            _ => None,
        };
        let is_text = |kind: &DataType| kind.is_string() || kind.is_null();
        if let [first, second] = kinds {
            if let (Some(time), true) = (time(first), is_text(second)) {
                return Ok(vec![time, DataType::Utf8]);
            }
            if let (true, Some(time)) = (is_text(first), time(second)) {
                return Ok(vec![DataType::Utf8, time]);
            }
        }
        plan_err!("strftime takes a date or timestamp, and a pattern: cast a text to TIMESTAMP first")
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (arrays, is_scalar) = arrays_of(&arguments)?;
        let place = usize::from(arrays[0].data_type().is_string());
        let texts = formatted(&arrays[place], arrays[1 - place].as_string())?;
        as_given(texts, is_scalar)
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&FORMAT)
    }
}

fn arrays_of(arguments: &ScalarFunctionArgs) -> Result<(Vec<ArrayRef>, bool)> {
    let is_scalar = arguments.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
    let rows = if is_scalar { 1 } else { arguments.number_rows };
    let arrays = arguments.args.iter().map(|value| value.to_array(rows)).collect::<Result<_>>()?;
    Ok((arrays, is_scalar))
}

fn formatted(times: &ArrayRef, patterns: &StringArray) -> Result<ArrayRef> {
    let times = times.as_primitive::<TimestampMicrosecondType>();
    let name = times.timezone().unwrap_or("");
    let zone = times.timezone().map(str::parse::<Tz>).transpose()?;
    let mut parsed: Option<(&str, TimePattern)> = None;
    let mut text = String::new();
    let mut texts = StringBuilder::with_capacity(times.len(), times.len() * 16);
    for (time, pattern) in times.iter().zip(patterns) {
        let (Some(number), Some(pattern)) = (time, pattern) else {
            texts.append_null();
            continue;
        };
        let local = as_datetime::<TimestampMicrosecondType>(number).and_then(|utc| {
            let offset = zone.map(|zone| zone.offset_from_utc_datetime(&utc).fix());
            match offset {
                Some(offset) => Some((utc.checked_add_offset(offset)?, offset.local_minus_utc())),
                None => Some((utc, 0)),
            }
        });
        let (time, offset) = local.ok_or_else(|| {
            let text = format!("a timestamp of {number} microseconds is out of the calendar's range");
            Error::new(ErrorKind::Invalid, text)
        })?;
        let parsed = match &parsed {
            Some((of, known)) if *of == pattern => known,
            _ => &parsed.insert((pattern, TimePattern::parse(pattern)?)).1,
        };
        text.clear();
        parsed.write(&mut text, Local { time, offset, zone: name });
        texts.append_value(&text);
    }
    Ok(Arc::new(texts.finish()))
}

/// `strptime` and `try_strptime`. A pattern that has an offset has to be a constant, since the type follows from it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct ParseTime {
    /// The session's zone, of the timestamps with a zone that it makes.
    zone: String,
    is_try: bool,
}

impl ParseTime {
    /// The function of a session with these settings; `is_try` gives null for a text that is no time.
    pub(crate) fn new(settings: &ConfigOptions, is_try: bool) -> Self {
        Self { zone: settings.execution.time_zone.as_deref().unwrap_or("UTC").into(), is_try }
    }

    fn parsed(&self, texts: &StringArray, patterns: &Patterns<'_>, to: &DataType) -> Result<ArrayRef> {
        let DataType::Timestamp(_, zone) = to else { unreachable!("what it returns is a timestamp") };
        let mut last: Option<(Vec<&str>, Vec<TimePattern>)> = None;
        let mut times = TimestampMicrosecondArray::builder(texts.len());
        for row in 0..texts.len() {
            let Some(written) = patterns.of_row(row).filter(|_| texts.is_valid(row)) else {
                times.append_null();
                continue;
            };
            let known = match last.take() {
                Some((of, known)) if of == written => known,
                _ => {
                    written.iter().map(|pattern| readable(pattern, zone.is_some())).collect::<Result<_>>()?
                }
            };
            let text = texts.value(row);
            match known.iter().find_map(|pattern| pattern.read(text)) {
                Some(parsed) => times.append_value(microseconds(parsed.time, parsed.offset.unwrap_or(0))),
                None if self.is_try => times.append_null(),
                None => {
                    let text = format!("'{text}' is no time of the pattern '{}'", written.join("' or '"));
                    let hint = "try_strptime is null for such a text";
                    return Err(Error::new(ErrorKind::Invalid, text).with_hint(hint).into());
                }
            }
            last = Some((written, known));
        }
        Ok(Arc::new(times.finish().with_timezone_opt(zone.clone())))
    }
}

/// A pattern by which texts can be read to timestamps that have a zone, or none.
fn readable(pattern: &str, with_zone: bool) -> Result<TimePattern> {
    let parsed = TimePattern::parse(pattern)?;
    parsed.check_readable()?;
    if parsed.has_offset() && !with_zone {
        let text =
            format!("not supported: strptime with %z in the pattern '{pattern}', which is no constant");
        let hint = "write the pattern, or the list of patterns, into the statement";
        return Err(Error::new(ErrorKind::Invalid, text).with_hint(hint).into());
    }
    if with_zone && !parsed.has_offset() {
        let text = "strptime with a list of patterns of which some have %z and some not";
        return Err(Error::new(ErrorKind::Invalid, text).with_hint("coalesce(try_strptime(…), …)").into());
    }
    Ok(parsed)
}

fn microseconds(local: NaiveDateTime, offset: i32) -> i64 {
    // Years have four digits at most.
    local.and_utc().timestamp_micros() - i64::from(offset) * 1_000_000
}

/// The patterns of each row.
enum Patterns<'a> {
    One(&'a StringArray),
    Lists(&'a ListArray, &'a StringArray),
}

impl<'a> Patterns<'a> {
    fn of(array: &'a ArrayRef) -> Self {
        match array.as_list_opt::<i32>() {
            Some(lists) => Self::Lists(lists, lists.values().as_string()),
            None => Self::One(array.as_string()),
        }
    }

    /// Those of a row; `None` for a null, or a list with one.
    fn of_row(&self, row: usize) -> Option<Vec<&'a str>> {
        match self {
            Self::One(patterns) => patterns.is_valid(row).then(|| vec![patterns.value(row)]),
            Self::Lists(lists, patterns) => {
                let offsets = lists.value_offsets();
                let range = offsets[row] as usize..offsets[row + 1] as usize;
                let of_list = range.map(|at| patterns.is_valid(at).then(|| patterns.value(at)));
                of_list.collect::<Option<Vec<_>>>().filter(|_| lists.is_valid(row))
            }
        }
    }
}

impl ScalarUDFImpl for ParseTime {
    fn name(&self) -> &str {
        if self.is_try { "try_strptime" } else { "strptime" }
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn with_updated_config(&self, settings: &ConfigOptions) -> Option<ScalarUDF> {
        Some(Self::new(settings, self.is_try).into())
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        match kinds {
            [text, pattern] if text.is_string() || text.is_null() => match pattern {
                pattern if pattern.is_string() || pattern.is_null() => Ok(vec![DataType::Utf8; 2]),
                DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
                    let element = Field::new_list_field(DataType::Utf8, true);
                    Ok(vec![DataType::Utf8, DataType::List(Arc::new(element))])
                }
                other => plan_err!("{} takes a pattern, or a list of patterns, not a {other}", self.name()),
            },
            _ => plan_err!("{} takes a text and a pattern, such as '%Y-%m-%d'", self.name()),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        plan_err!("the type of {} follows from its pattern", self.name())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let pattern = arguments.scalar_arguments.get(1).copied().flatten();
        let has_offset = match pattern {
            Some(ScalarValue::List(list)) if list.is_valid(0) => {
                let patterns = cast(&list.value(0), &DataType::Utf8)?;
                let first = patterns.as_string::<i32>().iter().flatten().next().map(TimePattern::parse);
                first.transpose()?.is_some_and(|pattern| pattern.has_offset())
            }
            Some(pattern) => match pattern.try_as_str().flatten() {
                Some(pattern) => TimePattern::parse(pattern)?.has_offset(),
                None => false,
            },
            None => false,
        };
        let zone = has_offset.then(|| Arc::from(self.zone.as_str()));
        Ok(Arc::new(Field::new(self.name(), DataType::Timestamp(TimeUnit::Microsecond, zone), true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (arrays, is_scalar) = arrays_of(&arguments)?;
        let times = self.parsed(arrays[0].as_string(), &Patterns::of(&arrays[1]), arguments.return_type())?;
        as_given(times, is_scalar)
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(if self.is_try { &TRY_PARSE } else { &PARSE })
    }
}
