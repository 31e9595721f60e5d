use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::DFSchema;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, Projection, TableScan, Union};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;

use super::distinct::DistinctNode;
use super::keyed::{self, KeyedCall};
use super::{
    PlanNode, Script, Stage, WINDOW_COLUMNS, WindowFunction, aggregate, distinct, join, lookup, physical,
    planning,
};
use crate::error::{Result, invalid};
use crate::plan::{ScanPlan, TimeColumn, WatermarkPlan};

/// Meaning of a name in a query.
pub(super) struct Relation {
    /// Origin of its rows.
    pub base: Base,
    /// Windows that they get.
    pub windows: Option<WindowFunction>,
    /// State function over them.
    pub keyed: Option<KeyedCall>,
}

impl Relation {
    /// Rows as they are.
    pub fn of(base: Base) -> Self {
        Self { base, windows: None, keyed: None }
    }
}

/// Origin of rows.
pub(super) enum Base {
    /// A stream, by its name.
    Stream(String),
    /// A view of the job, whose plan is optimized by itself.
    View(Arc<LogicalPlan>),
    /// A table at rest, by its name.
    Table(String),
}

/// The way from a logical plan, whose root is what comes out, to a tree of steps, whose leaves are streams.
pub(super) struct Walk<'a> {
    pub state: &'a SessionState,
    relations: &'a BTreeMap<String, Relation>,
    schemas: &'a BTreeMap<String, SchemaRef>,
    script: &'a Script,
    /// Streams that were met, in the order in which operators number them.
    streams: Vec<String>,
    /// Tables at rest that were met, in the order in which operators number them.
    tables: Vec<String>,
    /// Number of steps that gave event time so far.
    origins: usize,
}

/// A step under construction.
pub(super) struct Built {
    pub node: PlanNode,
    /// Columns that carry event time.
    pub times: Vec<Timed>,
    /// The table whose rows they are, if they are at rest; there is no node then.
    pub at_rest: Option<AtRest>,
}

/// Rows of a table at rest, which only a join can take.
#[derive(Debug, Clone)]
pub(super) struct AtRest {
    /// Number of the table.
    pub table: usize,
    /// Steps that each row takes.
    pub stages: Vec<Stage>,
}

/// A column of event time, and the step that it is from: the columns of one window are of one origin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timed {
    pub time: TimeColumn,
    pub origin: usize,
}

impl<'a> Walk<'a> {
    pub fn new(
        state: &'a SessionState,
        relations: &'a BTreeMap<String, Relation>,
        schemas: &'a BTreeMap<String, SchemaRef>,
        script: &'a Script,
    ) -> Self {
        Self { state, relations, schemas, script, streams: Vec::new(), tables: Vec::new(), origins: 0 }
    }

    /// The tree, and the names of its streams and of its tables at rest.
    pub fn tree(mut self, root: &LogicalPlan) -> Result<(PlanNode, Vec<String>, Vec<String>)> {
        let built = self.moving(root)?;
        Ok((built.node, self.streams, self.tables))
    }

    /// A step whose rows come from streams.
    fn moving(&mut self, plan: &LogicalPlan) -> Result<Built> {
        let built = self.build(plan)?;
        match built.at_rest {
            None => Ok(built),
            Some(AtRest { table, .. }) => {
                let text = format!(
                    "the table '{}' is at rest: it can only be joined with a stream",
                    self.tables[table]
                );
                Err(invalid(text).with_hint("… FROM stream JOIN table ON stream.key = table.key"))
            }
        }
    }

    pub fn build(&mut self, plan: &LogicalPlan) -> Result<Built> {
        match plan {
            LogicalPlan::TableScan(scan) => self.scan(scan),
            LogicalPlan::SubqueryAlias(alias) => self.build(&alias.input),
            LogicalPlan::Filter(filter) => self.filter(filter),
            LogicalPlan::Projection(projection) => self.projection(projection),
            LogicalPlan::Aggregate(plan) => {
                let built = self.moving(&plan.input)?;
                aggregate::plan(self.state, built, plan)
            }
            LogicalPlan::Join(plan) => {
                let sides = [self.build(&plan.left)?, self.build(&plan.right)?];
                match (&sides[0].at_rest, &sides[1].at_rest) {
                    (None, None) => join::plan(self.state, sides, plan),
                    _ => lookup::plan(self.state, sides, plan),
                }
            }
            LogicalPlan::Union(union) => self.union(union),
            LogicalPlan::Extension(extension) => {
                match extension.node.as_any().downcast_ref::<DistinctNode>() {
                    Some(node) => {
                        let built = self.moving(&node.input)?;
                        distinct::plan(self.state, built, node)
                    }
                    None => Err(refused(plan)),
                }
            }
            other => Err(refused(other)),
        }
    }

    fn scan(&mut self, scan: &TableScan) -> Result<Built> {
        let table = scan.table_name.table();
        let Some(relation) = self.relations.get(table) else {
            return Err(invalid(format!("there is no stream '{table}'")));
        };
        if !scan.filters.is_empty() || scan.fetch.is_some() {
            return Err(invalid("a part of the rows of a stream is not there yet (LIMIT)"));
        }
        let (mut built, mut schema) = match &relation.base {
            Base::Stream(stream) => (self.stream(stream), Arc::clone(&self.schemas[stream])),
            Base::View(plan) => (self.build(plan)?, Arc::new(plan.schema().as_arrow().clone())),
            Base::Table(name) => (self.table(name), self.script.tables[name].schema()),
        };
        let columns =
            schema.fields().len() + if relation.windows.is_some() { WINDOW_COLUMNS.len() } else { 0 };
        let read = scan.projection.as_ref();
        if let Some(windows) = &relation.windows {
            let with_time = read.is_none_or(|read| read.contains(&(columns - 1)));
            built = self.windows(built, windows, with_time, table, &schema)?;
        }
        if let Some(call) = &relation.keyed {
            built = keyed::plan(built, call, &schema)?;
            schema = call.schema();
        }
        let columns = if relation.keyed.is_some() { schema.fields().len() } else { columns };
        let indices = read.cloned().unwrap_or_else(|| (0..columns).collect());
        let schema: SchemaRef = Arc::new(scan.projected_schema.as_arrow().clone());
        let column =
            |(at, index): (usize, &usize)| Arc::new(Column::new(schema.field(at).name(), *index)) as _;
        let expressions = indices.iter().enumerate().map(column).collect();
        Ok(built.projected(expressions, schema))
    }

    /// Rows of a table at rest, all columns of them. Each time that a query names one it is read for itself.
    fn table(&mut self, name: &str) -> Built {
        self.tables.push(name.to_owned());
        let at_rest = AtRest { table: self.tables.len() - 1, stages: Vec::new() };
        Built { node: nothing(), times: Vec::new(), at_rest: Some(at_rest) }
    }

    /// The rows of a stream, all columns of them.
    fn stream(&mut self, name: &str) -> Built {
        let known = self.streams.iter().position(|other| other == name);
        let stream = known.unwrap_or_else(|| {
            self.streams.push(name.to_owned());
            self.streams.len() - 1
        });
        let watermark = self.script.streams[name].watermark.as_ref().map(|definition| {
            let column = self.schemas[name].index_of(&definition.column).expect("it was checked");
            WatermarkPlan { column, delay_ms: definition.delay_ms, clock: definition.clock }
        });
        self.origins += 1;
        let times = watermark.map(|WatermarkPlan { column, delay_ms, .. }| Timed {
            time: TimeColumn { column, to_end_ms: 0, is_window: false, delay_ms },
            origin: self.origins,
        });
        let node = PlanNode::Scan(ScanPlan { stream, before_watermark: Vec::new(), watermark });
        Built { node, times: times.into_iter().collect(), at_rest: None }
    }

    fn windows(
        &mut self,
        built: Built,
        function: &WindowFunction,
        with_time: bool,
        table: &str,
        schema: &SchemaRef,
    ) -> Result<Built> {
        let owner = table.split('@').next().unwrap_or(table);
        if built.at_rest.is_some() {
            return Err(invalid(format!("windows of '{owner}': its rows are at rest")));
        }
        let place = schema.column_with_name(&function.time_column).map(|(place, _)| place);
        let of_column = built.times.iter().find(|timed| Some(timed.time.column) == place).copied();
        if let (None, Some(other)) = (of_column, built.times.first()) {
            let other = schema.field(other.time.column).name();
            let text = format!("windows of '{}', while the watermark is for '{other}'", function.time_column);
            return Err(invalid(text));
        }
        check_time(function, owner, schema)?;
        let mut times = built.times;
        self.origins += 1;
        if let Some(Timed { time: TimeColumn { delay_ms, .. }, .. }) = of_column {
            let count = schema.fields().len();
            let mut add = |column, to_end_ms, is_window| {
                let time = TimeColumn { column, to_end_ms, is_window, delay_ms };
                times.push(Timed { time, origin: self.origins });
            };
            add(count, function.size_ms, true);
            add(count + 1, 0, true);
            if with_time {
                add(count + 2, 0, false);
            }
        }
        let (input, schema) = (Box::new(built.node), Arc::clone(schema));
        let function = function.clone();
        Ok(Built { node: PlanNode::Windows { input, function, with_time, schema }, times, at_rest: None })
    }

    fn filter(&mut self, filter: &Filter) -> Result<Built> {
        let mut built = self.build(&filter.input)?;
        let stream = match filter.input.as_ref() {
            LogicalPlan::TableScan(scan) => self.relations.get(scan.table_name.table()).map(|of| (scan, of)),
            _ => None,
        };
        let Some((scan, Relation { base: Base::Stream(stream), windows, keyed: None })) = stream else {
            built.push(Stage::Filter(physical(self.state, filter.predicate.clone(), filter.input.schema())?));
            return Ok(built);
        };
        let schema = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &self.schemas[stream]);
        let schema = schema.map_err(planning)?;
        let watermark = self.script.streams[stream].watermark.as_ref();
        let time = watermark.map(|watermark| watermark.column.as_str());
        for predicate in split_conjunction_owned(filter.predicate.clone()) {
            if names_time(&predicate, time, windows.as_ref()) {
                built.push(Stage::Filter(physical(self.state, predicate, filter.input.schema())?));
            } else {
                let early = Stage::Filter(physical(self.state, predicate, &schema)?);
                scan_of(&mut built.node).before_watermark.push(early);
            }
        }
        Ok(built)
    }

    fn projection(&mut self, projection: &Projection) -> Result<Built> {
        let built = self.build(&projection.input)?;
        let input = projection.input.schema();
        let expressions: Result<Vec<_>> =
            projection.expr.iter().map(|expr| physical(self.state, expr.clone(), input)).collect();
        Ok(built.projected(expressions?, Arc::new(projection.schema.as_arrow().clone())))
    }

    fn union(&mut self, union: &Union) -> Result<Built> {
        let schema: SchemaRef = Arc::new(union.schema.as_arrow().clone());
        let inputs: Result<Vec<Built>> = union.inputs.iter().map(|input| self.moving(input)).collect();
        let inputs = inputs?;
        // The columns of a union are those of its first input, as in Spark.
        let times = inputs.first().map_or(Vec::new(), |first| first.times.clone());
        let inputs = inputs.into_iter().map(|input| input.node).collect();
        Ok(Built { node: PlanNode::Union { inputs, schema }, times, at_rest: None })
    }
}

impl Built {
    /// Adds a stage.
    fn push(&mut self, stage: Stage) {
        if let Some(at_rest) = &mut self.at_rest {
            at_rest.stages.push(stage);
            return;
        }
        if let PlanNode::Calc { stages, .. } = &mut self.node {
            stages.push(stage);
            return;
        }
        let input = Box::new(std::mem::replace(&mut self.node, nothing()));
        self.node = PlanNode::Calc { input, stages: vec![stage] };
    }

    fn projected(mut self, expressions: Vec<Arc<dyn PhysicalExpr>>, schema: SchemaRef) -> Self {
        let mut times = Vec::new();
        for (place, expression) in expressions.iter().enumerate() {
            let column = expression.downcast_ref::<Column>().map(Column::index);
            times.extend(self.times.iter().filter(|timed| Some(timed.time.column) == column).map(|timed| {
                let time = TimeColumn { column: place, ..timed.time };
                Timed { time, ..*timed }
            }));
        }
        self.times = times;
        self.push(Stage::Project { expressions, schema });
        self
    }

    /// The column by which rows are late for a step with state.
    pub fn late_time(&self, schema: &DFSchema) -> Result<Option<TimeColumn>> {
        let Some(first) = self.times.first() else { return Ok(None) };
        if let Some(other) = self.times.iter().find(|timed| timed.origin != first.origin) {
            let name = |timed: &Timed| schema.field(timed.time.column).name().clone();
            let text = format!(
                "more than one column of event time comes to a step that keeps state: '{}' and '{}'",
                name(first),
                name(other)
            );
            return Err(invalid(text).with_hint("select one of them before"));
        }
        // The end of a window needs no addition.
        Ok(self.times.iter().map(|timed| timed.time).min_by_key(|time| time.to_end_ms))
    }

    /// The first of these keys that is a column of event time, and what it says.
    pub fn time_key(&self, keys: &[Arc<dyn PhysicalExpr>]) -> Option<(usize, TimeColumn)> {
        keys.iter().enumerate().find_map(|(place, key)| {
            let column = key.downcast_ref::<Column>()?.index();
            let timed = self.times.iter().find(|timed| timed.time.column == column)?;
            Some((place, timed.time))
        })
    }
}

/// A step that something else takes the place of.
fn nothing() -> PlanNode {
    PlanNode::Scan(ScanPlan { stream: 0, before_watermark: Vec::new(), watermark: None })
}

/// The scan below filters, projections and windows.
fn scan_of(node: &mut PlanNode) -> &mut ScanPlan {
    match node {
        PlanNode::Scan(scan) => scan,
        PlanNode::Calc { input, .. } | PlanNode::Windows { input, .. } => scan_of(input),
        _ => unreachable!("a stream that is read is a scan, with windows or without"),
    }
}

fn check_time(windows: &WindowFunction, owner: &str, schema: &Schema) -> Result<()> {
    use arrow::datatypes::{DataType, TimeUnit};
    let column = &windows.time_column;
    let wrong =
        |text: &str| Err(invalid(format!("windows of stream '{owner}': DESCRIPTOR({column}) {text}")));
    match schema.field_with_name(column).map(arrow::datatypes::Field::data_type) {
        Ok(DataType::Timestamp(TimeUnit::Microsecond, _)) => Ok(()),
        Ok(_) => wrong("is no TIMESTAMP"),
        Err(_) => wrong("names no column"),
    }
}

fn names_time(predicate: &Expr, time: Option<&str>, windows: Option<&WindowFunction>) -> bool {
    predicate.is_volatile()
        || predicate.column_refs().iter().any(|column| {
            let name = column.name.as_str();
            Some(name) == time
                || windows
                    .is_some_and(|windows| name == windows.time_column || WINDOW_COLUMNS.contains(&name))
        })
}

fn refused(plan: &LogicalPlan) -> crate::error::Error {
    let what = match plan {
        LogicalPlan::Sort(_) => "ORDER BY: a stream has no end that one could sort before",
        LogicalPlan::Limit(_) => "LIMIT is not there yet",
        LogicalPlan::EmptyRelation(_) | LogicalPlan::Values(_) => {
            "no row of a stream comes out of this query"
        }
        LogicalPlan::Window(_) => "functions OVER a window of rows are not there yet",
        LogicalPlan::Unnest(_) => "UNNEST is not there yet",
        other => {
            return invalid(format!("streams cannot run this step of the query: {}", other.display()));
        }
    };
    invalid(what)
}
