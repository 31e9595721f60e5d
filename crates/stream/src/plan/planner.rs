use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, TableReference};
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::execution::session_state::SessionState;
use datafusion::functions_aggregate::approx_distinct::approx_distinct_udaf;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;

use super::pipeline::{Pipeline, Stage};
use super::query::{OutputMode, Query, StreamDefinition};
use super::script::{Insert, Script};
use super::{TIMESTAMP, WindowFunction};
use crate::error::{Error, Result, invalid};
use walk::Walk;

mod aggregate;
mod walk;

/// Names of the columns that windows add.
const WINDOW_COLUMNS: [&str; 2] = ["window_start", "window_end"];

/// Queries of a job. `schema_of` gives what a stream's rows look like, or refuses its options.
///
/// # Errors
/// `Invalid` for names that are unknown and for what streams cannot do, by its name.
pub fn plan(
    script: &Script,
    schema_of: impl Fn(&StreamDefinition) -> Result<SchemaRef>,
) -> Result<Vec<Query>> {
    let mut schemas = BTreeMap::new();
    for (name, stream) in &script.streams {
        let schema = schema_of(stream)?;
        check_watermark(stream, &schema)?;
        schemas.insert(name.clone(), schema);
    }
    script.inserts.iter().map(|insert| plan_query(script, &schemas, insert)).collect()
}

fn check_watermark(stream: &StreamDefinition, schema: &Schema) -> Result<()> {
    let Some(watermark) = &stream.watermark else { return Ok(()) };
    let is_time = |field: &&Arc<Field>| matches!(field.data_type(), DataType::Timestamp(..));
    match schema.fields().iter().find(|field| *field.name() == watermark.column) {
        Some(field) if is_time(&field) => Ok(()),
        Some(field) => {
            let text = format!("stream '{}': WATERMARK FOR {}", stream.name, watermark.column);
            Err(invalid(format!("{text}: the column is {}, expected a TIMESTAMP", field.data_type())))
        }
        None => Err(invalid(format!(
            "stream '{}': WATERMARK FOR {}: there is no such column",
            stream.name, watermark.column
        ))),
    }
}

fn plan_query(script: &Script, schemas: &BTreeMap<String, SchemaRef>, insert: &Insert) -> Result<Query> {
    let sink = script.sinks.get(&insert.sink).cloned().ok_or_else(|| {
        invalid(format!("there is no sink '{}'", insert.sink)).with_hint("CREATE SINK before INSERT INTO")
    })?;
    let in_query = |error: Error| {
        let text = format!("INSERT INTO {}: {error}", insert.sink);
        let hint = error.hint().map(str::to_owned);
        let wrapped = Error::new(error.kind(), text);
        hint.map_or(wrapped.clone(), |hint| wrapped.with_hint(hint))
    };
    let context = context();
    let mut tables = BTreeMap::new();
    for (name, schema) in schemas {
        tables.insert(name.clone(), (name.clone(), None));
        register(&context, name, schema)?;
    }
    for windowed in &insert.windowed_tables {
        let Some(schema) = schemas.get(&windowed.stream) else {
            return Err(in_query(invalid(format!("there is no stream '{}'", windowed.stream))));
        };
        register(&context, &windowed.name, &with_windows(schema))?;
        let function = Some(windowed.function.clone());
        tables.insert(windowed.name.clone(), (windowed.stream.clone(), function));
    }
    let state = context.state();
    let logical = logical_plan(&state, &insert.query).map_err(in_query)?;
    let (table, pipeline) =
        Walk::new(&state, &tables, schemas, script).pipeline(&logical).map_err(in_query)?;
    let stream = script.streams[&tables[&table].0].clone();
    let output_mode = insert.output_mode.unwrap_or(OutputMode::Append);
    check_output_mode(&pipeline, output_mode).map_err(in_query)?;
    let stream_schema = Arc::clone(&schemas[&stream.name]);
    let (name, settings) = (insert.sink.clone(), insert.settings.clone());
    Ok(Query { name, stream, stream_schema, pipeline, sink, output_mode, settings })
}

/// What Spark's analyser says of output modes.
fn check_output_mode(pipeline: &Pipeline, mode: OutputMode) -> Result<()> {
    let Some(aggregate) = &pipeline.aggregate else {
        if mode == OutputMode::Complete {
            return Err(invalid("EMIT COMPLETE without an aggregation: a stream's rows have no end")
                .with_hint("leave EMIT out"));
        }
        return Ok(());
    };
    if mode == OutputMode::Append && (pipeline.watermark.is_none() || aggregate.window_key.is_none()) {
        return Err(invalid(
            "an aggregation without a watermark and a window has no rows that never change again",
        )
        .with_hint(
            "use EMIT UPDATES, or give the stream a WATERMARK and group by window_start or window_end",
        ));
    }
    Ok(())
}

fn context() -> SessionContext {
    let mut config = SessionConfig::new().with_target_partitions(1);
    let options = config.options_mut();
    // Fields of JSON are told apart by case, as in Flink; times are instants; text is one array type.
    options.sql_parser.enable_ident_normalization = false;
    options.sql_parser.map_string_types_to_utf8view = false;
    options.execution.time_zone = Some("+00:00".to_owned());
    let context = SessionContext::new_with_config(config);
    // Spark's name for it.
    context.register_udaf(approx_distinct_udaf().as_ref().clone().with_aliases(["approx_count_distinct"]));
    context
}

fn register(context: &SessionContext, name: &str, schema: &SchemaRef) -> Result<()> {
    let table = MemTable::try_new(Arc::clone(schema), vec![Vec::new()]).map_err(planning)?;
    context.register_table(TableReference::bare(name), Arc::new(table)).map_err(planning)?;
    Ok(())
}

/// The stream's columns and those of its windows.
fn with_windows(schema: &Schema) -> SchemaRef {
    let windows = WINDOW_COLUMNS.map(|name| Arc::new(Field::new(name, TIMESTAMP(), true)));
    Arc::new(Schema::new(schema.fields().iter().cloned().chain(windows).collect::<Vec<_>>()))
}

fn logical_plan(state: &SessionState, query: &ast::Query) -> Result<LogicalPlan> {
    let statement = Statement::Statement(Box::new(ast::Statement::Query(Box::new(query.clone()))));
    // The catalogue is in memory: nothing waits.
    let plan = futures::executor::block_on(state.statement_to_plan(statement)).map_err(planning)?;
    refuse_expressions(&plan)?;
    state.optimize(&plan).map_err(planning)
}

/// Refuses what an optimizer would compute once, when the query is planned, and queries in expressions.
fn refuse_expressions(plan: &LogicalPlan) -> Result<()> {
    let mut refused = None;
    let visited = plan.apply(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                refused = refused.take().or_else(|| refusal(expr));
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    visited.map_err(planning)?;
    refused.map_or(Ok(()), |text| Err(invalid(text)))
}

fn refusal(expr: &Expr) -> Option<String> {
    match expr {
        Expr::ScalarFunction(call) if call.func.signature().volatility == Volatility::Stable => {
            Some(format!(
                "the function {} is not there yet: its value would be that of the planning",
                call.func.name()
            ))
        }
        Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_) => {
            Some("a query within an expression is not there yet".to_owned())
        }
        Expr::WindowFunction(_) => Some("functions OVER a window of rows are not there yet".to_owned()),
        _ => None,
    }
}

fn planning(error: DataFusionError) -> Error {
    invalid(format!("cannot plan the query: {}", error.strip_backtrace()))
}

/// An expression over rows, which computes with errors, not with wrong numbers.
fn physical(
    state: &SessionState,
    expr: Expr,
    schema: &DFSchema,
) -> Result<Arc<dyn datafusion::physical_expr::PhysicalExpr>> {
    use datafusion::common::tree_node::Transformed;
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::BinaryExpr;

    let planned = state.create_physical_expr(expr, schema).map_err(planning)?;
    let checked = planned.transform_up(|node| {
        let Some(binary) = node.downcast_ref::<BinaryExpr>() else { return Ok(Transformed::no(node)) };
        if !matches!(binary.op(), Operator::Plus | Operator::Minus | Operator::Multiply) {
            return Ok(Transformed::no(node));
        }
        let (left, right) = (Arc::clone(binary.left()), Arc::clone(binary.right()));
        let checked = BinaryExpr::new(left, *binary.op(), right).with_fail_on_overflow(true);
        Ok(Transformed::yes(Arc::new(checked) as _))
    });
    Ok(checked.map_err(planning)?.data)
}

#[cfg(test)]
mod tests;
