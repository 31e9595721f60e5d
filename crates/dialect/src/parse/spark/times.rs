//! Patterns by which texts are read as times.

use datafusion::sql::sqlparser::ast::{Expr, Value, ValueWithSpan};
use yeoul_base::ErrorKind;

use crate::{Error, Result};

/// Letters of Spark's patterns, with those of `strptime`.
const LETTERS: [(&str, &str); 7] =
    [("yyyy", "%Y"), ("MM", "%m"), ("dd", "%d"), ("HH", "%H"), ("mm", "%M"), ("ss", "%S"), ("SSSSSS", "%f")];

/// A pattern of Spark's as one of `strptime`.
///
/// # Errors
/// `Invalid` for one that is computed, and for letters that read otherwise.
pub(super) fn pattern_of(pattern: &Expr) -> Result<String> {
    let refused = |what: String| {
        let letters: Vec<&str> = LETTERS.iter().map(|(letters, _)| *letters).collect();
        Error::new(ErrorKind::Invalid, what).with_hint(format!(
            "a time is read by a pattern of {} and signs between them",
            letters.join(", ")
        ))
    };
    let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = pattern else {
        return Err(refused("not supported: a pattern of a time that is computed".to_owned()));
    };
    let mut own = String::new();
    let mut rest = text.as_str();
    while let Some(letter) = rest.chars().next() {
        let run = rest.len() - rest.trim_start_matches(letter).len();
        let (letters, behind) = rest.split_at(run);
        match LETTERS.iter().find(|(known, _)| *known == letters) {
            Some((_, known)) => own.push_str(known),
            None if letter.is_alphanumeric()
                || matches!(letter, '%' | '\'' | '[' | ']' | '#' | '{' | '}') =>
            {
                return Err(refused(format!("not supported: '{letters}' in the pattern '{text}' of a time")));
            }
            None => own.push_str(letters),
        }
        rest = behind;
    }
    if !["%Y", "%m", "%d"].into_iter().all(|part| own.contains(part)) {
        return Err(refused(format!(
            "not supported: the pattern '{text}' of a time, which has not year, month and day"
        )));
    }
    Ok(own)
}

/// Refuses the text of a `TIMESTAMP` with a zone, which would be an instant.
///
/// # Errors
/// `Invalid` for such a text.
pub(super) fn check_zone(text: &str) -> Result<()> {
    let text = text.trim_matches('\'').trim();
    let behind_date = text.split_once([' ', 'T']).map_or("", |(_, time)| time);
    if !behind_date.contains(|letter: char| letter.is_alphabetic() || matches!(letter, '+' | '-')) {
        return Ok(());
    }
    let error = Error::new(ErrorKind::Invalid, format!("not supported: a TIMESTAMP with a zone, '{text}'"));
    Err(error.with_hint("TIMESTAMP is a wall clock; write TIMESTAMPTZ for an instant"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_strptime() {
        let of = |text: &str| pattern_of(&Expr::value(Value::SingleQuotedString(text.to_owned())));
        assert_eq!(of("yyyy-MM-dd HH:mm:ss.SSSSSS").unwrap(), "%Y-%m-%d %H:%M:%S.%f");
        assert_eq!(of("dd/MM/yyyy").unwrap(), "%d/%m/%Y");
        for text in ["yy-MM-dd", "yyyy'T'MM", "E", "[yyyy]", "MMM", "d", "dd"] {
            assert_eq!(of(text).unwrap_err().kind(), ErrorKind::Invalid, "{text}");
        }
    }
}
