//! `FETCH … WITH TIES`, `LIMIT … %`, and `DISTINCT ON` in subqueries, as conditions on window functions.
//!
//! - `ORDER BY k FETCH FIRST n ROWS WITH TIES` keeps the rows with `rank() OVER (ORDER BY k) <= n`: DataFusion has no `FETCH`.
//! - `LIMIT p %` keeps those with `row_number() OVER (ORDER BY k) <= floor(count(*) OVER () * p / 100)`.
//! - `DISTINCT ON (d) … ORDER BY k` keeps those with `row_number() OVER (PARTITION BY d ORDER BY k) <= 1`: DataFusion makes an aggregate
//!   of it, with which it cannot join a subquery that names columns of the query around.

use std::mem;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Distinct, Expr, OrderBy, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr,
    Value, ValueWithSpan, WindowSpec,
};

use super::refused::Clause;
use super::syntax::{self, all_of, binary, derived, nested, number, plain};
use crate::Result;
use crate::names::normalized;
use crate::parse::template;

/// Keeps the first `quantity` rows behind `offset`, and all that are equal to the last of them in the keys of `ORDER BY`.
///
/// # Errors
/// `Invalid` without keys, or with keys that only the query itself can name.
pub(super) fn with_ties(query: &mut Query, quantity: Expr, offset: Option<Expr>) -> Result<()> {
    let keys = match &query.order_by {
        Some(OrderBy { kind: OrderByKind::Expressions(keys), interpolate: _ }) => keys.clone(),
        Some(OrderBy { kind: OrderByKind::All(_), interpolate: _ }) => return Err(Clause::TiesKey.error()),
        None => return Err(Clause::TiesWithoutOrder.error()),
    };
    let last = match offset {
        Some(offset) => binary(nested(offset), BinaryOperator::Plus, nested(quantity)),
        None => nested(quantity),
    };
    let is_plain = |select: &Select| select.distinct.is_none() && select.qualify.is_none();
    if let SetExpr::Select(select) = query.body.as_mut()
        && is_plain(select)
    {
        let keys = resolved(&keys, select, Clause::TiesKey)?;
        select.qualify = Some(at_most("rank", Vec::new(), keys, last));
        return Ok(());
    }
    // What is computed later than window functions is computed in a subquery.
    if let Some(key) = keys.iter().find(|key| !matches!(key.expr, Expr::Identifier(_))) {
        return Err(Clause::TiesKey.error_at(&key.expr));
    }
    let body = mem::replace(query.body.as_mut(), SetExpr::Select(Box::new(all_of(Vec::new()))));
    let mut select = all_of(vec![derived(plain(body), None)]);
    select.qualify = Some(at_most("rank", Vec::new(), keys, last));
    *query.body = SetExpr::Select(Box::new(select));
    Ok(())
}

/// Keeps a share of the rows, in percent, behind `offset`; a row that is not wholly in it is left out, as in DuckDB.
///
/// # Errors
/// `Invalid` for a share that is not from 0 to 100, and with keys that only the query itself can name.
pub(super) fn with_share(query: &mut Query, percent: &str, offset: Option<Expr>) -> Result<()> {
    let is_share = percent.parse().is_ok_and(|percent: f64| (0.0..=100.0).contains(&percent));
    if !is_share {
        return Err(Clause::LimitShare.error());
    }
    let keys = match &query.order_by {
        Some(OrderBy { kind: OrderByKind::Expressions(keys), interpolate: _ }) => keys.clone(),
        Some(OrderBy { kind: OrderByKind::All(_), interpolate: _ }) => return Err(Clause::LimitShare.error()),
        None => Vec::new(),
    };
    let share = template::expr(&format!("floor(count(*) OVER () * {percent} / 100)"));
    let last = match offset {
        Some(offset) => binary(nested(offset), BinaryOperator::Plus, share),
        None => share,
    };
    let is_plain = |select: &Select| select.distinct.is_none() && select.qualify.is_none();
    if let SetExpr::Select(select) = query.body.as_mut()
        && is_plain(select)
    {
        let keys = resolved(&keys, select, Clause::LimitShare)?;
        select.qualify = Some(at_most("row_number", Vec::new(), keys, last));
        return Ok(());
    }
    if let Some(key) = keys.iter().find(|key| !matches!(key.expr, Expr::Identifier(_))) {
        return Err(Clause::LimitShare.error_at(&key.expr));
    }
    let body = mem::replace(query.body.as_mut(), SetExpr::Select(Box::new(all_of(Vec::new()))));
    let mut select = all_of(vec![derived(plain(body), None)]);
    select.qualify = Some(at_most("row_number", Vec::new(), keys, last));
    *query.body = SetExpr::Select(Box::new(select));
    Ok(())
}

/// Writes `DISTINCT ON` as a condition on `row_number()`.
///
/// # Errors
/// `Invalid` beside `QUALIFY`.
pub(super) fn distinct_on(query: &mut Query) -> Result<()> {
    let keys = match &query.order_by {
        Some(OrderBy { kind: OrderByKind::Expressions(keys), interpolate: _ }) => keys.clone(),
        Some(OrderBy { kind: OrderByKind::All(_), interpolate: _ }) | None => Vec::new(),
    };
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
    let Some(Distinct::On(groups)) = &select.distinct else { return Ok(()) };
    if select.qualify.is_some() {
        return Err(Clause::DistinctOnQualify.error());
    }
    let groups = groups.iter().map(|group| named_by(group, select, Clause::GroupPosition));
    let groups = groups.collect::<Result<Vec<_>>>()?;
    let keys = resolved(&keys, select, Clause::GroupPosition)?;
    select.qualify = Some(at_most("row_number", groups, keys, number("1")));
    select.distinct = None;
    Ok(())
}

/// `function() OVER (PARTITION BY groups ORDER BY keys) <= last`.
fn at_most(function: &str, groups: Vec<Expr>, keys: Vec<OrderByExpr>, last: Expr) -> Expr {
    let over = WindowSpec { window_name: None, partition_by: groups, order_by: keys, window_frame: None };
    let call = syntax::function(function, Some(over));
    binary(call, BinaryOperator::LtEq, last)
}

fn resolved(keys: &[OrderByExpr], select: &Select, clause: Clause) -> Result<Vec<OrderByExpr>> {
    let key = |key: &OrderByExpr| {
        Ok(OrderByExpr {
            expr: named_by(&key.expr, select, clause)?,
            options: key.options,
            with_fill: key.with_fill.clone(),
        })
    };
    keys.iter().map(key).collect()
}

/// The expression that a key stands for: a place or a name of a column of the answer.
///
/// # Errors
/// `clause` for the place of a `*`, or of nothing.
pub(super) fn named_by(key: &Expr, select: &Select, clause: Clause) -> Result<Expr> {
    match key {
        Expr::Value(ValueWithSpan { value: Value::Number(_, _), span: _ }) => at_place(key, select, clause),
        Expr::Identifier(name) => {
            let named = select.projection.iter().find_map(|item| match item {
                SelectItem::ExprWithAlias { expr, alias } => {
                    (normalized(alias) == normalized(name)).then_some(expr)
                }
                _ => None,
            });
            Ok(named.unwrap_or(key).clone())
        }
        _ => Ok(key.clone()),
    }
}

/// The expression at the place that a number means.
///
/// # Errors
/// `clause` for the place of a `*`, or of nothing.
pub(super) fn at_place(key: &Expr, select: &Select, clause: Clause) -> Result<Expr> {
    let Expr::Value(ValueWithSpan { value: Value::Number(place, _), span: _ }) = key else {
        return Ok(key.clone());
    };
    let place = place.parse::<usize>().ok().and_then(|place| place.checked_sub(1));
    let is_named = |item: &SelectItem| {
        matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { expr: _, alias: _ })
    };
    let counted = place.filter(|place| select.projection.iter().take(*place).all(is_named));
    match counted.and_then(|place| select.projection.get(place)) {
        Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, alias: _ }) => {
            Ok(expr.clone())
        }
        _ => Err(clause.error_at(key)),
    }
}
