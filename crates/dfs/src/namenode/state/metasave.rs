//! The text of `hdfs dfsadmin -metasave`: which blocks wait for a repair, are repaired, and are to be deleted.

use std::fmt::Write;

use super::State;
use crate::namenode::Now;
use crate::namenode::blocks::{Block, Fit, Replica};

/// Blocks of each list that the text names.
const NAMED_MAX: usize = 10_000;

impl State {
    /// What is being mended, in HDFS's words.
    pub fn metasave(&self, now: Now) -> String {
        let is_live = |node| self.datanodes.is_live(node, now.steady_ms, self.rules.silent_ms_max);
        let live = self.datanodes.iter().filter(|node| is_live(node.handle)).count();
        let datanodes = self.datanodes.iter().count();
        let (inodes, blocks) = (self.tree.count(), self.blocks.count());
        let mut text = format!(
            "{inodes} files and directories, {blocks} blocks = {} total filesystem objects\nLive Datanodes: {live}\nDead Datanodes: {}\n",
            inodes + blocks,
            datanodes - live
        );
        let _ = writeln!(text, "Metasave: Blocks waiting for reconstruction: {}", self.queue.count());
        self.name_blocks(self.queue.iter(), self.queue.count(), &mut text);
        let _ = writeln!(text, "Metasave: Blocks currently missing: {}", self.blocks.lacks().total().missing);
        let _ = writeln!(text, "Metasave: Blocks being reconstructed: {}", self.orders.count());
        self.name_blocks(self.orders.iter().map(|order| order.block), self.orders.count(), &mut text);
        let deleting = self.datanodes.iter().filter(|node| node.pending_deletions() > 0).count();
        let _ = writeln!(
            text,
            "Metasave: Blocks {} waiting deletion from {deleting} datanodes.",
            self.datanodes.pending_deletions()
        );
        let _ = writeln!(text, "Metasave: Number of datanodes: {datanodes}");
        for node in self.datanodes.iter() {
            let info = self.datanodes.info(node.handle, now.wall_ms, now.steady_ms);
            let state = if is_live(node.handle) { node.admin.words() } else { "DEAD" };
            let _ = writeln!(
                text,
                "{}:{} {} {state} {} {} {}",
                node.ip,
                node.transfer_port,
                node.rack,
                info.capacity.unwrap_or_default(),
                info.used.unwrap_or_default(),
                info.remaining.unwrap_or_default()
            );
        }
        text
    }

    fn name_blocks(&self, ids: impl Iterator<Item = crate::ids::BlockId>, count: usize, text: &mut String) {
        for block in ids.take(NAMED_MAX).filter_map(|id| self.blocks.get(id)) {
            text.push_str(&self.metasave_line(block));
        }
        if count > NAMED_MAX {
            let _ = writeln!(text, "… and {} more", count - NAMED_MAX);
        }
    }

    fn metasave_line(&self, block: &Block) -> String {
        let is_there = |replica: &Replica| !self.datanodes.storage(replica.storage).is_missed;
        let of_fit = |fits: &[Fit]| {
            block.replicas().filter(is_there).filter(|replica| fits.contains(&block.fit(replica))).count()
        };
        let is_leaving =
            |replica: &Replica| is_there(replica) && self.datanodes.node(replica.datanode).admin.is_leaving();
        let leaving = block.good().filter(is_leaving).count();
        let (live, corrupt, excess) =
            (of_fit(&[Fit::Good]) - leaving, of_fit(&[Fit::Corrupt, Fit::Stale]), of_fit(&[Fit::Leaving]));
        let missing = if block.is_readable(is_there) { "" } else { " MISSING" };
        let path = self.tree.path_of(block.file);
        format!(
            "{path}: {}_{}{missing} (replicas: live: {live} decommissioning and decommissioned: {leaving} corrupt: {corrupt} in excess: {excess} \
             maintenance mode: 0)\n",
            block.id, block.stamp.0
        )
    }
}
