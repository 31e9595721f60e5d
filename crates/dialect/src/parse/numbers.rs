//! Numbers whose digits are grouped, `1_000`, and words directly after a number, which the parser takes for an alias: `1x` becomes
//! `1 AS x`.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use yeoul_base::ErrorKind;

use super::span::span_of;
use crate::{Error, Result, Span};

/// Takes the `_` out of numbers.
pub(super) fn join_digits(tokens: &mut [TokenWithSpan]) {
    for token in tokens {
        if let Token::Number(digits, _) = &mut token.token
            && digits.contains('_')
        {
            *digits = digits.replace('_', "");
        }
    }
}

/// Refuses a word directly after a number.
///
/// # Errors
/// `Invalid` for SQL with such a word.
pub(super) fn check(tokens: &[TokenWithSpan]) -> Result<()> {
    let touching = tokens.windows(2).find_map(|pair| match pair {
        [
            number @ TokenWithSpan { token: Token::Number(..), .. },
            behind @ TokenWithSpan { token: Token::Word(word), .. },
        ] if word.quote_style.is_none() && number.span.end == behind.span.start => Some((number, word)),
        _ => None,
    });
    let Some((number, word)) = touching else { return Ok(()) };
    let written = format!("{}{word}", number.token);
    let span = Span { chars: written.chars().count() as u64, ..span_of(number) };
    let error = Error::new(ErrorKind::Invalid, format!("'{written}' is no number")).with_span(span);
    Err(error.with_hint("digits are grouped as in 1_000; a name begins behind a space"))
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::super::grammar::Grammar;
    use super::*;
    use crate::Place;

    fn check(sql: &str) -> Result<()> {
        super::check(&Tokenizer::new(&Grammar, sql).tokenize_with_location().unwrap())
    }

    #[test]
    fn a_word_behind_a_number_is_no_name() {
        for (sql, column, chars) in
            [("SELECT sum(x) / 1_x", 17, 3), ("SELECT 1AS x", 8, 3), ("SELECT 'é', 2.5x", 13, 4)]
        {
            let error = check(sql).unwrap_err();
            let expected = Span { place: Place { line: 1, column }, chars };
            assert_eq!((error.kind(), error.span()), (ErrorKind::Invalid, Some(expected)), "{sql}");
        }
        for sql in [
            "SELECT 1 AS x, 1_000_000, 1_0.2_5",
            "SELECT a1_000, 1e3, .5, 2.5E-1, x[1]",
            "SELECT 1/*c*/a",
            "SELECT 1\"a\"",
        ] {
            check(sql).unwrap();
        }
        // Tokens from which spaces were taken out keep their places.
        let mut tokens = Tokenizer::new(&Grammar, "SELECT 1 AS x").tokenize_with_location().unwrap();
        tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
        super::check(&tokens).unwrap();
    }
}
