use serde::{Deserialize, Serialize};

use crate::BatchId;
use crate::error::{Result, corrupt, invalid};

/// Name of a committed transaction of output: it goes into the transaction itself, as a record of the control topic, and into the
/// manifest of the epoch that the transaction is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputMarker {
    /// The epoch.
    pub batch: BatchId,
    /// The generation of the process that committed it.
    pub generation: u64,
}

/// Output that a checkpoint covers, of a query that delivers exactly once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutputPosition {
    /// Transactional id of the query's producer: what fences an older process.
    pub transactional_id: String,
    /// The last transaction that is covered; none before the first.
    pub last: Option<OutputMarker>,
}

/// From where a query goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// From the last checkpoint: it covers all output that is committed. What was sent after it was aborted.
    LastCheckpoint,
    /// From the prepared manifest of this transaction, which is committed and which no checkpoint covers: its process died, or was
    /// overtaken, before it could set the marker.
    Prepared(OutputMarker),
}

/// Checks that output with this transactional id, or none, can go on from what a checkpoint covers.
///
/// # Errors
/// `Invalid` if the query had another transactional id, or has none any more.
pub fn check_output(covered: Option<&OutputPosition>, transactional_id: Option<&str>) -> Result<()> {
    let Some(covered) = covered else { return Ok(()) };
    let Some(transactional_id) = transactional_id else {
        return Err(invalid("the checkpoint is of output that is delivered exactly once").with_hint(
            "'delivery-guarantee' = 'exactly-once' goes on with it; name another directory with --checkpoint to begin anew",
        ));
    };
    if covered.transactional_id == transactional_id {
        return Ok(());
    }
    Err(invalid(format!(
        "the checkpoint is of output with the transactional id '{}', the query has '{transactional_id}'",
        covered.transactional_id
    ))
    .with_hint("another id would not fence an older process: give 'transactional-id-prefix' its old value"))
}

/// Decides from where a query goes on, given what its last usable checkpoint covers and which transaction Kafka has as the last.
/// It is asked after older processes are fenced and their transactions settled, so that the last stays the last.
///
/// Kafka's word stands above the folder's: a process can only commit while its producer is the youngest, but an older one may
/// have claimed an epoch in the folder since.
///
/// # Errors
/// `Corrupt` if the checkpoint covers output that Kafka did not know of when it was asked; `Invalid` if the query had another
/// transactional id.
pub fn base(
    covered: Option<&OutputPosition>,
    transactional_id: &str,
    committed: Option<OutputMarker>,
) -> Result<Base> {
    check_output(covered, Some(transactional_id))?;
    // Each commit is of a later epoch than the one before: who commits has claimed an epoch after all that were there.
    match (covered.and_then(|covered| covered.last), committed) {
        (None, None) => Ok(Base::LastCheckpoint),
        (None, Some(committed)) => Ok(Base::Prepared(committed)),
        (Some(covered), Some(committed)) if covered == committed => Ok(Base::LastCheckpoint),
        (Some(covered), Some(committed)) if covered.batch < committed.batch => Ok(Base::Prepared(committed)),
        (Some(covered), _) => Err(corrupt(format!(
            "the checkpoint covers output of epoch {}, and the control topic of '{transactional_id}' does not end with a later one",
            covered.batch
        ))
        .with_hint(
            "if another process took the query over just now, it goes on; else the topic has lost records, and has to be restored",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_output_decides_from_where_a_query_goes_on() {
        let marker = |batch, generation| OutputMarker { batch: BatchId(batch), generation };
        let covers = |last| OutputPosition { transactional_id: "a".into(), last };
        let base = |covered: Option<OutputPosition>, committed| base(covered.as_ref(), "a", committed);
        assert_eq!(base(None, None).unwrap(), Base::LastCheckpoint);
        assert_eq!(base(Some(covers(None)), None).unwrap(), Base::LastCheckpoint);
        let last = Some(marker(3, 1));
        assert_eq!(base(Some(covers(last)), last).unwrap(), Base::LastCheckpoint);
        assert_eq!(base(Some(covers(last)), Some(marker(4, 1))).unwrap(), Base::Prepared(marker(4, 1)));
        assert_eq!(base(Some(covers(None)), Some(marker(0, 1))).unwrap(), Base::Prepared(marker(0, 1)));
        // Another process committed since Kafka was asked, or the topic has lost records; an epoch is committed once.
        for earlier in [None, Some(marker(2, 1)), Some(marker(3, 2))] {
            let error = base(Some(covers(last)), earlier).unwrap_err().to_string();
            assert!(error.contains("covers output of epoch 3"), "{error}");
        }
        let other = OutputPosition { transactional_id: "b".into(), last: None };
        assert!(base(Some(other), None).unwrap_err().to_string().contains("transactional id 'b'"));
        let none = check_output(Some(&covers(last)), None).unwrap_err().to_string();
        assert!(none.contains("delivered exactly once"), "{none}");
        check_output(Some(&covers(last)), Some("a")).unwrap();
        check_output(None, Some("b")).unwrap();
        check_output(None, None).unwrap();
    }
}
