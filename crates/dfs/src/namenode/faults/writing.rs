//! What clients write into blocks, and what becomes of that on nodes that fail.

use std::collections::BTreeSet;

use super::clients::{BLOCK_MAX, Place, UNIT_MAX, Work};
use super::mending::{geometry, unit};
use super::world::World;
use crate::wire::proto::shared::{ExtendedBlock, LocatedBlock};

impl World {
    /// A client writes a part of a block, and perhaps has that kept; then it may be gone. False if it goes on at once.
    fn write_part(&mut self, at: usize, located: &LocatedBlock) -> bool {
        let (id, stamp, before) =
            (located.block.id.cast_signed(), located.block.stamp, located.block.length());
        let numbers =
            located.locations.iter().map(|node| node.id.uuid[3..].parse::<usize>().expect("a number"));
        let numbers: Vec<usize> = numbers.collect();
        let indices = located.indices.as_deref().map_or(vec![0; numbers.len()], <[u8]>::to_vec);
        let is_broken = numbers.iter().any(|node| !self.nodes[*node].is_up || self.nodes[*node].is_full);
        let length_max = if id < 0 { 3 * UNIT_MAX } else { BLOCK_MAX };
        let sent = self.random.u64(before..=length_max);
        let can_flush = !is_broken && id > 0 && sent > 0;
        let flushed = if can_flush && self.random.bool() { self.random.u64(before.max(1)..=sent) } else { 0 };
        let dies = self.random.u8(..3) > 0;
        if flushed == 0 && !dies {
            return false;
        }
        let promised = self.clients[at].promised.max(flushed);
        for (index, number) in indices.into_iter().zip(numbers) {
            let node = &mut self.nodes[number];
            // Those of a pipeline that goes on had its stamp and bytes before the NameNode was told, whatever has happened since.
            let has_it = before > 0 || (node.is_up && !node.is_full && (!is_broken || self.random.bool()));
            let has = self.random.u64(before.max(promised)..=sent.max(promised));
            let (unit, length) = match geometry(id) {
                // Of a stripe that is not whole there is no parity yet.
                Some(geometry) if usize::from(index) >= geometry.schema().data_units() => {
                    let stripe = geometry.cell_size() * geometry.schema().data_units() as u64;
                    unit(id, has / stripe * stripe, index)
                }
                _ => unit(id, has, index),
            };
            if has_it && sent > 0 && !node.damaged.contains(&unit) {
                node.leave(unit, stamp, length);
                if !node.is_up {
                    node.outbox.clear();
                    node.from_disk.insert(unit);
                }
            }
        }
        self.stamps.insert(id, stamp);
        let block = ExtendedBlock { length: Some(sent.max(promised)), ..located.block.clone() };
        let Work::Adding { name, file, mut blocks, .. } = self.clients[at].work.clone() else {
            unreachable!("it was adding a block")
        };
        blocks.push(ExtendedBlock { length: Some(before), ..block.clone() });
        self.clients[at].work = if flushed > 0 {
            let located = Box::new(LocatedBlock { block, ..located.clone() });
            Work::Flushing { name, file, blocks, located, flushed: promised, dies }
        } else {
            self.tally.writers_gone += 1;
            let (sent, is_asked_for) = (sent.max(promised), self.random.bool());
            Work::Gone { name, blocks, flushed: promised, sent, is_asked_for }
        };
        true
    }

    /// A writer is gone while it brings the nodes that are left to a new stamp.
    pub fn die_with_new_stamp(&mut self, at: usize) {
        let client = &mut self.clients[at];
        let Work::Updating { name, blocks, left, stamp, .. } = client.work.clone() else {
            unreachable!("it has a stamp")
        };
        let last = blocks.last().expect("it writes one");
        let (id, length, promised) = (last.id.cast_signed(), last.length(), client.promised);
        let is_asked_for = stamp.is_multiple_of(2);
        client.work = Work::Gone { name, blocks, flushed: promised, sent: length, is_asked_for };
        self.tally.writers_gone += 1;
        for (index, node) in left {
            let (unit, bytes) = unit(id, length, index);
            let node = &mut self.nodes[node];
            if let Some(has) = node.has(unit).filter(|_| node.is_up && self.random.bool()) {
                node.leave(unit, stamp, has.1.min(bytes));
            }
        }
    }

    /// A client writes a block to the nodes that it was given: if one is gone, those before it may have it or not.
    pub fn write(&mut self, at: usize, located: &LocatedBlock) {
        if located.block.length() == 0 {
            self.clients[at].promised = 0;
        }
        if self.has_faults && self.random.u8(..5) == 0 && self.write_part(at, located) {
            return;
        }
        let targets =
            located.locations.iter().map(|node| node.id.uuid[3..].parse::<usize>().expect("a number"));
        let targets: Vec<usize> = targets.collect();
        let different: BTreeSet<usize> = targets.iter().copied().collect();
        let (id, stamp) = (located.block.id.cast_signed(), located.block.stamp);
        let indices = located.indices.as_deref().map_or(vec![0; targets.len()], <[u8]>::to_vec);
        let length = match geometry(id) {
            _ if located.block.length() > 0 => {
                self.tally.pipelines_resumed += 1;
                let before = located.block.length();
                if id > 0 { self.random.u64(before..=BLOCK_MAX) } else { before }
            }
            None => {
                assert_eq!(different.len(), targets.len(), "a node gets one replica");
                self.random.u64(1..BLOCK_MAX)
            }
            Some(geometry) => {
                assert_eq!(indices, [0, 1, 2, 3, 4]);
                assert!(different.len() >= 3, "fewer nodes than data units promise what they cannot keep");
                let cells = self.random.u64(0..=6);
                let length = cells * geometry.cell_size() + self.random.u64(0..geometry.cell_size());
                length.clamp(1, 3 * UNIT_MAX)
            }
        };
        let places: Vec<Place> = indices.into_iter().zip(targets).collect();
        // What is known to be damaged is not appended to.
        let takes = |(index, node): &Place| {
            let node = &self.nodes[*node];
            node.is_up && !node.is_full && !node.damaged.contains(&unit(id, length, *index).0)
        };
        let left: Vec<Place> = places.iter().copied().filter(takes).collect();
        let broken = places.iter().find(|place| !takes(place)).map(|(_, node)| *node);
        for (index, node) in places.iter().copied() {
            let node = &mut self.nodes[node];
            let (id, length) = unit(id, length, index);
            let is_damaged = node.damaged.contains(&id);
            let takes = node.is_up && !node.is_full && !is_damaged;
            if length > 0 && takes && (broken.is_none() || self.random.bool()) {
                node.finish(id, stamp, length);
            } else if length > 0 && located.block.length() > 0 && !is_damaged {
                // It was brought to the stamp before the NameNode was told.
                node.leave(id, stamp, length);
                if !node.is_up {
                    node.outbox.clear();
                    node.from_disk.insert(id);
                }
            }
        }
        self.stamps.insert(id, stamp);
        self.tally.pipelines_broken += u64::from(broken.is_some());
        let block = ExtendedBlock { length: Some(length), ..located.block.clone() };
        let mut left = left;
        // As the client: it needs as many units as hold data.
        let needed = if geometry(id).is_some() { 3 } else { 1 };
        if left.iter().map(|(_, node)| node).collect::<BTreeSet<_>>().len() < needed {
            left.clear();
        }
        self.clients[at].wrote(block, broken, left, &mut self.random);
    }
}
