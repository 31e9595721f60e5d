//! The answer to a frame.

use bytes::Bytes;
use yeoul_net::ConnectionId;

use super::Payload;
use super::protocol::Celeborn;
use crate::wire::message::Message;
use crate::wire::rpc::Answer;
use crate::wire::{ChunkSlice, Header, Status};

/// The longest error text that is sent, in bytes. Texts quote what a peer sent, and must not grow with it.
const ERROR_LEN_MAX: usize = 4 * 1024;

/// Answers one frame, once. It counts as one of the connection's requests in flight until its answer has been written, or
/// until it is dropped, which is how a frame without an answer ends.
pub struct Reply {
    reply: yeoul_net::Reply<Celeborn>,
    request_id: i64,
}

impl Reply {
    pub(super) fn new(reply: yeoul_net::Reply<Celeborn>, request_id: i64) -> Self {
        Self { reply, request_id }
    }

    /// The connection that the frame came on.
    pub fn connection(&self) -> ConnectionId {
        self.reply.connection()
    }

    /// Whether the connection has ended, so that an answer would go nowhere.
    pub fn is_closed(&self) -> bool {
        self.reply.is_closed()
    }

    /// Sends any frame.
    pub fn frame(self, header: Header, payload: impl Into<Payload>) {
        self.reply.frame(header, payload);
    }

    /// Answers a request with a body.
    pub fn respond(self, body: impl Into<Payload>) {
        let request_id = self.request_id;
        self.frame(Header::RpcResponse { request_id }, body);
    }

    /// Answers a request on an `rpc` port.
    pub fn answer(self, answer: &Answer) {
        self.respond(answer.encode());
    }

    /// Answers a request on a push or fetch port, where messages are bare.
    pub fn message(self, message: &Message) {
        self.respond(message.to_bare());
    }

    /// Answers a push. Always one byte: newer clients fail on an empty answer.
    pub fn push(self, status: Status) {
        const BYTES: [u8; 64] = {
            let mut bytes = [0; 64];
            let mut at = 0;
            while at < 64 {
                bytes[at] = at as u8;
                at += 1;
            }
            bytes
        };
        let at = usize::from(status.byte());
        self.respond(Bytes::from_static(&BYTES[at..=at]));
    }

    /// Answers a request with a failure; where clients classify by status, the text begins with [`Status::name`].
    pub fn fail(self, text: impl Into<String>) {
        let request_id = self.request_id;
        self.frame(Header::RpcFailure { request_id, error: cut(text.into()) }, Payload::empty());
    }

    /// Answers a request with a failure that clients classify.
    pub fn fail_with(self, status: Status, text: &str) {
        self.fail(format!("{}: {text}", status.name()));
    }

    /// Sends a chunk.
    pub fn chunk(self, slice: ChunkSlice, body: impl Into<Payload>) {
        self.frame(Header::ChunkFetchSuccess(slice), body);
    }

    /// The frame that says why there is no chunk.
    pub fn no_chunk(slice: ChunkSlice, text: impl Into<String>) -> Header {
        Header::ChunkFetchFailure { slice, error: cut(text.into()) }
    }

    /// Says why there is no chunk.
    pub fn chunk_failure(self, slice: ChunkSlice, text: impl Into<String>) {
        self.frame(Self::no_chunk(slice, text), Payload::empty());
    }
}

/// Cuts an error text to the longest that is sent.
pub(crate) fn cut(mut text: String) -> String {
    let mut end = text.len().min(ERROR_LEN_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}
