//! The port for calls of clients.

use std::sync::Arc;

use prost::Message;

use super::store::{Store, StoreError};
use crate::ids::{BlockId, GenerationStamp};
use crate::rpc::{Answer, Calls, Incoming};
use crate::wire::exception::Exception;
use crate::wire::proto::namenode::{ReplicaLengthRequest, ReplicaLengthResponse};
use crate::wire::{DecodeError, Refusal, protocol};

/// The calls of `ClientDatanodeProtocol`.
pub struct IpcService(pub Arc<Store>);

impl Calls for IpcService {
    fn call(&self, call: Incoming) -> Answer {
        Answer::Now(self.answer(&call))
    }
}

impl IpcService {
    fn answer(&self, call: &Incoming) -> Result<Vec<u8>, Refusal> {
        if call.protocol != protocol::CLIENT_DATANODE {
            return Err(Refusal::new(
                Exception::NoSuchProtocol,
                format!("Unknown protocol: {}", call.protocol),
            ));
        }
        if call.method != "getReplicaVisibleLength" {
            let message = format!("Unknown method {} called on ClientDatanodeProtocol", call.method);
            return Err(Refusal::new(Exception::NoSuchMethod, message));
        }
        let decoded = ReplicaLengthRequest::decode(call.argument.clone());
        let request = decoded.map_err(|source| DecodeError::Protobuf { what: "the argument", source })?;
        let block = &request.block;
        let (id, stamp) = (BlockId::from_wire(block.id), GenerationStamp(block.stamp));
        let length = self.0.visible_length(&block.pool, id, stamp).map_err(|error| {
            // The only class by which a reader knows that the block has no bytes here, rather than that it cannot know.
            let is_missing = matches!(error, StoreError::Missing(_));
            let exception = if is_missing { Exception::ReplicaNotFound } else { Exception::Io };
            Refusal::new(exception, error.to_string())
        })?;
        Ok(ReplicaLengthResponse { length }.encode_to_vec())
    }
}
