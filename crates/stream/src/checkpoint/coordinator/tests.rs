//! Goal: a marker says that everything before its barrier is safe, whatever happens in which order. Method: exact effects, then
//! simulated processes that die at every step and overlap, against a model of a sink, a source and a folder of markers.

use std::collections::BTreeMap;

use yeoul_base::SplitMix;

use super::*;

fn clock(now_ms: i64) -> Event {
    Event::Clock { now_ms, has_news: true, barrier: BarrierTime::WhenDue }
}

#[test]
fn a_checkpoint_needs_sinks_and_state_before_its_marker() {
    let mut coordinator = Coordinator::new(BatchId(4), 100, 0);
    assert_eq!(coordinator.handle(clock(99)), []);
    assert_eq!(coordinator.due_in_ms(99), 1);
    assert_eq!(
        coordinator.handle(Event::Clock { now_ms: 500, has_news: false, barrier: BarrierTime::WhenDue }),
        [],
        "nothing is new"
    );
    assert_eq!(coordinator.handle(clock(100)), [Command::Barrier(BatchId(4))]);
    assert_eq!(coordinator.open(), BatchId(5));
    assert_eq!(coordinator.handle(clock(300)), [], "one at a time");
    assert_eq!(coordinator.handle(Event::Acknowledged(BatchId(3))), [], "an earlier epoch");
    assert_eq!(coordinator.handle(Event::Stored(BatchId(4))), []);
    assert_eq!(coordinator.handle(Event::Acknowledged(BatchId(4))), [Command::Mark(BatchId(4))]);
    assert_eq!(coordinator.handle(Event::Acknowledged(BatchId(4))), [], "asked once");
    assert_eq!(coordinator.handle(Event::Marked(BatchId(4))), [Command::Complete(BatchId(4))]);
    assert_eq!(coordinator.handle(clock(199)), [], "an interval counts from the barrier");
    assert_eq!(coordinator.handle(clock(200)), [Command::Barrier(BatchId(5))]);
}

#[test]
fn a_stop_drains_what_is_in_flight_and_takes_a_last_checkpoint() {
    let mut coordinator = Coordinator::new(BatchId(0), 100, 0);
    coordinator.handle(clock(100));
    assert_eq!(coordinator.handle(Event::Stop), []);
    coordinator.handle(Event::Stored(BatchId(0)));
    coordinator.handle(Event::Acknowledged(BatchId(0)));
    assert_eq!(coordinator.handle(Event::Marked(BatchId(0))), [Command::Complete(BatchId(0))]);
    assert_eq!(
        coordinator.handle(clock(101)),
        [Command::Barrier(BatchId(1))],
        "without waiting for the interval"
    );
    coordinator.handle(Event::Acknowledged(BatchId(1)));
    assert_eq!(coordinator.handle(Event::Stored(BatchId(1))), [Command::Mark(BatchId(1))]);
    assert_eq!(coordinator.handle(Event::Marked(BatchId(1))), [Command::Complete(BatchId(1)), Command::End]);
    assert_eq!(coordinator.handle(clock(1000)), []);
    let mut idle = Coordinator::new(BatchId(0), 100, 0);
    idle.handle(Event::Stop);
    assert_eq!(
        idle.handle(Event::Clock { now_ms: 1, has_news: false, barrier: BarrierTime::WhenDue }),
        [Command::End]
    );
}

#[test]
fn a_planned_epoch_ends_at_its_end_and_not_before() {
    let mut coordinator = Coordinator::new(BatchId(3), 100, 0);
    let clock = |now_ms, barrier| Event::Clock { now_ms, has_news: true, barrier };
    assert_eq!(coordinator.handle(clock(1000, BarrierTime::NotYet)), []);
    assert_eq!(coordinator.handle(Event::Stop), []);
    assert_eq!(coordinator.handle(clock(1000, BarrierTime::NotYet)), [], "not even for a stop");
    let mut coordinator = Coordinator::new(BatchId(3), 100, 0);
    assert_eq!(coordinator.handle(clock(1, BarrierTime::Now)), [Command::Barrier(BatchId(3))]);
    assert_eq!(coordinator.handle(clock(2, BarrierTime::Now)), [], "one at a time");
}

#[test]
fn a_fenced_process_stops_at_once() {
    let mut coordinator = Coordinator::new(BatchId(0), 100, 0);
    coordinator.handle(clock(100));
    assert_eq!(coordinator.handle(Event::Fenced(BatchId(0))), [Command::Yield]);
    assert_eq!(coordinator.handle(clock(1000)), []);
    assert_eq!(coordinator.handle(Event::Stop), []);
}

/// What outlives processes: markers by epoch, with the position that each covers and its generation; the rows that the sink has.
#[derive(Default)]
struct Outside {
    markers: BTreeMap<u64, (u64, u64)>,
    sink: Vec<bool>,
}

/// One life of a process.
struct Life {
    coordinator: Coordinator,
    generation: u64,
    position: u64,
    /// Rows that were sent and not acknowledged, with their epochs.
    sent: Vec<(BatchId, u64)>,
    barrier: Option<(BatchId, u64)>,
    marking: Option<BatchId>,
    is_alive: bool,
}

impl Outside {
    /// A process claims the query: an epoch of its own, created only if absent.
    fn claim(&mut self, now_ms: i64) -> Life {
        let (last, (position, generation)) =
            self.markers.last_key_value().map_or((None, (0, 0)), |(batch, found)| (Some(*batch), *found));
        let batch = last.map_or(0, |last| last + 1);
        assert!(self.markers.insert(batch, (position, generation + 1)).is_none());
        let coordinator = Coordinator::new(BatchId(batch + 1), 10, now_ms);
        let (sent, barrier, marking) = (Vec::new(), None, None);
        Life { coordinator, generation: generation + 1, position, sent, barrier, marking, is_alive: true }
    }
}

impl Life {
    fn step(&mut self, outside: &mut Outside, random: &mut SplitMix, now_ms: i64) -> bool {
        let commands = match random.next_u64() % 8 {
            0..=2 => {
                self.sent.push((self.coordinator.open(), self.position));
                self.position += 1;
                Vec::new()
            }
            3 if !self.sent.is_empty() => {
                // Acknowledgements come in any order.
                let at = (random.next_u64() % self.sent.len() as u64) as usize;
                let (_, row) = self.sent.swap_remove(at);
                let row = row as usize;
                outside.sink.resize(outside.sink.len().max(row + 1), false);
                outside.sink[row] = true;
                Vec::new()
            }
            4 | 5 => match self.barrier {
                Some((batch, _)) if self.sent.iter().all(|(epoch, _)| *epoch > batch) => {
                    self.coordinator.handle(Event::Acknowledged(batch))
                }
                _ => Vec::new(),
            },
            6 => match self.barrier {
                Some((batch, _)) => self.coordinator.handle(Event::Stored(batch)),
                None => self.coordinator.handle(Event::Clock {
                    now_ms,
                    has_news: true,
                    barrier: BarrierTime::WhenDue,
                }),
            },
            _ => match self.marking.take() {
                Some(batch) => {
                    let (_, position) = self.barrier.take().unwrap();
                    let is_free = !outside.markers.contains_key(&batch.0);
                    if is_free {
                        outside.markers.insert(batch.0, (position, self.generation));
                    }
                    let event = if is_free { Event::Marked(batch) } else { Event::Fenced(batch) };
                    self.coordinator.handle(event)
                }
                None => self.coordinator.handle(Event::Clock {
                    now_ms,
                    has_news: true,
                    barrier: BarrierTime::WhenDue,
                }),
            },
        };
        let mut was_completed = false;
        for command in commands {
            match command {
                Command::Barrier(batch) => self.barrier = Some((batch, self.position)),
                Command::Mark(batch) => self.marking = Some(batch),
                Command::Complete(batch) => {
                    assert_eq!(outside.markers[&batch.0].1, self.generation, "it is ours");
                    was_completed = true;
                }
                Command::Yield => self.is_alive = false,
                Command::End | Command::Prepare(_) | Command::Commit(_) | Command::GiveUp(_) => {
                    unreachable!("nobody asked for it")
                }
            }
        }
        was_completed
    }
}

#[test]
fn no_marker_covers_a_row_that_no_sink_has_under_crashes_and_second_processes() {
    let (mut crashes, mut yields, mut completed) = (0, 0, 0);
    for seed in 0..400 {
        let mut random = SplitMix::new(seed);
        let mut outside = Outside::default();
        let mut lives = vec![outside.claim(0)];
        for now_ms in 0..1500 {
            match random.next_u64() % 60 {
                // It dies; what it sent may still arrive or not. Another one comes.
                0 => {
                    crashes += 1;
                    lives.remove((random.next_u64() % lives.len() as u64) as usize);
                    lives.push(outside.claim(now_ms));
                }
                // A second process while the first lives.
                1 if lives.len() < 3 => lives.push(outside.claim(now_ms)),
                _ => {
                    let at = (random.next_u64() % lives.len() as u64) as usize;
                    completed += u64::from(lives[at].step(&mut outside, &mut random, now_ms));
                }
            }
            yields += lives.iter().filter(|life| !life.is_alive).count();
            lives.retain(|life| life.is_alive);
            if lives.is_empty() {
                lives.push(outside.claim(now_ms));
            }
            let mut generation = 0;
            for (batch, (position, of)) in &outside.markers {
                assert!(
                    *of >= generation,
                    "seed {seed}: epoch {batch} is of an older process than the one before"
                );
                generation = *of;
                let safe = outside.sink.iter().take_while(|there| **there).count() as u64;
                assert!(
                    safe >= *position,
                    "seed {seed}: epoch {batch} covers {position} rows, the sink has {safe}"
                );
            }
        }
    }
    assert!(crashes > 5_000 && yields > 1_000 && completed > 1_500, "{crashes} {yields} {completed}");
}

#[test]
fn output_in_a_transaction_is_prepared_then_committed_then_marked() {
    let batch = BatchId(4);
    let mut coordinator = Coordinator::new(batch, 100, 0);
    assert_eq!(coordinator.handle(clock(100)), [Command::Barrier(batch)]);
    assert!(!coordinator.holds_output());
    assert_eq!(coordinator.handle(Event::InTransaction(batch)), []);
    assert!(coordinator.holds_output());
    assert_eq!(coordinator.handle(Event::Acknowledged(batch)), []);
    assert_eq!(coordinator.handle(Event::Stored(batch)), [Command::Prepare(batch)]);
    assert_eq!(coordinator.handle(Event::Acknowledged(batch)), [], "asked once");
    assert_eq!(coordinator.handle(Event::Prepared(batch)), [Command::Commit(batch)]);
    assert_eq!(coordinator.handle(Event::Acknowledged(batch)), [], "asked once");
    assert_eq!(coordinator.handle(Event::Committed(batch)), [Command::Mark(batch)]);
    assert_eq!(coordinator.handle(Event::Marked(batch)), [Command::Complete(batch)]);
    assert!(!coordinator.holds_output());
}

#[test]
fn a_commit_in_doubt_ends_the_process_without_a_marker() {
    let batch = BatchId(0);
    let mut coordinator = Coordinator::new(batch, 100, 0);
    for event in [clock(100), Event::InTransaction(batch), Event::Stored(batch), Event::Acknowledged(batch)] {
        coordinator.handle(event);
    }
    coordinator.handle(Event::Prepared(batch));
    assert_eq!(coordinator.handle(Event::InDoubt(batch)), [Command::GiveUp(batch)]);
    assert_eq!(coordinator.handle(Event::Stop), []);
    assert_eq!(coordinator.handle(clock(1000)), []);
}
