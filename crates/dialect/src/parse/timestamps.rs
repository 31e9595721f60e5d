//! Timestamps that are written out with nanoseconds: a `TIMESTAMP` has microseconds, and would cut them off without a word.

use datafusion::sql::sqlparser::ast::{DataType, Expr, TypedString, Value};

use crate::refuse::TIMESTAMP_DIGITS;

/// The digits of a second that any timestamp has at most.
const DIGITS_MAX: u64 = 9;

/// Makes a text with more digits than a `TIMESTAMP` has a `TIMESTAMP(9)`.
pub(super) fn hold_digits(expr: &mut Expr) {
    let digits = match expr {
        Expr::TypedString(typed) => fraction_digits(&typed.value.value),
        Expr::Cast { expr, .. } => match expr.as_ref() {
            Expr::Value(text) => fraction_digits(&text.value),
            _ => return,
        },
        _ => return,
    };
    let (Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. })) = expr else {
        return;
    };
    if let DataType::Timestamp(precision @ None, _) = data_type
        && digits > TIMESTAMP_DIGITS
    {
        *precision = Some(DIGITS_MAX);
    }
}

fn fraction_digits(text: &Value) -> u64 {
    let Value::SingleQuotedString(text) = text else { return 0 };
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
    fraction.bytes().take_while(u8::is_ascii_digit).count() as u64
}

#[cfg(test)]
mod tests {
    use crate::parse::tests::meant;

    #[test]
    fn a_text_keeps_its_digits() {
        for (written, expected) in [
            (
                "SELECT TIMESTAMP '2026-01-01 00:00:00.1234567'",
                "SELECT TIMESTAMP(9) '2026-01-01 00:00:00.1234567'",
            ),
            (
                "SELECT '2026-01-01 00:00:00.123456789+00'::TIMESTAMPTZ, '00:00:00.123456'::TIMESTAMP",
                "SELECT '2026-01-01 00:00:00.123456789+00'::TIMESTAMPTZ(9), '00:00:00.123456'::TIMESTAMP",
            ),
            ("SELECT a::TIMESTAMP, '1.23456789'::TEXT", "SELECT a::TIMESTAMP, '1.23456789'::TEXT"),
            (
                "SELECT CAST('2026-01-01 00:00:00.123456789' AS TIMESTAMP(3))",
                "SELECT CAST('2026-01-01 00:00:00.123456789' AS TIMESTAMP(3))",
            ),
        ] {
            assert_eq!(meant(written), expected, "{written}");
        }
    }
}
