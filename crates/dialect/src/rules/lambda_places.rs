//! Places of the parameters of lambdas in physical plans.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::LambdaVariable;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use crate::rewrite::TreeWalk;

/// Columns that no plan has as many of.
const BEYOND_COLUMNS: usize = 1 << 24;

/// Gives the parameters of lambdas places beyond those of all columns.
///
/// DataFusion counts them behind the columns of the node's input. Where a projection takes the place of its input, there are other
/// columns, and a parameter is read from one of these: an error, or the values of a column if it is called the same.
#[derive(Debug)]
pub(super) struct LambdaPlaces;

impl PhysicalOptimizerRule for LambdaPlaces {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.rewrite_up(&mut |node| {
            if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
                let mut is_changed = false;
                let moved = projection.expr().iter().map(|column| {
                    let moved = moved(&column.expr)?;
                    is_changed |= moved.transformed;
                    Ok(ProjectionExpr { expr: moved.data, alias: column.alias.clone() })
                });
                let moved = moved.collect::<Result<Vec<ProjectionExpr>>>()?;
                if is_changed {
                    let (input, schema) = (Arc::clone(projection.input()), projection.schema());
                    let projection = ProjectionExec::try_new_with_schema_metadata(moved, input, &schema)?;
                    return Ok(Transformed::yes(Arc::new(projection) as _));
                }
            } else if let Some(filter) = node.downcast_ref::<FilterExec>() {
                let moved = moved(filter.predicate())?;
                if moved.transformed {
                    let filter = FilterExecBuilder::from(filter).with_predicate(moved.data).build()?;
                    return Ok(Transformed::yes(Arc::new(filter) as _));
                }
            }
            Ok(Transformed::no(node))
        })
        .data()
    }

    fn name(&self) -> &str {
        "LambdaPlaces"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn moved(expr: &Arc<dyn PhysicalExpr>) -> Result<Transformed<Arc<dyn PhysicalExpr>>> {
    Arc::clone(expr).rewrite_up(&mut |expr| match expr.downcast_ref::<LambdaVariable>() {
        Some(variable) if variable.index() < BEYOND_COLUMNS => {
            let moved = LambdaVariable::new(variable.index() + BEYOND_COLUMNS, Arc::clone(variable.field()));
            Ok(Transformed::yes(Arc::new(moved) as _))
        }
        _ => Ok(Transformed::no(expr)),
    })
}
