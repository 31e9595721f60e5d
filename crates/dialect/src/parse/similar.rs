//! `SIMILAR TO`, which compares a whole text with a pattern in which `%` and `_` are what they are to `LIKE`. DataFusion takes the
//! pattern for a regular expression, and searches for it anywhere in the text.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value, ValueWithSpan};
use yeoul_base::ErrorKind;

use crate::{Error, Result};

/// The escape character of a pattern that names none.
const ESCAPE: char = '\\';

/// Refuses a pattern that is no text, or no pattern.
///
/// # Errors
/// `Invalid`, with what to write.
pub(super) fn check(expr: &Expr) -> Result<()> {
    if let Expr::SimilarTo { pattern, escape_char, .. } = expr {
        regex_of(pattern, escape_char.as_ref())?;
    }
    Ok(())
}

/// Turns `a SIMILAR TO 'b%'` into `a ~ '^(?s:b.*)$'`.
pub(super) fn match_whole(expr: &mut Expr) {
    let Expr::SimilarTo { negated, expr: of, pattern, escape_char } = expr else { return };
    // It was checked when the statement was read.
    let Ok(regex) = regex_of(pattern, escape_char.as_ref()) else { return };
    let op = if *negated { BinaryOperator::PGRegexNotMatch } else { BinaryOperator::PGRegexMatch };
    let left = Box::new(std::mem::replace(of.as_mut(), Expr::value(Value::Null)));
    let right = Box::new(Expr::value(Value::SingleQuotedString(regex)));
    *expr = Expr::Nested(Box::new(Expr::BinaryOp { left, op, right }));
}

fn text_of(value: &Value) -> Option<&str> {
    match value {
        Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => Some(text),
        _ => None,
    }
}

fn regex_of(pattern: &Expr, escape: Option<&ValueWithSpan>) -> Result<String> {
    let Expr::Value(ValueWithSpan { value, .. }) = pattern else { return Err(computed()) };
    let pattern = text_of(value).ok_or_else(computed)?;
    let escape = match escape.map(|escape| text_of(&escape.value).unwrap_or_default()) {
        None => Some(ESCAPE),
        Some("") => None,
        Some(text) if text.chars().count() == 1 => text.chars().next(),
        Some(text) => return Err(wrong(format!("the escape character '{text}' is not one character"))),
    };
    translated(pattern, escape)
}

fn computed() -> Error {
    Error::new(ErrorKind::Invalid, "not supported: SIMILAR TO with a pattern that is no text between quotes")
        .with_hint("write the pattern out, or use a regular expression: a ~ b")
}

fn wrong(what: String) -> Error {
    Error::new(ErrorKind::Invalid, what).with_hint("write a SIMILAR TO '(b|c)%', or a ~ '^(b|c)'")
}

/// The regular expression of a pattern.
fn translated(pattern: &str, escape: Option<char>) -> Result<String> {
    let mut regex = String::from("^(?s:");
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            _ if Some(letter) == escape => match letters.next() {
                Some(literal) => push_literal(&mut regex, literal),
                None => return Err(wrong(format!("the pattern '{pattern}' ends with its escape character"))),
            },
            '%' => regex.push_str(".*"),
            '_' => regex.push('.'),
            '|' | '*' | '+' | '?' | '{' | '}' | '(' | ')' => regex.push(letter),
            '[' => {
                regex.push('[');
                if letters.next_if_eq(&'^').is_some() {
                    regex.push('^');
                }
                let mut is_closed = false;
                while let Some(member) = letters.next() {
                    match member {
                        ']' => {
                            is_closed = true;
                            break;
                        }
                        '-' => regex.push('-'),
                        // A class by its name, such as [:alpha:].
                        '[' if letters.peek() == Some(&':') => {
                            regex.push('[');
                            for of_name in letters.by_ref() {
                                regex.push(of_name);
                                if of_name == ']' {
                                    break;
                                }
                            }
                        }
                        _ if Some(member) == escape => match letters.next() {
                            Some(literal) => push_literal(&mut regex, literal),
                            None => break,
                        },
                        literal => push_literal(&mut regex, literal),
                    }
                }
                if !is_closed {
                    return Err(wrong(format!("the pattern '{pattern}' has a '[' without its ']'")));
                }
                regex.push(']');
            }
            literal => push_literal(&mut regex, literal),
        }
    }
    regex.push_str(")$");
    Ok(regex)
}

/// Adds a character that stands for itself.
fn push_literal(regex: &mut String, literal: char) {
    if literal.is_ascii_punctuation() {
        regex.push('\\');
    }
    regex.push(literal);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_compared_with_the_whole_text() {
        for (pattern, escape, expected) in [
            ("b", Some('\\'), "^(?s:b)$"),
            ("%(b|d)_", Some('\\'), "^(?s:.*(b|d).)$"),
            ("a.c^$", Some('\\'), "^(?s:a\\.c\\^\\$)$"),
            ("50\\%", Some('\\'), "^(?s:50\\%)$"),
            ("50#%\\", Some('#'), "^(?s:50\\%\\\\)$"),
            ("\\%", None, "^(?s:\\\\.*)$"),
            ("[a-c_%]{2}[^[:alpha:]&]", Some('\\'), "^(?s:[a-c\\_\\%]{2}[^[:alpha:]\\&])$"),
        ] {
            assert_eq!(translated(pattern, escape).unwrap(), expected, "{pattern}");
        }
        for pattern in ["a\\", "[a", "[a\\"] {
            assert!(translated(pattern, Some('\\')).unwrap_err().hint().is_some(), "{pattern}");
        }
    }
}
