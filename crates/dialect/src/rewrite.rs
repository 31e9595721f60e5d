//! Rewriting of plans by rules, whose expressions change and whose columns keep their names.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{AnalyzerRule, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;

/// A rule that runs once on each plan, before the optimizer.
pub(crate) type AnalyzingRule = Arc<dyn AnalyzerRule + Send + Sync>;
/// A rule of each round of the optimizer.
pub type LogicalRule = Arc<dyn OptimizerRule + Send + Sync>;
/// A rule that runs once on each physical plan.
pub type PhysicalRule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// Walks through a tree by a function behind a pointer. DataFusion's own are compiled once for each closure that they are given, with
/// all that they call, which was most of this crate.
pub(crate) trait TreeWalk: TreeNode {
    /// [`TreeNode::transform_up`].
    fn rewrite_up(
        self,
        rewrite: &mut dyn FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>> {
        self.transform_up(rewrite)
    }

    /// [`TreeNode::transform_down`].
    fn rewrite_down(
        self,
        rewrite: &mut dyn FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>> {
        self.transform_down(rewrite)
    }

    /// [`TreeNode::apply`].
    fn each<'n>(
        &'n self,
        visit: &mut dyn FnMut(&'n Self) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.apply(visit)
    }

    /// [`TreeNode::exists`].
    fn has_any(&self, is_it: &mut dyn FnMut(&Self) -> Result<bool>) -> Result<bool> {
        self.exists(is_it)
    }
}

impl<T: TreeNode> TreeWalk for T {}

/// The same for a plan with what is in its expressions.
pub(crate) trait PlanWalk: Sized {
    /// [`LogicalPlan::transform_up_with_subqueries`].
    fn rewrite_up_with_subqueries(
        self,
        rewrite: &mut dyn FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>>;

    /// [`LogicalPlan::transform_down_with_subqueries`].
    fn rewrite_down_with_subqueries(
        self,
        rewrite: &mut dyn FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>>;

    /// [`LogicalPlan::map_expressions`].
    fn rewrite_expressions_of(
        self,
        rewrite: &mut dyn FnMut(Expr) -> Result<Transformed<Expr>>,
    ) -> Result<Transformed<Self>>;

    /// [`LogicalPlan::apply_with_subqueries`].
    fn each_with_subqueries(
        &self,
        visit: &mut dyn FnMut(&Self) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion>;

    /// [`LogicalPlan::apply_expressions`].
    fn each_expression(
        &self,
        visit: &mut dyn FnMut(&Expr) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion>;
}

impl PlanWalk for LogicalPlan {
    fn rewrite_up_with_subqueries(
        self,
        rewrite: &mut dyn FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>> {
        self.transform_up_with_subqueries(rewrite)
    }

    fn rewrite_down_with_subqueries(
        self,
        rewrite: &mut dyn FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>> {
        self.transform_down_with_subqueries(rewrite)
    }

    fn rewrite_expressions_of(
        self,
        rewrite: &mut dyn FnMut(Expr) -> Result<Transformed<Expr>>,
    ) -> Result<Transformed<Self>> {
        self.map_expressions(rewrite)
    }

    fn each_with_subqueries(
        &self,
        visit: &mut dyn FnMut(&Self) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.apply_with_subqueries(visit)
    }

    fn each_expression(
        &self,
        visit: &mut dyn FnMut(&Expr) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.apply_expressions(visit)
    }
}

/// Rewrites the expressions of a node, whose columns keep their names.
pub(crate) fn map_expressions(
    node: LogicalPlan,
    rewrite: &mut dyn FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&node);
    let mut rewrite = |expr: Expr| {
        let name = names.save(&expr);
        Ok(rewrite(expr)?.update_data(|expr| name.restore(expr)))
    };
    node.rewrite_expressions_of(&mut |expr| match expr {
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
    rewrite: &dyn Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let columns = columns_below(&node);
    map_expressions(node, &mut |expr| expr.rewrite_up(&mut |expr| rewrite(expr, &columns)))
}

/// Rewrites each expression of a plan and its subqueries.
pub(crate) fn rewrite_plan(
    plan: LogicalPlan,
    rewrite: &dyn Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<LogicalPlan> {
    plan.rewrite_up_with_subqueries(&mut |node| rewrite_expressions(node, rewrite)).data()
}
