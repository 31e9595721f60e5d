//! Secrecy of options: whose values may be shown.

/// Parts of names of options whose values are nobody's to see.
const SECRETS: [&str; 6] = ["password", "secret", "jaas", "token", "credential", "ssl.key"];

/// Settings of Kafka's client whose values tell no secret. A value of any other is hidden: a misspelt name of a secret is a secret.
const HARMLESS: [&str; 84] = [
    "acks",
    "allow.auto.create.topics",
    "api.version.fallback.ms",
    "api.version.request",
    "api.version.request.timeout.ms",
    "auto.commit.interval.ms",
    "auto.offset.reset",
    "batch.num.messages",
    "batch.size",
    "bootstrap.servers",
    "broker.address.family",
    "broker.address.ttl",
    "broker.version.fallback",
    "check.crcs",
    "client.dns.lookup",
    "client.id",
    "client.rack",
    "compression.codec",
    "compression.level",
    "compression.type",
    "connections.max.idle.ms",
    "debug",
    "delivery.timeout.ms",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.idempotence",
    "enable.partition.eof",
    "enable.ssl.certificate.verification",
    "fetch.error.backoff.ms",
    "fetch.max.bytes",
    "fetch.message.max.bytes",
    "fetch.min.bytes",
    "fetch.queue.backoff.ms",
    "fetch.wait.max.ms",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "heartbeat.interval.ms",
    "isolation.level",
    "linger.ms",
    "log_level",
    "max.in.flight",
    "max.in.flight.requests.per.connection",
    "max.partition.fetch.bytes",
    "max.poll.interval.ms",
    "message.copy.max.bytes",
    "message.max.bytes",
    "message.send.max.retries",
    "message.timeout.ms",
    "metadata.max.age.ms",
    "metadata.recovery.strategy",
    "partition.assignment.strategy",
    "partitioner",
    "queue.buffering.max.kbytes",
    "queue.buffering.max.messages",
    "queue.buffering.max.ms",
    "queued.max.messages.kbytes",
    "queued.min.messages",
    "receive.message.max.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.required.acks",
    "request.timeout.ms",
    "retries",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "sasl.kerberos.service.name",
    "sasl.mechanism",
    "sasl.mechanisms",
    "security.protocol",
    "session.timeout.ms",
    "socket.connection.setup.timeout.ms",
    "socket.keepalive.enable",
    "socket.nagle.disable",
    "socket.timeout.ms",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.location",
    "ssl.keystore.location",
    "statistics.interval.ms",
    "sticky.partitioning.linger.ms",
    "topic.metadata.refresh.interval.ms",
    "transaction.timeout.ms",
];

/// True if the value of an option must not be shown.
pub fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    match name.strip_prefix("kafka.") {
        Some(setting) => is_secret_setting(setting),
        None => SECRETS.iter().any(|part| name.contains(part)),
    }
}

/// True if the value of a setting of Kafka's client, named without `kafka.`, must not be shown.
pub fn is_secret_setting(setting: &str) -> bool {
    HARMLESS.binary_search(&setting).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_of_kafka_is_secret_unless_it_is_known_to_be_harmless() {
        assert!(HARMLESS.is_sorted());
        for name in [
            "kafka.sasl.password",
            "kafka.sasl.pasword",
            "kafka.sasl.jaas.config",
            "kafka.sasl.oauthbearer.config",
            "kafka.ssl.truststore.password",
            "kafka.ssl.key.pem",
            "KAFKA.SASL.Username",
            "password",
            "my.Token",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in ["kafka.bootstrap.servers", "kafka.Security.Protocol", "kafka.ssl.key.location", "path"] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
