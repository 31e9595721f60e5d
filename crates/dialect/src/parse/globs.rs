//! `x [NOT] GLOB 'a*'`, as in DuckDB and SQLite: a text that has the form of a file name's pattern, whose case counts.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value};
use datafusion::sql::sqlparser::dialect::{Dialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::words::is;

/// Precedence of the next words, if they are `[NOT] GLOB` before a text.
pub(super) fn precedence(dialect: &dyn Dialect, parser: &Parser<'_>) -> Option<u8> {
    (is_at(parser, 0) || is_negated(parser)).then(|| dialect.prec_value(Precedence::Like))
}

/// Reads `[NOT] GLOB` and its pattern behind an expression; `None` if something else is next.
pub(super) fn read(parser: &mut Parser<'_>, left: &Expr) -> Option<Result<Expr, ParserError>> {
    let op = if is_negated(parser) {
        parser.next_token();
        BinaryOperator::PGRegexNotMatch
    } else if is_at(parser, 0) {
        BinaryOperator::PGRegexMatch
    } else {
        return None;
    };
    parser.next_token();
    let Token::SingleQuotedString(pattern) = parser.next_token().token else {
        unreachable!("a text follows GLOB")
    };
    let matched = regex_of(&pattern).map(|regex| {
        Expr::Nested(Box::new(Expr::BinaryOp {
            left: Box::new(left.clone()),
            op,
            right: Box::new(Expr::value(Value::SingleQuotedString(regex))),
        }))
    });
    Some(matched.map_err(ParserError::ParserError))
}

fn is_negated(parser: &Parser<'_>) -> bool {
    is(&parser.peek_nth_token_ref(0).token, Keyword::NOT) && is_at(parser, 1)
}

/// True if `GLOB` and a text come so many words later.
fn is_at(parser: &Parser<'_>, place: usize) -> bool {
    let is_glob = matches!(
        &parser.peek_nth_token_ref(place).token,
        Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("glob")
    );
    is_glob && matches!(parser.peek_nth_token_ref(place + 1).token, Token::SingleQuotedString(_))
}

/// The regular expression of a pattern.
fn regex_of(pattern: &str) -> Result<String, String> {
    let mut regex = String::from("^(?s:");
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '*' => regex.push_str(".*"),
            '?' => regex.push('.'),
            '\\' => match letters.next() {
                Some(literal) => push_literal(&mut regex, literal),
                None => return Err(format!("the pattern '{pattern}' of GLOB ends with a backslash")),
            },
            '[' => {
                regex.push('[');
                if letters.next_if_eq(&'!').is_some() {
                    regex.push('^');
                } else if letters.peek() == Some(&'^') {
                    return Err(format!(
                        "not supported: [^ in the pattern '{pattern}' of GLOB, which systems read in two ways; write [! for other letters"
                    ));
                }
                // A bracket that is first among the members is one.
                let mut is_first = true;
                loop {
                    match letters.next() {
                        None => return Err(format!("a [ in the pattern '{pattern}' of GLOB does not end")),
                        Some(']') if !is_first => break,
                        Some('-') if !is_first && letters.peek().is_some_and(|next| *next != ']') => {
                            regex.push('-');
                        }
                        Some(member) => push_literal(&mut regex, member),
                    }
                    is_first = false;
                }
                regex.push(']');
            }
            literal => push_literal(&mut regex, literal),
        }
    }
    regex.push_str(")$");
    Ok(regex)
}

fn push_literal(regex: &mut String, letter: char) {
    if letter.is_ascii_punctuation() {
        regex.push('\\');
    }
    regex.push(letter);
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    /// Answers of DuckDB 1.5.
    #[test]
    fn texts_match_as_in_duckdb() {
        for (text, pattern, expected) in [
            ("abc", "a*", true),
            ("abc", "a?c", true),
            ("abc", "[a-c]bc", true),
            ("abc", "[!a]bc", false),
            ("a*c", r"a\*c", true),
            ("abc", r"a\*c", false),
            ("/a/b", "/*", true),
            ("a", "[]a]", true),
            ("]", "[]a]", true),
            ("a-c", "a[-x]c", true),
            ("a-c", "a[x-]c", true),
            ("ABC", "a*", false),
            ("xabc", "a*", false),
            ("a\nb", "a*b", true),
            ("a.c", "a.c", true),
            ("abc", "a.c", false),
            ("", "", true),
        ] {
            let regex = Regex::new(&regex_of(pattern).unwrap()).unwrap();
            assert_eq!(regex.is_match(text), expected, "{text} GLOB {pattern}");
        }
        for pattern in ["[a", "[^a]", "a\\", "[]"] {
            assert!(regex_of(pattern).is_err(), "{pattern}");
        }
    }
}
