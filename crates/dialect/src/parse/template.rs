//! Templates: pieces of SQL that a rewriting fills with those of a statement. Their tokens have no place in its text.

use datafusion::sql::sqlparser::ast::{Expr, Query, Select, SetExpr, Statement, TableFactor};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use super::grammar::Grammar;

/// The query of a text of ours.
pub(crate) fn query(text: &str) -> Query {
    *parsed(text, |parser| parser.parse_query())
}

/// The statement of a text of ours.
pub(crate) fn statement(text: &str) -> Statement {
    parsed(text, |parser| parser.parse_statement())
}

/// The expression of a text of ours.
pub(crate) fn expr(text: &str) -> Expr {
    parsed(text, |parser| parser.parse_expr())
}

/// The table of a text of ours.
pub(crate) fn table(text: &str) -> TableFactor {
    parsed(text, |parser| parser.parse_table_factor())
}

/// The `SELECT` of such a query.
pub(crate) fn select(query: &mut Query) -> &mut Select {
    match query.body.as_mut() {
        SetExpr::Select(select) => select,
        _ => unreachable!("a template with another body than a SELECT"),
    }
}

/// The tokens of a text of ours.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let tokens = Tokenizer::new(&Grammar, text).tokenize();
    tokens.unwrap_or_else(|error| panic!("the template {text}: {error}"))
}

fn parsed<T>(text: &str, parse: impl FnOnce(&mut Parser<'_>) -> Result<T, ParserError>) -> T {
    let mut parser = Parser::new(&Grammar).with_tokens(tokens(text));
    parse(&mut parser).unwrap_or_else(|error| panic!("the template {text}: {error}"))
}
