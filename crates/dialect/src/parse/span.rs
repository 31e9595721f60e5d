//! Places of tokens.

use datafusion::sql::sqlparser::tokenizer::{Location, TokenWithSpan};
use yeoul_base::{Place, Span};

/// The place of a token.
pub(super) fn span_of(token: &TokenWithSpan) -> Span {
    let Location { line, column } = token.span.start;
    Span { place: Place { line, column }, chars: token.token.to_string().chars().count() as u64 }
}
