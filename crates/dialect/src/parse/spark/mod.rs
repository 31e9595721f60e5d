//! SQL as Spark's users write it, in the tokens and expressions of the own grammar.
//!
//! - [`letters`]: the tokens of a text: names in backquotes, texts in both kinds of quotes;
//! - [`texts`]: escapes in texts, and texts beside each other; [`times`]: patterns by which times are read;
//! - [`suffixes`]: the type behind a number, `1L` and `1.5BD`;
//! - [`inline_tables`]: `VALUES` without parentheses, and the names of its columns;
//! - [`statements`]: statements in words of Spark's;
//! - [`expressions`]: operators, literals and casts that mean something else in Spark; [`calls`]: such functions.

mod calls;
pub(super) mod expressions;
mod inline_tables;
mod letters;
mod statements;
mod suffixes;
mod texts;
mod times;

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::Result;

/// The tokens of a text of Spark's, as the own grammar writes them.
///
/// # Errors
/// `Invalid` for text that is not SQL.
pub(super) fn tokens(sql: &str) -> Result<Vec<TokenWithSpan>> {
    let mut tokens = letters::tokens(sql)?;
    texts::translate(&mut tokens);
    suffixes::write_casts(&mut tokens)?;
    letters::translate_signs(&mut tokens);
    statements::translate(&mut tokens)?;
    inline_tables::write_queries(&mut tokens);
    Ok(tokens)
}

/// Tokens in the place of one that was written.
fn in_place_of(written: &TokenWithSpan, tokens: impl IntoIterator<Item = Token>) -> Vec<TokenWithSpan> {
    tokens.into_iter().map(|token| TokenWithSpan { token, span: written.span }).collect()
}
