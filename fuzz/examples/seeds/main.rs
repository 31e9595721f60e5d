//! Writes valid inputs, from which fuzzing starts, to `corpus/<target>/`.

mod dfs;

use std::fs;
use std::path::Path;

use bytes::{BufMut, BytesMut};
use yeoul_journal::Record as _;
use yeoul_journal::layout::{self, Entry};
use yeoul_shuffle::ids::{
    AttemptId, BatchId, DriverId, FileName, LocationId, MapId, Mode, ShuffleId, ShuffleKey, WorkerId,
};
use yeoul_shuffle::master::record::{Record, User};
use yeoul_shuffle::wire::batch::{BatchHeader, ByteOrder};
use yeoul_shuffle::wire::message::{Message, Typed};
use yeoul_shuffle::wire::packed::Location;
use yeoul_shuffle::wire::rpc::{self, Answer, Request};
use yeoul_shuffle::wire::{ChunkSlice, Frame, Header, executor, internal, java, proto};
use yeoul_shuffle::worker::store::record::{RunRow, Seal, encode_run, encode_seal, encode_winners};

fn main() -> std::io::Result<()> {
    let worker = |port: u16| WorkerId {
        host: "127.0.0.1".into(),
        rpc_port: port,
        push_port: port + 1,
        fetch_port: port + 2,
        replicate_port: port + 3,
    };
    let location = |partition, mode| Location {
        id: LocationId::new(partition, 1),
        mode,
        worker: worker(9091),
        peer: Some(worker(9191)),
    };
    let locations = [location(0, Mode::Primary), location(1, Mode::Replica)];
    let pair = Location::pack(&locations);
    let info = proto::WorkerInfo::from(&worker(9091));
    let storage =
        proto::StorageInfo { file_path: "/a/b".into(), chunk_offsets: vec![0, 9], ..Default::default() };
    let text = |text: &str| text.to_owned();
    let name = |shuffle| internal::ShuffleName { application: text("app"), shuffle };
    let report = internal::WorkerReport {
        directories: vec![internal::DirectoryReport {
            path: text("/d"),
            bytes_total: 9,
            ..Default::default()
        }],
        shuffles: vec![internal::HeldShuffle { name: Some(name(3)), locations: 4, bytes: 500 }],
        ..Default::default()
    };
    let described = executor::Description {
        maps: executor::Maps::Fixed(9),
        locations: locations.to_vec(),
        shunned: vec![worker(9091)],
        push_max_ms: 120_000,
        window: 32,
        merge_len: 64 << 10,
        revives_max: 5,
    };
    let messages = [
        seed(&internal::WorkerRegister { report: Some(report), ..Default::default() }),
        seed(&internal::WorkerOrders {
            sequence: 2,
            expired: vec![name(0), name(300)],
            ..Default::default()
        }),
        seed(&proto::RegisterApplicationInfo {
            app_id: text("app"),
            extra_info: [(text("k"), text("v")), (text("l"), text("w"))].into(),
            ..Default::default()
        }),
        seed(&proto::BatchUnregisterShuffles { shuffle_ids: vec![1, 2, 300], ..Default::default() }),
        seed(&proto::RequestSlots {
            application_id: text("app"),
            partition_id_list: vec![0, 1, 2],
            excluded_worker_set: vec![info.clone()],
            user_identifier: Some(proto::UserIdentifier { tenant_id: text("t"), name: text("n") }),
            ..Default::default()
        }),
        seed(&proto::ReportWorkerUnavailable { unavailable: vec![info.clone()], ..Default::default() }),
        seed(&proto::HeartbeatFromApplication { need_checked_worker_list: vec![info], ..Default::default() }),
        seed(&proto::ReserveSlots { partition_locations_pair: Some(pair.clone()), ..Default::default() }),
        seed(&proto::ReserveSlots {
            primary_locations: locations.iter().map(Location::to_proto).collect(),
            ..Default::default()
        }),
        seed(&proto::CommitFiles {
            primary_ids: vec![text("0-0"), text("1-0")],
            map_attempts: vec![0, -1],
            ..Default::default()
        }),
        seed(&proto::DestroyWorkerSlots { primary_locations: vec![text("0-0")], ..Default::default() }),
        seed(&proto::OpenStream {
            shuffle_key: text("app-1"),
            file_name: text("0-0-0"),
            ..Default::default()
        }),
        seed(&proto::OpenStreamList {
            shuffle_key: text("app-1"),
            file_name: vec![text("0-0-0")],
            start_index: vec![0],
            end_index: vec![i32::MAX],
            initial_credit: vec![0],
            read_local_shuffle: vec![false],
        }),
        seed(&proto::ChunkFetchRequest { stream_chunk_slice: Some(proto::StreamChunkSlice::default()) }),
        seed(&proto::RequestSlotsResponse {
            packed_worker_resource: [(
                worker(9091).to_string(),
                proto::PackedWorkerResource { location_pairs: Some(pair), network_location: text("/r") },
            )]
            .into(),
            worker_resource: [(text("w"), proto::WorkerResource::default())].into(),
            ..Default::default()
        }),
        seed(&proto::CommitFilesResponse {
            committed_primary_ids: vec![text("0-0")],
            committed_primary_storage_infos: [(text("0-0"), storage)].into(),
            ..Default::default()
        }),
        executor::Request::Revive {
            of: executor::Subject { life: text("life"), shuffle: ShuffleId(3) },
            partition: 1.into(),
            epoch: 2.into(),
            avoid: vec![worker(9091), worker(9191)],
        }
        .to_message(),
        executor::Request::End {
            of: executor::Subject { life: text("life"), shuffle: ShuffleId(3) },
            map: MapId(4),
            attempt: AttemptId(1),
            summary: "rows".into(),
        }
        .to_message(),
        executor::Request::Open { life: text("life"), name: text("job-7/3"), partitions: 2 }.to_message(),
        executor::Answer::Description(described.clone()).to_message(),
        executor::Answer::Opened {
            shuffle: ShuffleId(3),
            description: executor::Description { maps: executor::Maps::Open, ..described },
        }
        .to_message(),
        executor::Answer::Files {
            files: vec![executor::Readable {
                location: LocationId::new(0, 1),
                copies: vec![(
                    worker(9091),
                    FileName { location: LocationId::new(0, 1), mode: Mode::Primary },
                )],
            }],
            winners: vec![AttemptId(0), AttemptId(300)],
        }
        .to_message(),
    ];
    for (index, message) in messages.iter().enumerate() {
        write("shuffle_message", index, &message.to_bare())?;
        write("shuffle_rpc", index, &Request::encode_native(rpc::MASTER, message))?;
        let mut java = BytesMut::from(&b"\x01\0\x04host\0\0\x12\x34\0\0\x0eMasterEndpoint"[..]);
        java::encode_message(message, &mut java);
        write("shuffle_rpc", 100 + index, &java)?;
        write("shuffle_java", index, &Answer::Message(message.clone()).encode()[5..])?;
    }
    let mut check = BytesMut::from(&b"\0\0\0\x11endpoint-verifier"[..]);
    java::encode_check_existence(rpc::WORKER, &mut check);
    write("shuffle_rpc", 200, &check)?;
    write("shuffle_java", 200, &check[21 + 5..])?;
    write("shuffle_java", 201, &Answer::Exists(true).encode()[5..])?;
    let exception = include_str!("../../../crates/shuffle/src/wire/java/not_leader.hex").replace('\n', "");
    let digits = exception.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("it is ASCII"));
    let exception: Vec<u8> =
        digits.map(|pair| u8::from_str_radix(pair, 16).expect("a byte has two digits")).collect();
    write("shuffle_java", 202, &exception[5..])?;

    let mut batches = BytesMut::new();
    for (map, payload) in [(0, &b"first"[..]), (1, b""), (2, b"third")] {
        let len = payload.len() as u32;
        BatchHeader { map: MapId(map), attempt: AttemptId(0), batch: BatchId(1), len }
            .encode(ByteOrder::Little, &mut batches);
        batches.put_slice(payload);
    }
    write("shuffle_batches", 0, &batches)?;

    let slice = ChunkSlice { stream_id: 1, chunk_index: 0, offset: 0, len: ChunkSlice::TO_END };
    let (shuffle, mode, request_id) = (ShuffleKey::new("app-1", 3), Mode::Primary, 7);
    let headers = [
        Header::ChunkFetchRequest(slice),
        Header::ChunkFetchFailure { slice, error: text("gone") },
        Header::RpcFailure { request_id, error: text("no") },
        Header::Heartbeat,
        Header::ChunkFetchSuccess(slice),
        Header::RpcRequest { request_id },
        Header::RpcResponse { request_id },
        Header::OneWayMessage,
        Header::PushData { request_id, mode, shuffle: shuffle.clone(), location: LocationId::new(1, 0) },
        Header::PushMergedData {
            request_id,
            mode,
            shuffle,
            locations: vec![LocationId::new(0, 0), LocationId::new(1, 0), LocationId::new(0, 0)],
            offsets: vec![0, 21, 37],
        },
    ];
    for (index, header) in headers.into_iter().enumerate() {
        let body = if index < 4 { BytesMut::new() } else { batches.clone() };
        let mut bytes = BytesMut::from(&[7][..]); // in pieces of 8
        Frame::new(header, body.freeze()).encode(&mut bytes);
        write("shuffle_frame", index, &bytes)?;
    }

    let application = "app".into();
    let properties = vec![(text("k"), text("v")), (text("l"), text("w"))];
    let records = [
        Record::ApplicationRegistered {
            application,
            user: User::default(),
            properties,
            lives: Vec::new(),
            at_unix_ms: 1,
        },
        Record::ShufflesRemoved { application: "app".into(), runs: vec![ShuffleId(3).into()], at_unix_ms: 2 },
        Record::WorkerRegistered { worker: worker(9091), http_port: 1, network_location: text("/r") },
        Record::WorkerExcluded { worker: worker(9091) },
    ];
    for (index, record) in records.into_iter().enumerate() {
        let mut bytes = BytesMut::new();
        record.encode(&mut bytes);
        write("shuffle_record", index, &bytes)?;
    }
    let marks = [Entry::Begins { layout_version: 1, kind: "fuzz" }, Entry::Synced(9), Entry::SnapshotEnd(4)];
    for (index, entry) in marks.into_iter().chain([Entry::Record(b"some record")]).enumerate() {
        let mut frame = BytesMut::new();
        layout::encode(7, entry, &mut frame);
        write("journal", index, &frame[20..])?;
        write("journal", 100 + index, &frame)?;
    }

    let mut segment = Vec::new();
    let file = FileName { location: LocationId::new(1, 0), mode: Mode::Replica };
    let row =
        |len, map| RunRow { len, map: MapId(map), attempt: AttemptId(0), batch: BatchId(1), checksum: 0 };
    encode_run(file, 1, 0, &[row(3, 0), row(0, 1)], &mut segment);
    segment.extend_from_slice(b"abc");
    let driver = Some(DriverId::at(b"driver", 7077));
    encode_winners(1, &[AttemptId(0), AttemptId::NONE], driver, &mut segment);
    let seal = Seal { file, life: 1, count: 2, bytes: 3, order: Some(ByteOrder::Big), replicated: true };
    encode_seal(&seal, &mut segment);
    write("shuffle_segment", 0, &segment)?;

    let settings = "# comment\nceleborn.master.port 9097\nceleborn.worker.storage.dirs = /a,\\\n /b\n\
        celeborn.worker.storage.disk.reserve.size: 5g\nceleborn.master.heartbeat.worker.timeout 120s\n\
        celeborn.storage.availableTypes SSD\nceleborn.ssl.rpc.enabled false\n";
    write("shuffle_settings", 0, settings.as_bytes())?;
    dfs::write_seeds()
}

fn seed<M: Typed>(message: &M) -> Message {
    Message::of(message)
}

fn write(target: &str, index: usize, bytes: &[u8]) -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(format!("seed-{index}")), bytes)
}
