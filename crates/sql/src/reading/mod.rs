//! Parses SQL, and corrects the places where DataFusion's parser reads something else than SQL means.
//!
//! - [`cast_keys`]: keys that differ by a cast only;
//! - [`chains`]: thousands of operators in a row;
//! - [`from_first`]: `FROM 'file'` alone;
//! - [`grouping_tuples`]: tuples among the keys of `GROUP BY`;
//! - [`materialized`]: `WITH x AS [NOT] MATERIALIZED`;
//! - [`numbers`]: words directly after a number;
//! - [`precedence`]: the operands of `IS [NOT] DISTINCT FROM`;
//! - [`same_names`]: columns of one `SELECT` that DataFusion would call the same;
//! - [`scopes`]: the tables that a column's name may be of;
//! - [`tables_alike`]: tables of one name in several schemas;

mod cast_keys;
mod chains;
mod from_first;
mod grouping_tuples;
mod materialized;
mod numbers;
mod precedence;
pub(crate) mod same_names;
pub(crate) mod scopes;
pub(crate) mod tables_alike;

use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::common::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{Expr, Select, VisitMut, VisitorMut};
use datafusion::sql::sqlparser::dialect::dialect_from_str;
use datafusion::sql::sqlparser::tokenizer::{Location, TokenWithSpan, Tokenizer};

use crate::identity::Identity;
use crate::{Place, Result, Span};

pub(crate) use same_names::normalized;

/// Parses one statement.
///
/// # Errors
/// `Invalid` for text that is not SQL.
pub(crate) fn read(sql: &str, state: &SessionState) -> Result<Statement> {
    let name = &state.config_options().sql_parser.dialect;
    // A text that cannot be split into tokens is refused by the parser.
    let tokens = dialect_from_str(name)
        .and_then(|dialect| Tokenizer::new(dialect.as_ref(), sql).tokenize_with_location().ok())
        .unwrap_or_default();
    chains::check(&tokens)?;
    let mut statement = state.sql_to_statement(&materialized::blank(sql, &tokens), name)?;
    numbers::check(&tokens)?;
    visit(&mut statement, &mut Corrections);
    Ok(statement)
}

/// The place of a token.
fn span_of(token: &TokenWithSpan) -> Span {
    let Location { line, column } = token.span.start;
    Span { place: Place { line, column }, chars: token.token.to_string().chars().count() as u64 }
}

/// Gives columns names of their own, if planning failed because they had the same: those of one `SELECT`, then casts. False if there is
/// nothing to change.
pub(crate) fn name_apart(statement: &mut Statement, error: &DataFusionError) -> bool {
    let is_apart = same_names::Apart::after(error).is_some_and(|mut apart| {
        visit(statement, &mut apart);
        apart.is_changed
    });
    is_apart || (cast_keys::may_be_cause(error) && name_casts(statement))
}

/// Names the casts of a statement, if they are not. False if it has none.
pub(crate) fn name_casts(statement: &mut Statement) -> bool {
    let mut names = cast_keys::NameCasts::default();
    if !statement.to_string().contains(Identity::NamedCast.sql_name()) {
        visit(statement, &mut names);
    }
    names.is_changed
}

/// Visits the SQL of a statement, whichever it is.
pub(crate) fn visit(statement: &mut Statement, visitor: &mut impl VisitorMut<Break = Infallible>) {
    let ControlFlow::Continue(()) = walk(statement, visitor);
}

/// Visits the SQL of a statement until the visitor breaks off.
pub(crate) fn walk<V: VisitorMut>(statement: &mut Statement, visitor: &mut V) -> ControlFlow<V::Break> {
    match statement {
        Statement::Statement(statement) => statement.visit(visitor),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => query.visit(visitor),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::Explain(explain) => walk(&mut explain.statement, visitor),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
    }
}

struct Corrections;

impl VisitorMut for Corrections {
    type Break = Infallible;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
        from_first::complete(select);
        grouping_tuples::take_apart(&mut select.group_by);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        precedence::loosen(expr);
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

    use super::*;

    /// The statement that a text is parsed as.
    pub(super) fn meant(written: &str) -> String {
        let mut statement = DFParser::parse_sql(written).unwrap().pop_front().unwrap();
        visit(&mut statement, &mut Corrections);
        statement.to_string()
    }
}
