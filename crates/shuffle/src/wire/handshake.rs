//! The handshake of a client with `celeborn.auth.enabled`, which is not served: bare messages in the frames of requests, sent
//! ahead of any request on a connection.
//!
//! ```text
//! client                                             server
//! 72 begin: version 1.0, mechanisms                  73 the mechanisms that it knows
//! 71 SASL, ANONYMOUS, for the client                 an empty body
//! 74 application and secret                          75, if they are taken
//! 71 SASL, DIGEST-MD5, for a later connection        a challenge
//! ```

use bytes::Bytes;

use super::message::{Message, MessageType};
use super::{proto, received};

/// The version of the handshake.
const VERSION: &str = "1.0";
/// What a client may authenticate, each with the mechanism that it insists on: itself, and a connection.
const CLIENT: i32 = 1;
const CONNECTION: i32 = 2;

/// A client's step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handshake {
    /// It asks for the mechanisms.
    Begin,
    /// It authenticates itself as anybody.
    Anonymous,
    /// It names its application, and a secret that is to be kept.
    Register {
        /// The application, as it says.
        application: String,
    },
    /// It proves that it knows a secret that was registered.
    Prove,
}

impl Handshake {
    /// Decodes a step that takes up all of `body`; `None` if it is something else.
    pub fn decode(body: Bytes) -> Option<Self> {
        let message = Message::decode_bare(body).ok()?;
        match message.kind {
            MessageType::AUTHENTICATION_INITIATION_REQUEST => {
                message.parse::<received::AuthenticationInitiationRequest>().ok().map(|_| Self::Begin)
            }
            MessageType::SASL_REQUEST => {
                let request = message.parse::<received::SaslRequest>().ok()?;
                Some(if request.auth_type == CLIENT { Self::Anonymous } else { Self::Prove })
            }
            MessageType::REGISTER_APPLICATION_REQUEST => {
                let request = message.parse::<received::RegisterApplicationRequest>().ok()?;
                Some(Self::Register { application: request.id.clone() })
            }
            _ => None,
        }
    }
}

/// The answer to [`Handshake::Begin`]. With any other a client gives up without saying which application it is of.
pub fn mechanisms() -> Message {
    let mechanism = |mechanism: &str, auth_type| proto::SaslMechanism {
        mechanism: mechanism.to_owned(),
        auth_types: vec![auth_type],
    };
    Message::of(&proto::AuthenticationInitiationResponse {
        version: VERSION.to_owned(),
        auth_enabled: true,
        sasl_mechanisms: vec![mechanism("ANONYMOUS", CLIENT), mechanism("DIGEST-MD5", CONNECTION)],
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::rpc::Request;
    use super::*;

    fn bare(kind: i32, payload: &[u8]) -> Bytes {
        Message { kind: MessageType(kind), payload: Some(Bytes::copy_from_slice(payload)) }.to_bare()
    }

    #[test]
    fn each_step_is_told_from_the_others_and_from_requests() {
        let begin =
            b"\x0a\x031.0\x10\x01\x1a\x0e\x0a\x09ANONYMOUS\x12\x01\x01\x1a\x0f\x0a\x0aDIGEST-MD5\x12\x01\x02";
        let register = Handshake::Register { application: "app-1".to_owned() };
        for (kind, payload, expected) in [
            (72, &begin[..], Handshake::Begin),
            (71, b"\x0a\x09ANONYMOUS\x10\x01\x1a\x05token", Handshake::Anonymous),
            (74, b"\x0a\x05app-1\x12\x06secret", register),
            (71, b"\x10\x02\x1a\x05token", Handshake::Prove),
        ] {
            let body = bare(kind, payload);
            assert!(Request::decode(body.clone()).is_err(), "{expected:?} is no request");
            assert_eq!(Handshake::decode(body.clone()), Some(expected));
            for len in 0..body.len() {
                assert_eq!(Handshake::decode(body.slice(..len)), None, "prefix of {len} bytes");
            }
        }
        assert_eq!(Handshake::decode(bare(73, b"")), None);
        assert_eq!(Handshake::decode(Request::encode_native("MasterEndpoint", &mechanisms())), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = Handshake::decode(bytes.into());
        }
    }
}
