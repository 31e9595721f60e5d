//! Goal: who waits for brokers is told what is missing, by its name, and why they do not answer. Method: librdkafka's own cluster in
//! memory, which forgets a topic by an error; a port that nobody listens at; one whose listener speaks no Kafka.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::RDKafkaRespErr;

use super::{DeadLetters, KafkaSink, KafkaSinkOptions, KafkaSource, KafkaSourceOptions, SinkFormat};
use crate::BatchId;
use crate::error::{Error, ErrorKind};
use crate::plan::OptionMap;

fn stream(more: &[(&str, &str)]) -> KafkaSourceOptions {
    let all = more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    KafkaSourceOptions::take(&mut OptionMap::new("s", all).unwrap()).unwrap()
}

fn told(error: &Error) -> String {
    format!("{error:?} {}", error.hint().unwrap_or_default())
}

#[test]
fn a_topic_to_write_to_that_is_not_there_is_named_before_a_query_starts() {
    let mock: MockCluster<'_, DefaultProducerContext> = MockCluster::new(1).unwrap();
    let servers = mock.bootstrap_servers();
    mock.create_topic("there", 1, 1).unwrap();
    mock.topic_error("nowhere", RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART).unwrap();
    let sink = |topic: &str| KafkaSinkOptions {
        client: vec![("bootstrap.servers".to_owned(), servers.clone())],
        topic: Some(topic.to_owned()),
        format: SinkFormat::Raw,
        key_fields: None,
        has_updates: false,
        transactional_id_prefix: None,
    };
    let letters = |topic: &str| {
        stream(&[("kafka.bootstrap.servers", &servers), ("subscribe", "there"), ("dead-letter.topic", topic)])
    };
    KafkaSink::check_topic(&sink("there")).unwrap();
    DeadLetters::check(&letters("there")).unwrap();
    let open = BatchId::FIRST;
    let began = Instant::now();
    for error in [
        KafkaSink::check_topic(&sink("nowhere")).unwrap_err(),
        KafkaSink::open(sink("nowhere"), None, open).map(drop).unwrap_err(),
        DeadLetters::check(&letters("nowhere")).unwrap_err(),
        DeadLetters::open(&letters("nowhere"), None, open).map(drop).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error:?}");
        assert_eq!(error.to_string(), "there is no topic 'nowhere' in Kafka to write to");
    }
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[test]
fn brokers_that_do_not_answer_are_named_with_the_reason() {
    // Nobody listens there any more.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let error = KafkaSource::check(&stream(&[("kafka.bootstrap.servers", &closed), ("subscribe", "t")]));
    let error = error.unwrap_err();
    let text = told(&error);
    assert!(text.contains(&closed) && text.contains("Connection refused"), "{text}");
    assert_eq!(error.kind(), ErrorKind::Unavailable);

    // A listener without TLS.
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = plain.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for connection in plain.incoming() {
            let Ok(mut connection) = connection else { return };
            let _ = connection.read(&mut [0; 64]);
            let _ = connection.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let began = Instant::now();
    let secured = stream(&[
        ("kafka.bootstrap.servers", &address),
        ("kafka.security.protocol", "SASL_SSL"),
        ("kafka.sasl.mechanism", "PLAIN"),
        ("kafka.sasl.username", "ann"),
        ("kafka.sasl.password", "hunter2"),
        ("subscribe", "t"),
    ]);
    let error = KafkaSource::check(&secured).unwrap_err();
    let text = told(&error);
    assert!(text.contains(&address) && text.contains("SSL handshake failed"), "{text}");
    assert!(text.contains("kafka.security.protocol") && !text.contains("hunter2"), "{text}");
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(began.elapsed() < Duration::from_secs(20), "waiting mends nothing: {:?}", began.elapsed());
}
