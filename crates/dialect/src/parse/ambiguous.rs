//! What means one thing to users of PostgreSQL and DuckDB and another to users of Spark, and is refused so that nobody gets the other
//! one: `2 ^ 3`, a power or an exclusive or, and `list[0]`, nothing or the first element.

use datafusion::sql::sqlparser::ast::{AccessExpr, BinaryOperator, Expr, Subscript, Value, ValueWithSpan};
use yeoul_base::ErrorKind;

use crate::{Error, Result};

/// Refuses such an expression.
///
/// # Errors
/// `Invalid`, with what to write.
pub(super) fn check(expr: &Expr) -> Result<()> {
    let (what, hint) = match expr {
        Expr::BinaryOp { op: BinaryOperator::BitwiseXor, .. } => (
            "'^' is a power in some dialects and an exclusive or in others",
            "write power(2, 3), or (a | b) - (a & b) for the exclusive or",
        ),
        Expr::CompoundFieldAccess { access_chain, .. } if access_chain.iter().any(is_zero) => (
            "there is no element [0]: the elements of a list are numbered from 1",
            "write list[1] for the first element, which is list[0] in Spark",
        ),
        _ => return Ok(()),
    };
    Err(Error::new(ErrorKind::Invalid, what).with_hint(hint))
}

fn is_zero(access: &AccessExpr) -> bool {
    let AccessExpr::Subscript(Subscript::Index { index }) = access else { return false };
    matches!(index, Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. })
        if number.parse::<i64>().is_ok_and(|number| number == 0))
}
