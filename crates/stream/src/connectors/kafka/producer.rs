use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode, RDKafkaErrorCode as Code};
use rdkafka::message::{BorrowedMessage, Header, Message as _, OwnedHeaders};
use rdkafka::metadata::MetadataTopic;
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer as _, ProducerContext, ThreadedProducer};

use super::client::{config, failed, passes};
use super::heard::Heard;
use super::record_size::{record_bytes, record_bytes_max, record_name};
use super::settings_errors::refused;
use super::transactions::Transactions;
use crate::BatchId;
use crate::error::{Error, ErrorKind, Result, invalid};

/// How long a write waits for room in the client's queue.
const ROOM_MAX: Duration = Duration::from_secs(300);
/// Time that brokers may take to say that a topic is there.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Time of one such question.
const ASK_MAX: Duration = Duration::from_secs(5);
/// Time in which brokers make a topic of themselves, if they do.
const MADE_MAX: Duration = Duration::from_secs(3);
/// Pause before the next such question.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Advice for a record that the client does not take.
const TOO_LARGE: &str = "'kafka.message.max.bytes' of the sink, and 'max.message.bytes' of its topic, limit a record; \
                         'failing-rows' of the stream says what becomes of one whose row no step keeps";
/// Advice for a batch of records that brokers do not take.
const TOO_LARGE_FOR_TOPIC: &str = "the topic's 'max.message.bytes' limits a record, and a batch of them, too: enlarge it, or lessen \
                                   'kafka.batch.size' of the sink if it is a batch of small records";

/// Settings of a producer that a job may change, of one that sends updates of groups or of another one.
pub(super) fn producer_defaults(has_updates: bool) -> [(&'static str, &'static str); 6] {
    [
        // Keys go to the partitions that Java's client puts them in.
        ("partitioner", "murmur2_random"),
        ("enable.idempotence", "true"),
        ("acks", "all"),
        // A request on its way gathers the records for the next one: batches grow with the rate. A request has records of one
        // partition: those without keys wait for each other to go to the same one, which updates cannot.
        ("linger.ms", if has_updates { "0" } else { "1" }),
        ("sticky.partitioning.linger.ms", "1"),
        ("max.in.flight.requests.per.connection", "1"),
    ]
}

/// Records that are on their way, each known by its epoch, and one that could not be delivered.
///
/// An epoch begins when the one before the last is acknowledged whole, so that two counts are enough: that of even epochs and
/// that of odd ones. Records with a number beyond them are not counted.
#[derive(Debug, Default)]
struct Deliveries {
    on_their_way: [AtomicU64; 2],
    /// True if one could not be delivered: what is asked before each record takes no lock.
    has_failed: AtomicBool,
    failure: Mutex<Option<Failure>>,
}

/// A record that could not be delivered: the first, or of those that came with it and are too large the largest.
#[derive(Debug, Clone)]
struct Failure {
    error: KafkaError,
    record: String,
    value_bytes: usize,
}

impl Deliveries {
    fn fail(&self, error: &KafkaError, record: &BorrowedMessage<'_>) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let value_bytes = record.payload_len();
        let is_told = failure.as_ref().is_some_and(|told| {
            let is_same = told.error.rdkafka_error_code() == error.rdkafka_error_code();
            !is_too_large(error) || !is_same || told.value_bytes >= value_bytes
        });
        if !is_told {
            let record = record_name(record.topic(), record.key(), record.payload());
            *failure = Some(Failure { error: error.clone(), record, value_bytes });
        }
        self.has_failed.store(true, Ordering::Release);
    }

    fn failure(&self) -> Option<Failure> {
        if !self.has_failed.load(Ordering::Acquire) {
            return None;
        }
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What a producer hears: which records are delivered, and why brokers do not answer.
#[derive(Clone)]
pub(super) struct Context {
    deliveries: Arc<Deliveries>,
    heard: Heard,
    /// Most bytes of a record.
    record_bytes_max: usize,
}

impl Context {
    /// Of a producer with these settings.
    pub fn of(client: &[(String, String)]) -> Self {
        Self {
            deliveries: Arc::default(),
            heard: Heard::of(client),
            record_bytes_max: record_bytes_max(client),
        }
    }
}

impl ClientContext for Context {
    fn error(&self, error: KafkaError, reason: &str) {
        self.heard.error(error, reason);
    }
}

impl ProducerContext for Context {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, parity: usize) {
        if let Err((error, record)) = result {
            // A record that failed stays on its way, so that its epoch is never acknowledged.
            self.deliveries.fail(error, record);
            return;
        }
        let Some(on_their_way) = self.deliveries.on_their_way.get(parity) else { return };
        let before = on_their_way.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "more records were delivered than sent");
    }
}

/// A producer that sends at once and knows which epochs the brokers have.
pub(super) struct Producer {
    client: Arc<ThreadedProducer<Context>>,
    /// Transactions, if it has such.
    transactions: Option<Transactions>,
    deliveries: Arc<Deliveries>,
    open: BatchId,
    /// The epoch that ended last, and whether it was found acknowledged.
    ended: Option<BatchId>,
    acknowledged: Option<BatchId>,
}

/// A record to send.
pub(super) struct Outgoing<'a> {
    pub topic: &'a str,
    pub partition: Option<i32>,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: &'a [(&'a str, &'a str)],
}

/// Checks that a producer can be made with these settings, and that its topic is there.
///
/// # Errors
/// As [`Producer::new`] and [`Producer::check_topic`].
pub(super) fn check(client: &[(String, String)], topic: Option<&str>) -> Result<()> {
    let producer = Producer::new(client, false, BatchId::FIRST)?;
    topic.map_or(Ok(()), |topic| producer.check_topic(topic))
}

/// The error of a producer that cannot be made with these settings.
pub(super) fn wrong_settings(error: KafkaError, client: &[(String, String)]) -> Error {
    refused("cannot make a producer of Kafka with these options", error, client)
}

impl Producer {
    /// A producer for the epochs from `open` on, of updates of groups or of other records.
    pub fn new(client: &[(String, String)], has_updates: bool, open: BatchId) -> Result<Self> {
        let context = Context::of(client);
        let deliveries = Arc::clone(&context.deliveries);
        let made = config(&producer_defaults(has_updates), client, &[]).create_with_context(context);
        let client = Arc::new(made.map_err(|error| wrong_settings(error, client))?);
        Ok(Self { client, transactions: None, deliveries, open, ended: None, acknowledged: None })
    }

    /// A producer whose records are in transactions. All producers of the same transactions count their records together, so
    /// that an epoch is acknowledged by all or by none.
    pub fn transactional(transactions: Transactions, open: BatchId) -> Self {
        let (client, deliveries) =
            (Arc::clone(&transactions.client), Arc::clone(&transactions.context.deliveries));
        Self { client, transactions: Some(transactions), deliveries, open, ended: None, acknowledged: None }
    }

    /// Checks that the client takes a record of this size.
    ///
    /// # Errors
    /// `Invalid` if not.
    pub fn check_size(&self, record: &Outgoing<'_>) -> Result<()> {
        let (bytes, bytes_max) = (record_bytes(record), self.client.context().record_bytes_max);
        if bytes <= bytes_max {
            return Ok(());
        }
        let name = record_name(record.topic, record.key, record.value);
        Err(invalid(format!("{name} is too large: {bytes} bytes, at most {bytes_max} are sent"))
            .with_hint(TOO_LARGE))
    }

    /// Most bytes of a record.
    pub fn record_bytes_max(&self) -> usize {
        self.client.context().record_bytes_max
    }

    pub fn send(&self, record: &Outgoing<'_>) -> Result<()> {
        self.check()?;
        self.check_size(record)?;
        if let Some(transactions) = &self.transactions {
            transactions.ensure_open()?;
        }
        let parity = parity(self.open);
        let mut message = BaseRecord::with_opaque_to(record.topic, parity);
        message.key = record.key;
        message.payload = record.value;
        message.partition = record.partition;
        if !record.headers.is_empty() {
            let headers = record.headers.iter().fold(OwnedHeaders::new(), |headers, (key, value)| {
                headers.insert(Header { key, value: Some(*value) })
            });
            message = message.headers(headers);
        }
        self.deliveries.on_their_way[parity].fetch_add(1, Ordering::AcqRel);
        let deadline = Instant::now() + ROOM_MAX;
        loop {
            match self.client.send(message) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back))
                    if Instant::now() < deadline =>
                {
                    self.check()?;
                    message = back;
                    std::thread::sleep(LOOK_EVERY);
                }
                Err((error, _)) => {
                    let what = format!("cannot send to topic '{}'", record.topic);
                    return Err(match &self.transactions {
                        Some(transactions) => transactions.failure(&what, error),
                        None => failed(&what, error),
                    });
                }
            }
        }
    }

    pub fn barrier(&mut self, batch: BatchId) -> Result<()> {
        self.check()?;
        assert!(batch == self.open, "epoch {batch} ends while {} is open", self.open);
        self.open = batch.next();
        let left = self.deliveries.on_their_way[parity(self.open)].load(Ordering::Acquire);
        assert!(left == 0, "{left} records of the epoch before {batch} were never acknowledged");
        self.ended = Some(batch);
        Ok(())
    }

    pub fn acknowledged(&mut self) -> Result<Option<BatchId>> {
        self.check()?;
        if let Some(batch) = self.ended
            && self.deliveries.on_their_way[parity(batch)].load(Ordering::Acquire) == 0
        {
            self.acknowledged = Some(batch);
            self.ended = None;
        }
        Ok(self.acknowledged)
    }

    fn check(&self) -> Result<()> {
        let Some(Failure { error, record, .. }) = self.deliveries.failure() else {
            return Ok(());
        };
        let what = format!("{record} could not be delivered");
        let is_too_large = is_too_large(&error);
        if let Some(transactions) = &self.transactions {
            let found = transactions.failure(&what, error);
            return Err(if is_too_large { found.with_hint(TOO_LARGE_FOR_TOPIC) } else { found });
        }
        let mut found = failed(&what, error.clone());
        if passes_in_time(&error) {
            let words = self.client.context().heard.words();
            let what = words.map_or(what.clone(), |words| format!("{what}: {words}"));
            found = Error::new(ErrorKind::Unavailable, what).with_source(error);
        }
        Err(found.with_hint(if is_too_large {
            TOO_LARGE_FOR_TOPIC
        } else {
            "start the query again: it goes on from its last checkpoint"
        }))
    }

    /// Checks that a topic is there. Brokers that make topics of themselves make it.
    ///
    /// # Errors
    /// `NotFound` if it is not; as brokers that do not answer.
    pub fn check_topic(&self, topic: &str) -> Result<()> {
        let (begun, heard) = (Instant::now(), &self.client.context().heard);
        loop {
            let error = match self.client.client().fetch_metadata(Some(topic), ASK_MAX) {
                Ok(metadata) => {
                    let found = metadata.topics().iter().find(|found| found.name() == topic);
                    match found.and_then(MetadataTopic::error).map(RDKafkaErrorCode::from) {
                        None => return Ok(()),
                        Some(code)
                            if begun.elapsed() < MADE_MAX && passes(&KafkaError::MetadataFetch(code)) =>
                        {
                            KafkaError::MetadataFetch(code)
                        }
                        Some(Code::UnknownTopicOrPartition | Code::UnknownTopic)
                            if begun.elapsed() < MADE_MAX =>
                        {
                            KafkaError::MetadataFetch(RDKafkaErrorCode::LeaderNotAvailable)
                        }
                        Some(Code::UnknownTopicOrPartition | Code::UnknownTopic) => {
                            let text = format!("there is no topic '{topic}' in Kafka to write to");
                            return Err(Error::new(ErrorKind::NotFound, text)
                                .with_hint("create it, or mend its name"));
                        }
                        Some(code) => {
                            let what = format!("cannot write to the topic '{topic}'");
                            return Err(failed(&what, KafkaError::MetadataFetch(code)));
                        }
                    }
                }
                Err(error) => error,
            };
            if !passes(&error) || heard.is_final() || begun.elapsed() >= ANSWER_MAX {
                return Err(heard.no_answer(error));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

/// True for an error of a record, or of a batch of them, that is larger than the topic takes.
fn is_too_large(error: &KafkaError) -> bool {
    error.rdkafka_error_code() == Some(RDKafkaErrorCode::MessageSizeTooLarge)
}

/// True for an error of a record that was not sent in time: why not is said elsewhere.
fn passes_in_time(error: &KafkaError) -> bool {
    passes(error) || error.rdkafka_error_code() == Some(RDKafkaErrorCode::MessageTimedOut)
}

/// True if a younger producer of the same transactional id has fenced this one.
pub(super) fn is_fenced(client: &ThreadedProducer<Context>, error: &KafkaError) -> bool {
    let fatal = client.client().fatal_error().map(|(code, _)| code);
    [error.rdkafka_error_code(), fatal]
        .into_iter()
        .flatten()
        .any(|code| matches!(code, Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch))
}

/// Which of the two counts an epoch has.
fn parity(batch: BatchId) -> usize {
    usize::from(batch.0 % 2 == 1)
}
