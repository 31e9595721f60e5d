use std::time::Duration;

use bytes::{Bytes, BytesMut};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::wire::proto::rpc::connection_context::UserInformation;
use crate::wire::proto::rpc::{CallHeader, ConnectionContext, RequestHeader};
use crate::wire::rpc_frame::{self, Preamble, Request, Status};
use crate::wire::{DecodeError, limits, protocol};

/// How long a call may take, as in Hadoop (`ipc.client.rpc-timeout.ms` is twice as long).
const CALL_MAX: Duration = Duration::from_secs(60);
/// How long a connection may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// A connection to a server of Hadoop RPC, with one call at a time.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    buffer: BytesMut,
    client_id: [u8; 16],
    protocol: &'static str,
    next_call: i32,
}

/// The reason why a call has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The connection cannot be made, or broke.
    #[error("no answer from {address}")]
    Connection {
        /// The server.
        address: String,
        /// What broke.
        source: std::io::Error,
    },
    /// The server said no.
    #[error("{message}")]
    Refused {
        /// The Java class that it names.
        class: String,
        /// What it says.
        message: String,
    },
    /// The server answered with what is no answer.
    #[error("the answer of {address} cannot be read")]
    Corrupt {
        /// The server.
        address: String,
        /// What is wrong.
        source: DecodeError,
    },
}

impl Client {
    /// Connects, as a user, for the calls of a protocol.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub async fn connect(
        address: &str,
        user: &str,
        protocol: &'static str,
        client_id: [u8; 16],
    ) -> Result<Self, CallError> {
        let connection = |source| CallError::Connection { address: address.to_owned(), source };
        let connected = timeout(CONNECT_MAX, TcpStream::connect(address)).await;
        let stream = connected.map_err(|late| connection(late.into()))?.map_err(connection)?;
        stream.set_nodelay(true).map_err(connection)?;
        let mut client = Self { stream, buffer: BytesMut::new(), client_id, protocol, next_call: 0 };
        let user = UserInformation { effective_user: Some(user.to_owned()), real_user: None };
        let context = ConnectionContext { user: Some(user), protocol: Some(protocol.to_owned()) };
        let context = rpc_frame::framed_message(&client.header(rpc_frame::CALL_CONTEXT), &context);
        let greeting = [&Preamble::encode()[..], &context].concat();
        client.stream.write_all(&greeting).await.map_err(connection)?;
        Ok(client)
    }

    /// Calls a method and waits for its result.
    ///
    /// # Errors
    /// The connection broke, which ends it; or the server said no.
    pub async fn call<R: Message + Default>(
        &mut self,
        method: &str,
        argument: &impl Message,
    ) -> Result<R, CallError> {
        let id = self.next_call;
        self.next_call = self.next_call.wrapping_add(1).max(0);
        let version = protocol::VERSION;
        let call = CallHeader { method: method.to_owned(), protocol: self.protocol.to_owned(), version };
        let frame = Request::encode(&self.header(id), &call, argument);
        let answered = timeout(CALL_MAX, self.exchange(&frame)).await;
        let address =
            self.stream.peer_addr().map_or_else(|_| "the server".to_owned(), |peer| peer.to_string());
        let connection = |source| CallError::Connection { address: address.clone(), source };
        let frame = answered.map_err(|late| connection(late.into()))?.map_err(connection)?;
        let corrupt = |source| CallError::Corrupt { address: address.clone(), source };
        let (header, result) = rpc_frame::decode_response(frame).map_err(corrupt)?;
        if header.status != Status::Success as i32 {
            let class = header.exception_class().to_owned();
            return Err(CallError::Refused { class, message: header.error_message().to_owned() });
        }
        R::decode(result).map_err(|source| corrupt(DecodeError::Protobuf { what: "a result", source }))
    }

    async fn exchange(&mut self, frame: &[u8]) -> std::io::Result<Bytes> {
        self.stream.write_all(frame).await?;
        loop {
            let next = rpc_frame::take_frame(&mut self.buffer, limits::ANSWER_BYTES_MAX);
            if let Some(frame) = next.map_err(std::io::Error::other)? {
                return Ok(frame);
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn header(&self, call_id: i32) -> RequestHeader {
        RequestHeader {
            rpc_kind: Some(rpc_frame::KIND_PROTOBUF),
            rpc_op: Some(0),
            call_id,
            client_id: Bytes::copy_from_slice(&self.client_id),
            retry_count: Some(-1),
        }
    }
}
