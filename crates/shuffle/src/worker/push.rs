//! The services of the push and the replicate listener, which receive batches.
//!
//! A frame's head is checked first: the body of a push that will be refused is not kept. Then the frame waits for
//! memory, which holds up only its own connection, and its body is read into the allocation in which it stays, and sent
//! on meanwhile if it is long and its location has a replica. The answer leaves as soon as the batches are appended,
//! or, for a location with a replica, as soon as the other worker has them too.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::admission::{Push, Rejection, status_of, wait_for_memory};
use super::answer::PushReply;
use super::forward::{self, Forward};
use super::large;
use super::memory::Buffers;
use super::node::Node;
use super::replicate;
use super::state::{PushKind, Refusal};
use super::store::shuffle::{Contents, Shuffle};
use crate::ids::{MapId, Mode};
use crate::net::{Body, Client, Reply, Service};
use crate::wire::batch::{BATCH_HEADER_LEN, BatchHeader, ByteOrder};
use crate::wire::{Head, Header, Status};

/// A push waits for memory, behind others of its connection or by itself, for about this part (1/3) of the client's
/// timeout. The copy on the other worker may have to wait as long, and an answer that comes too late costs more than a
/// split: the client takes the worker for dead.
const WAIT_PART: u32 = 3;

/// Takes pushes to one kind of copy.
pub struct PushService {
    node: Arc<Node>,
    mode: Mode,
}

/// What an appended push still needs.
struct Appended {
    soft_split: bool,
    copy: Option<OtherCopy>,
}

/// How an appended push comes to the worker of the other copies.
enum OtherCopy {
    /// Most of it is there, by a connection of its own.
    Begun(Forward),
    /// Where it goes, how long that may take, and the connections of the application.
    Whole(Arc<str>, Duration, Client),
}

impl PushService {
    /// The service of the push listener (`Primary`) or of the replicate listener (`Replica`).
    pub fn new(node: Arc<Node>, mode: Mode) -> Self {
        Self { node, mode }
    }

    async fn push(&self, push: Push, body: &mut Body<'_>, reply: PushReply) -> io::Result<()> {
        let Some(shuffle) = self.node.store.find(&push.shuffle) else {
            return self.refuse(&push, None, body, reply).await;
        };
        let Some(patience) = self.would_take(&shuffle, &push) else {
            return self.refuse(&push, Some(&shuffle), body, reply).await;
        };
        let len = body.remaining();
        let limit = self.node.store.memory().limit();
        if push.kind == PushKind::Merged && len as u64 > large::merged_bytes_max(limit) {
            reply.fail(format!("a merged push of {len} bytes: send batches of this size by themselves"));
            return Ok(());
        }
        if push.kind == PushKind::Single && large::is_large(len, limit) {
            return large::push(&self.node, &shuffle, push, patience, body, reply).await;
        }
        let peer = if forward::is_worth_it(len) { self.peer_of(&shuffle.lock(), &push) } else { None };
        let cost = Buffers::cost(len) + peer.as_ref().map_or(0, |_| forward::COST_BYTES);
        let until = body.deadline(patience);
        let Some(mut charge) = wait_for_memory(&self.node, &push.party(), cost, until).await else {
            reply.status(Status::HardSplit);
            return Ok(());
        };
        let mut copy = peer.map(|peer| {
            let charge = charge.split(forward::COST_BYTES);
            Forward::begin(&self.node, peer, push.copy_header(), len, charge)
        });
        let store = &self.node.store;
        let mut buffer = store.buffers().take_charged(len, charge, store.memory());
        while let Some(copy) = copy.as_mut().filter(|_| body.remaining() > forward::PIECE_BYTES) {
            body.read_into(buffer.bytes_mut(), forward::PIECE_BYTES).await?;
            copy.arrived(buffer.as_ref());
        }
        body.read_into(buffer.bytes_mut(), len).await?;
        // A client that gave up while the push waited has pushed it to another worker, and Sail reads what both have.
        if body.is_orphaned() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let body = buffer.share();
        match self.append(&shuffle, &push, &body, copy) {
            Err(rejection) => rejection.answer(reply),
            Ok(Appended { soft_split, copy: None }) => reply.status(status_of(soft_split)),
            Ok(Appended { soft_split, copy: Some(copy) }) => {
                let own = status_of(soft_split);
                tokio::spawn(async move {
                    let copied = match copy {
                        OtherCopy::Begun(copy) => copy.finish(body).await,
                        OtherCopy::Whole(peer, within, peers) => {
                            replicate::send(&peers, &peer, push.copy_header(), body, within).await
                        }
                    };
                    replicate::answer(reply, own, copied);
                });
            }
        }
        Ok(())
    }

    /// Where the other copies of a push go, and how long that may take. All locations of a frame have the same pair of
    /// workers: that is how clients group them.
    fn peer_of(&self, contents: &Contents, push: &Push) -> Option<(Arc<str>, Duration)> {
        contents.peer_of(push.files().next()?, self.node.options.push_timeout)
    }

    /// How long the push may wait for memory; `None` if it would be refused. Checked again when its body is here.
    fn would_take(&self, shuffle: &Shuffle, push: &Push) -> Option<Duration> {
        let pressure = self.node.pressure(&push.party());
        let contents = shuffle.lock();
        let takes = !contents.gone && push.files().all(|file| contents.state.is_writable(file, pressure));
        takes.then(|| contents.push_timeout.unwrap_or(self.node.options.push_timeout) / WAIT_PART)
    }

    /// Answers a push that is not kept. The answer depends on the map, which is in the batch's header.
    async fn refuse(
        &self,
        push: &Push,
        shuffle: Option<&Shuffle>,
        body: &mut Body<'_>,
        reply: PushReply,
    ) -> io::Result<()> {
        let front = body.piece(BATCH_HEADER_LEN).await?.unwrap_or_default();
        let refusal = match shuffle.map(Shuffle::lock) {
            Some(mut contents) if !contents.gone => {
                let order = contents.order.unwrap_or(ByteOrder::Little);
                let map = BatchHeader::decode(&front, order).map_or(MapId(-1), |header| header.map);
                let pressure = self.node.pressure(&push.party());
                let refused =
                    push.files().find_map(|file| contents.state.judge(file, map, push.kind, pressure).err());
                // It may have become writable meanwhile; then the client simply pushes again.
                refused.unwrap_or(Refusal::HardSplit)
            }
            _ if self.node.pressure(&push.party()).leaving => Refusal::HardSplit,
            _ => Refusal::NotFound,
        };
        Rejection::Refused(refusal).answer(reply);
        Ok(())
    }

    /// Appends all batches of the push or none, whose copy may be `begun`.
    fn append(
        &self,
        shuffle: &Arc<Shuffle>,
        push: &Push,
        body: &Bytes,
        begun: Option<Forward>,
    ) -> Result<Appended, Rejection> {
        let pressure = self.node.pressure(&push.party());
        let mut contents = shuffle.lock();
        if contents.gone {
            return Err(Rejection::Refused(Refusal::NotFound));
        }
        let mut soft_split = false;
        let mut batches = Vec::with_capacity(push.locations.len());
        for (at, file) in push.files().enumerate() {
            let end = push.offsets.get(at + 1).map_or(body.len(), |offset| *offset as usize);
            let batch = body.slice(push.offsets[at] as usize..end);
            let header = contents.header_of(&batch, batch.len()).map_err(Rejection::Malformed)?;
            let admission =
                contents.state.judge(file, header.map, push.kind, pressure).map_err(Rejection::Refused)?;
            soft_split |= admission.soft_split;
            batches.push((file, admission.slot, header, batch));
        }
        // Under the lock: asked for later, they would bring back an application that has left.
        let peers = || self.node.peers.of(&push.shuffle.application);
        let copy = self.peer_of(&contents, push).map(|(peer, within)| match begun {
            Some(begun) => OtherCopy::Begun(begun),
            None => OtherCopy::Whole(peer, within, peers()),
        });
        for (file, slot, header, batch) in batches {
            contents.state.appended(file, batch.len() as u64);
            contents.copy_mut(slot, file).append(&header, batch);
        }
        let bytes = body.len() as u64;
        // Under the lock: whoever removes the batches again must find them counted.
        shuffle.grew(bytes, self.node.store.now_ms());
        drop(contents);
        self.node.count_appended(bytes);
        Ok(Appended { soft_split, copy })
    }
}

impl Service for PushService {
    async fn call(&self, head: Head, body: &mut Body<'_>, reply: Reply) -> io::Result<()> {
        let push = match head.header {
            Header::PushData { mode, shuffle, location, .. } => {
                Push { shuffle, mode, kind: PushKind::Single, locations: vec![location], offsets: vec![0] }
            }
            Header::PushMergedData { mode, shuffle, locations, offsets, .. } => {
                Push { shuffle, mode, kind: PushKind::Merged, locations, offsets }
            }
            Header::RpcRequest { .. } => {
                reply.fail("this port takes pushes only");
                return Ok(());
            }
            // Heartbeats, and answers that no request here waits for.
            _ => return Ok(()),
        };
        if push.mode != self.mode {
            reply.fail("primaries go to the push port, replicas to the replicate port");
            return Ok(());
        }
        self.push(push, body, PushReply::new(reply, &self.node, self.mode)).await
    }

    fn refused_push(&self, reply: Reply, text: String) {
        PushReply::new(reply, &self.node, self.mode).fail(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{AttemptId, BatchId, FileName, LocationId, ShuffleKey};
    use crate::net::{Listener, Options as NetOptions, RequestError};
    use crate::wire::Limits;
    use crate::worker::index::MapRange;
    use crate::worker::memory::Party;
    use crate::worker::node::tests::{id, node, options, reserved};
    use crate::worker::state::{Commit, Pressure, Reservation, SplitPolicy};

    #[tokio::test]
    async fn a_push_does_not_bring_back_the_connections_of_an_application_that_has_left() {
        let place = tempfile::tempdir().unwrap();
        let node = node(&place);
        let (key, location) = (ShuffleKey::new("app", 1), LocationId::new(0, 0));
        let file = FileName { location, mode: Mode::Primary };
        let shuffle = reserved(&node, &key, &[]);
        let wanted = [Reservation { file, peer: Some("other:4".into()), split: SplitPolicy::default() }];
        shuffle.lock().state.reserve(None, &wanted, Pressure::default(), 1).unwrap();
        let service = PushService::new(Arc::clone(&node), Mode::Primary);
        let push = |map: i32, is_begun: bool| {
            let mut batch = bytes::BytesMut::new();
            let header = BatchHeader { map: MapId(map), attempt: AttemptId(0), batch: BatchId(1), len: 4 };
            header.encode(ByteOrder::Little, &mut batch);
            batch.extend_from_slice(b"1234");
            let (kind, locations) = (PushKind::Single, vec![location]);
            let push = Push { shuffle: key.clone(), mode: Mode::Primary, kind, locations, offsets: vec![0] };
            let batch = batch.freeze();
            let begun = is_begun.then(|| {
                let (peer, charge) = (("other:4".into(), Duration::ZERO), node.store.memory().charge(0));
                Forward::begin(&node, peer, push.copy_header(), batch.len(), charge)
            });
            service.append(&shuffle, &push, &batch, begun).map(|appended| appended.copy)
        };
        // A copy that is on its way has its own.
        assert!(matches!(push(0, true), Ok(Some(OtherCopy::Begun(_)))) && !node.peers.has(&key.application));
        // Another one has all that it needs before the application can leave.
        let Ok(Some(OtherCopy::Whole(peer, ..))) = push(1, false) else { panic!("there is another copy") };
        assert!(*peer == *"other:4" && node.peers.has(&key.application));
        node.expire_all([key.clone()]);
        assert!(push(2, false).is_err() && !node.peers.has(&key.application));
    }

    /// A client that merges batches merges them up to the size of a buffer, of which the last may be any row.
    #[tokio::test]
    async fn a_merged_push_may_be_larger_than_what_goes_to_a_file_of_its_own() {
        let place = tempfile::tempdir().unwrap();
        let node = node(&place);
        let listener = Listener::bind("127.0.0.1:0", NetOptions::new(Limits::PUSH)).await.unwrap();
        let address = listener.address().to_string();
        let _handle = listener.serve(Arc::new(PushService::new(Arc::clone(&node), Mode::Primary)));
        let key = ShuffleKey::new("app", 1);
        let locations = [0, 1].map(|partition| LocationId::new(partition, 0));
        let files = locations.map(|location| FileName { location, mode: Mode::Primary });
        let shuffle = reserved(&node, &key, &files);

        let limit = node.store.memory().limit();
        let push = async |large: u64| {
            let mut body = bytes::BytesMut::new();
            let mut offsets = Vec::new();
            for (map, len) in [(0, 100), (1, large as usize)] {
                offsets.push(body.len() as u32);
                let (map, attempt, batch) = (MapId(map), AttemptId(0), BatchId(1));
                let end = body.len() + len;
                let len = (len - BATCH_HEADER_LEN) as u32;
                BatchHeader { map, attempt, batch, len }.encode(ByteOrder::Little, &mut body);
                body.resize(end, 7);
            }
            let (request_id, mode, shuffle, locations) = (0, Mode::Primary, key.clone(), locations.to_vec());
            let header = Header::PushMergedData { request_id, mode, shuffle, locations, offsets };
            Client::default().request(&address, header, body.freeze(), Duration::from_secs(20)).await
        };
        let large = limit / 8 + 1;
        assert!(large::is_large(large as usize, limit));
        assert_eq!(push(large).await.unwrap()[..], [0]);
        assert_eq!(shuffle.lock().bytes(), large + 100);
        assert!(matches!(push(limit / 4).await, Err(RequestError::Failed { .. })), "there is a bound");
    }

    /// Goal: very many tiny batches of one application close the worker to nobody else. Method: in a ledger of 48 MiB, as many
    /// for each byte as 12 million in a worker of 1 GiB; all of them are taken. Then more, until no more are.
    #[tokio::test]
    async fn very_many_small_batches_of_one_application_keep_nobody_else_out() {
        let place = tempfile::tempdir().unwrap();
        let node = Arc::new(Node::open(options(&place), id(), 48 << 20).unwrap());
        let spiller = tokio::spawn(Arc::clone(&node.store).run_spiller());
        let listener = Listener::bind("127.0.0.1:0", NetOptions::new(Limits::PUSH)).await.unwrap();
        let address = listener.address().to_string();
        let _handle = listener.serve(Arc::new(PushService::new(Arc::clone(&node), Mode::Primary)));
        let file = |partition| FileName { location: LocationId::new(partition, 0), mode: Mode::Primary };
        let of = |name: &str| {
            let key = ShuffleKey::new(name, 1);
            (reserved(&node, &key, &[file(0), file(1)]), key)
        };
        let ((many, many_key), (few, few_key)) = (of("many"), of("few"));
        const IN_A_FRAME: i32 = 4_000;
        let client = Client::default();
        let push = async |key: &ShuffleKey, map: i32, count: i32, len: usize| {
            let mut body = bytes::BytesMut::new();
            let mut offsets = Vec::new();
            for batch in 0..count {
                offsets.push(body.len() as u32);
                let (map, attempt, batch) = (MapId(map), AttemptId(0), BatchId(batch));
                BatchHeader { map, attempt, batch, len: len as u32 }.encode(ByteOrder::Little, &mut body);
                body.resize(body.len() + len, map.0 as u8);
            }
            let locations = (0..count).map(|batch| LocationId::new(batch % 2, 0)).collect();
            let (request_id, mode, shuffle) = (0, Mode::Primary, key.clone());
            let header = Header::PushMergedData { request_id, mode, shuffle, locations, offsets };
            let answer =
                client.request(&address, header, body.freeze(), Duration::from_secs(60)).await.unwrap();
            let taken = [Status::Success, Status::SoftSplit].map(|status| status as u8);
            taken.contains(&answer[0])
        };
        // However slow the disk is: what has not been spilled yet takes more memory, and is another reason to be refused.
        let spilled = async || {
            while node.store.memory().excess() > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let mut pushed = [0, 0];
        for map in 0..12_000_000 / 20 / IN_A_FRAME {
            spilled().await;
            assert!(push(&many_key, map, IN_A_FRAME, 0).await, "after {} batches", pushed[0]);
            pushed[0] += IN_A_FRAME;
        }
        assert!(!node.pressure(&Party::pushes(&few_key.application)).exhausted);
        // It goes on until it has its part of what no spill gives back.
        for map in 1_000..20_000 {
            spilled().await;
            if !push(&many_key, map, IN_A_FRAME, 0).await {
                break;
            }
            pushed[0] += IN_A_FRAME;
        }
        let has_its_part = |key: &ShuffleKey| {
            let party = Party::pushes(&key.application);
            node.store.memory().has_its_part_of_fixed(&party)
        };
        assert!(has_its_part(&many_key) && !has_its_part(&few_key), "{pushed:?}");
        // When memory is tight, one is told to go elsewhere, and the other is served. What is still being spilled makes room.
        let memory = node.store.memory();
        let is_exhausted = |key: &ShuffleKey| node.pressure(&Party::pushes(&key.application)).exhausted;
        let mut fillers = Vec::new();
        while !is_exhausted(&many_key) {
            fillers.push(memory.charge((memory.limit() / 16 * 14).saturating_sub(memory.used())));
            assert!(fillers.len() < 10_000, "{} of {}", memory.used(), memory.limit());
        }
        assert!(!is_exhausted(&few_key));
        for map in 0..50 {
            assert!(push(&few_key, map, 10, 1_000).await, "{map}");
            pushed[1] += 10;
        }
        let pressure = node.pressure(&Party::pushes(&few_key.application));
        let location = LocationId::new(2, 1);
        let moved = FileName { location, mode: Mode::Primary };
        let moved = [Reservation { file: moved, peer: None, split: SplitPolicy::default() }];
        assert_eq!(few.lock().state.reserve(None, &moved, pressure, 9), Ok(()));
        let commit = Commit { primaries: vec![file(0).location, file(1).location], ..Commit::default() };
        let before = node.store.memory().used();
        for (shuffle, pushed) in [(&few, pushed[1]), (&many, pushed[0])] {
            let mut contents = shuffle.lock();
            assert_eq!(contents.state.commit(&commit).committed, [file(0), file(1)]);
            contents.complete([file(0), file(1)]);
            let indexed: u64 = contents.copies.values().map(|copy| copy.index().allocated()).sum();
            let entries: u32 = contents.copies.values().map(|copy| copy.index().len()).sum();
            assert_eq!(entries, pushed as u32, "every batch that was taken");
            assert!(indexed <= 17 * u64::from(entries) + 200, "{indexed} bytes for {entries} batches");
        }
        assert!(node.store.memory().used() <= before);
        let stream = node.store.open_stream(&few, file(0), MapRange::Whole, 8 << 20).unwrap();
        let read: u64 = stream.chunks().iter().map(|chunk| chunk.bytes).sum();
        assert_eq!(read, 50 * 5 * 1_016);
        spiller.abort();
    }
}
