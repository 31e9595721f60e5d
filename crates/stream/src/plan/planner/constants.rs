//! Constants of a query, which are computed when it is planned: with errors, as rows are, not with wrong numbers.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::create_physical_expr;
use datafusion::physical_expr::execution_props::ExecutionProps;

use super::checked;

/// DataFusion's rule that computes constants. Its integers wrap around.
const FOLDS: &str = "simplify_expressions";

/// Refuses sums, differences and products of constants that do not fit their type.
#[derive(Debug)]
struct CheckConstants;

/// The state with constants checked before each of the times that they are computed.
pub(super) fn with_checked_constants(state: SessionState) -> SessionState {
    let mut rules = state.optimizers().to_vec();
    let at = rules.iter().position(|rule| rule.name() == FOLDS).expect("DataFusion computes constants");
    rules.insert(at, Arc::new(CheckConstants));
    SessionStateBuilder::new_from_existing(state).with_optimizer_rules(rules).build()
}

impl OptimizerRule for CheckConstants {
    fn name(&self) -> &'static str {
        "check_constants"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        plan.apply_expressions(|expr| {
            expr.apply(|expr| {
                if !is_constant(expr)? {
                    return Ok(TreeNodeRecursion::Continue);
                }
                compute(expr)?;
                Ok(TreeNodeRecursion::Jump)
            })
        })?;
        Ok(Transformed::no(plan))
    }
}

/// True for an integer that is computed of nothing but constants.
fn is_constant(expr: &Expr) -> Result<bool> {
    let computes = match expr {
        Expr::Negative(_) => true,
        Expr::BinaryExpr(binary) => {
            matches!(binary.op, Operator::Plus | Operator::Minus | Operator::Multiply)
        }
        _ => false,
    };
    let is_plain = |expr: &Expr| {
        matches!(expr, Expr::Literal(..) | Expr::Negative(_) | Expr::BinaryExpr(_))
            || matches!(expr, Expr::Cast(_) | Expr::TryCast(_) | Expr::Alias(_))
    };
    if !computes || expr.exists(|expr| Ok(!is_plain(expr)))? {
        return Ok(false);
    }
    Ok(expr.get_type(&DFSchema::empty())?.is_integer())
}

fn compute(expr: &Expr) -> Result<()> {
    let schema = DFSchema::empty();
    let context = PhysicalPlanningContext::default();
    let planned = create_physical_expr(expr, &schema, &ExecutionProps::new(), &context)?;
    let one_row = RecordBatchOptions::new().with_row_count(Some(1));
    let rows = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &one_row)?;
    checked(planned, schema.as_arrow())?.evaluate(&rows).map(drop)
}
