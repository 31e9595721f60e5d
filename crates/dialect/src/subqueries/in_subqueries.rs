//! `IN` with subqueries in filters, which is unknown where nulls make it neither true nor false.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::alias::AliasGenerator;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use super::shape::has_subqueries;
use super::value_subqueries::{ThreeValued, as_columns, with_member};
use crate::rewrite::{PlanWalk, TreeWalk, columns_of};

/// `IN` and `NOT IN` with subqueries, of which nulls make neither true nor false; and the other comparisons with `ANY` and `ALL`.
///
/// DataFusion has one join for all of them, whose answer is true or false (datafusion#25336, #25347). Here `value IN (rows)` is
/// `EXISTS (rows equal to value) OR perhaps AND NULL`, where *perhaps* is that a row is null, or that there are rows and the
/// value is null. Each part of it is a join by equality, or is found out once for the whole statement.
///
/// To DataFusion, an outer column and one of the subquery are the same if they have the same name (datafusion#25258). What a
/// subquery gives is therefore renamed, and a value that may be confused with its columns is computed before the filter.
///
/// Only filters have such joins; for other places see `value_subqueries`. DataFusion's own rules make a filter of the `ON` of a join:
/// so this is among the first rules of each of their rounds.
#[derive(Debug)]
pub(crate) struct InSubqueries;

impl OptimizerRule for InSubqueries {
    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        plan.rewrite_up_with_subqueries(&mut |node| match node {
            node if !has_subqueries(&node)? => Ok(Transformed::no(node)),
            LogicalPlan::Filter(filter) => in_filter(filter, config.alias_generator()),
            other => as_columns(other, config.alias_generator())?.transform_data(|node| {
                // DataFusion makes EXISTS of ANY and ALL wherever they stand.
                node.rewrite_expressions_of(&mut |expr| {
                    expr.rewrite_up(&mut |expr| match expr {
                        Expr::SetComparison(comparison) => with_member(comparison).map(Transformed::yes),
                        other => Ok(Transformed::no(other)),
                    })
                })
            }),
        })
    }

    fn name(&self) -> &str {
        "in_subqueries"
    }
}

fn in_filter(mut filter: Filter, names: &AliasGenerator) -> Result<Transformed<LogicalPlan>> {
    let columns = columns_of(&filter.input);
    let schema = Arc::clone(filter.input.schema());
    let mut rewriter = ThreeValued::of_filter(schema, names);
    let predicate = filter.predicate.rewrite(&mut rewriter)?;
    if rewriter.values.is_empty() {
        filter.predicate = predicate.data;
        return Ok(Transformed::new_transformed(LogicalPlan::Filter(filter), predicate.transformed));
    }
    let values = columns.iter().cloned().chain(rewriter.values);
    let input = LogicalPlanBuilder::from(filter.input).project(values)?.build()?;
    let input = LogicalPlanBuilder::from(as_columns(input, names)?.data);
    Ok(Transformed::yes(input.filter(predicate.data)?.project(columns)?.build()?))
}
