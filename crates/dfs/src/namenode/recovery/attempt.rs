//! One attempt to end a block whose writer is gone: first all are asked what they have, then those that can are told how long it is.

use super::verdict::{Answer, Said};
use crate::ids::{BlockId, DatanodeHandle, GenerationStamp, InodeId};
use crate::namenode::blocks::{Block, Replica, ReplicaState};
use crate::namenode::repair::Place;
use crate::wire::proto::cluster::{Held, Recovery};

/// Milliseconds after which a DataNode that does not answer counts as silent: it reads the whole replica, which may take some seconds.
const ANSWER_MS_MAX: u64 = 20_000;

/// An attempt. It has a stamp of its own, which the replicas get that it ends: those that it did not reach are known by that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The file.
    pub file: InodeId,
    /// The last block of the file, or its block group.
    pub block: BlockId,
    /// The stamp of the attempt.
    pub stamp: GenerationStamp,
    /// Number of the record that gave it the stamp: nobody hears of it before that is on disk.
    pub after: u64,
    /// When its phase began.
    pub since_ms: u64,
    /// The places that are asked.
    pub asked: Vec<Asked>,
    /// The step that it waits for.
    pub phase: Phase,
}

/// One that may have a replica or a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The place where it may be.
    pub place: Place,
    /// The answer of the DataNode, as far as there is one.
    pub said: Option<Said>,
}

/// The step that an attempt waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// DataNodes end the writer and say what they have.
    Asking,
    /// Those that can end their replicas with what the block has of them.
    Ending {
        /// Bytes of the block, or of the data of the group.
        length: u64,
    },
}

impl Attempt {
    /// Takes what a DataNode says.
    pub fn hear(&mut self, node: DatanodeHandle, held: &Held) {
        let index = BlockId(held.id).index();
        let is_meant = |asked: &&mut Asked| asked.place.datanode == node && asked.place.index == index;
        if GenerationStamp(held.stamp) != self.stamp || self.phase != Phase::Asking {
            return; // of an attempt before this one
        }
        for asked in self.asked.iter_mut().filter(is_meant) {
            let stamp = GenerationStamp(held.replica_stamp);
            let has = Said::Has { stamp, length: held.length, is_from_disk: held.is_from_disk };
            asked.said = Some(if held.has_replica { has } else { Said::Nothing });
        }
    }

    /// The answers of all. One that is not live, or takes too long, is silent.
    pub fn answers(&self, now_ms: u64, is_live: impl Fn(DatanodeHandle) -> bool) -> Vec<Answer> {
        let is_late = now_ms.saturating_sub(self.since_ms) > ANSWER_MS_MAX;
        let answer = |asked: &Asked| {
            let is_silent = is_late || !is_live(asked.place.datanode);
            let open = if is_silent { Said::Silent } else { Said::Asked };
            Answer { index: asked.place.index, said: asked.said.unwrap_or(open) }
        };
        self.asked.iter().map(answer).collect()
    }

    /// Goes on to tell those that can how long the block is.
    pub fn end(&mut self, length: u64, now_ms: u64) {
        (self.phase, self.since_ms) = (Phase::Ending { length }, now_ms);
    }

    /// The orders for a DataNode, which it is told until it has done it.
    pub fn orders(&self, node: DatanodeHandle, block: &Block) -> Vec<Recovery> {
        let order = |asked: &Asked| {
            let id = block.id.internal(asked.place.index).0;
            let stamp = self.stamp.0;
            match self.phase {
                Phase::Asking => Some(Recovery { id, stamp, length: None }),
                Phase::Ending { length } => {
                    let can = self.answer(asked).can_keep(block, length);
                    can.then(|| Recovery { id, stamp, length: Some(unit_length(block, length, asked)) })
                }
            }
        };
        let of_it = self.asked.iter().filter(|asked| asked.place.datanode == node);
        of_it.filter_map(order).collect()
    }

    /// True if no more replicas of the ended block are to be expected.
    pub fn is_over(&self, block: &Block, now_ms: u64, is_live: impl Fn(DatanodeHandle) -> bool) -> bool {
        let Phase::Ending { length } = self.phase else { return false };
        let is_late = now_ms.saturating_sub(self.since_ms) > ANSWER_MS_MAX;
        let is_done = |asked: &Asked| {
            let bytes = unit_length(block, length, asked);
            block.replicas().any(|replica: Replica| {
                (replica.storage, replica.index) == (asked.place.storage, asked.place.index)
                    && (replica.stamp, replica.length) == (self.stamp, bytes)
                    && replica.state == ReplicaState::Finalized
            })
        };
        let mut keepers = self.asked.iter().filter(|asked| self.answer(asked).can_keep(block, length));
        keepers.all(|asked| is_late || !is_live(asked.place.datanode) || is_done(asked))
    }

    fn answer(&self, asked: &Asked) -> Answer {
        Answer { index: asked.place.index, said: asked.said.unwrap_or(Said::Silent) }
    }
}

fn unit_length(block: &Block, length: u64, asked: &Asked) -> u64 {
    block.geometry().map_or(length, |geometry| geometry.unit_len(length, asked.place.index.unit()))
}
