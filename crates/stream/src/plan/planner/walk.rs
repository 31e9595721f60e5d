use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::DFSchema;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, Projection, TableScan};
use datafusion::physical_expr::expressions::Column;

use super::{Pipeline, Script, Stage, WINDOW_COLUMNS, WindowFunction, aggregate, physical, planning};
use crate::error::{Result, invalid};

/// The way from a logical plan, whose root is what comes out, to a pipeline, which begins at the stream.
pub(super) struct Walk<'a> {
    pub state: &'a SessionState,
    tables: &'a BTreeMap<String, (String, Option<WindowFunction>)>,
    schemas: &'a BTreeMap<String, SchemaRef>,
    script: &'a Script,
}

/// A pipeline under construction.
pub(super) struct Built {
    /// Name of the table that is scanned.
    table: String,
    pub pipeline: Pipeline,
    /// Which columns of the rows are start and end of a window.
    pub window_columns: [Option<usize>; 2],
}

impl<'a> Walk<'a> {
    pub fn new(
        state: &'a SessionState,
        tables: &'a BTreeMap<String, (String, Option<WindowFunction>)>,
        schemas: &'a BTreeMap<String, SchemaRef>,
        script: &'a Script,
    ) -> Self {
        Self { state, tables, schemas, script }
    }

    /// The pipeline, and the name of the table at its beginning.
    pub fn pipeline(&self, root: &LogicalPlan) -> Result<(String, Pipeline)> {
        let mut built = self.build(root)?;
        built.pipeline.schema = Arc::new(root.schema().as_arrow().clone());
        Ok((built.table, built.pipeline))
    }

    fn build(&self, plan: &LogicalPlan) -> Result<Built> {
        match plan {
            LogicalPlan::TableScan(scan) => self.scan(scan),
            LogicalPlan::SubqueryAlias(alias) => self.build(&alias.input),
            LogicalPlan::Filter(filter) => self.filter(filter),
            LogicalPlan::Projection(projection) => self.projection(projection),
            LogicalPlan::Aggregate(plan) => {
                let built = self.build(&plan.input)?;
                aggregate::plan(self, built, plan)
            }
            other => Err(refused(other)),
        }
    }

    fn scan(&self, scan: &TableScan) -> Result<Built> {
        let table = scan.table_name.table().to_owned();
        let Some((stream, windows)) = self.tables.get(&table) else {
            return Err(invalid(format!("there is no stream '{table}'")));
        };
        if !scan.filters.is_empty() || scan.fetch.is_some() {
            return Err(invalid("a part of the rows of a stream is not there yet (LIMIT)"));
        }
        let definition = &self.script.streams[stream];
        if let Some(windows) = windows
            && let Some(watermark) = &definition.watermark
            && watermark.column != windows.time_column
        {
            let text = format!(
                "windows of '{}', while the watermark is for '{}'",
                windows.time_column, watermark.column
            );
            return Err(invalid(text));
        }
        let stream_schema = &self.schemas[stream];
        let columns = stream_schema.fields().len() + if windows.is_some() { WINDOW_COLUMNS.len() } else { 0 };
        let indices = scan.projection.clone().unwrap_or_else(|| (0..columns).collect());
        let place = |wanted: usize| indices.iter().position(|index| *index == wanted);
        let window_columns =
            if windows.is_some() { [columns - 2, columns - 1].map(place) } else { [None, None] };
        if let Some(windows) = windows {
            check_time(windows, stream, stream_schema)?;
        }
        let schema: SchemaRef = Arc::new(scan.projected_schema.as_arrow().clone());
        let column =
            |(at, index): (usize, &usize)| Arc::new(Column::new(schema.field(at).name(), *index)) as _;
        let expressions = indices.iter().enumerate().map(column).collect();
        let pipeline = Pipeline {
            before_watermark: Vec::new(),
            watermark: definition.watermark.clone(),
            windows: windows.clone(),
            stages: vec![Stage::Project { expressions, schema: Arc::clone(&schema) }],
            aggregate: None,
            after_aggregate: Vec::new(),
            schema,
        };
        Ok(Built { table, pipeline, window_columns })
    }

    fn filter(&self, filter: &Filter) -> Result<Built> {
        let mut built = self.build(&filter.input)?;
        let LogicalPlan::TableScan(scan) = filter.input.as_ref() else {
            built.push(Stage::Filter(physical(self.state, filter.predicate.clone(), filter.input.schema())?));
            return Ok(built);
        };
        let (stream, _) = &self.tables[&built.table];
        let schema = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &self.schemas[stream]);
        let schema = schema.map_err(planning)?;
        for predicate in split_conjunction_owned(filter.predicate.clone()) {
            if names_time(&predicate, &built.pipeline) {
                built.push(Stage::Filter(physical(self.state, predicate, filter.input.schema())?));
            } else {
                let early = Stage::Filter(physical(self.state, predicate, &schema)?);
                built.pipeline.before_watermark.push(early);
            }
        }
        Ok(built)
    }

    fn projection(&self, projection: &Projection) -> Result<Built> {
        let mut built = self.build(&projection.input)?;
        let input = projection.input.schema();
        let expressions: Result<Vec<_>> =
            projection.expr.iter().map(|expr| physical(self.state, expr.clone(), input)).collect();
        let expressions = expressions?;
        let from = |expression: &Arc<dyn datafusion::physical_expr::PhysicalExpr>| {
            expression.downcast_ref::<Column>().map(Column::index)
        };
        let place = |column: Option<usize>| {
            column
                .and_then(|column| expressions.iter().position(|expression| from(expression) == Some(column)))
        };
        built.window_columns = built.window_columns.map(place);
        let schema = Arc::new(projection.schema.as_arrow().clone());
        built.push(Stage::Project { expressions, schema });
        Ok(built)
    }
}

impl Built {
    fn push(&mut self, stage: Stage) {
        let is_after = self.pipeline.aggregate.is_some();
        let stages = if is_after { &mut self.pipeline.after_aggregate } else { &mut self.pipeline.stages };
        stages.push(stage);
    }
}

fn check_time(windows: &WindowFunction, stream: &str, schema: &Schema) -> Result<()> {
    use arrow::datatypes::{DataType, TimeUnit};
    let column = &windows.time_column;
    let wrong =
        |text: &str| Err(invalid(format!("windows of stream '{stream}': DESCRIPTOR({column}) {text}")));
    match schema.field_with_name(column).map(arrow::datatypes::Field::data_type) {
        Ok(DataType::Timestamp(TimeUnit::Microsecond, _)) => Ok(()),
        Ok(_) => wrong("is no TIMESTAMP"),
        Err(_) => wrong("names no column"),
    }
}

fn names_time(predicate: &Expr, pipeline: &Pipeline) -> bool {
    let time = pipeline.watermark.as_ref().map(|watermark| watermark.column.as_str());
    let window_time = pipeline.windows.as_ref().map(|windows| windows.time_column.as_str());
    predicate.is_volatile()
        || predicate.column_refs().iter().any(|column| {
            let name = Some(column.name.as_str());
            name == time
                || name == window_time
                || (pipeline.windows.is_some() && WINDOW_COLUMNS.contains(&column.name.as_str()))
        })
}

fn refused(plan: &LogicalPlan) -> crate::error::Error {
    let what = match plan {
        LogicalPlan::Sort(_) => "ORDER BY: a stream has no end that one could sort before",
        LogicalPlan::Limit(_) => "LIMIT is not there yet",
        LogicalPlan::Join(_) => "a join is not there yet",
        LogicalPlan::Union(_) => "UNION is not there yet",
        LogicalPlan::Distinct(_) => "DISTINCT is not there yet",
        LogicalPlan::EmptyRelation(_) | LogicalPlan::Values(_) => {
            "no row of a stream comes out of this query"
        }
        LogicalPlan::Window(_) => "functions OVER a window of rows are not there yet",
        LogicalPlan::Unnest(_) => "UNNEST is not there yet",
        other => return invalid(format!("streams cannot run this step of the query: {}", other.display())),
    };
    invalid(what)
}
