//! Comparisons with `ANY` and `ALL` elements of a list, which are null where nulls leave them open. DataFusion's `ANY` is false there.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Ident, UnaryOperator, Value};

use super::function_call::function_call;
use crate::types::list_functions::ANY_EQUALS;

/// Turns `x = ANY(list)` into a call of our function, `x <> ALL(list)` into its opposite, and other comparisons with `ANY` into those
/// with `ALL`. A list that is written out becomes that of an `IN`.
pub(super) fn call(expr: &mut Expr) {
    let (left, op, right, is_any) = match expr {
        Expr::AnyOp { left, compare_op, right, .. } => (left, compare_op, right, true),
        Expr::AllOp { left, compare_op, right } => (left, compare_op, right, false),
        _ => return,
    };
    if matches!(**right, Expr::Subquery(_)) {
        return;
    }
    let taken = |expr: &mut Expr| std::mem::replace(expr, Expr::value(Value::Null));
    *expr = match (&*op, is_any) {
        (BinaryOperator::Eq, true) => equals(taken(left), taken(right), false),
        (BinaryOperator::NotEq, false) => equals(taken(left), taken(right), true),
        (op, true) => {
            let Some(compare_op) = opposite(op) else { return };
            let (left, right) = (Box::new(taken(left)), Box::new(taken(right)));
            not(Expr::AllOp { left, compare_op, right })
        }
        _ => return,
    };
}

fn not(expr: Expr) -> Expr {
    let expr =
        Box::new(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(Expr::Nested(Box::new(expr))) });
    Expr::Nested(expr)
}

fn opposite(op: &BinaryOperator) -> Option<BinaryOperator> {
    Some(match op {
        BinaryOperator::NotEq => BinaryOperator::Eq,
        BinaryOperator::Lt => BinaryOperator::GtEq,
        BinaryOperator::LtEq => BinaryOperator::Gt,
        BinaryOperator::Gt => BinaryOperator::LtEq,
        BinaryOperator::GtEq => BinaryOperator::Lt,
        _ => return None,
    })
}

fn equals(value: Expr, list: Expr, negated: bool) -> Expr {
    match list {
        Expr::Array(list) if !list.elem.is_empty() => {
            Expr::Nested(Box::new(Expr::InList { expr: Box::new(value), list: list.elem, negated }))
        }
        list if negated => not(any_equals(list, value)),
        list => any_equals(list, value),
    }
}

fn any_equals(list: Expr, value: Expr) -> Expr {
    function_call(Ident::new(ANY_EQUALS), [list, value])
}

#[cfg(test)]
mod tests {
    use crate::parse::tests::called;

    #[test]
    fn comparisons_with_elements_have_three_values() {
        for (written, expected) in [
            ("SELECT a = ANY(l)", "SELECT any_equals(l, a)"),
            ("SELECT a <> ALL(l)", "SELECT (NOT (any_equals(l, a)))"),
            ("SELECT a > ANY(l)", "SELECT (NOT (a <= ALL(l)))"),
            ("SELECT a > ALL(l)", "SELECT a > ALL(l)"),
            ("SELECT a = ANY(ARRAY[1, NULL])", "SELECT (a IN (1, NULL))"),
            ("SELECT a <> ALL([b, 2])", "SELECT (a NOT IN (b, 2))"),
            ("SELECT a = ANY(SELECT 1)", "SELECT a = ANY(SELECT 1)"),
        ] {
            assert_eq!(called(written), expected, "{written}");
        }
    }
}
