//! Protobuf messages by their number, as requests arrive, and the packed locations in them.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use yeoul_shuffle::wire::message::{Message, MessageType as Type};
use yeoul_shuffle::wire::packed::Location;
use yeoul_shuffle::wire::proto;

fuzz_target!(|data: &[u8]| {
    let bytes = Bytes::copy_from_slice(data);
    // prost's structs are larger than their encoding: a repeated string of 5 bytes takes 24 and its heap.
    yeoul_fuzz::bounded_by(32, data.len(), || {
        let Ok(message) = Message::decode_bare(bytes) else { return };
        match message.kind {
            Type::REQUEST_SLOTS => drop(message.parse::<proto::RequestSlots>()),
            Type::HEARTBEAT_FROM_APPLICATION => drop(message.parse::<proto::HeartbeatFromApplication>()),
            Type::RESERVE_SLOTS => {
                if let Ok(request) = message.parse::<proto::ReserveSlots>() {
                    let _ = request.locations();
                }
            }
            Type::COMMIT_FILES => drop(message.parse::<proto::CommitFiles>()),
            Type::DESTROY => drop(message.parse::<proto::DestroyWorkerSlots>()),
            Type::OPEN_STREAM => drop(message.parse::<proto::OpenStream>()),
            Type::BATCH_OPEN_STREAM => drop(message.parse::<proto::OpenStreamList>()),
            Type::CHUNK_FETCH_REQUEST => drop(message.parse::<proto::ChunkFetchRequest>()),
            Type::REQUEST_SLOTS_RESPONSE => {
                if let Ok(answer) = message.parse::<proto::RequestSlotsResponse>() {
                    for resource in answer.packed_worker_resource.values() {
                        let _ = resource.location_pairs.as_ref().map(Location::unpack);
                    }
                }
            }
            Type::COMMIT_FILES_RESPONSE => drop(message.parse::<proto::CommitFilesResponse>()),
            _ => {}
        }
    });
});
