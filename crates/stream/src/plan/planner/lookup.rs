use std::sync::Arc;

use arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, JoinType, NullEquality};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Join, LogicalPlan, Operator};

use super::join::nullable;
use super::walk::{Built, Timed};
use super::{physical, planning};
use crate::error::{Result, invalid};
use crate::plan::{LookupKind, LookupPlan, PlanNode, TablePlan, TableRows, TimeColumn};

/// Adds a join of a stream, which is the left side or the right one (1), with a table.
pub(super) fn plan(state: &SessionState, stream: Built, stream_side: usize, join: &Join) -> Result<Built> {
    let kind = kind(join.join_type, stream_side)?;
    if join.null_equality != NullEquality::NullEqualsNothing {
        return Err(invalid("a join in which null equals null is not there yet"));
    }
    let sides = [join.left.as_ref(), join.right.as_ref()];
    let (stream_plan, table_plan) = (sides[stream_side], sides[1 - stream_side]);
    check_table(table_plan)?;
    let (mut stream_keys, mut table_keys, mut key_fields) = (Vec::new(), Vec::new(), Vec::<FieldRef>::new());
    for (left, right) in &join.on {
        let (of_stream, of_table) = if stream_side == 0 { (left, right) } else { (right, left) };
        let field = of_stream.to_field(stream_plan.schema()).map_err(planning)?.1;
        let other = of_table.to_field(table_plan.schema()).map_err(planning)?.1;
        if field.data_type() != other.data_type() {
            return Err(invalid(format!("'{left}' and '{right}' of a join are of different types")));
        }
        stream_keys.push(physical(state, of_stream.clone(), stream_plan.schema())?);
        table_keys.push(physical(state, of_table.clone(), table_plan.schema())?);
        key_fields.push(field);
    }
    let pair: DFSchema = join.left.schema().join(join.right.schema()).map_err(planning)?;
    let filter = join.filter.clone().map(|filter| physical(state, filter, &pair)).transpose()?;
    let schema: SchemaRef = Arc::new(join.schema.as_arrow().clone());
    let table = TableRows::Planned(Arc::new(TablePlan { state: state.clone(), plan: table_plan.clone() }));
    let pair_schema = Arc::new(nullable(pair.as_arrow()));
    // Columns of a table on the left come before the stream's.
    let moved = match kind {
        LookupKind::Inner | LookupKind::Outer if stream_side == 1 => join.left.schema().fields().len(),
        _ => 0,
    };
    let times = stream.times.iter().map(|timed| Timed {
        time: TimeColumn { column: timed.time.column + moved, ..timed.time },
        ..*timed
    });
    let times = times.collect();
    let plan = LookupPlan {
        kind,
        stream_side,
        stream_keys,
        table_keys,
        key_fields,
        filter,
        pair_schema,
        schema,
        table,
    };
    Ok(Built { node: PlanNode::Lookup { input: Box::new(stream.node), plan }, times })
}

/// Refusals of Spark's analyser: what has no match in a table that is not at its end is not known.
fn kind(join_type: JoinType, stream_side: usize) -> Result<LookupKind> {
    Ok(match (join_type, stream_side) {
        (JoinType::Inner, _) => LookupKind::Inner,
        (JoinType::Left, 0) | (JoinType::Right, 1) => LookupKind::Outer,
        (JoinType::LeftSemi, 0) | (JoinType::RightSemi, 1) => LookupKind::Semi,
        (JoinType::LeftAnti, 0) | (JoinType::RightAnti, 1) => LookupKind::Anti,
        (other, side) => {
            let (stream, table) = if side == 0 { ("left", "right") } else { ("right", "left") };
            let text = format!(
                "a {other} join with a stream on the {stream} and a table on the {table} is not supported: which rows of the table have \
                 no match is not known before the stream ends"
            );
            return Err(invalid(text).with_hint("an outer join keeps the rows of the stream"));
        }
    })
}

/// Refuses what would be computed of a table by other rules than those of streams.
fn check_table(plan: &LogicalPlan) -> Result<()> {
    let is_known = match plan {
        LogicalPlan::TableScan(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Projection(_)
        | LogicalPlan::Union(_) => true,
        LogicalPlan::EmptyRelation(empty) => !empty.produce_one_row,
        _ => false,
    };
    let mut computes = false;
    plan.apply_expressions(|expr| {
        expr.apply(|expr| {
            // The engine's own arithmetic wraps.
            let wraps = |op: &Operator| matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply);
            computes |= matches!(expr, Expr::BinaryExpr(BinaryExpr { op, .. }) if wraps(op));
            Ok(TreeNodeRecursion::Continue)
        })
    })
    .map_err(planning)?;
    if !is_known || computes {
        let what = if computes { "arithmetic".to_owned() } else { plan.display().to_string() };
        return Err(invalid(format!(
            "{what} on a table alone is not there yet: columns and filters of it are"
        ))
        .with_hint("compute it after the join, or write the table as it is wanted with yeoul sql"));
    }
    plan.inputs().into_iter().try_for_each(check_table)
}
