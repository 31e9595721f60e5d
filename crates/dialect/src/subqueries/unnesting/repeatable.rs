//! Whether a plan that is evaluated twice gives the same rows twice.

use std::collections::HashSet;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprSchemable, Join, JoinType, LogicalPlan, Window, WindowFrame,
    WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition,
};

use super::outer_columns::{free_columns, is_lateral, subquery_of};
use crate::rewrite::TreeWalk;

/// Aggregates that do not ask in which order they see their rows. Whoever adds floats up does.
const AGGREGATES: [&str; 9] =
    ["min", "max", "count", "sum", "avg", "bool_and", "bool_or", "bit_and", "bit_or"];
/// Window functions that give the same for rows that are alike to their `ORDER BY`.
const RANKS: [&str; 2] = ["rank", "dense_rank"];

/// True if each evaluation of `plan` gives the same values of `columns`.
pub(super) fn repeats(plan: &LogicalPlan, columns: &[Column]) -> Result<bool> {
    let Some(uncertain) = uncertain(plan)? else { return Ok(false) };
    for column in columns {
        if uncertain[plan.schema().index_of_column(column)?] {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Of each column whether another evaluation may give other values of it: `None` if it may give other rows.
fn uncertain(plan: &LogicalPlan) -> Result<Option<Vec<bool>>> {
    if let LogicalPlan::Join(join) = plan {
        return uncertain_in_join(join);
    }
    let mut inputs = Vec::new();
    for input in plan.inputs() {
        let Some(columns) = uncertain(input)? else { return Ok(None) };
        inputs.push(columns);
    }
    let certain = |exprs: &[Expr]| is_certain_each(exprs, plan.inputs()[0], &inputs[0]);
    Ok(match plan {
        LogicalPlan::TableScan(scan) => match scan.source.get_logical_plan() {
            _ if scan.fetch.is_some() => None,
            Some(view) if !is_certain_whole(&view)? => None,
            _ => Some(vec![false; plan.schema().fields().len()]),
        },
        LogicalPlan::EmptyRelation(_) => Some(vec![false; plan.schema().fields().len()]),
        LogicalPlan::Values(values) => {
            let volatile = values.values.iter().flatten().any(|expr| expr.is_volatile());
            (!volatile).then(|| vec![false; plan.schema().fields().len()])
        }
        LogicalPlan::Projection(projection) => {
            Some(certain(&projection.expr)?.into_iter().map(|is_certain| !is_certain).collect())
        }
        LogicalPlan::Filter(filter) => {
            let is_certain = certain(std::slice::from_ref(&filter.predicate))?[0];
            inputs.pop().filter(|_| is_certain)
        }
        LogicalPlan::Sort(sort) => {
            let is_repeated = sort.fetch.is_none() || is_ordered(plan) && !inputs[0].contains(&true);
            inputs.pop().filter(|_| is_repeated)
        }
        LogicalPlan::Limit(limit) => {
            let is_repeated = is_ordered(&limit.input) && !inputs[0].contains(&true);
            inputs.pop().filter(|_| is_repeated)
        }
        LogicalPlan::SubqueryAlias(_) | LogicalPlan::Subquery(_) => inputs.pop(),
        LogicalPlan::Distinct(Distinct::All(_)) => inputs.pop().filter(|columns| !columns.contains(&true)),
        LogicalPlan::Union(_) => inputs
            .into_iter()
            .reduce(|one, other| one.into_iter().zip(other).map(|(one, other)| one || other).collect()),
        LogicalPlan::Aggregate(aggregate) => uncertain_in_aggregate(aggregate, &inputs[0])?,
        LogicalPlan::Window(window) => Some(uncertain_in_window(window, &inputs[0])?),
        _ => None,
    })
}

/// Whether rows come in an order, up to rows that are alike.
fn is_ordered(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Sort(sort) => {
            is_by(sort.expr.iter().map(|key| &key.expr), &sort.input.schema().columns())
        }
        _ => false,
    }
}

fn is_by<'a>(keys: impl Iterator<Item = &'a Expr>, columns: &[Column]) -> bool {
    let keys: HashSet<&Column> = keys.filter_map(Expr::try_as_col).collect();
    columns.iter().all(|column| keys.contains(column))
}

fn is_certain_whole(plan: &LogicalPlan) -> Result<bool> {
    Ok(uncertain(plan)?.is_some_and(|columns| !columns.contains(&true)))
}

fn is_certain_each(exprs: &[Expr], input: &LogicalPlan, uncertain: &[bool]) -> Result<Vec<bool>> {
    exprs.iter().map(|expr| is_certain(expr, &[(input, uncertain)])).collect()
}

fn is_certain(expr: &Expr, inputs: &[(&LogicalPlan, &[bool])]) -> Result<bool> {
    let mut is_certain = !expr.is_volatile();
    let may_differ = |column: &Column| {
        inputs.iter().any(|(input, uncertain)| {
            input.schema().maybe_index_of_column(column).is_some_and(|place| uncertain[place])
        })
    };
    expr.each(&mut |expr| {
        match expr {
            Expr::Column(column) => is_certain &= !may_differ(column),
            // A row of a query further out is one.
            Expr::OuterReferenceColumn(..) => {}
            other => {
                if let Some(subquery) = subquery_of(other) {
                    is_certain &= is_certain_whole(&subquery.subquery)?;
                    is_certain &= !free_columns(&subquery.subquery)?.iter().any(&may_differ);
                }
            }
        }
        Ok(if is_certain { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(is_certain)
}

fn uncertain_in_join(join: &Join) -> Result<Option<Vec<bool>>> {
    let (Some(left), Some(right)) = (uncertain(&join.left)?, uncertain(&join.right)?) else {
        return Ok(None);
    };
    let inputs = [(join.left.as_ref(), left.as_slice()), (join.right.as_ref(), right.as_slice())];
    for condition in join.on.iter().flat_map(|(left, right)| [left, right]).chain(&join.filter) {
        if !is_certain(condition, &inputs)? {
            return Ok(None);
        }
    }
    if is_lateral(&join.right) {
        for column in free_columns(&join.right)? {
            if join.left.schema().maybe_index_of_column(&column).is_some_and(|place| left[place]) {
                return Ok(None);
            }
        }
    }
    Ok(match join.join_type {
        JoinType::LeftSemi | JoinType::LeftAnti => Some(left),
        JoinType::RightSemi | JoinType::RightAnti => Some(right),
        JoinType::LeftMark | JoinType::RightMark => None,
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => {
            Some(left.into_iter().chain(right).collect())
        }
    })
}

fn uncertain_in_aggregate(aggregate: &Aggregate, uncertain: &[bool]) -> Result<Option<Vec<bool>>> {
    let input = aggregate.input.as_ref();
    let keys = is_certain_each(&aggregate.group_expr, input, uncertain)?;
    if keys.contains(&false) {
        return Ok(None);
    }
    let mut columns = vec![false; aggregate.schema.fields().len() - aggregate.aggr_expr.len()];
    for expr in &aggregate.aggr_expr {
        let is_repeated = match &expr.clone().unalias_nested().data {
            Expr::AggregateFunction(function) => {
                is_certain(expr, &[(input, uncertain)])? && is_orderless(function)
            }
            _ => false,
        };
        columns.push(!is_repeated || is_float(expr, input.schema())?);
    }
    Ok(Some(columns))
}

fn is_orderless(function: &AggregateFunction) -> bool {
    let params = &function.params;
    let ordered = || {
        params.args.iter().all(|argument| {
            matches!(argument, Expr::Literal(..)) || params.order_by.iter().any(|key| key.expr == *argument)
        })
    };
    let name = function.func.name();
    AGGREGATES.contains(&name) || matches!(name, "string_agg" | "array_agg") && ordered()
}

fn is_float(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    Ok(expr.get_type(schema)?.is_floating())
}

fn uncertain_in_window(window: &Window, uncertain: &[bool]) -> Result<Vec<bool>> {
    let input = window.input.as_ref();
    let by = apart(input);
    let mut columns = uncertain.to_vec();
    let mut numbered: Option<&WindowFunction> = None;
    let exprs: Vec<Expr> = window.window_expr.iter().map(|expr| expr.clone().unalias_nested().data).collect();
    for expr in &exprs {
        let is_repeated = match expr {
            Expr::WindowFunction(function) => {
                let mut is_ordered = || {
                    // Of rows that are alike, two orders may number another one first.
                    let other = *numbered.get_or_insert(function);
                    let (params, other) = (&function.params, &other.params);
                    let keys = params.order_by.iter().map(|key| &key.expr).chain(&params.partition_by);
                    params.order_by == other.order_by
                        && params.partition_by == other.partition_by
                        && !uncertain.contains(&true)
                        && is_by(keys, &by)
                };
                is_certain(expr, &[(input, uncertain)])? && (is_rank(function) || is_ordered())
            }
            _ => false,
        };
        columns.push(!is_repeated || is_float(expr, input.schema())?);
    }
    Ok(columns)
}

/// The columns by which rows differ: those of ranks below do not tell apart what is alike in the others.
fn apart(plan: &LogicalPlan) -> Vec<Column> {
    let LogicalPlan::Window(window) = plan else { return plan.schema().columns() };
    let own = plan.schema().columns().split_off(window.input.schema().fields().len());
    let is_number = |(column, expr): (Column, &Expr)| match expr.clone().unalias_nested().data {
        Expr::WindowFunction(function) if is_rank(&function) => None,
        _ => Some(column),
    };
    apart(&window.input)
        .into_iter()
        .chain(own.into_iter().zip(&window.window_expr).filter_map(is_number))
        .collect()
}

/// True if it gives the same for rows that are alike to its `ORDER BY`.
fn is_rank(function: &WindowFunction) -> bool {
    match &function.fun {
        WindowFunctionDefinition::AggregateUDF(aggregate) => {
            AGGREGATES.contains(&aggregate.name()) && is_by_peers(&function.params.window_frame)
        }
        WindowFunctionDefinition::WindowUDF(window) => RANKS.contains(&window.name()),
    }
}

fn is_by_peers(frame: &WindowFrame) -> bool {
    let is_unbounded = |bound: &WindowFrameBound| bound.is_unbounded();
    frame.units != WindowFrameUnits::Rows
        || is_unbounded(&frame.start_bound) && is_unbounded(&frame.end_bound)
}
