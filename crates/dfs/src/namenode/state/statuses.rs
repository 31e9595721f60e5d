//! Inodes and blocks as clients see them.

use super::State;
use crate::ids::{BlockIndex, DatanodeHandle, StorageHandle};
use crate::namenode::Context;
use crate::namenode::blocks::{Block, Fit, Replica, Target};
use crate::namenode::namespace::{Content, Inode, Mode};
use crate::policy::Policy;
use crate::wire::proto::shared::{ExtendedBlock, FileStatus, LocatedBlock, LocatedBlocks, Permission, Token};

/// The kinds of inodes in a status.
const KIND_DIRECTORY: i32 = 1;
const KIND_FILE: i32 = 2;
/// Flag of a status: the file or directory has an erasure coding policy.
const FLAG_ERASURE_CODED: u32 = 4;
/// Flag of a status: there are entries of an ACL beside the mode.
const FLAG_ACL: u32 = 1;
/// The same in the number of a mode, where older clients look for it.
const MODE_ACL: u32 = 1 << 12;

/// The mode in a status.
pub(super) fn permission(mode: Mode, has_acl: bool) -> Permission {
    Permission { mode: mode.bits() | if has_acl { MODE_ACL } else { 0 } }
}

/// The flags of a status.
pub(super) fn flags(has_acl: bool, policy: Option<&Policy>) -> u32 {
    let acl = if has_acl { FLAG_ACL } else { 0 };
    acl | if policy.is_some() { FLAG_ERASURE_CODED } else { 0 }
}

/// A storage that a reader or a writer is sent to, for a unit of a group or a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Location {
    /// The unit; 0 for a replica.
    pub index: BlockIndex,
    /// The DataNode.
    pub datanode: DatanodeHandle,
    /// The storage of it.
    pub storage: StorageHandle,
}

impl State {
    /// The status of an inode, called `name` in a listing and nothing otherwise.
    pub(super) fn status(&self, inode: &Inode, name: &[u8]) -> FileStatus {
        let owners = &self.tree.owners;
        let policy = self.policy_of(inode.id);
        let has_acl = self.has_acl(inode);
        let status = FileStatus {
            path: bytes::Bytes::copy_from_slice(name),
            permission: permission(inode.mode, has_acl),
            owner: owners.name(inode.owner).to_owned(),
            group: owners.name(inode.group).to_owned(),
            modified_ms: inode.modified_ms,
            accessed_ms: inode.accessed_ms,
            id: Some(inode.id.0),
            storage_policy: Some(self.tree.storage_policy_of(inode.id).into()),
            policy: policy.map(Policy::to_reference),
            flags: Some(flags(has_acl, policy)),
            ..FileStatus::default()
        };
        match &inode.content {
            Content::Directory(directory) => FileStatus {
                kind: KIND_DIRECTORY,
                length: 0,
                replication: Some(0),
                block_size: Some(0),
                children: Some(i32::try_from(directory.children.len()).unwrap_or(i32::MAX)),
                ..status
            },
            Content::File(file) => FileStatus {
                kind: KIND_FILE,
                length: self.file_counts(inode).bytes,
                replication: Some(file.replication.into()),
                block_size: Some(file.block_size),
                children: Some(0),
                ..status
            },
        }
    }

    /// A block as the data transfer names it.
    pub(super) fn extended(&self, block: &Block) -> ExtendedBlock {
        ExtendedBlock {
            pool: self.pool.clone(),
            id: block.id.to_wire(),
            stamp: block.stamp.0,
            length: Some(block.length),
        }
    }

    /// A block with the storages that a reader or a writer is sent to.
    pub(super) fn located(
        &self,
        block: &Block,
        offset: u64,
        places: &[Location],
        context: &Context<'_>,
    ) -> LocatedBlock {
        let storages = || places.iter().map(|place| self.datanodes.storage(place.storage));
        let info = |datanode| self.datanodes.info(datanode, context.now.wall_ms, context.now.steady_ms);
        let is_striped = block.geometry().is_some();
        LocatedBlock {
            block: self.extended(block),
            offset,
            locations: places.iter().map(|place| info(place.datanode)).collect(),
            corrupt: false,
            token: Token::default(),
            is_cached: vec![false; places.len()],
            storage_types: storages().map(|storage| storage.kind).collect(),
            storage_ids: storages().map(|storage| storage.uuid.clone()).collect(),
            indices: is_striped.then(|| places.iter().map(|place| place.index.0).collect()),
            tokens: if is_striped { vec![Token::default(); places.len()] } else { Vec::new() },
        }
    }

    /// A block for readers: the replicas that can be read on DataNodes that are there, the nearest first. If all replicas are
    /// damaged, the damaged ones, marked so.
    pub(super) fn readable(&self, block: &Block, offset: u64, context: &mut Context<'_>) -> LocatedBlock {
        let is_there = |node| self.is_live(node, context);
        let of_fit = |fit: Fit| {
            let fitting = block.replicas().filter(move |replica| block.fit(replica) == fit);
            let place = |replica: Replica| {
                let Replica { index, datanode, storage, .. } = replica;
                Location { index, datanode, storage }
            };
            fitting.map(place).filter(|place| is_there(place.datanode))
        };
        let mut places: Vec<_> = of_fit(Fit::Good).collect();
        if !block.is_committed {
            let written = self.written_to(block).into_iter().filter(|place| is_there(place.datanode));
            let written: Vec<_> = of_fit(Fit::Unfinished).chain(written).collect();
            for place in written {
                if !places.iter().any(|known| (known.index, known.datanode) == (place.index, place.datanode))
                {
                    places.push(place);
                }
            }
        }
        let is_lost = block.is_committed && !block.is_readable(|replica| is_there(replica.datanode));
        let is_corrupt = is_lost && of_fit(Fit::Corrupt).next().is_some();
        if is_corrupt && block.geometry().is_none() {
            places = of_fit(Fit::Corrupt).collect();
        }
        self.sort_by_distance(&mut places, context);
        // A client takes the first of those that have the same unit.
        places.sort_by_key(|place| place.index);
        LocatedBlock { corrupt: is_corrupt, ..self.located(block, offset, &places, context) }
    }

    /// Where the writer of a block was sent to.
    pub(super) fn written_to(&self, block: &Block) -> Vec<Location> {
        let place = |target: &Target| Location {
            index: target.index,
            datanode: self.datanodes.storage(target.storage).datanode,
            storage: target.storage,
        };
        block.targets().iter().map(place).collect()
    }

    /// Replicas on the reader's host first, then those on its rack, then the others; equals in any order.
    pub(super) fn sort_by_distance(&self, places: &mut [Location], context: &mut Context<'_>) {
        context.random.shuffle(places);
        // For want of others only.
        places.sort_by_key(|place| self.datanodes.node(place.datanode).admin.is_leaving());
        let Some(ip) = context.ip else { return };
        let rack = self.datanodes.iter().find(|node| node.ip == ip).map(|node| node.rack.as_str());
        places.sort_by_key(|place| {
            let node = self.datanodes.node(place.datanode);
            match () {
                () if node.admin.is_leaving() => 3,
                () if node.ip == ip => 0,
                () if Some(node.rack.as_str()) == rack => 1,
                () => 2,
            }
        });
    }

    /// The blocks of a file that a range touches, for readers.
    pub(super) fn located_blocks(
        &self,
        inode: &Inode,
        offset: u64,
        length: u64,
        context: &mut Context<'_>,
    ) -> LocatedBlocks {
        let file = inode.file().expect("only files have blocks");
        let end = offset.saturating_add(length);
        let (mut at, mut blocks, mut last) = (0, Vec::new(), None);
        for (number, id) in file.layout.blocks().iter().enumerate() {
            let block = self.blocks.block(*id);
            let is_last = number + 1 == file.layout.blocks().len();
            let is_wanted = block.is_length_final() && at < end && at + block.length > offset;
            if is_wanted || is_last {
                let located = self.readable(block, at, context);
                if is_last {
                    last = Some((located.clone(), block.is_length_final()));
                }
                if is_wanted {
                    blocks.push(located);
                }
            }
            at += if block.is_length_final() { block.length } else { 0 };
        }
        LocatedBlocks {
            file_length: at,
            blocks,
            under_construction: self.tree.holder(inode.id).is_some(),
            is_last_complete: last.as_ref().is_none_or(|(_, is_final)| *is_final),
            last_block: last.map(|(located, _)| located),
            policy: self.policy_of(inode.id).map(Policy::to_reference),
        }
    }
}
