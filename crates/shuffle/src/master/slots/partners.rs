//! Which worker keeps the replica of each partition.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Chooses the worker for each partition's replica; workers are identified by their positions in the allocation.
///
/// A client merges pushes by (primary, replica) pair, so a worker's partitions share one partner until there are enough of
/// them to fill several groups. The partner is the worker that lacks most of its share of all copies.
///
/// Ask in the order in which the primaries were dealt. Otherwise the last partitions might all be of the only worker that
/// still lacks copies, which cannot keep copies of its own.
pub(super) struct Partners {
    /// The most partitions that share a partner at a time.
    group_len: usize,
    workers: Vec<Partner>,
    /// The workers of each rack; the one that lacks most comes first.
    members: Vec<BTreeSet<(Reverse<i64>, usize)>>,
    /// The racks, ordered by their first members.
    order: BTreeSet<(Reverse<i64>, usize)>,
}

/// A worker of the allocation.
struct Partner {
    /// An index into `members`.
    rack: usize,
    /// Copies that it lacks of its share, in thousandths, because shares are fractions.
    lacks: i64,
    /// Its partitions that have no replica yet.
    left: usize,
    partner: usize,
    /// How many of those go to `partner`.
    promised: usize,
}

impl Partners {
    /// Partners are in different racks unless all workers are in one. `dealt` has the position of each partition's primary.
    pub(super) fn new<'a>(
        racks: impl Iterator<Item = &'a str>,
        weights: &[f64],
        dealt: &[usize],
        group_len: usize,
    ) -> Self {
        let mut own = vec![0_usize; weights.len()];
        dealt.iter().for_each(|position| own[*position] += 1);
        let mut numbers = BTreeMap::new();
        let worker = |((rack, share), left): ((&'a str, f64), usize)| {
            let next = numbers.len();
            let rack = *numbers.entry(rack).or_insert(next);
            // A worker that should have a copy of each partition is chosen whenever possible.
            let has_all = share >= dealt.len() as f64;
            let lacks = if has_all { i64::MAX / 2 } else { (share * 1000.0) as i64 - copies(left) };
            Partner { rack, lacks, left, partner: 0, promised: 0 }
        };
        let workers: Vec<Partner> = racks.zip(shares(weights, dealt.len())).zip(own).map(worker).collect();
        let mut members = vec![BTreeSet::new(); numbers.len()];
        for (position, worker) in workers.iter().enumerate() {
            members[worker.rack].insert((Reverse(worker.lacks), position));
        }
        let firsts = members.iter().enumerate();
        let order = firsts.filter_map(|(rack, members)| Some((members.first()?.0, rack))).collect();
        Self { group_len: group_len.max(1), workers, members, order }
    }

    /// The worker that keeps the copy of `own`'s next partition.
    pub(super) fn next(&mut self, own: usize) -> usize {
        if self.workers[own].promised == 0 {
            let count = self.group_len.min(self.workers[own].left);
            let partner = self.lacks_most(own);
            self.give(partner, count);
            let worker = &mut self.workers[own];
            (worker.partner, worker.promised) = (partner, count);
        }
        let worker = &mut self.workers[own];
        (worker.left, worker.promised) = (worker.left - 1, worker.promised - 1);
        worker.partner
    }

    fn give(&mut self, partner: usize, count: usize) {
        let Partner { rack, lacks, .. } = &mut self.workers[partner];
        let members = &mut self.members[*rack];
        if let Some((most, _)) = members.first() {
            self.order.remove(&(*most, *rack));
        }
        members.remove(&(Reverse(*lacks), partner));
        *lacks -= copies(count);
        members.insert((Reverse(*lacks), partner));
        self.order.extend(members.first().map(|(most, _)| (*most, *rack)));
    }

    /// The worker outside of `own`'s rack that lacks most; with only one rack, another one of that rack. Of several that
    /// lack as much, the next by position after `own`, which spreads them.
    fn lacks_most(&self, own: usize) -> usize {
        let own_rack = self.workers[own].rack;
        let other = self.order.iter().map(|(_, rack)| *rack).find(|rack| *rack != own_rack);
        let members = &self.members[other.unwrap_or(own_rack)];
        let most = members.iter().find(|(_, position)| *position != own);
        let (most, _) = *most.expect("replicas are placed on two workers or more");
        let behind = members.range((most, own + 1)..=(most, usize::MAX));
        let (_, position) = *behind.chain(members.range((most, 0)..)).next().expect("found above");
        position
    }
}

fn copies(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX / 1000) * 1000
}

/// How many primaries and replicas of `count` partitions each worker should have: by weight, but never both copies of a
/// partition.
pub(super) fn shares(weights: &[f64], count: usize) -> Vec<f64> {
    let (count, sum) = (count as f64, weights.iter().sum::<f64>());
    let heavy = weights.iter().position(|weight| 2.0 * weight > sum);
    let share = |(position, weight): (usize, &f64)| match heavy {
        Some(heavy) if heavy == position => count,
        Some(heavy) => count * weight / (sum - weights[heavy]),
        None => 2.0 * count * weight / sum,
    };
    weights.iter().enumerate().map(share).collect()
}
