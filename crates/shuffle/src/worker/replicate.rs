//! The second copy of a push: sent to the replica's worker, and what its answer means for the client.

use std::time::Duration;

use super::answer::PushReply;
use crate::net::{Client, Payload, RequestError};
use crate::wire::{Header, Status};

/// The answer of the replica's worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Copied {
    /// A status byte; an empty answer is a success.
    Status(Status),
    /// A failure, as the client gets it.
    Failed(Status, String),
}

/// Sends a copy and waits for its answer.
pub async fn send(
    peers: &Client,
    peer: &str,
    header: Header,
    body: impl Into<Payload>,
    within: Duration,
) -> Copied {
    match peers.request(peer, header, body, within).await {
        Ok(answer) => match answer.first().map(|byte| (byte, Status::from_code((*byte).into()))) {
            None => Copied::Status(Status::Success),
            Some((_, Some(status))) => Copied::Status(status),
            Some((byte, None)) => {
                let text = format!("the replica answered {byte}");
                Copied::Failed(Status::PushDataFailNonCriticalCauseReplica, text)
            }
        },
        Err(error) => {
            let status = match &error {
                RequestError::Connect { .. } => Status::PushDataCreateConnectionFailReplica,
                RequestError::Lost { .. } => Status::PushDataConnectionExceptionReplica,
                RequestError::TimedOut { .. } => Status::PushDataTimeoutReplica,
                // Only for this status does the client's driver exclude that worker for a while.
                RequestError::Failed { text, .. } => {
                    let status = Status::from_text(text);
                    let status = status.filter(|status| *status == Status::PushDataWriteFailReplica);
                    status.unwrap_or(Status::PushDataFailNonCriticalCauseReplica)
                }
            };
            Copied::Failed(status, error.to_string())
        }
    }
}

/// The answer to a push that the primary took with `own`. A failure outweighs a hard split, which outweighs an ended
/// map, which outweighs every hint (split softly, slow down): a hint must never hide that the copy is missing.
pub fn combine(own: Status, copied: Copied) -> Result<Status, (Status, String)> {
    match copied {
        Copied::Failed(status, text) => Err((status, text)),
        Copied::Status(Status::HardSplit) => Ok(Status::HardSplit),
        Copied::Status(Status::MapEnded) => Ok(Status::MapEnded),
        Copied::Status(Status::Success | Status::SoftSplit) => Ok(own),
        Copied::Status(Status::PushDataSuccessPrimaryCongested | Status::PushDataSuccessReplicaCongested) => {
            Ok(if own == Status::Success { Status::PushDataSuccessReplicaCongested } else { own })
        }
        Copied::Status(other) => {
            let text = format!("the replica answered {}", other.name());
            Err((Status::PushDataFailNonCriticalCauseReplica, text))
        }
    }
}

/// Answers the client.
pub fn answer(reply: PushReply, own: Status, copied: Copied) {
    match combine(own, copied) {
        Ok(status) => reply.status(status),
        Err((status, text)) => reply.fail_with(status, &text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_never_hides_that_the_copy_is_missing() {
        let copied = Copied::Status;
        for own in [Status::Success, Status::SoftSplit] {
            assert_eq!(combine(own, copied(Status::HardSplit)), Ok(Status::HardSplit));
            assert_eq!(combine(own, copied(Status::MapEnded)), Ok(Status::MapEnded));
            assert_eq!(combine(own, copied(Status::Success)), Ok(own));
            assert!(combine(own, copied(Status::RequestFailed)).is_err());
            let failed = Copied::Failed(Status::PushDataTimeoutReplica, "slow".to_owned());
            assert_eq!(combine(own, failed), Err((Status::PushDataTimeoutReplica, "slow".to_owned())));
        }
        let congested = copied(Status::PushDataSuccessPrimaryCongested);
        assert_eq!(combine(Status::SoftSplit, congested.clone()), Ok(Status::SoftSplit));
        assert_eq!(combine(Status::Success, congested), Ok(Status::PushDataSuccessReplicaCongested));
    }
}
