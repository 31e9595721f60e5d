//! Check of the topics that a running query reads: one that was deleted and made again goes on at offsets that others had.
//!
//! A mark that was checked is replaced only by one of a record that was read before the check: a record of the new topic never vouches
//! for itself. So a manifest, too, has the mark that was checked last beside that of the last record.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::consumer::BaseConsumer;

use super::TopicPartition;
use super::heard::Heard;
use super::metadata::bounds;
use super::reader::PartitionReader;
use super::record_marks::{ReadMarks, RecordMarks, first_marks};
use crate::error::Result;

/// Longest time from one check to the next.
const CHECK_EVERY_MAX: Duration = Duration::from_secs(10);
/// Most partitions of one check: the next has others.
const PARTITIONS_MAX: usize = 1000;

/// A thread that looks, beside the one that takes records, whether the records at the marks are still those that were read.
pub(super) struct MarksCheck {
    rounds: Rounds,
    questions: SyncSender<RecordMarks>,
    answers: Receiver<RecordMarks>,
}

/// Questions for marks, and what answers to them mean.
#[derive(Debug)]
struct Rounds {
    every: Duration,
    due: Instant,
    asked: Option<Asked>,
    /// Last partition that was asked for.
    last: Option<TopicPartition>,
}

/// A question that is not answered yet.
#[derive(Debug)]
struct Asked {
    checked: RecordMarks,
    /// Marks of the last records that were read when it was asked.
    read: RecordMarks,
}

impl MarksCheck {
    /// Starts a thread with a consumer of its own, which checks the marks as often as new partitions are looked for, or more often.
    ///
    /// # Errors
    /// If the system has no thread.
    pub fn start(
        asker: Arc<BaseConsumer<Heard>>,
        reader: PartitionReader,
        look_every: Duration,
    ) -> Result<Self> {
        let (questions, to_answer) = sync_channel(1);
        let (give, answers) = sync_channel(1);
        let work = move || {
            let mut reader = reader;
            while let Ok(marks) = to_answer.recv() {
                // Without an answer it is asked again.
                let found = look(&asker, &mut reader, marks).unwrap_or_default();
                if give.send(found).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("stream-kafka-marks".to_owned()).spawn(work)?;
        Ok(Self { rounds: Rounds::new(look_every.min(CHECK_EVERY_MAX), Instant::now()), questions, answers })
    }

    /// Takes an answer, or asks if it is time. Gives partitions that have other records than those that were read.
    pub fn turn(&mut self, marks: &mut ReadMarks) -> Vec<TopicPartition> {
        let now = Instant::now();
        if let Ok(found) = self.answers.try_recv() {
            return self.rounds.answered(&found, marks, now);
        }
        if let Some(question) = self.rounds.question(marks, now) {
            // There is room: the one before was answered.
            let _ = self.questions.try_send(question);
        }
        Vec::new()
    }

    /// Has the next check come at once: brokers say something that a topic which was made again would explain.
    pub fn hurry(&mut self) {
        self.rounds.due = Instant::now();
    }
}

impl Rounds {
    fn new(every: Duration, now: Instant) -> Self {
        Self { every, due: now + every, asked: None, last: None }
    }

    fn question(&mut self, marks: &ReadMarks, now: Instant) -> Option<RecordMarks> {
        if self.asked.is_some() || now < self.due || marks.checked.0.is_empty() {
            return None;
        }
        let all = &marks.checked.0;
        let after = all.iter().filter(|(place, _)| Some(*place) > self.last.as_ref());
        let next: BTreeMap<_, _> =
            after.take(PARTITIONS_MAX).map(|(place, mark)| (place.clone(), *mark)).collect();
        self.last = if next.len() < PARTITIONS_MAX { None } else { next.keys().next_back().cloned() };
        let read = next.keys().filter_map(|place| marks.last.0.get_key_value(place));
        let read = RecordMarks(read.map(|(place, mark)| (place.clone(), *mark)).collect());
        let checked = RecordMarks(next);
        self.asked = Some(Asked { checked: checked.clone(), read });
        Some(checked)
    }

    /// Takes marks that were found; those that say nothing stay for the next check.
    fn answered(&mut self, found: &RecordMarks, marks: &mut ReadMarks, now: Instant) -> Vec<TopicPartition> {
        self.due = now + self.every;
        let Some(Asked { checked, read }) = self.asked.take() else { return Vec::new() };
        let mut others = Vec::new();
        for (place, mark) in checked.0 {
            // It may have been read anew meanwhile.
            let is_current = marks.checked.0.get(&place) == Some(&mark);
            match found.0.get(&place) {
                _ if !is_current => {}
                Some(found) if found.offset == mark.offset && *found != mark => others.push(place),
                // It is there, or was removed for its age or its key.
                Some(_) => {
                    if let Some(read) = read.0.get(&place) {
                        marks.checked.0.insert(place, *read);
                    }
                }
                None => {}
            }
        }
        others
    }
}

/// Marks of the records that are now where these were read, or after them if they are gone.
fn look(
    asker: &BaseConsumer<Heard>,
    reader: &mut PartitionReader,
    marks: RecordMarks,
) -> Result<RecordMarks> {
    let (mut offsets, mut removed) = (BTreeMap::new(), RecordMarks::default());
    for (place, mark) in marks.0 {
        let (low, high) = bounds(asker, &place)?;
        if (low..high).contains(&mark.offset) {
            offsets.insert(place, mark.offset);
        } else if mark.offset < low {
            removed.0.insert(place, super::record_marks::RecordMark { offset: low, ..mark });
        }
        // One with fewer records says so when it is fetched from.
    }
    let mut found = first_marks(reader, &offsets)?;
    reader.assign(&BTreeMap::new())?;
    found.0.append(&mut removed.0);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::record_marks::RecordMark;
    use super::*;

    fn place(partition: i32) -> TopicPartition {
        TopicPartition { topic: "t".to_owned(), partition }
    }

    fn mark(offset: i64, crc32c: u32) -> RecordMark {
        RecordMark { offset, timestamp_ms: 1_760_000_000_000 + offset, crc32c }
    }

    fn of(partition: i32, mark: RecordMark) -> RecordMarks {
        RecordMarks(BTreeMap::from([(place(partition), mark)]))
    }

    #[test]
    fn a_record_of_a_new_topic_does_not_vouch_for_itself() {
        let (every, begun) = (Duration::from_secs(10), Instant::now());
        let (mut rounds, mut marks) = (Rounds::new(every, begun), ReadMarks::default());
        assert!(rounds.question(&marks, begun + every).is_none(), "nothing was read");
        marks.read(&place(0), mark(5, 1));
        assert!(rounds.question(&marks, begun).is_none(), "it is not time");
        let mut now = begun + every;
        assert_eq!(rounds.question(&marks, now), Some(of(0, mark(5, 1))));
        // While it is asked the topic is made again, and read on.
        marks.read(&place(0), mark(6, 2));
        assert!(rounds.question(&marks, now + every).is_none(), "one at a time");
        assert_eq!(rounds.answered(&of(0, mark(5, 1)), &mut marks, now), []);
        assert_eq!(marks.checked, of(0, mark(5, 1)), "what was read after the question is not checked");
        now += every;
        assert_eq!(rounds.question(&marks, now), Some(of(0, mark(5, 1))));
        marks.read(&place(0), mark(7, 3));
        assert_eq!(rounds.answered(&of(0, mark(5, 9)), &mut marks, now), [place(0)]);

        // One that stays: what was read before the question takes its place.
        now += every;
        rounds.question(&marks, now).unwrap();
        assert_eq!(rounds.answered(&of(0, mark(5, 1)), &mut marks, now), []);
        assert_eq!(marks.checked, of(0, mark(7, 3)));
        // No answer says nothing, and a record that was removed nothing either.
        now += every;
        marks.read(&place(0), mark(8, 4));
        rounds.question(&marks, now).unwrap();
        assert_eq!(rounds.answered(&RecordMarks::default(), &mut marks, now), []);
        assert_eq!(marks.checked, of(0, mark(7, 3)));
        now += every;
        rounds.question(&marks, now).unwrap();
        assert_eq!(rounds.answered(&of(0, mark(9, 9)), &mut marks, now), []);
        assert_eq!(marks.checked, of(0, mark(8, 4)));
    }

    #[test]
    fn all_partitions_have_their_turn() {
        let (every, mut now) = (Duration::from_secs(1), Instant::now());
        let (mut rounds, mut marks) = (Rounds::new(every, now), ReadMarks::default());
        let count = 2 * i32::try_from(PARTITIONS_MAX).unwrap() + 7;
        (0..count).for_each(|partition| marks.read(&place(partition), mark(0, 1)));
        let mut seen = BTreeMap::new();
        for _ in 0..3 {
            now += every;
            let question = rounds.question(&marks, now).unwrap();
            assert!(question.0.len() <= PARTITIONS_MAX);
            seen.extend(question.0.clone());
            assert_eq!(rounds.answered(&question, &mut marks, now), []);
        }
        assert_eq!(seen.len(), marks.checked.0.len());
    }
}
