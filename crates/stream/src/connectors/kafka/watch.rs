//! Watch of the partitions of topics, and of how far they go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};

use super::heard::Heard;
use super::metadata::{ask_latest, list};
use super::partition_changes::PartitionChanges;
use super::{Subscription, TopicPartition};
use crate::error::Result;

/// Time between two questions for the latest offsets.
const ASK_OFFSETS_EVERY: Duration = Duration::from_secs(1);
/// Time between two looks while one has to be confirmed by the next.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Time after which ends are asked for again that brokers did not tell.
const ASK_ENDS_AGAIN: Duration = Duration::from_millis(20);
/// Time that a broker may take to answer. Nothing waits for it.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// A thread that asks brokers, beside the one that takes records, which partitions there are and which offsets they have.
pub(super) struct Watch {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// True if there are changes: what is asked before each batch of records takes no lock.
    has_changes: AtomicBool,
    state: Mutex<State>,
    rings: Condvar,
}

#[derive(Default)]
struct State {
    is_over: bool,
    /// True if partitions are to be looked for now.
    is_asked: bool,
    /// In the order in which they were seen. A partition that is not taken yet is in it once each time that it appears.
    changes: Vec<Change>,
    latest: BTreeMap<TopicPartition, i64>,
    /// Last question for the ends of partitions.
    asked: EndsQuestion,
    /// Question that was answered last, with the ends that partitions had after it was asked.
    answered: (EndsQuestion, BTreeMap<TopicPartition, i64>),
}

/// Question for the offsets after the last records of all partitions, by its number.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EndsQuestion(u64);

/// A change of the partitions of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// A new partition, with its first offset and the one after its last record.
    New(TopicPartition, (i64, i64)),
    /// A partition that is not there any more.
    Gone(TopicPartition),
}

impl Watch {
    /// Starts to watch: `known` are the partitions that are read, with their latest offsets.
    ///
    /// # Errors
    /// If the system has no thread.
    pub fn start(
        asker: Arc<BaseConsumer<Heard>>,
        subscription: Subscription,
        look_every: Duration,
        known: BTreeMap<TopicPartition, i64>,
    ) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let changes = PartitionChanges::new(known.keys().cloned().collect());
        shared.lock().latest = known;
        let watcher = Watcher { shared: Arc::clone(&shared), asker, subscription, look_every, changes };
        thread::Builder::new().name("stream-kafka-watch".to_owned()).spawn(move || watcher.work())?;
        Ok(Self { shared })
    }

    /// Changes since they were taken last.
    pub fn take_changes(&self) -> Vec<Change> {
        if !self.shared.has_changes.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut self.shared.lock().changes)
    }

    /// Asks for a look soon: something is said to be gone.
    pub fn look_soon(&self) {
        self.shared.lock().is_asked = true;
        self.shared.rings.notify_all();
    }

    /// Asks for the ends of partitions at once, without waiting for them.
    pub fn ask_ends(&self) -> EndsQuestion {
        let mut state = self.shared.lock();
        state.asked.0 += 1;
        let asked = state.asked;
        drop(state);
        self.shared.rings.notify_all();
        asked
    }

    /// Answer to a question: ends that partitions had after it was asked. Nothing until brokers have told all of them.
    pub fn ends_of(&self, asked: EndsQuestion) -> Option<BTreeMap<TopicPartition, i64>> {
        let state = self.shared.lock();
        (state.answered.0 >= asked).then(|| state.answered.1.clone())
    }

    /// Takes latest offsets that were asked for elsewhere.
    pub fn saw(&self, latest: BTreeMap<TopicPartition, i64>) {
        self.shared.lock().latest.extend(latest);
    }

    /// The offsets after the last records, as old as [`ASK_OFFSETS_EVERY`] or, while brokers do not answer, older.
    pub fn latest(&self) -> BTreeMap<TopicPartition, i64> {
        self.shared.lock().latest.clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Nobody waits for the thread: a broker may take its time for the last answer, which nobody takes.
        self.shared.lock().is_over = true;
        self.shared.rings.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, change: Change) {
        self.lock().changes.push(change);
        self.has_changes.store(true, Ordering::Release);
    }
}

/// The thread's side.
struct Watcher {
    shared: Arc<Shared>,
    asker: Arc<BaseConsumer<Heard>>,
    subscription: Subscription,
    look_every: Duration,
    changes: PartitionChanges,
}

impl Watcher {
    fn work(mut self) {
        let mut looked = Instant::now();
        let mut asked = looked;
        let mut ends_at = looked;
        loop {
            let (is_over, is_asked) = self.rest(looked, asked, ends_at);
            if is_over {
                return;
            }
            // It gives no records, and what it says of its connections is not to gather.
            drop(self.asker.poll(Duration::ZERO));
            let now = Instant::now();
            if now >= ends_at && self.has_question() {
                self.answer();
                ends_at = Instant::now() + if self.has_question() { ASK_ENDS_AGAIN } else { Duration::ZERO };
            }
            if now >= self.look_at(looked, is_asked) {
                self.shared.lock().is_asked = false;
                self.look();
                looked = Instant::now();
            }
            if now >= asked + ASK_OFFSETS_EVERY {
                self.ask_offsets();
                asked = Instant::now();
            }
        }
    }

    /// When to look next.
    fn look_at(&self, looked: Instant, is_asked: bool) -> Instant {
        let is_soon = is_asked || self.changes.is_unsure();
        looked + if is_soon { self.look_every.min(LOOK_AGAIN) } else { self.look_every }
    }

    /// Waits until something is due. Gives whether the watch is over, and whether a look was asked for.
    fn rest(&self, looked: Instant, asked: Instant, ends_at: Instant) -> (bool, bool) {
        let mut state = self.shared.lock();
        loop {
            let mut due = self.look_at(looked, state.is_asked).min(asked + ASK_OFFSETS_EVERY);
            if state.answered.0 < state.asked {
                due = due.min(ends_at);
            }
            let left = due.saturating_duration_since(Instant::now());
            if state.is_over || left.is_zero() {
                return (state.is_over, state.is_asked);
            }
            let waited = self.shared.rings.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Looks for partitions. One that brokers cannot tell the offsets of yet is found again.
    fn look(&mut self) {
        // Brokers that do not answer are away; who reads from them says so.
        let Ok(listing) = list(&self.asker, &self.subscription, ANSWER_MAX) else { return };
        let found = self.changes.look(&listing);
        for place in found.gone {
            self.shared.lock().latest.remove(&place);
            self.shared.tell(Change::Gone(place));
        }
        for place in found.new {
            if self.shared.lock().is_over {
                return;
            }
            let Ok(bounds) = self.asker.fetch_watermarks(&place.topic, place.partition, ANSWER_MAX) else {
                continue;
            };
            self.changes.added(place.clone());
            self.shared.tell(Change::New(place.clone(), bounds));
            self.shared.lock().latest.insert(place, bounds.1);
        }
    }

    fn has_question(&self) -> bool {
        let state = self.shared.lock();
        state.answered.0 < state.asked
    }

    /// Answers the last question, if brokers do: without an answer it is asked again.
    fn answer(&self) {
        let asked = self.shared.lock().asked;
        if let Ok(ends) = ask_latest(&self.asker, self.changes.known().iter(), ANSWER_MAX) {
            self.shared.lock().answered = (asked, ends);
        }
    }

    fn ask_offsets(&self) {
        let known: &BTreeSet<TopicPartition> = self.changes.known();
        if let Ok(latest) = ask_latest(&self.asker, known.iter(), ANSWER_MAX) {
            self.shared.lock().latest.extend(latest);
        }
    }
}
