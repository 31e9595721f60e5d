//! The head of a push, and what admits it or turns it away: the wait for memory, the header of each batch, the answer.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use super::answer::PushReply;
use super::memory::{Charge, Party};
use super::node::Node;
use super::state::{PushKind, Refusal};
use super::store::shuffle::Contents;
use crate::ids::{FileName, LocationId, Mode, ShuffleKey};
use crate::wire::batch::{BATCH_HEADER_LEN, BatchHeader, ByteOrder};
use crate::wire::{Header, Status};

/// How often a push that waits for memory checks whether there will ever be any.
const LOOK: Duration = Duration::from_millis(200);

/// The head of a push, plain or merged.
pub(super) struct Push {
    pub shuffle: ShuffleKey,
    pub mode: Mode,
    pub kind: PushKind,
    pub locations: Vec<LocationId>,
    /// Where each batch begins in the body.
    pub offsets: Vec<u32>,
}

/// Why a push was not appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rejection {
    Refused(Refusal),
    Malformed(String),
    /// No disk took it; the client's driver then excludes this worker for a while.
    Unwritten(String),
}

/// The status for the client of an appended push.
pub(super) fn status_of(soft_split: bool) -> Status {
    if soft_split { Status::SoftSplit } else { Status::Success }
}

/// Waits for memory; `None` if there will be none, or none in time.
pub(super) async fn wait_for_memory(
    node: &Node,
    party: &Party,
    bytes: u64,
    until: Instant,
) -> Option<Charge> {
    let mut acquire = pin!(node.store.memory().acquire(party, bytes));
    if let Poll::Ready(charge) = poll_fn(|context| Poll::Ready(acquire.as_mut().poll(context))).await {
        return Some(charge);
    }
    let (begun, is_copy) = (Instant::now(), party.is_of_copies());
    let meters = &node.meters;
    let _waiting = (meters.waiting.begin(), is_copy.then(|| meters.copies_waiting.begin()));
    let acquired = loop {
        let look = until.min(Instant::now() + LOOK);
        match tokio::time::timeout_at(look, &mut acquire).await {
            Ok(charge) => break Some(charge),
            Err(_) if look == until || node.pressure(party).exhausted => break None,
            Err(_) => {}
        }
    };
    meters.waits.record(begun.elapsed());
    if is_copy {
        meters.copy_waits.record(begun.elapsed());
    }
    acquired
}

impl Push {
    /// The party in the ledger that it is charged to.
    pub fn party(&self) -> Party {
        match self.mode {
            Mode::Primary => Party::pushes(&self.shuffle.application),
            Mode::Replica => Party::copies(&self.shuffle.application),
        }
    }

    /// The head of its copy. The client of the connection numbers the request itself.
    pub fn copy_header(&self) -> Header {
        let (mode, shuffle) = (Mode::Replica, self.shuffle.clone());
        match (self.kind, self.locations.as_slice()) {
            (PushKind::Single, [location]) => {
                Header::PushData { request_id: 0, mode, shuffle, location: *location }
            }
            _ => Header::PushMergedData {
                request_id: 0,
                mode,
                shuffle,
                locations: self.locations.clone(),
                offsets: self.offsets.clone(),
            },
        }
    }

    /// The copies that its batches are for.
    pub fn files(&self) -> impl Iterator<Item = FileName> + '_ {
        self.locations.iter().map(|location| FileName { location: *location, mode: self.mode })
    }
}

impl Rejection {
    /// Answers the client.
    pub fn answer(&self, reply: PushReply) {
        match self {
            Self::Refused(Refusal::MapEnded) => reply.status(Status::MapEnded),
            Self::Refused(Refusal::HardSplit) => reply.status(Status::HardSplit),
            Self::Refused(Refusal::NotFound) => {
                let text = "the location is not reserved on this worker";
                reply.fail_with(Status::PushDataFailPartitionNotFound, text);
            }
            Self::Malformed(text) => reply.fail(text.as_str()),
            Self::Unwritten(text) => reply.unwritten(text),
        }
    }
}

impl Contents {
    /// Where the other copy of a location goes, and how long that may take: `default` if no client has set it.
    pub(super) fn peer_of(&self, file: FileName, default: Duration) -> Option<(Arc<str>, Duration)> {
        Some((Arc::clone(self.state.peer(file)?), self.push_timeout.unwrap_or(default)))
    }

    /// Reads the header in `front` of a batch of `len` bytes, in the byte order that the shuffle's clients use.
    ///
    /// # Errors
    /// Its length does not fit in any order: readers would take the bytes behind it for something else.
    pub(super) fn header_of(&mut self, front: &[u8], len: usize) -> Result<BatchHeader, String> {
        if self.order.is_none()
            && let Some(order) = ByteOrder::of_batch(front, len)
        {
            if order == ByteOrder::Big {
                self.copies.values_mut().for_each(|copy| copy.swap_byte_order());
            }
            self.order = Some(order);
        }
        let header = BatchHeader::decode(front, self.order.unwrap_or(ByteOrder::Little));
        let payload_len = len.checked_sub(BATCH_HEADER_LEN);
        match header {
            Some(header) if payload_len == Some(header.len as usize) => Ok(header),
            Some(header) => Err(format!(
                "a batch of {len} bytes says that it has {} behind its header of {BATCH_HEADER_LEN}",
                header.len
            )),
            None => Err(format!("a batch of {len} bytes has no header of {BATCH_HEADER_LEN}")),
        }
    }
}
