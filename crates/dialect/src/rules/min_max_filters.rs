use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

use crate::rewrite::{PhysicalRule, TreeWalk};

/// Lets scans leave out the rows that change no `min` or `max` only if that is known of all of these.
///
/// While a grand total is computed, DataFusion filters the scan below by what `min` and `max` are by then: `a < 3 OR b > 7`. It forgets
/// those whose argument is no column, as in `SELECT min(a), max(b + 1)`, and those that are null so far: a row that only these need
/// is left out.
#[derive(Debug)]
pub(super) struct MinMaxFilters(pub(super) PhysicalRule);

impl PhysicalOptimizerRule for MinMaxFilters {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let forgets = plan.has_any(&mut |node| {
            Ok(match node.downcast_ref::<AggregateExec>() {
                Some(aggregate) => {
                    !aggregate.dynamic_expressions_produced().is_empty() && forgets_any(aggregate)?
                }
                None => false,
            })
        })?;
        if !forgets {
            return self.0.optimize(plan, config);
        }
        let mut config = config.clone();
        config.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
        self.0.optimize(plan, &config)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// True if the filter of an aggregate may be without one of its functions. One alone has no filter while it is null.
fn forgets_any(aggregate: &AggregateExec) -> Result<bool> {
    let functions = aggregate.aggr_expr();
    if functions.len() == 1 {
        return Ok(false);
    }
    let schema = aggregate.input_schema();
    let mut forgets = aggregate.filter_expr().iter().any(Option::is_some);
    for function in functions {
        let arguments = function.expressions();
        forgets |= match &arguments[..] {
            [argument] => !argument.is::<Column>() || argument.nullable(&schema)?,
            _ => true,
        };
    }
    Ok(forgets)
}
