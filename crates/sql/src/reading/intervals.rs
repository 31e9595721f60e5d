//! Intervals as they are written. DataFusion takes one without a unit for seconds; here each has a unit it knows.

use std::borrow::Cow;

use datafusion::sql::sqlparser::ast::{Expr, Interval, UnaryOperator, Value, ValueWithSpan};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use yeoul_base::ErrorKind;

use crate::{Error, Result, interval_text};

/// Units that the parser knows in the singular only, which is padded to the length of the plural so that places in the text stay.
const PLURALS: [(&str, &str); 2] = [("decades", "decade "), ("centuries", "century  ")];

/// The text with units in the singular where the parser knows no plural.
pub(super) fn singular<'a>(sql: &'a str, tokens: &[TokenWithSpan]) -> Cow<'a, str> {
    let written: Vec<&TokenWithSpan> =
        tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    let plurals = written.windows(3).filter_map(|three| {
        let [interval, amount, unit] = three else { return None };
        let is_amount = matches!(amount.token, Token::Number(..) | Token::SingleQuotedString(_));
        let (true, Token::Word(of), Token::Word(word)) = (is_amount, &interval.token, &unit.token) else {
            return None;
        };
        let (_, singular) = PLURALS.iter().find(|(plural, _)| word.value.eq_ignore_ascii_case(plural))?;
        (of.value.eq_ignore_ascii_case("interval") && word.quote_style.is_none()).then_some((unit, *singular))
    });
    let mut text = Cow::Borrowed(sql);
    for (unit, singular) in plurals {
        let Some(at) = byte_of(sql, unit) else { continue };
        text.to_mut().replace_range(at..at + singular.len(), singular);
    }
    text
}

/// The place of a token in bytes.
fn byte_of(sql: &str, token: &TokenWithSpan) -> Option<usize> {
    let start = token.span.start;
    let line = sql.split_inclusive('\n').take(usize::try_from(start.line).ok()?.checked_sub(1)?);
    let line: usize = line.map(str::len).sum();
    let column = usize::try_from(start.column).ok()?.checked_sub(1)?;
    let (column, _) = sql[line..].char_indices().nth(column)?;
    Some(line + column)
}

/// Spells out the clock times of an interval. A number alone is refused by `clauses`.
///
/// # Errors
/// `Invalid` for a number without a unit.
pub(super) fn complete(interval: &mut Interval) -> Result<()> {
    let has_unit = interval.leading_field.is_some();
    let mut value = interval.value.as_mut();
    while let Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } = value {
        value = expr;
    }
    let Expr::Value(ValueWithSpan { value, .. }) = value else { return Ok(()) };
    let (Value::SingleQuotedString(text) | Value::DoubleQuotedString(text)) = value else { return Ok(()) };
    if text.trim().parse::<f64>().is_ok() {
        return Ok(());
    }
    if has_unit {
        let error = Error::new(ErrorKind::Invalid, format!("'{text}' is no number of units in an interval"));
        return Err(error.with_hint("write interval '3' day, or interval '3 days 12 hours'"));
    }
    *text = interval_text::spelt_out(text)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    #[test]
    fn a_plural_that_the_parser_does_not_know_becomes_its_singular_in_its_place() {
        for (written, expected) in [
            ("SELECT 'é',\n 'é', INTERVAL 3 decades, x", "SELECT 'é',\n 'é', INTERVAL 3 decade , x"),
            ("SELECT interval '2' CENTURIES AS n", "SELECT interval '2' century   AS n"),
            ("SELECT 3 decades", "SELECT 3 decades"),
            ("SELECT interval '3 decades'", "SELECT interval '3 decades'"),
            ("SELECT interval 3 \"decades\"", "SELECT interval 3 \"decades\""),
        ] {
            let tokens = Tokenizer::new(&GenericDialect {}, written).tokenize_with_location().unwrap();
            assert_eq!(singular(written, &tokens), expected);
        }
    }
}
