use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan};

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
pub(super) fn columns_of(plan: &LogicalPlan) -> Vec<Expr> {
    plan.schema().columns().into_iter().map(Expr::Column).collect()
}
