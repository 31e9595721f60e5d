//! Identity of a query's state by its meaning: the order in which keys and aggregate functions are written, and the names that a query
//! gives to what it reads, do not matter.
//!
//! State is laid out in the order of keys and functions, so a query is arranged as the state of its checkpoint is: that of a new query in
//! the order of the texts in its identity, that of a checkpoint of an older version as it was written then.

use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;

use super::Operators;
use crate::plan::{
    AggregateCall, AggregatePlan, DeduplicatePlan, KeptKeys, LookupKind, PlanNode, Query, Stage, WindowKey,
};

/// Most keys whose orders are tried to find that of a checkpoint of an older version.
const TRIED_KEYS_MAX: usize = 6;

/// A query whose steps are arranged as its state is, with the identity of the state; none if it keeps none.
#[derive(Debug)]
pub struct ArrangedQuery {
    /// The query. What comes out is as it was written.
    pub query: Query,
    /// Identity of its state.
    pub identity: Option<String>,
}

impl ArrangedQuery {
    /// A query as state of this identity is laid out, or as that of a new query, if it is none of the query's.
    pub fn new(query: &Query, known: Option<&str>) -> Self {
        let by_meaning = arranged(query, &Order::Meaning);
        let identity = identity(&by_meaning);
        if known.is_none() || known == identity.as_deref() {
            return Self { query: by_meaning, identity };
        }
        let is_known = |query: &Query| Operators::state_identity(query).as_deref() == known;
        let of_older_version = std::iter::once(query.clone()).chain(orders(query));
        match of_older_version.into_iter().find(is_known) {
            Some(query) => Self { query, identity: known.map(str::to_owned) },
            None => Self { query: by_meaning, identity },
        }
    }
}

/// Order of keys and functions.
enum Order {
    /// That of their texts.
    Meaning,
    /// Keys of the only step that has some in the order of these numbers, functions as they are written.
    Keys(Vec<usize>),
}

/// The query with the keys of its only step with several ones in each other order.
fn orders(query: &Query) -> Vec<Query> {
    let mut counts = Vec::new();
    visit(&query.pipeline.root, &mut |step| {
        counts.push(match step {
            PlanNode::Aggregate { plan, .. } => plan.keys.len(),
            PlanNode::Deduplicate { plan, .. } => plan.keys.len(),
            _ => 0,
        });
    });
    let mut several = counts.into_iter().filter(|count| *count > 1);
    match (several.next(), several.next()) {
        (Some(count), None) if count <= TRIED_KEYS_MAX => {
            permutations(count).into_iter().map(|order| arranged(query, &Order::Keys(order))).collect()
        }
        _ => Vec::new(),
    }
}

fn permutations(count: usize) -> Vec<Vec<usize>> {
    (0..count).fold(vec![Vec::new()], |shorter, last| {
        let with_last = |order: &Vec<usize>| {
            let order = order.clone();
            (0..=order.len()).map(move |at| {
                let mut longer = order.clone();
                longer.insert(at, last);
                longer
            })
        };
        shorter.iter().flat_map(with_last).collect()
    })
}

fn visit(step: &PlanNode, look: &mut impl FnMut(&PlanNode)) {
    step.inputs().into_iter().for_each(|input| visit(input, look));
    look(step);
}

fn arranged(query: &Query, order: &Order) -> Query {
    let mut query = query.clone();
    query.pipeline.root = arranged_step(query.pipeline.root, order);
    query
}

fn arranged_step(step: PlanNode, order: &Order) -> PlanNode {
    let of = |input: Box<PlanNode>| Box::new(arranged_step(*input, order));
    match step {
        PlanNode::Scan(_) => step,
        PlanNode::Calc { input, stages } => PlanNode::Calc { input: of(input), stages },
        PlanNode::Windows { input, function, with_time, schema } => {
            PlanNode::Windows { input: of(input), function, with_time, schema }
        }
        PlanNode::Join { inputs, plan } => {
            let inputs = inputs.map(|input| arranged_step(input, order));
            PlanNode::Join { inputs: Box::new(inputs), plan }
        }
        PlanNode::Lookup { input, plan } => PlanNode::Lookup { input: of(input), plan },
        PlanNode::Keyed { input, plan } => PlanNode::Keyed { input: of(input), plan },
        PlanNode::Union { inputs, schema } => {
            let inputs = inputs.into_iter().map(|input| arranged_step(input, order)).collect();
            PlanNode::Union { inputs, schema }
        }
        PlanNode::Deduplicate { input, plan } => {
            let keys = match order {
                Order::Meaning => places_by_text(plan.keys.iter().map(|key| text(key, &input))),
                Order::Keys(keys) if keys.len() == plan.keys.len() => keys.clone(),
                Order::Keys(_) => (0..plan.keys.len()).collect(),
            };
            PlanNode::Deduplicate { input: of(input), plan: deduplicated(plan, &keys) }
        }
        PlanNode::Aggregate { input, plan } => {
            let (keys, calls) = match order {
                Order::Meaning => (
                    places_by_text(plan.keys.iter().map(|key| text(key, &input))),
                    places_by_text(plan.calls.iter().map(|call| text_of_call(call, &input))),
                ),
                Order::Keys(keys) if keys.len() == plan.keys.len() => {
                    (keys.clone(), (0..plan.calls.len()).collect())
                }
                Order::Keys(_) => ((0..plan.keys.len()).collect(), (0..plan.calls.len()).collect()),
            };
            aggregated(of(input), plan, &keys, &calls)
        }
    }
}

/// Numbers of texts in the order of these.
fn places_by_text(texts: impl Iterator<Item = String>) -> Vec<usize> {
    let mut all: Vec<(String, usize)> = texts.zip(0..).collect();
    all.sort();
    all.into_iter().map(|(_, place)| place).collect()
}

fn moved<T: Clone>(all: &[T], order: &[usize]) -> Vec<T> {
    order.iter().map(|place| all[*place].clone()).collect()
}

fn moved_key(key: WindowKey, order: &[usize]) -> WindowKey {
    let place = order.iter().position(|place| *place == key.key);
    WindowKey { key: place.expect("an order has each key"), ..key }
}

/// A deduplication with its keys in this order. The rows that go on are as they were.
fn deduplicated(plan: DeduplicatePlan, order: &[usize]) -> DeduplicatePlan {
    let kept = match plan.kept {
        KeptKeys::UntilTime(key) => KeptKeys::UntilTime(moved_key(key, order)),
        other => other,
    };
    DeduplicatePlan {
        keys: moved(&plan.keys, order),
        key_fields: moved(&plan.key_fields, order),
        kept,
        ..plan
    }
}

/// An aggregation with keys and calls in these orders, whose columns come out as before.
fn aggregated(input: Box<PlanNode>, plan: AggregatePlan, keys: &[usize], calls: &[usize]) -> PlanNode {
    if keys.is_sorted() && calls.is_sorted() {
        return PlanNode::Aggregate { input, plan };
    }
    let count = plan.keys.len();
    let order: Vec<usize> = keys.iter().copied().chain(calls.iter().map(|call| count + call)).collect();
    let written = Arc::clone(&plan.schema);
    let fields: Vec<FieldRef> = moved(written.fields(), &order);
    let back = |(place, field): (usize, &FieldRef)| -> Arc<dyn PhysicalExpr> {
        let now = order.iter().position(|at| *at == place).expect("an order has each column");
        Arc::new(Column::new(field.name(), now))
    };
    let expressions = written.fields().iter().enumerate().map(back).collect();
    let plan = AggregatePlan {
        keys: moved(&plan.keys, keys),
        window_key: plan.window_key.map(|key| moved_key(key, keys)),
        calls: moved(&plan.calls, calls),
        input: plan.input,
        schema: Arc::new(Schema::new_with_metadata(fields, written.metadata().clone())),
    };
    let stages = vec![Stage::Project { expressions, schema: written }];
    PlanNode::Calc { input: Box::new(PlanNode::Aggregate { input, plan }), stages }
}

/// Identity of the state of a query that is arranged by meaning; none without state.
fn identity(query: &Query) -> Option<String> {
    let mut texts = Vec::new();
    let mut has_state = false;
    visit(&query.pipeline.root, &mut |step| {
        has_state |= step.has_state();
        texts.extend(match step {
            PlanNode::Aggregate { input, plan } => {
                let calls: Vec<_> = plan.calls.iter().map(|call| text_of_call(call, input)).collect();
                let keys: Vec<_> = plan.keys.iter().map(|key| text(key, input)).collect();
                Some(format!("aggregate 2: {} by {}", calls.join(", "), keys.join(", ")))
            }
            PlanNode::Deduplicate { input, plan } => {
                let keys: Vec<_> = plan.keys.iter().map(|key| text(key, input)).collect();
                let kept = match plan.kept {
                    KeptKeys::ForEver => "",
                    KeptKeys::UntilTime(_) => " until their time",
                    KeptKeys::WithinWatermark => " within the watermark",
                };
                Some(format!("distinct 2: {}{kept}", keys.join(", ")))
            }
            PlanNode::Windows { input, function, schema, .. } => {
                let time = schema.index_of(&function.time_column);
                let time = time.map(|place| name(&Column::new(&function.time_column, place), input));
                Some(format!(
                    "windows of '{}', {} ms each {} ms from {} ms on",
                    time.unwrap_or_else(|_| function.time_column.clone()),
                    function.size_ms,
                    function.slide_ms,
                    function.offset_ms
                ))
            }
            other => Operators::identity_of_step(other),
        });
    });
    texts.reverse();
    has_state.then(|| texts.join(", "))
}

/// Text of an expression over what a step gives, with the names that its columns have in the streams.
fn text(expression: &Arc<dyn PhysicalExpr>, of: &PlanNode) -> String {
    let named = Arc::clone(expression).transform_down(|part| {
        let Some(column) = part.downcast_ref::<Column>() else { return Ok(Transformed::no(part)) };
        let named: Arc<dyn PhysicalExpr> = Arc::new(Column::new(&name(column, of), 0));
        Ok(Transformed::yes(named))
    });
    named.map_or_else(|_| expression.to_string(), |named| named.data.to_string().replace("@0", ""))
}

fn text_of_call(call: &AggregateCall, of: &PlanNode) -> String {
    let arguments: Vec<String> = call.function.expressions().iter().map(|part| text(part, of)).collect();
    let nulls = if call.function.ignore_nulls() { " IGNORE NULLS" } else { "" };
    let filter = call.filter.as_ref().map(|filter| format!(" FILTER {}", text(filter, of)));
    let filter = filter.unwrap_or_default();
    let field = call.function.field();
    format!("{}({}){nulls}{filter} {}", call.function.fun().name(), arguments.join(", "), field.data_type())
}

/// Name of a column of what a step gives: that of the stream's column, or the text of what it is computed of.
fn name(column: &Column, of: &PlanNode) -> String {
    let at = column.index();
    let through = |schema: &Schema, input: &PlanNode, at: usize| {
        let field: &Field = schema.field(at);
        name(&Column::new(field.name(), at), input)
    };
    match of {
        PlanNode::Scan(_) | PlanNode::Keyed { .. } => column.name().to_owned(),
        PlanNode::Calc { input, stages } => name_before(column, stages, input),
        PlanNode::Windows { input, schema, .. } => {
            let own = ["window start", "window end", "window time"];
            let place = schema.fields().len();
            own.get(at.wrapping_sub(place))
                .map_or_else(|| through(schema, input, at), |own| (*own).to_owned())
        }
        PlanNode::Aggregate { input, plan } => match plan.keys.get(at) {
            Some(key) => text(key, input),
            None => plan
                .calls
                .get(at - plan.keys.len())
                .map_or_else(|| column.name().to_owned(), |call| text_of_call(call, input)),
        },
        PlanNode::Deduplicate { input, .. } => name(column, input),
        PlanNode::Union { inputs, .. } => {
            inputs.first().map_or_else(|| column.name().to_owned(), |input| name(column, input))
        }
        PlanNode::Join { inputs, plan } => {
            let [left, right] = &**inputs;
            let count = plan.sides[0].schema.fields().len();
            if at < count {
                format!("left {}", through(&plan.sides[0].schema, left, at))
            } else {
                format!("right {}", through(&plan.sides[1].schema, right, at - count))
            }
        }
        PlanNode::Lookup { input, plan } => {
            let of_table = match plan.kind {
                LookupKind::Inner | LookupKind::Outer if !plan.is_stream_first => {
                    plan.table_schema.fields().len()
                }
                _ => 0,
            };
            let of_stream = plan.pair_schema.fields().len() - plan.table_schema.fields().len();
            match at.checked_sub(of_table) {
                Some(place) if place < of_stream => name(&Column::new(column.name(), place), input),
                _ => format!("table {}", column.name()),
            }
        }
    }
}

/// Name of a column after these stages.
fn name_before(column: &Column, stages: &[Stage], input: &PlanNode) -> String {
    match stages.split_last() {
        None => name(column, input),
        Some((Stage::Filter(_), before)) => name_before(column, before, input),
        Some((Stage::Project { expressions, .. }, before)) => {
            let Some(expression) = expressions.get(column.index()) else { return column.name().to_owned() };
            let before = PlanNode::Calc { input: Box::new(input.clone()), stages: before.to_vec() };
            text(expression, &before)
        }
    }
}

#[cfg(test)]
mod tests;
