use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::common::{Column as NamedColumn, DFSchema, JoinType, NullEquality, ScalarValue};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Between, BinaryExpr, Expr, ExprSchemable, Join, Operator};

use super::walk::{Built, Timed};
use super::{physical, planning};
use crate::error::{Result, invalid};
use crate::plan::{
    JoinKind, JoinPlan, JoinSidePlan, PlanNode, RangeBound, StateBound, TimeColumn, WindowKey,
};

/// Microseconds of a day.
const DAY_US: i64 = 24 * 3600 * 1_000_000;

/// Adds a join of two streams.
pub(super) fn plan(state: &SessionState, sides: [Built; 2], join: &Join) -> Result<Built> {
    let kind = kind(join)?;
    if join.on.is_empty() {
        return Err(invalid("a join of two streams without an equality is not supported")
            .with_hint("join ON a.key = b.key AND …"));
    }
    if join.null_equality != NullEquality::NullEqualsNothing {
        return Err(invalid("a join in which null equals null is not there yet"));
    }
    let schemas: [&DFSchema; 2] = [join.left.schema(), join.right.schema()];
    let mut keys = [Vec::new(), Vec::new()];
    let mut key_fields = [Vec::<FieldRef>::new(), Vec::new()];
    for (left, right) in &join.on {
        for (side, key) in [left, right].into_iter().enumerate() {
            keys[side].push(physical(state, key.clone(), schemas[side])?);
            key_fields[side].push(key.to_field(schemas[side]).map_err(planning)?.1);
        }
        let types = [0, 1].map(|side| key_fields[side].last().map(|field| field.data_type().clone()));
        if types[0] != types[1] {
            return Err(invalid(format!("'{left}' and '{right}' of a join are of different types")));
        }
    }
    let time_key = [0, 1].into_iter().find_map(|side| sides[side].time_key(&keys[side]));
    let time_key = time_key.map(|(key, time)| WindowKey { key, to_end_ms: time.to_end_ms });
    let times = [sides[0].late_time(schemas[0])?, sides[1].late_time(schemas[1])?];
    let condition = Condition::of(join, schemas, times)?;
    let bound = |side: usize| match time_key {
        Some(key) => Some(StateBound::Key(key)),
        None => Some(condition.bounds[side].clone()).filter(|b| !b.is_empty()).map(StateBound::Range),
    };
    let bounds = [bound(0), bound(1)];
    check_bounds(kind, &bounds)?;
    let pair = schemas[0].join(schemas[1]).map_err(planning)?;
    let filter = conjunction(condition.both).map(|filter| physical(state, filter, &pair)).transpose()?;
    let mut own = condition.own.into_iter().zip(schemas);
    let mut own_filter = || -> Result<_> {
        let (predicates, schema) = own.next().expect("there are two sides");
        conjunction(predicates).map(|filter| physical(state, filter, schema)).transpose()
    };
    let own_filters = [own_filter()?, own_filter()?];
    let arrow = |schema: &DFSchema| -> SchemaRef { Arc::new(schema.as_arrow().clone()) };
    let mut parts = keys.into_iter().zip(key_fields).zip(bounds).zip(own_filters).zip(times).zip(schemas);
    let mut side = || {
        let (((((keys, key_fields), bound), own_filter), time), schema) =
            parts.next().expect("there are two sides");
        JoinSidePlan { keys, key_fields, schema: arrow(schema), own_filter, time, bound }
    };
    let plan = JoinPlan {
        kind,
        sides: [side(), side()],
        filter,
        pair_schema: Arc::new(nullable(pair.as_arrow())),
        schema: arrow(&join.schema),
    };
    let [left, right] = sides;
    let count = schemas[0].fields().len();
    let moved = |timed: &Timed| {
        let time = TimeColumn { column: timed.time.column + count, ..timed.time };
        Timed { time, ..*timed }
    };
    let mut times = left.times;
    if kind != JoinKind::LeftSemi {
        times.extend(right.times.iter().map(moved));
    }
    Ok(Built {
        node: PlanNode::Join { inputs: Box::new([left.node, right.node]), plan },
        times,
        at_rest: None,
    })
}

fn kind(join: &Join) -> Result<JoinKind> {
    Ok(match join.join_type {
        JoinType::Inner => JoinKind::Inner,
        JoinType::Left => JoinKind::Left,
        JoinType::Right => JoinKind::Right,
        JoinType::Full => JoinKind::Full,
        JoinType::LeftSemi => JoinKind::LeftSemi,
        JoinType::LeftAnti => {
            return Err(invalid("a LEFT ANTI join with a stream on the right is not supported")
                .with_hint("a LEFT OUTER join gives rows without a match, with nulls for the right side"));
        }
        other => return Err(invalid(format!("a {other} join of two streams is not supported"))),
    })
}

/// Refusals of Spark's analyser of joins that give what has no match, or a row only once.
fn check_bounds(kind: JoinKind, bounds: &[Option<StateBound>; 2]) -> Result<()> {
    let has_bound = match kind {
        JoinKind::Inner => true,
        JoinKind::Left | JoinKind::LeftSemi => bounds[0].is_some(),
        JoinKind::Right => bounds[1].is_some(),
        JoinKind::Full => bounds.iter().any(Option::is_some),
    };
    if has_bound {
        return Ok(());
    }
    let text = format!(
        "a {} join of two streams is not supported without a watermark in the join keys, or a watermark on the nullable side \
         and an appropriate range condition",
        kind.name()
    );
    Err(invalid(text).with_hint(
        "give both streams a WATERMARK and join ON … AND a.ts BETWEEN b.ts - INTERVAL '5' SECOND AND b.ts + INTERVAL '5' SECOND",
    ))
}

/// The condition of a join beside its equalities, in parts.
struct Condition {
    /// Conjuncts about a side alone.
    own: [Vec<Expr>; 2],
    /// Conjuncts about both.
    both: Vec<Expr>,
    /// Bound from which on rows of a side have no matches any more.
    bounds: [Vec<RangeBound>; 2],
}

impl Condition {
    fn of(join: &Join, schemas: [&DFSchema; 2], times: [Option<TimeColumn>; 2]) -> Result<Self> {
        let mut condition =
            Self { own: [Vec::new(), Vec::new()], both: Vec::new(), bounds: [Vec::new(), Vec::new()] };
        let Some(filter) = join.filter.clone() else { return Ok(condition) };
        let terms = Terms { schemas, times };
        for predicate in split_conjunction_owned(filter) {
            let columns = predicate.column_refs();
            let is_of = |side: usize| columns.iter().all(|column| schemas[side].has_column(column));
            match (columns.is_empty(), is_of(0), is_of(1)) {
                (false, true, false) => condition.own[0].push(predicate),
                (false, false, true) => condition.own[1].push(predicate),
                _ => {
                    for (lesser, greater, holds_at_bound) in inequalities(&predicate) {
                        if let Some((side, offset_us)) = terms.bound(lesser, greater) {
                            condition.bounds[side].push(RangeBound { offset_us, holds_at_bound });
                        }
                    }
                    condition.both.push(predicate);
                }
            }
        }
        Ok(condition)
    }
}

/// Inequalities of a predicate: the lesser, the greater, and whether they may be equal.
fn inequalities(predicate: &Expr) -> Vec<(&Expr, &Expr, bool)> {
    match predicate {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::Lt => vec![(left, right, false)],
            Operator::LtEq => vec![(left, right, true)],
            Operator::Gt => vec![(right, left, false)],
            Operator::GtEq => vec![(right, left, true)],
            _ => Vec::new(),
        },
        Expr::Between(Between { expr, negated: false, low, high }) => {
            vec![(low, expr, true), (expr, high, true)]
        }
        _ => Vec::new(),
    }
}

/// Sums of times and intervals.
struct Terms<'a> {
    schemas: [&'a DFSchema; 2],
    times: [Option<TimeColumn>; 2],
}

/// A sum: columns of times, each added or taken away, and microseconds.
#[derive(Default)]
struct Sum {
    /// Sides of the columns, and whether they are taken away.
    columns: Vec<(usize, bool)>,
    us: i64,
}

impl Terms<'_> {
    /// Bound that `lesser < greater` sets for a side's rows: its number and the microseconds from the watermark to the bound.
    ///
    /// Solved for the side's time, it is `time > other time + offset`: once the watermark has passed, so has what may still match.
    fn bound(&self, lesser: &Expr, greater: &Expr) -> Option<(usize, i64)> {
        let mut sum = Sum::default();
        self.add(lesser, false, &mut sum)?;
        self.add(greater, true, &mut sum)?;
        match sum.columns.as_slice() {
            [(side, true), (other, false)] | [(other, false), (side, true)] if side != other => {
                Some((*side, sum.us))
            }
            _ => None,
        }
    }

    fn add(&self, expr: &Expr, is_negative: bool, sum: &mut Sum) -> Option<()> {
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus, right }) => {
                self.add(left, is_negative, sum)?;
                self.add(right, is_negative, sum)
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Minus, right }) => {
                self.add(left, is_negative, sum)?;
                self.add(right, !is_negative, sum)
            }
            Expr::Negative(inner) => self.add(inner, !is_negative, sum),
            Expr::Alias(alias) => self.add(&alias.expr, is_negative, sum),
            Expr::Column(column) => {
                sum.columns.push((self.side_of(column)?, is_negative));
                Some(())
            }
            Expr::Literal(value, _) => {
                let us = interval_us(value)?;
                sum.us = sum.us.checked_add(if is_negative { us.checked_neg()? } else { us })?;
                Some(())
            }
            _ => None,
        }
    }

    /// The side whose time a column is; a window's start or end is none here.
    fn side_of(&self, column: &NamedColumn) -> Option<usize> {
        (0..2).find(|side| {
            let place = self.schemas[*side].maybe_index_of_column(column);
            self.times[*side].is_some_and(|time| !time.is_window && Some(time.column) == place)
        })
    }
}

/// Microseconds of an interval; months have no fixed length.
fn interval_us(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::IntervalMonthDayNano(Some(value))
            if value.months == 0 && value.nanoseconds % 1000 == 0 =>
        {
            i64::from(value.days).checked_mul(DAY_US)?.checked_add(value.nanoseconds / 1000)
        }
        ScalarValue::IntervalDayTime(Some(value)) => {
            let days = i64::from(value.days).checked_mul(DAY_US)?;
            days.checked_add(i64::from(value.milliseconds) * 1000)
        }
        _ => None,
    }
}

/// Columns any of which may be null.
pub(super) fn nullable(schema: &Schema) -> Schema {
    Schema::new(
        schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect::<Vec<_>>(),
    )
}
