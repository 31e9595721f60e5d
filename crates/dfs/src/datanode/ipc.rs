//! The port for calls of clients.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use prost::Message;

use super::store::{Store, StoreError};
use crate::ids::{BlockId, GenerationStamp};
use crate::rpc::{Answer, Calls, Incoming, Outcome};
use crate::wire::exception::Exception;
use crate::wire::proto::namenode::{
    DatanodeVersion, DatanodeVersionResponse, ReplicaLengthRequest, ReplicaLengthResponse, VolumeInfo,
    VolumeReportResponse,
};
use crate::wire::{DecodeError, Refusal, protocol};

/// The number of HDFS's storage type DISK.
const STORAGE_DISK: i32 = 1;
/// Calls of `ClientDatanodeProtocol` that we know and do not have.
const UNSUPPORTED: [&str; 13] = [
    "deleteBlockPool",
    "evictWriters",
    "getBalancerBandwidth",
    "getBlockLocalPathInfo",
    "getDiskBalancerSetting",
    "getReconfigurationStatus",
    "listReconfigurableProperties",
    "queryDiskBalancerPlan",
    "refreshNamenodes",
    "shutdownDatanode",
    "startReconfiguration",
    "submitDiskBalancerPlan",
    "triggerBlockReport",
];

/// The calls of `ClientDatanodeProtocol`.
pub struct IpcService {
    store: Arc<Store>,
    began: Instant,
}

impl Calls for IpcService {
    fn call(&self, call: Incoming) -> Answer {
        Answer::Now(self.answer(&call))
    }
}

impl IpcService {
    /// The calls of a DataNode that starts now.
    pub fn new(store: Arc<Store>) -> Self {
        Self { store, began: Instant::now() }
    }

    fn answer(&self, call: &Incoming) -> Outcome {
        if call.protocol != protocol::CLIENT_DATANODE {
            return Err(Refusal::of_protocol(&call.protocol, &call.method));
        }
        match call.method.as_str() {
            "getDatanodeInfo" => Ok(self.version()),
            "getReplicaVisibleLength" => self.visible_length(call.argument.clone()),
            "getVolumeReport" => Ok(self.volumes()),
            method if UNSUPPORTED.contains(&method) => Err(Refusal::unsupported(method)),
            method => {
                let message = format!("Unknown method {method} called on ClientDatanodeProtocol");
                Err(Refusal::new(Exception::NoSuchMethod, message))
            }
        }
    }

    fn visible_length(&self, argument: Bytes) -> Outcome {
        let decoded = ReplicaLengthRequest::decode(argument);
        let request = decoded.map_err(|source| DecodeError::Protobuf { what: "the argument", source })?;
        let block = &request.block;
        let (id, stamp) = (BlockId::from_wire(block.id), GenerationStamp(block.stamp));
        let length = self.store.visible_length(&block.pool, id, stamp).map_err(|error| {
            // The only class by which a reader knows that the block has no bytes here, rather than that it cannot know.
            let is_missing = matches!(error, StoreError::Missing(_));
            let exception = if is_missing { Exception::ReplicaNotFound } else { Exception::Io };
            Refusal::new(exception, error.to_string())
        })?;
        Ok(ReplicaLengthResponse { length }.encode_to_vec())
    }

    /// The answer to `hdfs dfsadmin -getDatanodeInfo`.
    fn version(&self) -> Vec<u8> {
        let local = DatanodeVersion {
            software_version: format!("yeoul {}", env!("CARGO_PKG_VERSION")),
            config_version: protocol::LAYOUT_VERSION.to_string(),
            uptime_s: self.began.elapsed().as_secs(),
        };
        DatanodeVersionResponse { local }.encode_to_vec()
    }

    /// The answer to `hdfs dfsadmin -getVolumeReport`.
    fn volumes(&self) -> Vec<u8> {
        let volumes = self.store.storages().into_iter().map(|storage| VolumeInfo {
            blocks: self.store.count(&storage.uuid) as u64,
            path: storage.uuid,
            storage_type: STORAGE_DISK,
            used: storage.used,
            free: storage.remaining,
            reserved: 0,
            reserved_for_replicas: 0,
        });
        VolumeReportResponse { volumes: volumes.collect() }.encode_to_vec()
    }
}
