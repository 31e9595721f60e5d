//! `x LIKE ANY ('a%', 'b%')` and `x LIKE ALL (…)`: a comparison with each pattern.

use std::mem;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Ident, Value};
use yeoul_base::ErrorKind;

use super::calls::values_of;
use super::expressions::taken;
use crate::functions::Seen;
use crate::{Error, Result};

/// Writes such a comparison as one with each pattern. `NOT` belongs to each of them.
///
/// # Errors
/// `Invalid` for no pattern, and for a text with another value each time.
pub(super) fn write_out(expr: &mut Expr) -> Result<()> {
    let (Expr::Like { any, pattern, .. } | Expr::ILike { any, pattern, .. }) = expr else { return Ok(()) };
    let (op, patterns) = match pattern.as_mut() {
        Expr::Tuple(patterns) if *any => (BinaryOperator::Or, mem::take(patterns)),
        Expr::Nested(pattern) if *any => (BinaryOperator::Or, vec![taken(pattern)]),
        Expr::Function(call) => {
            let op = match call.name.to_string().to_ascii_lowercase().as_str() {
                "all" => BinaryOperator::And,
                "any" | "some" => BinaryOperator::Or,
                _ => return Ok(()),
            };
            let Some(patterns) = values_of(call) else { return Ok(()) };
            (op, patterns)
        }
        _ => return Ok(()),
    };
    let like = taken(expr);
    let compared = |pattern: Expr| match like.clone() {
        Expr::Like { negated, expr, escape_char, .. } => {
            Expr::Like { negated, any: false, expr, pattern: Box::new(pattern), escape_char }
        }
        Expr::ILike { negated, expr, escape_char, .. } => {
            Expr::ILike { negated, any: false, expr, pattern: Box::new(pattern), escape_char }
        }
        other => other,
    };
    if let (2.., Expr::Like { expr: text, .. } | Expr::ILike { expr: text, .. }) = (patterns.len(), &like)
        && let Some(volatile) = Seen::of(text).volatile
    {
        let error =
            Error::new(ErrorKind::Invalid, format!("not supported: {volatile}() beside LIKE ANY or ALL"));
        return Err(error.with_hint("compute it in a subquery"));
    }
    let all = patterns.into_iter().map(compared).reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: op.clone(),
        right: Box::new(right),
    });
    let all = all.ok_or_else(|| {
        Error::new(ErrorKind::Invalid, "LIKE ANY and LIKE ALL take patterns in parentheses")
            .with_hint("write x LIKE ANY ('a%', 'b%')")
    })?;
    *expr = Expr::Nested(Box::new(all));
    Ok(())
}

/// `count(DISTINCT a, b)`: the rows of both that have no null, each once.
pub(super) fn distinct_rows(values: Vec<Expr>) -> Expr {
    let row = super::expressions::named_struct(values.clone());
    let are_there = values
        .into_iter()
        .map(|value| Expr::IsNotNull(Box::new(Expr::Nested(Box::new(value)))))
        .reduce(|left, right| Expr::BinaryOp {
            left: Box::new(left),
            op: BinaryOperator::And,
            right: Box::new(right),
        })
        .unwrap_or_else(|| Expr::value(Value::Boolean(true)));
    let mut case = crate::parse::template::expr("CASE WHEN a THEN b END");
    crate::parse::visit::each_expression(&mut case, &mut |expr| match expr {
        Expr::Identifier(Ident { value, .. }) if value == "a" => *expr = are_there.clone(),
        _ => {}
    });
    if let Expr::Case { conditions, .. } = &mut case {
        conditions[0].result = row;
    }
    case
}
