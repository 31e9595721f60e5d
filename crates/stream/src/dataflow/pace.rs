/// Rows of a planned epoch of a query that runs for ever: some tenths of a second of work.
pub(super) const PLANNED_ROWS_MAX: u64 = 500_000;
/// Rows below which a backlog is not worth a plan: a poll or two bring them.
const BACKLOG_ROWS_MIN: u64 = 16_384;
/// Rows of one poll that say that there are more.
const FULL_POLL_ROWS: usize = 8192;

/// How a query goes on: in planned epochs, whose ends are known before their rows are read, or in unplanned ones, which end when
/// a checkpoint is due.
///
/// A backlog is read in planned epochs, as Spark reads all: their ends advance all parts of a source in proportion, and the
/// watermark moves only there. Else a part that is read faster than the others would make rows of those late. Without a
/// backlog rows come at about their own time, and the watermark moves each tick.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pace {
    phase: Phase,
    tick_ms: i64,
    last_tick_ms: i64,
    has_rows: bool,
    /// Whether every epoch is planned, and the last one ends the query.
    is_bounded: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The source is to be asked what is there.
    Unknown,
    /// Rows of a planned epoch come.
    Planned,
    /// All of them came: the epoch ends with the next barrier.
    Reached,
    /// No planned epoch is left, and the last one was not empty enough.
    LastReached,
    /// Nothing more is to be done.
    Finished,
    /// Rows come as they will.
    Unplanned,
}

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Ask the source for a plan of so many rows at most, and say what it planned.
    Plan(Option<u64>),
    /// Take rows.
    Poll,
    /// End the batch, and the epoch with it: no row comes before its barrier.
    EndEpoch,
    /// End the batch and, if the watermark rose, an empty one after it.
    Tick,
    /// End the query.
    End,
}

impl Pace {
    /// The pace of a query that runs for ever.
    pub fn unbounded(tick_ms: i64, now_ms: i64) -> Self {
        Self { phase: Phase::Unknown, tick_ms, last_tick_ms: now_ms, has_rows: false, is_bounded: false }
    }

    /// The pace of a query that ends with the rows that are there when it begins.
    pub fn bounded() -> Self {
        Self { phase: Phase::Unknown, tick_ms: 0, last_tick_ms: 0, has_rows: false, is_bounded: true }
    }

    /// What is to be done. `wants_empty_batch` says whether an epoch without rows would bring something out.
    pub fn next(&mut self, now_ms: i64, wants_empty_batch: bool) -> Next {
        match self.phase {
            Phase::Unknown => Next::Plan((!self.is_bounded).then_some(PLANNED_ROWS_MAX)),
            Phase::Planned => Next::Poll,
            _ if self.is_epoch_over(wants_empty_batch) => Next::EndEpoch,
            Phase::Reached | Phase::LastReached | Phase::Finished => {
                self.phase = Phase::Finished;
                Next::End
            }
            Phase::Unplanned if self.is_tick_due(now_ms, wants_empty_batch) => Next::Tick,
            Phase::Unplanned => Next::Poll,
        }
    }

    /// Whether a planned epoch is at its end.
    pub fn is_epoch_over(&self, wants_empty_batch: bool) -> bool {
        self.phase == Phase::Reached || (self.phase == Phase::LastReached && wants_empty_batch)
    }

    /// Milliseconds until the watermark may have to move.
    pub fn due_in_ms(&self, now_ms: i64) -> i64 {
        (self.last_tick_ms + self.tick_ms - now_ms).clamp(0, self.tick_ms)
    }

    /// Whether rows of a planned epoch are on their way, so that no barrier may come between them.
    pub fn is_within_plan(&self) -> bool {
        matches!(self.phase, Phase::Planned | Phase::Reached | Phase::LastReached)
    }

    /// Whether groups come out once for an epoch.
    pub fn is_gathering(&self) -> bool {
        self.phase != Phase::Unplanned
    }

    /// The source planned so many rows.
    pub fn planned(&mut self, rows: u64) {
        assert_eq!(self.phase, Phase::Unknown, "a plan that nobody asked for");
        self.phase = match (rows, self.is_bounded) {
            (0, true) => Phase::LastReached,
            (_, true) => Phase::Planned,
            (rows, false) if rows >= BACKLOG_ROWS_MIN => Phase::Planned,
            (_, false) => Phase::Unplanned,
        };
    }

    /// A poll gave so many rows; `is_at_end` says whether they are the last of a plan.
    pub fn polled(&mut self, rows: usize, is_at_end: bool) {
        self.has_rows |= rows > 0;
        match self.phase {
            Phase::Planned if is_at_end => self.phase = Phase::Reached,
            Phase::Unplanned if rows >= FULL_POLL_ROWS => self.phase = Phase::Unknown,
            _ => {}
        }
    }

    /// The epoch of a plan was ended by a barrier.
    pub fn ended_epoch(&mut self) {
        assert!(matches!(self.phase, Phase::Reached | Phase::LastReached), "no planned epoch was at its end");
        self.phase = if self.phase == Phase::Reached { Phase::Unknown } else { Phase::Finished };
    }

    /// The watermark moved.
    pub fn ticked(&mut self, now_ms: i64) {
        self.last_tick_ms = now_ms;
        self.has_rows = false;
    }

    fn is_tick_due(&self, now_ms: i64, wants_empty_batch: bool) -> bool {
        (self.has_rows || wants_empty_batch) && self.due_in_ms(now_ms) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_is_planned_and_then_rows_come_as_they_will() {
        let mut pace = Pace::unbounded(50, 1000);
        assert_eq!(pace.next(1000, false), Next::Plan(Some(PLANNED_ROWS_MAX)));
        pace.planned(400_000);
        assert_eq!((pace.next(1100, true), pace.is_within_plan()), (Next::Poll, true));
        pace.polled(8192, false);
        assert_eq!(pace.next(1100, true), Next::Poll);
        pace.polled(100, true);
        assert_eq!(pace.next(1100, true), Next::EndEpoch);
        assert_eq!(pace.next(1100, true), Next::EndEpoch, "until the barrier came");
        pace.ended_epoch();
        assert_eq!(pace.next(1200, true), Next::Plan(Some(PLANNED_ROWS_MAX)));
        pace.planned(BACKLOG_ROWS_MIN - 1);
        assert!(!pace.is_within_plan() && !pace.is_gathering());
        assert_eq!(pace.next(1001, false), Next::Poll);
        pace.polled(1, false);
        assert_eq!((pace.next(1049, false), pace.due_in_ms(1049)), (Next::Poll, 1));
        assert_eq!(pace.next(1050, false), Next::Tick);
        pace.ticked(1050);
        assert_eq!(pace.next(1200, false), Next::Poll, "nothing came");
        // Rows that come faster than they are taken are a backlog.
        pace.polled(FULL_POLL_ROWS, false);
        assert_eq!(pace.next(1200, false), Next::Plan(Some(PLANNED_ROWS_MAX)));
    }

    #[test]
    fn a_bounded_query_ends_after_an_empty_epoch_if_that_brings_something() {
        for wants in [false, true] {
            let mut pace = Pace::bounded();
            assert_eq!(pace.next(0, false), Next::Plan(None));
            pace.planned(3);
            pace.polled(3, true);
            assert_eq!(pace.next(0, true), Next::EndEpoch);
            pace.ended_epoch();
            assert_eq!(pace.next(0, true), Next::Plan(None));
            pace.planned(0);
            if wants {
                assert_eq!(pace.next(0, true), Next::EndEpoch);
                pace.ended_epoch();
            }
            assert_eq!(pace.next(0, false), Next::End);
        }
    }
}
