//! The DataNodes that have registered, their storages, and what they are to delete.

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::ids::{BlockId, DatanodeHandle, GenerationStamp, StorageHandle};
use crate::namenode::AdminState;
use crate::namenode::placement::Candidate;
use crate::wire::Refusal;
use crate::wire::exception::Exception;
use crate::wire::proto::cluster;
use crate::wire::proto::shared::{DatanodeId, DatanodeInfo};

/// DataNodes that are kept, living or not.
const DATANODES_MAX: usize = 10_000;
/// Storages of one DataNode.
const STORAGES_PER_DATANODE_MAX: usize = 100;
/// Bytes of each name that a DataNode gives of itself.
const NAME_BYTES_MAX: usize = 255;
/// Replicas that one heartbeat tells a DataNode to delete.
const DELETIONS_PER_HEARTBEAT_MAX: usize = 1000;
/// Bytes of the name of a rack.
pub const RACK_BYTES_MAX: usize = NAME_BYTES_MAX;
/// HDFS's name for a rack when nobody says which it is.
pub const DEFAULT_RACK: &str = "/default-rack";

/// All DataNodes and their storages. They are learned from registrations and never kept in the journal.
#[derive(Debug, Default)]
pub struct Datanodes {
    nodes: Vec<Datanode>,
    storages: Vec<Storage>,
    by_uuid: HashMap<String, DatanodeHandle>,
    by_storage: HashMap<String, StorageHandle>,
    has_racks: bool,
}

/// A DataNode.
#[derive(Debug)]
pub struct Datanode {
    /// Its handle.
    pub handle: DatanodeHandle,
    /// The name that it keeps over restarts.
    pub uuid: String,
    /// The name by which clients reach it.
    pub host: String,
    /// The address by which clients reach it.
    pub ip: String,
    /// The port for blocks.
    pub transfer_port: u16,
    /// The port for calls of clients.
    pub ipc_port: u16,
    /// The port for pages.
    pub info_port: u16,
    /// Where it stands.
    pub rack: String,
    /// Its storages.
    pub storages: Vec<StorageHandle>,
    /// When it was last heard of, by the clock that never jumps.
    pub heard_ms: u64,
    /// What it does for the cluster.
    pub admin: AdminState,
    /// Its host may not have a DataNode any more.
    pub is_disallowed: bool,
    /// Transfers that it has open.
    pub transfers: u32,
    deletions: VecDeque<Deletion>,
    must_report: bool,
    /// Bytes per second that it is to be told; 0 for nothing.
    bandwidth: u64,
}

impl Datanode {
    /// How many replicas it is yet to delete.
    pub fn pending_deletions(&self) -> usize {
        self.deletions.len()
    }
}

/// A storage of a DataNode.
#[derive(Debug)]
pub struct Storage {
    /// Its handle.
    pub handle: StorageHandle,
    /// The name that it keeps over restarts.
    pub uuid: String,
    /// The DataNode that has it.
    pub datanode: DatanodeHandle,
    /// The number of HDFS's storage type.
    pub kind: i32,
    /// Bytes that it can have.
    pub capacity: u64,
    /// Bytes of blocks in it.
    pub used: u64,
    /// Bytes that are free for blocks.
    pub remaining: u64,
    /// Its disk failed.
    pub has_failed: bool,
    /// It has sent a whole report since it registered.
    pub has_reported: bool,
    /// What it has was found to be missed when it was last looked at.
    is_dead: bool,
    /// What it has is missed. Other than [`Self::is_dead`] it is false before it is looked at for the first time.
    pub is_missed: bool,
    /// Blocks that were known when the report that is being taken began and that it has not named yet.
    pub unconfirmed: Option<BTreeSet<BlockId>>,
}

/// A replica that is to go once the journal has what makes it unneeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// Number of the record that has to be on disk before.
    pub after: u64,
    /// The storage.
    pub storage: StorageHandle,
    /// The block, or the internal block of a group.
    pub block: BlockId,
    /// Its stamp: a newer replica stays.
    pub stamp: GenerationStamp,
}

impl Datanodes {
    /// A DataNode by its handle.
    pub fn node(&self, handle: DatanodeHandle) -> &Datanode {
        &self.nodes[handle.0 as usize]
    }

    /// A storage by its handle.
    pub fn storage(&self, handle: StorageHandle) -> &Storage {
        &self.storages[handle.0 as usize]
    }

    /// A storage by its handle, to be changed.
    pub fn storage_mut(&mut self, handle: StorageHandle) -> &mut Storage {
        &mut self.storages[handle.0 as usize]
    }

    /// A DataNode by its name.
    pub fn by_uuid(&self, uuid: &str) -> Option<DatanodeHandle> {
        self.by_uuid.get(uuid).copied()
    }

    /// A storage of a DataNode by its name.
    pub fn storage_of(&self, datanode: DatanodeHandle, uuid: &str) -> Option<StorageHandle> {
        let handle = *self.by_storage.get(uuid)?;
        (self.storage(handle).datanode == datanode).then_some(handle)
    }

    /// All DataNodes.
    pub fn iter(&self) -> impl Iterator<Item = &Datanode> {
        self.nodes.iter()
    }

    /// A DataNode by its handle, to be changed.
    pub fn node_mut(&mut self, handle: DatanodeHandle) -> &mut Datanode {
        &mut self.nodes[handle.0 as usize]
    }

    /// True if DataNodes have stood on more than one rack.
    pub fn has_racks(&self) -> bool {
        self.has_racks
    }

    /// The handles of all storages.
    pub fn storages(&self) -> impl Iterator<Item = StorageHandle> {
        self.storages.iter().map(|storage| storage.handle)
    }

    /// True for a DataNode that has been heard of lately enough to be named to clients.
    pub fn is_live(&self, handle: DatanodeHandle, steady_ms: u64, silent_ms_max: u64) -> bool {
        let node = self.node(handle);
        !node.is_disallowed && steady_ms.saturating_sub(node.heard_ms) <= silent_ms_max
    }

    /// Takes a DataNode in, or takes note that one that is known is back, maybe at another address.
    ///
    /// # Errors
    /// `HadoopIllegalArgument` for names without sense, `Io` for too many DataNodes.
    pub fn register(
        &mut self,
        request: &cluster::RegisterRequest,
        steady_ms: u64,
    ) -> Result<DatanodeHandle, Refusal> {
        check_names(request)?;
        let port = |number: u32, what: &str| {
            u16::try_from(number).map_err(|_| illegal(format!("{what} {number} is no port")))
        };
        let (transfer_port, ipc_port) =
            (port(request.transfer_port, "transfer port")?, port(request.ipc_port, "IPC port")?);
        let info_port = port(request.info_port, "HTTP port")?;
        for storage in &request.storages {
            let owner = self.by_storage.get(&storage.uuid).map(|handle| self.storage(*handle).datanode);
            if owner.is_some() && owner != self.by_uuid(&request.uuid) {
                let message = format!(
                    "storage {} belongs to another DataNode: was its directory copied?",
                    storage.uuid
                );
                return Err(illegal(message));
            }
        }
        let handle = match self.by_uuid(&request.uuid) {
            Some(handle) => handle,
            None if self.nodes.len() >= DATANODES_MAX => {
                return Err(Refusal::new(
                    Exception::Io,
                    format!("there are {DATANODES_MAX} DataNodes already"),
                ));
            }
            None => DatanodeHandle(self.nodes.len() as u32),
        };
        let rack = if request.rack.is_empty() { DEFAULT_RACK } else { &request.rack };
        self.has_racks |= self.nodes.iter().any(|other| other.rack != rack);
        let node = Datanode {
            handle,
            uuid: request.uuid.clone(),
            host: request.host.clone(),
            ip: request.ip.clone(),
            transfer_port,
            ipc_port,
            info_port,
            rack: rack.to_owned(),
            storages: Vec::new(),
            heard_ms: steady_ms,
            admin: AdminState::InService,
            is_disallowed: false,
            transfers: 0,
            deletions: VecDeque::new(),
            must_report: false,
            bandwidth: 0,
        };
        match self.nodes.get_mut(handle.0 as usize) {
            Some(known) => *known = node,
            None => self.nodes.push(node),
        }
        self.by_uuid.insert(request.uuid.clone(), handle);
        for storage in &request.storages {
            self.take_storage(handle, storage);
        }
        Ok(handle)
    }

    /// Takes what a heartbeat says.
    pub fn hear(&mut self, handle: DatanodeHandle, request: &cluster::HeartbeatRequest, steady_ms: u64) {
        let node = &mut self.nodes[handle.0 as usize];
        (node.heard_ms, node.transfers) = (steady_ms, request.transfers);
        for storage in &request.storages {
            if let Some(known) = self.storage_of(handle, &storage.uuid) {
                let known = self.storage_mut(known);
                (known.capacity, known.used) = (storage.capacity, storage.used);
                (known.remaining, known.has_failed) = (storage.remaining, storage.failed);
            }
        }
    }

    /// Tells a DataNode to delete a replica, once the record that makes it unneeded is on disk.
    pub fn delete(&mut self, handle: DatanodeHandle, deletion: Deletion) {
        self.nodes[handle.0 as usize].deletions.push_back(deletion);
    }

    /// Forgets what silent DataNodes are to delete: they report when they are back, and it is found unneeded again.
    pub fn give_up_on_silent(&mut self, steady_ms: u64, silent_ms_max: u64) {
        for node in &mut self.nodes {
            if steady_ms.saturating_sub(node.heard_ms) > silent_ms_max && !node.must_report {
                (node.deletions, node.must_report) = (VecDeque::new(), true);
            }
        }
    }

    /// Looks which storages are missed, as their DataNode has been silent for too long or their disk failed: those for which that
    /// changed, and true if one came (back).
    pub fn note_dead(&mut self, steady_ms: u64, silent_ms_max: u64) -> (Vec<StorageHandle>, bool) {
        let (nodes, mut changed, mut has_come) = (&self.nodes, Vec::new(), false);
        for storage in &mut self.storages {
            let node = &nodes[storage.datanode.0 as usize];
            let is_gone = node.is_disallowed || steady_ms.saturating_sub(node.heard_ms) > silent_ms_max;
            // One in maintenance may be away.
            let is_dead = storage.has_failed || (is_gone && !node.admin.is_in_maintenance());
            storage.is_missed = is_dead;
            if std::mem::replace(&mut storage.is_dead, is_dead) != is_dead {
                changed.push(storage.handle);
                has_come |= !is_dead;
            }
        }
        (changed, has_come)
    }

    /// Asks each DataNode for a whole report.
    pub fn ask_all_to_report(&mut self) {
        for node in &mut self.nodes {
            node.must_report = true;
        }
    }

    /// True, once, for a DataNode that is to send a whole report.
    pub fn take_must_report(&mut self, handle: DatanodeHandle) -> bool {
        std::mem::take(&mut self.nodes[handle.0 as usize].must_report)
    }

    /// Tells all DataNodes how fast their repairs may be, in bytes per second, with their next heartbeats.
    pub fn set_bandwidth(&mut self, bytes_per_second: u64) {
        for node in &mut self.nodes {
            node.bandwidth = bytes_per_second;
        }
    }

    /// How fast a DataNode's repairs may be, if it is to be told so: once.
    pub fn take_bandwidth(&mut self, handle: DatanodeHandle) -> u64 {
        std::mem::take(&mut self.nodes[handle.0 as usize].bandwidth)
    }

    /// The next replicas that a DataNode is to delete, of those whose record is on disk.
    pub fn take_deletions(&mut self, handle: DatanodeHandle, synced: u64) -> Vec<Deletion> {
        let deletions = &mut self.nodes[handle.0 as usize].deletions;
        let ready =
            deletions.iter().take(DELETIONS_PER_HEARTBEAT_MAX).take_while(|next| next.after <= synced);
        let count = ready.count();
        deletions.drain(..count).collect()
    }

    /// How many replicas are yet to be deleted.
    pub fn pending_deletions(&self) -> usize {
        self.nodes.iter().map(|node| node.deletions.len()).sum()
    }

    /// The DataNodes that may take a block of so many bytes, each with the storage that has most space.
    pub fn candidates(&self, bytes: u64, steady_ms: u64, silent_ms_max: u64) -> Vec<Candidate<'_>> {
        let live = self
            .nodes
            .iter()
            .filter(|node| node.admin.is_in_service() && self.is_live(node.handle, steady_ms, silent_ms_max));
        let candidate = |node: &'_ Datanode| {
            let storages = node.storages.iter().map(|handle| self.storage(*handle));
            let fits = storages.filter(|storage| !storage.has_failed && storage.remaining >= bytes);
            fits.max_by_key(|storage| storage.remaining).map(|storage| storage.handle)
        };
        live.filter_map(|node| {
            let storage = candidate(node)?;
            let (free, all) = (self.storage(storage).remaining, self.storage(storage).capacity.max(1));
            let free_per_mille = u64::try_from(u128::from(free) * 1000 / u128::from(all)).unwrap_or(1000);
            let (datanode, rack, ip) = (node.handle, node.rack.as_str(), node.ip.as_str());
            Some(Candidate { datanode, storage, rack, ip, free_per_mille })
        })
        .collect()
    }

    /// A DataNode as clients see it.
    pub fn info(&self, handle: DatanodeHandle, wall_ms: u64, steady_ms: u64) -> DatanodeInfo {
        let node = self.node(handle);
        let storages = || node.storages.iter().map(|handle| self.storage(*handle));
        let (capacity, used) = (storages().map(|s| s.capacity).sum(), storages().map(|s| s.used).sum());
        let remaining = storages().map(|storage| storage.remaining).sum();
        DatanodeInfo {
            id: DatanodeId {
                ip: node.ip.clone(),
                host: node.host.clone(),
                uuid: node.uuid.clone(),
                transfer_port: node.transfer_port.into(),
                info_port: node.info_port.into(),
                ipc_port: node.ipc_port.into(),
            },
            capacity: Some(capacity),
            used: Some(used),
            remaining: Some(remaining),
            block_pool_used: Some(used),
            last_update_ms: Some(wall_ms.saturating_sub(steady_ms.saturating_sub(node.heard_ms))),
            transfers: Some(node.transfers),
            rack: Some(node.rack.clone()),
            non_dfs_used: Some(capacity.saturating_sub(used).saturating_sub(remaining)),
            admin_state: Some(node.admin.to_wire()),
            blocks: None,
        }
    }

    fn take_storage(&mut self, datanode: DatanodeHandle, said: &cluster::Storage) {
        let handle = match self.by_storage.get(&said.uuid) {
            Some(handle) => *handle,
            None => StorageHandle(u32::try_from(self.storages.len()).expect("storages are limited")),
        };
        // One that comes back is found to be back with the next look.
        let known = self.storages.get(handle.0 as usize);
        let is_dead = known.is_none_or(|known| known.is_dead);
        let is_missed = known.is_some_and(|known| known.is_missed);
        let storage = Storage {
            handle,
            uuid: said.uuid.clone(),
            datanode,
            kind: said.kind.try_into().unwrap_or(1),
            capacity: said.capacity,
            used: said.used,
            remaining: said.remaining,
            has_failed: said.failed,
            has_reported: false,
            is_dead,
            is_missed,
            unconfirmed: None,
        };
        match self.storages.get_mut(handle.0 as usize) {
            Some(known) => *known = storage,
            None => self.storages.push(storage),
        }
        self.by_storage.insert(said.uuid.clone(), handle);
        self.nodes[datanode.0 as usize].storages.push(handle);
    }
}

fn illegal(message: String) -> Refusal {
    Refusal::new(Exception::HadoopIllegalArgument, message)
}

fn check_names(request: &cluster::RegisterRequest) -> Result<(), Refusal> {
    if request.storages.len() > STORAGES_PER_DATANODE_MAX {
        let found = request.storages.len();
        return Err(illegal(format!("{found} storages are more than {STORAGES_PER_DATANODE_MAX}")));
    }
    let names = [("uuid", &request.uuid), ("host", &request.host), ("IP address", &request.ip)];
    let storages = request.storages.iter().map(|storage| ("storage uuid", &storage.uuid));
    for (what, name) in names.into_iter().chain(storages) {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(illegal(format!(
                "the {what} of a DataNode has {} bytes, expected 1 to 255",
                name.len()
            )));
        }
    }
    let rack = &request.rack;
    if !rack.is_empty() && (!rack.starts_with('/') || rack.len() > RACK_BYTES_MAX) {
        return Err(illegal(format!("the rack '{rack}' does not begin with a slash, such as /dc1/rack2")));
    }
    Ok(())
}
