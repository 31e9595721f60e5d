//! Shapes of subqueries: the place where one stands, the sides of its conditions, and the rows that it gives.

use std::sync::Arc;

use crate::rewrite::{PlanWalk, TreeWalk};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, Result};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator};

/// Where a subquery stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A value: that of its one row, or null without one.
    Value,
    /// `IN`, `ANY` or `ALL`.
    Members,
    Exists,
    /// `JOIN LATERAL`, which drops an outer row for which the subquery has no row.
    InnerLateral,
    /// `LEFT JOIN LATERAL`.
    LeftLateral,
}

impl Place {
    pub(super) fn is_lateral(self) -> bool {
        matches!(self, Self::InnerLateral | Self::LeftLateral)
    }
}

/// True if a node's expressions have subqueries.
pub(super) fn has_subqueries(node: &LogicalPlan) -> Result<bool> {
    let mut has_any = false;
    node.each_expression(&mut |expr| {
        has_any |= has_subquery(expr)?;
        Ok(if has_any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(has_any)
}

pub(super) fn has_subquery(expr: &Expr) -> Result<bool> {
    expr.has_any(&mut |expr| {
        let is_predicate = matches!(expr, Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_));
        Ok(is_predicate || matches!(expr, Expr::ScalarSubquery(_)))
    })
}

/// True if a subquery is `SELECT aggregate(…) FROM …`, of which no condition leaves a row out.
pub(super) fn gives_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => gives_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => gives_one_row(&alias.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        _ => false,
    }
}

/// An expression of the query around a subquery, within that.
pub(super) fn outer(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let expr = expr.rewrite_up(&mut |expr| match expr {
        Expr::Column(column) => {
            let field = Arc::clone(schema.field_from_column(&column)?);
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        other => Ok(Transformed::no(other)),
    });
    expr.data()
}

/// The two sides of a condition `expression of the subquery = expression of the query around it`.
pub(super) fn sides(condition: &Expr) -> Option<(&Expr, &Expr)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else { return None };
    let is_inner = |expr: &Expr| expr.any_column_refs() && !expr.contains_outer();
    let is_outer = |expr: &Expr| expr.contains_outer() && !expr.any_column_refs();
    match (left.as_ref(), right.as_ref()) {
        (inner, outer) | (outer, inner) if is_inner(inner) && is_outer(outer) => Some((inner, outer)),
        _ => None,
    }
}

/// The column of which a condition lets one value through for each outer row, as DataFusion sees it.
pub(super) fn key_column<'a>(condition: &'a Expr, schema: &DFSchema) -> Result<Option<&'a Column>> {
    let Some((inner, _)) = sides(condition) else { return Ok(None) };
    Ok(match inner {
        Expr::Column(column) => Some(column),
        Expr::Cast(Cast { expr, field }) => match expr.as_ref() {
            Expr::Column(column) if is_widening(&expr.get_type(schema)?, field.data_type()) => Some(column),
            _ => None,
        },
        _ => None,
    })
}

/// True if a cast gives unlike values for unlike values. Comparisons of columns of unlike types have such casts.
fn is_widening(from: &DataType, to: &DataType) -> bool {
    let is_text = |kind: &DataType| matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    match (from, to) {
        (DataType::Dictionary(_, from), to) => from.as_ref() == to || is_widening(from, to),
        (DataType::Float32, DataType::Float64) | (DataType::Date32, DataType::Timestamp(..)) => true,
        (DataType::Timestamp(from, from_zone), DataType::Timestamp(to, to_zone)) => {
            from <= to && from_zone == to_zone
        }
        (DataType::Decimal128(_, from), DataType::Decimal128(_, to)) => from <= to,
        // A number that is too large is an error.
        (from, DataType::Decimal128(_, scale)) if from.is_integer() => *scale >= 0,
        (from, to) if from.is_integer() && to.is_integer() => {
            let is_wider = from.primitive_width() < to.primitive_width();
            from == to || is_wider && (from.is_unsigned_integer() || to.is_signed_integer())
        }
        (from, to) => from == to || is_text(from) && is_text(to),
    }
}
