//! Rewriting of plans by rules, whose expressions change and whose columns keep their names.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{AnalyzerRule, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;

/// A rule that runs once on each plan, before the optimizer.
pub(crate) type AnalyzingRule = Arc<dyn AnalyzerRule + Send + Sync>;
/// A rule of each round of the optimizer.
pub(crate) type LogicalRule = Arc<dyn OptimizerRule + Send + Sync>;
/// A rule that runs once on each physical plan.
pub type PhysicalRule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// Rewrites the expressions of a node, whose columns keep their names.
pub(crate) fn map_expressions(
    node: LogicalPlan,
    mut rewrite: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&node);
    let mut rewrite = |expr: Expr| {
        let name = names.save(&expr);
        Ok(rewrite(expr)?.update_data(|expr| name.restore(expr)))
    };
    node.map_expressions(|expr| match expr {
        // It is as many columns as it has keys.
        Expr::GroupingSet(_) => expr.map_children(&mut rewrite),
        other => rewrite(other),
    })
}

/// A plan's columns as they are.
pub(crate) fn columns_of(plan: &LogicalPlan) -> Vec<Expr> {
    plan.schema().columns().into_iter().map(Expr::Column).collect()
}

/// The columns that the expressions of a node are about.
pub(crate) fn columns_below(node: &LogicalPlan) -> DFSchema {
    match node {
        LogicalPlan::TableScan(scan) => scan.projected_schema.as_ref().clone(),
        other => merge_schema(&other.inputs()),
    }
}

/// Rewrites each expression of a node, from the innermost outwards; its columns keep their names.
pub(crate) fn rewrite_expressions(
    node: LogicalPlan,
    rewrite: impl Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let columns = columns_below(&node);
    map_expressions(node, |expr| expr.transform_up(|expr| rewrite(expr, &columns)))
}

/// Rewrites each expression of a plan and its subqueries.
pub(crate) fn rewrite_plan(
    plan: LogicalPlan,
    rewrite: impl Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| rewrite_expressions(node, &rewrite)).data()
}
