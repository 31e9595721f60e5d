//! Casts between intervals and numbers or texts: `CAST(INTERVAL '-10-2' YEAR TO MONTH AS INT)` counts months. A value has no fields
//! here, so that an interval must be written out in such a cast.

use datafusion::sql::sqlparser::ast::{
    DataType, DateTimeField, Expr, Ident, Interval, IntervalFields, UnaryOperator, Value, ValueWithSpan,
};
use yeoul_base::ErrorKind;

use super::calls::filled;
use crate::parse::function_call::function_call;
use crate::time::interval_literals::LITERAL;
use crate::time::interval_text;
use crate::time::interval_units::{IntervalUnits, UNITS};
use crate::{Error, Result};

/// What such a cast is; `None` for other casts.
///
/// # Errors
/// `Invalid` for a text that is no such interval.
pub(super) fn of_cast(value: &Expr, to: &DataType) -> Result<Option<Expr>> {
    if let DataType::Interval { fields: Some(fields), .. } = to {
        return of_fields(value, fields).map(Some);
    }
    if matches!(to, DataType::String(_))
        && let (Some(first), Some(last)) = (unit_of(value, true), unit_of(value, false))
    {
        let text = |unit: &str| Expr::value(Value::SingleQuotedString(unit.to_owned()));
        return Ok(Some(function_call(Ident::new(LITERAL), [value.clone(), text(first), text(last)])));
    }
    let is_whole = matches!(
        to,
        DataType::TinyInt(_)
            | DataType::SmallInt(_)
            | DataType::Int(_)
            | DataType::Integer(_)
            | DataType::BigInt(_)
    );
    let is_number = is_whole || matches!(to, DataType::Decimal(_) | DataType::Dec(_) | DataType::Numeric(_));
    let units = unit_of(value, false).filter(|_| is_number);
    Ok(units.map(|last| {
        let count = if is_whole { IntervalUnits::CountWhole } else { IntervalUnits::Count };
        let counted = count.call(value.clone(), last);
        filled(&format!("CAST(x AS {to})"), [("x", counted)])
    }))
}

/// An interval of fields, of a text that is written or of a number of the last field.
fn of_fields(value: &Expr, fields: &IntervalFields) -> Result<Expr> {
    let fields = fields.to_string().to_ascii_lowercase();
    let (first, last) = fields.split_once(" to ").unwrap_or((&fields, &fields));
    let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), span }) = value else {
        let last = UNITS.iter().find(|(name, _, _)| *name == last).map_or("second", |(name, _, _)| name);
        return Ok(IntervalUnits::Of.call(value.clone(), last));
    };
    let inner = text.trim().to_ascii_lowercase();
    let inner = match inner.strip_prefix("interval") {
        Some(rest) => {
            let no_such = || Error::new(ErrorKind::Invalid, format!("'{text}' is no interval of {fields}"));
            let rest = rest.trim().strip_suffix(fields.as_str()).ok_or_else(no_such)?.trim();
            rest.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')).ok_or_else(no_such)?.to_owned()
        }
        None => inner,
    };
    let (is_negative, clock) = match inner.strip_prefix('-') {
        Some(clock) if first != "year" && first != "month" => (true, clock),
        _ => (false, inner.as_str()),
    };
    let spelt = if first == last {
        let digits = clock.trim().strip_prefix('-').unwrap_or(clock.trim());
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
            return Err(Error::new(ErrorKind::Invalid, format!("'{text}' is no interval of {fields}")));
        }
        format!("{} {first}", clock.trim())
    } else {
        interval_text::of_fields(clock, first, last)?
    };
    let spelt = if is_negative { interval_text::negated(&spelt) } else { spelt };
    Ok(Expr::Interval(Interval {
        value: Box::new(Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(spelt), span: *span })),
        leading_field: None,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    }))
}

/// The first or the last unit of an interval that is written; `None` for other values.
fn unit_of(expr: &Expr, is_first: bool) -> Option<&'static str> {
    let interval = match expr {
        Expr::Nested(inner)
        | Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr: inner } => {
            return unit_of(inner, is_first);
        }
        Expr::Interval(interval) => interval,
        _ => return None,
    };
    let field = |field: &DateTimeField| field.to_string().to_ascii_lowercase();
    let named = match (&interval.last_field, &interval.leading_field, interval.value.as_ref()) {
        (_, Some(first), _) if is_first => field(first),
        (Some(last), _, _) | (None, Some(last), _) => field(last),
        (None, None, Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. })) => {
            let mut words = text.split_whitespace();
            let word = if is_first { words.nth(1) } else { words.last() };
            word?.to_ascii_lowercase()
        }
        _ => return None,
    };
    let named = named.strip_suffix('s').unwrap_or(&named);
    UNITS.iter().find(|(name, _, _)| *name == named).map(|(name, _, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::template;

    fn cast(sql: &str) -> String {
        let Expr::Cast { expr, data_type, .. } = template::expr(sql) else { panic!("{sql}") };
        of_cast(&expr, &data_type).unwrap().map_or_else(String::new, |expr| expr.to_string())
    }

    #[test]
    fn an_interval_that_is_written_is_counted_in_its_last_field() {
        for (sql, expected) in [
            (
                "CAST(INTERVAL '1 year 2 months' AS INT)",
                "(CAST((spark_interval_whole(INTERVAL '1 year 2 months', 'month')) AS INT))",
            ),
            (
                "CAST(-INTERVAL '10.5' SECOND AS DECIMAL(4,2))",
                "(CAST((spark_interval_count(-INTERVAL '10.5' SECOND, 'second')) AS DECIMAL(4,2)))",
            ),
            ("CAST(x AS INTERVAL HOUR TO SECOND)", "spark_interval_of(x, 'second')"),
            ("CAST('3-1' AS INTERVAL YEAR TO MONTH)", "INTERVAL '3 year 1 month'"),
            ("CAST('-1 2' AS INTERVAL DAY TO HOUR)", "INTERVAL '-1 day -2 hour'"),
            ("CAST(x AS INT)", ""),
            ("CAST(INTERVAL '1' DAY AS STRING)", "spark_interval_literal(INTERVAL '1' DAY, 'day', 'day')"),
            ("CAST(x AS STRING)", ""),
        ] {
            assert_eq!(cast(sql), expected, "{sql}");
        }
    }
}
