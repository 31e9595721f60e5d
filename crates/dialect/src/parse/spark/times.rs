//! Texts of times.

use datafusion::sql::sqlparser::ast::{Expr, Ident, TypedString, Value, ValueWithSpan};
use yeoul_base::ErrorKind;

use super::calls::filled;
use crate::parse::function_call::function_call;
use crate::{Error, Result};

/// The clock and the zone in the text of a time; `None` if it has no zone.
fn parts_of(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let time = text.find([' ', 'T'])? + 1;
    let zone =
        text[time..].find(|letter: char| letter.is_alphabetic() || matches!(letter, '+' | '-'))? + time;
    let (clock, zone) = text.split_at(zone);
    Some((clock.trim_end(), zone.trim()))
}

/// `TIMESTAMP '… zone'` as the instant that it is, whatever a `TIMESTAMP` without a zone is; `None` if it has none.
pub(super) fn instant(typed: &TypedString) -> Option<Expr> {
    let Value::SingleQuotedString(text) = &typed.value.value else { return None };
    // A zone stands behind the seconds.
    let (clock, zone) = parts_of(text).filter(|(clock, _)| clock.matches(':').count() == 2)?;
    let value = |text: &str| ValueWithSpan {
        value: Value::SingleQuotedString(text.to_owned()),
        span: typed.value.span,
    };
    let data_type = datafusion::sql::sqlparser::ast::DataType::Timestamp(
        None,
        datafusion::sql::sqlparser::ast::TimezoneInfo::None,
    );
    let clock = Expr::TypedString(TypedString { data_type, value: value(clock), ..typed.clone() });
    let zone = function_call(Ident::new("spark_zone"), [Expr::Value(value(zone))]);
    Some(Expr::AtTimeZone { timestamp: Box::new(clock), time_zone: Box::new(zone) })
}

/// `DATE 'today'` and its like as the dates that they are; `None` for others.
pub(super) fn special_date(typed: &TypedString) -> Option<Expr> {
    let Value::SingleQuotedString(text) = &typed.value.value else { return None };
    let date = match text.trim().to_ascii_lowercase().as_str() {
        "epoch" => "CAST('1970-01-01' AS DATE)",
        "now" | "today" => "current_date()",
        "tomorrow" => "current_date() + CAST(1 AS INT)",
        "yesterday" => "current_date() - CAST(1 AS INT)",
        _ => return None,
    };
    Some(filled(date, []))
}

/// Refuses the text of a `TIMESTAMP_NTZ` with a zone.
///
/// # Errors
/// `Invalid` for such a text.
pub(super) fn check_zone(text: &str) -> Result<()> {
    let text = text.trim_matches('\'');
    if parts_of(text).is_none() {
        return Ok(());
    }
    let error =
        Error::new(ErrorKind::Invalid, format!("not supported: a TIMESTAMP_NTZ with a zone, '{text}'"));
    Err(error.with_hint("leave the zone out, or write TIMESTAMP for an instant"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_what_stands_behind_the_clock() {
        for (text, expected) in [
            ("2020-01-01 01:02:03Z", Some(("2020-01-01 01:02:03", "Z"))),
            ("2020-01-01T01:02:03.5 Europe/Paris", Some(("2020-01-01T01:02:03.5", "Europe/Paris"))),
            ("1582-06-01 11:33:33.123UTC+080000", Some(("1582-06-01 11:33:33.123", "UTC+080000"))),
            (" 2020-01-01 01:02-08:00 ", Some(("2020-01-01 01:02", "-08:00"))),
            ("2020-01-01 01:02:03", None),
            ("2020-01-01", None),
        ] {
            assert_eq!(parts_of(text), expected, "{text}");
        }
    }
}
