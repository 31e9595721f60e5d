//! `IN`, `EXISTS`, `ANY` and `ALL` with subqueries as values, and the three values that they have.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::alias::AliasGenerator;
use datafusion::common::tree_node::{
    Transformed, TransformedResult, TreeNode, TreeNodeRecursion, TreeNodeRewriter,
};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result, ScalarValue};
use datafusion::functions_aggregate::count::count_all;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, binary_expr,
    exists, lit, not, scalar_subquery,
};
use yeoul_base::ErrorKind;

use super::correlated_subqueries::in_expressions;
use super::shape::{gives_one_row, has_subquery, outer};
use crate::Error;
use crate::rewrite::{PlanWalk, TreeWalk, columns_of, map_expressions};

/// The name of what a subquery gives, beside the columns of the query that it is in, which may have the same name.
const MEMBER: &str = "__member";

/// `IN`, `EXISTS`, `ANY` and `ALL` with subqueries as values, in `SELECT`, `GROUP BY`, aggregates and window functions.
///
/// DataFusion has joins for such a subquery in a filter only. Here it becomes a column that is computed below the node: of whether
/// the subquery's rows number more than none, which is a subquery of the kind that DataFusion joins anywhere.
pub(super) fn as_columns(node: LogicalPlan, names: &AliasGenerator) -> Result<Transformed<LogicalPlan>> {
    let passes_rows_on = matches!(node, LogicalPlan::Window(_));
    if !(passes_rows_on || matches!(node, LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_))) {
        return Ok(Transformed::no(node));
    }
    let mut values = Vec::new();
    let node = map_expressions(node, &mut |expr| {
        expr.rewrite_down(&mut |expr| {
            if !matches!(expr, Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_)) {
                return Ok(Transformed::no(expr));
            }
            let name = names.next("__value");
            values.push(expr.alias(name.clone()));
            Ok(Transformed::new(Expr::Column(Column::new_unqualified(name)), true, TreeNodeRecursion::Jump))
        })
    })?;
    let [input] = node.data.inputs()[..] else { return Ok(node) };
    if values.is_empty() {
        return Ok(node);
    }
    let outer = columns_of(&node.data);
    let columns = columns_of(input);
    let (values, input) = three_valued(values, input.clone(), names)?;
    let values = values.into_iter().map(counted).collect::<Result<Vec<_>>>()?;
    let input = LogicalPlanBuilder::from(input).project(columns.into_iter().chain(values))?.build()?;
    let input = in_expressions(input, names)?.data;
    let node = node.data.with_new_exprs(node.data.expressions(), vec![input])?;
    let node = LogicalPlanBuilder::from(node);
    Ok(Transformed::yes(if passes_rows_on { node.project(outer)?.build()? } else { node.build()? }))
}

/// `EXISTS` as a number of rows.
fn counted(expr: Expr) -> Result<Expr> {
    let counted = expr.rewrite_up(&mut |expr| {
        let Expr::Exists(Exists { subquery: Subquery { subquery, outer_ref_columns, .. }, negated }) = expr
        else {
            return Ok(Transformed::no(expr));
        };
        let rows = LogicalPlanBuilder::new_from_arc(subquery);
        // One row is enough, but a limit would be one for all outer rows together.
        let rows = if outer_ref_columns.is_empty() { rows.limit(0, Some(1))? } else { rows };
        let count = scalar_subquery(Arc::new(rows.aggregate(Vec::<Expr>::new(), [count_all()])?.build()?));
        Ok(Transformed::yes(if negated { count.eq(lit(0_i64)) } else { count.gt(lit(0_i64)) }))
    });
    counted.data()
}

/// Values with `IN`, `ANY` and `ALL` in them, and what they are computed of: `input`, with more columns where they need them.
fn three_valued(
    values: Vec<Expr>,
    input: LogicalPlan,
    names: &AliasGenerator,
) -> Result<(Vec<Expr>, LogicalPlan)> {
    let columns = columns_of(&input);
    let schema = Arc::clone(input.schema());
    let mut rewriter = ThreeValued { schema, unknowns: vec![None], names, values: Vec::new() };
    let values =
        values.into_iter().map(|value| value.rewrite(&mut rewriter).data()).collect::<Result<_>>()?;
    if rewriter.values.is_empty() {
        return Ok((values, input));
    }
    let below = LogicalPlanBuilder::from(input).project(columns.into_iter().chain(rewriter.values))?;
    // A value that is compared with a subquery may have another in it.
    Ok((values, as_columns(below.build()?, names)?.data))
}

/// A comparison whose subquery gives [`MEMBER`].
pub(super) fn with_member(mut comparison: SetComparison) -> Result<Expr> {
    let rows = &mut comparison.subquery.subquery;
    *rows = Arc::new(members(Arc::clone(rows))?.build()?);
    Ok(Expr::SetComparison(comparison))
}

/// The one column of a subquery as [`MEMBER`].
fn members(rows: Arc<LogicalPlan>) -> Result<LogicalPlanBuilder> {
    let member = Expr::from(rows.schema().qualified_field(0)).alias(MEMBER);
    LogicalPlanBuilder::from(rows).project([member])
}

/// The rewriting of `IN`, `ANY` and `ALL` in one expression.
pub(crate) struct ThreeValued<'a> {
    /// The columns of the query around the subqueries, with `values`.
    schema: DFSchemaRef,
    /// What an unknown may be taken for where an expression stands, from the filter's inwards: for false, which it keeps no more
    /// than that; for true beneath a `NOT`; for neither where they are told apart.
    unknowns: Vec<Option<bool>>,
    names: &'a AliasGenerator,
    /// What is to be computed before the filter.
    pub(super) values: Vec<Expr>,
}

impl TreeNodeRewriter for ThreeValued<'_> {
    type Node = Expr;

    fn f_down(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        let unknown = self.unknown();
        self.unknowns.push(match &expr {
            Expr::Not(_) => unknown.map(|taken| !taken),
            Expr::BinaryExpr(BinaryExpr { op: Operator::And | Operator::Or, .. }) => unknown,
            _ => None,
        });
        Ok(Transformed::no(expr))
    }

    fn f_up(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        self.unknowns.pop();
        let (any, all) = (SetQuantifier::Any, SetQuantifier::All);
        let expr = match expr {
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                self.is_in(*expr, subquery, negated)?
            }
            Expr::SetComparison(SetComparison { expr, subquery, op, .. })
                if gives_one_row(&subquery.subquery) =>
            {
                binary_expr(*expr, op, Expr::ScalarSubquery(subquery))
            }
            Expr::SetComparison(SetComparison { expr, subquery, op, quantifier })
                if (op, quantifier) == (Operator::Eq, any) || (op, quantifier) == (Operator::NotEq, all) =>
            {
                self.is_in(*expr, subquery, quantifier == all)?
            }
            Expr::SetComparison(mut comparison) => {
                let value = self.unmistakable(*comparison.expr, &comparison.subquery)?;
                comparison.expr = Box::new(value);
                with_member(comparison)?
            }
            other => return Ok(Transformed::no(other)),
        };
        Ok(Transformed::yes(expr))
    }
}

impl<'a> ThreeValued<'a> {
    /// The rewriting of a filter, which takes an unknown for false.
    pub(super) fn of_filter(schema: DFSchemaRef, names: &'a AliasGenerator) -> Self {
        Self { schema, unknowns: vec![Some(false)], names, values: Vec::new() }
    }

    /// What an unknown may be taken for where the expression stands that is looked at.
    fn unknown(&self) -> Option<bool> {
        self.unknowns.last().copied().flatten()
    }

    /// `value [NOT] IN (rows)`.
    fn is_in(&mut self, value: Expr, mut rows: Subquery, negated: bool) -> Result<Expr> {
        if gives_one_row(&rows.subquery) {
            let op = if negated { Operator::NotEq } else { Operator::Eq };
            return Ok(binary_expr(value, op, Expr::ScalarSubquery(rows)));
        }
        let unknown = self.unknown().map(|taken| taken != negated);
        let is_in = if unknown == Some(false) {
            let is_key = !has_subquery(&value)? && !value.is_volatile();
            let value = if is_key { value } else { self.unmistakable(value, &rows)? };
            if rows.subquery.head_output_expr()?.is_none() {
                // DataFusion does not find the column of VALUES, nor of what it has found to be empty.
                rows.subquery = Arc::new(members(rows.subquery)?.build()?);
            }
            Expr::InSubquery(InSubquery::new(Box::new(value), rows, false))
        } else {
            is_in(self.unmistakable(value, &rows)?, rows, &self.schema, unknown)?
        };
        Ok(if negated { not(is_in) } else { is_in })
    }

    /// A value of the outer query, to be used within a subquery: a column computed before the filter if it has a subquery or
    /// randomness in it, or if its columns may have the names of some of the subquery's.
    fn unmistakable(&mut self, value: Expr, rows: &Subquery) -> Result<Expr> {
        let is_correlated = !rows.outer_ref_columns.is_empty();
        let is_simple = !value.is_volatile() && !value.contains_outer() && !has_subquery(&value)?;
        if is_simple && !(is_correlated && value.any_column_refs()) {
            return Ok(value);
        }
        let name = self.names.next("__value");
        let value = value.alias(name.clone());
        let field =
            DFSchema::from_unqualified_fields([value.to_field(&self.schema)?.1].into(), HashMap::new())?;
        self.schema = Arc::new(self.schema.join(&field)?);
        self.values.push(value);
        Ok(Expr::Column(Column::new_unqualified(name)))
    }
}

/// `value IN (rows)`, where an unknown is not taken for false.
fn is_in(value: Expr, rows: Subquery, schema: &DFSchema, unknown: Option<bool>) -> Result<Expr> {
    let value_may_be_null = value.nullable(schema)?;
    let row_may_be_null = rows.subquery.schema().field(0).is_nullable();
    let is_correlated = !rows.outer_ref_columns.is_empty();
    let is_repeatable = is_repeatable(&rows.subquery)?;

    let rows = members(rows.subquery)?;
    let member = Expr::from(Column::new_unqualified(MEMBER));
    let is_equal = member.clone().eq(outer(value.clone(), schema)?);
    if !is_repeatable && (value_may_be_null || row_may_be_null) {
        return match unknown {
            // They are few, mostly: each may be compared with each.
            Some(_) => any(rows.filter(is_equal.is_not_false())?),
            None => {
                let what = "not supported: IN with a subquery that has a LIMIT or random(), within IS NULL, CASE or a function";
                let hint = "put the subquery's rows into a table first: CREATE TABLE … AS SELECT …";
                Err(Error::new(ErrorKind::Invalid, what).with_hint(hint).into())
            }
        };
    }
    // DISTINCT, because the rows of a correlated subquery repeat the columns that they are joined by.
    let any_alike = |rows: LogicalPlanBuilder| {
        any(if is_correlated { rows.project([lit(true)])?.distinct()? } else { rows })
    };
    let mut perhaps = Vec::new();
    if row_may_be_null {
        perhaps.push(any_alike(rows.clone().filter(member.is_null())?)?);
    }
    if value_may_be_null {
        perhaps.push(value.is_null().and(any_alike(rows.clone())?));
    }
    let is_in = any(rows.filter(is_equal)?)?;
    Ok(match (perhaps.into_iter().reduce(Expr::or), unknown) {
        (None, _) => is_in,
        (Some(perhaps), Some(_)) => is_in.or(perhaps),
        (Some(perhaps), None) => is_in.or(perhaps.and(lit(ScalarValue::Boolean(None)))),
    })
}

/// Whether there are rows: a join where they depend on the query around them, else a number.
fn any(rows: LogicalPlanBuilder) -> Result<Expr> {
    if !rows.plan().all_out_ref_exprs().is_empty() {
        return Ok(exists(rows.build()?.into()));
    }
    let count = rows.limit(0, Some(1))?.aggregate(Vec::<Expr>::new(), [count_all()])?;
    Ok(scalar_subquery(count.build()?.into()).gt(lit(0_i64)))
}

/// True if a subquery gives the same rows each time it runs.
fn is_repeatable(plan: &LogicalPlan) -> Result<bool> {
    let mut is_repeatable = true;
    plan.each_with_subqueries(&mut |node| {
        is_repeatable &= !matches!(node, LogicalPlan::Limit(_));
        node.each_expression(&mut |expr| {
            is_repeatable &= !expr.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(is_repeatable)
}
