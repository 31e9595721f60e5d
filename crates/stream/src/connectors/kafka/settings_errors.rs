//! Errors of settings that Kafka's client (librdkafka) refuses, without values that nobody may see.

use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaConfRes;

use crate::error::{Error, invalid};
use crate::plan::is_secret_setting;

/// Shortest part of a secret that is looked for in a text, in bytes: a shorter one would be found in any words.
const PART_BYTES_MIN: usize = 4;

/// Settings of Java's client that have another name here.
const JAVA_SETTINGS: [(&str, &str); 3] = [
    ("sasl.jaas.config", "'kafka.sasl.username' and 'kafka.sasl.password' take its place"),
    ("ssl.truststore.", "'kafka.ssl.ca.location' takes its place: a file with certificates as PEM"),
    ("ssl.keystore.type", "'kafka.ssl.keystore.location' names a file of PKCS#12"),
];

/// The text without secret values of these settings, and without parts of them.
pub(super) fn hide_secrets(text: &str, client: &[(String, String)]) -> String {
    let secrets = client.iter().filter(|(name, _)| is_secret_setting(name));
    let mut parts: Vec<&str> = secrets.flat_map(|(_, value)| parts_of(value)).collect();
    // A whole value before its parts.
    parts.sort_by_key(|part| std::cmp::Reverse(part.len()));
    parts.into_iter().fold(text.to_owned(), |text, part| text.replace(part, "(hidden)"))
}

/// A value and the parts of it that the client may quote.
fn parts_of(value: &str) -> impl Iterator<Item = &str> {
    let parts = value.split(|c: char| c.is_whitespace() || c == ',');
    std::iter::once(value).chain(parts).filter(|part| part.len() >= PART_BYTES_MIN)
}

/// The error of a client that cannot be made with these settings.
pub(super) fn refused(what: &str, error: KafkaError, client: &[(String, String)]) -> Error {
    match error {
        KafkaError::ClientConfig(refused, words, name, value) => {
            refused_setting(what, refused, &words, &name, &value)
        }
        KafkaError::ClientCreation(words) => {
            invalid(what).with_source(invalid(hide_secrets(words.trim(), client)))
        }
        other => super::client::failed(what, other),
    }
}

/// The error of a setting that the client does not take.
pub(super) fn refused_setting(
    what: &str,
    refused: RDKafkaConfRes,
    words: &str,
    name: &str,
    value: &str,
) -> Error {
    let quotes = |part: &str| !part.is_empty() && words.contains(part);
    let is_told = is_secret_setting(name)
        && (quotes(value) || value.split(|c: char| c.is_whitespace() || c == ',').any(quotes));
    let reason = match refused {
        RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN => format!("Kafka's client has no setting '{name}'"),
        _ if is_told => format!("Kafka's client does not take the value of '{name}'"),
        _ => words.to_owned(),
    };
    let java = JAVA_SETTINGS.iter().find(|(begin, _)| name.starts_with(begin));
    let hint =
        java.map_or("the settings are those of librdkafka, each with 'kafka.' before it", |(_, hint)| hint);
    invalid(what).with_hint(hint).with_source(invalid(reason))
}

#[cfg(test)]
mod tests {
    use rdkafka::consumer::BaseConsumer;

    use super::*;
    use crate::connectors::kafka::client::config;

    #[test]
    fn no_secret_value_is_in_the_error_of_a_setting() {
        for (name, value, reason) in [
            ("sasl.jaas.config", "x required password=\"hunter2\";", "Java JAAS configuration"),
            ("ssl.truststore.password", "hunter2", "ssl.truststore.password"),
            ("sasl.pasword", "hunter2", "has no setting 'sasl.pasword'"),
            ("sasl.oauthbearer.config.x", "principal=hunter2", "has no setting"),
            ("ssl.key.pem", "hunter2", "ssl.key.pem"),
            ("enable.sasl.oauthbearer.unsecure.jwt", "hunter2", "enable.sasl.oauthbearer.unsecure.jwt"),
            ("queuing.strategy", "hunter2", "does not take the value of 'queuing.strategy'"),
            ("security.protocol", "TSL", "Invalid value \"TSL\""),
        ] {
            // A key is looked into where it is of use.
            let given = [("security.protocol", "ssl"), (name, value)];
            let client = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let made: Result<BaseConsumer, _> = config(&[], &client, &[]).create();
            let error = made.map(drop).unwrap_err();
            // Both ways to an error.
            for error in [
                refused("no client", error.clone(), &client),
                super::super::client::failed("no client", error),
            ] {
                let text = format!("{error:?} {:?}", error.hint());
                assert!(text.contains(reason) && !text.contains("hunter2"), "{name}: {text}");
            }
        }
    }

    #[test]
    fn what_the_client_quotes_of_a_secret_is_hidden() {
        let given = [
            ("sasl.oauthbearer.config", "principal=ann scope=x sekret=hunter2"),
            ("client.id", "Unrecognized"),
        ];
        let client = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let text = hide_secrets("Unrecognized sasl.oauthbearer.config beginning at: sekret=hunter2", &client);
        assert_eq!(text, "Unrecognized sasl.oauthbearer.config beginning at: (hidden)");
    }
}
