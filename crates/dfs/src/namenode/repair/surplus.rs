use std::collections::{BTreeMap, BTreeSet};

use super::Standing;
use crate::ids::{BlockIndex, DatanodeHandle, StorageHandle};
use crate::namenode::blocks::{Block, Fit, Replica};

/// The replicas of a block that may go: more copies than wanted, units that are there twice, and what is damaged or old. They
/// are told apart by (storage, index), never by DataNode alone. What they leave is on DataNodes that are there, in storages
/// that have reported since they registered, and not about to go itself. If no DataNode `has_place` for another replica, one that is
/// damaged goes before its successor is there, which is made in its place. Of copies and twins the one goes that `is_moved`, as a
/// balancer has given it to another DataNode, unless the others would stand worse than without it.
pub fn surplus(
    block: &Block,
    copies: usize,
    standing: impl Fn(&Replica) -> Standing,
    rack: impl Fn(DatanodeHandle) -> String,
    has_place: impl FnOnce() -> bool,
    is_moved: impl Fn(&Replica) -> bool,
) -> Vec<(StorageHandle, BlockIndex)> {
    if !block.is_committed {
        return Vec::new();
    }
    let is_sure = |replica: &Replica| standing(replica) == Standing::Live { is_fresh: true };
    let mut kept: Vec<Replica> = block.good().filter(is_sure).collect();
    let mut going: Vec<Replica> = Vec::new();
    if block.geometry().is_some() {
        drop_twins(block, &mut kept, &mut going, &rack, &is_moved);
    } else {
        while kept.len() > copies {
            let usual = most_crowded(&kept, &rack);
            let at = moved_or(usual, &kept, &rack, &is_moved);
            going.push(kept.remove(at));
        }
    }
    let units = block.readable_units(|replica| {
        kept.iter().any(|one| (one.storage, one.index) == (replica.storage, replica.index))
    });
    let is_whole = match block.geometry() {
        Some(_) => units == block.units(),
        None => kept.len() >= copies,
    };
    let there = if block.geometry().is_some() { units.len() } else { kept.len() };
    let is_useless = |replica: &Replica| matches!(block.fit(replica), Fit::Corrupt | Fit::Stale);
    let is_here =
        |replica: &Replica| matches!(standing(replica), Standing::Live { .. }) && !replica.is_leaving;
    let mut useless = block.replicas().filter(|replica| is_useless(replica) && is_here(replica)).peekable();
    if is_whole || there > block.units_needed() {
        // One that is to be replaced where it is has to go first.
        going.extend(useless);
    } else if useless.peek().is_some() && there == block.units_needed() && !has_place() {
        going.extend(useless.take(1));
    }
    going.into_iter().map(|replica| (replica.storage, replica.index)).collect()
}

/// Of a unit that is there more than once, one stays: where least else of the group is.
fn drop_twins(
    block: &Block,
    kept: &mut Vec<Replica>,
    going: &mut Vec<Replica>,
    rack: &impl Fn(DatanodeHandle) -> String,
    is_moved: &impl Fn(&Replica) -> bool,
) {
    loop {
        let mut on_node: BTreeMap<DatanodeHandle, usize> = BTreeMap::new();
        for replica in kept.iter() {
            *on_node.entry(replica.datanode).or_default() += 1;
        }
        let twins = |index| kept.iter().filter(|replica| replica.index == index).count();
        let is_needless =
            |replica: &Replica| !block.units().contains(replica.index.unit()) || twins(replica.index) > 1;
        let worst = (0..kept.len())
            .filter(|at| is_needless(&kept[*at]))
            .max_by_key(|at| (on_node[&kept[*at].datanode], kept[*at].datanode, kept[*at].storage));
        let Some(worst) = worst else { return };
        let unit = kept[worst].index;
        let at = moved_or(worst, kept, rack, &|replica: &Replica| replica.index == unit && is_moved(replica));
        going.push(kept.remove(at));
    }
}

/// The place of the replica that is to go as it was moved, if the others are then on no fewer DataNodes and racks than without the
/// usual one; else of the usual one.
fn moved_or(
    usual: usize,
    kept: &[Replica],
    rack: &impl Fn(DatanodeHandle) -> String,
    is_moved: &impl Fn(&Replica) -> bool,
) -> usize {
    let Some(moved) = kept.iter().position(is_moved) else { return usual };
    let spread_without = |gone: usize| {
        let others = || kept.iter().enumerate().filter(|(at, _)| *at != gone).map(|(_, replica)| replica);
        let nodes: BTreeSet<DatanodeHandle> = others().map(|replica| replica.datanode).collect();
        let racks: BTreeSet<String> = others().map(|replica| rack(replica.datanode)).collect();
        (nodes.len(), racks.len())
    };
    let (with_moved_gone, with_usual_gone) = (spread_without(moved), spread_without(usual));
    let is_no_worse = with_moved_gone.0 >= with_usual_gone.0 && with_moved_gone.1 >= with_usual_gone.1;
    if is_no_worse { moved } else { usual }
}

/// The place of the replica whose rack has most of them.
fn most_crowded(kept: &[Replica], rack: &impl Fn(DatanodeHandle) -> String) -> usize {
    let racks: Vec<String> = kept.iter().map(|replica| rack(replica.datanode)).collect();
    let twins =
        |at: &usize| (kept.iter().filter(|other| other.datanode == kept[*at].datanode).count() > 1) as usize;
    let on_rack = |at: &usize| racks.iter().filter(|other| **other == racks[*at]).count();
    (0..kept.len()).max_by_key(|at| (twins(at), on_rack(at), kept[*at].storage)).expect("there are too many")
}
