//! The estimated rows of the relations of a graph joined.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;

use super::graph::{JoinGraph, column, columns_of, replaced};
use super::relation_set::RelationSet;
use crate::optimizer::estimates::{
    ColumnEstimate, Estimate, Match, absent, bounded, joined_rows, kept, of_plan, selectivity, tested_share,
};

/// The rows of each set of relations, by what is known of each relation. They do not depend on the order of joins.
pub(super) struct Cardinalities<'g> {
    graph: &'g JoinGraph,
    relations: Vec<Estimate>,
    /// The columns of all relations.
    columns: Estimate,
    rows: HashMap<RelationSet, f64>,
}

impl<'g> Cardinalities<'g> {
    /// The cardinalities of a graph; `None` if nothing is known about a relation.
    ///
    /// # Errors
    /// DataFusion's.
    pub(super) fn of(graph: &'g JoinGraph) -> Result<Option<Self>> {
        let mut relations = Vec::new();
        for (place, relation) in graph.relations.iter().enumerate() {
            let Some(mut estimate) = of_plan(&relation.plan) else { return Ok(None) };
            for predicate in &graph.predicates {
                if predicate.needs == RelationSet::of(place) {
                    estimate = kept(&estimate, &of_relation(graph, &predicate.condition, relation.start)?);
                }
            }
            relations.push(estimate);
        }
        let columns: Vec<ColumnEstimate> =
            relations.iter().flat_map(|estimate| estimate.columns.iter().cloned()).collect();
        let most = relations.iter().map(|estimate| estimate.rows).fold(1.0, f64::max);
        let columns = Estimate { rows: most, columns };
        Ok(Some(Self { graph, relations, columns, rows: HashMap::new() }))
    }

    /// The rows of these relations joined, at least 1.
    pub(super) fn rows(&mut self, set: RelationSet) -> f64 {
        if let Some(rows) = self.rows.get(&set) {
            return *rows;
        }
        let rows = bounded(self.computed(set), 1.0, f64::MAX);
        self.rows.insert(set, rows);
        rows
    }

    fn computed(&self, set: RelationSet) -> f64 {
        let is_test = |relation: &usize| self.graph.relations[*relation].test.is_some();
        let (tests, joined): (Vec<usize>, Vec<usize>) = set.iter().partition(is_test);
        let mut rest: RelationSet = joined.into_iter().collect();
        let (mut done, mut rows) = (RelationSet::EMPTY, 1.0);
        while let Some(next) = self.next(done, rest) {
            let (keys, share) = self.keys(done, next);
            rows = joined_rows(rows, self.relations[next].rows, &keys) * share;
            done |= RelationSet::of(next);
            rest = rest.without(RelationSet::of(next));
        }
        if done.is_empty() {
            // A relation that others are tested against.
            return set.first().map_or(1.0, |relation| self.relations[relation].rows);
        }
        let conditions = self.graph.predicates.iter().filter(|predicate| {
            predicate.sides.is_none() && predicate.needs.len() > 1 && predicate.needs.is_within(set)
        });
        for predicate in conditions {
            rows *= selectivity(&predicate.condition, &self.columns).rows;
        }
        for test in tests {
            rows *= self.share_of_test(test, rows);
        }
        rows
    }

    /// The first relation that has a key in common with those that are joined; else the first.
    fn next(&self, done: RelationSet, rest: RelationSet) -> Option<usize> {
        let is_linked = |relation: &usize| {
            let one = RelationSet::of(*relation);
            self.graph
                .classes
                .iter()
                .any(|class| class.relations.overlaps(done) && class.relations.overlaps(one))
        };
        rest.iter().find(is_linked).or_else(|| rest.first())
    }

    /// The keys that join a relation with others, and the share of rows in which none of them is null.
    fn keys(&self, done: RelationSet, next: usize) -> (Vec<Match>, f64) {
        let one = RelationSet::of(next);
        let (mut keys, mut share) = (Vec::new(), 1.0);
        for class in &self.graph.classes {
            if !class.relations.overlaps(done) || !class.relations.overlaps(one) {
                continue;
            }
            let mut key = Match { left: f64::MAX, right: f64::MAX };
            let mut nulls: f64 = 0.0;
            for column in &class.columns {
                let relation = self.graph.columns[*column].relation;
                if relation == next {
                    key.right = self.distinct(*column);
                    share *= 1.0 - self.columns.column(*column).nulls;
                } else if done.contains(relation) {
                    key.left = key.left.min(self.distinct(*column));
                    nulls = nulls.max(self.columns.column(*column).nulls);
                }
            }
            share *= 1.0 - nulls;
            keys.push(key);
        }
        let sides = self.graph.predicates.iter().filter_map(|predicate| predicate.sides.as_ref());
        for [(left, of_left), (right, of_right)] in sides {
            if *of_right == one && of_left.is_within(done) && !of_left.is_empty() {
                keys.push(Match { left: self.distinct_of(left), right: self.distinct_of(right) });
            } else if *of_left == one && of_right.is_within(done) && !of_right.is_empty() {
                keys.push(Match { left: self.distinct_of(right), right: self.distinct_of(left) });
            }
        }
        (keys, share)
    }

    /// The share of so many rows that a test keeps.
    fn share_of_test(&self, relation: usize, rows: f64) -> f64 {
        let Some(test) = &self.graph.relations[relation].test else { return 1.0 };
        let keys = test.keys.iter();
        let keys: Vec<Match> = keys
            .map(|(kept, tested)| Match { left: self.distinct_of(kept), right: self.distinct_of(tested) })
            .collect();
        let share = tested_share(rows, self.relations[relation].rows, &keys);
        if test.is_anti { absent(share) } else { share }
    }

    fn distinct(&self, column: usize) -> f64 {
        let relation = self.graph.columns[column].relation;
        self.relations[relation].distinct(column - self.graph.relations[relation].start)
    }

    /// The distinct values of an expression, at most those of its columns together.
    fn distinct_of(&self, expr: &Arc<dyn PhysicalExpr>) -> f64 {
        columns_of(expr).into_iter().map(|column| self.distinct(column)).product()
    }
}

/// An expression over the columns of a relation that begin at `start`.
fn of_relation(
    graph: &JoinGraph,
    expr: &Arc<dyn PhysicalExpr>,
    start: usize,
) -> Result<Arc<dyn PhysicalExpr>> {
    let columns = graph.columns.iter().enumerate();
    let columns = columns.map(|(place, told)| column(told.field.name(), place.saturating_sub(start)));
    replaced(expr, &columns.collect::<Vec<_>>())
}
