//! Texts beside decimals. DataFusion casts them to the type of the decimal, which rounds them: `1.5 = '1.51'` was true.

use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Expr;

/// A decimal with as much room on both sides of the point.
const ROOMY: DataType = DataType::Decimal256(DECIMAL256_MAX_PRECISION, DECIMAL256_MAX_PRECISION as i8 / 2);

/// The type as which a text is compared with a decimal.
pub(super) fn text_beside(kind: &DataType, other: &DataType) -> Option<DataType> {
    (kind.is_string() && other.is_decimal()).then_some(ROOMY)
}

/// A text that is written out and is a number, as if it had been written without quotes.
pub(super) fn as_number(expr: &Expr) -> Option<Expr> {
    let Expr::Literal(value, _) = expr else { return None };
    let written = value.try_as_str().flatten()?.trim();
    let (whole, fraction) = written.split_once('.').unwrap_or((written, ""));
    let whole = whole.strip_prefix(['-', '+']).unwrap_or(whole);
    let is_of_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !is_of_digits(whole) || !is_of_digits(fraction) {
        return None;
    }
    let precision = u8::try_from(whole.len() + fraction.len()).ok()?;
    let scale = i8::try_from(fraction.len()).ok()?;
    let kind = if precision <= DECIMAL128_MAX_PRECISION {
        DataType::Decimal128(precision, scale)
    } else {
        DataType::Decimal256(precision, scale)
    };
    let number = ScalarValue::Utf8(Some(written.to_owned())).cast_to(&kind).ok()?;
    Some(Expr::Literal(number, None))
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::lit;

    use super::*;

    #[test]
    fn a_text_has_the_digits_that_are_written() {
        for (written, digits, precision, scale) in
            [("1.51", 151, 3, 2), (" -0.5 ", -5, 2, 1), ("+7", 7, 1, 0), (".25", 25, 2, 2), ("3.", 3, 1, 0)]
        {
            let number = ScalarValue::Decimal128(Some(digits), precision, scale);
            assert_eq!(as_number(&lit(written)), Some(Expr::Literal(number, None)), "{written}");
        }
        for written in ["", ".", "abc", "1e5", "1.2.3", "--1", "NaN", "0x10"] {
            assert_eq!(as_number(&lit(written)), None, "{written}");
        }
        assert_eq!(as_number(&lit(1.5)), None);
    }
}
