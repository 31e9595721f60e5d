//! The type behind a number: `1L` a BIGINT, `1S` a SMALLINT, `1Y` a TINYINT, `1F` a FLOAT, `1D` a DOUBLE, `1BD` a DECIMAL.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use yeoul_base::ErrorKind;

use super::in_place_of;
use crate::parse::span::span_of;
use crate::{Error, Result};

/// Writes a number with a suffix as a cast. A sign belongs to the number, as in Spark: `-128Y` fits.
///
/// # Errors
/// `Invalid` for a suffix that the number cannot have.
pub(super) fn write_casts(tokens: &mut Vec<TokenWithSpan>) -> Result<()> {
    let mut written: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut rest = std::mem::take(tokens).into_iter().peekable();
    while let Some(token) = rest.next() {
        let Token::Number(digits, is_long) = &token.token else {
            written.push(token);
            continue;
        };
        let touches = |next: &TokenWithSpan| match &next.token {
            Token::Word(word) if word.quote_style.is_none() && next.span.start == token.span.end => {
                Some(word.value.to_ascii_uppercase())
            }
            _ => None,
        };
        let suffix = if *is_long { Some("L".to_owned()) } else { rest.peek().and_then(touches) };
        let Some(suffix) = suffix else {
            written.push(token);
            continue;
        };
        let is_whole = digits.bytes().all(|byte| byte.is_ascii_digit());
        let mut text = digits.clone();
        let kind = match suffix.as_str() {
            "L" if is_whole => "BIGINT".to_owned(),
            "S" if is_whole => "SMALLINT".to_owned(),
            "Y" if is_whole => "TINYINT".to_owned(),
            "F" => "REAL".to_owned(),
            "D" => "DOUBLE".to_owned(),
            "BD" => {
                let decimal = Decimal::of(digits).ok_or_else(|| no_number(&token, &suffix))?;
                text = decimal.digits;
                format!("DECIMAL({}, {})", decimal.precision, decimal.scale)
            }
            _ => return Err(no_number(&token, &suffix)),
        };
        if !is_long {
            rest.next();
        }
        let sign = sign_before(&written);
        if let Some(place) = sign {
            written.truncate(place);
            text.insert(0, '-');
        }
        let cast = [
            Token::make_keyword("CAST"),
            Token::LParen,
            Token::SingleQuotedString(text),
            Token::make_keyword("AS"),
        ];
        written.extend(in_place_of(&token, cast));
        let kind = crate::parse::template::tokens(&kind);
        written.extend(in_place_of(&token, kind));
        written.extend(in_place_of(&token, [Token::RParen]));
    }
    *tokens = written;
    Ok(())
}

/// A decimal of exactly the digits that are written.
struct Decimal {
    /// The digits without an exponent.
    digits: String,
    precision: usize,
    scale: usize,
}

impl Decimal {
    /// That of a number; `None` if it has more than 38 digits.
    fn of(number: &str) -> Option<Self> {
        let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
        let exponent: isize = exponent.parse().ok().filter(|exponent: &isize| exponent.abs() <= 100)?;
        let (before, behind) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits = format!("{before}{behind}");
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        // Digits behind the point; below zero they are zeros before it.
        let scale = isize::try_from(behind.len()).ok()? - exponent;
        digits.extend(std::iter::repeat_n('0', usize::try_from(-scale).unwrap_or(0)));
        let scale = usize::try_from(scale).unwrap_or(0);
        let missing = (scale + 1).saturating_sub(digits.len());
        digits.insert_str(0, &"0".repeat(missing));
        let point = digits.len() - scale;
        let precision = digits.trim_start_matches('0').len().max(scale).max(1);
        if scale > 0 {
            digits.insert(point, '.');
        }
        (precision <= 38).then_some(Self { digits, precision, scale })
    }
}

/// The place of a minus directly before, if it is a sign and no operator.
fn sign_before(written: &[TokenWithSpan]) -> Option<usize> {
    let is_blank = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let minus = written.iter().rposition(|token| !is_blank(token))?;
    if written[minus].token != Token::Minus {
        return None;
    }
    let is_operand = |token: &Token| match token {
        Token::Number(..) | Token::SingleQuotedString(_) | Token::RParen | Token::RBracket => true,
        Token::Word(word) => {
            word.quote_style.is_some() || word.keyword == Keyword::NoKeyword || word.keyword == Keyword::END
        }
        _ => false,
    };
    let before = written[..minus].iter().rev().find(|token| !is_blank(token));
    // Behind a keyword that may be the name of a column, the minus stays.
    before
        .is_none_or(|before| match &before.token {
            Token::Word(word) => {
                let opens = [
                    Keyword::SELECT,
                    Keyword::WHERE,
                    Keyword::AND,
                    Keyword::OR,
                    Keyword::NOT,
                    Keyword::BETWEEN,
                ];
                let opens_too =
                    [Keyword::VALUES, Keyword::WHEN, Keyword::THEN, Keyword::ELSE, Keyword::ON, Keyword::BY];
                opens.contains(&word.keyword) || opens_too.contains(&word.keyword)
            }
            token => !is_operand(token),
        })
        .then_some(minus)
}

fn no_number(number: &TokenWithSpan, suffix: &str) -> Error {
    let text = format!("'{}{suffix}' is no number", number.token);
    Error::new(ErrorKind::Invalid, text)
        .with_span(span_of(number))
        .with_hint("the suffixes are L, S and Y of whole numbers, and F, D and BD; a name that begins with a digit has backquotes")
}

#[cfg(test)]
mod tests {
    use super::super::letters;
    use super::*;

    fn written(sql: &str) -> Result<String> {
        let mut tokens = letters::tokens(sql)?;
        write_casts(&mut tokens)?;
        Ok(tokens
            .iter()
            .map(|token| format!("{} ", token.token))
            .collect::<String>()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" "))
    }

    #[test]
    fn suffixes_are_types() {
        for (sql, expected) in [
            ("1L", "CAST ( '1' AS BIGINT )"),
            ("1l", "CAST ( '1' AS BIGINT )"),
            ("-128Y", "CAST ( '-128' AS TINYINT )"),
            ("a - 1S", "a - CAST ( '1' AS SMALLINT )"),
            ("(- 1.5d)", "( CAST ( '-1.5' AS DOUBLE ) )"),
            ("1e3F", "CAST ( '1e3' AS REAL )"),
            ("0.05BD", "CAST ( '0.05' AS DECIMAL ( 2 , 2 ) )"),
            ("123bd", "CAST ( '123' AS DECIMAL ( 3 , 0 ) )"),
            ("20E2BD", "CAST ( '2000' AS DECIMAL ( 4 , 0 ) )"),
            ("-1.25e-3bd", "CAST ( '-0.00125' AS DECIMAL ( 5 , 5 ) )"),
            ("1.25E1BD", "CAST ( '12.5' AS DECIMAL ( 3 , 1 ) )"),
            ("1 L", "1 L"),
            ("x1L", "x1L"),
        ] {
            assert_eq!(written(sql).unwrap(), expected, "{sql}");
        }
        for sql in ["1.5L", "1X", "1e38BD", "2S2"] {
            assert_eq!(written(sql).unwrap_err().kind(), ErrorKind::Invalid, "{sql}");
        }
    }
}
