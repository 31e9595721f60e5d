use crate::plan::WatermarkPolicy;

/// The watermark of a query by Spark's rules. Times are milliseconds since 1970.
///
/// Rows come in batches, planned ones or the ticks of a query that never waits. Rows of a batch are late by the watermark of
/// the batch before; what is over goes at the batch's end by the watermark of the batch itself, to which only rows before the
/// batch have brought it; then the greatest time of each stream's rows, less its delay, is its watermark, and the least of them
/// or, by policy, the greatest is that of the next batch. It never falls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watermark {
    policy: WatermarkPolicy,
    streams: Vec<StreamTime>,
    current_ms: i64,
    late_ms: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StreamTime {
    delay_ms: i64,
    /// The greatest time since this process began: a checkpoint does not hold it.
    greatest_ms: Option<i64>,
}

impl Watermark {
    /// A watermark over streams with these delays that goes on where a checkpoint was: at 0 and 0 for a new query.
    ///
    /// # Panics
    /// If rows would be late by a watermark that is yet to come.
    pub fn new(
        policy: WatermarkPolicy,
        delays_ms: impl IntoIterator<Item = i64>,
        current_ms: i64,
        late_ms: i64,
    ) -> Self {
        assert!(late_ms <= current_ms, "a watermark of {late_ms} came before one of {current_ms}");
        let streams = delays_ms.into_iter().map(|delay_ms| StreamTime { delay_ms, greatest_ms: None });
        Self { policy, streams: streams.collect(), current_ms, late_ms }
    }

    /// True if no stream has one.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Takes note of the greatest time of some rows of a stream, by its number among the delays.
    pub fn observe(&mut self, stream: usize, greatest_ms: i64) {
        let greatest = &mut self.streams[stream].greatest_ms;
        *greatest = (*greatest).max(Some(greatest_ms));
    }

    /// Rows of the open batch at this time or before are late.
    pub fn late_ms(&self) -> i64 {
        self.late_ms
    }

    /// The watermark of the open batch.
    pub fn current_ms(&self) -> i64 {
        self.current_ms
    }

    /// Ends the open batch.
    pub fn end_batch(&mut self) {
        self.late_ms = self.current_ms;
        // A stream without rows is at 0: with the least one, the query's stands still until each has had one.
        let reached = |stream: &StreamTime| {
            stream.greatest_ms.map_or(0, |greatest| greatest.saturating_sub(stream.delay_ms))
        };
        let reached = self.streams.iter().map(reached);
        let chosen = match self.policy {
            WatermarkPolicy::Min => reached.min(),
            WatermarkPolicy::Max => reached.max(),
        };
        self.current_ms = self.current_ms.max(chosen.unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_one(current_ms: i64, late_ms: i64) -> Watermark {
        Watermark::new(WatermarkPolicy::Min, [1000], current_ms, late_ms)
    }

    fn ended(watermark: &mut Watermark) -> (i64, i64) {
        watermark.end_batch();
        (watermark.late_ms(), watermark.current_ms())
    }

    #[test]
    fn rows_move_the_watermark_of_the_next_batch_and_make_late_that_of_the_one_after() {
        let mut watermark = of_one(0, 0);
        watermark.observe(0, 5000);
        watermark.observe(0, 4000);
        assert_eq!((watermark.late_ms(), watermark.current_ms()), (0, 0));
        assert_eq!(ended(&mut watermark), (0, 4000));
        // A batch whose rows are older: what is over by now goes at its end.
        watermark.observe(0, 4500);
        assert_eq!(ended(&mut watermark), (4000, 4000));
    }

    #[test]
    fn it_never_falls_and_starts_at_1970() {
        let mut watermark = of_one(0, 0);
        watermark.observe(0, -7000);
        assert_eq!(ended(&mut watermark), (0, 0));
        let mut later = of_one(9000, 8000);
        later.observe(0, i64::MIN);
        assert_eq!(ended(&mut later), (9000, 9000));
    }

    #[test]
    fn several_streams_give_the_least_or_the_greatest() {
        let of_two = |policy| {
            let mut watermark = Watermark::new(policy, [1000, 0], 0, 0);
            watermark.observe(0, 9000);
            let first = ended(&mut watermark);
            watermark.observe(1, 3000);
            (first, ended(&mut watermark))
        };
        assert_eq!(
            of_two(WatermarkPolicy::Min),
            ((0, 0), (0, 3000)),
            "it stands still without a row of each"
        );
        assert_eq!(of_two(WatermarkPolicy::Max), ((0, 8000), (8000, 8000)));
        // After a restart, too.
        let mut restored = Watermark::new(WatermarkPolicy::Min, [0, 0], 5000, 5000);
        restored.observe(0, 9000);
        assert_eq!(ended(&mut restored), (5000, 5000));
    }
}
