use std::ops::Range;

use arrow::array::{ArrayRef, RecordBatch};

/// Keys of a batch with their rows and states.
#[derive(Debug)]
pub struct KeyGroups<'a> {
    pub(crate) keys: &'a [ArrayRef],
    pub(crate) rows: &'a RecordBatch,
    /// End of each group's rows; nothing if the keys have timed out.
    pub(crate) ends: Option<&'a [usize]>,
    pub(crate) states: &'a [ArrayRef],
    pub(crate) has_state: &'a [bool],
    pub(crate) watermark_ms: Option<i64>,
    pub(crate) processing_time_ms: i64,
}

impl KeyGroups<'_> {
    /// Number of keys.
    pub fn len(&self) -> usize {
        self.has_state.len()
    }

    /// True if there are none, which never happens in a call.
    pub fn is_empty(&self) -> bool {
        self.has_state.is_empty()
    }

    /// Columns of the keys, a row for each.
    pub fn keys(&self) -> &[ArrayRef] {
        self.keys
    }

    /// Rows of all keys: those of the first one, then those of the second, each in the order in which they came.
    pub fn rows(&self) -> &RecordBatch {
        self.rows
    }

    /// Places of a key's rows among [`rows`](Self::rows).
    ///
    /// # Panics
    /// If there is no such key.
    pub fn rows_of(&self, group: usize) -> Range<usize> {
        let Some(ends) = self.ends else { return 0..0 };
        let begin = if group == 0 { 0 } else { ends[group - 1] };
        begin..ends[group]
    }

    /// Columns of the states, a row for each key; null where there is none.
    pub fn states(&self) -> &[ArrayRef] {
        self.states
    }

    /// True if a key has a state.
    ///
    /// # Panics
    /// If there is no such key.
    pub fn has_state(&self, group: usize) -> bool {
        self.has_state[group]
    }

    /// True if the keys have timed out, and have no rows.
    pub fn have_timed_out(&self) -> bool {
        self.ends.is_none()
    }

    /// The watermark of the batch, in milliseconds since 1970; nothing without one before this step.
    pub fn watermark_ms(&self) -> Option<i64> {
        self.watermark_ms
    }

    /// The machine's clock for this batch, in milliseconds since 1970.
    pub fn processing_time_ms(&self) -> i64 {
        self.processing_time_ms
    }
}
