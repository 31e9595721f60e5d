//! The operators that join relations of a graph, or stand between such joins.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{JoinType, NullEquality};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;

use crate::optimizer::safe_conditions::is_plain;

/// An operator within a graph of joins.
pub(super) enum Interior<'p> {
    /// An inner join by equal keys.
    Keyed(&'p HashJoinExec),
    /// A semi or anti join, and whether its left side is the one whose rows it keeps.
    Test(&'p HashJoinExec, bool),
    /// An inner join by any condition.
    Conditional(&'p NestedLoopJoinExec),
    Cross(&'p CrossJoinExec),
    Filter(&'p FilterExec),
    /// A projection of columns, of which none is computed but by a cast that cannot fail.
    Projection(&'p ProjectionExec),
}

impl<'p> Interior<'p> {
    /// The operator as one within a graph; `None` for one whose rows are a relation.
    pub(super) fn of(plan: &'p Arc<dyn ExecutionPlan>) -> Option<Self> {
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            return of_hash_join(join);
        }
        if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
            let is_movable = *join.join_type() == JoinType::Inner && is_steady(join.filter());
            return is_movable.then_some(Self::Conditional(join));
        }
        if let Some(join) = plan.downcast_ref::<CrossJoinExec>() {
            return Some(Self::Cross(join));
        }
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            let is_movable =
                plan.fetch().is_none() && !is_volatile(filter.predicate()) && Self::is(filter.input());
            return is_movable.then_some(Self::Filter(filter));
        }
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            let schema = projection.input().schema();
            let is_plain = projection.expr().iter().all(|column| is_plain(&column.expr, &schema));
            return (is_plain && Self::is(projection.input())).then_some(Self::Projection(projection));
        }
        None
    }

    fn is(plan: &'p Arc<dyn ExecutionPlan>) -> bool {
        Self::of(plan).is_some()
    }

    /// The inputs that may be within the graph, too. What a semi or anti join tests against is a relation.
    pub(super) fn inputs(&self) -> Vec<&'p Arc<dyn ExecutionPlan>> {
        match self {
            Self::Keyed(join) => vec![join.left(), join.right()],
            Self::Test(join, true) => vec![join.left()],
            Self::Test(join, false) => vec![join.right()],
            Self::Conditional(join) => vec![join.left(), join.right()],
            Self::Cross(join) => vec![join.left(), join.right()],
            Self::Filter(filter) => vec![filter.input()],
            Self::Projection(projection) => vec![projection.input()],
        }
    }
}

fn of_hash_join(join: &HashJoinExec) -> Option<Interior<'_>> {
    let is_steady = is_steady(join.filter());
    let (left_schema, right_schema) = (join.left().schema(), join.right().schema());
    let are_plain =
        join.on().iter().all(|(left, right)| is_plain(left, &left_schema) && is_plain(right, &right_schema));
    if join.null_aware || join.fetch().is_some() || !is_steady || !are_plain {
        return None;
    }
    match join.join_type() {
        JoinType::Inner => {
            let are_keys = join
                .on()
                .iter()
                .all(|(left, _)| left.data_type(&left_schema).is_ok_and(|data_type| is_key_type(&data_type)));
            let has_no_nulls = join.null_equality() == NullEquality::NullEqualsNothing;
            (are_keys && has_no_nulls).then_some(Interior::Keyed(join))
        }
        JoinType::LeftSemi | JoinType::LeftAnti => Some(Interior::Test(join, true)),
        JoinType::RightSemi | JoinType::RightAnti => Some(Interior::Test(join, false)),
        _ => None,
    }
}

fn is_steady(filter: Option<&JoinFilter>) -> bool {
    !filter.map(JoinFilter::expression).is_some_and(is_volatile)
}

/// True of types whose equal values are the same everywhere: in keys, in conditions, and by way of a third value.
pub(super) fn is_key_type(data_type: &DataType) -> bool {
    (data_type.is_primitive() && !data_type.is_floating())
        || data_type.is_string()
        || data_type.is_binary()
        || *data_type == DataType::Boolean
}
