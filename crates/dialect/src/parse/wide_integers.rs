//! Integers that are written with more digits than 64 bits hold. DataFusion reads them as floats, and rounds them; they are decimals.

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, ExactNumberInfo, Expr, UnaryOperator, Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use yeoul_base::ErrorKind;

use super::span::span_of;
use crate::{Error, Result};

/// The most digits of a decimal.
const DIGITS_MAX: usize = 38;

/// Refuses integers with more digits than a decimal has.
///
/// # Errors
/// `Invalid` for SQL with such an integer.
pub(super) fn check(tokens: &[TokenWithSpan]) -> Result<()> {
    let too_wide = tokens.iter().find_map(|token| match &token.token {
        Token::Number(text, _) => {
            Some((token, digits_of(text)?.len())).filter(|(_, digits)| *digits > DIGITS_MAX)
        }
        _ => None,
    });
    let Some((token, digits)) = too_wide else { return Ok(()) };
    let text = format!("an integer of {digits} digits; a decimal has at most {DIGITS_MAX}");
    let hint = "write it with an exponent, as a DOUBLE, if its last digits do not matter: 1.7e38";
    Err(Error::new(ErrorKind::Invalid, text).with_span(span_of(token)).with_hint(hint))
}

/// Makes an integer that 64 bits do not hold a decimal.
pub(super) fn make_decimal(expr: &mut Expr) {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::Number(text, _), .. }) => {
            if let Some(digits) = digits_of(text).filter(|digits| digits.parse::<u64>().is_err()) {
                *expr = decimal(digits);
            }
        }
        // Of 64 bits there is one less for digits behind a sign.
        Expr::UnaryOp { op: UnaryOperator::Minus, expr: operand } => {
            let Expr::Value(ValueWithSpan { value: Value::Number(text, _), .. }) = operand.as_ref() else {
                return;
            };
            let too_wide = |digits: &&str| digits.parse::<u64>().is_ok_and(|number| number > 1 << 63);
            if let Some(digits) = digits_of(text).filter(too_wide) {
                **operand = decimal(digits);
            }
        }
        _ => {}
    }
}

/// The digits of an integer without leading zeros; `None` for other numbers.
fn digits_of(text: &str) -> Option<&str> {
    let is_integer = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // The last may be a zero.
    is_integer
        .then(|| text[..text.len() - 1].trim_start_matches('0').len())
        .map(|kept| &text[text.len() - 1 - kept..])
}

fn decimal(digits: &str) -> Expr {
    Expr::Cast {
        kind: CastKind::DoubleColon,
        expr: Box::new(Expr::value(Value::SingleQuotedString(digits.to_owned()))),
        data_type: DataType::Decimal(ExactNumberInfo::PrecisionAndScale(digits.len() as u64, 0)),
        array: false,
        format: None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;
    use crate::parse::tests::meant;

    #[test]
    fn integers_of_more_than_64_bits_are_decimals() {
        for (written, expected) in [
            ("SELECT 0, 00, -0, 18446744073709551615", "SELECT 0, 00, -0, 18446744073709551615"),
            ("SELECT 18446744073709551616", "SELECT '18446744073709551616'::DECIMAL(20,0)"),
            ("SELECT 0018446744073709551616 + 1", "SELECT '18446744073709551616'::DECIMAL(20,0) + 1"),
            ("SELECT -9223372036854775808", "SELECT -9223372036854775808"),
            ("SELECT -9223372036854775809", "SELECT -'9223372036854775809'::DECIMAL(19,0)"),
            ("SELECT 18446744073709551616.0, 2e30", "SELECT 18446744073709551616.0, 2e30"),
        ] {
            assert_eq!(meant(written), expected, "{written}");
        }
    }

    #[test]
    fn integers_of_more_than_38_digits_are_refused_where_they_stand() {
        let check =
            |sql: &str| check(&Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location().unwrap());
        let digits = "9".repeat(DIGITS_MAX);
        check(&format!("SELECT {digits}, 00{digits}, '{digits}1', {digits}1.0")).unwrap();
        let error = check(&format!("SELECT 1, {digits}1")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(error.span().map(|span| span.place.column), Some(11));
    }
}
