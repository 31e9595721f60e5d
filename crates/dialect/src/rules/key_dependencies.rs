use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, FunctionalDependence, Result};
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, Projection};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::rewrite::columns_of;
use crate::rewrite::{LogicalRule, PlanWalk};
use crate::types::identity::Identity;

/// Hides that some columns determine others where DataFusion would take more from it than is true.
///
/// - An aggregate believes that a key of its groups determines the whole group if it determined anything below: in `GROUP BY s.m, d.v`, where
///   `v` was distinct in `d` before `d` was joined with `s`, `v` is then taken for unique. So a `DISTINCT v`, or a later key of an
///   `ORDER BY v, m`, is dropped.
/// - An unnested list repeats its row, and an unnested struct moves the columns behind it; both keep what was true of the row before.
/// - A recursive query keeps what is true of its first part.
///
/// Rules that drop keys, and the planner, which adds some, look at a node's input: there the columns are hidden, below the node.
#[derive(Debug)]
pub(super) struct KeyDependencies;

impl OptimizerRule for KeyDependencies {
    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        cut(plan)
    }

    fn name(&self) -> &str {
        "key_dependencies"
    }
}

/// The rule that makes groups of each `DISTINCT`, or leaves it out where its rows are distinct already: first those above. Those below have no
/// keys yet, which would be believed to be keys further up.
#[derive(Debug)]
pub(super) struct DistinctsFromAbove(pub(super) LogicalRule);

impl OptimizerRule for DistinctsFromAbove {
    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        self.0.rewrite(plan, config)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }
}

/// A plan that believes of its keys only what is true.
pub(crate) fn cut(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut has_any = false;
    plan.each_with_subqueries(&mut |node| {
        has_any |= !believed(node)?.is_empty();
        Ok(if has_any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !has_any {
        return Ok(Transformed::no(plan));
    }
    // What is hidden below one node is not known above it: so its schema is made anew first.
    plan.rewrite_up_with_subqueries(&mut |node| {
        let node = node.recompute_schema()?;
        let hidden = believed(&node)?;
        if hidden.is_empty() {
            return Ok(Transformed::yes(node));
        }
        let mut is_first = true;
        let node = node.map_children(|input| {
            // Of a recursive query it is the first part.
            let hides = std::mem::take(&mut is_first);
            Ok(if hides { Transformed::yes(without(input, &hidden)?) } else { Transformed::no(input) })
        })?;
        node.data.recompute_schema().map(Transformed::yes)
    })
}

/// The columns of a node's first input, by their places, of which it believes too much. One of each key is enough.
fn believed(node: &LogicalPlan) -> Result<BTreeSet<usize>> {
    let keys_of = |input: &LogicalPlan| input.schema().functional_dependencies().to_vec();
    Ok(match node {
        LogicalPlan::Unnest(unnest) => first_of(&keys_of(&unnest.input)),
        LogicalPlan::RecursiveQuery(query) => first_of(&keys_of(&query.static_term)),
        LogicalPlan::Distinct(Distinct::All(input)) => partial_keys(&columns_of(input), input),
        LogicalPlan::Aggregate(aggregate) => {
            let keys: Vec<Expr> =
                grouping_set_to_exprlist(&aggregate.group_expr)?.into_iter().cloned().collect();
            partial_keys(&keys, &aggregate.input)
        }
        _ => BTreeSet::new(),
    })
}

/// The columns that determine something in `input` and are among the keys of groups, but do not determine all of these keys.
fn partial_keys(groups: &[Expr], input: &LogicalPlan) -> BTreeSet<usize> {
    let schema = input.schema();
    let dependencies = schema.functional_dependencies();
    if dependencies.is_empty() {
        return BTreeSet::new();
    }
    let place = |column: &Column| schema.maybe_index_of_column(column);
    let group_columns: BTreeSet<usize> =
        groups.iter().filter_map(|group| group.try_as_col().and_then(place)).collect();
    let determines = |key: &FunctionalDependence, group: &Expr| {
        !group.is_volatile()
            && group.column_refs().into_iter().all(|column| {
                place(column).is_some_and(|place| {
                    key.target_indices.contains(&place) || key.source_indices.contains(&place)
                })
            })
    };
    let is_partial = |key: &&FunctionalDependence| {
        key.source_indices.iter().all(|place| group_columns.contains(place))
            && !groups.iter().all(|group| determines(key, group))
    };
    dependencies.iter().filter(is_partial).filter_map(|key| key.source_indices.first().copied()).collect()
}

fn first_of(keys: &[FunctionalDependence]) -> BTreeSet<usize> {
    keys.iter().filter_map(|key| key.source_indices.first().copied()).collect()
}

/// A plan with the same columns, some of which are of unknown origin.
fn without(input: LogicalPlan, hidden: &BTreeSet<usize>) -> Result<LogicalPlan> {
    let columns = columns_of(&input).into_iter().enumerate().map(|(place, column)| match column {
        Expr::Column(name) if hidden.contains(&place) => {
            let (relation, own) = (name.relation.clone(), name.name.clone());
            Identity::Alone.call(Expr::Column(name)).alias_qualified(relation, own)
        }
        column => column,
    });
    let columns: Vec<Expr> = columns.collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(input))?))
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::*;

    /// How many columns of a statement's plan are hidden.
    async fn hidden(sql: &str) -> usize {
        let context = SessionContext::new();
        context.sql("CREATE TABLE t (v INT, w INT) AS VALUES (1, 2)").await.unwrap();
        let plan = context.state().create_logical_plan(sql).await.unwrap();
        let cut = cut(plan).unwrap().data;
        assert!(!super::cut(cut.clone()).unwrap().transformed, "{sql}");
        cut.display_indent().to_string().matches("alone(").count()
    }

    #[tokio::test]
    async fn a_key_is_hidden_where_it_is_no_longer_one() {
        const KEYS: &str = "(SELECT v, max(w) AS w FROM t GROUP BY v) AS d";
        for (sql, count) in [
            (format!("SELECT s.w, d.v FROM {KEYS} JOIN t AS s ON s.w <= d.v GROUP BY s.w, d.v"), 1),
            (format!("SELECT s.w + d.v, d.v FROM {KEYS} JOIN t AS s ON true GROUP BY s.w + d.v, d.v"), 1),
            (format!("SELECT DISTINCT s.w, d.v FROM {KEYS} JOIN t AS s ON true"), 1),
            (format!("SELECT v, unnest(make_array(1, 2)) FROM {KEYS}"), 1),
            (format!("SELECT 1 FROM t WHERE EXISTS (SELECT DISTINCT s.w, d.v FROM {KEYS}, t AS s)"), 1),
            // Here it determines the groups, or is none of their keys.
            (format!("SELECT d.v, d.w + 1 FROM {KEYS} JOIN t AS s ON true GROUP BY d.v, d.w + 1"), 0),
            (format!("SELECT s.w, d.w FROM {KEYS} JOIN t AS s ON true GROUP BY s.w, d.w"), 0),
            (format!("SELECT v, w, count(*) FROM {KEYS} GROUP BY v, w"), 0),
            ("SELECT v, w FROM t GROUP BY v, w".to_owned(), 0),
        ] {
            assert_eq!(hidden(&sql).await, count, "{sql}");
        }
    }
}
