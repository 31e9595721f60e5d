//! Slot allocation: which workers get the partitions of a shuffle.
//!
//! Every worker in a slot reply costs the driver three round trips, every map task one merged push per (primary, replica)
//! pair, and every reducer one open: so a shuffle of few partitions goes to few workers, unless the operator asked for round
//! robin. The workers in the reply are also the only candidates for the shuffle's later splits (client 0.5.4), so spare
//! workers are listed without partitions.

mod partners;

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use serde::Serialize;
use yeoul_base::SplitMix;

use crate::ids::PartitionId;

use self::partners::Partners;

/// How partitions are dealt to workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub enum Balance {
    /// The same number for each worker, and all workers are used, even for a small shuffle (Celeborn's `ROUNDROBIN`).
    Even,
    /// By free space and locations served (Celeborn's `LOADAWARE`), to a few workers if they suffice.
    #[default]
    Load,
}

/// The settings of the allocation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SlotPolicy {
    /// How partitions are dealt.
    pub balance: Balance,
    /// With [`Balance::Load`], another worker is used only once each has this many partitions of the shuffle.
    pub partitions_per_worker: usize,
    /// Spare workers that the reply lists without partitions, as candidates for splits.
    pub spare_workers: usize,
    /// The most workers that one shuffle uses, spares aside.
    pub workers_max: usize,
    /// Push addresses that a shuffle without replicas gets, if its workers have as many. The stock client has at most 32
    /// pushes in flight to each and 256 in total, and sleeps for 50 ms when it reaches a limit.
    pub push_addresses: usize,
}

impl Default for SlotPolicy {
    fn default() -> Self {
        Self {
            balance: Balance::Load,
            partitions_per_worker: 8,
            spare_workers: 2,
            workers_max: 10_000,
            push_addresses: 8,
        }
    }
}

/// Bytes of one shuffle that a worker should get before another one is used, if the size is known.
const WORKER_BYTES: u64 = 64 << 20;

impl SlotPolicy {
    /// The policy for partitions of a known size: large ones are spread over more workers. Each worker still gets at least a
    /// quarter of `partitions_per_worker`, because an application's next shuffle may differ from the ones before.
    ///
    /// Small ones are not concentrated beyond `partitions_per_worker`. Few bytes may have been many pushes, of which the
    /// stock client has at most 32 in flight to each worker, and then sleeps for 50 ms: TPC-DS Q95 pushes 64 KiB that
    /// compress to 500 bytes, and took 1.9 times as long as Spark's own shuffle with all 16 partitions on one worker, 1.2 to
    /// 1.4 with them on two.
    pub fn for_size(&self, partition_bytes: Option<u64>) -> Self {
        let Some(bytes) = partition_bytes else { return self.clone() };
        let most = self.partitions_per_worker;
        let fitting = usize::try_from(WORKER_BYTES / bytes.max(1)).unwrap_or(usize::MAX);
        Self { partitions_per_worker: fitting.clamp(most.div_ceil(4), most), ..self.clone() }
    }
}

/// A worker that may get partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// Its rack; workers with an empty one count as one rack.
    pub rack: &'a str,
    /// Bytes that it can still store, in memory and on disk.
    pub bytes_usable: u64,
    /// Locations that it serves, including those granted since its last report.
    pub locations: u64,
    /// Whether it gets no partitions, and is listed as a spare only if there are too few others.
    pub spare_only: bool,
}

/// The demand that an allocation has to meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand<'a> {
    /// The partitions, each once.
    pub partitions: &'a [PartitionId],
    /// Whether each partition gets a second location on another worker.
    pub replicate: bool,
    /// Whether that other worker should be in another rack.
    pub rack_aware: bool,
    /// The client's own limit on workers; 0 is none.
    pub workers_max: usize,
}

/// A partition's workers, as indexes into the candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// The partition.
    pub partition: PartitionId,
    /// The worker that takes the pushes.
    pub primary: usize,
    /// The worker that keeps the replica.
    pub replica: Option<usize>,
}

/// The outcome of [`allocate`]; all indexes refer to the candidates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// One for each partition, in the order of the demand.
    pub placements: Vec<Placement>,
    /// Workers that the placements use.
    pub used: Vec<usize>,
    /// Workers listed without partitions.
    pub spare: Vec<usize>,
}

/// Deals the partitions to the candidates. `None` if too few of them may get partitions: at least one, or two for replicas.
///
/// The same arguments give the same result; `random` makes small shuffles land on different workers.
pub fn allocate(
    demand: &Demand<'_>,
    candidates: &[Candidate<'_>],
    policy: &SlotPolicy,
    random: u64,
) -> Option<Allocation> {
    let workers_min = if demand.replicate { 2 } else { 1 };
    let placeable = candidates.iter().filter(|candidate| !candidate.spare_only).count();
    if placeable < workers_min {
        return None;
    }
    let weights = weights(candidates, policy.balance);
    let mut ranked = rank(&weights, random);
    ranked.sort_by_key(|index| candidates[*index].spare_only);
    let client_max = if demand.workers_max == 0 { usize::MAX } else { demand.workers_max };
    let wanted = match policy.balance {
        Balance::Even => demand.partitions.len(),
        Balance::Load => demand.partitions.len().div_ceil(policy.partitions_per_worker.max(1)),
    };
    let width = wanted.min(client_max).min(policy.workers_max).max(workers_min).min(placeable);
    let (mut used, mut spare) = (ranked[..width].to_vec(), ranked[width..].to_vec());
    let separate_racks = demand.replicate && demand.rack_aware;
    if separate_racks {
        bring_in_second_rack(candidates, &mut used, &mut spare);
        interleave_racks(candidates, &mut used);
    }
    spare.truncate(policy.spare_workers);

    let dealt = deal(demand.partitions.len(), &used, &weights);
    let mut partners = demand.replicate.then(|| {
        let racks = used.iter().map(|index| if separate_racks { candidates[*index].rack } else { "" });
        let weights: Vec<f64> = used.iter().map(|index| weights[*index]).collect();
        Partners::new(racks, &weights, &dealt, policy.partitions_per_worker)
    });
    let place = |(partition, at): (&PartitionId, &usize)| Placement {
        partition: *partition,
        primary: used[*at],
        replica: partners.as_mut().map(|partners| used[partners.next(*at)]),
    };
    let placements = demand.partitions.iter().zip(&dealt).map(place).collect();
    Some(Allocation { placements, used, spare })
}

/// Relative shares, each in 0.05..=8: larger for free space, smaller for locations already served. Both are damped, so that
/// no worker gets a whole shuffle for being empty, or nothing for being busy.
fn weights(candidates: &[Candidate<'_>], balance: Balance) -> Vec<f64> {
    if balance == Balance::Even {
        return vec![1.0; candidates.len()];
    }
    let placeable = || candidates.iter().filter(|candidate| !candidate.spare_only);
    let count = placeable().count() as f64;
    let mean_usable = (placeable().map(|c| c.bytes_usable as f64).sum::<f64>() / count).max(1.0);
    let mean_locations = placeable().map(|c| c.locations as f64).sum::<f64>() / count;
    candidates
        .iter()
        .map(|candidate| {
            let space = (candidate.bytes_usable as f64 / mean_usable).clamp(0.1, 4.0);
            // The 64 keeps small differences in a handful of locations from mattering.
            let load = ((mean_locations + 64.0) / (candidate.locations as f64 + 64.0)).clamp(0.5, 2.0);
            space * load
        })
        .collect()
}

/// All candidates in a random order in which the heavy ones tend to come first: a weighted sample without
/// replacement, by the exponential keys of Efraimidis and Spirakis (2006).
fn rank(weights: &[f64], random: u64) -> Vec<usize> {
    let mut stream = SplitMix::new(random);
    let mut keyed: Vec<(f64, usize)> = weights
        .iter()
        .enumerate()
        .map(|(index, weight)| (-stream.next_unit().ln() / weight, index))
        .collect();
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    keyed.into_iter().map(|(_, index)| index).collect()
}

/// If all chosen workers share one rack, replaces the last of them by the best spare of another rack that may get
/// partitions.
fn bring_in_second_rack(candidates: &[Candidate<'_>], used: &mut [usize], spare: &mut [usize]) {
    let rack = candidates[used[0]].rack;
    if used.iter().any(|index| candidates[*index].rack != rack) {
        return;
    }
    let last = used.len() - 1;
    let fits = |other: &Candidate<'_>| !other.spare_only && other.rack != rack;
    if let Some(other) = spare.iter_mut().find(|index| fits(&candidates[**index])) {
        std::mem::swap(other, &mut used[last]);
    }
}

/// Reorders the workers so that neighbours are in different racks as far as possible: the replica of a worker's partitions
/// goes to the workers after it.
fn interleave_racks(candidates: &[Candidate<'_>], used: &mut Vec<usize>) {
    let mut racks: Vec<(&str, Vec<usize>)> = Vec::new();
    for index in used.drain(..) {
        let rack = candidates[index].rack;
        match racks.iter_mut().find(|(name, _)| *name == rack) {
            Some((_, members)) => members.push(index),
            None => racks.push((rack, vec![index])),
        }
    }
    let longest = racks.iter().map(|(_, members)| members.len()).max().unwrap_or(0);
    for turn in 0..longest {
        used.extend(racks.iter().filter_map(|(_, members)| members.get(turn)));
    }
}

/// For each of `count` partitions the position of its worker in `used`, so that each worker's number is proportional to its
/// weight (Sainte-Laguë: the next one goes to the worker with the smallest (dealt + ½) / weight).
fn deal(count: usize, used: &[usize], weights: &[f64]) -> Vec<usize> {
    let mut heap: BinaryHeap<Turn> = (0..used.len())
        .map(|position| Turn { cost: 0.5 / weights[used[position]], position, dealt: 0 })
        .collect();
    (0..count)
        .map(|_| {
            let mut turn = heap.pop().expect("an allocation uses at least one worker");
            let position = turn.position;
            turn.dealt += 1;
            turn.cost = (turn.dealt as f64 + 0.5) / weights[used[position]];
            heap.push(turn);
            position
        })
        .collect()
}

/// A worker waiting for its next partition; the maximum of the heap is the one to get it.
#[derive(Debug, PartialEq)]
struct Turn {
    cost: f64,
    position: usize,
    dealt: u32,
}

impl Eq for Turn {}

impl Ord for Turn {
    fn cmp(&self, other: &Self) -> Ordering {
        other.cost.total_cmp(&self.cost).then(other.position.cmp(&self.position))
    }
}

impl PartialOrd for Turn {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const GIB: u64 = 1 << 30;

    fn partitions(count: i32) -> Vec<PartitionId> {
        (0..count).map(PartitionId).collect()
    }

    fn alike(count: usize) -> Vec<Candidate<'static>> {
        vec![
            Candidate { rack: "/default-rack", bytes_usable: 10 * GIB, locations: 0, spare_only: false };
            count
        ]
    }

    fn demand(partitions: &[PartitionId]) -> Demand<'_> {
        Demand { partitions, replicate: false, rack_aware: false, workers_max: 0 }
    }

    fn primaries_of(allocation: &Allocation, worker: usize) -> usize {
        allocation.placements.iter().filter(|placement| placement.primary == worker).count()
    }

    #[test]
    fn small_shuffle_takes_one_worker_and_lists_spares() {
        let partitions = partitions(8);
        let allocation = allocate(&demand(&partitions), &alike(5), &SlotPolicy::default(), 7).unwrap();
        assert_eq!(allocation.used.len(), 1);
        assert_eq!(allocation.spare.len(), 2);
        assert!(!allocation.spare.contains(&allocation.used[0]));
    }

    #[test]
    fn a_spare_only_worker_gets_nothing_and_is_listed_last() {
        let partitions = partitions(8);
        for random in 0..20 {
            let mut candidates = alike(4);
            candidates[1..].iter_mut().for_each(|candidate| candidate.spare_only = true);
            candidates[2].rack = "/other";
            let allocation =
                allocate(&demand(&partitions), &candidates, &SlotPolicy::default(), random).unwrap();
            assert_eq!((allocation.used, allocation.spare.len()), (vec![0], 2));

            candidates[3].spare_only = false;
            let allocation =
                allocate(&demand(&partitions), &candidates, &SlotPolicy::default(), random).unwrap();
            let [first, second] = allocation.spare[..] else { panic!("{allocation:?}") };
            assert!(first + allocation.used[0] == 3 && [1, 2].contains(&second), "{allocation:?}");
            let apart = Demand { replicate: true, rack_aware: true, ..demand(&partitions) };
            let allocation = allocate(&apart, &candidates, &SlotPolicy::default(), random).unwrap();
            assert!(!allocation.used.contains(&2), "not even for another rack: {allocation:?}");
            candidates[3].spare_only = true;
            assert_eq!(allocate(&apart, &candidates, &SlotPolicy::default(), random), None);
        }
    }

    #[test]
    fn small_shuffles_land_on_all_workers_in_time() {
        let partitions = partitions(4);
        let chosen: BTreeSet<usize> = (0..64)
            .map(|random| {
                allocate(&demand(&partitions), &alike(5), &SlotPolicy::default(), random).unwrap().used[0]
            })
            .collect();
        assert_eq!(chosen.len(), 5);
    }

    #[test]
    fn large_partitions_spread_and_small_ones_do_not_gather() {
        let partitions = partitions(16);
        let workers = |bytes| {
            let policy = SlotPolicy::default().for_size(bytes);
            allocate(&demand(&partitions), &alike(9), &policy, 7).unwrap().used.len()
        };
        assert_eq!(
            [workers(None), workers(Some(1000)), workers(Some(16 << 20)), workers(Some(9 << 30))],
            [2, 2, 4, 8]
        );
    }

    #[test]
    fn round_robin_takes_all_workers_even_for_a_small_shuffle() {
        let even = SlotPolicy { balance: Balance::Even, ..SlotPolicy::default() };
        let few = SlotPolicy { workers_max: 3, ..even.clone() };
        let (twelve, two) = (partitions(12), partitions(2));
        for (partitions, policy, workers) in [(&twelve, &even, 5), (&twelve, &few, 3), (&two, &even, 2)] {
            let demand = demand(partitions);
            let used = |demand: &Demand<'_>| allocate(demand, &alike(5), policy, 7).unwrap().used.len();
            assert_eq!(used(&demand), workers);
            assert_eq!(used(&Demand { replicate: true, ..demand }), workers);
            assert_eq!(used(&Demand { workers_max: 2, ..demand }), 2);
        }
        let allocation = allocate(&demand(&twelve), &alike(5), &even, 7).unwrap();
        assert!((0..5).all(|worker| (2..=3).contains(&primaries_of(&allocation, worker))), "{allocation:?}");
    }

    #[test]
    fn large_shuffle_takes_all_workers_evenly() {
        let partitions = partitions(1000);
        let allocation = allocate(&demand(&partitions), &alike(7), &SlotPolicy::default(), 1).unwrap();
        for worker in 0..7 {
            assert!((142..=143).contains(&primaries_of(&allocation, worker)));
        }
    }

    #[test]
    fn full_and_busy_workers_get_less() {
        let mut candidates = alike(3);
        candidates[1].bytes_usable = GIB;
        candidates[2].locations = 5000;
        let partitions = partitions(300);
        let allocation = allocate(&demand(&partitions), &candidates, &SlotPolicy::default(), 1).unwrap();
        let [free, full, busy] = [0, 1, 2].map(|worker| primaries_of(&allocation, worker));
        assert!(free > busy && busy > full && full > 0, "{free} {busy} {full}");

        let even = SlotPolicy { balance: Balance::Even, ..SlotPolicy::default() };
        let allocation = allocate(&demand(&partitions), &candidates, &even, 1).unwrap();
        assert_eq!([0, 1, 2].map(|worker| primaries_of(&allocation, worker)), [100, 100, 100]);
    }

    #[test]
    fn replicas_of_a_small_shuffle_form_one_pair_per_worker() {
        let partitions = partitions(16);
        let demand = Demand { replicate: true, ..demand(&partitions) };
        let allocation = allocate(&demand, &alike(5), &SlotPolicy::default(), 3).unwrap();
        let pairs: BTreeSet<_> = allocation.placements.iter().map(|p| (p.primary, p.replica)).collect();
        assert_eq!(pairs.len(), 2);
    }

    fn copies_of(allocation: &Allocation, worker: usize) -> usize {
        let of = |placement: &&Placement| placement.primary == worker || placement.replica == Some(worker);
        allocation.placements.iter().filter(of).count()
    }

    #[test]
    fn replicas_go_by_weight_too() {
        let mut candidates = alike(3);
        (candidates[0].bytes_usable, candidates[1].bytes_usable) = (100 * GIB, 100 * GIB);
        candidates[2].bytes_usable = GIB;
        let partitions = partitions(300);
        let demand = Demand { replicate: true, ..demand(&partitions) };
        for random in 0..20 {
            let allocation = allocate(&demand, &candidates, &SlotPolicy::default(), random).unwrap();
            let [one, other, full] = [0, 1, 2].map(|worker| copies_of(&allocation, worker));
            assert!((10..=28).contains(&full) && one.abs_diff(other) <= 16, "{one} {other} {full}");
        }
        let allocation = allocate(&demand, &alike(3), &SlotPolicy::default(), 1).unwrap();
        assert_eq!([0, 1, 2].map(|worker| copies_of(&allocation, worker)), [200, 200, 200]);
        // A worker with more weight than all others together has a copy of each partition.
        candidates[1].bytes_usable = GIB;
        let allocation = allocate(&demand, &candidates, &SlotPolicy::default(), 1).unwrap();
        let [most, one, other] = [0, 1, 2].map(|worker| copies_of(&allocation, worker));
        assert!(most == 300 && one.abs_diff(other) <= 8, "{most} {one} {other}");
    }

    #[test]
    fn a_million_replicas_over_ten_thousand_racks_are_dealt() {
        let names: Vec<String> = (0..10_000).map(|rack| rack.to_string()).collect();
        let mut candidates = alike(10_000);
        for (candidate, name) in candidates.iter_mut().zip(&names) {
            candidate.rack = name;
        }
        let partitions = partitions(1 << 20);
        let demand = Demand { replicate: true, rack_aware: true, ..demand(&partitions) };
        let allocation = allocate(&demand, &candidates, &SlotPolicy::default(), 1).unwrap();
        assert_eq!(allocation.placements.len(), 1 << 20);
    }

    #[test]
    fn replicas_go_to_another_rack_where_there_is_one() {
        let mut candidates = alike(6);
        candidates[5].rack = "/other";
        for random in 0..50 {
            let partitions = partitions(8);
            let demand = Demand { replicate: true, rack_aware: true, ..demand(&partitions) };
            let allocation = allocate(&demand, &candidates, &SlotPolicy::default(), random).unwrap();
            for placement in &allocation.placements {
                let replica = placement.replica.unwrap();
                assert_ne!(candidates[placement.primary].rack, candidates[replica].rack);
            }
        }
        let partitions = partitions(8);
        let demand = Demand { replicate: true, rack_aware: true, ..demand(&partitions) };
        assert!(allocate(&demand, &alike(3), &SlotPolicy::default(), 1).is_some(), "one rack must do");
    }

    #[test]
    fn too_few_workers_is_a_refusal() {
        let partitions = partitions(3);
        assert_eq!(allocate(&demand(&partitions), &[], &SlotPolicy::default(), 1), None);
        let replicated = Demand { replicate: true, ..demand(&partitions) };
        assert_eq!(allocate(&replicated, &alike(1), &SlotPolicy::default(), 1), None);
    }

    proptest! {
        /// For any demand and any workers: each partition once, its copies on different workers, limits kept, weights
        /// respected.
        #[test]
        fn an_allocation_keeps_its_promises(
            count in 0_i32..300,
            workers in prop::collection::vec((0_u64..40 * GIB, 0_u64..10_000, 0_u8..3, prop::bool::weighted(0.2)), 1..20),
            replicate: bool,
            rack_aware: bool,
            even: bool,
            workers_max in 0_usize..12,
            per_worker in 0_usize..40,
            random: u64,
        ) {
            let racks = ["", "/a", "/b"];
            let candidates: Vec<Candidate<'_>> = workers
                .iter()
                .map(|(bytes_usable, locations, rack, spare_only)| Candidate {
                    rack: racks[*rack as usize],
                    bytes_usable: *bytes_usable,
                    locations: *locations,
                    spare_only: *spare_only,
                })
                .collect();
            let partitions = partitions(count);
            let demand = Demand { partitions: &partitions, replicate, rack_aware, workers_max };
            let policy = SlotPolicy {
                balance: if even { Balance::Even } else { Balance::Load },
                partitions_per_worker: per_worker,
                ..SlotPolicy::default()
            };
            let Some(allocation) = allocate(&demand, &candidates, &policy, random) else {
                let placeable = candidates.iter().filter(|candidate| !candidate.spare_only).count();
                prop_assert!(placeable == 0 || (replicate && placeable == 1));
                return Ok(());
            };
            let placed: Vec<PartitionId> = allocation.placements.iter().map(|p| p.partition).collect();
            prop_assert_eq!(&placed, &partitions);
            let used: BTreeSet<usize> = allocation.used.iter().copied().collect();
            prop_assert_eq!(used.len(), allocation.used.len());
            prop_assert!(!used.iter().any(|index| candidates[*index].spare_only));
            if workers_max > 0 {
                let least = if replicate { 2 } else { 1 };
                prop_assert!(used.len() <= workers_max.max(least));
            }
            prop_assert!(allocation.spare.iter().all(|spare| !used.contains(spare)));
            let racks_used: BTreeSet<&str> = used.iter().map(|index| candidates[*index].rack).collect();
            for placement in &allocation.placements {
                prop_assert!(used.contains(&placement.primary));
                prop_assert_eq!(placement.replica.is_some(), replicate);
                if let Some(replica) = placement.replica {
                    prop_assert!(used.contains(&replica));
                    prop_assert_ne!(replica, placement.primary);
                    if rack_aware && racks_used.len() > 1 {
                        prop_assert_ne!(candidates[replica].rack, candidates[placement.primary].rack);
                    }
                }
            }
            if replicate {
                let weights = weights(&candidates, policy.balance);
                let weights: Vec<f64> = allocation.used.iter().map(|index| weights[*index]).collect();
                let shares = partners::shares(&weights, partitions.len());
                let group_len = per_worker.max(1);
                for (index, share) in allocation.used.iter().zip(shares) {
                    let own = primaries_of(&allocation, *index);
                    let partners = allocation.placements.iter().filter(|p| p.primary == *index);
                    let partners: BTreeSet<_> = partners.map(|p| p.replica).collect();
                    prop_assert!(partners.len() <= own.div_ceil(group_len), "merged pushes stay few");
                    let copies = copies_of(&allocation, *index) as f64;
                    let apart = rack_aware && racks_used.len() > 1;
                    prop_assert!(
                        apart || (copies - share).abs() <= group_len as f64 + 2.0,
                        "{copies} copies of {share}, in groups of {group_len}"
                    );
                }
            }
            let again = allocate(&demand, &candidates, &policy, random).unwrap();
            prop_assert_eq!(again, allocation);
        }
    }
}
