use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable};
use datafusion::physical_expr::expressions::Column;

use super::walk::{Built, Walk};
use super::{physical, planning};
use crate::error::{Result, invalid};
use crate::plan::{AggregateCall, AggregateFunction, AggregatePlan, WindowKey};

/// Adds an aggregation to a pipeline.
pub(super) fn plan(walk: &Walk<'_>, mut built: Built, plan: &Aggregate) -> Result<Built> {
    if built.pipeline.aggregate.is_some() {
        return Err(invalid(
            "an aggregation of an aggregation is not there yet (DISTINCT within an aggregate is one)",
        ));
    }
    let input = plan.input.schema();
    let mut keys = Vec::new();
    for expr in &plan.group_expr {
        if let Expr::GroupingSet(_) = expr {
            return Err(invalid("GROUPING SETS, ROLLUP and CUBE are not there yet"));
        }
        keys.push(physical(walk.state, expr.clone(), input)?);
    }
    let window_key = window_key(&built, &keys)?;
    let calls: Result<Vec<_>> = plan.aggr_expr.iter().map(|expr| call(walk, expr, plan)).collect();
    let schema = Arc::new(plan.schema.as_arrow().clone());
    // Results are columns of the group: which of them is the window no step after this one asks.
    built.window_columns = [None, None];
    built.pipeline.aggregate = Some(AggregatePlan { keys, window_key, calls: calls?, schema });
    Ok(built)
}

fn window_key(
    built: &Built,
    keys: &[Arc<dyn datafusion::physical_expr::PhysicalExpr>],
) -> Result<Option<WindowKey>> {
    let Some(windows) = &built.pipeline.windows else { return Ok(None) };
    let key_of = |column: Option<usize>| {
        let column = column?;
        keys.iter().position(|key| key.downcast_ref::<Column>().is_some_and(|key| key.index() == column))
    };
    let [start, end] = built.window_columns.map(key_of);
    match (end, start) {
        (Some(key), _) => Ok(Some(WindowKey { key, to_end_ms: 0 })),
        (None, Some(key)) => Ok(Some(WindowKey { key, to_end_ms: windows.size_ms })),
        (None, None) => Err(invalid("an aggregation of windows has to group by window_start or window_end")),
    }
}

fn call(walk: &Walk<'_>, expr: &Expr, plan: &Aggregate) -> Result<AggregateCall> {
    let input = plan.input.schema();
    let Expr::AggregateFunction(call) = expr.clone().unalias() else {
        return Err(invalid(format!("'{expr}' is not there yet")));
    };
    let name = call.func.name().to_owned();
    let function = match name.as_str() {
        "count" => AggregateFunction::Count,
        "sum" => AggregateFunction::Sum,
        "min" => AggregateFunction::Min,
        "max" => AggregateFunction::Max,
        "avg" => AggregateFunction::Avg,
        _ => {
            let hint = "count, sum, min, max and avg are";
            return Err(invalid(format!("the aggregate function {name} is not there yet")).with_hint(hint));
        }
    };
    let params = &call.params;
    if params.distinct
        || params.filter.is_some()
        || !params.order_by.is_empty()
        || params.null_treatment.is_some()
    {
        return Err(invalid(format!(
            "{name} with DISTINCT, FILTER, ORDER BY or IGNORE NULLS is not there yet"
        )));
    }
    let [argument] = params.args.as_slice() else {
        return Err(invalid(format!("{name} takes one argument here")));
    };
    let result_type = expr.get_type(input).map_err(planning)?;
    let argument_type = argument.get_type(input).map_err(planning)?;
    // count(*) is the count of a literal.
    let is_literal = matches!(argument, Expr::Literal(value, _) if !value.is_null());
    let argument = if function == AggregateFunction::Count && is_literal {
        None
    } else {
        Some(physical(walk.state, argument.clone(), input)?)
    };
    check_types(function, &name, &argument_type, &result_type)?;
    Ok(AggregateCall { function, argument, argument_type, result_type })
}

fn check_types(
    function: AggregateFunction,
    name: &str,
    argument: &DataType,
    result: &DataType,
) -> Result<()> {
    let is_there = match function {
        AggregateFunction::Count => true,
        AggregateFunction::Sum => matches!(
            result,
            DataType::Int64 | DataType::UInt64 | DataType::Float64 | DataType::Decimal128(..)
        ),
        AggregateFunction::Avg => *result == DataType::Float64 && *argument == DataType::Float64,
        AggregateFunction::Min | AggregateFunction::Max => {
            !argument.is_nested() && !matches!(argument, DataType::Null)
        }
    };
    if is_there { Ok(()) } else { Err(invalid(format!("{name} of {argument} is not there yet"))) }
}
