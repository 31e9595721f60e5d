use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr::NullTreatment;
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable};
use datafusion::physical_expr::aggregate::AggregateExprBuilder;
use datafusion::physical_expr::expressions::Column;

use super::walk::{Built, Timed};
use super::{physical, planning};
use crate::error::{Result, invalid};
use crate::plan::{AggregateCall, AggregatePlan, PlanNode, TimeColumn, WindowKey};

/// Aggregate functions that are there, by DataFusion's names.
const FUNCTIONS: [&str; 14] = [
    "count",
    "sum",
    "min",
    "max",
    "avg",
    "stddev",
    "stddev_pop",
    "var",
    "var_pop",
    "approx_distinct",
    "first",
    "last",
    "collect_list",
    "collect_set",
];

/// Adds an aggregation.
pub(super) fn plan(state: &SessionState, built: Built, plan: &Aggregate) -> Result<Built> {
    let input = plan.input.schema();
    let mut keys = Vec::new();
    for expr in &plan.group_expr {
        if let Expr::GroupingSet(_) = expr {
            return Err(invalid("GROUPING SETS, ROLLUP and CUBE are not there yet"));
        }
        keys.push(physical(state, expr.clone(), input)?);
    }
    let time_key = built.time_key(&keys);
    let window_key = time_key.map(|(key, time)| WindowKey { key, to_end_ms: time.to_end_ms });
    let calls: Result<Vec<_>> = plan.aggr_expr.iter().map(|expr| call(state, expr, plan)).collect();
    let (input, schema) = (Arc::new(input.as_arrow().clone()), Arc::new(plan.schema.as_arrow().clone()));
    // Keys that are event time are so for the next step, too.
    let times = keys.iter().enumerate().flat_map(|(place, key)| {
        let column = key.downcast_ref::<Column>().map(Column::index);
        let of_key = built.times.iter().filter(move |timed| Some(timed.time.column) == column);
        of_key.map(move |timed| Timed { time: TimeColumn { column: place, ..timed.time }, ..*timed })
    });
    let times = times.collect();
    let plan = AggregatePlan { keys, window_key, calls: calls?, input, schema };
    Ok(Built { node: PlanNode::Aggregate { input: Box::new(built.node), plan }, times, at_rest: None })
}

fn call(state: &SessionState, expr: &Expr, plan: &Aggregate) -> Result<AggregateCall> {
    let input = plan.input.schema();
    let Expr::AggregateFunction(call) = expr.clone().unalias() else {
        return Err(invalid(format!("'{expr}' is not there yet")));
    };
    let name = call.func.name().to_owned();
    if !FUNCTIONS.contains(&name.as_str()) {
        let hint = format!("{} are", FUNCTIONS.join(", "));
        return Err(invalid(format!("the aggregate function {name} is not there yet")).with_hint(hint));
    }
    let params = &call.params;
    if params.distinct || !params.order_by.is_empty() {
        return Err(invalid(format!("{name} with DISTINCT or ORDER BY is not there yet")));
    }
    let ignores_nulls = params.null_treatment == Some(NullTreatment::IgnoreNulls);
    let [argument] = params.args.as_slice() else {
        return Err(invalid(format!("{name} takes one argument here")));
    };
    let result_type = expr.get_type(input).map_err(planning)?;
    let argument_type = argument.get_type(input).map_err(planning)?;
    check_types(&name, &argument_type, &result_type)?;
    let argument = physical(state, argument.clone(), input)?;
    let function = AggregateExprBuilder::new(Arc::clone(&call.func), vec![argument])
        .schema(Arc::new(input.as_arrow().clone()))
        .alias(expr.schema_name().to_string())
        .with_ignore_nulls(ignores_nulls)
        .build()
        .map_err(planning)?;
    if !function.groups_accumulator_supported() {
        return Err(invalid(format!("{name} of {argument_type} is not there yet")));
    }
    let filter = params.filter.as_ref().map(|filter| physical(state, filter.as_ref().clone(), input));
    Ok(AggregateCall { function: Arc::new(function), filter: filter.transpose()? })
}

fn check_types(name: &str, argument: &DataType, result: &DataType) -> Result<()> {
    let is_there = match name {
        "sum" => matches!(
            result,
            DataType::Int64 | DataType::UInt64 | DataType::Float64 | DataType::Decimal128(..)
        ),
        "avg" => *result == DataType::Float64,
        "min" | "max" => !argument.is_nested() && !matches!(argument, DataType::Null),
        _ => true,
    };
    if is_there { Ok(()) } else { Err(invalid(format!("{name} of {argument} is not there yet"))) }
}
