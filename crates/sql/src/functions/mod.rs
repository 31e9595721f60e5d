//! Functions that stand for DataFusion's, or for what Arrow does with a value. The session's own stand in [`add_to`]; the others are put
//! into plans by the rules of [`analyzer`](crate::analyzer).
//!
//! - [`date_format`]: with Spark's patterns;
//! - [`interval_extremes`]: `min` and `max` of intervals;
//! - [`interval_part`]: `extract` from intervals and from differences of timestamps;
//! - [`interval_span`]: the length of an interval, by which intervals are compared;
//! - [`substr`]: with a start that counts from the end;
//! - [`time_casts`]: between times and texts, and times with and without a zone;
//! - [`time_zone`]: `AT TIME ZONE`.

pub(crate) mod date_format;
pub(crate) mod interval_extremes;
pub(crate) mod interval_part;
pub(crate) mod interval_span;
mod substr;
pub(crate) mod time_casts;
pub(crate) mod time_zone;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::planner::ExprPlanner;

/// `state` with the functions that statements call by name. Building another state of it may put DataFusion's in their places.
///
/// # Errors
/// The registry's own.
pub(crate) fn add_to(state: SessionState) -> Result<SessionState> {
    // The first planner that plans an expression is the only one.
    let mut planners: Vec<Arc<dyn ExprPlanner>> = vec![Arc::new(substr::SubstringPlanner)];
    planners.extend(state.expr_planners().iter().cloned());
    let mut state = SessionStateBuilder::new_from_existing(state).with_expr_planners(planners).build();
    let time_zone = time_zone::TimeZoneFunction::new(state.config_options());
    let functions: [Arc<ScalarUDF>; 3] =
        [substr::Substr::shared(), Arc::new(date_format::DateFormat.into()), Arc::new(time_zone.into())];
    for function in functions {
        state.register_udf(function)?;
    }
    Ok(state)
}
