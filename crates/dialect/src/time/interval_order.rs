use std::mem;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, DataFusionError, JoinConstraint, Result, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction, Sort, WindowFunction};
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{
    Aggregate, AggregateUDF, BinaryExpr, Case, Distinct, Expr, ExprSchemable, Join, LogicalPlan,
    LogicalPlanBuilder, Operator, Subquery, WindowFunctionDefinition, binary_expr, when,
};
use datafusion::optimizer::AnalyzerRule;
use yeoul_base::ErrorKind;

use crate::Error;
use crate::rewrite::{PlanWalk, columns_below, rewrite_expressions};
use crate::time::interval_extremes::IntervalExtreme;
use crate::time::interval_span::{INTERVAL, NormalInterval, contains_interval};

/// Intervals compared, sorted and grouped by their length, a month as 30 days and a day as 24 hours.
///
/// Arrow compares field by field: 45 days are less than a month, and the 19 days between two timestamps, which are nanoseconds, less
/// than `interval '10 days'`. Here each side of a comparison, each key of a sort, join, window or group is in the one form in which
/// Arrow's order is that of lengths. What is shown is what was there: of a group of equal intervals, the one with the fewest months.
#[derive(Debug)]
pub(crate) struct IntervalOrder;

impl AnalyzerRule for IntervalOrder {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.rewrite_up_with_subqueries(&mut |node| {
            rewrite_expressions(node, &compared)?.transform_data(|node| match node {
                LogicalPlan::Aggregate(aggregate) => grouped(aggregate),
                LogicalPlan::Distinct(Distinct::All(input)) if has_interval(&input) => {
                    let columns = input.schema().columns().into_iter().map(Expr::Column).collect();
                    grouped(Aggregate::try_new(input, columns, Vec::new())?)
                }
                LogicalPlan::Distinct(Distinct::On(mut distinct)) => {
                    let columns = distinct.input.schema();
                    distinct.on_expr = all_normal(mem::take(&mut distinct.on_expr), columns)?;
                    let sorts = distinct.sort_expr.take();
                    distinct.sort_expr = sorts.map(|sorts| sorted(sorts, columns)).transpose()?;
                    Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::On(distinct))))
                }
                LogicalPlan::Sort(mut sort) => {
                    sort.expr = sorted(sort.expr, sort.input.schema())?;
                    Ok(Transformed::yes(LogicalPlan::Sort(sort)))
                }
                LogicalPlan::Join(join) => joined(join),
                LogicalPlan::RecursiveQuery(query)
                    if query.is_distinct && has_interval(&query.static_term) =>
                {
                    Err(refused("UNION without ALL in a recursive query"))
                }
                other => Ok(Transformed::no(other)),
            })
        });
        plan.data()
    }

    fn name(&self) -> &str {
        "interval_order"
    }
}

fn has_interval(plan: &LogicalPlan) -> bool {
    plan.schema().fields().iter().any(|field| contains_interval(field.data_type()))
}

fn refused(what: &str) -> DataFusionError {
    let error = Error::new(ErrorKind::Invalid, format!("{what} is not supported for intervals"));
    error.with_hint("compare their seconds: extract(epoch FROM i)").into()
}

/// True if an expression is an interval that is not comparable as it is.
///
/// # Errors
/// For a list or struct with intervals.
fn is_interval(expr: &Expr, columns: &DFSchema) -> Result<bool> {
    match expr.get_type(columns)? {
        DataType::Interval(_) => Ok(!NormalInterval::is_call(expr)),
        nested if contains_interval(&nested) => {
            Err(refused("a comparison of lists or structs with intervals"))
        }
        _ => Ok(false),
    }
}

fn normal(expr: Expr, columns: &DFSchema) -> Result<Expr> {
    Ok(if is_interval(&expr, columns)? { NormalInterval::call(expr) } else { expr })
}

fn all_normal(exprs: Vec<Expr>, columns: &DFSchema) -> Result<Vec<Expr>> {
    exprs.into_iter().map(|expr| normal(expr, columns)).collect()
}

fn sorted(sorts: Vec<Sort>, columns: &DFSchema) -> Result<Vec<Sort>> {
    sorts.into_iter().map(|sort| Ok(Sort { expr: normal(sort.expr, columns)?, ..sort })).collect()
}

fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

fn replace(expr: &mut Box<Expr>, columns: &DFSchema) -> Result<()> {
    *expr.as_mut() = normal(mem::take(expr.as_mut()), columns)?;
    Ok(())
}

/// An expression whose operands have been rewritten, with those that it compares made comparable.
fn compared(mut expr: Expr, columns: &DFSchema) -> Result<Transformed<Expr>> {
    match &mut expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if is_comparison(*op) && (is_interval(left, columns)? || is_interval(right, columns)?) =>
        {
            replace(left, columns)?;
            replace(right, columns)?;
        }
        Expr::Between(between) if is_interval(&between.expr, columns)? => {
            replace(&mut between.expr, columns)?;
            replace(&mut between.low, columns)?;
            replace(&mut between.high, columns)?;
        }
        Expr::InList(list) if is_interval(&list.expr, columns)? => {
            replace(&mut list.expr, columns)?;
            list.list = all_normal(mem::take(&mut list.list), columns)?;
        }
        Expr::Case(Case { expr: Some(operand), when_then_expr, .. }) if is_interval(operand, columns)? => {
            replace(operand, columns)?;
            for (value, _) in when_then_expr {
                replace(value, columns)?;
            }
        }
        Expr::InSubquery(of) if is_interval(&of.expr, columns)? => {
            replace(&mut of.expr, columns)?;
            comparable(&mut of.subquery)?;
        }
        Expr::SetComparison(of) if is_interval(&of.expr, columns)? => {
            replace(&mut of.expr, columns)?;
            comparable(&mut of.subquery)?;
        }
        Expr::ScalarFunction(call) => {
            return Ok(match chosen(call, columns)? {
                Some(choice) => Transformed::yes(choice),
                None => Transformed::no(expr),
            });
        }
        Expr::AggregateFunction(call) => aggregated(call, columns)?,
        Expr::WindowFunction(call) => framed(call, columns)?,
        _ => return Ok(Transformed::no(expr)),
    }
    Ok(Transformed::yes(expr))
}

/// Makes the only column of a subquery comparable.
fn comparable(subquery: &mut Subquery) -> Result<()> {
    let plan = Arc::clone(&subquery.subquery);
    let columns = plan.schema().iter().map(|(table, field)| {
        let column = Expr::Column(Column::from((table, field.as_ref())));
        Ok(normal(column, plan.schema())?.alias_qualified(table.cloned(), field.name()))
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    subquery.subquery = Arc::new(LogicalPlanBuilder::new_from_arc(plan).project(columns)?.build()?);
    Ok(())
}

/// `nullif`, `greatest` and `least` of intervals, as `CASE`.
fn chosen(call: &ScalarFunction, columns: &DFSchema) -> Result<Option<Expr>> {
    let is_of_intervals = match call.args.first() {
        Some(first) => matches!(first.get_type(columns)?, DataType::Interval(_)),
        None => false,
    };
    if !is_of_intervals {
        return Ok(None);
    }
    let compare = |one: &Expr, op, other: &Expr| -> Result<Expr> {
        Ok(binary_expr(normal(one.clone(), columns)?, op, normal(other.clone(), columns)?))
    };
    let (name, arguments) = (call.func.name(), &call.args);
    let op = match (name, arguments.as_slice()) {
        ("nullif", [one, other]) => {
            let none = Expr::Literal(ScalarValue::try_from(&INTERVAL)?, None);
            return Ok(Some(when(compare(one, Operator::Eq, other)?, none).otherwise(one.clone())?));
        }
        ("greatest", _) => Operator::Gt,
        ("least", _) => Operator::Lt,
        _ => return Ok(None),
    };
    let mut rest = arguments.iter().cloned();
    let first = rest.next().map(Ok);
    let choice = rest.fold(first, |choice, next| {
        choice.map(|choice| {
            let choice = choice?;
            let is_better = compare(&next, op, &choice)?.or(choice.clone().is_null());
            when(is_better.and(next.clone().is_not_null()), next).otherwise(choice)
        })
    });
    choice.transpose()
}

fn aggregated(call: &mut AggregateFunction, columns: &DFSchema) -> Result<()> {
    let params = &mut call.params;
    params.order_by = sorted(mem::take(&mut params.order_by), columns)?;
    if let Some(extreme) = extreme(&call.func, &params.args, columns)? {
        call.func = Arc::new(AggregateUDF::from(extreme));
        return Ok(());
    }
    if params.distinct {
        let is_count = call.func.name() == "count";
        params.args = distinct(mem::take(&mut params.args), is_count, columns)?;
    }
    Ok(())
}

fn framed(call: &mut WindowFunction, columns: &DFSchema) -> Result<()> {
    let params = &mut call.params;
    params.partition_by = all_normal(mem::take(&mut params.partition_by), columns)?;
    params.order_by = sorted(mem::take(&mut params.order_by), columns)?;
    let WindowFunctionDefinition::AggregateUDF(function) = &call.fun else { return Ok(()) };
    if let Some(extreme) = extreme(function, &params.args, columns)? {
        call.fun = WindowFunctionDefinition::AggregateUDF(Arc::new(AggregateUDF::from(extreme)));
    } else if params.distinct {
        let is_count = function.name() == "count";
        params.args = distinct(mem::take(&mut params.args), is_count, columns)?;
    }
    Ok(())
}

/// Our function in the place of DataFusion's `min` or `max` of an interval.
fn extreme(
    function: &AggregateUDF,
    arguments: &[Expr],
    columns: &DFSchema,
) -> Result<Option<IntervalExtreme>> {
    // By name: under a memory limit functions are wrapped.
    let extreme = match function.name() {
        "min" => IntervalExtreme::Min,
        "max" => IntervalExtreme::Max,
        _ => return Ok(None),
    };
    let [of] = arguments else { return Ok(None) };
    Ok((of.get_type(columns)? == INTERVAL).then_some(extreme))
}

/// The arguments of an aggregate over distinct values.
fn distinct(arguments: Vec<Expr>, is_count: bool, columns: &DFSchema) -> Result<Vec<Expr>> {
    if is_count {
        return all_normal(arguments, columns);
    }
    for argument in &arguments {
        if is_interval(argument, columns)? {
            return Err(refused("DISTINCT in an aggregate other than count"));
        }
    }
    Ok(arguments)
}

fn joined(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let (left, right) = (join.left.schema(), join.right.schema());
    let mut is_changed = false;
    for (one, other) in &mut join.on {
        if is_interval(one, left)? || is_interval(other, right)? {
            *one = normal(mem::take(one), left)?;
            *other = normal(mem::take(other), right)?;
            is_changed = true;
        }
    }
    if is_changed {
        // The names of USING have been resolved; its keys would have to be columns.
        join.join_constraint = JoinConstraint::On;
    }
    Ok(Transformed::new_transformed(LogicalPlan::Join(join), is_changed))
}

/// Groups by intervals in their comparable form, and shows one of each group.
fn grouped(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let below = columns_below(&LogicalPlan::Aggregate(aggregate.clone()));
    let mut keys = Vec::new();
    let all_keys = grouping_set_to_exprlist(&aggregate.group_expr)?;
    for key in &all_keys {
        if is_interval(key, &below)? {
            keys.push((*key).clone());
        }
    }
    if keys.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let names = |at: usize| (format!("__interval_{at}"), format!("__shown_{at}"));
    let by_length = |expr: Expr| match keys.iter().position(|key| *key == expr) {
        Some(at) => Transformed::yes(NormalInterval::call(expr.unalias()).alias(names(at).0)),
        None => Transformed::no(expr),
    };
    let in_set = |expr: Expr| match expr {
        Expr::GroupingSet(_) => expr.map_children(|key| Ok(by_length(key))).data(),
        key => Ok(by_length(key).data),
    };
    let groups = aggregate.group_expr.iter().cloned().map(in_set).collect::<Result<Vec<_>>>()?;
    let shown = keys.iter().enumerate().map(|(at, key)| {
        let function = Arc::new(AggregateUDF::from(IntervalExtreme::Min));
        function.call(vec![key.clone().unalias()]).alias(names(at).1)
    });
    let aggregates = aggregate.aggr_expr.iter().cloned().chain(shown).collect();
    let schema = Arc::clone(&aggregate.schema);
    let columns = schema.iter().enumerate().map(|(at, (table, field))| {
        let key = all_keys.get(at).and_then(|key| keys.iter().position(|other| other == *key));
        let Some(key) = key else { return Ok(Expr::Column(Column::from((table, field.as_ref())))) };
        let [by, shown] = <[String; 2]>::from(names(key)).map(|name| Expr::Column(Column::from_name(name)));
        // In a grouping set without it, the key is null.
        let none = Expr::Literal(ScalarValue::try_from(field.data_type())?, None);
        Ok(when(by.is_null(), none).otherwise(shown)?.alias_qualified(table.cloned(), field.name()))
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let input = LogicalPlan::Aggregate(Aggregate::try_new(aggregate.input, groups, aggregates)?);
    Ok(Transformed::yes(LogicalPlanBuilder::from(input).project(columns)?.build()?))
}
