use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::settings_errors::refused_setting;
use crate::error::{Error, ErrorKind};

/// A client's configuration: defaults, then what the job sets, then what the engine relies on.
pub(super) fn config(
    defaults: &[(&str, &str)],
    client: &[(String, String)],
    fixed: &[(&str, &str)],
) -> ClientConfig {
    let mut config = ClientConfig::new();
    let given = client.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in defaults.iter().copied().chain(given).chain(fixed.iter().copied()) {
        config.set(name, value);
    }
    config
}

/// What Kafka refused, and on what.
pub(super) fn failed(what: &str, error: KafkaError) -> Error {
    if let KafkaError::ClientConfig(refused, words, name, value) = &error {
        return refused_setting(what, *refused, words, name, value);
    }
    let kind = match error.rdkafka_error_code() {
        Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
            ErrorKind::NotFound
        }
        Some(RDKafkaErrorCode::MessageSizeTooLarge) => ErrorKind::Invalid,
        Some(
            RDKafkaErrorCode::TopicAuthorizationFailed
            | RDKafkaErrorCode::ClusterAuthorizationFailed
            | RDKafkaErrorCode::TransactionalIdAuthorizationFailed,
        ) => ErrorKind::Denied,
        None => ErrorKind::Invalid,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, what.to_owned()).with_source(error)
}

/// Whether a client mends this by itself: it connects again, or asks who leads now, and goes on. These are the errors that Kafka's
/// protocol calls retriable, as far as questions and fetches have them.
pub(super) fn passes(error: &KafkaError) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        error.rdkafka_error_code(),
        Some(
            Code::AllBrokersDown
                | Code::BrokerTransportFailure
                | Code::Resolve
                | Code::OperationTimedOut
                | Code::RequestTimedOut
                | Code::NetworkException
                | Code::LeaderNotAvailable
                | Code::NotLeaderForPartition
                | Code::FencedLeaderEpoch
                | Code::UnknownLeaderEpoch
                | Code::ReplicaNotAvailable
                | Code::OffsetNotAvailable
                | Code::KafkaStorageError
                | Code::BrokerNotAvailable
                | Code::CoordinatorNotAvailable
                | Code::NotCoordinator
                | Code::CoordinatorLoadInProgress
        )
    )
}
