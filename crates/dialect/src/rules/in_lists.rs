use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::rewrite::{PlanWalk, TreeWalk, map_expressions};
use crate::types::identity::Identity;

/// Lets `IN` lists be computed for each row if their items are.
///
/// DataFusion computes a list once if all of its items are scalars on a batch *without rows*, where a `CASE` is its first branch: `1 IN (7,
/// CASE WHEN b THEN 1 END)` is then true, whatever `b`. Of a column it knows better. So one item that is neither a literal nor a
/// column becomes a function of it that gives an array on any batch.
#[derive(Debug)]
pub(super) struct InLists;

impl OptimizerRule for InLists {
    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        plan.rewrite_up_with_subqueries(&mut |node| {
            if !has_mistaken(&node)? {
                return Ok(Transformed::no(node));
            }
            map_expressions(node, &mut |expr| {
                expr.rewrite_up(&mut |expr| {
                    Ok(match expr {
                        Expr::InList(list) if is_mistaken(&list) => Transformed::yes(for_each_row(list)),
                        other => Transformed::no(other),
                    })
                })
            })
        })
    }

    fn name(&self) -> &str {
        "in_lists"
    }
}

fn has_mistaken(node: &LogicalPlan) -> Result<bool> {
    let mut has_any = false;
    node.each_expression(&mut |expr| {
        has_any |= expr.has_any(&mut |expr| Ok(matches!(expr, Expr::InList(list) if is_mistaken(list))))?;
        Ok(if has_any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(has_any)
}

/// True if a list may be taken for one that is the same in all rows.
fn is_mistaken(list: &InList) -> bool {
    let is_known = |item: &Expr| matches!(item, Expr::Column(_)) || Identity::Varying.is_called_by(item);
    !list.list.iter().any(is_known) && list.list.iter().any(is_computed)
}

fn is_computed(item: &Expr) -> bool {
    !matches!(item, Expr::Literal(..))
}

fn for_each_row(mut list: InList) -> Expr {
    if let Some(item) = list.list.iter_mut().find(|item| is_computed(item)) {
        *item = Identity::Varying.call(std::mem::take(item));
    }
    Expr::InList(list)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::logical_expr::{LogicalPlanBuilder, col, in_list, lit, table_scan, when};
    use datafusion::optimizer::OptimizerContext;

    use super::*;

    fn rewritten(list: Vec<Expr>) -> Option<String> {
        let schema = Schema::new(vec![Field::new("a", DataType::Int32, true)]);
        let scan = table_scan(Some("t"), &schema, None).unwrap().build().unwrap();
        let plan =
            LogicalPlanBuilder::from(scan).filter(in_list(col("a"), list, true)).unwrap().build().unwrap();
        let rewritten = InLists.rewrite(plan, &OptimizerContext::new()).unwrap();
        let again = InLists.rewrite(rewritten.data.clone(), &OptimizerContext::new()).unwrap();
        assert!(!again.transformed);
        rewritten.transformed.then(|| rewritten.data.display_indent().to_string())
    }

    #[test]
    fn an_item_of_each_computed_list_is_for_each_row() {
        let case = || when(col("a").gt(lit(1)), lit(4)).end().unwrap();
        let plan = rewritten(vec![lit(2), case(), case()]).unwrap();
        assert!(plan.contains("NOT IN ([Int32(2), varying(CASE"), "{plan}");
        assert_eq!(plan.matches("varying(").count(), 1);
        // DataFusion sees that these differ from row to row, or that they do not.
        assert_eq!(rewritten(vec![lit(2), case(), col("a")]), None);
        assert_eq!(rewritten(vec![lit(2), lit(3)]), None);
    }
}
