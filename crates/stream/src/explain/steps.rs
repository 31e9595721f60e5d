use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::physical_expr::fmt_sql;

use super::kept;
use super::outline::{Pairs, StateOutline, StepOutline};
use crate::connectors::StreamConnector;
use crate::connectors::option_table::Direction;
use crate::error::Result;
use crate::operators::Operators;
use crate::plan::{
    AggregatePlan, JoinPlan, LookupPlan, OutputMode, PlanNode, Query, ScanPlan, Stage, WindowFunction,
    duration_text, type_name,
};
use crate::state::Layout;

/// Outlines of a query's steps, with the layouts of their tables, those before a step before it.
pub(super) struct Steps<'a> {
    query: &'a Query,
    layouts: std::vec::IntoIter<Vec<Arc<Layout>>>,
}

impl<'a> Steps<'a> {
    pub fn new(query: &'a Query, layouts: Vec<Vec<Arc<Layout>>>) -> Self {
        Self { query, layouts: layouts.into_iter() }
    }

    /// The outline of a step with those before it.
    ///
    /// # Errors
    /// As the connectors of streams.
    pub fn outline(&mut self, step: &PlanNode) -> Result<StepOutline> {
        let inputs: Result<Vec<_>> = step.inputs().into_iter().map(|input| self.outline(input)).collect();
        let inputs = inputs?;
        let layouts = self.layouts.next().expect("each step has its layouts");
        if let PlanNode::Scan(plan) = step {
            return self.scan(plan);
        }
        if let PlanNode::Calc { stages, .. } = step {
            return Ok(over(inputs, stages));
        }
        let mut outline = own(step, self.query.output_mode);
        outline.inputs = inputs;
        if let PlanNode::Lookup { plan, .. } = step {
            let table = &self.query.tables[plan.table];
            outline.name = Some(table.name.clone());
            outline.options = Pairs(table.options.shown());
        }
        if let Some(shards) = Operators::shards_of(self.query, step) {
            let to = if shards == 1 {
                "to one shard: there is no key by which to divide".to_owned()
            } else {
                format!("by key, to {shards} shards")
            };
            outline.tell("exchange", to);
        }
        outline.state =
            layouts.iter().enumerate().map(|(at, layout)| state(layout, self.kept(step, at))).collect();
        Ok(outline)
    }

    fn kept(&self, step: &PlanNode, table: usize) -> String {
        match step {
            PlanNode::Aggregate { plan, .. } => kept::groups(plan, self.query.output_mode),
            PlanNode::Deduplicate { plan, .. } => kept::keys(plan),
            PlanNode::Join { plan, .. } => kept::rows(plan, table),
            PlanNode::Keyed { plan, .. } => kept::states(plan.function.timeout()).to_owned(),
            _ => unreachable!("a step without state has no table"),
        }
    }

    fn scan(&self, plan: &ScanPlan) -> Result<StepOutline> {
        let (stream, schema) = self.query.streams().nth(plan.stream).expect("a scan is of a stream");
        let connector = StreamConnector::new(stream)?;
        let mut read =
            StepOutline { operator: "stream", name: Some(stream.name.clone()), ..Default::default() };
        read.tell("source", connector.description());
        read.tell("columns", columns(schema));
        read.set_options(&stream.options, Direction::Source);
        let mut outline = over(vec![read], &plan.before_watermark);
        if let Some(watermark) = plan.watermark {
            let mut step = StepOutline { operator: "watermark", ..Default::default() };
            let delay = duration_text(watermark.delay_ms);
            step.tell("time", schema.field(watermark.column).name());
            step.tell("delay", delay);
            let clock = watermark.clock;
            for (name, ms) in [("idle after", clock.idle_after_ms), ("future limit", clock.future_limit_ms)] {
                ms.into_iter().for_each(|ms| step.tell(name, duration_text(ms)));
            }
            if clock.sets_future_aside {
                step.tell("rows beyond it", "dead letters");
            }
            step.inputs.push(outline);
            outline = step;
        }
        Ok(outline)
    }
}

/// Outline of a step itself.
fn own(step: &PlanNode, mode: OutputMode) -> StepOutline {
    let mut outline = StepOutline::default();
    match step {
        PlanNode::Windows { function, .. } => windows(&mut outline, function),
        PlanNode::Aggregate { plan, .. } => aggregate(&mut outline, plan, mode),
        PlanNode::Deduplicate { plan, .. } => {
            outline.operator = "deduplicate";
            outline.tell("by", list(&plan.keys));
        }
        PlanNode::Join { plan, .. } => join(&mut outline, plan),
        PlanNode::Keyed { plan, .. } => {
            outline.operator = "state function";
            outline.name = Some(plan.name.clone());
            outline.tell("partition by", list(&plan.keys));
        }
        PlanNode::Lookup { plan, .. } => lookup(&mut outline, plan),
        PlanNode::Union { .. } => outline.operator = "union",
        PlanNode::Scan(_) | PlanNode::Calc { .. } => unreachable!("they have outlines of their own"),
    }
    outline
}

fn windows(outline: &mut StepOutline, function: &WindowFunction) {
    outline.operator = "windows";
    outline.tell("of", &*function.time_column);
    outline.tell("size", duration_text(function.size_ms));
    if function.slide_ms != function.size_ms {
        outline.tell("each", duration_text(function.slide_ms));
    }
    if function.offset_ms != 0 {
        outline.tell("offset", duration_text(function.offset_ms));
    }
}

fn aggregate(outline: &mut StepOutline, plan: &AggregatePlan, mode: OutputMode) {
    outline.operator = "aggregate";
    if !plan.keys.is_empty() {
        outline.tell("group by", list(&plan.keys));
    }
    let functions: Vec<&str> = plan.calls.iter().map(|call| call.function.name()).collect();
    if !functions.is_empty() {
        outline.tell("functions", functions.join(", "));
    }
    outline.tell(
        "gives",
        match mode {
            OutputMode::Append => "each group once, when it is over",
            OutputMode::Update => "each group that changed",
            OutputMode::Complete => "all groups, whenever one changed",
        },
    );
}

fn join(outline: &mut StepOutline, plan: &JoinPlan) {
    outline.operator = "join";
    outline.tell("kind", plan.kind.name());
    let [left, right] = &plan.sides;
    let equal: Vec<String> = (left.keys.iter().zip(&right.keys))
        .map(|(left, right)| format!("left {} = right {}", sql(left), sql(right)))
        .collect();
    outline.tell("equal", equal.join(", "));
    let filters = [
        ("condition", plan.filter.as_ref()),
        ("condition on the left", left.own_filter.as_ref()),
        ("condition on the right", right.own_filter.as_ref()),
    ];
    for (name, filter) in filters {
        if let Some(filter) = filter {
            outline.tell(name, sql(filter));
        }
    }
}

fn lookup(outline: &mut StepOutline, plan: &LookupPlan) {
    outline.operator = "join with a table";
    outline.tell("kind", plan.name());
    let equal = plan.keys.iter().zip(&plan.table_keys);
    let equal: Vec<String> =
        equal.map(|(key, other)| format!("stream {} = table {}", sql(key), sql(other))).collect();
    outline.tell("equal", equal.join(", "));
    if let Some(filter) = &plan.filter {
        outline.tell("condition", sql(filter));
    }
    outline.tell("table is read", "once, when the query starts");
}

/// Steps that look at each row for itself, above the one before them.
fn over(mut inputs: Vec<StepOutline>, stages: &[Stage]) -> StepOutline {
    for stage in stages {
        let mut outline = StepOutline { inputs, ..Default::default() };
        match stage {
            Stage::Filter(expression) => {
                outline.operator = "filter";
                outline.tell("condition", sql(expression));
            }
            Stage::Project { expressions, schema } => {
                outline.operator = "project";
                outline.tell("columns", projected(expressions, schema));
            }
        }
        inputs = vec![outline];
    }
    inputs.pop().expect("a step has another one before it")
}

fn projected(expressions: &[Arc<dyn PhysicalExpr>], schema: &Schema) -> String {
    let shown = expressions.iter().zip(schema.fields()).map(|(expression, field)| {
        let text = sql(expression);
        if text == *field.name() { text } else { format!("{text} AS {}", field.name()) }
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn state(layout: &Layout, kept: String) -> StateOutline {
    StateOutline {
        table: layout.name.clone(),
        keys: typed(&layout.keys),
        values: typed(&layout.values),
        kept,
    }
}

fn typed(fields: &[FieldRef]) -> Pairs {
    Pairs(fields.iter().map(|field| (field.name().clone(), type_name(field.data_type()))).collect())
}

fn columns(schema: &Schema) -> String {
    let named = |field: &FieldRef| format!("{} {}", field.name(), type_name(field.data_type()));
    schema.fields().iter().map(named).collect::<Vec<_>>().join(", ")
}

fn list(expressions: &[Arc<dyn PhysicalExpr>]) -> String {
    expressions.iter().map(sql).collect::<Vec<_>>().join(", ")
}

fn sql(expression: &Arc<dyn PhysicalExpr>) -> String {
    fmt_sql(expression.as_ref()).to_string()
}
