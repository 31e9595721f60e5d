use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseRecord, Producer as _, ThreadedProducer};

use super::KafkaSinkOptions;
use super::client::{config, failed};
use super::control_topic;
use super::producer::{Context, is_fenced, producer_defaults, wrong_settings};
use crate::checkpoint::OutputMarker;
use crate::error::{Error, ErrorKind, Result, corrupt, invalid};

/// Time that brokers may take to fence an older process and to settle its transaction.
const INIT_MAX: Duration = Duration::from_secs(120);
/// Wait of one call of a commit.
const COMMIT_CALL_MAX: Duration = Duration::from_secs(10);
/// Time for which the call is repeated; after that its outcome is in doubt.
const COMMIT_MAX: Duration = Duration::from_secs(120);
/// Pause between two such calls.
const COMMIT_AGAIN: Duration = Duration::from_millis(20);
/// How often a commit looks whether its marker is delivered.
const LOOK_EVERY: Duration = Duration::from_micros(500);
/// Time that a transaction may be open beyond the interval of checkpoints.
const TIMEOUT_ROOM_MS: i64 = 60_000;
/// Longest time that brokers let a transaction be open, unless they are told otherwise.
const TIMEOUT_MAX_MS: i64 = 900_000;
/// Key of the markers.
const MARKER_KEY: &str = "committed";
/// Opaque of records that no epoch counts.
const UNCOUNTED: usize = 2;
/// Advice for a query whose transaction is lost.
const START_AGAIN: &str =
    "start the query again: it asks Kafka what is committed, and goes on without loss or repeat";

/// The transactions of a query's output, one after another, of a producer that has fenced all before it.
#[derive(Clone)]
pub struct Transactions {
    pub(super) context: Context,
    pub(super) client: Arc<ThreadedProducer<Context>>,
    id: Arc<str>,
    control_topic: Arc<str>,
    /// Time for which brokers let a transaction be open.
    timeout: Duration,
    state: Arc<State>,
}

/// State of the transactions, which the threads of a query share.
struct State {
    made: Instant,
    /// Milliseconds from then, and one, to when the open transaction began; 0 if none is open.
    opened_ms: AtomicU64,
    /// Set once the open one failed in a way that a new producer mends.
    can_begin_anew: AtomicBool,
}

/// Outcome of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitOutcome {
    /// The transaction is committed.
    Committed,
    /// It may be committed or not.
    InDoubt,
}

/// Checks that transactions can be as long as the time between two checkpoints.
///
/// # Errors
/// `Invalid` if not.
pub fn check_interval(options: &KafkaSinkOptions, interval_ms: i64) -> Result<()> {
    let timeout_ms = timeout_ms(options)?.unwrap_or(TIMEOUT_MAX_MS);
    if interval_ms < timeout_ms {
        return Ok(());
    }
    Err(invalid(format!(
        "checkpoints each {interval_ms} ms, but a transaction ends with one and may be open for {timeout_ms} ms"
    ))
    .with_hint("lessen 'execution.checkpointing.interval', or set 'kafka.transaction.timeout.ms'"))
}

/// The timeout of transactions that a job sets.
fn timeout_ms(options: &KafkaSinkOptions) -> Result<Option<i64>> {
    let set = options.client.iter().find(|(name, _)| name == "transaction.timeout.ms");
    let wrong = |(name, value): &(String, String)| {
        invalid(format!("the option 'kafka.{name}' is '{value}', expected milliseconds"))
    };
    set.map(|set| set.1.parse().ok().filter(|ms| *ms > 0).ok_or_else(|| wrong(set))).transpose()
}

/// The transactional id of a query.
pub fn transactional_id(prefix: &str, query_id: &str) -> String {
    format!("{prefix}-{query_id}")
}

impl Transactions {
    /// Fences older processes of the query, settles what they left open, and then says which transaction is the last that is
    /// committed.
    ///
    /// # Errors
    /// `Invalid` for options that Kafka's client refuses; `Conflict` if another process fenced this one meanwhile; if brokers do not
    /// answer.
    pub fn begin(
        options: &KafkaSinkOptions,
        prefix: &str,
        query_id: &str,
        interval_ms: i64,
    ) -> Result<(Self, Option<OutputMarker>)> {
        let id = transactional_id(prefix, query_id);
        let control_topic = format!("{id}-control");
        control_topic::create(options, &control_topic)?;
        let timeout_ms = timeout_ms(options)?
            .unwrap_or_else(|| interval_ms.saturating_add(TIMEOUT_ROOM_MS).min(TIMEOUT_MAX_MS));
        let timeout = timeout_ms.to_string();
        let mut defaults = producer_defaults(options.has_updates).to_vec();
        defaults.push(("transaction.timeout.ms", &timeout));
        let fixed = [("transactional.id", id.as_str()), ("enable.idempotence", "true"), ("acks", "all")];
        let context = Context::of(&options.client);
        let made = config(&defaults, &options.client, &fixed).create_with_context(context.clone());
        let client: ThreadedProducer<Context> =
            made.map_err(|error| wrong_settings(error, &options.client))?;
        let begun = client.init_transactions(INIT_MAX);
        begun.map_err(|error| {
            if is_fenced(&client, &error) {
                return fenced().with_source(error);
            }
            failed(&format!("cannot begin transactions of '{id}'"), error)
        })?;
        let committed = control_topic::last_marker(options, &control_topic)?;
        let transactions = Self {
            context,
            client: Arc::new(client),
            id: id.into(),
            control_topic: control_topic.into(),
            timeout: Duration::from_millis(timeout_ms.unsigned_abs()),
            state: Arc::new(State {
                made: Instant::now(),
                opened_ms: AtomicU64::new(0),
                can_begin_anew: AtomicBool::new(false),
            }),
        };
        Ok((transactions, committed))
    }

    /// Transactional id of the query.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Milliseconds for which brokers let one be open.
    pub fn timeout_ms(&self) -> i64 {
        i64::try_from(self.timeout.as_millis()).unwrap_or(i64::MAX)
    }

    /// True if one is open.
    pub fn is_open(&self) -> bool {
        self.state.opened_ms.load(Ordering::Acquire) != 0
    }

    /// True if they failed in a way that new ones mend: those abort or settle what is open, and say what is committed. If another
    /// process has fenced these, only who has the query may make them.
    pub fn can_begin_anew(&self) -> bool {
        self.state.can_begin_anew.load(Ordering::Acquire)
    }

    /// The error of the open transaction, which will not be committed by this process.
    pub(super) fn failure(&self, what: &str, error: KafkaError) -> Error {
        let found = if !is_fenced(&self.client, &error) {
            failed(what, error).with_hint(START_AGAIN)
        } else if let Some(open_for) = self.outlived_timeout() {
            expired(open_for, self.timeout).with_source(error)
        } else {
            fenced().with_source(error)
        };
        // What is neither the brokers' passing trouble nor a fence would fail again.
        if matches!(found.kind(), ErrorKind::Unavailable | ErrorKind::Conflict) {
            self.state.can_begin_anew.store(true, Ordering::Release);
        }
        found
    }

    /// For how long the open one is open, if that is too long: brokers abort it, and fence its producer as a younger process would.
    fn outlived_timeout(&self) -> Option<Duration> {
        let opened_ms = self.state.opened_ms.load(Ordering::Acquire).checked_sub(1)?;
        let open_for = self.state.made.elapsed().saturating_sub(Duration::from_millis(opened_ms));
        (open_for >= self.timeout).then_some(open_for)
    }

    /// Begins one, if none is open.
    pub(super) fn ensure_open(&self) -> Result<()> {
        if self.is_open() {
            return Ok(());
        }
        self.client.begin_transaction().map_err(|error| self.failure("cannot begin a transaction", error))?;
        let opened_ms = u64::try_from(self.state.made.elapsed().as_millis()).unwrap_or(u64::MAX - 1);
        self.state.opened_ms.store(opened_ms + 1, Ordering::Release);
        Ok(())
    }

    /// Commits the open transaction with its marker in it. It waits for brokers.
    ///
    /// # Errors
    /// If it was not committed, and will not be; `Conflict` if another process has fenced this one.
    pub fn commit(&self, marker: OutputMarker) -> Result<CommitOutcome> {
        let content = serde_json::to_vec(&marker).map_err(|error| corrupt("a marker").with_source(error))?;
        let record =
            BaseRecord::with_opaque_to(&self.control_topic, UNCOUNTED).key(MARKER_KEY).payload(&content);
        if let Err((error, _)) = self.client.send(record) {
            return Err(self.failure("cannot send the marker of a transaction", error));
        }
        self.wait_for_deliveries();
        let deadline = Instant::now() + COMMIT_MAX;
        loop {
            let error = match self.client.commit_transaction(COMMIT_CALL_MAX) {
                Ok(()) => {
                    self.state.opened_ms.store(0, Ordering::Release);
                    return Ok(CommitOutcome::Committed);
                }
                Err(error) => error,
            };
            match &error {
                // Brokers fence before they commit, but an answer that was lost may have been a yes: whoever goes on asks.
                error if is_fenced(&self.client, error) => {}
                KafkaError::Transaction(told) if told.txn_requires_abort() => {}
                // The same call again: an abort could strike what is committed.
                KafkaError::Transaction(told) if told.is_retriable() && Instant::now() < deadline => {
                    std::thread::sleep(COMMIT_AGAIN);
                    continue;
                }
                _ => return Ok(self.lose_answer()),
            }
            return Err(self.failure("a transaction cannot be committed", error));
        }
    }

    /// Waits, for as long as a call of a commit does, until all records are delivered or have failed. Such a call would wait for
    /// them itself, but serves its client's events for 100 ms before it looks again, and rows wait for it.
    fn wait_for_deliveries(&self) {
        let deadline = Instant::now() + COMMIT_CALL_MAX;
        while self.client.in_flight_count() > 0 && Instant::now() < deadline {
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Takes it that no answer to a commit comes any more.
    pub fn lose_answer(&self) -> CommitOutcome {
        self.state.can_begin_anew.store(true, Ordering::Release);
        CommitOutcome::InDoubt
    }
}

/// The error of a transaction that brokers have aborted because of its age.
fn expired(open_for: Duration, timeout: Duration) -> Error {
    let text = format!(
        "a transaction was open for {:.1} s, and brokers abort one after {:.1} s",
        open_for.as_secs_f64(),
        timeout.as_secs_f64()
    );
    Error::new(ErrorKind::Unavailable, text).with_hint(
        "if the process did not just stand still, a planned batch takes too long: set 'kafka.transaction.timeout.ms' of the sink, or 'maxOffsetsPerTrigger' of the stream",
    )
}

/// The error of a process whose producer is fenced.
fn fenced() -> Error {
    Error::new(
        ErrorKind::Conflict,
        "Kafka takes no more output of this process: another one has taken its transactional id",
    )
    .with_hint("run one process for a checkpoint; this one has committed nothing since")
}
