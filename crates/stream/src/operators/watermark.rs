/// The watermark of a query by Spark's rules. Times are milliseconds since 1970.
///
/// Rows come in batches, planned ones or the ticks of a query that never waits. Rows of a batch are late by the watermark of
/// the batch before; what is over goes at the batch's end by the watermark of the batch itself, to which only rows before the
/// batch have brought it; then the greatest time of the batch's rows, less the delay, is the watermark of the next. It never falls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watermark {
    delay_ms: i64,
    /// The greatest time since this process began: a checkpoint does not hold it.
    greatest_ms: Option<i64>,
    current_ms: i64,
    late_ms: i64,
}

/// What the end of a batch brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// What is over at this time or before goes.
    pub evict_until_ms: i64,
    /// Whether the watermark rose: an empty batch after this one would let more go.
    pub has_risen: bool,
}

impl Watermark {
    /// A watermark that goes on where a checkpoint was: at 0 and 0 for a new query.
    ///
    /// # Panics
    /// If rows would be late by a watermark that is yet to come.
    pub fn new(delay_ms: i64, current_ms: i64, late_ms: i64) -> Self {
        assert!(late_ms <= current_ms, "a watermark of {late_ms} came before one of {current_ms}");
        Self { delay_ms, greatest_ms: None, current_ms, late_ms }
    }

    /// Takes note of the greatest time of some rows.
    pub fn observe(&mut self, greatest_ms: i64) {
        self.greatest_ms = self.greatest_ms.max(Some(greatest_ms));
    }

    /// Rows of the open batch at this time or before are late.
    pub fn late_ms(&self) -> i64 {
        self.late_ms
    }

    /// The watermark of the open batch.
    pub fn current_ms(&self) -> i64 {
        self.current_ms
    }

    /// Whether an empty batch would let something go.
    pub fn wants_empty_batch(&self) -> bool {
        self.current_ms > self.late_ms
    }

    /// Ends the open batch.
    pub fn end_batch(&mut self) -> Ended {
        let evict_until_ms = self.current_ms;
        self.late_ms = self.current_ms;
        let reached = self.greatest_ms.map(|greatest| greatest.saturating_sub(self.delay_ms));
        self.current_ms = reached.map_or(self.current_ms, |reached| reached.max(self.current_ms));
        Ended { evict_until_ms, has_risen: self.current_ms > self.late_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_move_the_watermark_of_the_next_batch_and_make_late_that_of_the_one_after() {
        let mut watermark = Watermark::new(1000, 0, 0);
        watermark.observe(5000);
        watermark.observe(4000);
        assert_eq!((watermark.late_ms(), watermark.current_ms()), (0, 0));
        assert_eq!(watermark.end_batch(), Ended { evict_until_ms: 0, has_risen: true });
        assert_eq!((watermark.late_ms(), watermark.current_ms()), (0, 4000));
        // A batch whose rows are older: what is over by now goes at its end.
        watermark.observe(4500);
        assert_eq!(watermark.end_batch(), Ended { evict_until_ms: 4000, has_risen: false });
        assert_eq!((watermark.late_ms(), watermark.current_ms()), (4000, 4000));
    }

    #[test]
    fn it_never_falls_and_starts_at_1970() {
        let mut watermark = Watermark::new(1000, 0, 0);
        assert!(!watermark.wants_empty_batch());
        watermark.observe(-7000);
        assert_eq!(watermark.end_batch(), Ended { evict_until_ms: 0, has_risen: false });
        assert_eq!(watermark.current_ms(), 0);
        let mut later = Watermark::new(1000, 9000, 8000);
        assert!(later.wants_empty_batch());
        later.observe(i64::MIN);
        assert_eq!(later.end_batch(), Ended { evict_until_ms: 9000, has_risen: false });
        assert_eq!((later.late_ms(), later.current_ms()), (9000, 9000));
    }
}
