use std::collections::BTreeMap;
use std::time::Duration;

/// A part of an epoch's work whose time is measured, with Spark's name of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// All of it: from its plan, or without one from the barrier before it, until its checkpoint is complete. Epochs overlap:
    /// rows of the next one come while the checkpoint is written.
    TriggerExecution,
    /// Asking sources what is there. An epoch whose rows come as they will has it only if a backlog was looked for in it.
    LatestOffset,
    /// Rows on their way: decoding, operators, and handing them to the sink. Waiting for rows is none of it.
    AddBatch,
    /// Writing the checkpoint's manifest before the transaction of the output is committed. Only output that is delivered exactly
    /// once has it.
    WalCommit,
    /// Writing the marker of the checkpoint, with the entries of Spark's logs of offsets and commits.
    CommitOffsets,
}

/// Times of the parts of an epoch's work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Phases(BTreeMap<Phase, Duration>);

impl Phase {
    /// Name of the part.
    pub fn name(self) -> &'static str {
        match self {
            Self::TriggerExecution => "triggerExecution",
            Self::LatestOffset => "latestOffset",
            Self::AddBatch => "addBatch",
            Self::WalCommit => "walCommit",
            Self::CommitOffsets => "commitOffsets",
        }
    }
}

impl Phases {
    /// Adds to the time of a part.
    pub fn add(&mut self, phase: Phase, time: Duration) {
        let total = self.0.entry(phase).or_default();
        *total = total.saturating_add(time);
    }

    /// Whole milliseconds by name.
    pub fn milliseconds(&self) -> BTreeMap<&'static str, i64> {
        let in_ms = |time: &Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        self.0.iter().map(|(phase, time)| (phase.name(), in_ms(time))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_part_add_up_before_they_are_cut_to_milliseconds() {
        let mut phases = Phases::default();
        for _ in 0..5 {
            phases.add(Phase::AddBatch, Duration::from_micros(300));
        }
        phases.add(Phase::CommitOffsets, Duration::MAX);
        phases.add(Phase::CommitOffsets, Duration::from_secs(1));
        let expected = BTreeMap::from([("addBatch", 1), ("commitOffsets", i64::MAX)]);
        assert_eq!(phases.milliseconds(), expected);
    }
}
