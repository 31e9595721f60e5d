//! What DataNodes say, and what they are told.

use super::State;
use crate::ids::{BlockId, DatanodeHandle, GenerationStamp, StorageHandle};
use crate::namenode::Context;
use crate::namenode::blocks::{Replica, ReplicaState, Reported};
use crate::namenode::datanodes::Deletion;
use crate::wire::Refusal;
use crate::wire::exception::Exception;
use crate::wire::proto::cluster;
use crate::wire::proto::cluster::{
    Answer, BlockRef, HeartbeatRequest, HeartbeatResponse, NoticeRequest, RegisterRequest, RegisterResponse,
    ReportRequest,
};
use crate::wire::protocol;

impl State {
    pub(super) fn register(
        &mut self,
        context: &mut Context<'_>,
        request: &RegisterRequest,
    ) -> Result<RegisterResponse, Refusal> {
        if request.layout_version != protocol::LAYOUT_VERSION {
            let (found, expected) = (request.layout_version, protocol::LAYOUT_VERSION);
            let message = format!("the DataNode speaks version {found} and the NameNode version {expected}");
            return Err(Refusal::new(Exception::VersionMismatch, message));
        }
        if !request.pool.is_empty() && request.pool != self.pool {
            let message = format!(
                "the DataNode belongs to block pool {} and this NameNode has {}: another cluster, or an empty directory",
                request.pool, self.pool
            );
            return Err(Refusal::new(Exception::HadoopIllegalArgument, message));
        }
        let port = u16::try_from(request.transfer_port).unwrap_or_default();
        let duty = self.hosts.duty_of(&request.host, &request.ip, port).ok_or_else(|| {
            let message = format!(
                "the host of the DataNode, {} ({}:{port}), is not in the file of dfs.hosts",
                request.host, request.ip
            );
            Refusal::new(Exception::Io, message)
        })?;
        // One that has no pool yet only asks for it: until it has made its folders it can take no block.
        if !request.pool.is_empty() {
            let had_racks = self.datanodes.has_racks();
            let before = self.datanodes.by_uuid(&request.uuid).map(|node| self.datanodes.node(node).admin);
            let node = self.datanodes.register(request, context.now.steady_ms)?;
            self.datanodes.node_mut(node).admin = before.unwrap_or_default();
            self.set_duty(node, duty, context.now.wall_ms);
            self.rise_above(context.now.wall_ms, request.term);
            if !had_racks && self.datanodes.has_racks() {
                // What was well placed so far may move.
                self.datanodes.storages().for_each(|storage| self.blocks.mark_storage_changed(storage));
            }
        }
        Ok(RegisterResponse {
            layout_version: protocol::LAYOUT_VERSION,
            features: protocol::FEATURES,
            pool: self.pool.clone(),
            cluster: self.cluster.clone(),
            term: self.term,
        })
    }

    pub(super) fn heartbeat(
        &mut self,
        context: &mut Context<'_>,
        request: &HeartbeatRequest,
    ) -> Result<HeartbeatResponse, Refusal> {
        let term = self.term;
        let known = self.datanodes.by_uuid(&request.uuid);
        let Some(node) = known.filter(|node| !self.datanodes.node(*node).is_disallowed) else {
            return Ok(HeartbeatResponse { term, must_register: true, ..HeartbeatResponse::default() });
        };
        self.datanodes.hear(node, request, context.now.steady_ms);
        self.take_held(node, &request.held);
        // In safe mode they wait: the operator who turned it on may have found that too much goes.
        let deletions = if self.safe_mode.is_on() {
            Vec::new()
        } else {
            self.datanodes.take_deletions(node, self.synced)
        };
        let delete = deletions.into_iter().map(|deletion| BlockRef {
            storage: self.datanodes.storage(deletion.storage).uuid.clone(),
            id: deletion.block.0,
            stamp: deletion.stamp.0,
        });
        let mut delete: Vec<BlockRef> = delete.collect();
        let must_report = self.datanodes.take_must_report(node);
        delete.extend(self.take_surplus(node, context.now.steady_ms));
        let (repairs, cancelled) = self.give_orders(node, &request.repairs, context.now.steady_ms);
        let recoveries = self.recovery_orders(node);
        Ok(HeartbeatResponse {
            term,
            must_register: false,
            must_report,
            delete,
            repairs,
            cancelled,
            recoveries,
            repair_bytes_per_second: self.datanodes.take_bandwidth(node),
        })
    }

    pub(super) fn take_report(
        &mut self,
        context: &mut Context<'_>,
        request: &ReportRequest,
    ) -> Result<Answer, Refusal> {
        let node = self.datanodes.by_uuid(&request.uuid);
        let storage = node.and_then(|node| self.datanodes.storage_of(node, &request.storage));
        let (Some(node), Some(storage)) = (node, storage) else { return Ok(Answer { must_register: true }) };
        if request.is_first {
            let known = self.blocks.of_storage(storage).collect();
            self.datanodes.storage_mut(storage).unconfirmed = Some(known);
        }
        for said in &request.replicas {
            self.take_replica(node, storage, said, false);
        }
        if request.is_last {
            let unconfirmed = self.datanodes.storage_mut(storage).unconfirmed.take().unwrap_or_default();
            for gone in unconfirmed {
                self.blocks.forget(gone, storage, gone.index());
            }
            self.datanodes.storage_mut(storage).has_reported = true;
            // What was held back as long as it was uncertain.
            self.blocks.mark_storage_changed(storage);
            self.look_at_safe_mode(context.now.steady_ms);
        }
        Ok(Answer { must_register: false })
    }

    pub(super) fn take_notices(
        &mut self,
        context: &mut Context<'_>,
        request: &NoticeRequest,
    ) -> Result<Answer, Refusal> {
        let Some(node) = self.datanodes.by_uuid(&request.uuid) else {
            return Ok(Answer { must_register: true });
        };
        for notice in &request.notices {
            let storage = self.datanodes.storage_of(node, &notice.storage);
            let (Some(storage), Some(replica)) = (storage, &notice.replica) else { continue };
            if notice.is_deleted {
                let id = BlockId(replica.id);
                self.blocks.forget(id, storage, id.index());
            } else {
                self.take_replica(node, storage, replica, notice.is_corrupt);
                self.take_hint(BlockId(replica.id), &notice.delete_hint);
            }
        }
        self.look_at_safe_mode(context.now.steady_ms);
        Ok(Answer { must_register: false })
    }

    /// Takes what a DataNode says of a replica. One that no file needs can go, but not while the namespace may lack what it
    /// belongs to: in safe mode, or if it is from the future.
    fn take_replica(
        &mut self,
        datanode: DatanodeHandle,
        storage: StorageHandle,
        said: &cluster::Replica,
        is_corrupt: bool,
    ) {
        let (id, stamp) = (BlockId(said.id), GenerationStamp(said.stamp));
        if let Some(unconfirmed) = &mut self.datanodes.storage_mut(storage).unconfirmed {
            unconfirmed.remove(&id);
        }
        let state = ReplicaState::from_wire(said.state);
        let (index, length) = (id.index(), said.length);
        let is_leaving = false;
        let replica = Replica { index, datanode, storage, stamp, length, state, is_corrupt, is_leaving };
        let reported = self.blocks.report(id, replica);
        if reported != Reported::Unneeded {
            return;
        }
        if self.safe_mode.is_on() {
            self.has_passed_over = true;
            return;
        }
        let deletion = Deletion { after: self.sequence, storage, block: id, stamp };
        self.datanodes.delete(datanode, deletion);
    }
}
