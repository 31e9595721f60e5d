use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{
    BaseProducer, BaseRecord, DeliveryResult, Producer as _, ProducerContext, ThreadedProducer,
};

use super::client::{config, failed};
use super::transactions::Transactions;
use crate::BatchId;
use crate::error::{Error, ErrorKind, Result};

/// How long a write waits for room in the client's queue.
const ROOM_MAX: Duration = Duration::from_secs(300);
/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Settings of a producer that a job may change.
pub(super) const PRODUCER_DEFAULTS: [(&str, &str); 6] = [
    // Keys go to the partitions that Java's client puts them in.
    ("partitioner", "murmur2_random"),
    ("enable.idempotence", "true"),
    ("acks", "all"),
    // A request on its way gathers the records for the next one: batches grow with the rate.
    ("linger.ms", "1"),
    ("sticky.partitioning.linger.ms", "1"),
    ("max.in.flight.requests.per.connection", "1"),
];

/// Records that are on their way, each known by its epoch, and the first that could not be delivered.
///
/// An epoch begins when the one before the last is acknowledged whole, so that two counts are enough: that of even epochs and
/// that of odd ones. Records with a number beyond them are not counted.
#[derive(Debug, Default)]
struct Deliveries {
    on_their_way: [AtomicU64; 2],
    failure: OnceLock<KafkaError>,
}

#[derive(Clone, Default)]
pub(super) struct Context(Arc<Deliveries>);

impl ClientContext for Context {}

impl ProducerContext for Context {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, parity: usize) {
        if let Err((error, _)) = result {
            // A record that failed stays on its way, so that its epoch is never acknowledged.
            let _ = self.0.failure.set(error.clone());
            return;
        }
        let Some(on_their_way) = self.0.on_their_way.get(parity) else { return };
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

/// Checks that a producer can be made with these settings.
pub(super) fn check_settings(client: &[(String, String)]) -> Result<()> {
    let made: Result<BaseProducer, KafkaError> = config(&PRODUCER_DEFAULTS, client, &[]).create();
    made.map(drop).map_err(wrong_settings)
}

fn wrong_settings(error: KafkaError) -> Error {
    failed("cannot make a producer of Kafka with these options", error)
}

impl Producer {
    /// A producer for the epochs from `open` on.
    pub fn new(client: &[(String, String)], open: BatchId) -> Result<Self> {
        let context = Context::default();
        let deliveries = Arc::clone(&context.0);
        let made = config(&PRODUCER_DEFAULTS, client, &[]).create_with_context(context);
        let client = Arc::new(made.map_err(wrong_settings)?);
        Ok(Self { client, transactions: None, deliveries, open, ended: None, acknowledged: None })
    }

    /// A producer whose records are in transactions. All producers of the same transactions count their records together, so
    /// that an epoch is acknowledged by all or by none.
    pub fn transactional(transactions: Transactions, open: BatchId) -> Self {
        let (client, deliveries) = (Arc::clone(&transactions.client), Arc::clone(&transactions.context.0));
        Self { client, transactions: Some(transactions), deliveries, open, ended: None, acknowledged: None }
    }

    pub fn send(&self, record: &Outgoing<'_>) -> Result<()> {
        self.check()?;
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
        let Some(error) = self.deliveries.failure.get() else { return Ok(()) };
        let what = "a record could not be delivered to Kafka";
        Err(match &self.transactions {
            Some(transactions) => transactions.failure(what, error.clone()),
            None => Error::new(ErrorKind::Unavailable, what)
                .with_hint("start the query again: it goes on from its last checkpoint")
                .with_source(error.clone()),
        })
    }
}

/// True if a younger producer of the same transactional id has fenced this one.
pub(super) fn is_fenced(client: &ThreadedProducer<Context>, error: &KafkaError) -> bool {
    use RDKafkaErrorCode as Code;
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
