//! Visits of the SQL in a statement. The visit of the syntax tree is compiled once, and not once for each kind of visitor.

use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement as Sql, TableFactor, ValueWithSpan, VisitMut, VisitorMut,
};

/// Visits the SQL of a statement, whichever it is.
pub(crate) fn visit(statement: &mut Statement, visitor: &mut impl VisitorMut<Break = Infallible>) {
    let ControlFlow::Continue(()) = walk(statement, visitor);
}

/// Visits the SQL of a statement until the visitor breaks off.
pub(crate) fn walk<V: VisitorMut>(statement: &mut Statement, visitor: &mut V) -> ControlFlow<V::Break> {
    match statement {
        Statement::Statement(statement) => walk_in(statement.as_mut(), visitor),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => walk_in(query.as_mut(), visitor),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::Explain(explain) => walk(&mut explain.statement, visitor),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
    }
}

/// Visits a part of a statement until the visitor breaks off.
pub(crate) fn walk_in<V: VisitorMut>(part: &mut impl VisitMut, visitor: &mut V) -> ControlFlow<V::Break> {
    let mut kept = Kept { visitor, broken_off: None };
    match part.visit(&mut Erased(&mut kept)) {
        ControlFlow::Continue(()) => ControlFlow::Continue(()),
        ControlFlow::Break(()) => {
            ControlFlow::Break(kept.broken_off.expect("it is kept before the visit breaks off"))
        }
    }
}

/// Visits the expressions of a part of a statement, from the innermost outwards.
pub(crate) fn each_expression(part: &mut impl VisitMut, visit: &mut dyn FnMut(&mut Expr)) {
    struct Expressions<'a>(&'a mut dyn FnMut(&mut Expr));

    impl VisitorMut for Expressions<'_> {
        type Break = Infallible;

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
            (self.0)(expr);
            ControlFlow::Continue(())
        }
    }

    let ControlFlow::Continue(()) = walk_in(part, &mut Expressions(visit));
}

/// Some visitor.
struct Erased<'a>(&'a mut dyn VisitorMut<Break = ()>);

/// A visitor, and with what it broke off.
struct Kept<'a, V: VisitorMut> {
    visitor: &'a mut V,
    broken_off: Option<V::Break>,
}

impl<V: VisitorMut> Kept<'_, V> {
    fn keep(&mut self, outcome: ControlFlow<V::Break>) -> ControlFlow<()> {
        match outcome {
            ControlFlow::Continue(()) => ControlFlow::Continue(()),
            ControlFlow::Break(with) => {
                self.broken_off = Some(with);
                ControlFlow::Break(())
            }
        }
    }
}

/// The methods of both: what each visit does with a node.
macro_rules! visits {
    ($($visit:ident($node:ty)),* $(,)?) => {
        impl VisitorMut for Erased<'_> {
            type Break = ();

            $(fn $visit(&mut self, node: &mut $node) -> ControlFlow<()> {
                self.0.$visit(node)
            })*
        }

        impl<V: VisitorMut> VisitorMut for Kept<'_, V> {
            type Break = ();

            $(fn $visit(&mut self, node: &mut $node) -> ControlFlow<()> {
                let outcome = self.visitor.$visit(node);
                self.keep(outcome)
            })*
        }
    };
}

visits! {
    pre_visit_statement(Sql),
    post_visit_statement(Sql),
    pre_visit_query(Query),
    post_visit_query(Query),
    pre_visit_select(Select),
    post_visit_select(Select),
    pre_visit_relation(ObjectName),
    post_visit_relation(ObjectName),
    pre_visit_table_factor(TableFactor),
    post_visit_table_factor(TableFactor),
    pre_visit_expr(Expr),
    post_visit_expr(Expr),
    pre_visit_value(ValueWithSpan),
    post_visit_value(ValueWithSpan),
}
