//! Goal: the four properties of a codec, for every value and every byte string that proptest thinks of. Method: frames are
//! a stream, so a strict prefix must say "more"; everything inside a frame is whole, so a strict prefix must be refused.

use bytes::{Buf, Bytes, BytesMut};
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message as _;

use super::batch::{BATCH_HEADER_LEN, BatchHeader, Batches, ByteOrder};
use super::java::{self, Object};
use super::lists::Received;
use super::message::{Message, MessageType};
use super::packed::{LEN_MIN, Location};
use super::rpc::{Answer, Call, Request};
use super::{ChunkSlice, DecodeError, Frame, Head, Header, Incoming, Limits, Problem, proto, received};
use crate::ids::{AttemptId, BatchId, LocationId, MapId, Mode, ShuffleKey, WorkerId};

/// Every frame type, so that one test covers them all.
const ALL: Limits = Limits {
    head_len_max: 64 << 10,
    rpc_body_max: 64 << 10,
    push_body_max: 64 << 10,
    chunk_body_max: 64 << 10,
};

/// Many pushes are too long for these.
const NARROW: Limits = Limits { head_len_max: 100, push_body_max: 300, ..ALL };

fn body() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..600).prop_map(Bytes::from)
}

fn slice() -> impl Strategy<Value = ChunkSlice> {
    any::<(i64, i32, i32, i32)>().prop_map(|(stream_id, chunk_index, offset, len)| ChunkSlice {
        stream_id,
        chunk_index,
        offset,
        len,
    })
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::Primary), Just(Mode::Replica)]
}

fn shuffle() -> impl Strategy<Value = ShuffleKey> {
    ("[a-zé0-9_-]{1,20}", 0..=i32::MAX)
        .prop_map(|(application, shuffle)| ShuffleKey::new(application, shuffle))
}

fn location() -> impl Strategy<Value = LocationId> {
    (0..=i32::MAX, 0..=i32::MAX).prop_map(|(partition, epoch)| LocationId::new(partition, epoch))
}

fn frame() -> impl Strategy<Value = Frame> {
    let merged = (any::<i64>(), mode(), shuffle(), vec((location(), 0..50_u32), 0..20)).prop_map(
        |(request_id, mode, shuffle, batches)| {
            let mut end = 0;
            let (locations, offsets) = batches
                .into_iter()
                .map(|(location, len)| {
                    let begin = end;
                    end += len;
                    (location, begin)
                })
                .unzip();
            let body: Vec<u8> = (0..end).map(|at| (at * 7) as u8).collect();
            Frame::new(Header::PushMergedData { request_id, mode, shuffle, locations, offsets }, body)
        },
    );
    prop_oneof![
        slice().prop_map(|slice| Frame::new(Header::ChunkFetchRequest(slice), Bytes::new())),
        (slice(), body()).prop_map(|(slice, body)| Frame::new(Header::ChunkFetchSuccess(slice), body)),
        (slice(), ".{0,40}")
            .prop_map(|(slice, error)| Frame::new(Header::ChunkFetchFailure { slice, error }, Bytes::new())),
        (any::<i64>(), body())
            .prop_map(|(request_id, body)| Frame::new(Header::RpcRequest { request_id }, body)),
        (any::<i64>(), body())
            .prop_map(|(request_id, body)| Frame::new(Header::RpcResponse { request_id }, body)),
        (any::<i64>(), ".{0,40}").prop_map(|(request_id, error)| Frame::new(
            Header::RpcFailure { request_id, error },
            Bytes::new()
        )),
        body().prop_map(|body| Frame::new(Header::OneWayMessage, body)),
        (any::<i64>(), mode(), shuffle(), location(), body()).prop_map(
            |(request_id, mode, shuffle, location, body)| Frame::new(
                Header::PushData { request_id, mode, shuffle, location },
                body
            )
        ),
        merged,
        Just(Frame::new(Header::Heartbeat, Bytes::new())),
    ]
}

fn encoded(frames: &[Frame]) -> BytesMut {
    let mut bytes = BytesMut::new();
    frames.iter().for_each(|frame| frame.encode(&mut bytes));
    bytes
}

fn message() -> impl Strategy<Value = Message> {
    (any::<i32>(), proptest::option::of(body()))
        .prop_map(|(kind, payload)| Message { kind: MessageType(kind), payload })
}

fn worker() -> impl Strategy<Value = WorkerId> {
    ("[a-z0-9.:]{1,12}", any::<[u16; 4]>()).prop_map(|(host, [rpc, push, fetch, replicate])| WorkerId {
        host: host.into(),
        rpc_port: rpc,
        push_port: push,
        fetch_port: fetch,
        replicate_port: replicate,
    })
}

fn read_locations(request: &proto::ReserveSlots) -> Result<Vec<Location>, DecodeError> {
    let request: Received<received::ReserveSlots> = Message::of(request).parse()?;
    let mut locations = Vec::new();
    request.locations(|location| locations.push(location))?;
    assert_eq!(request.location_count(), Ok(locations.len()));
    Ok(locations)
}

/// Walks through a message with everything in it, and returns one of its lists.
fn walk(payload: Bytes) -> Result<Vec<String>, DecodeError> {
    let request = Received::<received::ReserveSlots>::decode(payload)?;
    let _ = request.location_count();
    let _ = request.locations(|_| {});
    let primaries = request.messages(received::ReserveSlots::PRIMARY_LOCATIONS);
    primaries.map(|location| Ok(location?.host.clone())).collect()
}

fn is_push(header: &Header) -> bool {
    matches!(header, Header::PushData { .. } | Header::PushMergedData { .. })
}

fn is_too_long(error: &DecodeError) -> bool {
    matches!(error.problem, Problem::TooLong { .. })
}

fn request_with_everything() -> Bytes {
    let worker: WorkerId = "first:1091:1092:1093:1094".parse().unwrap();
    let location = |partition| Location {
        id: LocationId::new(partition, 1),
        mode: Mode::Primary,
        worker: worker.clone(),
        peer: Some("second:2091:2092:2093:2094".parse().unwrap()),
    };
    let locations = [location(0), location(300)];
    let request = proto::ReserveSlots {
        application_id: "app-1".to_owned(),
        primary_locations: locations.iter().map(Location::to_proto).collect(),
        partition_locations_pair: Some(Location::pack(&locations)),
        ..proto::ReserveSlots::default()
    };
    request.encode_to_vec().into()
}

/// Bytes that begin like something valid, with a few of them changed, cut off or repeated.
fn mutated(valid: impl Strategy<Value = Bytes>) -> impl Strategy<Value = Bytes> {
    (valid, vec((any::<prop::sample::Index>(), any::<u8>()), 0..6), any::<prop::sample::Index>()).prop_map(
        |(valid, changes, end)| {
            let mut bytes = valid.to_vec();
            if !bytes.is_empty() {
                for (at, value) in &changes {
                    let at = at.index(bytes.len());
                    bytes[at] = *value;
                }
                if changes.len() % 2 == 1 {
                    bytes.truncate(end.index(bytes.len() + 1));
                }
            }
            Bytes::from(bytes)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn frames_read_back_however_they_are_cut(frames in vec(frame(), 1..6), cuts in vec(1..200_usize, 1..8)) {
        let bytes = encoded(&frames);
        let mut read = Vec::new();
        let mut source = BytesMut::new();
        let mut rest = &bytes[..];
        for cut in cuts.iter().cycle() {
            let (piece, behind) = rest.split_at((*cut).min(rest.len()));
            rest = behind;
            source.extend_from_slice(piece);
            while let Some(frame) = Frame::decode(&mut source, &ALL).unwrap() {
                read.push(frame);
            }
            if rest.is_empty() {
                break;
            }
        }
        prop_assert!(source.is_empty());
        prop_assert_eq!(&read, &frames);
        prop_assert_eq!(encoded(&read), bytes, "they encode back to the same bytes");
    }

    #[test]
    fn each_strict_prefix_of_a_frame_says_more(frame in frame(), end in any::<prop::sample::Index>()) {
        let bytes = encoded(&[frame]);
        let len = end.index(bytes.len());
        let mut prefix = BytesMut::from(&bytes[..len]);
        prop_assert_eq!(Frame::decode(&mut prefix, &ALL), Ok(None));
        prop_assert_eq!(prefix.len(), len, "nothing was taken");
    }

    #[test]
    fn heads_are_known_before_their_bodies(frame in frame(), end in any::<prop::sample::Index>()) {
        let mut bytes = encoded(std::slice::from_ref(&frame));
        bytes.truncate(bytes.len() - frame.body.len());
        let len = end.index(bytes.len());
        let mut prefix = BytesMut::from(&bytes[..len]);
        prop_assert_eq!(Incoming::decode(&mut prefix, &ALL), Ok(None));
        prop_assert_eq!(prefix.len(), len, "nothing was taken");
        let incoming = Incoming::decode(&mut bytes, &ALL).unwrap().unwrap();
        prop_assert_eq!(incoming, Incoming::Frame(Head { body_len: frame.body.len(), header: frame.header }));
        prop_assert!(bytes.is_empty());
    }

    #[test]
    fn pushes_that_are_too_long_are_passed_over(frames in vec(frame(), 1..6)) {
        let mut source = encoded(&frames);
        for (at, frame) in frames.iter().enumerate() {
            match Incoming::decode(&mut source, &NARROW) {
                Ok(Some(Incoming::Frame(head))) => {
                    prop_assert_eq!(&head.header, &frame.header);
                    source.advance(head.body_len);
                }
                Ok(Some(Incoming::LongPush { request_id, rest_len, error })) => {
                    prop_assert!(is_push(&frame.header) && is_too_long(&error));
                    prop_assert_eq!(Some(request_id), frame.header.request_id());
                    source.advance(rest_len);
                }
                Ok(None) => panic!("it is all there"),
                // Nothing after it is read.
                Err(error) => {
                    prop_assert!(!is_push(&frame.header) && is_too_long(&error));
                    return Ok(());
                }
            }
            prop_assert_eq!(&source, &encoded(&frames[at + 1..]));
        }
    }

    #[test]
    fn changed_frames_never_panic(bytes in mutated(vec(frame(), 1..3).prop_map(|frames| encoded(&frames).freeze()))) {
        let mut source = BytesMut::from(&bytes[..]);
        while let Ok(Some(_)) = Frame::decode(&mut source, &ALL) {}
        let mut source = BytesMut::from(&bytes[..]);
        while let Ok(Some(incoming)) = Incoming::decode(&mut source, &NARROW) {
            let (Incoming::Frame(Head { body_len: rest, .. }) | Incoming::LongPush { rest_len: rest, .. }) = incoming;
            source.advance(rest.min(source.len()));
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in body()) {
        let _ = Frame::decode(&mut BytesMut::from(&bytes[..]), &ALL);
        let _ = Incoming::decode(&mut BytesMut::from(&bytes[..]), &NARROW);
        let _ = Message::decode_bare(bytes.clone());
        let _ = Request::decode(bytes.clone());
        let _ = Object::decode(bytes.clone());
        let _ = Object::decode([&[0xac, 0xed, 0, 5, 0x73][..], &bytes].concat().into());
        let _ = Batches::new(bytes.clone(), ByteOrder::Big).count();
        let _ = ByteOrder::of_batch(&bytes, bytes.len());
        let _ = walk(bytes);
    }

    #[test]
    fn messages_read_back_and_their_prefixes_do_not(message in message(), end in any::<prop::sample::Index>()) {
        let bare = message.to_bare();
        let payload = Some(message.payload.clone().unwrap_or_default());
        prop_assert_eq!(Message::decode_bare(bare.clone()), Ok(Message { payload, ..message.clone() }));
        prop_assert!(Message::decode_bare(bare.slice(..end.index(bare.len()))).is_err());

        let mut java = BytesMut::new();
        java::encode_message(&message, &mut java);
        let java = java.freeze();
        prop_assert_eq!(Object::decode(java.clone()), Ok(Object::Message(message.clone())));
        prop_assert!(Object::decode(java.slice(..end.index(java.len()))).is_err());
        prop_assert_eq!(Answer::decode_message(Answer::Message(message.clone()).encode()), Ok(message));
    }

    #[test]
    fn requests_read_back(message in message(), endpoint in "[A-Za-zé-]{0,20}") {
        let bytes = Request::encode_native(&endpoint, &message);
        let payload = Some(message.payload.clone().unwrap_or_default());
        let call = Call::Message(Message { payload, ..message });
        prop_assert_eq!(Request::decode(bytes), Ok(Request { sender: None, endpoint, call }));
    }

    #[test]
    fn changed_objects_never_panic(bytes in mutated(message().prop_map(|message| Answer::Message(message).encode()))) {
        let _ = Object::decode(bytes);
    }

    #[test]
    fn changed_exceptions_never_panic(bytes in mutated(Just(java::tests::captured_exception()))) {
        let _ = Object::decode(bytes);
    }

    #[test]
    fn packed_locations_read_back(
        locations in vec((location(), mode(), worker(), proptest::option::of(worker())), 0..20)
    ) {
        let locations: Vec<Location> = locations
            .into_iter()
            .map(|(id, mode, worker, peer)| Location { id, mode, worker, peer })
            .collect();
        let request = proto::ReserveSlots {
            partition_locations_pair: Some(Location::pack(&locations)),
            ..proto::ReserveSlots::default()
        };
        prop_assert_eq!(read_locations(&request), Ok(locations.clone()));
        // One by one they come with their modes, primaries first.
        let messages = |mode| {
            let of_mode = locations.iter().filter(move |location| location.mode == mode);
            of_mode.map(Location::to_proto).collect()
        };
        let request = proto::ReserveSlots {
            primary_locations: messages(Mode::Primary),
            replica_locations: messages(Mode::Replica),
            ..proto::ReserveSlots::default()
        };
        let mut sorted = locations.clone();
        sorted.sort_by_key(|location| location.mode);
        let short = |location: &Location| location.to_proto().encoded_len() < LEN_MIN;
        prop_assert!(read_locations(&request) == Ok(sorted) || locations.iter().any(short));
    }

    #[test]
    fn lists_read_back(
        ids in vec(".{0,12}", 0..20),
        attempts in vec(any::<i32>(), 0..40),
        offsets in vec(any::<i64>(), 0..10),
        flags in vec(any::<bool>(), 0..10),
        packed: bool,
        end in any::<prop::sample::Index>(),
    ) {
        let request = proto::CommitFiles {
            primary_ids: ids.clone(),
            map_attempts: if packed { attempts.clone() } else { Vec::new() },
            epoch: 5,
            ..proto::CommitFiles::default()
        };
        let mut bytes = request.encode_to_vec();
        if !packed {
            prost::encoding::int32::encode_repeated(5, &attempts, &mut bytes);
        }
        let bytes = Bytes::from(bytes);
        let read: Received<received::CommitFiles> = Received::decode(bytes.clone()).unwrap();
        prop_assert_eq!(read.epoch, 5);
        let texts: Result<Vec<&str>, _> = read.texts(received::CommitFiles::PRIMARY_IDS).collect();
        prop_assert_eq!(texts, Ok(ids.iter().map(String::as_str).collect()));
        let numbers: Result<Vec<i32>, _> = read.numbers(received::CommitFiles::MAP_ATTEMPTS).collect();
        prop_assert_eq!(numbers, Ok(attempts));

        let list = proto::OpenStreamList { read_local_shuffle: flags.clone(), ..Default::default() };
        let read: Received<received::OpenStreamList> = Received::decode(list.encode_to_vec().into()).unwrap();
        let read: Result<Vec<bool>, _> = read.numbers(received::OpenStreamList::READ_LOCAL_SHUFFLE).collect();
        prop_assert_eq!(read, Ok(flags));
        let handler = proto::StreamHandler { chunk_offsets: offsets.clone(), ..Default::default() };
        let read: Received<received::StreamHandler> =
            Received::decode(handler.encode_to_vec().into()).unwrap();
        let read: Result<Vec<i64>, _> = read.numbers(received::StreamHandler::CHUNK_OFFSETS).collect();
        prop_assert_eq!(read, Ok(offsets));

        // A prefix of protobuf may be a message too, but never one with an element that was not there.
        let len = end.index(bytes.len().max(1)).min(bytes.len());
        if let Ok(read) = Received::<received::CommitFiles>::decode(bytes.slice(..len)) {
            let texts: Vec<&str> = read.texts(received::CommitFiles::PRIMARY_IDS).map_while(Result::ok).collect();
            prop_assert!(ids.iter().map(String::as_str).collect::<Vec<_>>().starts_with(&texts));
        }
    }

    #[test]
    fn what_full_protobuf_reads_is_read_the_same(bytes in mutated(Just(request_with_everything()))) {
        if let (Ok(full), Ok(hosts)) = (proto::ReserveSlots::decode(bytes.clone()), walk(bytes)) {
            let expected: Vec<String> = full.primary_locations.into_iter().map(|location| location.host).collect();
            prop_assert_eq!(hosts, expected);
        }
    }

    #[test]
    fn batches_read_back(batches in vec((any::<(i32, i32, i32)>(), body()), 0..6), big in any::<bool>()) {
        let order = if big { ByteOrder::Big } else { ByteOrder::Little };
        let mut chunk = BytesMut::new();
        for ((map, attempt, batch), payload) in &batches {
            let len = payload.len() as u32;
            let header = BatchHeader { map: MapId(*map), attempt: AttemptId(*attempt), batch: BatchId(*batch), len };
            let begin = chunk.len();
            header.encode(order, &mut chunk);
            prop_assert_eq!(chunk.len() - begin, BATCH_HEADER_LEN);
            chunk.extend_from_slice(payload);
            let detected = ByteOrder::of_batch(&chunk[begin..], chunk.len() - begin);
            prop_assert!(detected == Some(order) || len.swap_bytes() == len);
        }
        let read: Vec<_> = Batches::new(chunk.freeze(), order).map(|batch| batch.unwrap()).collect();
        prop_assert_eq!(read.len(), batches.len());
        for (read, ((map, attempt, batch), payload)) in read.iter().zip(&batches) {
            let header = read.header;
            prop_assert_eq!((header.map.0, header.attempt.0, header.batch.0), (*map, *attempt, *batch));
            prop_assert_eq!(&read.payload, payload);
        }
    }
}
