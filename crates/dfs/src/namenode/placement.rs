//! Which DataNodes a new block goes to.

use std::collections::BTreeSet;

use crate::ids::{DatanodeHandle, StorageHandle};

/// A storage that may take a block. A DataNode has at most one candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// The DataNode.
    pub datanode: DatanodeHandle,
    /// The storage of it.
    pub storage: StorageHandle,
    /// Where it stands, such as `/dc1/rack2`.
    pub rack: &'a str,
    /// The address by which a writer is known to be on the same host.
    pub ip: &'a str,
    /// Share of the storage that is free, in thousandths.
    pub free_per_mille: u64,
}

/// Chooses up to `count` storages, each of another DataNode: the first on the writer's host if there is one, the second on
/// another rack, the third on the rack of the second, and further ones anywhere, with no rack getting more than its share;
/// each where there is more space of two that were drawn. Where racks do not suffice, any DataNode is taken: fewer are
/// returned only if there are no more.
pub fn choose(
    candidates: &[Candidate<'_>],
    count: usize,
    writer_ip: Option<&str>,
    random: &mut fastrand::Rng,
) -> Vec<StorageHandle> {
    let mut chosen: Vec<Candidate<'_>> = Vec::with_capacity(count);
    let racks: BTreeSet<&str> = candidates.iter().map(|candidate| candidate.rack).collect();
    // HDFS's rule: no rack gets more than its share plus one.
    let per_rack_max = if racks.len() > 1 { count.saturating_sub(1) / racks.len() + 2 } else { count };
    while chosen.len() < count {
        let is_free =
            |candidate: &&Candidate<'_>| chosen.iter().all(|taken| taken.datanode != candidate.datanode);
        let free: Vec<&Candidate<'_>> = candidates.iter().filter(is_free).collect();
        let on_rack = |rack: &str| chosen.iter().filter(|taken| taken.rack == rack).count();
        let is_wanted = |candidate: &&&Candidate<'_>| match chosen.as_slice() {
            [] => writer_ip.is_some_and(|ip| candidate.ip == ip),
            [first] => candidate.rack != first.rack,
            [first, second] if first.rack == second.rack => candidate.rack != first.rack,
            [_, second] => candidate.rack == second.rack,
            _ => on_rack(candidate.rack) < per_rack_max,
        };
        let wanted: Vec<&Candidate<'_>> = free.iter().filter(is_wanted).copied().collect();
        let Some(next) = draw(&wanted, random).or_else(|| draw(&free, random)) else { break };
        chosen.push(next);
    }
    chosen.into_iter().map(|candidate| candidate.storage).collect()
}

/// Chooses a storage for one more copy of a block that has copies on these racks: on another one if it has only one, and to a
/// DataNode that is not in doubt. A missing copy goes to the same rack rather than to a DataNode in doubt; a move of one, for the
/// sake of racks alone, waits.
pub fn choose_copy(
    candidates: &[Candidate<'_>],
    racks: &BTreeSet<&str>,
    is_move: bool,
    is_in_doubt: impl Fn(DatanodeHandle) -> bool,
    random: &mut fastrand::Rng,
) -> Option<StorageHandle> {
    let is_elsewhere = |candidate: &Candidate<'_>| racks.len() != 1 || !racks.contains(candidate.rack);
    let is_trusted = |candidate: &Candidate<'_>| !is_in_doubt(candidate.datanode);
    let from = |is_wanted: &dyn Fn(&Candidate<'_>) -> bool| -> Vec<&Candidate<'_>> {
        candidates.iter().filter(|candidate| is_wanted(candidate)).collect()
    };
    let mut chosen = draw(&from(&|candidate| is_elsewhere(candidate) && is_trusted(candidate)), random);
    if !is_move {
        chosen = chosen
            .or_else(|| draw(&from(&is_trusted), random))
            .or_else(|| draw(&from(&is_elsewhere), random))
            .or_else(|| draw(&from(&|_| true), random));
    }
    chosen.map(|candidate| candidate.storage)
}

/// Chooses a storage for each of `count` units of a block group, where `taken` DataNodes have units already (one that has
/// two is named twice). A unit goes to a DataNode with as few of its group as there are, of these to one that is not in doubt,
/// of these to a rack with as few, and of these where there is more space of two that were drawn: so two are on one DataNode
/// only where there are fewer DataNodes than units, and no rack has more than its share if it can be. None are returned if
/// there are no candidates.
pub fn choose_striped(
    candidates: &[Candidate<'_>],
    taken: &[(DatanodeHandle, &str)],
    count: usize,
    is_in_doubt: impl Fn(DatanodeHandle) -> bool,
    random: &mut fastrand::Rng,
) -> Vec<StorageHandle> {
    let mut taken = taken.to_vec();
    let mut chosen = Vec::with_capacity(count);
    while chosen.len() < count {
        let load = |candidate: &&Candidate<'_>| {
            let on_node = taken.iter().filter(|(node, _)| *node == candidate.datanode).count();
            let on_rack = taken.iter().filter(|(_, rack)| *rack == candidate.rack).count();
            (on_node, is_in_doubt(candidate.datanode), on_rack)
        };
        let Some(least) = candidates.iter().map(|candidate| load(&candidate)).min() else { break };
        let wanted: Vec<_> = candidates.iter().filter(|candidate| load(candidate) == least).collect();
        let next = draw(&wanted, random).expect("one has the least");
        taken.push((next.datanode, next.rack));
        chosen.push(next.storage);
    }
    chosen
}

/// The one with more space of two that are drawn.
fn draw<'a>(from: &[&Candidate<'a>], random: &mut fastrand::Rng) -> Option<Candidate<'a>> {
    if from.is_empty() {
        return None;
    }
    let (one, other) = (from[random.usize(..from.len())], from[random.usize(..from.len())]);
    Some(if other.free_per_mille > one.free_per_mille { *other } else { *one })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(
        number: u32,
        rack: &'static str,
        ip: &'static str,
        free_per_mille: u64,
    ) -> Candidate<'static> {
        let (datanode, storage) = (DatanodeHandle(number), StorageHandle(number));
        Candidate { datanode, storage, rack, ip, free_per_mille }
    }

    fn two_racks() -> Vec<Candidate<'static>> {
        vec![
            candidate(0, "/a", "10.0.0.1", 500),
            candidate(1, "/a", "10.0.0.2", 500),
            candidate(2, "/a", "10.0.0.3", 500),
            candidate(3, "/b", "10.0.1.1", 500),
            candidate(4, "/b", "10.0.1.2", 500),
        ]
    }

    #[test]
    fn three_copies_are_on_two_racks_and_the_first_is_with_the_writer() {
        let all = two_racks();
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let chosen = choose(&all, 3, Some("10.0.0.2"), &mut random);
            assert_eq!(chosen[0], StorageHandle(1));
            let racks: Vec<&str> = chosen.iter().map(|storage| all[storage.0 as usize].rack).collect();
            assert_eq!(racks, ["/a", "/b", "/b"], "seed {seed}");
            let different: BTreeSet<_> = chosen.iter().collect();
            assert_eq!(different.len(), 3);
        }
    }

    #[test]
    fn no_rack_gets_more_than_its_share_and_one() {
        let mut all = two_racks();
        all.push(candidate(5, "/c", "10.0.2.1", 500));
        all.push(candidate(6, "/a", "10.0.0.4", 500));
        for seed in 0..200 {
            let chosen = choose(&all, 5, None, &mut fastrand::Rng::with_seed(seed));
            let on_a = chosen.iter().filter(|storage| all[storage.0 as usize].rack == "/a").count();
            assert!(chosen.len() == 5 && on_a <= 3, "seed {seed}: {chosen:?}");
        }
    }

    #[test]
    fn with_one_rack_or_too_few_nodes_it_takes_what_there_is() {
        let one_rack: Vec<_> = two_racks().into_iter().take(3).collect();
        let mut random = fastrand::Rng::with_seed(1);
        assert_eq!(choose(&one_rack, 3, None, &mut random).len(), 3);
        assert_eq!(choose(&one_rack, 5, None, &mut random).len(), 3);
        assert_eq!(choose(&[], 3, None, &mut random), []);
    }

    #[test]
    fn writers_on_one_host_with_several_nodes_use_all_of_them_and_emptier_ones_more() {
        let all = [
            candidate(0, "/a", "127.0.0.1", 900),
            candidate(1, "/a", "127.0.0.1", 100),
            candidate(2, "/a", "127.0.0.1", 100),
        ];
        let mut firsts = [0; 3];
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..900 {
            firsts[choose(&all, 1, Some("127.0.0.1"), &mut random)[0].0 as usize] += 1;
        }
        // The emptier one is drawn in five of nine pairs.
        assert!(firsts[0] > 450 && firsts[1] > 100 && firsts[2] > 100, "{firsts:?}");
    }

    #[test]
    fn a_copy_goes_to_another_rack_and_rather_to_the_same_one_than_to_a_node_in_doubt() {
        let all = two_racks();
        let chosen = |from: &[Candidate<'static>], racks: &[&str], is_move, doubted: &[u32]| {
            let racks = racks.iter().copied().collect();
            let is_in_doubt = |node: DatanodeHandle| doubted.contains(&node.0);
            let choose = |seed| {
                let mut random = fastrand::Rng::with_seed(seed);
                choose_copy(from, &racks, is_move, is_in_doubt, &mut random).map(|storage| storage.0)
            };
            (0..100).map(choose).collect::<BTreeSet<_>>()
        };
        let of = |numbers: &[u32]| numbers.iter().copied().map(Some).collect::<BTreeSet<_>>();
        for is_move in [false, true] {
            assert_eq!(chosen(&all[1..], &["/a"], is_move, &[]), of(&[3, 4]));
            assert_eq!(chosen(&all[1..], &["/a"], is_move, &[3]), of(&[4]));
        }
        // Nobody on the other rack can be relied on, or nobody at all.
        assert_eq!(chosen(&all[1..], &["/a"], false, &[3, 4]), of(&[1, 2]));
        assert_eq!(chosen(&all[1..], &["/a"], false, &[1, 2, 3, 4]), of(&[3, 4]));
        assert_eq!(chosen(&all[1..3], &["/a"], false, &[1, 2]), of(&[1, 2]), "there is no other rack");
        assert_eq!(chosen(&all[1..], &["/a"], true, &[3, 4]), BTreeSet::from([None]));
        assert_eq!(chosen(&all[1..], &["/a", "/b"], false, &[3, 4]), of(&[1, 2]), "two racks have copies");
    }

    #[test]
    fn units_are_spread_over_all_racks_and_nodes_before_one_gets_two() {
        let racks = ["/a", "/b", "/c"];
        let twelve: Vec<_> =
            (0..12).map(|number| candidate(number, racks[number as usize % 3], "", 500)).collect();
        let nodes = |chosen: &[StorageHandle]| chosen.iter().collect::<BTreeSet<_>>().len();
        for seed in 0..100 {
            let mut random = fastrand::Rng::with_seed(seed);
            let chosen = choose_striped(&twelve, &[], 9, |_| false, &mut random);
            let on = |rack| chosen.iter().filter(|storage| racks[storage.0 as usize % 3] == rack).count();
            assert_eq!((nodes(&chosen), racks.map(on)), (9, [3, 3, 3]), "seed {seed}");
            // Seven nodes: two of them get a second unit, the last ones.
            let chosen = choose_striped(&twelve[..7], &[], 9, |_| false, &mut random);
            assert_eq!((nodes(&chosen), nodes(&chosen[..7])), (7, 7), "seed {seed}");
            // Those that have a unit get no other, and the rack with fewest comes first.
            let taken: Vec<_> = twelve[..8].iter().map(|one| (one.datanode, one.rack)).collect();
            let chosen = choose_striped(&twelve, &taken, 1, |_| false, &mut random);
            assert!(chosen == [StorageHandle(8)] || chosen == [StorageHandle(11)], "seed {seed}: {chosen:?}");
            // One in doubt is taken before a DataNode gets two, and after the others on whatever rack.
            let doubts = |node| [DatanodeHandle(8), DatanodeHandle(11)].contains(&node);
            let chosen = choose_striped(&twelve, &taken, 4, doubts, &mut random);
            assert!(
                chosen[..2].iter().all(|storage| [9, 10].contains(&storage.0)),
                "seed {seed}: {chosen:?}"
            );
            assert_eq!(nodes(&chosen), 4, "seed {seed}: {chosen:?}");
        }
        assert_eq!(choose_striped(&[], &[], 9, |_| false, &mut fastrand::Rng::with_seed(1)), []);
    }
}
