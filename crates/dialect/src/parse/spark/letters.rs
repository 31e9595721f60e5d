//! Tokens of a text of Spark's.

use std::any::TypeId;

use datafusion::common::DataFusionError;
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use super::in_place_of;
use crate::Result;
use crate::parse::words::{is, words};

/// The letters of Spark: names have backquotes, texts have either quotes and escapes with a backslash.
#[derive(Debug)]
struct Letters;

impl Dialect for Letters {
    /// The tokenizer reads `r'…'` in the generic dialect alone.
    fn dialect(&self) -> TypeId {
        TypeId::of::<GenericDialect>()
    }

    fn is_delimited_identifier_start(&self, letter: char) -> bool {
        letter == '`'
    }

    fn is_identifier_start(&self, letter: char) -> bool {
        letter.is_alphabetic() || letter == '_'
    }

    fn is_identifier_part(&self, letter: char) -> bool {
        letter.is_alphanumeric() || letter == '_'
    }

    fn supports_string_literal_backslash_escape(&self) -> bool {
        true
    }

    fn supports_nested_comments(&self) -> bool {
        true
    }

    fn supports_pipe_operator(&self) -> bool {
        true
    }
}

/// The tokens of a text. Texts and names are as they were written, with all escapes.
///
/// # Errors
/// `Invalid` for text that cannot be cut into tokens.
pub(super) fn tokens(sql: &str) -> Result<Vec<TokenWithSpan>> {
    let tokens = Tokenizer::new(&Letters, sql).with_unescape(false).tokenize_with_location();
    Ok(tokens.map_err(ParserError::from).map_err(DataFusionError::from)?)
}

/// Writes `==` as `=`, and `!` as `NOT`.
pub(super) fn translate_signs(tokens: &mut Vec<TokenWithSpan>) {
    let written = std::mem::take(tokens);
    for token in written {
        let not = || Token::make_keyword("NOT");
        let signs = match &token.token {
            Token::DoubleEq => vec![Token::Eq],
            Token::ExclamationMark => vec![not()],
            Token::DoubleExclamationMark => vec![not(), not()],
            _ => {
                tokens.push(token);
                continue;
            }
        };
        tokens.extend(in_place_of(&token, signs));
    }
}

/// Leaves out the parentheses behind functions that the grammar knows without any.
pub(super) fn leave_out_parentheses(tokens: &mut Vec<TokenWithSpan>) {
    let places = words(tokens);
    let empty: Vec<usize> = places
        .windows(3)
        .filter(|three| {
            let [name, open, close] = [0, 1, 2].map(|at| &tokens[three[at]].token);
            let is_one =
                [Keyword::CURRENT_CATALOG, Keyword::CURRENT_USER, Keyword::SESSION_USER, Keyword::USER];
            is_one.iter().any(|keyword| is(name, *keyword))
                && (open, close) == (&Token::LParen, &Token::RParen)
        })
        .flat_map(|three| [three[1], three[2]])
        .collect();
    for place in empty.into_iter().rev() {
        tokens.remove(place);
    }
}

/// Writes `X '10'`, the digits of bytes behind a blank, without the blank.
pub(super) fn join_digits(tokens: &mut Vec<TokenWithSpan>) {
    let places = words(tokens);
    let joined: Vec<(usize, usize, String)> = places
        .windows(2)
        .filter_map(|pair| match (&tokens[pair[0]].token, &tokens[pair[1]].token) {
            (Token::Word(word), Token::SingleQuotedString(digits))
                if word.value.eq_ignore_ascii_case("x")
                    && word.quote_style.is_none()
                    && digits.bytes().all(|digit| digit.is_ascii_hexdigit()) =>
            {
                Some((pair[0], pair[1], digits.clone()))
            }
            _ => None,
        })
        .collect();
    for (first, last, digits) in joined.into_iter().rev() {
        let written = in_place_of(&tokens[first], [Token::HexStringLiteral(digits)]);
        tokens.splice(first..=last, written);
    }
}
