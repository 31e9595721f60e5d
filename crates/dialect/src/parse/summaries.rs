//! `SUMMARIZE t` and `SUMMARIZE SELECT …`, which are read as a query over a table with a name that no statement writes.

use datafusion::sql::parser::Statement as AnyStatement;
use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, Query, SetExpr, Statement, TableAlias, TableFactor, TableWithJoins,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use yeoul_base::ErrorKind;

use super::template;
use crate::{Error, Result};

/// The name of the table.
const MARK: &str = "\u{0}summary";

/// Reads a `SUMMARIZE`, if the next word is that. `None` if it is not.
pub(super) fn read(parser: &mut Parser<'_>) -> Option<std::result::Result<Statement, ParserError>> {
    match &parser.peek_token_ref().token {
        Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("summarize") => {}
        _ => return None,
    }
    parser.next_token();
    Some(query(parser).map(|query| {
        let mut summary = template::query("SELECT * FROM (SELECT 1) AS t");
        if let TableFactor::Derived { subquery, alias, .. } =
            &mut template::select(&mut summary).from[0].relation
        {
            **subquery = query;
            let name = Ident::with_quote('"', MARK);
            *alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
        }
        Statement::Query(Box::new(summary))
    }))
}

/// The query that is to be summarized.
fn query(parser: &mut Parser<'_>) -> std::result::Result<Query, ParserError> {
    let begins_query = match &parser.peek_token_ref().token {
        Token::LParen => true,
        Token::Word(word) => {
            matches!(word.keyword, Keyword::SELECT | Keyword::WITH | Keyword::FROM | Keyword::VALUES)
                && word.quote_style.is_none()
        }
        _ => false,
    };
    if begins_query {
        return parser.parse_query().map(|query| *query);
    }
    let name = match &parser.peek_token_ref().token {
        Token::SingleQuotedString(file) => {
            let name = ObjectName::from(vec![Ident::with_quote('\'', file.clone())]);
            parser.next_token();
            name
        }
        _ => parser.parse_object_name(false)?,
    };
    let mut query = template::query("SELECT * FROM t");
    let mut relation = template::table("t");
    if let TableFactor::Table { name: of, .. } = &mut relation {
        *of = name;
    }
    template::select(&mut query).from = vec![TableWithJoins { relation, joins: Vec::new() }];
    Ok(query)
}

/// Refuses a `SUMMARIZE` within another statement than `EXPLAIN`, as in `PREPARE`.
///
/// # Errors
/// `Invalid`.
pub(super) fn check(written: &[TokenWithSpan], statement: &AnyStatement) -> Result<()> {
    let is_word = |token: &TokenWithSpan| matches!(&token.token, Token::Word(word) if word.value.eq_ignore_ascii_case("summarize"));
    let is_honoured = match statement {
        AnyStatement::Explain(explain) => summarized(&explain.statement).is_some(),
        statement => summarized(statement).is_some(),
    };
    if is_honoured || !written.iter().any(is_word) || !statement.to_string().contains(MARK) {
        return Ok(());
    }
    let text = "not supported: SUMMARIZE within another statement";
    Err(Error::new(ErrorKind::Invalid, text).with_hint("write it alone, or behind EXPLAIN"))
}

/// The query that a statement is to summarize.
pub(crate) fn summarized(statement: &AnyStatement) -> Option<&Query> {
    let AnyStatement::Statement(statement) = statement else { return None };
    let Statement::Query(query) = statement.as_ref() else { return None };
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    match select.from.first().map(|table| &table.relation) {
        Some(TableFactor::Derived { subquery, alias: Some(alias), .. }) if alias.name.value == MARK => {
            Some(subquery)
        }
        _ => None,
    }
}
