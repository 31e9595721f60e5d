//! The columns that a subquery names of the queries around it, at whatever depth within it.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Subquery};

use super::super::kept_names::map_expressions;

/// The outer columns that a plan names and does not have itself, each once.
///
/// A subquery may name a column of any query around it: it is that of the innermost one that has a column of the name.
pub(super) fn free_columns(plan: &LogicalPlan) -> Result<Vec<Column>> {
    free_columns_below(plan, &DFSchema::empty())
}

/// Those which `around` does not have.
pub(super) fn free_columns_below(plan: &LogicalPlan, around: &DFSchema) -> Result<Vec<Column>> {
    let mut found = Vec::new();
    collect(plan, &mut vec![around.clone()], &mut found)?;
    Ok(found)
}

fn collect(plan: &LogicalPlan, around: &mut Vec<DFSchema>, found: &mut Vec<Column>) -> Result<()> {
    if let LogicalPlan::Subquery(subquery) = plan {
        return collect(&subquery.subquery, around, found);
    }
    plan.apply_expressions(|expr| {
        collect_in(expr, &plan.inputs(), around, found)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    if let LogicalPlan::Join(join) = plan
        && is_lateral(&join.right)
    {
        collect(&join.left, around, found)?;
        around.push(join.left.schema().as_ref().clone());
        collect(&join.right, around, found)?;
        around.pop();
        return Ok(());
    }
    plan.inputs().into_iter().try_for_each(|input| collect(input, around, found))
}

fn collect_in(
    expr: &Expr,
    inputs: &[&LogicalPlan],
    around: &mut Vec<DFSchema>,
    found: &mut Vec<Column>,
) -> Result<()> {
    expr.apply(|expr| {
        if let Expr::OuterReferenceColumn(_, column) = expr
            && !around.iter().any(|schema| schema.has_column(column))
            && !found.contains(column)
        {
            found.push(column.clone());
        }
        if let Some(subquery) = subquery_of(expr) {
            around.push(merge_schema(inputs));
            collect(&subquery.subquery, around, found)?;
            around.pop();
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// The subquery that an expression is.
pub(super) fn subquery_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery) => Some(subquery),
        Expr::InSubquery(is_in) => Some(&is_in.subquery),
        Expr::SetComparison(comparison) => Some(&comparison.subquery),
        Expr::Exists(exists) => Some(&exists.subquery),
        _ => None,
    }
}

fn subquery_in(expr: &mut Expr) -> Option<&mut Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery) => Some(subquery),
        Expr::InSubquery(is_in) => Some(&mut is_in.subquery),
        Expr::SetComparison(comparison) => Some(&mut comparison.subquery),
        Expr::Exists(exists) => Some(&mut exists.subquery),
        _ => None,
    }
}

/// Whether it is the right side of a `JOIN LATERAL`.
pub(super) fn is_lateral(right: &LogicalPlan) -> bool {
    match right {
        LogicalPlan::SubqueryAlias(alias) => matches!(*alias.input, LogicalPlan::Subquery(_)),
        other => matches!(other, LogicalPlan::Subquery(_)),
    }
}

/// Outer columns, and what they are called where they are to be had.
pub(super) struct Renamed<'a> {
    pub(super) outer: &'a [Column],
    pub(super) keys: &'a [Column],
}

impl Renamed<'_> {
    fn key(&self, column: &Column) -> Option<&Column> {
        self.outer.iter().position(|outer| outer == column).map(|place| &self.keys[place])
    }

    /// An expression of a node over `inputs`, which have the keys now: outer columns become columns, and those within its subqueries
    /// columns of the query directly around them.
    pub(super) fn own(&self, expr: Expr, inputs: &[&LogicalPlan]) -> Result<Expr> {
        let expr = expr.transform_up(|mut expr| {
            if let Expr::OuterReferenceColumn(_, column) = &expr {
                return Ok(match self.key(column) {
                    Some(key) => Transformed::yes(Expr::Column(key.clone())),
                    None => Transformed::no(expr),
                });
            }
            let Some(subquery) = subquery_in(&mut expr) else { return Ok(Transformed::no(expr)) };
            let renamed = self.within(subquery, &mut vec![merge_schema(inputs)])?;
            Ok(Transformed::new_transformed(expr, renamed))
        });
        expr.data()
    }

    /// The right side of a `JOIN LATERAL` whose left one has the keys now.
    pub(super) fn lateral(&self, right: &LogicalPlan, left: &LogicalPlan) -> Result<LogicalPlan> {
        self.below(right.clone(), &mut vec![left.schema().as_ref().clone()]).data()
    }

    fn within(&self, subquery: &mut Subquery, around: &mut Vec<DFSchema>) -> Result<bool> {
        let plan = self.below(subquery.subquery.as_ref().clone(), around)?;
        if plan.transformed {
            subquery.outer_ref_columns = plan.data.all_out_ref_exprs();
            subquery.subquery = Arc::new(plan.data);
        }
        Ok(plan.transformed)
    }

    fn below(&self, plan: LogicalPlan, around: &mut Vec<DFSchema>) -> Result<Transformed<LogicalPlan>> {
        let plan = match plan {
            LogicalPlan::Subquery(mut subquery) => {
                let renamed = self.within(&mut subquery, around)?;
                return Ok(Transformed::new_transformed(LogicalPlan::Subquery(subquery), renamed));
            }
            LogicalPlan::Join(join) if is_lateral(&join.right) => self.below_lateral(join, around)?,
            other => other.map_children(|input| self.below(input, around))?,
        };
        plan.transform_data(|plan| {
            let inputs: Vec<LogicalPlan> = plan.inputs().into_iter().cloned().collect();
            let inputs: Vec<&LogicalPlan> = inputs.iter().collect();
            map_expressions(plan, |expr| {
                expr.transform_up(|mut expr| {
                    if let Expr::OuterReferenceColumn(field, column) = &expr
                        && !around.iter().any(|schema| schema.has_column(column))
                        && let Some(key) = self.key(column)
                    {
                        let renamed = Expr::OuterReferenceColumn(Arc::clone(field), key.clone());
                        return Ok(Transformed::yes(renamed));
                    }
                    let Some(subquery) = subquery_in(&mut expr) else { return Ok(Transformed::no(expr)) };
                    around.push(merge_schema(&inputs));
                    let renamed = self.within(subquery, around);
                    around.pop();
                    Ok(Transformed::new_transformed(expr, renamed?))
                })
            })
        })
    }

    fn below_lateral(&self, mut join: Join, around: &mut Vec<DFSchema>) -> Result<Transformed<LogicalPlan>> {
        let left = self.below(join.left.as_ref().clone(), around)?;
        around.push(join.left.schema().as_ref().clone());
        let right = self.below(join.right.as_ref().clone(), around);
        around.pop();
        let right = right?;
        let renamed = left.transformed || right.transformed;
        (join.left, join.right) = (Arc::new(left.data), Arc::new(right.data));
        Ok(Transformed::new_transformed(LogicalPlan::Join(join), renamed))
    }
}
