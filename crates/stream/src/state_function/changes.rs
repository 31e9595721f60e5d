use arrow::array::ArrayRef;

use super::{KeyGroups, Timeout};
use crate::error::{Error, ErrorKind, Result, invalid};

/// Changes that a call makes to the states of its keys. Each key begins with its state as it is and without a timeout.
#[derive(Debug)]
pub struct Changes {
    timeout: Timeout,
    watermark_ms: Option<i64>,
    processing_time_ms: i64,
    changes: Vec<StateChange>,
    timeouts_ms: Vec<Option<i64>>,
    states: Option<Vec<ArrayRef>>,
}

/// Change of a key's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StateChange {
    Keep,
    Update,
    Remove,
}

impl Changes {
    /// No changes yet, of a function with these timeouts.
    pub(crate) fn new(groups: &KeyGroups<'_>, timeout: Timeout) -> Self {
        Self {
            timeout,
            watermark_ms: groups.watermark_ms(),
            processing_time_ms: groups.processing_time_ms(),
            changes: vec![StateChange::Keep; groups.len()],
            timeouts_ms: vec![None; groups.len()],
            states: None,
        }
    }

    /// Gives a key the state in its row of [`set_states`](Self::set_states).
    ///
    /// # Panics
    /// If there is no such key.
    pub fn update(&mut self, group: usize) {
        self.changes[group] = StateChange::Update;
    }

    /// Takes the state of a key away. A timeout that is set in the same call stays.
    ///
    /// # Panics
    /// If there is no such key.
    pub fn remove(&mut self, group: usize) {
        self.changes[group] = StateChange::Remove;
    }

    /// Columns of new states, a row for each key, of which those of updated keys are read.
    pub fn set_states(&mut self, states: Vec<ArrayRef>) {
        self.states = Some(states);
    }

    /// Has a key time out so many milliseconds from now by the machine's clock, unless a later call for it comes before.
    ///
    /// # Errors
    /// `Invalid` if the function's timeouts are not by this clock, and for a duration that is not positive.
    ///
    /// # Panics
    /// If there is no such key.
    pub fn set_timeout_duration_ms(&mut self, group: usize, duration_ms: i64) -> Result<()> {
        self.check_clock(Timeout::ProcessingTime, "a timeout duration")?;
        if duration_ms <= 0 {
            return Err(invalid(format!("a timeout duration of {duration_ms} ms: it has to be positive")));
        }
        self.timeouts_ms[group] = Some(self.processing_time_ms.saturating_add(duration_ms));
        Ok(())
    }

    /// Has a key time out when the watermark passes a time, in milliseconds since 1970, unless a later call for it comes before.
    ///
    /// # Errors
    /// `Invalid` if the function's timeouts are not by the watermark, and for a time that it has passed already.
    ///
    /// # Panics
    /// If there is no such key.
    pub fn set_timeout_timestamp_ms(&mut self, group: usize, timestamp_ms: i64) -> Result<()> {
        self.check_clock(Timeout::EventTime, "a timeout timestamp")?;
        if timestamp_ms <= 0 {
            return Err(invalid(format!("a timeout timestamp of {timestamp_ms} ms: it has to be positive")));
        }
        if let Some(watermark_ms) = self.watermark_ms.filter(|watermark| timestamp_ms < *watermark) {
            let text = format!(
                "a timeout timestamp of {timestamp_ms} ms: it cannot be earlier than the current watermark, {watermark_ms} ms"
            );
            return Err(invalid(text).with_hint("what is late by then can be looked for with watermark_ms()"));
        }
        self.timeouts_ms[group] = Some(timestamp_ms);
        Ok(())
    }

    fn check_clock(&self, wanted: Timeout, what: &str) -> Result<()> {
        if self.timeout == wanted {
            return Ok(());
        }
        Err(invalid(format!("{what}, and the function's timeouts are {:?}, not {wanted:?}", self.timeout)))
    }

    pub(crate) fn change(&self, group: usize) -> StateChange {
        self.changes[group]
    }

    pub(crate) fn timeout_ms(&self, group: usize) -> Option<i64> {
        self.timeouts_ms[group]
    }

    /// New states.
    ///
    /// # Errors
    /// `Internal` if keys were updated and there are no states for them.
    pub(crate) fn states(&self) -> Result<&[ArrayRef]> {
        let is_updated = self.changes.contains(&StateChange::Update);
        match &self.states {
            Some(states) if states.iter().all(|column| column.len() == self.changes.len()) => Ok(states),
            None if !is_updated => Ok(&[]),
            _ => Err(Error::new(
                ErrorKind::Internal,
                format!("keys were updated without a row of states for each of the {}", self.changes.len()),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::RecordBatch;
    use arrow::datatypes::Schema;

    use super::*;

    fn changes(timeout: Timeout, watermark_ms: Option<i64>) -> Changes {
        let rows = RecordBatch::new_empty(Schema::empty().into());
        let has_state = [false, true];
        let groups = KeyGroups {
            keys: &[],
            rows: &rows,
            ends: Some(&[0, 0]),
            states: &[],
            has_state: &has_state,
            watermark_ms,
            processing_time_ms: 5000,
        };
        Changes::new(&groups, timeout)
    }

    #[test]
    fn a_timeout_that_cannot_be_is_refused() {
        let mut by_watermark = changes(Timeout::EventTime, Some(1000));
        for (ms, expected) in [(999, "earlier than the current watermark, 1000 ms"), (0, "positive")] {
            let error = by_watermark.set_timeout_timestamp_ms(1, ms).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains(expected), "{error}");
        }
        by_watermark.set_timeout_timestamp_ms(1, 1000).unwrap();
        assert_eq!((by_watermark.timeout_ms(0), by_watermark.timeout_ms(1)), (None, Some(1000)));
        assert!(by_watermark.set_timeout_duration_ms(1, 1000).is_err());
        let mut by_clock = changes(Timeout::ProcessingTime, None);
        assert!(by_clock.set_timeout_duration_ms(0, 0).is_err());
        by_clock.set_timeout_duration_ms(0, 10).unwrap();
        assert_eq!(by_clock.timeout_ms(0), Some(5010));
        assert!(by_clock.set_timeout_timestamp_ms(0, 9000).is_err());
    }

    #[test]
    fn the_last_change_of_a_key_counts_and_needs_its_state() {
        let mut changes = changes(Timeout::None, None);
        assert!(changes.states().unwrap().is_empty());
        changes.update(0);
        changes.remove(0);
        assert_eq!((changes.change(0), changes.change(1)), (StateChange::Remove, StateChange::Keep));
        changes.update(1);
        assert_eq!(changes.states().unwrap_err().kind(), ErrorKind::Internal);
    }
}
