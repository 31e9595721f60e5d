//! Intervals as Spark casts them to texts: `INTERVAL '3-1' YEAR TO MONTH`.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringArray};
use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};
use yeoul_base::ErrorKind;

use super::interval_span::INTERVAL;
use super::interval_units::UNITS;
use crate::Error;
use crate::signatures::USER_DEFINED;
use crate::text::rows::invoke;

/// Name of the function.
pub(crate) const LITERAL: &str = "spark_interval_literal";

/// `spark_interval_literal(interval, first, last)`: the text of an interval with these fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct IntervalLiteral;

impl IntervalLiteral {
    /// The function.
    pub(crate) fn shared() -> Arc<ScalarUDF> {
        Arc::new(Self.into())
    }
}

/// The text of an interval; `None` for fields that it does not have.
fn text_of(interval: IntervalMonthDayNano, first: &str, last: &str) -> Option<String> {
    let place = |name: &str| UNITS.iter().position(|(unit, _, _)| *unit == name);
    let (from, to) = (place(first)?, place(last)?);
    let micros = i128::from(interval.days) * 86_400_000_000 + i128::from(interval.nanoseconds) / 1_000;
    let is_of_months = to <= 1;
    if from > to
        || (from <= 1) != is_of_months
        || (is_of_months && micros != 0)
        || (!is_of_months && interval.months != 0)
    {
        return None;
    }
    let (first, last) = (first.to_uppercase(), last.to_uppercase());
    let fields = if first == last { first } else { format!("{first} TO {last}") };
    let count = if is_of_months { i128::from(interval.months) } else { micros };
    let sign = if count < 0 { "-" } else { "" };
    let mut rest = count.unsigned_abs();
    let mut written = String::new();
    for (at, (unit, months, micros)) in UNITS.iter().enumerate().take(to + 1).skip(from) {
        let length = (if is_of_months { *months } else { *micros }).unsigned_abs();
        let separator = match (at == from, *unit) {
            (true, _) => "",
            (false, "month") => "-",
            (false, "hour") => " ",
            _ => ":",
        };
        let number = rest / length;
        rest %= length;
        written += separator;
        written += &if *unit == "hour" || *unit == "minute" || *unit == "second" {
            format!("{number:02}")
        } else {
            number.to_string()
        };
        if *unit == "second" && rest > 0 {
            written += ".";
            written += format!("{rest:06}").trim_end_matches('0');
        }
    }
    Some(format!("INTERVAL '{sign}{written}' {fields}"))
}

impl ScalarUDFImpl for IntervalLiteral {
    fn name(&self) -> &str {
        LITERAL
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        match kinds {
            [_, first, last] if first.is_string() && last.is_string() => {
                Ok(vec![INTERVAL, DataType::Utf8, DataType::Utf8])
            }
            _ => plan_err!("{LITERAL} takes an interval and two fields"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(&arguments, |arrays| {
            let intervals = arrays[0].as_primitive::<IntervalMonthDayNanoType>();
            let [first, last] = [1, 2].map(|at| arrays[at].as_string::<i32>());
            let row = |row: usize| {
                if intervals.is_null(row) {
                    return Ok(None);
                }
                let text = text_of(intervals.value(row), first.value(row), last.value(row));
                text.map(Some).ok_or_else(|| {
                    let error =
                        Error::new(ErrorKind::Invalid, "not supported: a cast of such an INTERVAL to STRING");
                    error.with_hint("write an interval of months, or one of days and time")
                })
            };
            let texts = (0..intervals.len()).map(row).collect::<Result<StringArray, Error>>()?;
            Ok(Arc::new(texts) as ArrayRef)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers are those of Spark's tests.
    #[test]
    fn an_interval_is_written_with_its_fields() {
        let text = |months, days, nanoseconds: i64, first: &str, last: &str| {
            text_of(IntervalMonthDayNano::new(months, days, nanoseconds), first, last)
        };
        for (found, expected) in [
            (text(37, 0, 0, "year", "month"), Some("INTERVAL '3-1' YEAR TO MONTH")),
            (text(-14, 0, 0, "month", "month"), Some("INTERVAL '-14' MONTH")),
            (text(0, 3, 1_000_000_000, "day", "second"), Some("INTERVAL '3 00:00:01' DAY TO SECOND")),
            (text(0, 0, 1_000_001_000, "second", "second"), Some("INTERVAL '01.000001' SECOND")),
            (
                text(0, 0, 29_470_001_000_000, "hour", "second"),
                Some("INTERVAL '08:11:10.001' HOUR TO SECOND"),
            ),
            (text(1, 1, 0, "year", "month"), None),
        ] {
            assert_eq!(found.as_deref(), expected);
        }
    }
}
