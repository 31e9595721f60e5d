//! Watermark of a query: how far event time has come, and which rows it makes late.

use crate::plan::{WatermarkClock, WatermarkPlan, WatermarkPolicy};

/// The watermark of a query by Spark's rules. Times are milliseconds since 1970.
///
/// Rows come in batches, planned ones or the ticks of a query that never waits. Rows of a batch are late by the watermark of
/// the batch before; what is over goes at the batch's end by the watermark of the batch itself, to which only rows before the
/// batch have brought it; then the greatest time of each stream's rows, less its delay, is its watermark, and the least of them
/// or, by policy, the greatest is that of the next batch. It never falls.
///
/// Parts of a source are read one after the other, so a row may have been seen while older ones of another part, which have been
/// there for as long, have not. Its time counts once those were seen too, which the end of a batch says by its [`Reach`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watermark {
    policy: WatermarkPolicy,
    streams: Vec<StreamTime>,
    current_ms: i64,
    late_ms: i64,
    /// The machine's clock.
    now_ms: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StreamTime {
    delay_ms: i64,
    clock: WatermarkClock,
    /// When the last rows came, or the first time on the clock if none did.
    last_rows_ms: Option<i64>,
    /// Greatest time that counts since this process began.
    complete_ms: Option<i64>,
    /// Greatest time of the rows that were seen, since they were held last.
    seen_ms: Option<i64>,
    /// Greatest time of rows that were seen before, among which rows of other parts of the source may be missing.
    held_ms: Option<i64>,
    /// Greatest time of the rows that were seen when the sources were asked what they have.
    asked_ms: Option<i64>,
}

/// Rows that are complete at the end of a batch: all that were there before any of them, in whichever part of a source, have been
/// seen. Only the times of such rows move the watermark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// No more rows than at the end of the last batch.
    Nothing,
    /// Rows that had been seen when the sources were asked what they have.
    Asked,
    /// Rows that were seen since others were held.
    Plan,
    /// All that were seen.
    Everything,
}

impl Watermark {
    /// A watermark over streams with these rules that goes on where a checkpoint was: at 0 and 0 for a new query.
    ///
    /// # Panics
    /// If rows would be late by a watermark that is yet to come.
    pub fn new(policy: WatermarkPolicy, streams: &[WatermarkPlan], current_ms: i64, late_ms: i64) -> Self {
        assert!(late_ms <= current_ms, "a watermark of {late_ms} came before one of {current_ms}");
        let stream = |plan: &WatermarkPlan| StreamTime {
            delay_ms: plan.delay_ms,
            clock: plan.clock,
            last_rows_ms: None,
            complete_ms: None,
            seen_ms: None,
            held_ms: None,
            asked_ms: None,
        };
        Self { policy, streams: streams.iter().map(stream).collect(), current_ms, late_ms, now_ms: 0 }
    }

    /// True if no stream has one.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Sets the machine's clock, in milliseconds since 1970. It never goes back.
    pub fn set_now_ms(&mut self, now_ms: i64) {
        self.now_ms = self.now_ms.max(now_ms);
        for stream in &mut self.streams {
            stream.last_rows_ms.get_or_insert(now_ms);
        }
    }

    /// Latest time of a stream's rows, by its number, that moves the watermark.
    pub fn limit_ms(&self, stream: usize) -> i64 {
        let limit = self.streams[stream].clock.future_limit_ms;
        limit.map_or(i64::MAX, |limit| self.now_ms.saturating_add(limit))
    }

    /// Takes note of rows of a stream, by its number, and of the greatest of their times that are not beyond the limit.
    ///
    /// # Panics
    /// If the time is beyond the limit.
    pub fn observe(&mut self, stream: usize, greatest_ms: Option<i64>) {
        let limit_ms = self.limit_ms(stream);
        assert!(greatest_ms.is_none_or(|ms| ms <= limit_ms), "a time beyond {limit_ms} moves no watermark");
        let stream = &mut self.streams[stream];
        stream.seen_ms = stream.seen_ms.max(greatest_ms);
        stream.last_rows_ms = Some(self.now_ms);
    }

    /// Remembers the rows that have been seen when the sources are asked what they have.
    pub fn mark_asked(&mut self) {
        for stream in &mut self.streams {
            stream.asked_ms = stream.seen_ms.max(stream.held_ms);
        }
    }

    /// Holds the rows that have been seen back: a plan that does not have all that is there does not complete them.
    pub fn hold_seen(&mut self) {
        for stream in &mut self.streams {
            stream.held_ms = stream.held_ms.max(stream.seen_ms.take());
        }
    }

    /// Greatest times of the streams' rows that do not count yet: what a checkpoint has to keep, since it is past these rows.
    pub fn incomplete_ms(&self) -> Vec<Option<i64>> {
        self.streams.iter().map(StreamTime::incomplete_ms).collect()
    }

    /// True if rows do not count yet.
    pub fn has_incomplete(&self) -> bool {
        self.streams.iter().any(|stream| stream.incomplete_ms().is_some())
    }

    /// Holds times that did not count yet at a checkpoint; one of an older version has none.
    pub fn restore_incomplete(&mut self, times_ms: &[Option<i64>]) {
        for (stream, time_ms) in self.streams.iter_mut().zip(times_ms) {
            stream.held_ms = *time_ms;
        }
    }

    /// True if the open batch's end would raise it for the reason alone that it does not wait for a stream any more.
    pub fn rises_by_idleness(&self) -> bool {
        let is_any_idle = self.streams.iter().any(|stream| stream.is_idle(self.now_ms));
        is_any_idle && self.reached_ms() > self.current_ms
    }

    /// Rows of the open batch at this time or before are late.
    pub fn late_ms(&self) -> i64 {
        self.late_ms
    }

    /// The watermark of the open batch.
    pub fn current_ms(&self) -> i64 {
        self.current_ms
    }

    /// Ends the open batch, with which these rows are complete.
    pub fn end_batch(&mut self, reach: Reach) {
        self.streams.iter_mut().for_each(|stream| stream.complete(reach));
        self.late_ms = self.current_ms;
        self.current_ms = self.current_ms.max(self.reached_ms());
    }

    /// Time that the streams have come to: those that are not idle, or all if all are.
    fn reached_ms(&self) -> i64 {
        let chosen = |is_counted: &dyn Fn(&StreamTime) -> bool| {
            let reached = self.streams.iter().filter(|stream| is_counted(stream)).map(StreamTime::reached_ms);
            match self.policy {
                WatermarkPolicy::Min => reached.min(),
                WatermarkPolicy::Max => reached.max(),
            }
        };
        chosen(&|stream| !stream.is_idle(self.now_ms)).or_else(|| chosen(&|_| true)).unwrap_or(0)
    }
}

impl StreamTime {
    /// A stream without rows is at 0: with the least one, the query's stands still until each has had one.
    fn reached_ms(&self) -> i64 {
        self.complete_ms.map_or(0, |greatest| greatest.saturating_sub(self.delay_ms))
    }

    fn incomplete_ms(&self) -> Option<i64> {
        let greatest_ms = self.seen_ms.max(self.held_ms);
        if greatest_ms > self.complete_ms { greatest_ms } else { None }
    }

    fn complete(&mut self, reach: Reach) {
        let complete_ms = match reach {
            Reach::Nothing => None,
            Reach::Asked => self.asked_ms,
            Reach::Plan => self.seen_ms,
            Reach::Everything => self.seen_ms.max(self.held_ms),
        };
        self.complete_ms = self.complete_ms.max(complete_ms);
    }

    fn is_idle(&self, now_ms: i64) -> bool {
        let since_ms = self.last_rows_ms.map_or(0, |last| now_ms.saturating_sub(last));
        self.clock.idle_after_ms.is_some_and(|after_ms| since_ms >= after_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_one(current_ms: i64, late_ms: i64) -> Watermark {
        Watermark::new(WatermarkPolicy::Min, &plans([1000]), current_ms, late_ms)
    }

    fn plans<const N: usize>(delays_ms: [i64; N]) -> [WatermarkPlan; N] {
        delays_ms.map(|delay_ms| WatermarkPlan { column: 0, delay_ms, clock: WatermarkClock::default() })
    }

    fn ended(watermark: &mut Watermark) -> (i64, i64) {
        watermark.end_batch(Reach::Everything);
        (watermark.late_ms(), watermark.current_ms())
    }

    #[test]
    fn rows_move_the_watermark_of_the_next_batch_and_make_late_that_of_the_one_after() {
        let mut watermark = of_one(0, 0);
        watermark.observe(0, Some(5000));
        watermark.observe(0, Some(4000));
        assert_eq!((watermark.late_ms(), watermark.current_ms()), (0, 0));
        assert_eq!(ended(&mut watermark), (0, 4000));
        // A batch whose rows are older: what is over by now goes at its end.
        watermark.observe(0, Some(4500));
        assert_eq!(ended(&mut watermark), (4000, 4000));
    }

    #[test]
    fn it_never_falls_and_starts_at_1970() {
        let mut watermark = of_one(0, 0);
        watermark.observe(0, Some(-7000));
        assert_eq!(ended(&mut watermark), (0, 0));
        let mut later = of_one(9000, 8000);
        later.observe(0, Some(i64::MIN));
        assert_eq!(ended(&mut later), (9000, 9000));
    }

    #[test]
    fn several_streams_give_the_least_or_the_greatest() {
        let of_two = |policy| {
            let mut watermark = Watermark::new(policy, &plans([1000, 0]), 0, 0);
            watermark.observe(0, Some(9000));
            let first = ended(&mut watermark);
            watermark.observe(1, Some(3000));
            (first, ended(&mut watermark))
        };
        assert_eq!(
            of_two(WatermarkPolicy::Min),
            ((0, 0), (0, 3000)),
            "it stands still without a row of each"
        );
        assert_eq!(of_two(WatermarkPolicy::Max), ((0, 8000), (8000, 8000)));
        // After a restart, too.
        let mut restored = Watermark::new(WatermarkPolicy::Min, &plans([0, 0]), 5000, 5000);
        restored.observe(0, Some(9000));
        assert_eq!(ended(&mut restored), (5000, 5000));
    }

    #[test]
    fn an_idle_stream_is_not_waited_for_until_it_has_rows_again() {
        let mut streams = plans([0, 0]);
        streams[1].clock.idle_after_ms = Some(100);
        let mut watermark = Watermark::new(WatermarkPolicy::Min, &streams, 0, 0);
        watermark.set_now_ms(50_000);
        watermark.observe(0, Some(9000));
        watermark.set_now_ms(50_099);
        assert!(!watermark.rises_by_idleness());
        assert_eq!(ended(&mut watermark), (0, 0), "the other may have rows yet");
        watermark.set_now_ms(50_100);
        assert!(watermark.rises_by_idleness());
        assert_eq!(ended(&mut watermark), (0, 9000));
        assert!(!watermark.rises_by_idleness());
        // Its rows count again, and what they hold back is not taken back.
        watermark.observe(1, Some(9500));
        watermark.observe(0, Some(12_000));
        assert_eq!(ended(&mut watermark), (9000, 9500));
        // All are idle: nothing is known that was not before.
        streams[0].clock.idle_after_ms = Some(100);
        let mut both = Watermark::new(WatermarkPolicy::Min, &streams, 0, 0);
        both.set_now_ms(1000);
        both.observe(0, Some(9000));
        both.set_now_ms(5000);
        assert!(!both.rises_by_idleness());
        assert_eq!(ended(&mut both), (0, 0));
    }

    #[test]
    fn rows_count_once_those_that_were_there_before_them_were_seen() {
        let mut watermark = of_one(0, 0);
        let ended = |watermark: &mut Watermark, reach| {
            watermark.end_batch(reach);
            watermark.current_ms()
        };
        watermark.observe(0, Some(5000));
        watermark.mark_asked();
        watermark.observe(0, Some(7000));
        assert_eq!(ended(&mut watermark, Reach::Nothing), 0);
        assert_eq!(watermark.incomplete_ms(), [Some(7000)]);
        assert_eq!(ended(&mut watermark, Reach::Asked), 4000);
        assert!(watermark.has_incomplete(), "those that came after the question");
        // A plan of a part of what is there does not complete what was read before it, here or by another process.
        let mut restored = of_one(4000, 4000);
        restored.restore_incomplete(&watermark.incomplete_ms());
        for mut watermark in [watermark, restored] {
            watermark.hold_seen();
            watermark.observe(0, Some(5500));
            assert_eq!(ended(&mut watermark, Reach::Plan), 4500);
            assert_eq!(watermark.incomplete_ms(), [Some(7000)]);
            assert_eq!(ended(&mut watermark, Reach::Everything), 6000);
            assert_eq!((watermark.incomplete_ms(), watermark.has_incomplete()), (vec![None], false));
        }
    }
}
