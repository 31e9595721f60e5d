//! The search for the cheapest order of joins.

use std::time::Instant;

use super::cardinality::Cardinalities;
use super::graph::{JoinGraph, JoinTree};
use super::relation_set::RelationSet;

/// The most relations of which every order is tried.
const EXHAUSTIVE_MAX: usize = 12;
/// Sets of relations between two looks at the clock.
const SETS_PER_LOOK: usize = 64;

/// Costs of a row: to be put into a hash table, to be looked up in one, and to be handed on.
const BUILD: f64 = 2.0;
const PROBE: f64 = 1.0;
const OUTPUT: f64 = 1.0;
/// Cost of a pair of rows whose condition is computed.
const PAIR: f64 = 0.2;

/// The link of two sets of relations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// Equal keys.
    Keys,
    /// A condition on both.
    Condition,
    /// One is tested against the other.
    Test,
    /// Nothing.
    Cross,
}

impl JoinGraph {
    /// The link of two sets; `None` if one is a relation that these rows cannot be tested against.
    pub(super) fn link(&self, one: RelationSet, other: RelationSet) -> Option<Link> {
        match (self.test_needs(one), self.test_needs(other)) {
            (None, None) => {}
            (Some(needs), None) => return needs.is_within(other).then_some(Link::Test),
            (None, Some(needs)) => return needs.is_within(one).then_some(Link::Test),
            (Some(_), Some(_)) => return None,
        }
        let has_class =
            self.classes.iter().any(|class| class.relations.overlaps(one) && class.relations.overlaps(other));
        let has_keys = has_class
            || self.predicates.iter().filter_map(|predicate| predicate.sides.as_ref()).any(|sides| {
                let (left, right) = (sides[0].1, sides[1].1);
                !left.is_empty()
                    && !right.is_empty()
                    && (left.is_within(one) && right.is_within(other)
                        || left.is_within(other) && right.is_within(one))
            });
        if has_keys {
            return Some(Link::Keys);
        }
        let both = one | other;
        let has_condition = self.predicates.iter().any(|predicate| {
            predicate.needs.is_within(both)
                && predicate.needs.overlaps(one)
                && predicate.needs.overlaps(other)
        });
        Some(if has_condition { Link::Condition } else { Link::Cross })
    }

    /// The relations that are needed for the only one of a set, if others are tested against it.
    fn test_needs(&self, set: RelationSet) -> Option<RelationSet> {
        let relation = set.first().filter(|_| set.len() == 1)?;
        self.relations[relation].test.as_ref().map(|test| test.needs)
    }
}

/// The search for an order of the joins of a graph.
pub(super) struct Search<'g> {
    graph: &'g JoinGraph,
    pub(super) cardinalities: Cardinalities<'g>,
    deadline: Instant,
}

impl<'g> Search<'g> {
    pub(super) fn new(graph: &'g JoinGraph, cardinalities: Cardinalities<'g>, deadline: Instant) -> Self {
        Self { graph, cardinalities, deadline }
    }

    /// The cheapest order that was found in time.
    pub(super) fn best(&mut self) -> Option<JoinTree> {
        if self.graph.relations.len() <= EXHAUSTIVE_MAX {
            let found = self.exhaustive(false).or_else(|| self.exhaustive(true));
            if found.is_some() {
                return found;
            }
        }
        self.greedy()
    }

    /// The cost of an order; `None` if it is not possible.
    pub(super) fn cost(&mut self, tree: &JoinTree) -> Option<f64> {
        let JoinTree::Join(sides) = tree else { return Some(0.0) };
        let before = self.cost(&sides.0)? + self.cost(&sides.1)?;
        let (left, right) = (sides.0.relations(), sides.1.relations());
        let link = self.graph.link(left, right)?;
        Some(before + self.step_cost(link, left, right))
    }

    fn step_cost(&mut self, link: Link, left: RelationSet, right: RelationSet) -> f64 {
        let (of_left, of_right) = (self.cardinalities.rows(left), self.cardinalities.rows(right));
        let output = self.cardinalities.rows(left | right) * OUTPUT;
        match link {
            Link::Keys | Link::Test => of_left.min(of_right) * BUILD + of_left.max(of_right) * PROBE + output,
            Link::Condition => of_left * of_right * PAIR + output,
            Link::Cross => of_left * of_right + output,
        }
    }

    /// The cheapest of all orders, by dynamic programming over sets of relations; `None` if there is no time, or none without a cross
    /// product.
    fn exhaustive(&mut self, may_cross: bool) -> Option<JoinTree> {
        let count = self.graph.relations.len();
        let mut best: Vec<Option<(f64, u32)>> = vec![None; 1 << count];
        for relation in 0..count {
            best[1 << relation] = Some((0.0, 0));
        }
        for set in 1..1u32 << count {
            if set.is_power_of_two() {
                continue;
            }
            if (set as usize).is_multiple_of(SETS_PER_LOOK) && Instant::now() > self.deadline {
                return None;
            }
            // Each pair once: the first half has the lowest relation.
            let lowest = set & set.wrapping_neg();
            let others = set ^ lowest;
            let mut part = others;
            while part > 0 {
                part = (part - 1) & others;
                let (one, other) = (part | lowest, set ^ (part | lowest));
                if let Some(cost) = self.cost_of_pair(&best, one, other, may_cross)
                    && best[set as usize].is_none_or(|(least, _)| cost < least)
                {
                    best[set as usize] = Some((cost, one));
                }
            }
        }
        tree_of(&best, (1 << count) - 1)
    }

    fn cost_of_pair(
        &mut self,
        best: &[Option<(f64, u32)>],
        one: u32,
        other: u32,
        may_cross: bool,
    ) -> Option<f64> {
        let before = best[one as usize]?.0 + best[other as usize]?.0;
        let (one, other) = (RelationSet::of_bits(one), RelationSet::of_bits(other));
        let link = self.graph.link(one, other)?;
        if link == Link::Cross && !may_cross {
            return None;
        }
        Some(before + self.step_cost(link, one, other))
    }

    /// An order that joins, each time, the two parts that have the fewest rows together; `None` if there is no time.
    fn greedy(&mut self) -> Option<JoinTree> {
        let count = self.graph.relations.len();
        let mut parts: Vec<(RelationSet, JoinTree)> =
            (0..count).map(|relation| (RelationSet::of(relation), JoinTree::Relation(relation))).collect();
        while parts.len() > 1 {
            if Instant::now() > self.deadline {
                return None;
            }
            let (one, other) = self.nearest(&parts)?;
            let (right_set, right) = parts.remove(other);
            let (left_set, left) = parts.remove(one);
            parts.push((left_set | right_set, JoinTree::join(left, right)));
        }
        parts.pop().map(|(_, tree)| tree)
    }

    /// The places of the two parts to join next, the lower first; without a cross product if that is possible.
    fn nearest(&mut self, parts: &[(RelationSet, JoinTree)]) -> Option<(usize, usize)> {
        let mut least: Option<(bool, f64, f64, usize, usize)> = None;
        for other in 1..parts.len() {
            for one in 0..other {
                let (left, right) = (parts[one].0, parts[other].0);
                let Some(link) = self.graph.link(left, right) else { continue };
                let is_cross = link == Link::Cross;
                if is_cross && least.is_some_and(|(crosses, ..)| !crosses) {
                    continue;
                }
                let rows = self.cardinalities.rows(left | right);
                let cost = self.step_cost(link, left, right);
                let is_less = least.is_none_or(|(crosses, least_rows, least_cost, ..)| {
                    (is_cross, rows, cost) < (crosses, least_rows, least_cost)
                });
                if is_less {
                    least = Some((is_cross, rows, cost, one, other));
                }
            }
        }
        least.map(|(_, _, _, one, other)| (one, other))
    }
}

fn tree_of(best: &[Option<(f64, u32)>], set: u32) -> Option<JoinTree> {
    let (_, one) = best[set as usize]?;
    if one == 0 {
        return Some(JoinTree::Relation(set.trailing_zeros() as usize));
    }
    Some(JoinTree::join(tree_of(best, one)?, tree_of(best, set ^ one)?))
}
