//! Calls of a client that writes a file.

use std::collections::BTreeSet;

use super::State;
use crate::ids::{BlockId, GenerationStamp, InodeId, StorageHandle};
use crate::namenode::blocks::{Block, ReplicaState};
use crate::namenode::namespace::{File, Inode, Path};
use crate::namenode::{Context, placement};
use crate::wire::Refusal;
use crate::wire::exception::Exception;
use crate::wire::proto::hdfs::{ExtendedBlock, LocatedBlock};
use crate::wire::proto::journal::{
    AddBlock, Block as Kept, CloseFile, RemoveBlock, SetLastLength, record::Change,
};
use crate::wire::proto::namenode::{
    AbandonBlockRequest, AddBlockRequest, AddBlockResponse, BoolResponse, CompleteRequest, Empty,
    FsyncRequest, RenewLeaseRequest,
};

/// Blocks of a file, as in HDFS (`dfs.namenode.fs-limits.max-blocks-per-file`).
const BLOCKS_PER_FILE_MAX: usize = 10_000;

impl State {
    pub(super) fn add_block(
        &mut self,
        context: &mut Context<'_>,
        request: &AddBlockRequest,
    ) -> Result<AddBlockResponse, Refusal> {
        let id = self.open_file(&request.src, request.file_id, &request.client_name, context)?;
        let file = self.file_of(id);
        let (blocks, replication, block_size) = (&file.layout.blocks, file.replication, file.block_size);
        let count = blocks.len();
        let (last, before_last) = (blocks.last().copied(), count.checked_sub(2).map(|at| blocks[at]));
        let previous = request.previous.as_ref().map(|block| BlockId::from_wire(block.id));
        if previous != last {
            return self.block_again(&request.src, previous, last, before_last, context);
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
            - last.map_or(0, |last| self.blocks.block(last).length)
            + previous.as_ref().map_or(0, |previous| previous.length);
        let targets = self.choose_targets(request, replication, block_size, context)?;
        let (next, _, stamp) = self.blocks.counters();
        let block = Kept { id: next.0, stamp: stamp.0 + 1, length: 0, is_committed: false };
        self.leases.renew(&request.client_name, context.now.steady_ms);
        self.commit(context, Change::AddBlock(AddBlock { file: id.0, previous, block: Some(block) }));
        self.blocks.set_targets(next, targets);
        Ok(AddBlockResponse { block: self.to_write(next, offset, context) })
    }

    /// The answer to a client that asks again for the block that it was given, whose answer was lost.
    fn block_again(
        &mut self,
        path: &str,
        previous: Option<BlockId>,
        last: Option<BlockId>,
        before_last: Option<BlockId>,
        context: &Context<'_>,
    ) -> Result<AddBlockResponse, Refusal> {
        let given = last.map(|last| self.blocks.block(last));
        match given.filter(|block| !block.is_committed && block.length == 0 && previous == before_last) {
            Some(block) => {
                let id = block.id;
                let file = self.tree.inode(block.file);
                let offset = self.file_counts(file).bytes;
                Ok(AddBlockResponse { block: self.to_write(id, offset, context) })
            }
            None => {
                let named = |id: Option<BlockId>| id.map_or("none".to_owned(), |id| id.to_string());
                let (previous, last) = (named(previous), named(last));
                let message = format!(
                    "Cannot allocate block in {path}: passed 'previous' block {previous} does not match actual \
                     last block in file {last}"
                );
                Err(Refusal::new(Exception::Io, message))
            }
        }
    }

    fn to_write(&self, id: BlockId, offset: u64, context: &Context<'_>) -> LocatedBlock {
        let block = self.blocks.block(id);
        let place = |storage: &StorageHandle| (self.datanodes.storage(*storage).datanode, *storage);
        let places: Vec<_> = block.targets.iter().map(place).collect();
        self.located(block, offset, &places, context)
    }

    fn choose_targets(
        &self,
        request: &AddBlockRequest,
        replication: u16,
        block_size: u64,
        context: &mut Context<'_>,
    ) -> Result<Vec<StorageHandle>, Refusal> {
        let excluded: BTreeSet<_> =
            request.excluded.iter().filter_map(|node| self.datanodes.by_uuid(&node.id.uuid)).collect();
        let (steady_ms, silent_ms_max) = (context.now.steady_ms, self.rules.silent_ms_max);
        let mut candidates = self.datanodes.candidates(block_size, steady_ms, silent_ms_max);
        let running = candidates.len();
        candidates.retain(|candidate| !excluded.contains(&candidate.datanode));
        let targets = placement::choose(&candidates, replication.into(), context.ip, context.random);
        if targets.is_empty() {
            let message = format!(
                "File {} could only be written to 0 of the 1 minReplication nodes. There are {running} datanode(s) \
                 running with room for a block of {block_size} bytes and {} node(s) are excluded in this operation.",
                request.src,
                excluded.len()
            );
            return Err(Refusal::new(Exception::Io, message));
        }
        Ok(targets)
    }

    pub(super) fn abandon_block(
        &mut self,
        context: &mut Context<'_>,
        request: &AbandonBlockRequest,
    ) -> Result<Empty, Refusal> {
        let id = self.open_file(&request.src, request.file_id, &request.holder, context)?;
        let block = BlockId::from_wire(request.block.id);
        let last = self.file_of(id).layout.blocks.last().copied();
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
        let last = file.layout.blocks.last().copied();
        let named = request.last.as_ref();
        if file.holder.is_none() {
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
        let others = file.layout.blocks.iter().filter(|id| Some(**id) != last || kept.is_none());
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
        let last = self.file_of(id).layout.blocks.last().map(|last| self.blocks.block(*last));
        if let (Some(last), Ok(length)) = (last, u64::try_from(request.last_block_length()))
            && !last.is_committed
            && length > last.length
        {
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
        Ok(Empty {})
    }

    /// Checks the stamp and length that a writer says a block has; as the journal keeps it.
    fn check_commit(&self, named: &ExtendedBlock) -> Result<Kept, Refusal> {
        let block = self.blocks.block(BlockId::from_wire(named.id));
        let length = named.length();
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
        Ok(Kept { id: block.id.0, stamp: named.stamp, length, is_committed: true })
    }

    /// True if a committed block is on a DataNode that is there.
    fn is_stored(&self, id: BlockId, context: &Context<'_>) -> bool {
        let block = self.blocks.block(id);
        block.is_committed && block.good().any(|replica| self.is_live(replica.datanode, context))
    }

    /// True if a block, committed like this, would be on a DataNode that is there.
    fn would_be_stored(&self, kept: &Kept, context: &Context<'_>) -> bool {
        let block = self.blocks.block(BlockId(kept.id));
        block.replicas.iter().any(|replica| {
            let is_same = replica.stamp == GenerationStamp(kept.stamp) && replica.length == kept.length;
            let is_whole = replica.state == ReplicaState::Finalized && !replica.is_corrupt;
            is_same && is_whole && self.is_live(replica.datanode, context)
        })
    }

    fn file_of(&self, id: InodeId) -> &File {
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

    fn open_file(
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

    fn check_holder(&self, inode: &Inode, path: &str, client: &str) -> Result<(), Refusal> {
        let holder = inode.file().and_then(|file| file.holder.as_deref());
        let id = inode.id.0;
        match holder {
            Some(holder) if holder == client => Ok(()),
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
