//! Pace of a query: which epochs are planned, and when a batch of event time ends.

use crate::connectors::ReachedEnds;
use crate::operators::Reach;

/// Rows of a planned epoch of a query that runs for ever: some tenths of a second of work.
pub(super) const PLANNED_ROWS_MAX: u64 = 500_000;
/// Rows of the first planned epoch of a query whose planned epochs are to take no longer than others.
const FIRST_ROWS_MAX: u64 = 10_000;
/// Rows that each planned epoch may have, however slow.
const ROWS_MAX_LEAST: u64 = 100;
/// Factor by which a planned epoch may have more rows than the one before it, or fewer.
const ROWS_FACTOR_MAX: u64 = 4;
/// Longest from a plan to the next one if there is no backlog any more: the rows that are left came meanwhile.
const CAUGHT_UP_MS: i64 = 200;
/// Rows of one poll that say that there are more.
const FULL_POLL_ROWS: usize = 8192;
/// Time without rows after which those that come may be a backlog: the broker or this process may have stood still.
const GAP_MS: i64 = 1000;
/// Time from a question for the ends of sources after which rows that are still missing are planned: there may be control records in
/// their place, whose end only a plan finds.
const BEHIND_MS: i64 = 200;
/// Longest time for which a barrier waits until the watermark may move.
const BARRIER_WAIT_MS: i64 = 100;

/// Rows of a backlog that are still to be planned for which the watermark stands still until they were read. State of all of its
/// windows is kept until then, so a greater one moves it with each plan.
const HELD_ROWS_MAX: u64 = 1_000_000;

/// Rows that the end of a planned epoch completes, if so many rows of the backlog are in no plan yet. With a limit of the job each
/// plan is a batch of its own, as in Spark.
pub(super) fn reach_of_plan(rows_left: u64, has_limit: bool) -> Reach {
    match rows_left {
        0 => Reach::Everything,
        1..=HELD_ROWS_MAX if !has_limit => Reach::Nothing,
        _ => Reach::Plan,
    }
}

/// How a query goes on: in planned epochs, whose ends are known before their rows are read, or in unplanned ones, which end when
/// a checkpoint is due.
///
/// A backlog is read in planned epochs, as Spark reads all: their ends advance all parts of a source in proportion, and the
/// watermark moves only there. Else a part that is read faster than the others would make rows of those late. Without a
/// backlog rows come as they will. At each tick the sources are asked which rows are there, and once these were taken the watermark
/// moves by the rows that had come before the question: whatever was there as early as one of them has been seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pace {
    phase: Phase,
    tick_ms: i64,
    last_tick_ms: i64,
    last_rows_ms: i64,
    has_rows: bool,
    /// Rows of a planned epoch at most.
    rows_max: u64,
    /// Most that it may become.
    rows_limit: u64,
    /// Milliseconds that a planned epoch is to take, if that is to be held.
    epoch_ms: Option<i64>,
    /// Rows of the planned epoch whose time is measured, and when the first of them came: what is waited for before is not of it.
    measured: Option<(u64, Option<i64>)>,
    /// When the planned epoch was planned, or the one before, if it had all that was there and its end was the last thing that
    /// happened.
    planned_ms: Option<i64>,
    course: Course,
    /// Question for the ends of the sources, in an unplanned epoch.
    question: Option<Question>,
    /// True if a barrier waits for the watermark.
    is_barrier_due: bool,
}

/// Course of a query's epochs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    /// A backlog is planned, and what comes then is not.
    Unbounded,
    /// Every epoch is planned, and the last one ends the query.
    Bounded,
    /// Every epoch is planned, and after the last one there is a rest.
    Planned,
    /// One planned epoch ends the query.
    Once,
    /// One epoch is planned in each tick.
    Periodic,
}

/// Question for the ends of the sources that was asked in an unplanned epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Question {
    asked_ms: i64,
    reached: ReachedEnds,
    /// True if rows came after it.
    has_rows: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The source is to be asked what is there.
    Unknown,
    /// Rows of a planned epoch come.
    Planned,
    /// All of them came: the epoch ends with the next barrier.
    Reached,
    /// No rows are left to be planned: an empty epoch may follow.
    LastReached,
    /// Nothing more is to be done.
    Finished,
    /// Nothing is there: the source is asked again at the next tick.
    Resting,
    /// Rows come as they will.
    Unplanned,
}

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Ask the source for a plan of so many rows at most, or of all that are there, and say what it planned.
    Plan(Option<u64>),
    /// Take rows.
    Poll,
    /// End the batch, and the epoch with it: no row comes before its barrier.
    EndEpoch,
    /// Ask the sources for their ends, without waiting, and say how far they are.
    Ask,
    /// End the batch, to which rows that came before the question are complete, and, if the watermark rose, an empty one after it.
    Tick,
    /// Wait: the source has nothing.
    Rest,
    /// End the query.
    End,
}

impl Pace {
    /// The pace of a query that runs for ever, with so many rows at most in a planned epoch.
    pub fn unbounded(tick_ms: i64, rows_max: u64, now_ms: i64) -> Self {
        Self {
            phase: Phase::Unknown,
            tick_ms,
            last_tick_ms: now_ms,
            last_rows_ms: now_ms,
            has_rows: false,
            rows_max,
            rows_limit: rows_max,
            epoch_ms: None,
            measured: None,
            planned_ms: None,
            course: Course::Unbounded,
            question: None,
            is_barrier_due: false,
        }
    }

    /// The pace of a query that ends with the rows that are there when it begins.
    pub fn bounded() -> Self {
        Self { course: Course::Bounded, ..Self::unbounded(0, u64::MAX, 0) }
    }

    /// The same pace with planned epochs that take about so long at most: a transaction of output may be open for a limited time.
    pub fn with_epochs_of(self, epoch_ms: i64) -> Self {
        Self { rows_max: self.rows_limit.min(FIRST_ROWS_MAX), epoch_ms: Some(epoch_ms), ..self }
    }

    /// The pace of a query that runs for ever, of a source whose rows come in planned epochs only.
    pub fn planned_only(tick_ms: i64, now_ms: i64) -> Self {
        Self { course: Course::Planned, ..Self::unbounded(tick_ms, u64::MAX, now_ms) }
    }

    /// The pace of a query that takes what is there in one epoch, and ends.
    pub fn once() -> Self {
        Self { course: Course::Once, ..Self::bounded() }
    }

    /// The pace of a query that takes what is there in an epoch at each multiple of so many milliseconds, and in one at once.
    pub fn every(period_ms: i64, now_ms: i64) -> Self {
        let last_tick_ms = now_ms - now_ms.rem_euclid(period_ms);
        Self { course: Course::Periodic, last_tick_ms, ..Self::planned_only(period_ms, now_ms) }
    }

    /// True if no row comes without a plan.
    fn are_all_planned(&self) -> bool {
        self.course != Course::Unbounded
    }

    /// True if one epoch is all there is until the next tick, or for good.
    fn is_one_each(&self) -> bool {
        matches!(self.course, Course::Once | Course::Periodic)
    }

    /// What is to be done. `wants_empty_batch` says whether an epoch without rows would bring something out.
    pub fn next(&mut self, now_ms: i64, wants_empty_batch: bool) -> Next {
        if self.phase == Phase::Unknown {
            self.measure(now_ms);
        }
        match self.phase {
            // A part of what is there, in proportion, even of what ends the query.
            Phase::Unknown if self.epoch_ms.is_some() && self.are_all_planned() && !self.is_one_each() => {
                Next::Plan(Some(self.rows_max))
            }
            // Rows that came before their backlog was known to be one may all be of one part of the source, far ahead of the
            // others: only a plan of all that is there lets the others catch up before the watermark moves.
            Phase::Unknown => {
                Next::Plan((!self.are_all_planned() && !self.has_rows).then_some(self.rows_max))
            }
            Phase::Planned => Next::Poll,
            _ if self.is_epoch_over(wants_empty_batch) => Next::EndEpoch,
            Phase::Resting if self.tick_in_ms(now_ms) == 0 => {
                self.phase = Phase::Unknown;
                if self.is_one_each() {
                    self.last_tick_ms = now_ms - now_ms.rem_euclid(self.tick_ms);
                }
                Next::Plan(None)
            }
            Phase::Resting => Next::Rest,
            Phase::Reached | Phase::LastReached | Phase::Finished
                if matches!(self.course, Course::Planned | Course::Periodic) =>
            {
                self.phase = Phase::Resting;
                if !self.is_one_each() {
                    self.last_tick_ms = now_ms;
                }
                Next::Rest
            }
            Phase::Reached | Phase::LastReached | Phase::Finished => {
                self.phase = Phase::Finished;
                Next::End
            }
            Phase::Unplanned => self.next_unplanned(now_ms, wants_empty_batch),
        }
    }

    fn next_unplanned(&mut self, now_ms: i64, wants_empty_batch: bool) -> Next {
        match self.question {
            None if self.is_barrier_due || self.is_tick_due(now_ms, wants_empty_batch) => Next::Ask,
            None => Next::Poll,
            Some(Question { reached: ReachedEnds::All, .. }) => Next::Tick,
            Some(Question { reached: ReachedEnds::Behind, asked_ms, .. })
                if now_ms - asked_ms >= BEHIND_MS =>
            {
                self.give_question_up();
                Next::Plan(None)
            }
            Some(_) => Next::Poll,
        }
    }

    /// The sources were asked for their ends.
    ///
    /// # Panics
    /// If that was not due.
    pub fn asked(&mut self, now_ms: i64) {
        assert!(self.phase == Phase::Unplanned && self.question.is_none(), "a question that was not due");
        let question = Question { asked_ms: now_ms, reached: ReachedEnds::Unanswered, has_rows: false };
        self.question = Some(question);
    }

    /// True if the sources were asked for their ends, and may not have reached them.
    pub fn is_asking(&self) -> bool {
        self.question.is_some_and(|question| question.reached != ReachedEnds::All)
    }

    /// True if all rows came that were there when the sources were asked.
    pub fn has_answer(&self) -> bool {
        self.question.is_some_and(|question| question.reached == ReachedEnds::All)
    }

    /// The sources' rows have come so far, of those that were there when they were asked.
    pub fn reached_ends(&mut self, reached: ReachedEnds) {
        if let Some(question) = &mut self.question {
            question.reached = reached;
        }
    }

    /// True if a barrier that is due is to wait until the watermark may move, so that what it brings is of the epoch that ends.
    pub fn delays_barrier(&mut self, now_ms: i64) -> bool {
        let delays = self.phase == Phase::Unplanned
            && match self.question {
                None => self.has_rows,
                Some(Question { reached: ReachedEnds::All, .. }) => false,
                Some(Question { asked_ms, .. }) => now_ms - asked_ms < BARRIER_WAIT_MS,
            };
        self.is_barrier_due = delays;
        delays
    }

    /// Rows are to be planned that were to come unplanned.
    fn give_question_up(&mut self) {
        self.phase = Phase::Unknown;
        self.question = None;
        self.is_barrier_due = false;
    }

    /// Whether a planned epoch is at its end.
    pub fn is_epoch_over(&self, wants_empty_batch: bool) -> bool {
        self.phase == Phase::Reached || (self.phase == Phase::LastReached && wants_empty_batch)
    }

    /// Milliseconds until there may be something to do that no row brings. What the clock brings to state, a key that has timed
    /// out, is looked for once in a tick.
    pub fn due_in_ms(&self, now_ms: i64, wants_empty_batch: bool) -> i64 {
        if self.question.is_some() {
            return 0;
        }
        let is_awaited = self.has_rows || wants_empty_batch || self.phase == Phase::Resting;
        match self.tick_in_ms(now_ms) {
            0 if !is_awaited => self.tick_ms,
            left_ms => left_ms,
        }
    }

    /// Milliseconds until the watermark may move.
    fn tick_in_ms(&self, now_ms: i64) -> i64 {
        (self.last_tick_ms + self.tick_ms - now_ms).clamp(0, self.tick_ms)
    }

    /// Whether rows of a planned epoch are on their way, so that no barrier may come between them.
    pub fn is_within_plan(&self) -> bool {
        match self.phase {
            Phase::Planned | Phase::Reached | Phase::LastReached => true,
            // Some rows of a backlog came before it was known to be one: the others belong to the same batch.
            Phase::Unknown => self.has_rows,
            Phase::Finished | Phase::Resting | Phase::Unplanned => false,
        }
    }

    /// Whether groups come out once for an epoch.
    pub fn is_gathering(&self) -> bool {
        self.phase != Phase::Unplanned
    }

    /// The source planned so many rows.
    ///
    /// # Panics
    /// If nobody asked for a plan.
    pub fn planned(&mut self, rows: u64, now_ms: i64) {
        assert_eq!(self.phase, Phase::Unknown, "a plan that nobody asked for");
        let has_caught_up =
            rows == 0 || self.planned_ms.is_some_and(|planned_ms| now_ms - planned_ms <= CAUGHT_UP_MS);
        self.phase = match (rows, self.are_all_planned()) {
            (0, true) => Phase::LastReached,
            (_, false) if has_caught_up => Phase::Unplanned,
            _ => Phase::Planned,
        };
        self.measured = (self.phase == Phase::Planned).then_some((rows, None));
        self.planned_ms = (self.phase == Phase::Planned && rows < self.rows_max).then_some(now_ms);
        self.last_rows_ms = now_ms;
    }

    /// A poll gave so many rows; `is_at_end` says whether they are the last of a plan.
    pub fn polled(&mut self, rows: usize, is_at_end: bool, now_ms: i64) {
        let is_after_gap = rows > 0 && now_ms - self.last_rows_ms >= GAP_MS;
        match self.phase {
            Phase::Planned if is_at_end => self.phase = Phase::Reached,
            // The watermark stands still until they are all there.
            Phase::Unplanned if rows >= FULL_POLL_ROWS || is_after_gap => self.give_question_up(),
            _ => {}
        }
        if rows > 0 {
            self.has_rows = true;
            self.last_rows_ms = now_ms;
            if let Some(question) = &mut self.question {
                question.has_rows = true;
            }
            if let Some((_, first_ms)) = &mut self.measured {
                first_ms.get_or_insert(now_ms);
            }
        }
    }

    /// The epoch of a plan was ended by a barrier.
    ///
    /// # Panics
    /// If its rows were not all there.
    pub fn ended_epoch(&mut self) {
        assert!(matches!(self.phase, Phase::Reached | Phase::LastReached), "no planned epoch was at its end");
        let has_more = self.phase == Phase::Reached && !self.is_one_each();
        self.phase = if has_more { Phase::Unknown } else { Phase::Finished };
        self.has_rows = false;
    }

    /// The watermark moved by the rows that came before the question, or by all.
    pub fn ticked(&mut self, now_ms: i64) {
        let question = self.question.take();
        // The time of an answer makes ticks no rarer.
        self.last_tick_ms = question.map_or(now_ms, |question| question.asked_ms);
        self.has_rows = question.is_some_and(|question| question.has_rows);
        self.is_barrier_due = false;
    }

    /// Sets the rows of the next planned epoch by the time that the last one took.
    fn measure(&mut self, now_ms: i64) {
        let (Some(epoch_ms), Some((rows, Some(first_ms)))) = (self.epoch_ms, self.measured.take()) else {
            return;
        };
        let took_ms = u128::from((now_ms - first_ms).max(1).unsigned_abs());
        let in_time = u128::from(rows) * u128::from(epoch_ms.unsigned_abs()) / took_ms;
        let in_time = u64::try_from(in_time).unwrap_or(u64::MAX);
        // One that was smaller than it might have been says nothing of a greater one.
        let most =
            if rows < self.rows_max { self.rows_max } else { self.rows_max.saturating_mul(ROWS_FACTOR_MAX) };
        let least = (self.rows_max / ROWS_FACTOR_MAX).max(ROWS_MAX_LEAST);
        self.rows_max = in_time.clamp(least, most.max(least)).min(self.rows_limit);
    }

    fn is_tick_due(&self, now_ms: i64, wants_empty_batch: bool) -> bool {
        (self.has_rows || wants_empty_batch) && self.tick_in_ms(now_ms) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_is_planned_and_then_rows_come_as_they_will() {
        let mut pace = Pace::unbounded(50, 100, 1000);
        assert_eq!(pace.next(1000, false), Next::Plan(Some(100)));
        pace.planned(1, 1000);
        assert_eq!(
            (pace.next(1100, true), pace.is_within_plan(), pace.is_gathering()),
            (Next::Poll, true, true)
        );
        pace.polled(1, false, 1100);
        assert_eq!(pace.next(1100, true), Next::Poll);
        pace.polled(1, true, 1200);
        assert_eq!(pace.next(1201, true), Next::EndEpoch);
        assert_eq!(pace.next(1201, true), Next::EndEpoch, "until the barrier came");
        pace.ended_epoch();
        assert_eq!(pace.next(1201, true), Next::Plan(Some(100)));
        // That took 201 ms: the rows of that time may come from here and there.
        pace.planned(100, 1201);
        assert!(pace.is_within_plan());
        pace.polled(100, true, 1202);
        pace.ended_epoch();
        // That was fast, and not all.
        pace.planned(9, 1203);
        assert!(pace.is_within_plan());
        pace.polled(9, true, 1300);
        pace.ended_epoch();
        assert_eq!(pace.next(1400, true), Next::Plan(Some(100)));
        pace.planned(9, 1403);
        assert!(!pace.is_within_plan() && !pace.is_gathering());
        // A query without a backlog begins so.
        let mut idle = Pace::unbounded(50, 100, 1000);
        idle.planned(0, 1000);
        assert_eq!(idle.next(1001, false), Next::Poll);
        assert!(!idle.is_gathering());
    }

    /// A pace whose rows come as they will.
    fn caught_up(now_ms: i64) -> Pace {
        let mut pace = Pace::unbounded(50, 100, now_ms);
        pace.planned(0, now_ms);
        pace
    }

    #[test]
    fn the_watermark_moves_each_tick_with_rows_once_what_was_there_has_come() {
        let mut pace = caught_up(1000);
        pace.polled(1, false, 1001);
        assert_eq!((pace.next(1049, false), pace.due_in_ms(1049, false)), (Next::Poll, 1));
        assert_eq!(pace.next(1050, false), Next::Ask);
        pace.asked(1050);
        for reached in [ReachedEnds::Unanswered, ReachedEnds::Behind] {
            pace.reached_ends(reached);
            assert_eq!((pace.next(1052, false), pace.is_asking()), (Next::Poll, true), "{reached:?}");
        }
        pace.reached_ends(ReachedEnds::All);
        assert_eq!((pace.next(1053, false), pace.has_answer()), (Next::Tick, true));
        pace.ticked(1053);
        assert_eq!(pace.next(1200, false), Next::Poll, "nothing came");
        assert_eq!(pace.next(1200, true), Next::Ask, "something is over");
        // Rows that come after the question are of the next tick, which is a whole one after the question.
        pace.asked(1200);
        pace.polled(1, false, 1201);
        pace.reached_ends(ReachedEnds::All);
        pace.ticked(1204);
        assert_eq!((pace.next(1249, false), pace.next(1250, false)), (Next::Poll, Next::Ask));
    }

    #[test]
    fn rows_that_stay_missing_are_planned_and_brokers_that_do_not_answer_are_waited_for() {
        let mut pace = caught_up(1000);
        pace.polled(1, false, 1001);
        pace.asked(1050);
        assert_eq!(pace.next(9000, false), Next::Poll);
        pace.reached_ends(ReachedEnds::Behind);
        assert_eq!(pace.next(1050 + BEHIND_MS - 1, false), Next::Poll);
        assert_eq!(pace.next(1050 + BEHIND_MS, false), Next::Plan(None));
        assert!(pace.is_within_plan() && !pace.is_asking() && !pace.has_answer());
        // So are those of a backlog that shows while they are waited for.
        let mut pace = caught_up(1000);
        pace.polled(1, false, 1001);
        pace.asked(1050);
        pace.polled(FULL_POLL_ROWS, false, 1051);
        assert_eq!((pace.next(1051, false), pace.is_asking()), (Next::Plan(None), false));
    }

    #[test]
    fn a_barrier_waits_until_the_watermark_may_move_but_not_for_long() {
        let mut pace = caught_up(1000);
        assert!(!pace.delays_barrier(1001), "nothing came");
        pace.polled(1, false, 1001);
        assert!(pace.delays_barrier(1002));
        assert_eq!(pace.next(1002, false), Next::Ask, "before its tick");
        pace.asked(1002);
        assert!(pace.delays_barrier(1001 + BARRIER_WAIT_MS) && !pace.delays_barrier(1002 + BARRIER_WAIT_MS));
        pace.reached_ends(ReachedEnds::All);
        assert!(!pace.delays_barrier(1003), "it moves with the barrier");
        pace.ticked(1003);
        assert_eq!(pace.next(1051, false), Next::Poll);
    }

    #[test]
    fn an_idle_query_waits_for_a_whole_tick_and_for_what_is_left_of_it_with_rows() {
        let mut pace = caught_up(1000);
        assert_eq!(pace.due_in_ms(1020, false), 30);
        for now_ms in [1050, 1051, 1900] {
            assert_eq!(pace.due_in_ms(now_ms, false), 50, "nothing came: no tick is due");
            assert_eq!(pace.due_in_ms(now_ms, true), 0, "something is over");
        }
        pace.polled(1, false, 1900);
        assert_eq!((pace.due_in_ms(1900, false), pace.next(1900, false)), (0, Next::Ask));
        pace.ticked(1901);
        assert_eq!(
            (pace.due_in_ms(1911, false), pace.due_in_ms(1911, true)),
            (40, 40),
            "not before its tick"
        );
        // A source that rests is asked again.
        let mut resting = Pace::planned_only(50, 1000);
        resting.next(1000, false);
        resting.planned(0, 1000);
        assert_eq!(resting.next(1000, false), Next::Rest);
        assert_eq!((resting.due_in_ms(1049, false), resting.due_in_ms(1050, false)), (1, 0));
    }

    #[test]
    fn rows_faster_than_they_are_taken_and_rows_after_a_gap_are_a_backlog() {
        let mut pace = caught_up(1000);
        pace.polled(FULL_POLL_ROWS, false, 1001);
        assert_eq!(pace.next(1200, false), Next::Plan(None), "all that is there");
        let mut pace = caught_up(1000);
        pace.polled(1, false, 1999);
        assert_eq!(pace.next(1999, false), Next::Ask);
        pace.ticked(1999);
        pace.polled(0, false, 2998);
        pace.polled(1, false, 2999);
        assert_eq!(pace.next(3500, false), Next::Plan(None), "and no tick");
        assert!(pace.is_within_plan(), "nor a barrier: others of the backlog are older");
        pace.planned(5, 3500);
        assert!(pace.is_within_plan(), "at least one epoch is planned then");
    }

    #[test]
    fn a_source_of_planned_epochs_only_rests_when_nothing_is_there_and_is_asked_again() {
        let mut pace = Pace::planned_only(50, 1000);
        assert_eq!(pace.next(1000, false), Next::Plan(None));
        // However fast it is.
        for now_ms in [1000, 1001, 1002] {
            pace.planned(1, now_ms);
            assert!(pace.is_within_plan() && pace.is_gathering());
            pace.polled(FULL_POLL_ROWS, true, now_ms);
            assert_eq!(pace.next(now_ms, true), Next::EndEpoch);
            pace.ended_epoch();
            assert_eq!(pace.next(now_ms, true), Next::Plan(None));
        }
        pace.planned(0, 1003);
        assert_eq!(pace.next(1003, true), Next::EndEpoch, "an empty epoch");
        pace.ended_epoch();
        assert_eq!((pace.next(1004, false), pace.is_within_plan()), (Next::Rest, false));
        assert_eq!(pace.next(1053, false), Next::Rest);
        assert_eq!(pace.next(1054, false), Next::Plan(None));
    }

    #[test]
    fn a_query_with_a_period_has_one_epoch_in_each_at_its_multiples() {
        let mut pace = Pace::every(100, 1234);
        let epoch = |pace: &mut Pace, from_ms, to_ms| {
            assert_eq!(pace.next(from_ms, true), Next::Plan(None));
            pace.planned(7, from_ms);
            pace.polled(7, true, to_ms);
            assert_eq!(pace.next(to_ms, true), Next::EndEpoch);
            pace.ended_epoch();
        };
        epoch(&mut pace, 1234, 1250);
        assert_eq!(
            (pace.next(1250, true), pace.due_in_ms(1250, false)),
            (Next::Rest, 50),
            "more rows or not"
        );
        assert_eq!(pace.next(1299, true), Next::Rest);
        epoch(&mut pace, 1304, 1320);
        assert_eq!((pace.next(1399, true), pace.is_within_plan()), (Next::Rest, false));
        // One that takes longer is followed at once, and the multiples stay.
        epoch(&mut pace, 1400, 1730);
        assert_eq!(pace.next(1730, true), Next::Rest);
        epoch(&mut pace, 1731, 1740);
        assert_eq!((pace.next(1740, true), pace.due_in_ms(1740, false)), (Next::Rest, 60));
        // Nothing is there, and nothing is over.
        assert_eq!(pace.next(1800, false), Next::Plan(None));
        pace.planned(0, 1800);
        assert_eq!((pace.next(1801, false), pace.next(1899, false)), (Next::Rest, Next::Rest));
        assert_eq!(pace.next(1900, false), Next::Plan(None));
    }

    #[test]
    fn a_query_that_runs_once_has_one_epoch() {
        let mut pace = Pace::once();
        assert_eq!(pace.next(0, false), Next::Plan(None));
        pace.planned(3, 0);
        pace.polled(3, true, 0);
        pace.ended_epoch();
        assert_eq!(pace.next(0, true), Next::End, "also if something is over");
    }

    #[test]
    fn planned_epochs_of_transactions_take_about_an_interval() {
        let mut pace = Pace::bounded().with_epochs_of(1000);
        let mut now_ms = 0;
        let mut rows_of_epochs = Vec::new();
        for rows_each_ms in [100, 100, 100, 100, 1, 1, 1, 1, 1] {
            let Next::Plan(Some(rows)) = pace.next(now_ms, false) else { panic!("all at once") };
            assert_eq!(pace.next(now_ms + 1, false), Next::Plan(Some(rows)), "asked again it is the same");
            pace.planned(rows, now_ms);
            // Brokers take their time before they give any.
            now_ms += 500;
            pace.polled(1, false, now_ms);
            now_ms += i64::try_from(rows / rows_each_ms).unwrap();
            pace.polled(1, true, now_ms);
            assert_eq!(pace.next(now_ms, false), Next::EndEpoch);
            pace.ended_epoch();
            rows_of_epochs.push(rows);
        }
        // Four times as many at most; then as few as take a second, four times as few at most.
        assert_eq!(rows_of_epochs, [10_000, 40_000, 100_000, 100_000, 100_000, 25_000, 6250, 1562, 1000]);
        // What was left was less than was asked for: it says nothing of more.
        assert_eq!(pace.next(now_ms, false), Next::Plan(Some(1000)));
        pace.planned(10, now_ms);
        pace.polled(10, true, now_ms + 1);
        pace.ended_epoch();
        assert_eq!(pace.next(now_ms + 1, false), Next::Plan(Some(1000)));
        pace.planned(0, now_ms + 1);
        assert_eq!(pace.next(now_ms + 1, false), Next::End);
        // A query that runs for ever has its limit, and reads what came before its backlog was known as one.
        let mut pace = Pace::unbounded(50, 500, 0).with_epochs_of(1000);
        assert_eq!(pace.next(0, false), Next::Plan(Some(500)));
        pace.planned(500, 0);
        pace.polled(500, true, 1);
        pace.ended_epoch();
        assert_eq!(pace.next(2, false), Next::Plan(Some(500)), "its own limit");
        pace.planned(0, 2);
        pace.polled(FULL_POLL_ROWS, false, 3);
        assert_eq!(pace.next(3, false), Next::Plan(None));
    }

    #[test]
    fn a_bounded_query_ends_after_an_empty_epoch_if_that_brings_something() {
        for wants in [false, true] {
            let mut pace = Pace::bounded();
            assert_eq!(pace.next(0, false), Next::Plan(None));
            pace.planned(3, 0);
            pace.polled(3, true, 0);
            assert_eq!(pace.next(0, true), Next::EndEpoch);
            pace.ended_epoch();
            assert_eq!(pace.next(0, true), Next::Plan(None));
            pace.planned(0, 0);
            if wants {
                assert_eq!(pace.next(0, true), Next::EndEpoch);
                pace.ended_epoch();
            }
            assert_eq!(pace.next(0, false), Next::End);
        }
    }
}
