//! Batches too large for memory: written to a file of their own while they arrive, and sent on to the replica's worker
//! at the same time. A client sends one row in one frame, however large the row.
//!
//! The end of a body is held back until this worker has appended it: what it refuses, the other one does not take either.

use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::admission::{Push, Rejection, status_of, wait_for_memory};
use super::answer::PushReply;
use super::memory::{Buffers, Party};
use super::node::Node;
use super::replicate::{self, Copied};
use super::state::Refusal;
use super::store::Store;
use super::store::directory::Directory;
use super::store::lease::Lease;
use super::store::record::RunRow;
use super::store::segment::Segment;
use super::store::shuffle::Shuffle;
use crate::ids::{FileName, Mode};
use crate::net::{Body, Celeborn, Client, ClientOptions, Payload, PieceFuture, PieceSource};
use crate::wire::batch::BATCH_HEADER_LEN;
use crate::wire::{Header, Limits, Status};

/// Bytes that are received, written and sent on at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Pieces that wait for the replica's worker; when there are more, the client waits.
const PIECES_WAITING: usize = 2;

/// A body above this is large, unless the memory is so small that less is.
const LARGE_BYTES: u64 = 8 << 20;

/// A large push waits, with all its writes, for so many times what another one waits for memory. Its copy is on its way
/// meanwhile.
const PATIENCES: u32 = 2;

/// How long after a failed write the head of a batch is written again.
const FINISH_RETRY: Duration = Duration::from_secs(5);

/// How long nothing more is said of rows that found no place: each comes several times.
const SAID_AGAIN: Duration = Duration::from_secs(60);

/// Whether a body is to be written while it arrives.
pub fn is_large(len: usize, memory_limit: u64) -> bool {
    len as u64 > LARGE_BYTES.min(memory_limit / 8)
}

/// The longest body with batches of several locations. It is held in memory whole, however large: clients merge batches up
/// to the size of a buffer, of which the last may be one large row.
pub fn merged_bytes_max(memory_limit: u64) -> u64 {
    memory_limit / 4
}

/// The copy of a body on its way to the replica's worker. Dropped before the end, it breaks off, and the other worker takes
/// nothing.
struct Copy {
    /// `None` since a piece was not taken in time.
    pieces: Option<mpsc::Sender<Bytes>>,
    copied: JoinHandle<Copied>,
}

/// What arrived.
struct Received {
    file: Unfinished,
    /// The front of the batch, with its header.
    front: Bytes,
    checksum: u32,
    /// The last piece, which was not sent on yet.
    last: Bytes,
}

/// Gives the pieces that a channel brings.
struct Pieces(mpsc::Receiver<Bytes>);

impl PieceSource<Celeborn> for Pieces {
    fn next(&mut self) -> PieceFuture<'_> {
        // A body that breaks off comes out short, which ends the connection: the replica takes nothing.
        Box::pin(async { Ok(self.0.recv().await.map(|piece| vec![piece])) })
    }
}

/// Receives a large push for one location, appends it and answers.
///
/// # Errors
/// The client's connection failed.
pub async fn push(
    node: &Arc<Node>,
    shuffle: &Arc<Shuffle>,
    push: Push,
    patience: Duration,
    body: &mut Body<'_>,
    reply: PushReply,
) -> io::Result<()> {
    let len = body.remaining();
    let [location] = push.locations.as_slice() else {
        reply.fail("a large push is for one location");
        return Ok(());
    };
    let file = FileName { location: *location, mode: push.mode };
    let mut patience = Patience(patience * PATIENCES);
    let file_of_its_own = match new_file(node, shuffle, len, &mut patience).await {
        Ok(file_of_its_own) => file_of_its_own,
        Err(rejection) => {
            rejection.answer(reply);
            return Ok(());
        }
    };
    let mut copy = start_copy(node, shuffle, &push, len, patience.0);
    let received = receive(node, file_of_its_own, &push.party(), &mut patience, body, copy.as_mut()).await?;
    let appended = received.and_then(|received| {
        let last = received.last.clone();
        append(node, shuffle, &push, file, len, received).map(|status| (status, last))
    });
    match (appended, copy) {
        (Err(rejection), _) => rejection.answer(reply),
        (Ok((status, _)), None) => reply.status(status),
        (Ok((status, last)), Some(copy)) => {
            tokio::spawn(async move {
                let copied = copy.finish(last).await;
                replicate::answer(reply, status, copied);
            });
        }
    }
    Ok(())
}

impl Copy {
    /// Sends a piece on. The other worker may take half of what is left of the patience to take it: what is behind the body
    /// on its connection does not wait for ever, and the rest is for what is still to be done here.
    async fn send(&mut self, piece: Bytes, patience: &mut Patience) {
        let Some(pieces) = &self.pieces else { return };
        let half = patience.0 / 2;
        let sent = patience.spend_at_most(half, async |until| timeout_at(until, pieces.send(piece)).await);
        // It may be gone as well: then its answer says so.
        if sent.await.is_err() {
            self.pieces = None;
            self.copied.abort();
        }
    }

    /// Sends the last piece, and waits for the answer.
    async fn finish(self, last: Bytes) -> Copied {
        let Self { pieces, mut copied } = self;
        let Some(pieces) = pieces else {
            let text = "the other copy of a large push took too long".to_owned();
            return Copied::Failed(Status::PushDataTimeoutReplica, text);
        };
        let copied = tokio::select! {
            copied = &mut copied => copied, // it has failed
            _ = pieces.send(last) => {
                drop(pieces);
                copied.await
            }
        };
        copied.unwrap_or_else(|panic| {
            Copied::Failed(Status::PushDataFailNonCriticalCauseReplica, panic.to_string())
        })
    }
}

async fn new_file(
    node: &Arc<Node>,
    shuffle: &Arc<Shuffle>,
    len: usize,
    patience: &mut Patience,
) -> Result<Unfinished, Rejection> {
    let Some(directory) = node.store.directory_for_large(len as u64) else {
        return Err(unwritable(node, format!("no directory has room for a push of {len} bytes")));
    };
    let (key, number, lease) = {
        let contents = shuffle.lock();
        // Without a lease the shuffle has gone.
        let lease = contents.lease.clone().ok_or(Rejection::Refused(Refusal::NotFound))?;
        (shuffle.key().clone(), contents.next_segment_number(), lease)
    };
    let (place, store) = (Arc::clone(&directory), Arc::clone(&node.store));
    let create = move || {
        let segment = Arc::new(Segment::create_for_one(&place, &key, number)?);
        Ok(Unfinished { store, segment: Some(segment), lease })
    };
    let created = patience.spend(async |until| on_disk(&directory, until, create).await).await;
    created.map_err(|error| unwritten(node, len, &directory, &error))
}

/// A row that found no place on a disk. A client that were told to split would bring it back at once, here or to the next
/// worker like this one, and would not count how often; this it counts, and its driver leaves the worker out for a while.
fn unwritable(node: &Node, text: String) -> Rejection {
    let mut said = node.said_unwritable.lock().unwrap_or_else(PoisonError::into_inner);
    if said.is_none_or(|said| said.elapsed() >= SAID_AGAIN) {
        *said = Some(Instant::now());
        tracing::warn!("{text}: large pushes fail");
    }
    Rejection::Unwritten(text)
}

fn unwritten(node: &Node, len: usize, directory: &Directory, error: &io::Error) -> Rejection {
    unwritable(node, format!("cannot write a push of {len} bytes to {}: {error}", directory.root().display()))
}

/// Has a disk do something, and waits no longer than that: a disk that stands still would hold up all that comes over the
/// connection. What comes of it later is dropped.
async fn on_disk<T: Send + 'static>(
    directory: &Directory,
    until: Instant,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let worked = async { directory.large_writes.take().await.work(work).await };
    timeout_at(until, worked).await.map_err(|_| io::ErrorKind::TimedOut)?
}

/// What is left of the time that a large push may wait for memory and a disk. What it takes to arrive is not waiting.
struct Patience(Duration);

impl Patience {
    /// Waits for something that gives up when it is told to.
    async fn spend<T>(&mut self, wait: impl AsyncFnOnce(Instant) -> T) -> T {
        self.spend_at_most(self.0, wait).await
    }

    /// The same, with a part of what is left. Where it is noticed late that the part is over, the rest is not less.
    async fn spend_at_most<T>(&mut self, part: Duration, wait: impl AsyncFnOnce(Instant) -> T) -> T {
        let begun = Instant::now();
        let waited = wait(begun + part).await;
        self.0 = self.0.saturating_sub(begun.elapsed().min(part));
        waited
    }
}

/// Begins to send the body on, over a connection of its own: what is slow in arriving holds up nobody else. `waiting` is
/// what the body may wait for here, which is not the other worker's fault.
fn start_copy(
    node: &Arc<Node>,
    shuffle: &Shuffle,
    push: &Push,
    len: usize,
    waiting: Duration,
) -> Option<Copy> {
    let location = *push.locations.first()?;
    let file = FileName { location, mode: push.mode };
    let (peer, within) = shuffle.lock().peer_of(file, node.options.push_timeout)?;
    let within = within + waiting;
    let header =
        Header::PushData { request_id: 0, mode: Mode::Replica, shuffle: push.shuffle.clone(), location };
    let (pieces, waiting) = mpsc::channel(PIECES_WAITING);
    let body = Payload::pull(len, Box::new(Pieces(waiting)));
    let client = Client::new(ClientOptions { idle_max: 2 * within, ..ClientOptions::new(Limits::ANSWERS) });
    let copied = tokio::spawn(async move { replicate::send(&client, &peer, header, body, within).await });
    Some(Copy { pieces: Some(pieces), copied })
}

/// Receives the body into the file. The outer error is the client's connection. Where the inner one is want of memory, the
/// client is told to split as every push is that waits for memory in vain.
async fn receive(
    node: &Arc<Node>,
    file: Unfinished,
    party: &Party,
    patience: &mut Patience,
    body: &mut Body<'_>,
    mut copy: Option<&mut Copy>,
) -> io::Result<Result<Received, Rejection>> {
    let (store, len) = (&node.store, body.remaining());
    let mut at = Segment::LARGE_BATCH_AT;
    let (mut front, mut last) = (Bytes::new(), Bytes::new());
    let (mut checksum, mut left) = (crc32fast::Hasher::new(), len);
    while left > 0 {
        let step = left.min(PIECE_BYTES);
        let wait = async |until| wait_for_memory(node, party, Buffers::cost(step), until).await;
        let Some(charge) = patience.spend(wait).await else {
            return Ok(Err(Rejection::Refused(Refusal::HardSplit)));
        };
        let mut buffer = store.buffers().take_charged(step, charge, store.memory());
        body.read_into(buffer.bytes_mut(), step).await?;
        let piece = buffer.share();
        if front.is_empty() {
            front = Bytes::copy_from_slice(&piece[..piece.len().min(BATCH_HEADER_LEN)]);
        }
        checksum.update(&piece);
        match &mut copy {
            Some(_) if step == left => last = piece.clone(),
            Some(copy) => copy.send(piece.clone(), patience).await,
            None => {}
        }
        let target = file.segment();
        let directory = Arc::clone(target.directory());
        let write = move || target.write_part(at, &piece);
        if let Err(error) = patience.spend(async |until| on_disk(&directory, until, write).await).await {
            return Ok(Err(unwritten(node, len, &directory, &error)));
        }
        at += step as u64;
        left -= step;
    }
    if body.is_orphaned() {
        return Err(io::ErrorKind::ConnectionAborted.into());
    }
    Ok(Ok(Received { file, front, checksum: checksum.finalize(), last }))
}

/// Decides about what arrived, and has written in front of it what it is.
fn append(
    node: &Arc<Node>,
    shuffle: &Arc<Shuffle>,
    push: &Push,
    file: FileName,
    len: usize,
    received: Received,
) -> Result<Status, Rejection> {
    let Received { file: unfinished, front, checksum, .. } = received;
    let pressure = node.pressure(&push.party());
    let (status, head, segment) = {
        let mut contents = shuffle.lock();
        if contents.gone {
            return Err(Rejection::Refused(Refusal::NotFound));
        }
        let header = contents.header_of(&front, len).map_err(Rejection::Malformed)?;
        let admission =
            contents.state.judge(file, header.map, push.kind, pressure).map_err(Rejection::Refused)?;
        let segment = unfinished.finish();
        contents.state.appended(file, len as u64);
        contents.adopt(&segment);
        let row = RunRow {
            len: len as u32,
            map: header.map,
            attempt: header.attempt,
            batch: header.batch,
            checksum,
        };
        let copy = contents.copy_mut(admission.slot, file);
        let first =
            copy.append_on_disk(&header, len as u32, Arc::clone(&segment), Segment::LARGE_BATCH_AT, checksum);
        let head = Head { file, life: copy.life(), first, row };
        (status_of(admission.soft_split), head, segment)
    };
    node.count_appended(len as u64);
    // A task of its own: the batch counts from now on, whatever becomes of the connection that brought it.
    tokio::spawn(finish(Arc::clone(&node.store), Arc::clone(shuffle), segment, head));
    Ok(status)
}

/// What stands in front of a large batch. It can be read without; a restart needs it.
#[derive(Clone, Copy)]
struct Head {
    file: FileName,
    life: u64,
    first: u32,
    row: RunRow,
}

/// Writes the head of a large batch, for which the seal of its location waits.
async fn finish(store: Arc<Store>, shuffle: Arc<Shuffle>, segment: Arc<Segment>, head: Head) {
    let Head { file, life, first, row } = head;
    let directory = Arc::clone(segment.directory());
    loop {
        let (turn, target) = (directory.large_writes.take().await, Arc::clone(&segment));
        let finished = turn.work(move || target.finish_one(file, life, first, row)).await;
        let Err(error) = finished else { break };
        if shuffle.lock().gone {
            return;
        }
        tracing::warn!(shuffle = %shuffle.key(), %error, "a restart would not find a large batch; it is tried again");
        tokio::time::sleep(FINISH_RETRY).await;
    }
    store.seal_later(&shuffle);
}

/// A file that is deleted unless it is finished.
struct Unfinished {
    store: Arc<Store>,
    segment: Option<Arc<Segment>>,
    /// For as long as there may be such a file.
    lease: Arc<Lease>,
}

impl Unfinished {
    fn segment(&self) -> Arc<Segment> {
        Arc::clone(self.segment.as_ref().expect("it is there until it is finished"))
    }

    fn finish(mut self) -> Arc<Segment> {
        self.segment.take().expect("it is finished once")
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(segment) = self.segment.take() {
            self.store.delete_file(segment, Some(Arc::clone(&self.lease)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{AttemptId, BatchId, LocationId, MapId, ShuffleKey};
    use crate::net::{Listener, Options as NetOptions, RequestError};
    use crate::wire::batch::{BatchHeader, ByteOrder};
    use crate::worker::index::MapRange;
    use crate::worker::node::tests::{node, node_with, options, reserved};
    use crate::worker::options::Options;
    use crate::worker::push::PushService;
    use crate::worker::state::{Commit, PushKind};

    #[tokio::test]
    async fn what_one_wait_takes_is_not_there_for_the_next() {
        let mut patience = Patience(Duration::from_millis(30));
        let slept = patience.spend(async |until| {
            tokio::time::sleep(Duration::from_millis(10)).await;
            until
        });
        let until = slept.await;
        assert!(patience.0 <= Duration::from_millis(20));
        patience.spend(async |next| tokio::time::sleep_until(next.max(until)).await).await;
        assert_eq!(patience.0, Duration::ZERO);
    }

    /// What a push of one row of 9 MiB comes back with, and the same as a copy.
    async fn push_row(node: &Arc<Node>, push_timeout: Duration) -> (Result<Bytes, RequestError>, Copied) {
        let key = ShuffleKey::new("app", 1);
        let location = LocationId::new(0, 0);
        let modes = [Mode::Primary, Mode::Replica];
        let shuffle = node.store.find(&key);
        let shuffle =
            shuffle.unwrap_or_else(|| reserved(node, &key, &modes.map(|mode| FileName { location, mode })));
        shuffle.lock().push_timeout = Some(push_timeout);
        let mut batch = bytes::BytesMut::new();
        let (map, attempt, batch_id, len) = (MapId(0), AttemptId(0), BatchId(0), 9 << 20);
        BatchHeader { map, attempt, batch: batch_id, len }.encode(ByteOrder::Little, &mut batch);
        batch.extend((0..len).map(|at| (at * 7 / 5) as u8));
        let (batch, within) = (batch.freeze(), Duration::from_secs(20));
        let (client, mut listeners) = (Client::default(), Vec::new());
        for mode in modes {
            let listener = Listener::bind("127.0.0.1:0", NetOptions::new(Limits::PUSH)).await.unwrap();
            listeners.push(listener.serve(Arc::new(PushService::new(Arc::clone(node), mode))));
        }
        let [push, replicate] = [0, 1].map(|at: usize| listeners[at].address().to_string());
        let header = |mode| Header::PushData { request_id: 0, mode, shuffle: key.clone(), location };
        let pushed = client.request(&push, header(Mode::Primary), batch.clone(), within).await;
        let copied = replicate::send(&client, &replicate, header(Mode::Replica), batch, within).await;
        (pushed, copied)
    }

    fn assert_unwritten((pushed, copied): (Result<Bytes, RequestError>, Copied), why: &str) {
        let Err(RequestError::Failed { text, .. }) = pushed else { panic!("{pushed:?}") };
        assert!(text.starts_with(&format!("PUSH_DATA_WRITE_FAIL_PRIMARY: {why}")), "{text}");
        let Copied::Failed(Status::PushDataWriteFailReplica, text) = copied else { panic!("{copied:?}") };
        assert!(text.contains(why), "{text}");
    }

    /// A client that is told to split comes back at once, for as long as its task may wait.
    #[tokio::test]
    async fn a_row_that_finds_no_place_fails_in_words() {
        let place = tempfile::tempdir().unwrap();
        let directories = vec![place.path().join("full")];
        let full = node_with(Options { directories, disk_reserve_bytes: Some(u64::MAX), ..options(&place) });
        let timeout = Duration::from_secs(120);
        assert_unwritten(push_row(&full, timeout).await, "no directory has room for a push of 94372");
        assert!(full.said_unwritable.lock().unwrap().is_some());

        let node = node(&place);
        let [first, second] = node.store.directories() else { panic!("there are two") };
        let still = (first.stand_still().await, second.stand_still().await);
        assert_unwritten(push_row(&node, Duration::from_millis(100)).await, "cannot write a push of 94372");
        drop(still);
        let (pushed, copied) = push_row(&node, timeout).await;
        assert_eq!((&pushed.unwrap()[..], copied), (&[0][..], Copied::Status(Status::Success)));
    }

    #[tokio::test]
    async fn a_copy_that_stands_still_is_given_up_and_leaves_time_for_the_rest() {
        let (pieces, mut waiting) = mpsc::channel(1);
        let mut patience = Patience(Duration::from_millis(200));
        let mut copy = Copy { pieces: Some(pieces), copied: tokio::spawn(std::future::pending()) };
        copy.send(Bytes::from_static(b"1"), &mut patience).await;
        let before = patience.0;
        assert!(before >= Duration::from_millis(100), "{before:?}");
        copy.send(Bytes::from_static(b"2"), &mut patience).await;
        let left = patience.0;
        assert_eq!(left, before - before / 2, "however late the timer is");
        copy.send(Bytes::from_static(b"3"), &mut patience).await;
        assert_eq!(patience.0, left, "it is not waited for any more");
        let copied = copy.finish(Bytes::from_static(b"4")).await;
        assert!(matches!(copied, Copied::Failed(Status::PushDataTimeoutReplica, _)), "{copied:?}");
        assert_eq!(waiting.recv().await.as_deref(), Some(&b"1"[..]));
        assert_eq!(waiting.recv().await, None, "it broke off");
    }

    /// The seal of a location counts every batch that was acknowledged, and a restarted worker offers it only if it finds
    /// that many: it must not be written before the batch has its head, whatever becomes of who pushed.
    #[tokio::test]
    async fn a_seal_waits_for_the_head_of_a_large_batch() {
        let place = tempfile::tempdir().unwrap();
        let node_before = node(&place);
        let store = &node_before.store;
        let push = Push {
            shuffle: ShuffleKey::new("app", 1),
            mode: Mode::Primary,
            kind: PushKind::Single,
            locations: vec![LocationId::new(0, 0)],
            offsets: vec![0],
        };
        let file = FileName { location: push.locations[0], mode: push.mode };
        let shuffle = reserved(&node_before, &push.shuffle, &[file]);

        let mut batch = bytes::BytesMut::new();
        let header = BatchHeader { map: MapId(3), attempt: AttemptId(0), batch: BatchId(1), len: 1000 };
        header.encode(ByteOrder::Little, &mut batch);
        batch.extend((0..1000).map(|at| (at * at / 7) as u8));
        let made =
            new_file(&node_before, &shuffle, batch.len(), &mut Patience(Duration::from_secs(20))).await;
        let unfinished = made.unwrap();
        let segment = unfinished.segment();
        segment.write_part(Segment::LARGE_BATCH_AT, &batch).unwrap();
        let directory = Arc::clone(segment.directory());
        drop(segment);
        let still = directory.large_writes.take_all().await;
        let front = Bytes::copy_from_slice(&batch[..BATCH_HEADER_LEN]);
        let received =
            Received { file: unfinished, front, checksum: crc32fast::hash(&batch), last: Bytes::new() };
        assert!(append(&node_before, &shuffle, &push, file, batch.len(), received).is_ok());

        shuffle.lock().state.commit(&Commit { primaries: push.locations.clone(), ..Commit::default() });
        directory.hangs();
        assert_eq!(store.flush().await.len(), 1, "the head is not on disk, and may never be");
        assert_eq!(shuffle.lock().segments.len(), 1, "and there is no seal on the other disk");
        directory.probe().unwrap();
        let flushing = Arc::clone(store);
        let flushed = tokio::spawn(async move { flushing.flush().await.len() });
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!flushed.is_finished(), "it gave up what is on its way");
        drop(still);
        assert_eq!(flushed.await.unwrap(), 0);
        drop((directory, shuffle, node_before));

        let node = node(&place);
        let shuffle = node.store.find(&push.shuffle).expect("the location was committed");
        let stream = node.store.open_stream(&shuffle, file, MapRange::Whole, 1 << 20).unwrap();
        assert_eq!(stream.chunks().iter().map(|chunk| chunk.bytes).sum::<u64>(), batch.len() as u64);
    }
}
