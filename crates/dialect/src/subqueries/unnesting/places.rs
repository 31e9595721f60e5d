//! Where a subquery stands, and what becomes of it there once its rows are joined.

use std::sync::Arc;

use datafusion::common::alias::AliasGenerator;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, NullEquality, Result, ScalarValue, not_impl_err};
use datafusion::functions_aggregate::bool_and_or::bool_or;
use datafusion::functions_aggregate::count::{count, count_all};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    Distinct, Expr, FetchType, Filter, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, Projection,
    Subquery, SubqueryAlias, binary_expr, ident, lit, not, scalar_subquery, when,
};
use tracing::debug;

use super::super::correlated_subqueries::above_inner_join;
use super::super::scalar_subqueries::{counted, only_value};
use super::super::shape::{gives_one_row, has_subqueries, has_subquery, outer};
use super::dependent_join::{Dependent, DependentJoin, comparable, joined, key_columns};
use super::outer_columns::{free_columns, is_lateral};
use super::repeatable::repeats;
use crate::rewrite::{PlanWalk, TreeWalk, columns_of, map_expressions};

/// A node with joins below it in place of its subqueries: `None` if it has none that need it.
///
/// # Errors
/// If a lateral one cannot be joined. Other subqueries that cannot be are left.
pub(super) fn in_node(node: &LogicalPlan, names: &AliasGenerator) -> Result<Option<LogicalPlan>> {
    match node {
        LogicalPlan::Join(join) if is_lateral(&join.right) => in_lateral_join(join, node, names).map(Some),
        _ if !has_subqueries(node)? => Ok(None),
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            let filter = above_inner_join(node.clone())?;
            if filter.transformed { in_node(&filter.data, names) } else { Ok(None) }
        }
        LogicalPlan::Join(join) => in_condition(join, node, names),
        LogicalPlan::Filter(filter) => in_filter(filter, node, names),
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) => {
            in_expressions(node, Host::of(node.inputs()[0], names))
        }
        LogicalPlan::Sort(sort) => {
            in_expressions(node, Host { takes_all: true, ..Host::of(&sort.input, names) })
        }
        _ => Ok(None),
    }
}

fn in_lateral_join(join: &Join, node: &LogicalPlan, names: &AliasGenerator) -> Result<LogicalPlan> {
    if !matches!(join.join_type, JoinType::Inner | JoinType::Left) {
        return not_impl_err!("LATERAL in a join of this kind");
    }
    let mut host = Host::of(&join.left, names);
    let right = match join.right.as_ref() {
        LogicalPlan::SubqueryAlias(alias) => {
            let input = without_wrapper(&alias.input);
            LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(input, alias.alias.clone())?)
        }
        _ => without_wrapper(&join.right).as_ref().clone(),
    };
    let outer = free_columns(&right)?;
    let Dependent { plan, keys } = host.rows(&right, &outer)?;
    let on = join.on.iter().map(|(left, right)| left.clone().eq(right.clone()));
    let condition = conjunction(on.chain(join.filter.clone()));
    host.plan = host.joined(plan, &outer, &keys, condition, join.join_type)?;
    passing_on(node, host.plan)
}

fn without_wrapper(right: &Arc<LogicalPlan>) -> Arc<LogicalPlan> {
    match right.as_ref() {
        LogicalPlan::Subquery(subquery) => Arc::clone(&subquery.subquery),
        _ => Arc::clone(right),
    }
}

/// A plan with no more columns than those of `node`.
fn passing_on(node: &LogicalPlan, plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(LogicalPlan::Projection(Projection::try_new(columns_of(node), Arc::new(plan))?))
}

fn in_filter(filter: &Filter, node: &LogicalPlan, names: &AliasGenerator) -> Result<Option<LogicalPlan>> {
    let (mut above, mut below) = (Vec::new(), Vec::new());
    for condition in split_conjunction(&filter.predicate) {
        let is_above = condition.is_volatile() || has_subquery(condition)?;
        if is_above { &mut above } else { &mut below }.push(condition.clone());
    }
    // Rows that are left out anyway need no subquery.
    if let (Some(above), Some(below)) = (conjunction(above), conjunction(below)) {
        let input = LogicalPlan::Filter(Filter::try_new(below, Arc::clone(&filter.input))?);
        if repeats(&input, &[])? {
            let node = LogicalPlan::Filter(Filter::try_new(above, Arc::new(input.clone()))?);
            return in_expressions(&node, Host::of(&input, names));
        }
    }
    in_expressions(node, Host::of(&filter.input, names))
}

/// The `ON` of an outer join, whose subqueries are of one side each.
fn in_condition(join: &Join, node: &LogicalPlan, names: &AliasGenerator) -> Result<Option<LogicalPlan>> {
    let mut left = Host { takes_all: true, ..Host::of(&join.left, names) };
    let mut right = Host { takes_all: true, ..Host::of(&join.right, names) };
    let Some(condition) = &join.filter else { return Ok(None) };
    let condition = condition.clone().rewrite_up(&mut |expr| {
        let expr = left.replaced(expr)?;
        if expr.transformed { Ok(expr) } else { right.replaced(expr.data) }
    })?;
    if !condition.transformed {
        return Ok(None);
    }
    let (kind, equality) = (join.join_type, join.null_equality);
    let plan = joined(left.plan, right.plan, join.on.clone(), Some(condition.data), kind, equality)?;
    passing_on(node, plan).map(Some)
}

fn in_expressions(node: &LogicalPlan, mut host: Host<'_>) -> Result<Option<LogicalPlan>> {
    let is_filter = matches!(node, LogicalPlan::Filter(_));
    host.takes_comparisons |= !is_filter || compares_subqueries(node)?;
    let replaced =
        map_expressions(node.clone(), &mut |expr| expr.rewrite_up(&mut |expr| host.replaced(expr)))?;
    if !replaced.transformed {
        return Ok(None);
    }
    let plan = replaced.data.with_new_exprs(replaced.data.expressions(), vec![host.plan])?;
    let passes_on = is_filter || matches!(node, LogicalPlan::Window(_) | LogicalPlan::Sort(_));
    if passes_on { passing_on(node, plan).map(Some) } else { Ok(Some(plan)) }
}

/// True if a node compares a value that has a subquery in it with `ANY` or `ALL` of another.
fn compares_subqueries(node: &LogicalPlan) -> Result<bool> {
    let mut does = false;
    node.each_expression(&mut |expr| {
        does |= expr.has_any(&mut |expr| match expr {
            Expr::SetComparison(comparison) => has_subquery(&comparison.expr),
            _ => Ok(false),
        })?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(does)
}

/// The query around subqueries, to which their rows are joined.
struct Host<'a> {
    around: LogicalPlan,
    /// With what has been joined to it.
    plan: LogicalPlan,
    /// Whether DataFusion has no join for any predicate here.
    takes_all: bool,
    /// True if it has none for comparisons with `ANY` and `ALL`.
    takes_comparisons: bool,
    names: &'a AliasGenerator,
}

impl<'a> Host<'a> {
    fn of(around: &LogicalPlan, names: &'a AliasGenerator) -> Self {
        Self {
            around: around.clone(),
            plan: around.clone(),
            takes_all: false,
            takes_comparisons: false,
            names,
        }
    }

    /// The expression itself if it is a subquery that can stay, or has to.
    fn replaced(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        let replaced = match &expr {
            Expr::ScalarSubquery(subquery) if !free_columns(&subquery.subquery)?.is_empty() => {
                self.value(&subquery.subquery)
            }
            Expr::Exists(Exists { subquery, negated }) => {
                let outer = free_columns(&subquery.subquery)?;
                if outer.is_empty() && !self.takes_all {
                    return Ok(Transformed::no(expr));
                }
                self.exists(&subquery.subquery, &outer, *negated)
            }
            Expr::InSubquery(InSubquery { expr: value, subquery, negated }) => {
                if !self.takes_all && free_columns(&subquery.subquery)?.is_empty() {
                    return Ok(Transformed::no(expr));
                }
                let any = self.compared(value, Operator::Eq, subquery, false);
                any.map(|any| if *negated { not(any) } else { any })
            }
            Expr::SetComparison(SetComparison { expr: value, subquery, op, quantifier }) => {
                let is_taken = self.takes_all || self.takes_comparisons;
                if !is_taken && free_columns(&subquery.subquery)?.is_empty() {
                    return Ok(Transformed::no(expr));
                }
                let is_all = *quantifier == SetQuantifier::All;
                // All compare so if none compares otherwise.
                self.compared(value, *op, subquery, is_all).map(|any| if is_all { not(any) } else { any })
            }
            _ => return Ok(Transformed::no(expr)),
        };
        Ok(match replaced {
            Ok(replaced) => Transformed::yes(replaced),
            Err(error) => {
                debug!(%error, "a subquery is left");
                Transformed::no(expr)
            }
        })
    }

    /// The rows of a subquery for each of the values of its outer columns.
    fn rows(&self, subquery: &LogicalPlan, outer: &[Column]) -> Result<Dependent> {
        let has_all = |plan: &LogicalPlan| outer.iter().all(|column| plan.schema().has_column(column));
        let around = if has_all(&self.around) { &self.around } else { &self.plan };
        if !has_all(around) {
            return not_impl_err!("a column of a query further out");
        }
        if !free_columns(around)?.is_empty() || !repeats(around, outer)? {
            return not_impl_err!(
                "a query around a subquery that may give other rows when it is computed again"
            );
        }
        DependentJoin { around, outer, names: self.names }.rows(subquery)
    }

    fn joined(
        &self,
        rows: LogicalPlan,
        outer: &[Column],
        keys: &[Column],
        condition: Option<Expr>,
        join_type: JoinType,
    ) -> Result<LogicalPlan> {
        let plan = self.plan.clone();
        let outer = outer.iter().map(|outer| comparable(Expr::Column(outer.clone()), plan.schema()));
        let on = outer.collect::<Result<Vec<_>>>()?.into_iter().zip(key_columns(keys)).collect();
        joined(plan, rows, on, condition, join_type, NullEquality::NullEqualsNull)
    }

    /// The value of a subquery's only row, or null.
    fn value(&mut self, subquery: &Arc<LogicalPlan>) -> Result<Expr> {
        let outer = free_columns(subquery)?;
        let value = Expr::from(subquery.schema().qualified_field(0));
        let is_only = has_one_row_at_most(subquery)?;
        let rows = if is_only {
            Arc::clone(subquery)
        } else {
            let name = subquery.schema().field(0).name().clone();
            Arc::new(counted(Arc::clone(subquery), value, Vec::new(), name)?)
        };
        let value = Expr::from(rows.schema().qualified_field(0));
        let join_type = if gives_one_row(&rows) { JoinType::Inner } else { JoinType::Left };
        let Dependent { plan, keys } = self.rows(&rows, &outer)?;
        let name = self.names.next("__result");
        let columns = key_columns(&keys).into_iter().chain([value.alias(&name)]).collect();
        let plan = LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?);
        self.plan = self.joined(plan, &outer, &keys, None, join_type)?;
        let value = Expr::Column(Column::new_unqualified(name));
        Ok(if is_only { value } else { only_value(value) })
    }

    fn exists(&mut self, subquery: &Arc<LogicalPlan>, outer: &[Column], negated: bool) -> Result<Expr> {
        if outer.is_empty() {
            let rows = LogicalPlanBuilder::new_from_arc(Arc::clone(subquery)).limit(0, Some(1))?;
            let rows = rows.aggregate(Vec::<Expr>::new(), [count_all()])?.build()?;
            let rows = scalar_subquery(Arc::new(rows));
            return Ok(if negated { rows.eq(lit(0_i64)) } else { rows.gt(lit(0_i64)) });
        }
        let Dependent { plan, keys } = self.rows(subquery, outer)?;
        let found = Projection::try_new(key_columns(&keys), Arc::new(plan))?;
        let found = LogicalPlan::Distinct(Distinct::All(Arc::new(LogicalPlan::Projection(found))));
        let name = self.names.next("__exists");
        let columns = key_columns(&keys).into_iter().chain([lit(true).alias(&name)]).collect();
        let found = LogicalPlan::Projection(Projection::try_new(columns, Arc::new(found))?);
        self.plan = self.joined(found, outer, &keys, None, JoinType::Left)?;
        let found = Expr::Column(Column::new_unqualified(name));
        Ok(if negated { found.is_null() } else { found.is_not_null() })
    }

    /// A value as a column, beside which subqueries find it.
    fn column(&mut self, value: Expr) -> Result<Expr> {
        let name = self.names.next("__result");
        let columns = columns_of(&self.plan).into_iter().chain([value.alias(&name)]).collect();
        self.plan = LogicalPlan::Projection(Projection::try_new(columns, Arc::new(self.plan.clone()))?);
        Ok(Expr::Column(Column::new_unqualified(name)))
    }

    /// True if a value compares so with any of a subquery's rows, or `otherwise`: unknown if it does with none, and a comparison is
    /// unknown.
    fn compared(&mut self, value: &Expr, op: Operator, rows: &Subquery, otherwise: bool) -> Result<Expr> {
        if value.is_volatile() || value.contains_outer() {
            return not_impl_err!("a value that is not of the columns of its query");
        }
        let value = if has_subquery(value)? { &self.column(value.clone())? } else { value };
        let member = Expr::from(rows.subquery.schema().qualified_field(0));
        let compared = binary_expr(outer(value.clone(), self.plan.schema())?, op, member);
        let compared = if otherwise { not(compared) } else { compared };
        let any = when(ident(ANY), lit(true))
            .when(ident(KNOWN).lt(ident(ROWS)), lit(ScalarValue::Boolean(None)))
            .otherwise(lit(false))?;
        let rows = LogicalPlanBuilder::new_from_arc(Arc::clone(&rows.subquery))
            .project([compared.alias(COMPARED)])?
            .aggregate(
                Vec::<Expr>::new(),
                [
                    bool_or(ident(COMPARED)).alias(ANY),
                    count(ident(COMPARED)).alias(KNOWN),
                    count_all().alias(ROWS),
                ],
            )?
            .project([any.alias(ANY)])?
            .build()?;
        let rows = Arc::new(rows);
        if free_columns(&rows)?.is_empty() { Ok(scalar_subquery(rows)) } else { self.value(&rows) }
    }
}

const COMPARED: &str = "__compared";
const ANY: &str = "__any";
const KNOWN: &str = "__known";
const ROWS: &str = "__rows";

fn has_one_row_at_most(plan: &LogicalPlan) -> Result<bool> {
    Ok(match plan {
        LogicalPlan::Projection(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Distinct(Distinct::All(_)) => has_one_row_at_most(plan.inputs()[0])?,
        LogicalPlan::Limit(limit) => {
            matches!(limit.get_fetch_type()?, FetchType::Literal(Some(0 | 1)))
                || has_one_row_at_most(&limit.input)?
        }
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(_) => true,
        _ => false,
    })
}
