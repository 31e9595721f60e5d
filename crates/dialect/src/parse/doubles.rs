//! Numbers that are written with an exponent: DOUBLEs, as in PostgreSQL, DuckDB and Spark. DataFusion reads them as decimals.

use datafusion::sql::sqlparser::ast::{CastKind, DataType, ExactNumberInfo, Expr, Value, ValueWithSpan};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use yeoul_base::ErrorKind;

use super::span::span_of;
use crate::{Error, Result};

/// The most digits of a decimal. A number with more is a DOUBLE, as in DuckDB.
const DIGITS_MAX: usize = 76;

/// Refuses a number that is too large for a DOUBLE, which would be infinite.
///
/// # Errors
/// `Invalid` for SQL with such a number.
pub(super) fn check(tokens: &[TokenWithSpan]) -> Result<()> {
    let is_too_large =
        |text: &str| text.contains(['e', 'E']) && text.parse::<f64>().is_ok_and(f64::is_infinite);
    let found = tokens.iter().find_map(|token| match &token.token {
        Token::Number(text, _) if is_too_large(text) => Some((token, text)),
        _ => None,
    });
    let Some((token, text)) = found else { return Ok(()) };
    let error = Error::new(ErrorKind::Invalid, format!("{text} is too large for a DOUBLE"));
    Err(error
        .with_span(span_of(token))
        .with_hint("the largest is 1.7976931348623157e308; 'inf'::DOUBLE is infinite"))
}

/// Makes a number with an exponent a DOUBLE.
pub(super) fn make_double(expr: &mut Expr) {
    let Expr::Value(ValueWithSpan { value: Value::Number(text, _), .. }) = expr else { return };
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    if text.contains(['e', 'E']) || (text.contains('.') && digits > DIGITS_MAX) {
        *expr = Expr::Cast {
            kind: CastKind::DoubleColon,
            expr: Box::new(Expr::value(Value::SingleQuotedString(std::mem::take(text)))),
            data_type: DataType::Double(ExactNumberInfo::None),
            array: false,
            format: None,
        };
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;
    use crate::parse::tests::called;

    #[test]
    fn numbers_with_an_exponent_are_doubles() {
        for (written, expected) in [
            ("SELECT 1.5, .5, 1., 15", "SELECT 1.5, .5, 1., 15"),
            ("SELECT 1e3, -1.5E-3", "SELECT '1e3'::DOUBLE, -'1.5E-3'::DOUBLE"),
        ] {
            assert_eq!(called(written), expected, "{written}");
        }
        let check =
            |sql: &str| check(&Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location().unwrap());
        check("SELECT 1e308, 1e-400, '1e400'").unwrap();
        assert_eq!(check("SELECT 2, 1e309").unwrap_err().span().map(|span| span.place.column), Some(11));
        let digits = "9".repeat(77);
        assert_eq!(called(&format!("SELECT {digits}.0")), format!("SELECT '{digits}.0'::DOUBLE"));
    }
}
