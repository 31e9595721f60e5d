//! The fetch listener: committed batches on their way out.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use super::index::MapRange;
use super::node::Node;
use super::store::read::{ChunkReader, Stream, not_here};
use crate::error::{Error, Kind, Result};
use crate::ids::{FileName, ShuffleKey};
use crate::net::{Body, Celeborn, Payload, PieceFuture, PieceSource, Reply, Service, cut};
use crate::wire::message::{Message, MessageType};
use crate::wire::{ChunkSlice, Head, Header, Received, Status, proto, received, refusal, rpc};

/// Streams that are opened before the other connections get their turn.
const OPENED_IN_A_ROW: usize = 16;

/// Streams that one request opens at most: its answer is larger than itself.
const OPENED_MAX: usize = 1 << 16;

/// What a client is told that would read a file of this machine by itself.
const NO_FILES: &str =
    "workers give no files to read: set celeborn.client.readLocalShuffleFile.enabled=false";

/// Answers readers.
pub struct FetchService {
    node: Arc<Node>,
}

impl FetchService {
    /// The service of the fetch listener.
    pub fn new(node: Arc<Node>) -> Self {
        Self { node }
    }

    async fn request(&self, message: &Message, reply: Reply) -> Result<()> {
        match message.kind {
            MessageType::OPEN_STREAM => {
                let request = message.parse::<received::OpenStream>()?;
                let range = MapRange::from_wire(request.start_index, request.end_index);
                let opened = storable(&request.shuffle_key);
                match opened
                    .and_then(|key| self.open(&key, &request.file_name, range, request.read_local_shuffle))
                {
                    Ok(handler) => reply.message(&Message::of(&handler)),
                    Err(error) => reply.fail(refusal::text_of(&error)),
                }
            }
            MessageType::BATCH_OPEN_STREAM => {
                let request = message.parse()?;
                match self.open_all(&request).await {
                    Ok(opened) => reply.message(&Message::of(&opened)),
                    Err(error) => reply.fail(refusal::text_of(&error)),
                }
            }
            MessageType::CHUNK_FETCH_REQUEST => {
                let request = message.parse::<received::ChunkFetchRequest>()?;
                let slice = request.stream_chunk_slice.unwrap_or_default();
                let received::StreamChunkSlice { stream_id, chunk_index, offset, len } = slice;
                self.chunk(ChunkSlice { stream_id, chunk_index, offset, len }, reply);
            }
            MessageType::BUFFER_STREAM_END => {
                let request = message.parse::<received::BufferStreamEnd>()?;
                self.node.streams.remove(request.stream_id);
            }
            other => reply.fail(format!("the fetch port does not answer {}", rpc::describe(other))),
        }
        Ok(())
    }

    /// Opens a location, unless the client `reads_file`s itself: there is none with nothing else in it, and such a client
    /// would look for one without a name.
    fn open(
        &self,
        key: &ShuffleKey,
        file: &str,
        range: MapRange,
        reads_file: bool,
    ) -> Result<proto::StreamHandler> {
        let begun = Instant::now();
        let opened = match reads_file {
            false => self.open_uncounted(key, file, range),
            true => Err(Error::new(Kind::Invalid, NO_FILES)),
        };
        let meters = &self.node.meters;
        match opened {
            Ok(_) => meters.opens.record(begun.elapsed()),
            Err(_) => meters.failed_opens.add(1),
        }
        opened
    }

    fn open_uncounted(&self, key: &ShuffleKey, file: &str, range: MapRange) -> Result<proto::StreamHandler> {
        let file: FileName = file.parse()?;
        // The key is not quoted: one request may ask for thousands of files.
        let lost = || not_here("the shuffle", self.node.store.may_have_unseen(key));
        let shuffle = self.node.store.find(key).ok_or_else(lost)?;
        let stream = self.node.store.open_stream(&shuffle, file, range, self.node.options.chunk_bytes)?;
        let num_chunks =
            i32::try_from(stream.chunks().len()).expect("a stream of 2^31 chunks has no place here");
        let now_ms = self.node.store.now_ms();
        let stream_id = self.node.streams.insert(stream, self.node.store.memory(), now_ms)?;
        // Deleted meanwhile, it would keep what it reads until there is no room for it.
        if shuffle.lock().gone {
            self.node.streams.remove(stream_id);
            return Err(not_here("the shuffle", false));
        }
        Ok(proto::StreamHandler { stream_id, num_chunks, ..Default::default() })
    }

    /// One answer for each file that was asked for, in the same order: the client pairs them by place.
    async fn open_all(
        &self,
        request: &Received<received::OpenStreamList>,
    ) -> Result<proto::OpenStreamListResponse> {
        type Request = received::OpenStreamList;
        let count = request.texts(Request::FILE_NAME).count();
        if count > OPENED_MAX {
            let text = format!("a request for {count} streams, expected at most {OPENED_MAX}");
            return Err(Error::new(Kind::Invalid, text));
        }
        let key = storable(&request.shuffle_key)?;
        let mut opened = Vec::with_capacity(count);
        let mut starts = request.numbers(Request::START_INDEX);
        let mut ends = request.numbers(Request::END_INDEX);
        let mut read_files = request.numbers(Request::READ_LOCAL_SHUFFLE);
        for (at, file) in request.texts(Request::FILE_NAME).enumerate() {
            let (start, end) = (starts.next().transpose()?, ends.next().transpose()?);
            let range = MapRange::from_wire(start.unwrap_or(0), end.unwrap_or(i32::MAX));
            let reads_file = read_files.next().transpose()?.unwrap_or(false);
            opened.push(match self.open(&key, file?, range, reads_file) {
                Ok(handler) => proto::StreamHandlerOpt {
                    status: Status::Success.code(),
                    stream_handler: Some(handler),
                    error_msg: String::new(),
                },
                Err(error) => proto::StreamHandlerOpt {
                    status: Status::OpenStreamFailed.code(),
                    stream_handler: None,
                    error_msg: cut(refusal::text_of(&error)),
                },
            });
            if at % OPENED_IN_A_ROW == OPENED_IN_A_ROW - 1 {
                tokio::task::yield_now().await;
            }
        }
        Ok(proto::OpenStreamListResponse { stream_handler_opt: opened })
    }

    fn chunk(&self, slice: ChunkSlice, reply: Reply) {
        match self.read(&slice) {
            Ok(source) => {
                let len =
                    usize::try_from(source.reader.left()).expect("a chunk's length is an i32 on the wire");
                reply.chunk(slice, Payload::pull(len, Box::new(source)));
            }
            Err(error) => {
                self.node.meters.chunk_failed(error.kind());
                reply.chunk_failure(slice, refusal::text_of(&error));
            }
        }
    }

    fn read(&self, slice: &ChunkSlice) -> Result<ChunkSource> {
        let begun = Instant::now();
        let number = |what, number: i32| {
            let text = format!("{what} {number} is negative");
            u32::try_from(number).map_err(|_| Error::new(Kind::Invalid, text))
        };
        let chunk = number("chunk", slice.chunk_index)?;
        let offset = number("offset", slice.offset)?;
        let len = match slice.len {
            ChunkSlice::TO_END => u64::MAX,
            len => number("length", len)?.into(),
        };
        let stream = self.node.streams.get(slice.stream_id, self.node.store.now_ms())?;
        stream.check()?;
        let reader = ChunkReader::new(&stream, &self.node.store, chunk, offset.into(), len)?;
        let (node, bytes) = (Arc::clone(&self.node), reader.left());
        Ok(ChunkSource { slice: *slice, stream, reader, node, begun, taken: None, bytes })
    }
}

/// The key of a shuffle that may be here.
fn storable(key: &str) -> Result<ShuffleKey> {
    let key: ShuffleKey = key.parse()?;
    match key.check_storable() {
        Ok(()) => Ok(key),
        Err(error) => Err(Error::new(Kind::Invalid, error.to_string())),
    }
}

/// A chunk that is read while it is sent.
struct ChunkSource {
    slice: ChunkSlice,
    stream: Arc<Stream>,
    reader: ChunkReader,
    node: Arc<Node>,
    begun: Instant,
    /// When the first piece was asked for.
    taken: Option<Instant>,
    bytes: u64,
}

impl ChunkSource {
    /// Its last byte was taken.
    fn end(&self) {
        let (meters, took) = (&self.node.meters, self.begun.elapsed());
        meters.chunks.record(took);
        let of_place = if self.reader.is_from_disk() { &meters.disk_chunks } else { &meters.memory_chunks };
        of_place.record(took);
        meters.transfers.record(self.taken.map_or(took, |taken| taken.elapsed()));
        meters.transfer_sizes.record(self.bytes);
    }
}

impl PieceSource<Celeborn> for ChunkSource {
    fn next(&mut self) -> PieceFuture<'_> {
        Box::pin(async {
            if self.taken.is_none() {
                self.taken = Some(Instant::now());
                // Chunks that were asked for before their stream broke do not wait for its disk one after the other.
                self.stream.check().map_err(io::Error::other)?;
            }
            let piece = self.reader.next().await;
            if matches!(piece, Ok(None)) {
                self.end();
            }
            piece.map_err(|error| {
                self.stream.broke(&error);
                io::Error::other(error)
            })
        })
    }

    fn broke(&mut self, error: &io::Error) -> Option<Header> {
        tracing::warn!(%error, "a chunk broke off");
        let said = error.get_ref().and_then(|cause| cause.downcast_ref::<Error>()).cloned();
        // Who comes back with this stream is told why; a disk that stands still has not said anything yet.
        let why = said.unwrap_or_else(|| Error::new(Kind::Unavailable, error.to_string()));
        let meters = &self.node.meters;
        meters.chunk_failed(why.kind());
        let is_from_disk = self.reader.is_from_disk();
        let of_place = if is_from_disk { &meters.failed_disk_chunks } else { &meters.failed_memory_chunks };
        of_place.add(1);
        self.stream.broke(&why);
        Some(Reply::no_chunk(self.slice, refusal::text_of(&why)))
    }
}

impl Service for FetchService {
    async fn call(&self, head: Head, body: &mut Body<'_>, reply: Reply) -> io::Result<()> {
        match head.header {
            Header::ChunkFetchRequest(slice) => self.chunk(slice, reply),
            Header::RpcRequest { .. } => {
                let message = Message::decode_bare(body.whole().await?).map_err(Error::from);
                // The reply went with the request: a client that sends malformed bytes loses its connection.
                let answered = match message {
                    Ok(message) => self.request(&message, reply).await,
                    Err(error) => Err(error),
                };
                answered.map_err(io::Error::other)?;
            }
            // One-way messages and signs of life.
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;
    use crate::ids::{LocationId, Mode};
    use crate::metrics::Exposition;
    use crate::net::{Client, Listener, Options as NetOptions, RequestError};
    use crate::wire::Limits;
    use crate::worker::node::tests::{committed, node, options};
    use crate::worker::view;

    #[tokio::test]
    async fn chunks_that_are_damaged_on_disk_are_counted_by_themselves() {
        let place = tempfile::tempdir().unwrap();
        let node = node(&place);
        let file = FileName { location: LocationId::new(0, 0), mode: Mode::Primary };
        let service = Arc::new(FetchService::new(Arc::clone(&node)));
        let listener = Listener::bind("127.0.0.1:0", NetOptions::new(Limits::FETCH)).await.unwrap();
        let fetching = listener.serve(Arc::clone(&service));
        let (client, address) = (Client::default(), fetching.address().to_string());
        let (rot, cut_short) =
            (|bytes: &mut Vec<u8>| *bytes.last_mut().unwrap() ^= 1, |bytes: &mut Vec<u8>| _ = bytes.pop());
        let mut counted = 0;
        for (number, spoil) in [(1, &rot as &dyn Fn(&mut Vec<u8>)), (2, &cut_short)] {
            let key = ShuffleKey::new("app", number);
            let shuffle = committed(&node, &key, file);
            let directory = &node.store.directories()[0];
            let job = node.store.plan(directory, u64::MAX).expect("there is something to spill");
            assert!(node.store.spill(job, Arc::clone(directory)).await);
            let path = shuffle.lock().segments[0].path().to_owned();
            let mut spoilt = std::fs::read(&path).unwrap();
            spoil(&mut spoilt);
            std::fs::write(&path, &spoilt).unwrap();

            let stream = service.open(&key, &file.to_string(), MapRange::Whole, false).unwrap().stream_id;
            // The second time it is known.
            for (stream_id, is_damaged) in [(stream, true), (stream, true), (stream + 1, false)] {
                let slice = ChunkSlice { stream_id, chunk_index: 0, offset: 0, len: ChunkSlice::TO_END };
                let header = Header::ChunkFetchRequest(slice);
                let fetched = client.request(&address, header, Bytes::new(), Duration::from_secs(20)).await;
                let Err(RequestError::Failed { text, .. }) = fetched else { panic!("{fetched:?}") };
                assert_eq!(refusal::is_final(&text), is_damaged, "{text}");
                counted += u64::from(is_damaged);
                assert_eq!(node.meters.corrupt_chunks.get(), counted);
            }
        }
        assert_eq!((node.meters.failed_chunks.get(), counted), (6, 4));
        let mut exposition = Exposition::new("Worker");
        view::metrics(&node, 0, &mut exposition);
        let shown = exposition.finish();
        assert!(shown.contains("metrics_FetchChunkCorruptCount_Count{role=\"Worker\"} 4\n"), "{shown}");
    }

    #[tokio::test]
    async fn who_would_read_a_file_by_itself_is_told_why_it_cannot() {
        let place = tempfile::tempdir().unwrap();
        let node = node(&place);
        let (key, service) = (ShuffleKey::new("app", 1), FetchService::new(Arc::clone(&node)));
        let file = FileName { location: LocationId::new(0, 0), mode: Mode::Primary };
        committed(&node, &key, file);
        let list = proto::OpenStreamList {
            shuffle_key: key.to_string(),
            file_name: vec![file.to_string(); 3],
            start_index: vec![0; 3],
            end_index: vec![i32::MAX; 3],
            read_local_shuffle: vec![false, true],
            ..Default::default()
        };
        let opened = service.open_all(&Message::of(&list).parse().unwrap()).await.unwrap();
        let told: Vec<_> = opened.stream_handler_opt.iter().map(|one| one.error_msg.as_str()).collect();
        assert_eq!(told, ["", NO_FILES, ""]);
    }

    #[tokio::test]
    async fn what_may_be_on_a_disk_that_is_left_out_is_not_called_lost() {
        let place = tempfile::tempdir().unwrap();
        let key = ShuffleKey::new("app", 1);
        let said = || {
            let service = FetchService::new(node(&place));
            let error = service.open(&key, "0-0-0", MapRange::Whole, false).expect_err("there is no shuffle");
            refusal::text_of(&error)
        };
        assert_eq!(said(), "lost: the shuffle is not here");
        let far = &options(&place).directories[1];
        std::fs::remove_dir_all(far).unwrap();
        std::fs::write(far, "").unwrap();
        assert!(!refusal::is_final(&said()), "{}", said());
    }

    /// The answer to a request must not grow with the product of what is in it.
    #[tokio::test]
    async fn many_streams_that_are_not_there_are_refused_in_few_bytes() {
        let place = tempfile::tempdir().unwrap();
        let node = node(&place);
        let file = FileName { location: LocationId::new(0, 0), mode: Mode::Primary };
        committed(&node, &ShuffleKey::new("app", 1), file);
        let listener = Listener::bind("127.0.0.1:0", NetOptions::new(Limits::FETCH)).await.unwrap();
        let fetching = listener.serve(Arc::new(FetchService::new(Arc::clone(&node))));
        let (client, address) = (Client::default(), fetching.address().to_string());
        let ask = async |application: String, names: usize, name: &str| {
            let shuffle_key = ShuffleKey::new(application.as_str(), 1).to_string();
            let file_name = vec![name.to_owned(); names];
            let list = proto::OpenStreamList { shuffle_key, file_name, ..Default::default() };
            let (header, body) = (Header::RpcRequest { request_id: 0 }, Message::of(&list).to_bare());
            client.request(&address, header, body, Duration::from_secs(20)).await
        };
        let (long, longest) = ("a".repeat(100 << 10), "a".repeat(200));
        match ask(long.clone(), 1000, "0-0-0").await {
            Err(RequestError::Failed { text, .. }) => {
                assert!(text.contains("1 to 200 bytes"), "{text}")
            }
            other => panic!("{:?}", other.map(|answer| answer.len())),
        }
        for (application, name) in
            [(&longest, "0-0-0"), (&"app".to_owned(), "7-0-0"), (&longest, &"9".repeat(8 << 10))]
        {
            let answer = ask(application.clone(), 1000, name).await.unwrap();
            assert!(answer.len() < 1 << 20, "{} bytes", answer.len());
        }
        match ask("app".to_owned(), OPENED_MAX + 1, "7-0-0").await {
            Err(RequestError::Failed { text, .. }) => assert!(text.contains("at most 65536"), "{text}"),
            other => panic!("{:?}", other.map(|answer| answer.len())),
        }
        assert!(ask("app".to_owned(), OPENED_MAX, "7-0-0").await.unwrap().len() > OPENED_MAX);
    }

    /// The stock client opens all locations of a range and never closes those of which it knows that none of its maps is there.
    #[tokio::test]
    async fn a_stream_without_chunks_is_not_kept() {
        let place = tempfile::tempdir().unwrap();
        let node = node(&place);
        let key = ShuffleKey::new("app", 1);
        let file = FileName { location: LocationId::new(0, 0), mode: Mode::Primary };
        committed(&node, &key, file);
        let service = FetchService::new(Arc::clone(&node));
        let open = async |start, end| {
            let (file_name, start_index, end_index) = (vec![file.to_string()], vec![start], vec![end]);
            let shuffle_key = key.to_string();
            let list = proto::OpenStreamList {
                shuffle_key,
                file_name,
                start_index,
                end_index,
                ..Default::default()
            };
            let opened = service.open_all(&Message::of(&list).parse().unwrap()).await.unwrap();
            let [opened] = opened.stream_handler_opt.try_into().unwrap();
            assert_eq!(opened.status, Status::Success.code(), "{}", opened.error_msg);
            opened.stream_handler.unwrap()
        };
        let used = node.store.memory().used();
        let empty = open(5, 9).await;
        assert_eq!((empty.num_chunks, node.streams.len(), node.store.memory().used()), (0, 0, used));
        let slice =
            ChunkSlice { stream_id: empty.stream_id, chunk_index: 0, offset: 0, len: ChunkSlice::TO_END };
        let error = service.read(&slice).err().expect("there is no chunk");
        assert_eq!(error.kind(), Kind::Conflict, "{error}");
        node.streams.remove(empty.stream_id);

        let whole = open(3, 4).await;
        assert_eq!((whole.num_chunks, node.streams.len()), (1, 1));
        assert_ne!(whole.stream_id, empty.stream_id);
    }
}
