//! The operands of `IS [NOT] DISTINCT FROM`. The parser takes everything after it as its right side: `a IS DISTINCT FROM b
//! AND c` becomes `a IS DISTINCT FROM (b AND c)`. An explicit parenthesis is a node of its own, so the two can be told
//! apart.

use std::mem;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value};

/// Precedence of an operator, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Or,
    And,
    Not,
    Firmer,
}

/// Turns an unparenthesised `x op (y AND z)`, which only that defect produces, into `(x op y) AND z`. Subexpressions have
/// been corrected already.
pub(super) fn loosen(expr: &mut Expr) {
    let Some((binding, right)) = right_of(expr) else { return };
    let is_looser = |expr: &Expr| match expr {
        Expr::BinaryOp { op, .. } => binding_of(op) <= binding && binding_of(op) != Binding::Firmer,
        _ => false,
    };
    if !is_looser(right) {
        return;
    }
    let mut above = take(right);
    let mut place = &mut above;
    // There may be thousands in a chain: recursion would overflow the stack.
    while is_looser(place) {
        let Expr::BinaryOp { left, .. } = place else { break };
        place = left;
    }
    *right = take(place);
    *place = take(expr);
    *expr = above;
}

/// The precedence of an expression's operator, and its last operand.
fn right_of(expr: &mut Expr) -> Option<(Binding, &mut Expr)> {
    match expr {
        Expr::BinaryOp { op, right, .. } => Some((binding_of(op), right)),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => Some((Binding::Not, expr)),
        Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) => Some((Binding::Firmer, right)),
        _ => None,
    }
}

fn binding_of(op: &BinaryOperator) -> Binding {
    match op {
        BinaryOperator::Or => Binding::Or,
        BinaryOperator::And => Binding::And,
        _ => Binding::Firmer,
    }
}

fn take(expr: &mut Expr) -> Expr {
    mem::replace(expr, Expr::value(Value::Null))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::ops::ControlFlow;

    use datafusion::sql::sqlparser::ast::VisitorMut;

    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::super::visit::walk_in;
    use super::*;

    struct Loosen;

    impl VisitorMut for Loosen {
        type Break = Infallible;

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
            loosen(expr);
            ControlFlow::Continue(())
        }
    }

    struct Bare;

    impl VisitorMut for Bare {
        type Break = Infallible;

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
            if let Expr::Nested(inner) = expr {
                *expr = take(inner);
            }
            ControlFlow::Continue(())
        }
    }

    /// The tree of a text, without its parentheses.
    fn tree(text: &str) -> Expr {
        let mut expr = Parser::new(&GenericDialect {}).try_with_sql(text).unwrap().parse_expr().unwrap();
        let ControlFlow::Continue(()) = walk_in(&mut expr, &mut Loosen);
        let ControlFlow::Continue(()) = walk_in(&mut expr, &mut Bare);
        expr
    }

    #[test]
    fn and_and_or_bind_looser_than_any_comparison() {
        for (written, meant) in [
            ("a IS DISTINCT FROM b AND c", "(a IS DISTINCT FROM b) AND c"),
            ("a IS NOT DISTINCT FROM b OR c", "(a IS NOT DISTINCT FROM b) OR c"),
            ("a IS DISTINCT FROM (b AND c) AND d", "(a IS DISTINCT FROM (b AND c)) AND d"),
            ("a IS DISTINCT FROM b + 1 AND c OR d", "((a IS DISTINCT FROM (b + 1)) AND c) OR d"),
            ("NOT a IS DISTINCT FROM b AND c", "(NOT (a IS DISTINCT FROM b)) AND c"),
            ("x AND a IS DISTINCT FROM b AND c", "(x AND (a IS DISTINCT FROM b)) AND c"),
            ("x AND a IS DISTINCT FROM b OR c", "(x AND (a IS DISTINCT FROM b)) OR c"),
            ("x OR a IS DISTINCT FROM b AND c", "x OR ((a IS DISTINCT FROM b) AND c)"),
            (
                "x OR NOT a IS DISTINCT FROM b AND c IS DISTINCT FROM d OR e",
                "(x OR ((NOT (a IS DISTINCT FROM b)) AND (c IS DISTINCT FROM d))) OR e",
            ),
            ("a OR b AND NOT c = d AND (e OR f)", "a OR ((b AND (NOT (c = d))) AND (e OR f))"),
        ] {
            assert_eq!(tree(written), tree(meant), "{written}");
        }
    }

    #[test]
    fn a_long_chain_takes_no_more_stack_than_a_short_one() {
        const TERMS: usize = 20_000;
        let chain = format!("a IS DISTINCT FROM b{}", " OR c".repeat(TERMS));
        let turned = std::thread::Builder::new().stack_size(1 << 20).spawn(move || {
            let mut expr =
                Parser::new(&GenericDialect {}).try_with_sql(&chain).unwrap().parse_expr().unwrap();
            loosen(&mut expr);
            // Dropping it as a whole would recurse into each term.
            let mut terms = 0;
            while let Expr::BinaryOp { left, .. } = expr {
                (expr, terms) = (*left, terms + 1);
            }
            (expr.to_string(), terms)
        });
        assert_eq!(turned.unwrap().join().unwrap(), ("a IS DISTINCT FROM b".to_owned(), TERMS));
    }
}
