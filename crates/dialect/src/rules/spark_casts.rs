//! The walk over casts that rules of Spark's dialect share.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, ScalarUDF};

use crate::rewrite::rewrite_plan;
use crate::settings::System;

/// Puts a function between casts and their values in Spark's dialect. `function` has the one for a cast from the first type to the
/// second, which is null where there is no value (`TRY_CAST`) if the last argument is true; other casts stay as they are, and so do plans of other dialects.
///
/// # Errors
/// Those of the walk.
pub(crate) fn call_within_casts(
    plan: LogicalPlan,
    config: &ConfigOptions,
    function: &dyn Fn(&DataType, &DataType, bool) -> Option<ScalarUDF>,
) -> Result<LogicalPlan> {
    if System::of(config) != System::Spark {
        return Ok(plan);
    }
    rewrite_plan(plan, &|mut expr, columns| {
        let (value, to, or_null) = match &mut expr {
            Expr::Cast(cast) => (&mut cast.expr, cast.field.data_type(), false),
            Expr::TryCast(cast) => (&mut cast.expr, cast.field.data_type(), true),
            _ => return Ok(Transformed::no(expr)),
        };
        // A column of a query outside has no type here.
        let from = value.get_type(columns).ok();
        let Some(function) = from.and_then(|from| function(&from, to, or_null)) else {
            return Ok(Transformed::no(expr));
        };
        let cast = std::mem::take(value.as_mut());
        **value = function.call(vec![cast]);
        Ok(Transformed::yes(expr))
    })
}
