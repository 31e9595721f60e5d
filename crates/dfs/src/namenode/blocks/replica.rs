use crate::ids::{BlockIndex, DatanodeHandle, GenerationStamp, StorageHandle};
use crate::wire::proto::cluster;

/// A copy of a block, or an internal block of a group, as a DataNode has reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Which internal block of a group it is; 0 for a replicated block.
    pub index: BlockIndex,
    /// The DataNode that has it.
    pub datanode: DatanodeHandle,
    /// The storage of that DataNode.
    pub storage: StorageHandle,
    /// The stamp that it has.
    pub stamp: GenerationStamp,
    /// Its bytes.
    pub length: u64,
    /// Whether it is whole.
    pub state: ReplicaState,
    /// A reader found that its bytes are not those that were written.
    pub is_corrupt: bool,
    /// The DataNode has been told to delete it: it counts for nothing, until it is reported again.
    pub is_leaving: bool,
}

/// The life of a replica on its DataNode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaState {
    /// Its writer ended it.
    Finalized,
    /// It is being written.
    BeingWritten,
    /// Its writer was gone when the DataNode started again.
    WaitingForRecovery,
}

impl ReplicaState {
    /// From a report; what is not known is not whole.
    pub fn from_wire(state: i32) -> Self {
        match cluster::ReplicaState::try_from(state) {
            Ok(cluster::ReplicaState::Finalized) => Self::Finalized,
            Ok(cluster::ReplicaState::BeingWritten) => Self::BeingWritten,
            Ok(cluster::ReplicaState::WaitingForRecovery) | Err(_) => Self::WaitingForRecovery,
        }
    }

    /// For a report.
    pub fn to_wire(self) -> cluster::ReplicaState {
        match self {
            Self::Finalized => cluster::ReplicaState::Finalized,
            Self::BeingWritten => cluster::ReplicaState::BeingWritten,
            Self::WaitingForRecovery => cluster::ReplicaState::WaitingForRecovery,
        }
    }
}
