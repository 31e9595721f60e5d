//! What Celeborn's protocol says of its frames.

use bytes::{Bytes, BytesMut};
use yeoul_net::{Calls, Protocol};

use crate::wire::{ChunkSlice, DecodeError, Header, Incoming, Limits};

/// Celeborn's protocol.
#[derive(Debug)]
pub struct Celeborn;

impl Protocol for Celeborn {
    type Header = Header;
    /// A push above the limits has a head of its own: a service refuses it, and the connection goes on.
    type Received = Incoming;
    type Limits = Limits;
    type Error = DecodeError;

    /// The stock client has 32 pushes in flight for each map task. It sends that many small ones in half a millisecond, and
    /// sleeps for 50 ms if none has been answered by then.
    const WINDOW: usize = 32;

    fn decode(bytes: &mut BytesMut, limits: &Limits) -> Result<Option<(Incoming, usize)>, DecodeError> {
        let incoming = Incoming::decode(bytes, limits)?;
        Ok(incoming.map(|incoming| {
            let body_len = match &incoming {
                Incoming::Frame(head) => head.body_len,
                Incoming::LongPush { rest_len, .. } => *rest_len,
            };
            (incoming, body_len)
        }))
    }

    fn encode(header: &Header, body_len: usize, bytes: &mut BytesMut) {
        header.encode(body_len, bytes);
    }
}

/// What an answer and its request have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Key {
    /// Nothing: it has no answer.
    None,
    /// Its number.
    Request(i64),
    /// The slice that it asks for.
    Slice(ChunkSlice),
}

impl Calls for Celeborn {
    type Key = Key;
    type Answer = Bytes;
    /// A text that may begin with a status' name.
    type Failure = String;

    fn answer_limits() -> Limits {
        Limits::ANSWERS
    }

    fn number(header: &mut Header, next: impl FnOnce() -> i64) -> Key {
        match header {
            Header::RpcRequest { request_id }
            | Header::PushData { request_id, .. }
            | Header::PushMergedData { request_id, .. } => {
                *request_id = next();
                Key::Request(*request_id)
            }
            Header::ChunkFetchRequest(slice) => Key::Slice(*slice),
            _ => Key::None,
        }
    }

    fn answer(head: Incoming, body: Bytes) -> Option<(Key, Result<Bytes, String>)> {
        let Incoming::Frame(head) = head else { return None };
        Some(match head.header {
            Header::RpcResponse { request_id } => (Key::Request(request_id), Ok(body)),
            Header::RpcFailure { request_id, error } => (Key::Request(request_id), Err(error)),
            Header::ChunkFetchSuccess(slice) => (Key::Slice(slice), Ok(body)),
            Header::ChunkFetchFailure { slice, error } => (Key::Slice(slice), Err(error)),
            _ => return None,
        })
    }
}
