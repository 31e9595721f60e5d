use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{NullEquality, Result};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{
    ExprFunctionExt, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Union, ident,
};
use datafusion::optimizer::AnalyzerRule;

use crate::rewrite::{PlanWalk, columns_of};

/// The number of a row among its equals, on either side of `INTERSECT ALL` and `EXCEPT ALL`.
const COPY: [&str; 2] = ["__left_copy", "__right_copy"];

/// Set operations as SQL means them.
///
/// - `INTERSECT ALL` and `EXCEPT ALL` count: of three equal rows and one, they leave one and two. DataFusion leaves all or none. Here
///   the second of a side's equal rows is compared with the second of the other's only.
/// - The inputs of a `UNION` may have other names than its result. DataFusion forgets that when it drops all inputs but one, and then
///   finds no such columns. Here they have the same names.
#[derive(Debug)]
pub(super) struct SetOperations;

impl AnalyzerRule for SetOperations {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.rewrite_up_with_subqueries(&mut |node| match node {
            LogicalPlan::Join(join) if counts(&join) => counted(join).map(Transformed::yes),
            LogicalPlan::Union(union) => named_alike(union),
            other => Ok(Transformed::no(other)),
        });
        plan.data()
    }

    fn name(&self) -> &str {
        "set_operations"
    }
}

/// True if it is what DataFusion plans for `INTERSECT ALL` or `EXCEPT ALL`. Without `ALL`, the rows on its left are distinct, and then
/// both mean the same.
fn counts(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && !matches!(*join.left, LogicalPlan::Distinct(_))
}

fn counted(mut join: Join) -> Result<LogicalPlan> {
    let columns = columns_of(&join.left);
    for (side, name) in [&mut join.left, &mut join.right].into_iter().zip(COPY) {
        let number = row_number().partition_by(columns_of(side)).build()?.alias(name);
        let numbered = LogicalPlanBuilder::new_from_arc(Arc::clone(side)).window(vec![number])?.build()?;
        *side = Arc::new(numbered);
    }
    join.on.push((ident(COPY[0]), ident(COPY[1])));
    let join = Join::try_new(
        join.left,
        join.right,
        join.on,
        join.filter,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    LogicalPlanBuilder::from(LogicalPlan::Join(join)).project(columns)?.build()
}

fn named_alike(mut union: Union) -> Result<Transformed<LogicalPlan>> {
    let mut is_changed = false;
    for input in &mut union.inputs {
        let names = union.schema.fields().iter().map(|field| field.name());
        if input.schema().fields().iter().map(|field| field.name()).eq(names.clone()) {
            continue;
        }
        let named = columns_of(input).into_iter().zip(names).map(|(column, name)| column.alias(name));
        let named = LogicalPlanBuilder::new_from_arc(Arc::clone(input)).project(named)?.build()?;
        (*input, is_changed) = (Arc::new(named), true);
    }
    Ok(Transformed::new_transformed(LogicalPlan::Union(union), is_changed))
}
