//! Source of records of Kafka's topics.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::consumer::BaseConsumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Message, Timestamp};
use serde_json::Value;

use super::client::{config, failed, passes};
use super::columns::{Record, RecordColumns};
use super::heard::Heard;
use super::lag;
use super::marks_check::MarksCheck;
use super::metadata::{bounds, is_unknown, latest_offsets, partitions};
use super::offsets::{planned_ends, rows_between};
use super::reader::PartitionReader;
use super::record_marks::{ReadMarks, RecordMark, first_marks};
use super::settings_errors::refused;
use super::watch::{Change, EndsQuestion, Watch};
use super::{KafkaOffsets, KafkaSourceOptions, StartingOffsets, TopicPartition};
use crate::connectors::{Bell, Polled, ReachedEnds, Source, SourceReport};
use crate::error::{Error, ErrorKind, Result, invalid};

/// Most records that one poll gives.
const POLL_RECORDS_MAX: usize = 8192;
/// Bytes of records after which a poll gives what it has.
const POLL_BYTES_MAX: usize = 4 << 20;
/// Time without records after which an end of a partition that does not name its topic is looked into.
const STUCK_AFTER: Duration = Duration::from_millis(20);

/// Records of topics, from offsets that the query keeps: nothing is committed to a group, as in Spark.
pub struct KafkaSource {
    options: KafkaSourceOptions,
    reader: PartitionReader,
    /// Client that asks for partitions and offsets: on the connection of the one that fetches an answer would wait behind a fetch that
    /// waits for records, half a second for each.
    asker: Arc<BaseConsumer<Heard>>,
    /// Started with the first rows that are asked for.
    watch: Option<Watch>,
    /// Changes of the partitions that wait for the end of a plan.
    changes: Vec<Change>,
    warnings: Vec<String>,
    next: BTreeMap<TopicPartition, i64>,
    marks: ReadMarks,
    /// Started with the first rows that are asked for.
    marks_check: Option<MarksCheck>,
    /// Where each partition ends, if the query is to end there.
    ends: Option<BTreeMap<TopicPartition, i64>>,
    /// Where each partition ends for the planned epoch.
    planned: Option<BTreeMap<TopicPartition, i64>>,
    /// Ends of the backlog that is planned part by part, and how many records of it are in no plan yet.
    backlog: Option<BTreeMap<TopicPartition, i64>>,
    rows_left: u64,
    /// Question for the ends of partitions that was asked last, and their ends once they are known.
    asked: Option<EndsQuestion>,
    asked_ends: Option<BTreeMap<TopicPartition, i64>>,
    /// Partitions that are fetched from while the ends of a plan are told apart; all of them if there are none.
    narrowed: BTreeSet<TopicPartition>,
    /// True if the client found the end of a partition, and several topics have one of that number.
    has_unnamed_end: bool,
    /// Since when nothing has come after such an end.
    still_since: Option<Instant>,
    columns: RecordColumns,
    /// Offsets after the last records when it was opened.
    opened_at: BTreeMap<TopicPartition, i64>,
}

impl KafkaSource {
    /// Where a new query begins.
    ///
    /// # Errors
    /// `NotFound` for a topic that is not there; `Invalid` if starting offsets do not name the partitions.
    pub fn initial_offsets(options: &KafkaSourceOptions) -> Result<Value> {
        let consumer = consumer(options)?;
        let mut offsets = BTreeMap::new();
        for place in partitions(&consumer, &options.subscription)?.there {
            let (low, high) = bounds(&consumer, &place)?;
            let offset = match &options.starting_offsets {
                StartingOffsets::Earliest => low,
                StartingOffsets::Latest => high,
                StartingOffsets::At(given) => match given.0.get(&place) {
                    Some(-2) => low,
                    Some(-1) => high,
                    Some(offset) => *offset,
                    None => {
                        let text =
                            format!("startingOffsets does not name {}-{}", place.topic, place.partition);
                        return Err(
                            invalid(text).with_hint("name all partitions; -2 is earliest, -1 is latest")
                        );
                    }
                },
            };
            offsets.insert(place, offset);
        }
        if let StartingOffsets::At(given) = &options.starting_offsets
            && let Some(place) = given.0.keys().find(|place| !offsets.contains_key(place))
        {
            return Err(invalid(format!(
                "startingOffsets names {}-{}, which is not read",
                place.topic, place.partition
            )));
        }
        Ok(KafkaOffsets(offsets).to_json())
    }

    /// Checks that its topics can be read.
    ///
    /// # Errors
    /// `NotFound` for a topic that is not there; `Invalid` for options that Kafka's client refuses; if brokers do not answer.
    pub fn check(options: &KafkaSourceOptions) -> Result<()> {
        partitions(&consumer(options)?, &options.subscription).map(drop)
    }

    /// Goes on at an offset, with the marks of the last records before it if there are any.
    ///
    /// # Errors
    /// `DataLoss` if records after it are gone and the query is to fail then; as [`initial_offsets`](Self::initial_offsets).
    pub fn at(options: KafkaSourceOptions, offset: &Value, marks: Option<&Value>) -> Result<Self> {
        let (asker, reader) = (Arc::new(consumer(&options)?), PartitionReader::new(consumer(&options)?));
        let known = KafkaOffsets::from_json(offset, 0)?.0;
        let listing = partitions(&asker, &options.subscription)?;
        let mut source = Self {
            options,
            reader,
            asker,
            watch: None,
            changes: Vec::new(),
            warnings: Vec::new(),
            next: BTreeMap::new(),
            marks: ReadMarks::from_json(marks),
            marks_check: None,
            ends: None,
            planned: None,
            backlog: None,
            rows_left: 0,
            asked: None,
            asked_ends: None,
            narrowed: BTreeSet::new(),
            has_unnamed_end: false,
            still_since: None,
            columns: RecordColumns::new(),
            opened_at: BTreeMap::new(),
        };
        let (there, gone): (BTreeMap<_, _>, BTreeMap<_, _>) = known.into_iter().partition(|(place, _)| {
            listing.there.contains(place) || listing.unsettled.contains(&place.topic)
        });
        for place in gone.into_keys() {
            source.lost(format!("{}-{} is gone", place.topic, place.partition))?;
        }
        source.go_on_at(there)?;
        for place in listing.there {
            if !source.next.contains_key(&place) {
                let bounds = bounds(&source.asker, &place)?;
                source.go_on(place, None, bounds)?;
            }
        }
        source.assign()?;
        Ok(source)
    }

    /// Reads these partitions from these offsets on, but ones whose topics were made again: their records before the offsets are
    /// others than those that were read.
    fn go_on_at(&mut self, known: BTreeMap<TopicPartition, i64>) -> Result<()> {
        let mut all = Vec::new();
        let mut looked_at = BTreeMap::new();
        for (place, from) in known {
            let (low, high) = bounds(&self.asker, &place)?;
            match self.marks.last.0.get(&place) {
                Some(mark) if (low..high).contains(&mark.offset) && from <= high => {
                    looked_at.insert(place.clone(), mark.offset);
                }
                Some(_) if from > high && low < high => drop(looked_at.insert(place.clone(), low)),
                _ => {}
            }
            all.push((place, from, (low, high)));
        }
        let found = first_marks(&mut self.reader, &looked_at)?;
        // The last records may be those of a topic that was made again while the query ran.
        let is_checked_apart = |(place, from, (low, high)): &&(TopicPartition, i64, (i64, i64))| {
            let checked = self.marks.checked.0.get(place);
            let has_own = checked.is_some() && checked != self.marks.last.0.get(place);
            has_own && *from <= *high && checked.is_some_and(|mark| (*low..*high).contains(&mark.offset))
        };
        let apart = all.iter().filter(is_checked_apart);
        let apart = apart.map(|(place, ..)| (place.clone(), self.marks.checked.0[place].offset)).collect();
        let found_apart = first_marks(&mut self.reader, &apart)?;
        for (place, from, (low, high)) in all {
            let is_other = match (self.marks.last.0.get(&place), found.0.get(&place)) {
                // All that it has came after what was read.
                (Some(_), Some(first)) if from > high => {
                    let checked = self.marks.checked.0.get(&place);
                    checked.is_some_and(|checked| first.timestamp_ms > checked.timestamp_ms)
                }
                (Some(last), Some(found)) => found.offset == last.offset && found != last,
                _ => false,
            };
            let is_other_apart = match (self.marks.checked.0.get(&place), found_apart.0.get(&place)) {
                (Some(checked), Some(found)) => found.offset == checked.offset && found != checked,
                _ => false,
            };
            if is_other || is_other_apart {
                self.begin_other(place, from, (low, high))?;
            } else {
                self.go_on(place, Some(from), (low, high))?;
            }
        }
        Ok(())
    }

    /// Reads a partition whose topic was made again from its begin, if the query does not fail then.
    fn begin_other(&mut self, place: TopicPartition, from: i64, (low, high): (i64, i64)) -> Result<()> {
        self.lost(format!(
            "{}-{} has other records than those that were read up to offset {from}: its topic was deleted and made again",
            place.topic, place.partition
        ))?;
        self.marks.forget(&place);
        self.go_on(place, Some(low), (low, high))
    }

    /// Has the marks checked, and goes on with partitions whose topics were made again as the query is to.
    fn check_marks(&mut self) -> Result<()> {
        if self.marks_check.is_none() {
            let (asker, reader) = (Arc::clone(&self.asker), PartitionReader::new(consumer(&self.options)?));
            self.marks_check = Some(MarksCheck::start(asker, reader, self.options.look_every)?);
        }
        let check = self.marks_check.as_mut().expect("it was started");
        let others = check.turn(&mut self.marks);
        if others.is_empty() {
            return Ok(());
        }
        for place in others {
            if let Some(from) = self.next.get(&place).copied() {
                let bounds = bounds(&self.asker, &place)?;
                self.begin_other(place, from, bounds)?;
            }
        }
        self.assign()
    }

    /// Reads a partition, which has these offsets, from the known one on; a new one from 0, as in Spark.
    fn go_on(&mut self, place: TopicPartition, known: Option<i64>, bounds: (i64, i64)) -> Result<()> {
        let ((low, high), from) = (bounds, known.unwrap_or(0));
        if !(low..=high).contains(&from) {
            self.lost(format!(
                "{}-{} has offsets {low} to {high}, the next of the query is {from}",
                place.topic, place.partition
            ))?;
        }
        if self.watch.is_none() {
            self.opened_at.insert(place.clone(), high);
        }
        self.next.insert(place, from.clamp(low, high));
        Ok(())
    }

    /// Fails or warns of records that are gone, as the query is to.
    fn lost(&mut self, what: String) -> Result<()> {
        let text = format!("records that the query has not read may be lost: {what}");
        if !self.options.fails_on_data_loss {
            self.warnings.push(text);
            return Ok(());
        }
        let hint = "'failOnDataLoss' = 'false' reads what is there, and another --checkpoint begins anew";
        Err(Error::new(ErrorKind::DataLoss, text).with_hint(hint))
    }

    /// Reads all partitions from our offsets on, also those that were paused, and no others.
    fn assign(&mut self) -> Result<()> {
        self.narrowed.clear();
        self.has_unnamed_end = false;
        self.reader.assign(&self.next)
    }

    /// True if nothing came for a while although a plan is not at its end, and the end of a partition may be the reason.
    fn is_stuck(&mut self, has_come: bool) -> bool {
        if has_come || !self.has_unnamed_end {
            self.still_since = None;
            return false;
        }
        self.still_since.get_or_insert_with(Instant::now).elapsed() >= STUCK_AFTER
    }

    /// Tells ends of partitions apart, once nothing else comes: of the partitions that are not at the end of the plan, it fetches
    /// from one of each number only, and then from the next.
    fn tell_ends_apart(&mut self) -> Result<()> {
        let is_open = |place: &TopicPartition| {
            let end = self.stops().and_then(|ends| ends.get(place));
            end.is_some() && self.next.get(place) < end
        };
        if self.narrowed.iter().any(is_open) {
            return Ok(());
        }
        let mut of_numbers = BTreeMap::new();
        for place in self.next.keys().filter(|place| is_open(place)) {
            of_numbers.entry(place.partition).or_insert_with(|| place.clone());
        }
        self.narrowed = of_numbers.into_values().collect();
        self.has_unnamed_end = false;
        self.reader.assign(self.next.iter().filter(|(place, _)| self.narrowed.contains(*place)))
    }

    /// Begins to watch for new partitions and latest offsets, if that is not done yet.
    fn watch(&mut self) -> Result<&Watch> {
        if self.watch.is_none() {
            let (asker, subscription) = (Arc::clone(&self.asker), self.options.subscription.clone());
            let known = std::mem::take(&mut self.opened_at);
            self.watch = Some(Watch::start(asker, subscription, self.options.look_every, known)?);
        }
        Ok(self.watch.as_ref().expect("it was started"))
    }

    /// Follows the partitions that appeared and vanished. A plan has those that were there when it was made: what is new waits for
    /// its end, and what is gone is at its end.
    fn follow(&mut self) -> Result<()> {
        let changes = self.watch()?.take_changes();
        for change in &changes {
            let Change::Gone(place) = change else { continue };
            self.lost(format!("{}-{} is gone", place.topic, place.partition))?;
            let end = self.ends.as_ref().or(self.planned.as_ref()).and_then(|ends| ends.get(place)).copied();
            if let (Some(end), Some(next)) = (end, self.next.get_mut(place)) {
                *next = end.max(*next);
            }
        }
        self.changes.extend(changes);
        if self.changes.is_empty() || self.stops().is_some() {
            return Ok(());
        }
        for change in std::mem::take(&mut self.changes) {
            match change {
                Change::New(place, bounds) => self.go_on(place, None, bounds)?,
                Change::Gone(place) => {
                    self.next.remove(&place);
                    self.marks.forget(&place);
                }
            }
        }
        // What was fetched ahead is fetched again: assigning begins at our offsets.
        self.assign()
    }

    /// Takes a record, or what its consumer says instead.
    fn take(&mut self, wait: Duration) -> Result<bool> {
        let message = match self.reader.poll(wait) {
            None => return Ok(false),
            Some(Ok(message)) => message,
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                self.reached_end(partition);
                return Ok(true);
            }
            Some(Err(error)) if passes(&error) => return Ok(true),
            Some(Err(error)) if is_unknown(&error) => {
                // One broker may not know what another does: several looks decide.
                self.watch()?.look_soon();
                self.marks_check.iter_mut().for_each(MarksCheck::hurry);
                return Ok(true);
            }
            Some(Err(error)) => {
                let is_lost = matches!(
                    error.rdkafka_error_code(),
                    Some(RDKafkaErrorCode::OffsetOutOfRange | RDKafkaErrorCode::AutoOffsetReset)
                );
                if !is_lost {
                    return Err(failed("cannot read from Kafka", error));
                }
                self.go_on_at(self.next.clone())?;
                self.assign()?;
                return Ok(true);
            }
        };
        let place = TopicPartition { topic: message.topic().to_owned(), partition: message.partition() };
        let offset = message.offset();
        let Some(next) = self.next.get_mut(&place) else { return Ok(true) };
        if offset < *next {
            // It was fetched before the partitions were assigned anew.
            return Ok(true);
        }
        let end = self.planned.as_ref().or(self.ends.as_ref()).and_then(|ends| ends.get(&place)).copied();
        if let Some(end) = end.filter(|end| offset >= *end) {
            *next = end.max(*next);
            drop(message);
            return self.reader.pause(place).map(|()| true);
        }
        *next = offset + 1;
        self.marks.read(&place, RecordMark::of(&message));
        let (timestamp_ms, timestamp_type) = match message.timestamp() {
            Timestamp::NotAvailable => (None, -1),
            Timestamp::CreateTime(ms) => (Some(ms), 0),
            Timestamp::LogAppendTime(ms) => (Some(ms), 1),
        };
        let (key, value) = (message.key(), message.payload());
        let (topic, partition) = (message.topic(), message.partition());
        self.columns.push(&Record { key, value, topic, partition, offset, timestamp_ms, timestamp_type });
        drop(message);
        if end == Some(offset + 1) {
            self.reader.pause(place)?;
        }
        Ok(true)
    }

    /// Offsets after the last records that are there now. A partition that brokers do not know has no more.
    fn latest(&mut self) -> Result<BTreeMap<TopicPartition, i64>> {
        let mut latest = latest_offsets(&self.asker, self.next.keys())?;
        self.watch()?.saw(latest.clone());
        for (place, next) in &self.next {
            latest.entry(place.clone()).or_insert(*next);
        }
        Ok(latest)
    }

    /// Where partitions end, if they do.
    fn stops(&self) -> Option<&BTreeMap<TopicPartition, i64>> {
        self.planned.as_ref().or(self.ends.as_ref())
    }

    /// Control records at a partition's end are no records: its end says that there are no more. It does not name the topic,
    /// so it is of use where one topic that is fetched from has such a partition.
    fn reached_end(&mut self, partition: i32) {
        let Some(ends) = self.planned.as_ref().or(self.ends.as_ref()) else { return };
        let is_meant = |place: &TopicPartition| {
            place.partition == partition && (self.narrowed.is_empty() || self.narrowed.contains(place))
        };
        let mut meant: Vec<_> = self.next.iter_mut().filter(|(place, _)| is_meant(place)).collect();
        match meant.as_mut_slice() {
            [(place, next)] => {
                if let Some(end) = ends.get(place) {
                    **next = (**next).max(*end);
                }
            }
            _ => self.has_unnamed_end = true,
        }
    }

    fn is_at_end(&self) -> bool {
        self.stops().is_some_and(|ends| ends.iter().all(|(place, end)| self.next.get(place) >= Some(end)))
    }
}

impl Source for KafkaSource {
    fn poll(&mut self, wait: Duration) -> Result<Polled> {
        self.follow()?;
        self.check_marks()?;
        let (mut wait, mut has_come) = (wait, false);
        // Whatever is there comes at once: batches grow with the load, and nothing waits for others.
        while !self.is_at_end() && self.take(wait)? {
            (wait, has_come) = (Duration::ZERO, true);
            if self.columns.rows() >= POLL_RECORDS_MAX || self.columns.bytes() >= POLL_BYTES_MAX {
                break;
            }
        }
        if !self.is_at_end() && (!self.narrowed.is_empty() || self.is_stuck(has_come)) {
            self.tell_ends_apart()?;
        }
        let rows = if self.columns.rows() > 0 { Some(self.columns.finish()?) } else { None };
        Ok(Polled { rows, is_at_end: self.is_at_end() })
    }

    fn ring(&mut self, bell: &Bell) -> bool {
        let bell = bell.clone();
        self.reader.ring(move || bell.ring());
        true
    }

    fn position(&self) -> Value {
        KafkaOffsets(self.next.clone()).to_json()
    }

    fn marks(&self) -> Option<Value> {
        self.marks.to_json()
    }

    fn stop_at_latest(&mut self) -> Result<()> {
        self.ends = Some(self.latest()?);
        // An end of a partition that the client found before does not say that there is nothing up to ours.
        self.assign()
    }

    fn epoch_rows_max(&self) -> Option<u64> {
        self.options.epoch_records_max
    }

    fn plan(&mut self, rows_max: Option<u64>) -> Result<u64> {
        let rows_max = match (rows_max, self.options.epoch_records_max) {
            (Some(wanted), Some(own)) => Some(wanted.min(own)),
            (wanted, own) => wanted.or(own),
        };
        let had_plan = self.planned.take().is_some();
        self.follow()?;
        let latest = match self.ends.as_ref().or(self.backlog.as_ref()) {
            Some(ends) => ends.clone(),
            None => self.latest()?,
        };
        let (ends, rows) = planned_ends(&self.next, &latest, rows_max);
        self.rows_left = rows_between(&ends, &latest);
        // With a limit of the job each plan is of what is there, as in Spark.
        let has_backlog = rows_max.is_some() && self.options.epoch_records_max.is_none();
        self.backlog = has_backlog.then_some(latest);
        if rows > 0 || had_plan {
            // As in `stop_at_latest`.
            self.assign()?;
        }
        self.planned = (rows > 0).then_some(ends);
        Ok(rows)
    }

    fn rows_left(&self) -> u64 {
        self.rows_left
    }

    fn end_backlog(&mut self) {
        self.backlog = None;
    }

    fn lift_plan(&mut self) -> Result<()> {
        self.end_backlog();
        if self.planned.take().is_some() { self.assign() } else { Ok(()) }
    }

    fn parts(&self) -> usize {
        self.next.len()
    }

    fn ask_ends(&mut self) -> Result<()> {
        self.asked = Some(self.watch()?.ask_ends());
        self.asked_ends = None;
        Ok(())
    }

    fn reached_ends(&mut self) -> ReachedEnds {
        if self.asked_ends.is_none() {
            let (Some(watch), Some(asked)) = (&self.watch, self.asked) else {
                return ReachedEnds::Unanswered;
            };
            self.asked_ends = watch.ends_of(asked);
        }
        let Some(ends) = &self.asked_ends else { return ReachedEnds::Unanswered };
        // A partition that has no end is being looked for; one that is not read any more is gone.
        let is_behind =
            |(place, next): (&TopicPartition, &i64)| ends.get(place).is_some_and(|end| next < end);
        if self.next.iter().any(is_behind) { ReachedEnds::Behind } else { ReachedEnds::All }
    }

    fn report(&self) -> SourceReport {
        let latest = self.watch.as_ref().map_or_else(|| self.opened_at.clone(), Watch::latest);
        lag::report(&latest, &self.next).unwrap_or_default()
    }

    fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }
}

fn consumer(options: &KafkaSourceOptions) -> Result<BaseConsumer<Heard>> {
    let defaults = [
        // As Spark's client, which is Java's.
        ("isolation.level", "read_uncommitted"),
        ("group.id", "yeoul-stream"),
        ("check.crcs", "true"),
        // The broker answers as soon as there is a record.
        ("fetch.queue.backoff.ms", "1"),
        // And is asked again once what it gave was taken: its answers grow with the rate.
        ("queued.min.messages", "1"),
        ("queued.max.messages.kbytes", "16384"),
    ];
    let fixed =
        [("auto.offset.reset", "error"), ("enable.auto.commit", "false"), ("enable.partition.eof", "true")];
    let client = &options.client;
    let made = config(&defaults, client, &fixed).create_with_context(Heard::of(client));
    made.map_err(|error| refused("cannot make a consumer of Kafka with these options", error, client))
}

#[cfg(test)]
mod tests;
