//! Calls of a writer that goes on after a DataNode of its pipeline has failed.
//!
//! It asks for a new stamp, brings the DataNodes that are left, and perhaps another one, to that stamp, and then tells the NameNode
//! where it goes on. Replicas that missed this have an older stamp, by which they are known to be useless.

use std::collections::BTreeSet;

use super::State;
use crate::ids::{BlockId, BlockIndex, DatanodeHandle, GenerationStamp, InodeId};
use crate::namenode::blocks::{Block, Target};
use crate::namenode::{Context, placement};
use crate::wire::Refusal;
use crate::wire::exception::Exception;
use crate::wire::proto::journal::{Block as Kept, NewStamp, UpdateBlock, record::Change};
use crate::wire::proto::namenode::{
    AdditionalDatanodeRequest, AdditionalDatanodeResponse, Empty, UpdateBlockRequest, UpdateBlockResponse,
    UpdatePipelineRequest,
};
use crate::wire::proto::shared::{DatanodeInfo, ExtendedBlock, LocatedBlock, Token};

/// The offset of a block whose place in its file the answer does not say.
const NO_OFFSET: u64 = u64::MAX;
/// The name of a unit's DataNode that has failed.
const NO_NODE: &str = "null";
/// DataNodes that a writer may ask for at a time.
const ADDITIONAL_MAX: u32 = 512;

impl State {
    /// Gives a writer a stamp for the pipeline with which it goes on. The block has it once the writer has
    /// [updated](Self::update_pipeline) the pipeline.
    pub(super) fn stamp_for_pipeline(
        &mut self,
        context: &mut Context<'_>,
        request: &UpdateBlockRequest,
    ) -> Result<UpdateBlockResponse, Refusal> {
        let (_, id) = self.written_block(&request.block, &request.client_name)?;
        let stamp = GenerationStamp(self.blocks.counters().2.0 + 1);
        self.leases.renew(&request.client_name, context.now.steady_ms);
        self.commit(context, Change::NewStamp(NewStamp { stamp: stamp.0 }));
        let block = self.blocks.block(id);
        let located = self.located(block, NO_OFFSET, &[], context);
        // The client looks for a unit's token by its index.
        let units = block.geometry().map_or(0, |geometry| geometry.schema().units());
        let indices = (0..units).map(|unit| u8::try_from(unit).expect("a group has few units"));
        let block = LocatedBlock {
            block: ExtendedBlock { stamp: stamp.0, length: request.block.length, ..located.block },
            indices: (units > 0).then(|| indices.collect()),
            tokens: vec![Token::default(); units],
            ..located
        };
        Ok(UpdateBlockResponse { block })
    }

    /// Takes the stamp and the places with which a writer goes on.
    pub(super) fn update_pipeline(
        &mut self,
        context: &mut Context<'_>,
        request: &UpdatePipelineRequest,
    ) -> Result<Vec<u8>, Refusal> {
        let UpdatePipelineRequest { client_name, old, new, .. } = request;
        let (file, id) = self.written_block(old, client_name)?;
        let (block, last) = (self.blocks.block(id), self.blocks.counters().2);
        let (stamp, length) = (GenerationStamp(new.stamp), new.length());
        if new.id != old.id || stamp <= block.stamp || stamp > last || length < block.length {
            let message = format!(
                "Update {} (size={}, stamp={}) to an older state: {} (size={length}, stamp={}), last stamp {}",
                block.id,
                block.length,
                block.stamp.0,
                BlockId::from_wire(new.id),
                new.stamp,
                last.0
            );
            return Err(Refusal::new(Exception::Io, message));
        }
        self.check_length(block, length)?;
        let targets = self.targets_of(block, request);
        let named = request.nodes.iter().filter(|node| node.uuid != NO_NODE).count();
        let kept = Kept { id: id.0, stamp: stamp.0, length, ..Kept::default() };
        self.leases.renew(client_name, context.now.steady_ms);
        let update = UpdateBlock { file: file.0, block: Some(kept) };
        let answer = self.commit_once(context, Change::UpdateBlock(update), &Empty {});
        // One that has not registered yet since the NameNode started may have a replica, too.
        let is_all = targets.len() == named;
        self.blocks.set_targets(id, targets, is_all);
        Ok(answer)
    }

    /// Chooses DataNodes to join a pipeline. Those that are in it come first in the answer, and alone if there is no other one:
    /// the client knows by that.
    pub(super) fn additional_datanode(
        &mut self,
        context: &mut Context<'_>,
        request: &AdditionalDatanodeRequest,
    ) -> Result<AdditionalDatanodeResponse, Refusal> {
        let file = self.open_file(&request.src, request.file_id, &request.client_name, context)?;
        let (_, id) = self.written_block(&request.block, &request.client_name)?;
        let known = |nodes: &[DatanodeInfo]| -> BTreeSet<DatanodeHandle> {
            nodes.iter().filter_map(|node| self.datanodes.by_uuid(&node.id.uuid)).collect()
        };
        let (existing, excluded) = (known(&request.existing), known(&request.excluded));
        let racks: BTreeSet<&str> =
            existing.iter().map(|node| self.datanodes.node(*node).rack.as_str()).collect();
        let (steady_ms, silent_ms_max) = (context.now.steady_ms, self.rules.silent_ms_max);
        let block_size = self.file_of(file).block_size;
        let mut candidates = self.datanodes.candidates(block_size, steady_ms, silent_ms_max);
        candidates.retain(|candidate| {
            !existing.contains(&candidate.datanode) && !excluded.contains(&candidate.datanode)
        });
        let mut located = LocatedBlock {
            block: request.block.clone(),
            locations: request.existing.clone(),
            storage_ids: request.existing_storage_ids.clone(),
            ..self.located(self.blocks.block(id), NO_OFFSET, &[], context)
        };
        for _ in 0..request.count.min(ADDITIONAL_MAX) {
            let chosen = placement::choose_copy(&candidates, &racks, false, |_| false, context.random);
            let Some(storage) = chosen else {
                if self.awaits_datanodes(steady_ms) {
                    let message = format!("{} has no other DataNode yet to go on with", request.src);
                    return Err(Refusal::new(Exception::TooFewDatanodes, message));
                }
                break;
            };
            let node = self.datanodes.storage(storage).datanode;
            candidates.retain(|candidate| candidate.datanode != node);
            located.locations.push(self.datanodes.info(node, context.now.wall_ms, steady_ms));
            located.storage_ids.push(self.datanodes.storage(storage).uuid.clone());
        }
        located.storage_types = vec![1; located.locations.len()];
        located.is_cached = vec![false; located.locations.len()];
        Ok(AdditionalDatanodeResponse { block: located })
    }

    /// The block that a writer writes, and its file. It names no path: a directory above may have been renamed.
    fn written_block(&self, named: &ExtendedBlock, client: &str) -> Result<(InodeId, BlockId), Refusal> {
        let id = BlockId::from_wire(named.id);
        let missing = || {
            let message = format!("{id} does not exist or is not under Construction");
            Refusal::new(Exception::Io, message)
        };
        let block = self.blocks.get(id).ok_or_else(missing)?;
        let inode = self.tree.inode(block.file);
        self.check_holder(inode, &self.tree.path_of(block.file), client)?;
        if block.is_committed {
            let message = format!("Unexpected BlockUCState: {id} is COMMITTED but not UNDER_CONSTRUCTION");
            return Err(Refusal::new(Exception::Io, message));
        }
        Ok((block.file, id))
    }

    /// The places with which a writer goes on, as far as they are known: of a group, those that have failed are called "null".
    fn targets_of(&self, block: &Block, request: &UpdatePipelineRequest) -> Vec<Target> {
        let named = request.nodes.iter().zip(&request.storage_ids);
        let place = |(at, (node, storage)): (usize, _)| {
            let (node, storage): (&crate::wire::proto::shared::DatanodeId, &String) = (node, storage);
            let node = self.datanodes.by_uuid(&node.uuid)?;
            let storage = self.datanodes.storage_of(node, storage)?;
            let index = BlockIndex(if block.id.is_striped() { u8::try_from(at).ok()? } else { 0 });
            block.has_unit(index.unit()).then_some(Target { index, storage })
        };
        named.enumerate().filter_map(place).collect()
    }
}
