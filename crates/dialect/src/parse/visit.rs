//! Visits of the SQL in a statement.

use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{VisitMut, VisitorMut};

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
