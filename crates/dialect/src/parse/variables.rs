//! `SET VARIABLE name = value` and `RESET VARIABLE name`, which are read as a query over a table with a name that no statement writes.

use datafusion::sql::parser::Statement as AnyStatement;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, SelectItem, SetExpr, Statement, TableAlias, TableFactor,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use yeoul_base::ErrorKind;

use super::template;
use super::words::{is, words};
use crate::{Error, Result};

/// The name of the table.
const MARK: &str = "\u{0}variable";

/// Writes `RESET VARIABLE name` as `SET VARIABLE name = NULL`: a variable that is not set is null.
pub(super) fn reset(tokens: &mut Vec<TokenWithSpan>) {
    let places = words(tokens);
    let is_at =
        |word: usize, keyword| places.get(word).is_some_and(|place| is(&tokens[*place].token, keyword));
    let [verb, _, name, rest @ ..] = places.as_slice() else { return };
    let ends = rest.first().is_none_or(|end| matches!(tokens[*end].token, Token::EOF | Token::SemiColon));
    if is_at(0, Keyword::RESET) && is_at(1, Keyword::VARIABLE) && ends {
        let (verb, behind, span) = (*verb, *name + 1, tokens[*name].span);
        tokens[verb].token = Token::make_keyword("SET");
        let null = [Token::Eq, Token::make_keyword("NULL")];
        tokens.splice(behind..behind, null.map(|token| TokenWithSpan { token, span }));
    }
}

/// Reads a `SET VARIABLE`, if it is next; `None` if it is not.
pub(super) fn read(parser: &mut Parser<'_>) -> Option<std::result::Result<Statement, ParserError>> {
    let is_set = is(&parser.peek_nth_token_ref(0).token, Keyword::SET)
        && is(&parser.peek_nth_token_ref(1).token, Keyword::VARIABLE)
        && matches!(parser.peek_nth_token_ref(2).token, Token::Word(_));
    if !is_set {
        return None;
    }
    Some(assignment(parser))
}

fn assignment(parser: &mut Parser<'_>) -> std::result::Result<Statement, ParserError> {
    parser.expect_keywords(&[Keyword::SET, Keyword::VARIABLE])?;
    let name = parser.parse_identifier()?;
    if !parser.parse_keyword(Keyword::TO) {
        parser.expect_token(&Token::Eq)?;
    }
    let expr = parser.parse_expr()?;
    Ok(Statement::Query(Box::new(marked(name, expr))))
}

/// The query that says so.
fn marked(name: Ident, expr: Expr) -> Query {
    let mut query = template::query("SELECT 1 FROM (SELECT 1) AS t");
    let select = template::select(&mut query);
    // Case does not count, as in DuckDB.
    let alias = Ident::with_quote('"', name.value.to_lowercase());
    select.projection = vec![SelectItem::ExprWithAlias { expr, alias }];
    if let TableFactor::Derived { alias, .. } = &mut select.from[0].relation {
        let name = Ident::with_quote('"', MARK);
        *alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
    }
    query
}

/// Refuses a `SET VARIABLE` within another statement, as in `PREPARE`.
///
/// # Errors
/// `Invalid`.
pub(super) fn check(written: &[TokenWithSpan], statement: &AnyStatement) -> Result<()> {
    let is_word = |token: &TokenWithSpan| is(&token.token, Keyword::VARIABLE);
    if assigned(statement).is_some() || !written.iter().any(is_word) || !statement.to_string().contains(MARK)
    {
        return Ok(());
    }
    let text = "not supported: SET VARIABLE within another statement";
    Err(Error::new(ErrorKind::Invalid, text).with_hint("write it alone"))
}

/// The variable that a statement sets, and the query whose only value it gets; `None` for other statements.
pub(crate) fn assigned(statement: &AnyStatement) -> Option<(String, AnyStatement)> {
    let AnyStatement::Statement(statement) = statement else { return None };
    let Statement::Query(query) = statement.as_ref() else { return None };
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let TableFactor::Derived { alias: Some(alias), .. } = &select.from.first()?.relation else { return None };
    if alias.name.value != MARK {
        return None;
    }
    let [SelectItem::ExprWithAlias { expr: _, alias: name }] = select.projection.as_slice() else {
        return None;
    };
    let name = name.value.clone();
    let mut query = query.clone();
    template::select(&mut query).from = Vec::new();
    Some((name, AnyStatement::Statement(Box::new(Statement::Query(query)))))
}
