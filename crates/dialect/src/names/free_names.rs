//! Free names of an expression: those without a table that no query and no lambda within it has made.

use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Query, VisitorMut};

use super::normalized;
use crate::parse::visit::walk_in;

/// Calls `visit` with each free name of an expression.
pub(crate) fn each_free_name(expr: &mut Expr, visit: &mut dyn FnMut(&mut Expr, &str)) {
    let mut names = Names { visit, queries: 0, parameters: Vec::new() };
    let ControlFlow::Continue(()) = walk_in(expr, &mut names);
}

struct Names<'a> {
    visit: &'a mut dyn FnMut(&mut Expr, &str),
    /// Queries around what is visited.
    queries: usize,
    /// Parameters of the lambdas around what is visited.
    parameters: Vec<Vec<String>>,
}

impl VisitorMut for Names<'_> {
    type Break = Infallible;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Infallible> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Infallible> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        if let Expr::Lambda(lambda) = expr {
            let parameters = lambda.params.as_ref().iter();
            self.parameters.push(parameters.map(|parameter| normalized(&parameter.name)).collect());
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        if matches!(expr, Expr::Lambda(_)) {
            self.parameters.pop();
        }
        if let Expr::Identifier(name) = expr
            && self.queries == 0
        {
            let name = normalized(name);
            if !self.parameters.iter().flatten().any(|parameter| *parameter == name) {
                (self.visit)(expr, &name);
            }
        }
        ControlFlow::Continue(())
    }
}
