use std::sync::Arc;

use arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::common::{DFSchema, JoinType, NullEquality};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{ExprSchemable, Join};

use super::join::nullable;
use super::walk::{Built, Timed};
use super::{physical, planning};
use crate::error::{Result, invalid};
use crate::plan::{LookupKind, LookupPlan, PlanNode, TimeColumn};

/// Adds a join of a stream with a table at rest.
pub(super) fn plan(state: &SessionState, sides: [Built; 2], join: &Join) -> Result<Built> {
    let stream = match (&sides[0].at_rest, &sides[1].at_rest) {
        (None, Some(_)) => 0,
        (Some(_), None) => 1,
        _ => {
            return Err(invalid("a join of two tables at rest is not there yet")
                .with_hint("join the stream with one of them, and what comes of it with the other"));
        }
    };
    let kind = kind(join.join_type, stream)?;
    if join.on.is_empty() {
        return Err(invalid("a join of a stream with a table at rest without an equality is not there yet")
            .with_hint("join ON stream.key = table.key AND …"));
    }
    if join.null_equality != NullEquality::NullEqualsNothing {
        return Err(invalid("a join in which null equals null is not there yet"));
    }
    let schemas: [&DFSchema; 2] = [join.left.schema(), join.right.schema()];
    let mut keys = [Vec::new(), Vec::new()];
    let mut key_fields: Vec<FieldRef> = Vec::new();
    for (left, right) in &join.on {
        let fields =
            [left.to_field(schemas[0]).map_err(planning)?.1, right.to_field(schemas[1]).map_err(planning)?.1];
        if fields[0].data_type() != fields[1].data_type() {
            return Err(invalid(format!("'{left}' and '{right}' of a join are of different types")));
        }
        for (side, key) in [left, right].into_iter().enumerate() {
            keys[side].push(physical(state, key.clone(), schemas[side])?);
        }
        key_fields.push(Arc::clone(&fields[stream]));
    }
    let pair = schemas[0].join(schemas[1]).map_err(planning)?;
    let filter = join.filter.clone().map(|filter| physical(state, filter, &pair)).transpose()?;
    let [left_keys, right_keys] = keys;
    let (keys, table_keys) = if stream == 0 { (left_keys, right_keys) } else { (right_keys, left_keys) };
    let [left, right] = sides;
    let (built, at_rest) = if stream == 0 { (left, right.at_rest) } else { (right, left.at_rest) };
    let at_rest = at_rest.expect("one side is at rest");
    let arrow = |schema: &DFSchema| -> SchemaRef { Arc::new(schema.as_arrow().clone()) };
    let plan = LookupPlan {
        kind,
        table: at_rest.table,
        table_stages: at_rest.stages,
        keys,
        table_keys,
        key_fields,
        filter,
        is_stream_first: stream == 0,
        table_schema: arrow(schemas[1 - stream]),
        pair_schema: Arc::new(nullable(pair.as_arrow())),
        schema: arrow(&join.schema),
    };
    let before = if stream == 0 { 0 } else { schemas[0].fields().len() };
    let moved = |timed: &Timed| {
        let time = TimeColumn { column: timed.time.column + before, ..timed.time };
        Timed { time, ..*timed }
    };
    let times = built.times.iter().map(moved).collect();
    Ok(Built { node: PlanNode::Lookup { input: Box::new(built.node), plan }, times, at_rest: None })
}

/// Kind of the join, with the refusals of Spark's analyser.
fn kind(join_type: JoinType, stream: usize) -> Result<LookupKind> {
    let text = match (join_type, stream) {
        (JoinType::Inner, _) => return Ok(LookupKind::Inner),
        (JoinType::Left, 0) | (JoinType::Right, 1) => return Ok(LookupKind::Outer),
        (JoinType::LeftSemi, 0) => return Ok(LookupKind::LeftSemi),
        (JoinType::LeftAnti, 0) => return Ok(LookupKind::LeftAnti),
        (JoinType::Left, _) => {
            "a LEFT OUTER join with a stream on the right and a table at rest on the left is not supported: which rows of the \
             table have no match is never known"
        }
        (JoinType::Right, 0) => {
            "a RIGHT OUTER join with a stream on the left and a table at rest on the right is not supported: which rows of the \
             table have no match is never known"
        }
        (JoinType::Full, _) => {
            "a FULL OUTER join of a stream and a table at rest is not supported: which rows of the table have no match is never known"
        }
        (other, _) => {
            return Err(invalid(format!("a {other} join of a stream and a table at rest is not there yet"))
                .with_hint("stream JOIN, LEFT JOIN, LEFT SEMI JOIN and LEFT ANTI JOIN table are"));
        }
    };
    Err(invalid(text)
        .with_hint("stream LEFT JOIN table, or table RIGHT JOIN stream, gives each row of the stream"))
}
