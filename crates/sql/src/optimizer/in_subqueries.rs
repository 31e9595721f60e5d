use std::sync::Arc;

use datafusion::common::tree_node::{
    Transformed, TransformedResult, TreeNode, TreeNodeRecursion, TreeNodeRewriter,
};
use datafusion::common::{Column, DFSchema, ExprSchema, Result, ScalarValue, not_impl_err};
use datafusion::execution::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::functions_aggregate::count::count_all;
use datafusion::logical_expr::expr::{InList, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, binary_expr,
    exists, lit, not, scalar_subquery,
};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// The name of what a subquery gives, beside the columns of the query that it is in, which may have the same name.
const MEMBER: &str = "__member";

/// `IN` and `NOT IN` with subqueries, of which nulls make neither true nor false.
///
/// DataFusion has one join for all of them, whose answer is true or false (datafusion#25336, #25347). Here `value IN (rows)` is
/// `EXISTS (rows equal to value) OR perhaps AND NULL`, where *perhaps* is that a row is null, or that there are rows and the
/// value is null. Each part of it is a join by equality, or is found out once for the whole statement.
///
/// What DataFusion makes something else of, by moving conditions on columns of the query around a subquery out of it, is refused.
///
/// Only filters have such joins. DataFusion's own rules make a filter of what stands elsewhere, such as the `ON` of a join: so
/// this is the first rule of each of their rounds.
#[derive(Debug)]
pub(crate) struct InSubqueries;

impl InSubqueries {
    /// `state` with this rule in its place.
    pub(crate) fn add_to(state: SessionState) -> SessionState {
        let mut rules = state.optimizers().to_vec();
        rules.insert(0, Arc::new(Self));
        SessionStateBuilder::new_from_existing(state).with_optimizer_rules(rules).build()
    }
}

impl OptimizerRule for InSubqueries {
    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        plan.transform_up_with_subqueries(|node| {
            let LogicalPlan::Filter(mut filter) = node else { return Ok(Transformed::no(node)) };
            let mut rewriter = ThreeValued { schema: filter.input.schema(), unknowns: vec![Some(false)] };
            let predicate = filter.predicate.rewrite(&mut rewriter)?;
            filter.predicate = predicate.data;
            Ok(Transformed::new_transformed(LogicalPlan::Filter(filter), predicate.transformed))
        })
    }

    fn name(&self) -> &str {
        "in_subqueries"
    }
}

struct ThreeValued<'a> {
    /// The columns of the query around the subqueries.
    schema: &'a DFSchema,
    /// What an unknown may be taken for where an expression stands, from the filter's inwards: for false, which it keeps no more
    /// than that; for true beneath a `NOT`; for neither where they are told apart.
    unknowns: Vec<Option<bool>>,
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
            Expr::SetComparison(SetComparison { expr, subquery, op, quantifier })
                if (op, quantifier) == (Operator::Eq, any) || (op, quantifier) == (Operator::NotEq, all) =>
            {
                self.is_in(*expr, subquery, quantifier == all)?
            }
            // DataFusion takes it for a subquery that may give any number of rows.
            Expr::InList(InList { expr, mut list, negated })
                if matches!(list.as_slice(), [Expr::ScalarSubquery(_)]) =>
            {
                equals(*expr, list.swap_remove(0), negated)
            }
            Expr::Exists(exists) => {
                check(&exists.subquery, true)?;
                return Ok(Transformed::no(Expr::Exists(exists)));
            }
            Expr::SetComparison(comparison) => {
                check(&comparison.subquery, false)?;
                return Ok(Transformed::no(Expr::SetComparison(comparison)));
            }
            other => return Ok(Transformed::no(other)),
        };
        Ok(Transformed::yes(expr))
    }
}

impl ThreeValued<'_> {
    /// What an unknown may be taken for where the expression stands that is looked at.
    fn unknown(&self) -> Option<bool> {
        self.unknowns.last().copied().flatten()
    }

    /// `value [NOT] IN (rows)`.
    fn is_in(&self, value: Expr, rows: Subquery, negated: bool) -> Result<Expr> {
        if gives_one_row(&rows.subquery) {
            return Ok(equals(value, Expr::ScalarSubquery(rows), negated));
        }
        check(&rows, false)?;
        let unknown = self.unknown().map(|taken| taken != negated);
        let is_in = if unknown == Some(false) {
            Expr::InSubquery(InSubquery::new(Box::new(value), rows, false))
        } else {
            is_in(value, rows, self.schema, unknown)?
        };
        Ok(if negated { not(is_in) } else { is_in })
    }
}

fn equals(left: Expr, right: Expr, negated: bool) -> Expr {
    binary_expr(left, if negated { Operator::NotEq } else { Operator::Eq }, right)
}

/// `value IN (rows)`, where an unknown is not taken for false.
fn is_in(value: Expr, rows: Subquery, schema: &DFSchema, unknown: Option<bool>) -> Result<Expr> {
    let value_may_be_null = value.nullable(schema)?;
    let row_may_be_null = rows.subquery.schema().field(0).is_nullable();
    let is_correlated = !rows.outer_ref_columns.is_empty();
    let is_repeatable = is_repeatable(&rows.subquery)?;

    let member = Expr::from(rows.subquery.schema().qualified_field(0)).alias(MEMBER);
    let rows = LogicalPlanBuilder::from(rows.subquery).project([member])?;
    let member = Expr::from(Column::new_unqualified(MEMBER));
    let is_equal = member.clone().eq(outer(value.clone(), schema)?);
    if !is_repeatable && (value_may_be_null || row_may_be_null) {
        return match unknown {
            // They are few, mostly: each may be compared with each.
            Some(_) => any(rows.filter(is_equal.is_not_false())?),
            None => not_impl_err!(
                "IN with a subquery whose rows differ from time to time, where unknown is told from false"
            ),
        };
    }
    // Of rows that are alike one is enough, which matters where many have the same columns to join by.
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

/// An expression of the query around a subquery, within that.
fn outer(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let expr = expr.transform(|expr| match expr {
        Expr::Column(column) => {
            let field = Arc::clone(schema.field_from_column(&column)?);
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        other => Ok(Transformed::no(other)),
    });
    expr.data()
}

/// Whether a subquery is `SELECT aggregate(…) FROM …`, of which no condition leaves a row out.
fn gives_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => gives_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => gives_one_row(&alias.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        _ => false,
    }
}

/// Whether a subquery gives the same rows whenever it is asked.
fn is_repeatable(plan: &LogicalPlan) -> Result<bool> {
    let is_chosen = plan.exists(|node| {
        let mut is_volatile = false;
        node.apply_expressions(|expr| {
            is_volatile |= expr.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(is_volatile || matches!(node, LogicalPlan::Limit(_)))
    });
    is_chosen.map(|is_chosen| !is_chosen)
}

/// # Errors
/// `NotImplemented` for a subquery whose rows depend on the query around it, where DataFusion would take the condition that
/// says so out of what it decides about: the rows of a group, a window or a `LIMIT`.
fn check(rows: &Subquery, is_exists: bool) -> Result<()> {
    if rows.outer_ref_columns.is_empty() {
        return Ok(());
    }
    let plan = match rows.subquery.as_ref() {
        LogicalPlan::Limit(limit) if is_exists && limit.skip.is_none() => &limit.input,
        _ => &rows.subquery,
    };
    let is_of_all = plan.exists(|node| {
        Ok(match node {
            LogicalPlan::Limit(_) => true,
            LogicalPlan::Window(_) => !node.all_out_ref_exprs().is_empty(),
            LogicalPlan::Aggregate(aggregate) => {
                aggregate.group_expr.is_empty() && !node.all_out_ref_exprs().is_empty()
            }
            _ => false,
        })
    });
    if !is_of_all? {
        return Ok(());
    }
    not_impl_err!(
        "a subquery of IN, EXISTS, ANY or ALL that names a column of the query around it and has a LIMIT, a window function or an aggregate without GROUP BY"
    )
}
