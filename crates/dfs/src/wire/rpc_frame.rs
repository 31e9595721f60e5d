//! Hadoop RPC, version 9: how a connection begins, and what its frames hold.
//!
//! A connection begins with seven bytes: `hrpc`, the version 9, the service class, and what authentication the client wants
//! (0 for none, 0xdf for SASL). Then come frames, each a big-endian u32 with the number of bytes that follow.
//!
//! The frame of a call holds three delimited messages: the request header, the call header and the argument. The frame of an
//! answer holds the response header and, if the call succeeded, the delimited result. The client closes the connection if
//! bytes are left over.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;

use super::proto::rpc::{CallHeader, RequestHeader, ResponseHeader};
use super::{DecodeError, delimited};

/// The version of Hadoop RPC that all Hadoop 2 and 3 clients speak.
pub const VERSION: u8 = 9;
/// The protobuf engine.
pub const KIND_PROTOBUF: i32 = 2;
/// Id of the frame that says who the caller is and which protocol it wants; it has no answer.
pub const CALL_CONTEXT: i32 = -3;
/// Id of a frame that only shows that the client is there; it has no answer.
pub const CALL_PING: i32 = -4;
/// Id of a frame of the SASL negotiation.
pub const CALL_SASL: i32 = -33;
/// Id in an answer that is to no call in particular.
pub const CALL_NONE: i32 = -1;

/// Bytes before the first frame.
pub const PREAMBLE_BYTES: usize = 7;

/// What a client wants before it sends its first call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// None: the connection context follows.
    None,
    /// SASL: a negotiation follows, to which a server without security answers that it succeeded.
    Sasl,
}

/// The beginning of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preamble {
    /// Calls follow.
    Calls(Authentication),
    /// Another version of Hadoop RPC.
    OtherVersion(u8),
    /// Somebody took this for a web server.
    Http,
}

impl Preamble {
    /// Reads the beginning of a connection.
    ///
    /// # Errors
    /// Bytes of no client that is known.
    pub fn decode(bytes: [u8; PREAMBLE_BYTES]) -> Result<Self, DecodeError> {
        let [m0, m1, m2, m3, version, _class, authentication] = bytes;
        match [m0, m1, m2, m3] {
            magic if magic == *b"hrpc" => {}
            magic if [*b"GET ", *b"POST", *b"HEAD", *b"PUT ", *b"OPTI"].contains(&magic) => {
                return Ok(Self::Http);
            }
            magic => {
                let found = i64::from(u32::from_be_bytes(magic));
                return Err(DecodeError::Unexpected { what: "the magic number", found, expected: "'hrpc'" });
            }
        }
        match (version, authentication) {
            (VERSION, 0) => Ok(Self::Calls(Authentication::None)),
            (VERSION, 0xdf) => Ok(Self::Calls(Authentication::Sasl)),
            (VERSION, other) => Err(DecodeError::Unexpected {
                what: "the authentication",
                found: i64::from(other),
                expected: "0 (none) or 223 (SASL)",
            }),
            (other, _) => Ok(Self::OtherVersion(other)),
        }
    }

    /// The beginning of a connection of ours.
    pub fn encode() -> [u8; PREAMBLE_BYTES] {
        *b"hrpc\x09\x00\x00"
    }
}

/// Takes a frame off the front of `from`: none, if more bytes are needed.
///
/// # Errors
/// A declared length over `max`.
pub fn take_frame(from: &mut BytesMut, max: usize) -> Result<Option<Bytes>, DecodeError> {
    let Some(head) = from.first_chunk::<4>() else { return Ok(None) };
    let declared = u32::from_be_bytes(*head);
    let length = declared as usize;
    if length > max {
        return Err(DecodeError::TooLong { what: "a frame", declared: declared.into(), max });
    }
    if from.len() < 4 + length {
        return Ok(None);
    }
    from.advance(4);
    Ok(Some(from.split_to(length).freeze()))
}

/// A request: its header, and the messages that follow.
#[derive(Clone, Debug)]
pub struct Request {
    /// Who asks, with which number.
    pub header: RequestHeader,
    /// The messages after the header.
    pub rest: Bytes,
}

impl Request {
    /// Reads a frame.
    ///
    /// # Errors
    /// A frame without a whole header.
    pub fn decode(mut frame: Bytes) -> Result<Self, DecodeError> {
        let header = delimited::take_message(&mut frame, "a request header")?;
        Ok(Self { header, rest: frame })
    }

    /// The call that the request holds.
    ///
    /// # Errors
    /// Messages that are cut off or none of protobuf's.
    pub fn call(&self) -> Result<Call, DecodeError> {
        let mut rest = self.rest.clone();
        let header: CallHeader = delimited::take_message(&mut rest, "a call header")?;
        // Some clients leave an empty argument out.
        let argument =
            if rest.is_empty() { Bytes::new() } else { delimited::take(&mut rest, "an argument")? };
        Ok(Call { header, argument })
    }

    /// The frame of a call.
    pub fn encode(header: &RequestHeader, call: &CallHeader, argument: &impl Message) -> BytesMut {
        framed(|to| {
            delimited::put(header, to);
            delimited::put(call, to);
            delimited::put(argument, to);
        })
    }
}

/// A method and its argument.
#[derive(Clone, Debug)]
pub struct Call {
    /// The method, and the protocol that declares it.
    pub header: CallHeader,
    /// The argument, a message of protobuf.
    pub argument: Bytes,
}

/// The end of a call, as the first number of an answer says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The result follows.
    Success = 0,
    /// The call failed; the connection lives on.
    Error = 1,
    /// The connection ends.
    Fatal = 2,
}

/// Header of the answer to a request.
pub fn response_header(request: &RequestHeader, status: Status) -> ResponseHeader {
    ResponseHeader {
        call_id: request.call_id.cast_unsigned(),
        status: status as i32,
        server_ipc_version: Some(VERSION.into()),
        client_id: Some(request.client_id.clone()),
        retry_count: request.retry_count,
        ..ResponseHeader::default()
    }
}

/// Frame of a successful answer, whose result is encoded already.
pub fn success(request: &RequestHeader, result: &[u8]) -> BytesMut {
    let header = response_header(request, Status::Success);
    framed(|to| {
        delimited::put(&header, to);
        delimited::put_bytes(result, to);
    })
}

/// Frame of an answer that is a header only.
pub fn failure(header: &ResponseHeader) -> BytesMut {
    framed(|to| delimited::put(header, to))
}

/// The header of an answer that a client of ours got, and the result behind it.
///
/// # Errors
/// A frame without a whole header or result.
pub fn decode_response(mut frame: Bytes) -> Result<(ResponseHeader, Bytes), DecodeError> {
    let header: ResponseHeader = delimited::take_message(&mut frame, "a response header")?;
    let result = if header.status == Status::Success as i32 {
        delimited::take(&mut frame, "a result")?
    } else {
        Bytes::new()
    };
    Ok((header, result))
}

/// Appends the frame of a message behind a request header, as the negotiation and the connection context are sent.
pub fn framed_message(header: &RequestHeader, message: &impl Message) -> BytesMut {
    framed(|to| {
        delimited::put(header, to);
        delimited::put(message, to);
    })
}

fn framed(put: impl FnOnce(&mut BytesMut)) -> BytesMut {
    let mut frame = BytesMut::new();
    frame.put_u32(0);
    put(&mut frame);
    let length = u32::try_from(frame.len() - 4).expect("answers are far below 4 GiB");
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::limits;
    use super::super::proto::rpc::ConnectionContext;
    use super::*;

    /// The first frame of `hdfs dfs -put`, recorded from the stock client 3.4.2, with another client id.
    fn recorded_context() -> Vec<u8> {
        let mut frame = vec![0x21, 0x08, 0x02, 0x10, 0x00, 0x18, 0x05, 0x22, 0x10];
        frame.extend(1..=16);
        frame.extend([0x28, 0x01, 0x3a, 0x05, 0x0a, 0x03]);
        frame.extend(b"CLI");
        frame.extend([0x38, 0x12, 0x06, 0x0a, 0x04]);
        frame.extend(b"root");
        frame.extend([0x1a, 0x2e]);
        frame.extend(b"org.apache.hadoop.hdfs.protocol.ClientProtocol");
        frame
    }

    #[test]
    fn the_stock_clients_first_frame_names_the_user_and_the_protocol() {
        let mut request = Request::decode(recorded_context().into()).unwrap();
        assert_eq!((request.header.call_id, request.header.client_id.len()), (CALL_CONTEXT, 16));
        let context: ConnectionContext = delimited::take_message(&mut request.rest, "it").unwrap();
        assert_eq!(context.user.unwrap().effective_user(), "root");
        assert_eq!(context.protocol.as_deref(), Some(super::super::protocol::CLIENT));
    }

    #[test]
    fn a_negative_call_id_is_answered_as_its_twos_complement() {
        let request = RequestHeader { call_id: CALL_SASL, ..RequestHeader::default() };
        let bytes = response_header(&request, Status::Success).encode_to_vec();
        assert!(bytes.starts_with(&[0x08, 0xdf, 0xff, 0xff, 0xff, 0x0f]), "{bytes:02x?}");
    }

    #[test]
    fn a_connection_begins_with_the_magic_number_the_version_and_the_authentication() {
        let calls = |authentication| Preamble::Calls(authentication);
        assert_eq!(Preamble::decode(Preamble::encode()).unwrap(), calls(Authentication::None));
        assert_eq!(Preamble::decode(*b"hrpc\x09\x00\xdf").unwrap(), calls(Authentication::Sasl));
        assert_eq!(Preamble::decode(*b"hrpc\x04\x00\x00").unwrap(), Preamble::OtherVersion(4));
        assert_eq!(Preamble::decode(*b"GET / H").unwrap(), Preamble::Http);
        assert!(Preamble::decode(*b"hrpc\x09\x00\x50").is_err());
        assert!(Preamble::decode(*b"\x16\x03\x01\x02\x00\x01\x00").is_err(), "a TLS greeting");
    }

    proptest! {
        #[test]
        fn frames_come_out_alike_however_they_are_cut(
            contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..5),
            cut in 1..9usize,
        ) {
            let mut sent = BytesMut::new();
            for content in &contents {
                sent.put_u32(content.len() as u32);
                sent.put_slice(content);
            }
            let (mut arrived, mut found) = (BytesMut::new(), Vec::new());
            for chunk in sent.chunks(cut) {
                arrived.put_slice(chunk);
                while let Some(frame) = take_frame(&mut arrived, 64).unwrap() {
                    found.push(frame.to_vec());
                }
            }
            prop_assert_eq!(found, contents);
            prop_assert!(arrived.is_empty());
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = take_frame(&mut bytes.as_slice().into(), 200);
            if let Ok(request) = Request::decode(bytes.clone().into()) {
                let _ = request.call();
            }
            let _ = decode_response(bytes.into());
        }
    }

    #[test]
    fn a_declared_two_gigabytes_are_refused_before_they_arrive() {
        let mut bytes = BytesMut::from(&[0x80, 0, 0, 0][..]);
        let refused = take_frame(&mut bytes, limits::CALL_BYTES_MAX);
        assert!(matches!(refused, Err(DecodeError::TooLong { declared: 0x8000_0000, .. })), "{refused:?}");
    }
}
