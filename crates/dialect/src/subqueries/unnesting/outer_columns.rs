//! The columns that a subquery names of the queries around it, at whatever depth within it.

use std::sync::Arc;

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Subquery};

use crate::rewrite::{PlanWalk, TreeWalk, map_expressions};

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
    plan.each_expression(&mut |expr| {
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
    expr.each(&mut |expr| {
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

/// True if it is the right side of a `JOIN LATERAL`.
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
        let expr = expr.rewrite_up(&mut |mut expr| {
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
        let mut around = vec![left.schema().as_ref().clone()];
        map_outer_columns(right.clone(), &mut around, &|field, column, around| {
            self.renamed(field, column, around)
        })
        .data()
    }

    fn within(&self, subquery: &mut Subquery, around: &mut Vec<DFSchema>) -> Result<bool> {
        map_subquery(subquery, around, &|field, column, around| self.renamed(field, column, around))
    }

    fn renamed(&self, field: &FieldRef, column: &Column, around: &[DFSchema]) -> Option<Expr> {
        let is_own = around.iter().any(|schema| schema.has_column(column));
        let key = if is_own { None } else { self.key(column) };
        key.map(|key| Expr::OuterReferenceColumn(Arc::clone(field), key.clone()))
    }
}

/// What an outer column becomes within queries of these columns, the outermost first; `None` if it stays.
pub(in super::super) type MapOuter<'a> = &'a dyn Fn(&FieldRef, &Column, &[DFSchema]) -> Option<Expr>;

fn map_subquery(subquery: &mut Subquery, around: &mut Vec<DFSchema>, map: MapOuter) -> Result<bool> {
    let plan = map_outer_columns(subquery.subquery.as_ref().clone(), around, map)?;
    if plan.transformed {
        subquery.outer_ref_columns = plan.data.all_out_ref_exprs();
        subquery.subquery = Arc::new(plan.data);
    }
    Ok(plan.transformed)
}

/// A plan with other outer columns, at whatever depth within it. `around` has the columns of the queries around it.
pub(in super::super) fn map_outer_columns(
    plan: LogicalPlan,
    around: &mut Vec<DFSchema>,
    map: MapOuter,
) -> Result<Transformed<LogicalPlan>> {
    let plan = match plan {
        LogicalPlan::Subquery(mut subquery) => {
            let mapped = map_subquery(&mut subquery, around, map)?;
            return Ok(Transformed::new_transformed(LogicalPlan::Subquery(subquery), mapped));
        }
        LogicalPlan::Join(join) if is_lateral(&join.right) => map_lateral(join, around, map)?,
        other => other.map_children(|input| map_outer_columns(input, around, map))?,
    };
    plan.transform_data(|plan| {
        let inputs: Vec<LogicalPlan> = plan.inputs().into_iter().cloned().collect();
        let inputs: Vec<&LogicalPlan> = inputs.iter().collect();
        map_expressions(plan, &mut |expr| {
            expr.rewrite_up(&mut |mut expr| {
                if let Expr::OuterReferenceColumn(field, column) = &expr
                    && let Some(mapped) = map(field, column, around)
                {
                    return Ok(Transformed::yes(mapped));
                }
                let Some(subquery) = subquery_in(&mut expr) else { return Ok(Transformed::no(expr)) };
                around.push(merge_schema(&inputs));
                let mapped = map_subquery(subquery, around, map);
                around.pop();
                Ok(Transformed::new_transformed(expr, mapped?))
            })
        })
    })
}

fn map_lateral(
    mut join: Join,
    around: &mut Vec<DFSchema>,
    map: MapOuter,
) -> Result<Transformed<LogicalPlan>> {
    let left = map_outer_columns(join.left.as_ref().clone(), around, map)?;
    around.push(join.left.schema().as_ref().clone());
    let right = map_outer_columns(join.right.as_ref().clone(), around, map);
    around.pop();
    let right = right?;
    let mapped = left.transformed || right.transformed;
    (join.left, join.right) = (Arc::new(left.data), Arc::new(right.data));
    Ok(Transformed::new_transformed(LogicalPlan::Join(join), mapped))
}
