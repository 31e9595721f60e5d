//! Size limits of received frames, by frame type, checked before any of the body is read.

use super::frame::FrameType;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// The most shuffles that a worker holds or is deleting at a time: one report to the master names them all.
pub const WORKER_SHUFFLES_MAX: usize = 1 << 16;

/// The largest header and bodies that a connection accepts, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// A frame's header, of any type. A merged push lists its batches there, about 15 bytes each.
    pub head_len_max: usize,
    /// The payload of a request, a response, or a one-way message.
    pub rpc_body_max: usize,
    /// The body of a push, plain or merged.
    pub push_body_max: usize,
    /// The body of a chunk: 0 where chunks are only sent.
    pub chunk_body_max: usize,
}

impl Limits {
    /// For the listener of a server's control messages, which receives no pushes and no chunks.
    pub const CONTROL: Self =
        Self { head_len_max: 64 * KIB, rpc_body_max: 16 * MIB, push_body_max: 0, chunk_body_max: 0 };
    /// For a worker's push and replicate listeners. A client sends one row in one frame, however large.
    pub const PUSH: Self =
        Self { head_len_max: 512 * KIB, rpc_body_max: MIB, push_body_max: 1024 * MIB, chunk_body_max: 0 };
    /// For a worker's fetch listener.
    pub const FETCH: Self =
        Self { head_len_max: 64 * KIB, rpc_body_max: 16 * MIB, push_body_max: 0, chunk_body_max: 0 };
    /// For an application's listener, whose executors send short requests: the longest ends a map with its summary.
    pub const EXECUTORS: Self =
        Self { head_len_max: 64 * KIB, rpc_body_max: 128 * KIB, push_body_max: 0, chunk_body_max: 0 };
    /// For clients: responses and chunks. A chunk ends with the batch that fills its 8 MiB, and a batch may be large.
    pub const ANSWERS: Self =
        Self { head_len_max: 64 * KIB, rpc_body_max: 64 * MIB, push_body_max: 0, chunk_body_max: 1100 * MIB };

    /// The longest body of a frame of this type.
    pub fn body_max(&self, kind: FrameType) -> usize {
        match kind {
            FrameType::RpcRequest | FrameType::RpcResponse | FrameType::OneWayMessage => self.rpc_body_max,
            FrameType::PushData | FrameType::PushMergedData => self.push_body_max,
            FrameType::ChunkFetchSuccess => self.chunk_body_max,
            FrameType::ChunkFetchRequest
            | FrameType::ChunkFetchFailure
            | FrameType::RpcFailure
            | FrameType::Heartbeat => 0,
        }
    }
}
