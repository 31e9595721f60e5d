//! The port for calls of clients.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use prost::Message;

use super::control::Control;
use super::repairer::Repairer;
use super::store::StoreError;
use super::transfer::Transfers;
use crate::ids::{BlockId, GenerationStamp};
use crate::namenode::namespace::User;
use crate::rpc::{Answer, Calls, Incoming, Outcome};
use crate::wire::exception::Exception;
use crate::wire::proto::namenode::{
    BandwidthResponse, DatanodeVersion, DatanodeVersionResponse, ReplicaLengthRequest, ReplicaLengthResponse,
    TriggerReportRequest, VolumeInfo, VolumeReportResponse,
};
use crate::wire::{DecodeError, Refusal, protocol};

/// The number of HDFS's storage type DISK.
const STORAGE_DISK: i32 = 1;
/// Calls of `ClientDatanodeProtocol` that we know and do not have.
const UNSUPPORTED: [&str; 9] = [
    "deleteBlockPool",
    "getBlockLocalPathInfo",
    "getDiskBalancerSetting",
    "getReconfigurationStatus",
    "listReconfigurableProperties",
    "queryDiskBalancerPlan",
    "refreshNamenodes",
    "startReconfiguration",
    "submitDiskBalancerPlan",
];

/// The calls of `ClientDatanodeProtocol`.
pub struct IpcService {
    transfers: Arc<Transfers>,
    repairer: Arc<Repairer>,
    control: Arc<Control>,
    superusers: Superusers,
    began: Instant,
}

/// Who may end a DataNode and its writers.
#[derive(Clone, Debug)]
pub struct Superusers {
    /// The user whose process it is.
    pub user: String,
    /// The group whose members may, too (`dfs.permissions.superusergroup`).
    pub group: String,
}

impl Calls for IpcService {
    fn call(&self, call: Incoming) -> Answer {
        Answer::Now(self.answer(&call))
    }
}

impl IpcService {
    /// The calls of a DataNode that starts now.
    pub fn new(
        transfers: Arc<Transfers>,
        repairer: Arc<Repairer>,
        control: Arc<Control>,
        superusers: Superusers,
    ) -> Self {
        Self { transfers, repairer, control, superusers, began: Instant::now() }
    }

    fn answer(&self, call: &Incoming) -> Outcome {
        if call.protocol != protocol::CLIENT_DATANODE {
            return Err(Refusal::of_protocol(&call.protocol, &call.method));
        }
        match call.method.as_str() {
            "evictWriters" => {
                self.check_superuser(call)?;
                self.transfers.writers.evict_all();
                Ok(Vec::new())
            }
            "getBalancerBandwidth" => {
                Ok(BandwidthResponse { bandwidth: self.repairer.throttle.bytes_per_second() }.encode_to_vec())
            }
            "getDatanodeInfo" => Ok(self.version()),
            "getReplicaVisibleLength" => self.visible_length(call.argument.clone()),
            "getVolumeReport" => Ok(self.volumes()),
            "shutdownDatanode" => {
                self.check_superuser(call)?;
                if self.control.ask_to_end() {
                    return Ok(Vec::new());
                }
                let message = "shutdownDatanode is not supported by a DataNode of 'yeoul dfs local': its process is the cluster's";
                Err(Refusal::new(Exception::UnsupportedOperation, message))
            }
            "triggerBlockReport" => self.trigger_report(call),
            method if UNSUPPORTED.contains(&method) => Err(Refusal::unsupported(method)),
            method => {
                let message = format!("Unknown method {method} called on ClientDatanodeProtocol");
                Err(Refusal::new(Exception::NoSuchMethod, message))
            }
        }
    }

    fn check_superuser(&self, call: &Incoming) -> Result<(), Refusal> {
        let Superusers { user, group } = &self.superusers;
        let is_superuser = *call.user == **user || call.groups.contains(group);
        User { name: call.user.to_string(), groups: call.groups.to_vec(), is_superuser }
            .check_superuser(&call.method)
    }

    /// Reports all replicas with the next heartbeat. What changed is always told at once, so that there is nothing to do for a
    /// report of changes.
    fn trigger_report(&self, call: &Incoming) -> Outcome {
        self.check_superuser(call)?;
        let decoded = TriggerReportRequest::decode(call.argument.clone());
        let request = decoded.map_err(|source| DecodeError::Protobuf { what: "the argument", source })?;
        if let Some(namenode) = &request.namenode {
            let message = format!(
                "a report to {namenode:.100} alone is not supported by yeoul dfs: leave -namenode out"
            );
            return Err(Refusal::new(Exception::UnsupportedOperation, message));
        }
        if !request.incremental {
            self.control.ask_for_report();
        }
        Ok(Vec::new())
    }

    fn visible_length(&self, argument: Bytes) -> Outcome {
        let decoded = ReplicaLengthRequest::decode(argument);
        let request = decoded.map_err(|source| DecodeError::Protobuf { what: "the argument", source })?;
        let block = &request.block;
        let (id, stamp) = (BlockId::from_wire(block.id), GenerationStamp(block.stamp));
        let length = self.transfers.store.visible_length(&block.pool, id, stamp).map_err(|error| {
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
        let store = &self.transfers.store;
        let volumes = store.storages().into_iter().map(|storage| VolumeInfo {
            blocks: store.count(&storage.uuid) as u64,
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
