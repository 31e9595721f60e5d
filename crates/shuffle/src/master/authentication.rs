//! Authentication, which is not served: a client that wants it is refused, and the log names its application. Its driver
//! says no more than that a quota was exceeded, or falls back to Spark's own shuffle in silence.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::net::Reply;
use crate::wire::handshake::{Handshake, mechanisms};

/// How long a refusal is not said again of the same application: its driver asks again with every request.
const SAY_INTERVAL: Duration = Duration::from_secs(60);
/// The most applications whose last refusals are remembered.
const REMEMBERED_MAX: usize = 256;
/// The longest name of an application that is logged, in characters.
const NAME_LEN_MAX: usize = 200;

/// The text of each refusal, which the driver's log shows as a cause.
const REFUSAL: &str = "authentication is not served here: set celeborn.auth.enabled (in Spark spark.celeborn.auth.enabled) to false";

/// The answers to handshakes.
#[derive(Debug, Default)]
pub(super) struct Authentication {
    /// When a refusal was last said, by application; of clients that have not named theirs, under the empty name.
    said: Mutex<BTreeMap<String, Instant>>,
}

impl Authentication {
    /// Answers a step: it goes as far as the client has to say which application it is of.
    pub(super) fn answer(&self, step: Handshake, reply: Reply) {
        match step {
            Handshake::Begin => reply.message(&mechanisms()),
            Handshake::Anonymous => reply.respond(Bytes::new()),
            Handshake::Register { application } => {
                let application: String = application.chars().take(NAME_LEN_MAX).collect();
                if self.is_news(&application) {
                    tracing::warn!(?application, "{LINE}");
                }
                reply.fail(REFUSAL);
            }
            Handshake::Prove => {
                if self.is_news("") {
                    tracing::warn!("an application of another master {LINE}");
                }
                reply.fail(REFUSAL);
            }
        }
    }

    /// Whether the refusal of an application was not said lately.
    fn is_news(&self, application: &str) -> bool {
        let now = Instant::now();
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.retain(|_, last| now.saturating_duration_since(*last) < SAY_INTERVAL);
        if said.contains_key(application) || said.len() >= REMEMBERED_MAX {
            return false;
        }
        said.insert(application.to_owned(), now);
        true
    }
}

/// The line in the log, which says what the driver's does not.
const LINE: &str = "wants authentication (celeborn.auth.enabled), which is not served, and is refused: \
    its driver says `Quota exceed` or falls back to its own shuffle";

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::server::Shared;
    use super::super::service::MasterService;
    use super::super::state::scene::state_of;
    use super::*;
    use crate::heard::Heard;
    use crate::net::{Client, Listener, Options, RequestError};
    use crate::wire::message::{Message, MessageType};
    use crate::wire::{Header, Limits};

    const WITHIN: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn an_application_that_wants_authentication_is_refused_and_named() {
        let (heard, _listening) = Heard::begin();
        let listener = Listener::bind(("127.0.0.1", 0), Options::new(Limits::CONTROL)).await.unwrap();
        let serving =
            listener.serve(Arc::new(MasterService::new(Arc::new(Shared::of(state_of(0).into_state())))));
        let (client, address) = (Client::default(), serving.address().to_string());
        let ask = async |kind, payload: &'static [u8]| {
            let message = Message { kind: MessageType(kind), payload: Some(payload.into()) };
            let header = Header::RpcRequest { request_id: 0 };
            client.request(&address, header, message.to_bare(), WITHIN).await
        };
        for _ in 0..3 {
            // What the client of 0.5.4 sends, and what it checks.
            let answer = Message::decode_bare(ask(72, b"\x0a\x031.0\x10\x01").await.unwrap()).unwrap();
            assert_eq!(answer.kind, MessageType(73));
            let expected =
                b"\x0a\x031.0\x10\x01\x1a\x0e\x0a\x09ANONYMOUS\x12\x01\x01\x1a\x0f\x0a\x0aDIGEST-MD5\x12\x01\x02";
            assert_eq!(answer.payload.unwrap(), &expected[..]);
            assert_eq!(ask(71, b"\x0a\x09ANONYMOUS\x10\x01").await.unwrap(), Bytes::new());
            for (kind, payload) in
                [(74, &b"\x0a\x0dlocal-1\nFORGE\x12\x06sesame"[..]), (71, b"\x10\x02\x1a\x05token")]
            {
                let Err(RequestError::Failed { text, .. }) = ask(kind, payload).await else {
                    panic!("it is taken")
                };
                assert!(text.contains("set celeborn.auth.enabled"), "{text}");
            }
        }
        let said = heard.text();
        assert_eq!(said.lines().count(), 2, "each once: {said}");
        assert!(said.contains(r#"application="local-1\nFORGE""#), "{said}");
        assert!(said.lines().all(|line| line.contains("WARN ") && line.contains("Quota exceed")), "{said}");
        assert!(!said.contains("sesame"), "{said}");
    }

    #[test]
    fn however_many_applications_are_refused_few_are_remembered() {
        let authentication = Authentication::default();
        let news = (0..2 * REMEMBERED_MAX).filter(|name| authentication.is_news(&name.to_string()));
        assert_eq!(news.count(), REMEMBERED_MAX);
        assert!(!authentication.is_news("0"));
    }
}
