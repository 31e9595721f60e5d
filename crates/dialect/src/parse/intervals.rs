//! Intervals as they are written. DataFusion takes one without a unit for seconds; here each has a unit it knows.

use datafusion::sql::sqlparser::ast::{DateTimeField, Expr, Interval, UnaryOperator, Value, ValueWithSpan};
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

/// Spells out the clock times, the fields and the signs of an interval, also the sign before one. A number alone is refused by `clauses`.
///
/// # Errors
/// `Invalid` for a number without a unit, and for a text that has other fields than it is said to have.
pub(super) fn complete(expr: &mut Expr) -> Result<()> {
    match expr {
        Expr::Interval(interval) => complete_value(interval),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr: negated } => {
            let Expr::Interval(interval) = negated.as_mut() else { return Ok(()) };
            if let Some(text) = text_of(&mut interval.value) {
                *text = interval_text::negated(text);
                *expr = Expr::Interval(interval.clone());
            } else if matches!(*interval.value, Expr::BinaryOp { .. }) {
                // DataFusion would negate the first operand.
                let interval = Expr::Interval(interval.clone());
                **negated = Expr::Nested(Box::new(interval));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn complete_value(interval: &mut Interval) -> Result<()> {
    let is_negative = take_signs(&mut interval.value);
    let Some(text) = text_of(&mut interval.value) else { return Ok(()) };
    let unit = interval.leading_field.as_ref().map(field_name);
    if let (Some(first), Some(last)) = (&unit, &interval.last_field) {
        *text = interval_text::of_fields(text, first, &field_name(last))?;
        interval.leading_field = None;
        interval.last_field = None;
    } else if text.trim().parse::<f64>().is_ok() {
        interval_text::check_part(text.trim(), unit.as_deref().unwrap_or_default())?;
    } else if unit.is_some() {
        let error = Error::new(ErrorKind::Invalid, format!("'{text}' is no number of units in an interval"));
        return Err(error.with_hint("write interval '3' day, or interval '3 days 12 hours'"));
    } else {
        *text = interval_text::spelt_out(text)?;
    }
    if is_negative {
        *text = interval_text::negated(text);
    }
    Ok(())
}

/// Takes the signs from before a text, and says whether they make it negative. DataFusion would negate its first part alone.
fn take_signs(value: &mut Expr) -> bool {
    let (mut is_negative, mut operand) = (false, &*value);
    while let Expr::UnaryOp { op: op @ (UnaryOperator::Minus | UnaryOperator::Plus), expr } = operand {
        is_negative ^= *op == UnaryOperator::Minus;
        operand = expr;
    }
    let is_text = matches!(
        operand,
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_) | Value::DoubleQuotedString(_), .. })
    );
    if is_text {
        *value = operand.clone();
    }
    is_text && is_negative
}

fn text_of(value: &mut Expr) -> Option<&mut String> {
    match value {
        Expr::Value(ValueWithSpan {
            value: Value::SingleQuotedString(text) | Value::DoubleQuotedString(text),
            ..
        }) => Some(text),
        _ => None,
    }
}

fn field_name(field: &DateTimeField) -> String {
    field.to_string().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;
    use crate::parse::tests::meant;

    #[test]
    fn a_sign_negates_each_part() {
        for (written, expected) in [
            ("- INTERVAL '1 year 1 month'", "INTERVAL '-1 year -1 month'"),
            ("INTERVAL - '1 day -2 hours'", "INTERVAL '-1 day 2 hours'"),
            ("- INTERVAL - '1 day 01:30'", "INTERVAL '1 day 01 hours 30 minutes 0 seconds'"),
            ("INTERVAL - - '3' DAY", "INTERVAL '3' DAY"),
            ("- INTERVAL '3' DAY", "INTERVAL '-3' DAY"),
            ("- INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '-1 year -2 month'"),
            ("- INTERVAL 3 DAY", "-INTERVAL 3 DAY"),
            ("x - INTERVAL '1 day 2 hours'", "x - INTERVAL '1 day 2 hours'"),
        ] {
            assert_eq!(meant(&format!("SELECT {written}")), format!("SELECT {expected}"), "{written}");
        }
    }

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
