//! Words of Kafka's client (librdkafka) about its connections: why brokers do not answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::ClientContext;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::settings_errors::hide_secrets;
use crate::error::{Error, ErrorKind};

/// Longest words that are kept, in characters.
const WORDS_CHARS_MAX: usize = 500;

/// What the client said last of why it has no connection. Its calls fail with "Local: Broker transport failure" whatever the reason
/// is; that comes apart from them, as an event.
#[derive(Debug, Clone, Default)]
pub(super) struct Heard(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Settings of the client.
    client: Vec<(String, String)>,
    last: Mutex<Option<Words>>,
}

/// Words about a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Words {
    trouble: Trouble,
    /// With the broker's address, as the client says it.
    text: String,
}

/// Kinds of trouble, those that tell more last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    /// Something that a call says itself, or that all brokers are away.
    Other,
    /// Nobody listens, or the connection broke.
    Connection,
    /// The name of a host is not known.
    Name,
    /// The two sides do not agree on TLS.
    Tls,
    /// The broker does not accept the user.
    Authentication,
}

impl Heard {
    /// Of a client with these settings.
    pub fn of(client: &[(String, String)]) -> Self {
        Self(Arc::new(Inner { client: client.to_vec(), last: Mutex::default() }))
    }

    /// Forgets what it heard: brokers have answered.
    pub fn forget(&self) {
        *self.last() = None;
    }

    /// The words, if there are any.
    pub fn words(&self) -> Option<String> {
        self.last().as_ref().map(|words| words.text.clone())
    }

    /// True if waiting will not help: what was heard stays so until somebody changes the job or the brokers.
    pub fn is_final(&self) -> bool {
        self.last().as_ref().is_some_and(|words| words.trouble >= Trouble::Tls)
    }

    /// The error of brokers that do not answer, with what was heard.
    pub fn no_answer(&self, error: KafkaError) -> Error {
        let servers = self.0.client.iter().find(|(name, _)| name == "bootstrap.servers");
        let servers = servers.map_or("", |(_, servers)| servers.as_str());
        let Some(Words { trouble, text }) = self.last().clone() else {
            let error = super::client::failed(&format!("no answer from Kafka at '{servers}'"), error);
            return error.with_hint("start the brokers, or mend 'kafka.bootstrap.servers'");
        };
        let (kind, hint) = match trouble {
            Trouble::Authentication => (
                ErrorKind::Denied,
                "mend 'kafka.sasl.mechanism', 'kafka.sasl.username' and 'kafka.sasl.password'",
            ),
            Trouble::Tls => (
                ErrorKind::Denied,
                "'kafka.ssl.ca.location' names a file with the certificates that the brokers' are signed with, and \
                 'kafka.security.protocol' is SSL or SASL_SSL only for a port that speaks TLS",
            ),
            Trouble::Name | Trouble::Connection | Trouble::Other => {
                (ErrorKind::Unavailable, "start the brokers, or mend 'kafka.bootstrap.servers'")
            }
        };
        Error::new(kind, format!("no answer from Kafka at '{servers}': {text}"))
            .with_hint(hint)
            .with_source(error)
    }

    fn hear(&self, error: &KafkaError, reason: &str) {
        use RDKafkaErrorCode as Code;
        let trouble = match error.rdkafka_error_code() {
            Some(Code::Authentication | Code::SaslAuthenticationFailed) => Trouble::Authentication,
            Some(Code::SSL) => Trouble::Tls,
            Some(Code::Resolve) => Trouble::Name,
            Some(Code::BrokerTransportFailure) => Trouble::Connection,
            _ => Trouble::Other,
        };
        let text = hide_secrets(reason, &self.0.client).chars().take(WORDS_CHARS_MAX).collect();
        let mut last = self.last();
        if last.as_ref().is_none_or(|last| last.trouble <= trouble) {
            *last = Some(Words { trouble, text });
        }
    }

    fn last(&self) -> MutexGuard<'_, Option<Words>> {
        self.0.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientContext for Heard {
    fn error(&self, error: KafkaError, reason: &str) {
        self.hear(&error, reason);
    }
}

impl ConsumerContext for Heard {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_that_tell_most_are_given_with_the_address_and_without_secrets() {
        let given = [("bootstrap.servers", "h:1,h:2"), ("sasl.password", "hunter2")];
        let heard = Heard::of(&given.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let failed = || KafkaError::MetadataFetch(RDKafkaErrorCode::BrokerTransportFailure);
        let error = heard.no_answer(failed());
        assert_eq!(error.to_string(), "no answer from Kafka at 'h:1,h:2'");
        for (code, reason) in [
            (
                RDKafkaErrorCode::BrokerTransportFailure,
                "h:2/bootstrap: Connect to ipv4#1.2.3.4:2 failed: refused",
            ),
            (RDKafkaErrorCode::Authentication, "h:1/bootstrap: SASL failed for 'hunter2'"),
            (RDKafkaErrorCode::AllBrokersDown, "2/2 brokers are down"),
        ] {
            heard.error(KafkaError::Global(code), reason);
        }
        let error = heard.no_answer(failed());
        assert_eq!(
            error.to_string(),
            "no answer from Kafka at 'h:1,h:2': h:1/bootstrap: SASL failed for '(hidden)'"
        );
        assert!(error.kind() == ErrorKind::Denied && heard.is_final());
        heard.forget();
        assert!(!heard.is_final());
    }
}
