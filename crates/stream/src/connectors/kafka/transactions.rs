use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{BaseRecord, Producer as _, ThreadedProducer};
use rdkafka::{Offset, TopicPartitionList};

use super::KafkaSinkOptions;
use super::client::{config, failed};
use super::producer::{Context, PRODUCER_DEFAULTS, is_fenced};
use crate::checkpoint::OutputMarker;
use crate::error::{Error, ErrorKind, Result, corrupt, invalid};

/// Time that brokers may take to fence an older process and to settle its transaction.
const INIT_MAX: Duration = Duration::from_secs(120);
/// Wait of one call of a commit.
const COMMIT_CALL_MAX: Duration = Duration::from_secs(10);
/// Time for which the call is repeated; after that its outcome is in doubt.
const COMMIT_MAX: Duration = Duration::from_secs(120);
/// Time that a part of the control topic may take to be read.
const READ_MAX: Duration = Duration::from_secs(60);
/// Wait of a poll.
const POLL_MAX: Duration = Duration::from_millis(100);
/// Offsets of the control topic that are read first, from its end on back; ten times as many follow if no marker is among them.
const TAIL_FIRST: i64 = 1000;
/// Time that a transaction may be open beyond the interval of checkpoints.
const TIMEOUT_ROOM_MS: i64 = 60_000;
/// Longest time that brokers let a transaction be open, unless they are told otherwise.
const TIMEOUT_MAX_MS: i64 = 900_000;
/// Key of the markers.
const MARKER_KEY: &str = "committed";
/// Opaque of records that no epoch counts.
const UNCOUNTED: usize = 2;

/// The transactions of a query's output, one after another, of a producer that has fenced all before it.
#[derive(Clone)]
pub struct Transactions {
    pub(super) context: Context,
    pub(super) client: Arc<ThreadedProducer<Context>>,
    id: Arc<str>,
    control_topic: Arc<str>,
    is_open: Arc<AtomicBool>,
}

/// Outcome of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitOutcome {
    /// The transaction is committed.
    Committed,
    /// A younger process has fenced this one: nothing was committed.
    Fenced,
    /// It may be committed or not.
    InDoubt,
}

/// Checks that transactions can be as long as the time between two checkpoints.
///
/// # Errors
/// `Invalid` if not.
pub fn check_interval(options: &KafkaSinkOptions, interval_ms: i64) -> Result<()> {
    let set = options.client.iter().find(|(name, _)| name == "transaction.timeout.ms");
    let timeout_ms = match set {
        None => TIMEOUT_MAX_MS,
        Some((name, value)) => value
            .parse()
            .map_err(|_| invalid(format!("the option 'kafka.{name}' is '{value}', expected milliseconds")))?,
    };
    if interval_ms < timeout_ms {
        return Ok(());
    }
    Err(invalid(format!(
        "checkpoints each {interval_ms} ms, but a transaction ends with one and may be open for {timeout_ms} ms"
    ))
    .with_hint("lessen 'execution.checkpointing.interval', or set 'kafka.transaction.timeout.ms'"))
}

impl Transactions {
    /// Fences older processes of the query, settles what they left open, and then says which transaction is the last that is
    /// committed.
    ///
    /// # Errors
    /// `Invalid` for options that Kafka's client refuses; if brokers do not answer.
    pub fn begin(
        options: &KafkaSinkOptions,
        prefix: &str,
        query_id: &str,
        interval_ms: i64,
    ) -> Result<(Self, Option<OutputMarker>)> {
        let id = format!("{prefix}-{query_id}");
        let control_topic = format!("{id}-control");
        create_control_topic(options, &control_topic)?;
        let timeout = interval_ms.saturating_add(TIMEOUT_ROOM_MS).min(TIMEOUT_MAX_MS).to_string();
        let mut defaults = PRODUCER_DEFAULTS.to_vec();
        defaults.push(("transaction.timeout.ms", &timeout));
        let fixed = [("transactional.id", id.as_str()), ("enable.idempotence", "true"), ("acks", "all")];
        let context = Context::default();
        let made = config(&defaults, &options.client, &fixed).create_with_context(context.clone());
        let client: ThreadedProducer<Context> =
            made.map_err(|error| failed("cannot make a producer of Kafka with these options", error))?;
        let begun = client.init_transactions(INIT_MAX);
        begun.map_err(|error| failed(&format!("cannot begin transactions of '{id}'"), error))?;
        let committed = last_marker(options, &control_topic)?;
        let transactions = Self {
            context,
            client: Arc::new(client),
            id: id.into(),
            control_topic: control_topic.into(),
            is_open: Arc::default(),
        };
        Ok((transactions, committed))
    }

    /// Transactional id of the query.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// True if one is open.
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Begins one, if none is open.
    pub(super) fn ensure_open(&self) -> Result<()> {
        if self.is_open() {
            return Ok(());
        }
        let begun = self.client.begin_transaction();
        begun.map_err(|error| failed_or_fenced("cannot begin a transaction", error))?;
        self.is_open.store(true, Ordering::Release);
        Ok(())
    }

    /// Commits the open transaction with its marker in it. It waits for brokers.
    ///
    /// # Errors
    /// If it was not committed, and will not be.
    pub fn commit(&self, marker: OutputMarker) -> Result<CommitOutcome> {
        let content = serde_json::to_vec(&marker).map_err(|error| corrupt("a marker").with_source(error))?;
        let record =
            BaseRecord::with_opaque_to(&self.control_topic, UNCOUNTED).key(MARKER_KEY).payload(&content);
        match self.client.send(record) {
            Err((error, _)) if is_fenced(&self.client, &error) => return Ok(CommitOutcome::Fenced),
            Err((error, _)) => return Err(failed("cannot send the marker of a transaction", error)),
            Ok(()) => {}
        }
        let deadline = Instant::now() + COMMIT_MAX;
        loop {
            let error = match self.client.commit_transaction(COMMIT_CALL_MAX) {
                Ok(()) => {
                    self.is_open.store(false, Ordering::Release);
                    return Ok(CommitOutcome::Committed);
                }
                Err(error) => error,
            };
            if is_fenced(&self.client, &error) {
                // Brokers fence before they commit, but an answer that was lost may have been a yes.
                return Ok(CommitOutcome::Fenced);
            }
            match &error {
                KafkaError::Transaction(told) if told.txn_requires_abort() => {
                    return Err(failed("a transaction cannot be committed", error)
                        .with_hint("start the query again: it goes on from its last checkpoint"));
                }
                // The same call again: an abort could strike what is committed.
                _ if Instant::now() < deadline => {}
                _ => return Ok(CommitOutcome::InDoubt),
            }
        }
    }
}

/// The error of a producer that a younger process has fenced, or another one.
pub(super) fn failed_or_fenced(what: &str, error: KafkaError) -> Error {
    match error.rdkafka_error_code() {
        Some(
            RDKafkaErrorCode::Fenced
            | RDKafkaErrorCode::ProducerFenced
            | RDKafkaErrorCode::InvalidProducerEpoch,
        ) => fenced().with_source(error),
        _ => failed(what, error),
    }
}

/// The error of a process whose producer is fenced.
pub(super) fn fenced() -> Error {
    Error::new(
        ErrorKind::Conflict,
        "another process has taken the query over, or a transaction was open for too long: Kafka takes no more output of this one",
    )
    .with_hint("run one process for a checkpoint; after a long pause start the query again, it goes on from its last checkpoint")
}

fn create_control_topic(options: &KafkaSinkOptions, name: &str) -> Result<()> {
    let admin: AdminClient<DefaultClientContext> = config(&[], &options.client, &[])
        .create()
        .map_err(|error| failed("cannot make a client of Kafka with these options", error))?;
    // A compacted topic keeps the last marker for ever; small segments keep it short.
    let topic = NewTopic::new(name, 1, TopicReplication::Fixed(-1))
        .set("cleanup.policy", "compact")
        .set("segment.bytes", "16777216");
    let made = futures::executor::block_on(admin.create_topics([&topic], &AdminOptions::new()));
    for result in made.map_err(|error| failed("cannot create the control topic", error))? {
        match result {
            Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((_, code)) => {
                return Err(failed(
                    &format!("cannot create the control topic '{name}'"),
                    KafkaError::AdminOp(code),
                ));
            }
        }
    }
    Ok(())
}

/// The last marker of a topic whose writers are settled.
fn last_marker(options: &KafkaSinkOptions, topic: &str) -> Result<Option<OutputMarker>> {
    let fixed = [
        ("group.id", "yeoul-unused"),
        ("enable.auto.commit", "false"),
        ("isolation.level", "read_committed"),
        ("enable.partition.eof", "true"),
        ("auto.offset.reset", "error"),
    ];
    // Only what connects: a consumer warns of settings of producers.
    let connects = |name: &str| {
        ["bootstrap.", "security.", "ssl.", "sasl.", "socket."].iter().any(|begin| name.starts_with(begin))
    };
    let client: Vec<_> = options.client.iter().filter(|(name, _)| connects(name)).cloned().collect();
    let consumer: BaseConsumer = config(&[], &client, &fixed)
        .create()
        .map_err(|error| failed("cannot make a consumer of Kafka with these options", error))?;
    let cannot = |error| failed(&format!("cannot read the control topic '{topic}'"), error);
    let deadline = Instant::now() + READ_MAX;
    let (low, high) = loop {
        match consumer.fetch_watermarks(topic, 0, READ_MAX) {
            Ok(bounds) => break bounds,
            // It was made just now.
            Err(_) if Instant::now() < deadline => std::thread::sleep(POLL_MAX),
            Err(error) => return Err(cannot(error)),
        }
    };
    let mut tail = TAIL_FIRST;
    loop {
        let from = high.saturating_sub(tail).max(low);
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, 0, Offset::Offset(from)).map_err(cannot)?;
        consumer.assign(&list).map_err(cannot)?;
        if let Some(marker) = last_of(&consumer, &cannot)? {
            return Ok(Some(marker));
        }
        if from == low {
            return Ok(None);
        }
        tail = tail.saturating_mul(10);
    }
}

/// The last marker from where a consumer is to the end.
fn last_of(consumer: &BaseConsumer, cannot: &dyn Fn(KafkaError) -> Error) -> Result<Option<OutputMarker>> {
    let (mut last, deadline) = (None, Instant::now() + READ_MAX);
    loop {
        match consumer.poll(POLL_MAX) {
            Some(Ok(message)) => {
                let read = serde_json::from_slice(message.payload().unwrap_or_default());
                last = Some(read.map_err(|error| {
                    corrupt(format!("record {} of '{}' is not a marker", message.offset(), message.topic()))
                        .with_source(error)
                })?);
            }
            Some(Err(KafkaError::PartitionEOF(_))) => return Ok(last),
            Some(Err(error)) if !super::client::passes(&error) => return Err(cannot(error)),
            _ if Instant::now() < deadline => {}
            _ => return Err(cannot(KafkaError::MessageConsumption(RDKafkaErrorCode::OperationTimedOut))),
        }
    }
}
