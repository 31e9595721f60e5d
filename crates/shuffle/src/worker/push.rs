//! The push and the replicate listener: batches on their way in.
//!
//! A frame's head is looked at first: what will be refused is not kept. Then the frame waits for memory, which holds up
//! its own connection and no other, and its body is read into the allocation in which it stays. The answer leaves as soon
//! as the batches are appended, or, for a location with a replica, as soon as the other worker has them too.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::buffers;
use super::memory::Charge;
use super::node::Node;
use super::replicate;
use super::state::{PushKind, Refusal};
use super::store::shuffle::{Contents, Shuffle};
use crate::ids::{FileName, LocationId, MapId, Mode, ShuffleKey};
use crate::net::{Body, Reply, Service};
use crate::wire::batch::{BATCH_HEADER_LEN, BatchHeader, ByteOrder};
use crate::wire::{Head, Header, Status};

/// How often a push that waits for memory looks whether there will ever be any.
const PATIENCE: Duration = Duration::from_millis(200);

/// Takes pushes to one kind of copy.
pub struct PushService {
    node: Arc<Node>,
    mode: Mode,
}

/// The head of a push, plain or merged.
struct Push {
    shuffle: ShuffleKey,
    kind: PushKind,
    locations: Vec<LocationId>,
    /// Where each batch begins in the body.
    offsets: Vec<u32>,
}

/// Why a push was not appended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Rejection {
    Refused(Refusal),
    Malformed(String),
}

/// What an appended push still needs.
struct Appended {
    soft_split: bool,
    /// Where the other copies go, and how long that may take.
    peer: Option<(Arc<str>, Duration)>,
}

impl PushService {
    /// The service of the push listener (`Primary`) or of the replicate listener (`Replica`).
    pub fn new(node: Arc<Node>, mode: Mode) -> Self {
        Self { node, mode }
    }

    fn files<'a>(&self, push: &'a Push) -> impl Iterator<Item = FileName> + 'a {
        let mode = self.mode;
        push.locations.iter().map(move |location| FileName { location: *location, mode })
    }

    async fn push(&self, push: Push, body: &mut Body<'_>, reply: Reply) -> io::Result<()> {
        let Some(shuffle) = self.node.store.find(&push.shuffle) else {
            return self.refuse(&push, None, body, reply).await;
        };
        if !self.would_take(&shuffle, &push) {
            return self.refuse(&push, Some(&shuffle), body, reply).await;
        }
        let len = body.remaining();
        let Some(charge) = self.wait_for_memory(buffers::cost(len)).await else {
            reply.push(Status::HardSplit);
            return Ok(());
        };
        let store = &self.node.store;
        let mut buffer = store.buffers().take_charged(len, charge, store.memory());
        body.read_into(buffer.bytes_mut(), len).await?;
        let body = buffer.share();
        match self.append(&shuffle, &push, &body) {
            Err(rejection) => answer_rejection(reply, &rejection),
            Ok(Appended { soft_split, peer: None }) => reply.push(status(soft_split)),
            Ok(Appended { soft_split, peer: Some((peer, within)) }) => {
                let Push { shuffle, kind, locations, offsets } = push;
                let mode = Mode::Replica;
                // The client numbers the request itself.
                let header = match (kind, locations.as_slice()) {
                    (PushKind::Single, [location]) => {
                        Header::PushData { request_id: 0, mode, shuffle, location: *location }
                    }
                    _ => Header::PushMergedData { request_id: 0, mode, shuffle, locations, offsets },
                };
                let node = Arc::clone(&self.node);
                tokio::spawn(async move {
                    let copied = replicate::send(&node.peers, &peer, header, body, within).await;
                    replicate::answer(reply, status(soft_split), copied);
                });
            }
        }
        Ok(())
    }

    /// Whether the push would be appended if it were here. It is asked again when it is.
    fn would_take(&self, shuffle: &Shuffle, push: &Push) -> bool {
        let pressure = self.node.pressure();
        let contents = shuffle.lock();
        !contents.gone && self.files(push).all(|file| contents.state.is_writable(file, pressure))
    }

    /// Waits for room; `None` when there is none to wait for.
    async fn wait_for_memory(&self, bytes: u64) -> Option<Charge> {
        let acquire = self.node.store.memory().acquire(bytes);
        tokio::pin!(acquire);
        loop {
            match tokio::time::timeout(PATIENCE, &mut acquire).await {
                Ok(charge) => return Some(charge),
                Err(_) if self.node.pressure().exhausted => return None,
                Err(_) => {}
            }
        }
    }

    /// Answers a push that is not kept. What the client does depends on its map, which stands in front of the batch.
    async fn refuse(
        &self,
        push: &Push,
        shuffle: Option<&Shuffle>,
        body: &mut Body<'_>,
        reply: Reply,
    ) -> io::Result<()> {
        let front = body.piece(BATCH_HEADER_LEN).await?.unwrap_or_default();
        let refusal = match shuffle.map(Shuffle::lock) {
            Some(mut contents) if !contents.gone => {
                let order = contents.order.unwrap_or(ByteOrder::Little);
                let map = BatchHeader::decode(&front, order).map_or(MapId(-1), |header| header.map);
                let pressure = self.node.pressure();
                let refused = self
                    .files(push)
                    .find_map(|file| contents.state.judge(file, map, push.kind, pressure).err());
                // It may have become writable meanwhile; then the client simply comes again.
                refused.unwrap_or(Refusal::HardSplit)
            }
            _ if self.node.pressure().leaving => Refusal::HardSplit,
            _ => Refusal::NotFound,
        };
        answer_rejection(reply, &Rejection::Refused(refusal));
        Ok(())
    }

    /// Appends all batches of the push or none.
    fn append(&self, shuffle: &Arc<Shuffle>, push: &Push, body: &Bytes) -> Result<Appended, Rejection> {
        let pressure = self.node.pressure();
        let mut contents = shuffle.lock();
        if contents.gone {
            return Err(Rejection::Refused(Refusal::NotFound));
        }
        let mut soft_split = false;
        let mut batches = Vec::with_capacity(push.locations.len());
        for (at, file) in self.files(push).enumerate() {
            let end = push.offsets.get(at + 1).map_or(body.len(), |offset| *offset as usize);
            let batch = body.slice(push.offsets[at] as usize..end);
            let header = contents.header_of(&batch).map_err(Rejection::Malformed)?;
            let admission =
                contents.state.judge(file, header.map, push.kind, pressure).map_err(Rejection::Refused)?;
            soft_split |= admission.soft_split;
            batches.push((file, admission.slot, header, batch));
        }
        // All locations of a frame have the same pair of workers: that is how clients group them.
        let peer = batches.first().and_then(|(_, slot, _, _)| contents.state.peer(*slot).cloned());
        let within = contents.push_timeout.unwrap_or(self.node.options.push_timeout);
        for (file, slot, header, batch) in batches {
            contents.state.appended(slot, batch.len() as u64);
            contents.copy_mut(slot, file).append(&header, batch);
        }
        drop(contents);
        let bytes = body.len() as u64;
        shuffle.grew(bytes, self.node.store.now_ms());
        self.node.count_appended(bytes);
        Ok(Appended { soft_split, peer: peer.map(|peer| (peer, within)) })
    }
}

fn status(soft_split: bool) -> Status {
    if soft_split { Status::SoftSplit } else { Status::Success }
}

fn answer_rejection(reply: Reply, rejection: &Rejection) {
    match rejection {
        Rejection::Refused(Refusal::MapEnded) => reply.push(Status::MapEnded),
        Rejection::Refused(Refusal::HardSplit) => reply.push(Status::HardSplit),
        Rejection::Refused(Refusal::NotFound) => {
            reply.fail_with(
                Status::PushDataFailPartitionNotFound,
                "the location is not reserved on this worker",
            );
        }
        Rejection::Malformed(text) => reply.fail(text.as_str()),
    }
}

impl Contents {
    /// Reads the header of a batch, in the byte order that the shuffle's clients use.
    ///
    /// # Errors
    /// Its length does not fit in any order: readers would take the bytes behind it for something else.
    fn header_of(&mut self, batch: &[u8]) -> Result<BatchHeader, String> {
        if self.order.is_none()
            && let Some(order) = ByteOrder::of_single_batch(batch)
        {
            if order == ByteOrder::Big {
                self.copies.values_mut().for_each(|copy| copy.swap_byte_order());
            }
            self.order = Some(order);
        }
        let header = BatchHeader::decode(batch, self.order.unwrap_or(ByteOrder::Little));
        let payload_len = batch.len().checked_sub(BATCH_HEADER_LEN);
        match header {
            Some(header) if payload_len == Some(header.len as usize) => Ok(header),
            Some(header) => Err(format!(
                "a batch of {} bytes says that it has {} behind its header of {BATCH_HEADER_LEN}",
                batch.len(),
                header.len
            )),
            None => Err(format!("a batch of {} bytes has no header of {BATCH_HEADER_LEN}", batch.len())),
        }
    }
}

impl Service for PushService {
    async fn call(&self, head: Head, body: &mut Body<'_>, reply: Reply) -> io::Result<()> {
        let (mode, push) = match head.header {
            Header::PushData { mode, shuffle, location, .. } => {
                (mode, Push { shuffle, kind: PushKind::Single, locations: vec![location], offsets: vec![0] })
            }
            Header::PushMergedData { mode, shuffle, locations, offsets, .. } => {
                (mode, Push { shuffle, kind: PushKind::Merged, locations, offsets })
            }
            Header::RpcRequest { .. } => {
                reply.fail("this port takes pushes only");
                return Ok(());
            }
            // Signs of life, and answers to nothing.
            _ => return Ok(()),
        };
        if mode != self.mode {
            reply.fail("primaries go to the push port, replicas to the replicate port");
            return Ok(());
        }
        self.push(push, body, reply).await
    }
}
