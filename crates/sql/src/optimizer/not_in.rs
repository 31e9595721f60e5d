use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, ExprSchema, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, binary_expr,
};
use datafusion::optimizer::AnalyzerRule;

/// The name of what a subquery gives, beside the columns of the query that it is in, which may have the same name.
const MEMBER: &str = "__not_in";

/// `NOT IN` with a subquery that may give a null, which makes it unknown instead of true.
///
/// DataFusion keeps to that for a column's value and a subquery that stands alone and names nothing of the query around it, and
/// refuses some that do. Another one becomes `NOT EXISTS` here, of the rows that are equal to the value or may be
/// (datafusion#25336, #25347).
#[derive(Debug)]
pub(crate) struct NotIn;

impl AnalyzerRule for NotIn {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|node| {
            let LogicalPlan::Filter(mut filter) = node else { return Ok(Transformed::no(node)) };
            let predicate = with_nulls(filter.predicate, filter.input.schema(), Position::FILTER)?;
            filter.predicate = predicate.data;
            Ok(Transformed::new_transformed(LogicalPlan::Filter(filter), predicate.transformed))
        });
        plan.data()
    }

    fn name(&self) -> &str {
        "not_in"
    }
}

/// Where an expression stands in a filter, which keeps what is true and tells what is unknown from nothing else.
#[derive(Clone, Copy)]
struct Position {
    /// Whether it is to be false.
    is_denied: bool,
    /// Whether it decides alone.
    is_alone: bool,
}

impl Position {
    const FILTER: Self = Self { is_denied: false, is_alone: true };
}

fn with_nulls(expr: Expr, schema: &DFSchema, position: Position) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Not(denied) => {
            let position = Position { is_denied: !position.is_denied, ..position };
            with_nulls(*denied, schema, position)?.map_data(|denied| Ok(Expr::Not(Box::new(denied))))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let is_alone = position.is_alone && !position.is_denied && op == Operator::And;
            let position = Position { is_alone, ..position };
            let (left, right) = (with_nulls(*left, schema, position)?, with_nulls(*right, schema, position)?);
            let is_new = left.transformed || right.transformed;
            Ok(Transformed::new_transformed(binary_expr(left.data, op, right.data), is_new))
        }
        Expr::InSubquery(within) if within.negated != position.is_denied => {
            let is_correlated = !within.subquery.outer_ref_columns.is_empty();
            let may_be_null =
                within.expr.nullable(schema)? || within.subquery.subquery.schema().field(0).is_nullable();
            let is_known = position.is_alone && !within.expr.column_refs().is_empty();
            if !is_correlated && (is_known || !may_be_null) {
                return Ok(Transformed::no(Expr::InSubquery(within)));
            }
            let negated = !position.is_denied;
            Ok(Transformed::yes(Expr::Exists(Exists { subquery: perhaps_equal(within, schema)?, negated })))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// The rows of a subquery of which it is not known that they differ from the value.
fn perhaps_equal(within: InSubquery, schema: &DFSchema) -> Result<Subquery> {
    let InSubquery { expr, subquery, .. } = within;
    let Subquery { subquery: rows, mut outer_ref_columns, spans } = subquery;
    let value = expr.transform(|expr| match expr {
        Expr::Column(column) => {
            let field = Arc::clone(schema.field_from_column(&column)?);
            let outer = Expr::OuterReferenceColumn(field, column);
            outer_ref_columns.push(outer.clone());
            Ok(Transformed::yes(outer))
        }
        other => Ok(Transformed::no(other)),
    });
    let member = Expr::from(rows.schema().qualified_field(0)).alias(MEMBER);
    let rows = LogicalPlanBuilder::from(rows).project([member])?;
    let member = Expr::from(Column::new_unqualified(MEMBER));
    let rows = rows.filter(member.eq(value.data()?).is_not_false())?.build()?;
    Ok(Subquery { subquery: rows.into(), outer_ref_columns, spans })
}
