//! Calls of a client that writes a file.

use std::collections::BTreeSet;

use super::State;
use super::quotas::Growth;
use crate::ids::{BlockId, BlockIndex, GenerationStamp, InodeId};
use crate::namenode::blocks::{Block, Target};
use crate::namenode::namespace::{File, Inode, Path};
use crate::namenode::{Context, placement, recovery};
use crate::storage_policy::StoragePolicy;
use crate::wire::Refusal;
use crate::wire::exception::Exception;
use crate::wire::proto::journal::{
    AddBlock, Block as Kept, CloseFile, RemoveBlock, SetLastLength, record::Change,
};
use crate::wire::proto::namenode::{
    AbandonBlockRequest, AddBlockRequest, AddBlockResponse, BoolResponse, CompleteRequest, Empty,
    FsyncRequest, RenewLeaseRequest,
};
use crate::wire::proto::shared::{ExtendedBlock, LocatedBlock};

/// Blocks of a file, as in HDFS (`dfs.namenode.fs-limits.max-blocks-per-file`).
pub(super) const BLOCKS_PER_FILE_MAX: usize = 10_000;

impl State {
    pub(super) fn add_block(
        &mut self,
        context: &mut Context<'_>,
        request: &AddBlockRequest,
    ) -> Result<AddBlockResponse, Refusal> {
        let id = self.open_file(&request.src, request.file_id, &request.client_name, context)?;
        let file = self.file_of(id);
        let (blocks, policy) = (file.layout.blocks(), self.policy_of(id));
        let count = blocks.len();
        let (last, before_last) = (blocks.last().copied(), count.checked_sub(2).map(|at| blocks[at]));
        let previous = request.previous.as_ref().map(|block| BlockId::from_wire(block.id));
        // One that appends behind a full block names none.
        let is_behind = |id: Option<BlockId>| previous == id || (previous.is_none() && self.is_full(id));
        if !is_behind(last) {
            let given = self.check_given_again(&request.src, previous, last, is_behind(before_last))?;
            // Where it was sent is known until the NameNode starts again.
            if self.blocks.block(given).targets().is_empty() {
                let targets = self.choose_targets(request, id, context)?;
                self.blocks.set_targets(given, targets, true);
            }
            let offset = self.file_counts(self.tree.inode(id)).bytes;
            return Ok(AddBlockResponse { block: self.to_write(given, offset, context) });
        }
        if count >= BLOCKS_PER_FILE_MAX {
            let message =
                format!("File has reached the limit on maximum number of blocks ({BLOCKS_PER_FILE_MAX})");
            return Err(Refusal::new(Exception::Io, message));
        }
        // All but the last one have to be somewhere: a client that only adds blocks would outrun the DataNodes.
        if let Some(unstored) =
            blocks[..count.saturating_sub(1)].iter().find(|id| !self.is_stored(**id, context))
        {
            let message = format!("Not replicated yet: {} ({unstored})", request.src);
            return Err(Refusal::new(Exception::NotReplicatedYet, message));
        }
        let previous = match &request.previous {
            Some(named) => Some(self.check_commit(named)?),
            None => None,
        };
        let offset = self.file_counts(self.tree.inode(id)).bytes
            + previous
                .as_ref()
                .map_or(0, |previous| previous.length - self.blocks.block(BlockId(previous.id)).length);
        self.check_block_quota(id, previous.as_ref())?;
        let targets = self.choose_targets(request, id, context)?;
        let (next, next_group, stamp) = self.blocks.counters();
        let next = if policy.is_some() { next_group } else { next };
        let block = Kept { id: next.0, stamp: stamp.0 + 1, ..Kept::default() };
        self.leases.renew(&request.client_name, context.now.steady_ms);
        self.commit(context, Change::AddBlock(AddBlock { file: id.0, previous, block: Some(block) }));
        self.blocks.set_targets(next, targets, true);
        Ok(AddBlockResponse { block: self.to_write(next, offset, context) })
    }

    /// Checks that the quotas above a file have room for one more block, once the one before it has this end.
    fn check_block_quota(&self, id: InodeId, previous: Option<&Kept>) -> Result<(), Refusal> {
        let file = self.file_of(id);
        let full = self.full_block_space(file, self.tree.inode(id).policy);
        let freed =
            previous.filter(|kept| !self.blocks.block(BlockId(kept.id)).is_committed).map_or(0, |kept| {
                let block = self.blocks.block(BlockId(kept.id));
                let copies = || kept.length * u64::from(file.replication);
                let space = block.geometry().map_or_else(copies, |geometry| geometry.space(kept.length));
                full.saturating_sub(space)
            });
        let growth = Growth { space: full.saturating_sub(freed), ..Growth::default() };
        self.check_quota(self.tree.inode(id).parent, growth)
    }

    /// True for a block that has an end and as many bytes as a block of its file may have.
    fn is_full(&self, id: Option<BlockId>) -> bool {
        id.map(|id| self.blocks.block(id))
            .is_some_and(|block| block.is_committed && block.length >= self.block_length_max(block))
    }

    /// The block that a client was given and asks for again, because the answer was lost: it names the one before.
    fn check_given_again(
        &self,
        path: &str,
        previous: Option<BlockId>,
        last: Option<BlockId>,
        is_behind_other: bool,
    ) -> Result<BlockId, Refusal> {
        let given = last.map(|last| self.blocks.block(last));
        let given = given.filter(|block| !block.is_committed && block.length == 0 && is_behind_other);
        given.map(|block| block.id).ok_or_else(|| {
            let named = |id: Option<BlockId>| id.map_or("none".to_owned(), |id| id.to_string());
            let (previous, last) = (named(previous), named(last));
            let message = format!(
                "Cannot allocate block in {path}: passed 'previous' block {previous} does not match actual last \
                 block in file {last}"
            );
            Refusal::new(Exception::Io, message)
        })
    }

    fn to_write(&self, id: BlockId, offset: u64, context: &Context<'_>) -> LocatedBlock {
        let block = self.blocks.block(id);
        self.located(block, offset, &self.written_to(block), context)
    }

    fn choose_targets(
        &self,
        request: &AddBlockRequest,
        file: InodeId,
        context: &mut Context<'_>,
    ) -> Result<Vec<Target>, Refusal> {
        let id = file;
        let (policy, file) = (self.policy_of(id), self.file_of(id));
        let (replication, block_size) = (file.replication, file.block_size);
        if let Some(kept) =
            StoragePolicy::of(self.tree.storage_policy_of(id)).filter(|policy| !policy.allows_disks())
        {
            let message = format!(
                "File {} could only be written to 0 of the 1 minReplication nodes: its storage policy {} allows no disk, and \
                 there is nothing else.",
                request.src, kept.name
            );
            return Err(Refusal::new(Exception::Io, message));
        }
        let excluded: BTreeSet<_> =
            request.excluded.iter().filter_map(|node| self.datanodes.by_uuid(&node.id.uuid)).collect();
        let (steady_ms, silent_ms_max) = (context.now.steady_ms, self.rules.silent_ms_max);
        let mut candidates = self.datanodes.candidates(block_size, steady_ms, silent_ms_max);
        let running = candidates.len();
        candidates.retain(|candidate| !excluded.contains(&candidate.datanode));
        // A unit each, or two where there are too few nodes: more than none. With fewer nodes than data units that would
        // promise a safety that is not there.
        let (needed, targets, what) = match policy {
            Some(policy) => {
                let targets =
                    placement::choose_striped(&candidates, &[], policy.units(), |_| false, context.random);
                (policy.data_units(), targets, format!("required nodes for {}", policy.name))
            }
            None => {
                let count = replication.into();
                let targets = placement::choose(&candidates, count, context.ip, context.random);
                (1, targets, "minReplication nodes".to_owned())
            }
        };
        let possible = candidates.len();
        if possible < needed {
            let message = format!(
                "File {} could only be written to {possible} of the {needed} {what}. There are {running} datanode(s) \
                 running with room for a block of {block_size} bytes and {} node(s) are excluded in this operation.",
                request.src,
                excluded.len()
            );
            return Err(Refusal::new(Exception::TooFewDatanodes, message));
        }
        let is_striped = policy.is_some();
        let index = |at: u8| BlockIndex(if is_striped { at } else { 0 });
        Ok((0..).zip(targets).map(|(at, storage)| Target { index: index(at), storage }).collect())
    }

    pub(super) fn abandon_block(
        &mut self,
        context: &mut Context<'_>,
        request: &AbandonBlockRequest,
    ) -> Result<Empty, Refusal> {
        let id = self.open_file(&request.src, request.file_id, &request.holder, context)?;
        let block = BlockId::from_wire(request.block.id);
        let last = self.file_of(id).layout.blocks().last().copied();
        // It may have gone already: the answer to the first call was lost.
        if last == Some(block) && !self.blocks.block(block).is_committed {
            self.commit(context, Change::RemoveBlock(RemoveBlock { file: id.0, block: block.0 }));
        }
        Ok(Empty {})
    }

    pub(super) fn complete(
        &mut self,
        context: &mut Context<'_>,
        request: &CompleteRequest,
    ) -> Result<BoolResponse, Refusal> {
        let inode = self.named_file(&request.src, request.file_id, context)?;
        let (id, file) = (inode.id, inode.file().expect("it is one"));
        let last = file.layout.blocks().last().copied();
        let named = request.last.as_ref();
        if self.tree.holder(id).is_none() {
            // The answer to the first call was lost.
            let is_same = match (named, last.map(|last| self.blocks.block(last))) {
                (Some(named), Some(block)) => is_named(block, named),
                (None, None) => true,
                _ => false,
            };
            if is_same {
                return Ok(BoolResponse { result: true });
            }
        }
        self.check_holder(inode, &request.src, &request.client_name)?;
        let kept = match named {
            Some(named) if Some(BlockId::from_wire(named.id)) == last => Some(self.check_commit(named)?),
            None if last.is_none_or(|last| self.blocks.block(last).is_committed) => None,
            _ => {
                let message =
                    format!("the last block of {} is another one than the client says", request.src);
                return Err(Refusal::new(Exception::Io, message));
            }
        };
        let others = file.layout.blocks().iter().filter(|id| Some(**id) != last || kept.is_none());
        let is_stored = others.into_iter().all(|id| self.is_stored(*id, context))
            && kept.as_ref().is_none_or(|kept| self.would_be_stored(kept, context));
        if !is_stored {
            return Ok(BoolResponse { result: false });
        }
        self.commit(context, Change::CloseFile(CloseFile { file: id.0, last: kept }));
        Ok(BoolResponse { result: true })
    }

    pub(super) fn fsync(
        &mut self,
        context: &mut Context<'_>,
        request: &FsyncRequest,
    ) -> Result<Empty, Refusal> {
        let id = self.open_file(&request.src, request.file_id, &request.client_name, context)?;
        let last = self.file_of(id).layout.blocks().last().map(|last| self.blocks.block(*last));
        if let Some(last) = last.filter(|last| !last.is_committed) {
            // The client calls with the first flush of each block, with its length only if it is asked to.
            let length = u64::try_from(request.last_block_length()).unwrap_or(0).max(last.length);
            self.check_length(last, length)?;
            if last.is_flushed() && length == last.length {
                return Ok(Empty {});
            }
            self.commit(context, Change::SetLastLength(SetLastLength { file: id.0, length }));
        }
        Ok(Empty {})
    }

    pub(super) fn renew_lease(
        &mut self,
        context: &mut Context<'_>,
        request: &RenewLeaseRequest,
    ) -> Result<Empty, Refusal> {
        self.leases.renew(&request.client_name, context.now.steady_ms);
        self.leases.note_host(&request.client_name, context.ip);
        Ok(Empty {})
    }

    /// Checks the stamp and length that a writer says a block has; as the journal keeps it.
    fn check_commit(&self, named: &ExtendedBlock) -> Result<Kept, Refusal> {
        let block = self.blocks.block(BlockId::from_wire(named.id));
        let length = named.length();
        self.check_length(block, length)?;
        if named.stamp != block.stamp.0
            || (block.is_committed && length != block.length)
            || length < block.length
        {
            let message = format!(
                "{} has stamp {} and at least {} bytes, and the client says stamp {} and {length} bytes",
                block.id, block.stamp.0, block.length, named.stamp
            );
            return Err(Refusal::new(Exception::Io, message));
        }
        Ok(Kept { id: block.id.0, stamp: named.stamp, length, is_committed: true, ..Kept::default() })
    }

    /// Checks that a block may have so many bytes.
    pub(super) fn check_length(&self, block: &Block, length: u64) -> Result<(), Refusal> {
        let length_max = self.block_length_max(block);
        if length > length_max {
            let message =
                format!("{} has at most {length_max} bytes, and the client says {length}", block.id);
            return Err(Refusal::new(Exception::Io, message));
        }
        Ok(())
    }

    fn block_length_max(&self, block: &Block) -> u64 {
        let data_units = block.geometry().map_or(1, |geometry| geometry.schema().data_units()) as u64;
        self.file_of(block.file).block_size.saturating_mul(data_units)
    }

    /// True if a committed block can be read from DataNodes that are there.
    fn is_stored(&self, id: BlockId, context: &Context<'_>) -> bool {
        let block = self.blocks.block(id);
        block.is_committed && block.is_readable(|replica| self.is_live(replica.datanode, context))
    }

    /// True if a block, committed like this, could be read from DataNodes that are there.
    fn would_be_stored(&self, kept: &Kept, context: &Context<'_>) -> bool {
        let (stamp, length) = (GenerationStamp(kept.stamp), kept.length);
        let block = self.blocks.block(BlockId(kept.id)).committed_as(stamp, length);
        block.is_readable(|replica| self.is_live(replica.datanode, context))
    }

    pub(super) fn file_of(&self, id: InodeId) -> &File {
        self.tree.inode(id).file().expect("it was found to be a file")
    }

    /// The file that a writer means: by its number if it has one, as its directory may have been renamed, else by its path.
    fn named_file(&self, path: &str, id: Option<u64>, context: &Context<'_>) -> Result<&Inode, Refusal> {
        let inode = match id.filter(|id| *id != 0) {
            Some(id) => self.tree.get(InodeId(id)).ok_or_else(|| {
                let message =
                    format!("File does not exist: {path} (inode {id}) Holder does not have any open files.");
                Refusal::new(Exception::FileNotFound, message)
            })?,
            None => self.existing(&Path::parse(path)?, context.user)?,
        };
        if inode.is_directory() {
            let message = format!("INode is not a regular file: {path}");
            return Err(Refusal::new(Exception::LeaseExpired, message));
        }
        Ok(inode)
    }

    pub(super) fn open_file(
        &self,
        path: &str,
        id: Option<u64>,
        client: &str,
        context: &Context<'_>,
    ) -> Result<InodeId, Refusal> {
        let inode = self.named_file(path, id, context)?;
        self.check_holder(inode, path, client)?;
        Ok(inode.id)
    }

    pub(super) fn check_holder(&self, inode: &Inode, path: &str, client: &str) -> Result<(), Refusal> {
        let holder = self.tree.holder(inode.id);
        let id = inode.id.0;
        match holder {
            Some(holder) if **holder == *client && client != recovery::HOLDER => Ok(()),
            Some(holder) => {
                let message =
                    format!("Client (={client}) is not the lease owner (={holder}): {path} (inode {id})");
                Err(Refusal::new(Exception::LeaseExpired, message))
            }
            None => {
                let message = format!("File is not open for writing: {path} (inode {id}) Holder {client}");
                Err(Refusal::new(Exception::LeaseExpired, message))
            }
        }
    }
}

fn is_named(block: &Block, named: &ExtendedBlock) -> bool {
    block.id.to_wire() == named.id && block.stamp.0 == named.stamp
}
