//! What conditions on outer columns need of their own ones, when DataFusion lifts them out of a correlated subquery.

use std::collections::{BTreeSet, HashMap};

use datafusion::common::alias::AliasGenerator;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Distinct, Expr, Filter, LogicalPlan, LogicalPlanBuilder};

use super::shape::{Place, has_subquery, key_column, sides};
use crate::rewrite::{TreeWalk, columns_of};

/// Makes columns of the expressions in conditions `expression = outer column` over which DataFusion groups.
///
/// Where such a condition lies below an aggregate, DataFusion groups by its column. In `CAST(ts AS DATE) = outer.day` that is `ts`,
/// and a day would have many groups.
pub(super) fn with_keys(
    plan: LogicalPlan,
    place: Place,
    names: &AliasGenerator,
) -> Result<Transformed<LogicalPlan>> {
    with_keys_below(plan, place, false, names)
}

fn with_keys_below(
    plan: LogicalPlan,
    place: Place,
    is_below: bool,
    names: &AliasGenerator,
) -> Result<Transformed<LogicalPlan>> {
    if matches!(plan, LogicalPlan::Subquery(_)) {
        return Ok(Transformed::no(plan));
    }
    let groups = match &plan {
        LogicalPlan::Aggregate(aggregate) if !aggregate.aggr_expr.is_empty() => true,
        LogicalPlan::Distinct(Distinct::On(_)) => true,
        // Other joins do not mind if a row is there twice.
        LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) => place.is_lateral(),
        _ => false,
    };
    let plan = plan.map_children(|input| with_keys_below(input, place, is_below || groups, names))?;
    plan.transform_data(|plan| match plan {
        LogicalPlan::Filter(filter) if is_below => with_keys_in(filter, names),
        other => Ok(Transformed::no(other)),
    })
}

fn with_keys_in(filter: Filter, names: &AliasGenerator) -> Result<Transformed<LogicalPlan>> {
    let schema = filter.input.schema();
    let mut keys = Vec::new();
    let mut conditions = Vec::new();
    for condition in split_conjunction(&filter.predicate) {
        conditions.push(match sides(condition) {
            Some((inner, outer))
                if key_column(condition, schema)?.is_none()
                    && !(inner.is_volatile() || has_subquery(inner)?) =>
            {
                let name = names.next("__key");
                keys.push(inner.clone().alias(name.clone()));
                Expr::Column(Column::new_unqualified(name)).eq(outer.clone())
            }
            _ => condition.clone(),
        });
    }
    with_columns(filter, keys, conditions)
}

/// `filter` with other conditions, on `added` columns that are gone above it.
fn with_columns(filter: Filter, added: Vec<Expr>, conditions: Vec<Expr>) -> Result<Transformed<LogicalPlan>> {
    let predicate = conjunction(conditions).filter(|_| !added.is_empty());
    let Some(predicate) = predicate else { return Ok(Transformed::no(LogicalPlan::Filter(filter))) };
    let columns = columns_of(&filter.input);
    let input = LogicalPlanBuilder::from(filter.input).project(columns.iter().cloned().chain(added))?;
    Ok(Transformed::yes(input.filter(predicate)?.project(columns)?.build()?))
}

/// The names of columns in conditions that others of the subquery's columns have, too.
pub(super) fn namesakes(lifted: &[Column], columns: &[Column]) -> BTreeSet<String> {
    let has_namesake = |column: &&Column| {
        lifted.iter().chain(columns).any(|other| other.name == column.name && other != *column)
    };
    lifted.iter().filter(has_namesake).map(|column| column.name.clone()).collect()
}

/// Gives `lifted` columns names of their own in the conditions on outer columns, if they have namesakes.
///
/// DataFusion puts the columns of the whole subquery under one alias, and finds the first of each name there.
pub(super) fn with_own_names(
    plan: LogicalPlan,
    lifted: &[Column],
    names: &AliasGenerator,
) -> Result<Transformed<LogicalPlan>> {
    let namesakes = namesakes(lifted, &plan.schema().columns());
    if namesakes.is_empty() { Ok(Transformed::no(plan)) } else { without_namesakes(plan, &namesakes, names) }
}

/// Conditions below an alias within the subquery are left: columns that are added there are not known above it.
fn without_namesakes(
    plan: LogicalPlan,
    namesakes: &BTreeSet<String>,
    names: &AliasGenerator,
) -> Result<Transformed<LogicalPlan>> {
    if matches!(plan, LogicalPlan::Subquery(_) | LogicalPlan::SubqueryAlias(_)) {
        return Ok(Transformed::no(plan));
    }
    let plan = plan.map_children(|input| without_namesakes(input, namesakes, names))?;
    plan.transform_data(|plan| match plan {
        LogicalPlan::Filter(filter) if filter.predicate.contains_outer() => {
            without_namesakes_in(filter, namesakes, names)
        }
        other => Ok(Transformed::no(other)),
    })
}

fn without_namesakes_in(
    filter: Filter,
    namesakes: &BTreeSet<String>,
    names: &AliasGenerator,
) -> Result<Transformed<LogicalPlan>> {
    let mut own: HashMap<Column, String> = HashMap::new();
    let mut renamed = |condition: &Expr| {
        if !condition.contains_outer() {
            return Ok(condition.clone());
        }
        let condition = condition.clone().rewrite_up(&mut |expr| match expr {
            Expr::Column(column) if namesakes.contains(&column.name) => {
                let name = own.entry(column).or_insert_with(|| names.next("__key"));
                Ok(Transformed::yes(Expr::Column(Column::new_unqualified(name.clone()))))
            }
            other => Ok(Transformed::no(other)),
        });
        condition.data()
    };
    let conditions = split_conjunction(&filter.predicate).into_iter().map(&mut renamed);
    let conditions = conditions.collect::<Result<_>>()?;
    let own = own.into_iter().map(|(column, name)| Expr::Column(column).alias(name)).collect();
    with_columns(filter, own, conditions)
}
