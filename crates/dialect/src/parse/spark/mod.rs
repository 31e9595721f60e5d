//! SQL as Spark's users write it, in the tokens and expressions of the own grammar.
//!
//! - [`letters`]: the tokens of a text: names in backquotes, texts in both kinds of quotes;
//! - [`texts`]: escapes in texts, and texts beside each other; [`text_arguments`]: texts that are meant as numbers; [`times`]: texts of times;
//! - [`suffixes`]: the type behind a number, `1L` and `1.5BD`; [`multi_units`]: intervals of several units; [`interval_casts`]: casts of intervals;
//! - [`map_types`]: `MAP<K, V>`; [`identifier_clause`]: `IDENTIFIER('t')`;
//! - [`inline_tables`]: `VALUES` without parentheses, and the names of its columns;
//! - [`session_variables`]: variables of a session; [`statements`]: statements in words of Spark's; [`table_clauses`]: clauses of new tables and views;
//! - [`expressions`]: operators, literals and casts that mean something else in Spark; [`calls`]: such functions;
//! - [`grouping_ids`]: the function `grouping_id()` without arguments;
//! - [`lambdas`]: functions that take one and are others of lists; [`geometries`]: functions of geometries;
//! - [`pipes`]: operators behind `|>`;
//! - [`quantified_likes`]: `LIKE ANY` and `LIKE ALL`; [`table_functions`]: generators among tables.

mod calls;
pub(super) mod expressions;
mod geometries;
mod grouping_ids;
mod identifier_clause;
mod inline_tables;
mod interval_casts;
pub(super) mod lambdas;
mod letters;
mod map_types;
mod multi_units;
mod pipes;
mod quantified_likes;
mod session_variables;
mod statements;
mod suffixes;
mod table_clauses;
mod table_functions;
mod text_arguments;
mod texts;
mod times;

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use crate::Result;

/// The tokens of a text of Spark's, as the own grammar writes them, and notices of what is left out.
///
/// # Errors
/// `Invalid` for text that is not SQL.
pub(super) fn tokens(sql: &str) -> Result<(Vec<TokenWithSpan>, Vec<String>)> {
    let mut tokens = letters::tokens(sql)?;
    let is_hint = |token: &TokenWithSpan| match &token.token {
        Token::Whitespace(Whitespace::MultiLineComment(comment)) => comment.starts_with('+'),
        _ => false,
    };
    let mut notices = Vec::new();
    if tokens.iter().any(is_hint) {
        tokens.retain(|token| !is_hint(token));
        notices.push("optimizer hints change nothing".to_owned());
    }
    texts::translate(&mut tokens);
    letters::join_digits(&mut tokens);
    letters::leave_out_parentheses(&mut tokens);
    identifier_clause::write_names(&mut tokens);
    multi_units::join(&mut tokens);
    multi_units::take_signs(&mut tokens);
    suffixes::write_casts(&mut tokens)?;
    letters::translate_signs(&mut tokens);
    map_types::write_parentheses(&mut tokens);
    pipes::enclose_queries(&mut tokens);
    session_variables::translate(&mut tokens)?;
    let left_out = statements::translate(&mut tokens)?;
    inline_tables::write_queries(&mut tokens);
    lambdas::rename_exists(&mut tokens);
    let left_out = left_out.into_iter().map(|clause| {
        format!("{clause} is left out: a table of the session keeps its values, and nothing else")
    });
    notices.extend(left_out);
    Ok((tokens, notices))
}

/// Tokens in the place of one that was written.
fn in_place_of(written: &TokenWithSpan, tokens: impl IntoIterator<Item = Token>) -> Vec<TokenWithSpan> {
    tokens.into_iter().map(|token| TokenWithSpan { token, span: written.span }).collect()
}
