//! Words that touch a number. The parser takes them for the name of a column: `sum(x) / 1_000` is `sum(x) / 1 AS _000` to it.

use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use yeoul_base::ErrorKind;

use crate::{Error, Place, Result, Span};

/// # Errors
/// `Invalid` for a text that is SQL but for a word right behind a number.
pub(super) fn check(sql: &str, dialect: &dyn Dialect) -> Result<()> {
    // The parser has read it.
    let Ok(tokens) = Tokenizer::new(dialect, sql).tokenize_with_location() else { return Ok(()) };
    let touching = tokens.windows(2).find_map(|pair| match pair {
        [
            TokenWithSpan { token: Token::Number(number, _), span },
            TokenWithSpan { token: Token::Word(word), .. },
        ] if word.quote_style.is_none() => Some((format!("{number}{word}"), span.start)),
        _ => None,
    });
    let Some((written, start)) = touching else { return Ok(()) };
    let place = Place { line: start.line, column: start.column };
    let span = Span { place, chars: written.chars().count() as u64 };
    let error = Error::new(ErrorKind::Invalid, format!("'{written}' is no number")).with_span(span);
    Err(error.with_hint("numbers are written without '_'; a name begins behind a space"))
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    use super::*;

    #[test]
    fn a_word_behind_a_number_is_no_name() {
        for (sql, column, chars) in
            [("SELECT sum(x) / 1_000", 17, 5), ("SELECT 1AS x", 8, 3), ("SELECT 'é', 2.5x", 13, 4)]
        {
            let error = check(sql, &GenericDialect {}).unwrap_err();
            let expected = Span { place: Place { line: 1, column }, chars };
            assert_eq!((error.kind(), error.span()), (ErrorKind::Invalid, Some(expected)), "{sql}");
        }
        for sql in
            ["SELECT 1 AS x", "SELECT a1_000, 1e3, .5, 2.5E-1, x[1]", "SELECT 1/*c*/a", "SELECT 1\"a\""]
        {
            check(sql, &GenericDialect {}).unwrap();
        }
    }
}
