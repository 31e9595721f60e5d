//! Intervals as they are written. DataFusion takes one without a unit for seconds; here each has a unit it knows.

use datafusion::sql::sqlparser::ast::{Expr, Interval, UnaryOperator, Value, ValueWithSpan};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use yeoul_base::ErrorKind;

use crate::time::interval_text;
use crate::{Error, Result};

/// Units that the parser knows in the singular only.
const PLURALS: [(&str, &str); 2] = [("decades", "decade"), ("centuries", "century")];

/// Puts units in the singular where the parser knows no plural.
pub(super) fn make_singular(tokens: &mut [TokenWithSpan]) {
    let written: Vec<usize> = (0..tokens.len()).filter(|at| !is_space(&tokens[*at])).collect();
    for three in written.windows(3) {
        let [interval, amount, unit] = [0, 1, 2].map(|at| &tokens[three[at]].token);
        let is_amount = matches!(amount, Token::Number(..) | Token::SingleQuotedString(_));
        let (true, Token::Word(of), Token::Word(word)) = (is_amount, interval, unit) else { continue };
        let plural = PLURALS.iter().find(|(plural, _)| word.value.eq_ignore_ascii_case(plural));
        if let Some((_, singular)) = plural
            && of.value.eq_ignore_ascii_case("interval")
            && word.quote_style.is_none()
        {
            tokens[three[2]].token = Token::make_keyword(singular);
        }
    }
}

fn is_space(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
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
        let unit = interval.leading_field.as_ref().map(ToString::to_string);
        return interval_text::check_part(text.trim(), &unit.unwrap_or_default());
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
            ("SELECT 'é',\n 'é', INTERVAL 3 decades, x", "SELECT 'é',\n 'é', INTERVAL 3 decade, x"),
            ("SELECT interval '2' CENTURIES AS n", "SELECT interval '2' century AS n"),
            ("SELECT 3 decades", "SELECT 3 decades"),
            ("SELECT interval '3 decades'", "SELECT interval '3 decades'"),
            ("SELECT interval 3 \"decades\"", "SELECT interval 3 \"decades\""),
        ] {
            let mut tokens = Tokenizer::new(&GenericDialect {}, written).tokenize_with_location().unwrap();
            let spans: Vec<_> = tokens.iter().map(|token| token.span).collect();
            make_singular(&mut tokens);
            assert_eq!(tokens.iter().map(|token| token.token.to_string()).collect::<String>(), expected);
            assert_eq!(tokens.iter().map(|token| token.span).collect::<Vec<_>>(), spans);
        }
    }
}
