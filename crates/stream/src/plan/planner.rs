use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, TableReference};
use datafusion::datasource::{MemTable, ViewTable};
use datafusion::error::DataFusionError;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::prelude::SessionContext;
use yeoul_dialect::syntax::Statement;

use super::pipeline::{Pipeline, PlanNode, Stage};
use super::query::{OutputMode, Query, StreamDefinition};
use super::script::{Insert, Script};
use super::state_call::KeyedTable;
use super::window_function::WindowedTable;
use super::{TIMESTAMP, WindowFunction, meaning};
use crate::error::{Error, Result, invalid};
use crate::state_function::StateFunctions;
use keyed::KeyedCall;
use walk::{Base, Relation, Walk};

mod aggregate;
pub(super) mod distinct;
mod join;
mod keyed;
mod lookup;
mod rules;
mod walk;

/// Names of the columns that windows add.
pub(super) const WINDOW_COLUMNS: [&str; 3] = ["window_start", "window_end", "window_time"];

/// Queries of a job. `schema_of` gives what a stream's rows look like, or refuses its options.
///
/// # Errors
/// `Invalid` for names that are unknown and for what streams cannot do, by its name.
pub fn plan(
    script: &Script,
    schema_of: impl Fn(&StreamDefinition) -> Result<SchemaRef>,
) -> Result<Vec<Query>> {
    plan_with(script, &StateFunctions::default(), schema_of)
}

/// The same, for a job that may call these state functions.
///
/// # Errors
/// As [`plan`].
pub fn plan_with(
    script: &Script,
    functions: &StateFunctions,
    schema_of: impl Fn(&StreamDefinition) -> Result<SchemaRef>,
) -> Result<Vec<Query>> {
    let mut schemas = BTreeMap::new();
    for (name, stream) in &script.streams {
        let schema = schema_of(stream)?;
        check_watermark(stream, &schema)?;
        schemas.insert(name.clone(), schema);
    }
    script.inserts.iter().map(|insert| plan_query(script, functions, &schemas, insert)).collect()
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

fn plan_query(
    script: &Script,
    functions: &StateFunctions,
    schemas: &BTreeMap<String, SchemaRef>,
    insert: &Insert,
) -> Result<Query> {
    let sink = script.sinks.get(&insert.sink).cloned().ok_or_else(|| {
        invalid(format!("there is no sink '{}'", insert.sink)).with_hint("CREATE SINK before INSERT INTO")
    })?;
    let in_query = |error| within(&format!("INSERT INTO {}", insert.sink), &error);
    let context = meaning::context()?;
    let relations = relations(&context, script, functions, schemas, insert).map_err(in_query)?;
    let state = context.state();
    let logical = logical_plan(&context, &insert.query).map_err(in_query)?;
    let logical = optimized(&state, &logical).map_err(in_query)?;
    let walk = Walk::new(&state, &relations, schemas, script);
    let (root, streams, tables) = walk.tree(&logical).map_err(in_query)?;
    let output_mode = insert.output_mode.unwrap_or(OutputMode::Append);
    rules::check(&root, output_mode).map_err(in_query)?;
    let mut streams = streams.iter().map(|name| (script.streams[name].clone(), Arc::clone(&schemas[name])));
    let Some((stream, stream_schema)) = streams.next() else {
        return Err(in_query(invalid("the query reads no stream")));
    };
    let pipeline = Pipeline { root, schema: Arc::new(logical.schema().as_arrow().clone()) };
    Ok(Query {
        name: insert.sink.clone(),
        stream,
        stream_schema,
        further_streams: streams.collect(),
        tables: tables.iter().map(|name| script.tables[name].clone()).collect(),
        pipeline,
        sink,
        output_mode,
        settings: insert.settings.clone(),
    })
}

/// Meanings of names in a query: streams, and streams and views with windows or state functions. Other views the planner puts in
/// the place of their names.
fn relations(
    context: &SessionContext,
    script: &Script,
    functions: &StateFunctions,
    schemas: &BTreeMap<String, SchemaRef>,
    insert: &Insert,
) -> Result<BTreeMap<String, Relation>> {
    let mut relations = BTreeMap::new();
    for (name, schema) in schemas {
        relations.insert(name.clone(), Relation::of(Base::Stream(name.clone())));
        register(context, name, schema)?;
    }
    for (name, table) in &script.tables {
        relations.insert(name.clone(), Relation::of(Base::Table(name.clone())));
        register(context, name, &table.schema())?;
    }
    let mut views = BTreeMap::new();
    for view in &script.views {
        let in_view = |error| within(&format!("view '{}'", view.name), &error);
        let windowed = &view.windowed_tables;
        add_windowed(context, schemas, &views, windowed, &mut relations).map_err(in_view)?;
        let keyed = &view.keyed_tables;
        add_keyed(context, functions, schemas, &views, keyed, &mut relations).map_err(in_view)?;
        let plan = logical_plan(context, &view.query).map_err(in_view)?;
        let table = ViewTable::new(plan.clone(), None);
        context
            .register_table(TableReference::bare(view.name.as_str()), Arc::new(table))
            .map_err(planning)?;
        views.insert(view.name.clone(), plan);
    }
    add_windowed(context, schemas, &views, &insert.windowed_tables, &mut relations)?;
    add_keyed(context, functions, schemas, &views, &insert.keyed_tables, &mut relations)?;
    Ok(relations)
}

/// Adds streams and views with windows to what names stand for.
fn add_windowed(
    context: &SessionContext,
    schemas: &BTreeMap<String, SchemaRef>,
    views: &BTreeMap<String, LogicalPlan>,
    tables: &[WindowedTable],
    relations: &mut BTreeMap<String, Relation>,
) -> Result<()> {
    for windowed in tables {
        let (base, schema) = base(context, schemas, views, &windowed.stream)?;
        register(context, &windowed.name, &with_windows(&schema))?;
        let relation = Relation { windows: Some(windowed.function.clone()), ..Relation::of(base) };
        relations.insert(windowed.name.clone(), relation);
    }
    Ok(())
}

/// Adds streams and views with state functions to what names stand for.
fn add_keyed(
    context: &SessionContext,
    functions: &StateFunctions,
    schemas: &BTreeMap<String, SchemaRef>,
    views: &BTreeMap<String, LogicalPlan>,
    tables: &[KeyedTable],
    relations: &mut BTreeMap<String, Relation>,
) -> Result<()> {
    for table in tables {
        let (base, schema) = base(context, schemas, views, &table.stream)?;
        let call = KeyedCall::new(functions, table, &schema)?;
        register(context, &table.name, &call.schema())?;
        relations.insert(table.name.clone(), Relation { keyed: Some(call), ..Relation::of(base) });
    }
    Ok(())
}

/// Origin of the rows of a stream or a view, and their schema.
fn base(
    context: &SessionContext,
    schemas: &BTreeMap<String, SchemaRef>,
    views: &BTreeMap<String, LogicalPlan>,
    name: &str,
) -> Result<(Base, SchemaRef)> {
    match (schemas.get(name), views.get(name)) {
        (Some(schema), _) => Ok((Base::Stream(name.to_owned()), Arc::clone(schema))),
        (None, Some(plan)) => {
            let plan = optimized(&context.state(), plan)?;
            let schema = Arc::new(plan.schema().as_arrow().clone());
            Ok((Base::View(Arc::new(plan)), schema))
        }
        (None, None) => Err(invalid(format!("there is no stream '{name}'"))),
    }
}

/// An error with the place that it is of before it.
fn within(place: &str, error: &Error) -> Error {
    let wrapped = Error::new(error.kind(), format!("{place}: {error}"));
    match error.hint() {
        Some(hint) => wrapped.with_hint(hint.to_owned()),
        None => wrapped,
    }
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

fn logical_plan(context: &SessionContext, query: &Statement) -> Result<LogicalPlan> {
    let plan = meaning::planned(context, query)?;
    refuse_expressions(&plan)?;
    distinct::replace(plan)
}

fn optimized(state: &SessionState, plan: &LogicalPlan) -> Result<LogicalPlan> {
    state.optimize(plan).map_err(planning)
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
        Expr::WindowFunction(call) if call.fun.name() == "row_number" => Some(
            "ROW_NUMBER() OVER a window of rows is not there yet: the row with the least time of a key may change when an earlier \
             one comes. SELECT DISTINCT ON (key) keeps the first that comes"
                .to_owned(),
        ),
        Expr::WindowFunction(_) => Some("functions OVER a window of rows are not there yet".to_owned()),
        Expr::AggregateFunction(call) if call.params.distinct => Some(
            "DISTINCT within an aggregate is not there yet: approx_count_distinct counts about how many there are".to_owned(),
        ),
        _ => None,
    }
}

fn planning(error: DataFusionError) -> Error {
    meaning::refused(error.into())
}

/// An expression over rows.
fn physical(state: &SessionState, expr: Expr, schema: &DFSchema) -> Result<Arc<dyn PhysicalExpr>> {
    state.create_physical_expr(expr, schema).map_err(planning)
}

#[cfg(test)]
mod tests;
