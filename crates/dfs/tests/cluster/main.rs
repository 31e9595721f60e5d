//! Goal: servers over real sockets and files keep what they acknowledge, and bad input costs nobody else anything. Method: a
//! cluster in this process, and a small client of its own, which speaks the protocols by the codecs.

#![allow(clippy::unwrap_used)] // what helps a test fails it

mod checksums;
mod memory;
mod repair;
mod starting;
mod writers;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::BytesMut;
use yeoul_dfs::local::{Cluster, Options};
use yeoul_dfs::rpc::{CallError, Client};
use yeoul_dfs::wire::checksum::Chunking;
use yeoul_dfs::wire::packet::{Header, PREFIX_BYTES, Prefix};
use yeoul_dfs::wire::proto::namenode as calls;
use yeoul_dfs::wire::proto::shared::{ExtendedBlock, LocatedBlock, Permission};
use yeoul_dfs::wire::proto::transfer::{
    BaseHeader, ClientHeader, ClientReadStatus, PipelineAck, ReadBlock, Response, WriteBlock,
};
use yeoul_dfs::wire::transfer_op::{self, Operation};
use yeoul_dfs::wire::{delimited, protocol};

/// Bytes of a packet's data, as the stock client's.
const PACKET: usize = 126 * 512;

async fn start(dir: &Path, datanodes: usize) -> Cluster {
    let mut options = Options::new(datanodes, dir);
    options.namenode.port = 0;
    options.namenode.rules.block_size_min = 0;
    Cluster::start(options).await.unwrap()
}

/// A client of the NameNode, as another user than that of the servers.
async fn connect(address: SocketAddr) -> Client {
    let client_id = std::array::from_fn(|_| fastrand::u8(..));
    Client::connect(&address.to_string(), "tester", protocol::CLIENT, client_id).await.unwrap()
}

async fn as_root(address: SocketAddr) {
    let own =
        String::from_utf8(std::process::Command::new("id").arg("-un").output().unwrap().stdout).unwrap();
    let mut client =
        Client::connect(&address.to_string(), own.trim(), protocol::CLIENT, [9; 16]).await.unwrap();
    let open = calls::SetPermissionRequest { src: "/".to_owned(), permission: Permission { mode: 0o777 } };
    let _: calls::Empty = client.call("setPermission", &open).await.unwrap();
}

/// Bytes that are never the same twice in a row, and other ones for each seed.
fn content(seed: u64, length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| random.u8(..)).take(length).collect()
}

/// Waits until all DataNodes have registered.
async fn wait_for_nodes(client: &mut Client, count: usize) {
    for _ in 0..600 {
        let live = calls::DatanodeReportRequest { kind: 2 };
        let report: calls::DatanodeReportResponse = client.call("getDatanodeReport", &live).await.unwrap();
        if report.datanodes.len() == count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the DataNodes did not come");
}

async fn create(client: &mut Client, path: &str) -> u64 {
    let request = calls::CreateRequest {
        src: path.to_owned(),
        masked: Permission { mode: 0o644 },
        client_name: "tester".to_owned(),
        flags: 3,
        create_parent: true,
        replication: 3,
        block_size: 1 << 20,
        ..calls::CreateRequest::default()
    };
    let created: calls::FileInfoResponse = client.call("create", &request).await.unwrap();
    created.status.unwrap().id.unwrap()
}

async fn add_block(
    client: &mut Client,
    path: &str,
    file: u64,
    previous: Option<ExtendedBlock>,
) -> LocatedBlock {
    let request = calls::AddBlockRequest {
        src: path.to_owned(),
        client_name: "tester".to_owned(),
        previous,
        file_id: Some(file),
        ..calls::AddBlockRequest::default()
    };
    let added: calls::AddBlockResponse = client.call("addBlock", &request).await.unwrap();
    added.block
}

async fn complete(client: &mut Client, path: &str, file: u64, last: ExtendedBlock) -> bool {
    let (src, client_name) = (path.to_owned(), "tester".to_owned());
    let request = calls::CompleteRequest { src, client_name, last: Some(last), file_id: Some(file) };
    client.call::<calls::BoolResponse>("complete", &request).await.unwrap().result
}

/// Writes a file of blocks, and closes it at the first try: the NameNode knows of each block before its last acknowledgement.
async fn write(client: &mut Client, path: &str, blocks: &[Vec<u8>]) {
    let file = create(client, path).await;
    let mut previous = None;
    for data in blocks {
        let located = add_block(client, path, file, previous).await;
        assert_eq!(located.locations.len(), 3);
        let (to, own) = (located.clone(), data.clone());
        tokio::task::spawn_blocking(move || write_block(&to, &own)).await.unwrap();
        previous = Some(ExtendedBlock { length: Some(data.len() as u64), ..located.block });
    }
    assert!(complete(client, path, file, previous.unwrap()).await);
}

fn header(block: &ExtendedBlock) -> ClientHeader {
    let base = BaseHeader { block: block.clone(), token: None };
    ClientHeader { base, client_name: "tester".to_owned() }
}

fn connect_data(located: &LocatedBlock, at: usize) -> TcpStream {
    let id = &located.locations[at].id;
    let stream = TcpStream::connect((id.ip.as_str(), id.transfer_port as u16)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// Begins a pipeline through all nodes of a block.
fn begin_write(located: &LocatedBlock) -> TcpStream {
    begin_write_with(located, Chunking::default())
}

/// The same with checksums of another kind.
fn begin_write_with(located: &LocatedBlock, chunking: Chunking) -> TcpStream {
    let mut stream = connect_data(located, 0);
    let request = WriteBlock {
        header: header(&located.block),
        targets: located.locations[1..].to_vec(),
        stage: 6,
        pipeline_size: located.locations.len() as u32,
        requested_checksum: chunking.to_message(),
        storage_id: Some(located.storage_ids[0].clone()),
        target_storage_ids: located.storage_ids[1..].to_vec(),
        target_storage_types: vec![1; located.locations.len() - 1],
        ..WriteBlock::default()
    };
    stream.write_all(&transfer_op::encode(Operation::Write, &request)).unwrap();
    let ready: Response = read_message(&mut stream);
    assert_eq!((ready.status, ready.first_bad_link.as_deref()), (0, Some("")), "{ready:?}");
    stream
}

fn packet(header: Header, data: &[u8]) -> Vec<u8> {
    packet_with(header, data, Chunking::default())
}

fn packet_with(header: Header, data: &[u8], chunking: Chunking) -> Vec<u8> {
    let (mut checksums, mut bytes) = (Vec::new(), BytesMut::new());
    chunking.compute(data, &mut checksums);
    header.encode(checksums.len(), &mut bytes);
    [&bytes[..], &checksums, data].concat()
}

fn write_block(located: &LocatedBlock, data: &[u8]) {
    write_block_with(located, data, Chunking::default());
}

fn write_block_with(located: &LocatedBlock, data: &[u8], chunking: Chunking) {
    let mut stream = begin_write_with(located, chunking);
    let mut sequence = 0;
    for (at, part) in data.chunks(PACKET).enumerate() {
        let offset = (at * PACKET) as u64;
        let head = Header { offset, sequence, is_last: false, data: part.len(), sync: at == 0 };
        stream.write_all(&packet_with(head, part, chunking)).unwrap();
        sequence += 1;
    }
    let last = Header { offset: data.len() as u64, sequence, is_last: true, data: 0, sync: false };
    stream.write_all(&packet_with(last, &[], chunking)).unwrap();
    for expected in 0..=sequence {
        let ack: PipelineAck = read_message(&mut stream);
        assert_eq!((ack.sequence, ack.replies.as_slice()), (expected, &[0, 0, 0][..]));
    }
}

fn read_message<M: prost::Message + Default>(from: &mut impl Read) -> M {
    let mut length = delimited::LengthReader::default();
    let length = loop {
        let mut byte = [0];
        from.read_exact(&mut byte).unwrap();
        if let Some(length) = length.push(byte[0], "it", 1 << 20).unwrap() {
            break length;
        }
    };
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes).unwrap();
    M::decode(&bytes[..]).unwrap()
}

/// Reads a range of a block from one of its nodes; the bytes from the first chunk that it touches on, checked.
fn read_block(located: &LocatedBlock, at: usize, offset: u64, length: u64) -> Result<Vec<u8>, Box<Response>> {
    let mut stream = connect_data(located, at);
    read_from(&mut stream, &located.block, offset, length)
}

fn read_from(
    stream: &mut TcpStream,
    block: &ExtendedBlock,
    offset: u64,
    length: u64,
) -> Result<Vec<u8>, Box<Response>> {
    let request = ReadBlock { header: header(block), offset, length, send_checksums: Some(true) };
    stream.write_all(&transfer_op::encode(Operation::Read, &request)).unwrap();
    let response: Response = read_message(stream);
    if response.status != 0 {
        return Err(Box::new(response));
    }
    let first = response.read_checksum.unwrap().chunk_offset;
    assert_eq!(first, offset / 512 * 512);
    let mut read = Vec::new();
    loop {
        let mut prefix = [0; PREFIX_BYTES];
        stream.read_exact(&mut prefix).unwrap();
        let prefix = Prefix::decode(prefix).unwrap();
        let mut head = vec![0; prefix.header];
        stream.read_exact(&mut head).unwrap();
        let head = Header::decode(&head, prefix, Chunking::default()).unwrap();
        let mut payload = vec![0; prefix.payload];
        stream.read_exact(&mut payload).unwrap();
        let (checksums, data) = payload.split_at(prefix.payload - head.data);
        assert_eq!(Chunking::default().first_mismatch(data, checksums), None);
        assert_eq!(head.offset, first + read.len() as u64);
        if head.is_last {
            break;
        }
        read.extend_from_slice(data);
    }
    let mut status = BytesMut::new();
    delimited::put(&ClientReadStatus { status: 6 }, &mut status);
    stream.write_all(&status).unwrap();
    Ok(read)
}

fn metrics_of(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(b"GET /metrics/prometheus HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

async fn blocks_of(client: &mut Client, path: &str) -> Vec<LocatedBlock> {
    let request = calls::BlockLocationsRequest { src: path.to_owned(), offset: 0, length: u64::MAX };
    let located: calls::BlockLocationsResponse = client.call("getBlockLocations", &request).await.unwrap();
    located.locations.unwrap().blocks
}

/// The files of a block, on all nodes.
fn files_of(dir: &Path, located: &LocatedBlock) -> Vec<PathBuf> {
    let name = format!("blk_{}", located.block.id.cast_signed());
    let (mut todo, mut found) = (vec![dir.to_owned()], Vec::new());
    while let Some(folder) = todo.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            match entry.path() {
                path if path.is_dir() => todo.push(path),
                path if path.file_name().unwrap().to_str() == Some(&name) => found.push(path),
                _ => {}
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_is_on_three_nodes_and_outlives_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let blocks = [content(1, 1 << 20), content(2, 200_001)];
    let cluster = start(dir.path(), 4).await;
    as_root(cluster.address()).await;
    let mut client = connect(cluster.address()).await;
    wait_for_nodes(&mut client, 4).await;
    write(&mut client, "/d/f", &blocks).await;
    cluster.stop().await;

    let cluster = start(dir.path(), 4).await;
    let mut client = connect(cluster.address()).await;
    wait_for_nodes(&mut client, 4).await;
    // Safe mode ends with the reports, which come with the registrations.
    let mkdirs = calls::MkdirsRequest {
        src: "/late".to_owned(),
        create_parent: true,
        ..calls::MkdirsRequest::default()
    };
    let mut tries = 0;
    while let Err(error) = client.call::<calls::BoolResponse>("mkdirs", &mkdirs).await {
        assert!(
            matches!(&error, CallError::Refused { class, .. } if class.ends_with("SafeModeException")),
            "{error}"
        );
        tries += 1;
        assert!(tries < 600, "safe mode does not end");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let located = blocks_of(&mut client, "/d/f").await;
    let (path, expected) = (dir.path().to_owned(), blocks.clone());
    tokio::task::spawn_blocking(move || {
        for (located, expected) in located.iter().zip(&expected) {
            assert_eq!(located.locations.len(), 3);
            for at in 0..3 {
                assert_eq!(read_block(located, at, 0, expected.len() as u64).unwrap(), *expected);
            }
            // A part: whole chunks come.
            assert_eq!(read_block(located, 0, 1000, 100).unwrap(), expected[512..1536]);
            let end = expected.len() as u64;
            assert_eq!(
                read_block(located, 0, end - 1, 1).unwrap(),
                expected[(expected.len() - 1) / 512 * 512..]
            );
            assert!(read_block(located, 0, end, 1).is_err(), "beyond the end");
            let newer = ExtendedBlock { stamp: located.block.stamp + 1, ..located.block.clone() };
            assert!(
                read_from(&mut connect_data(located, 0), &newer, 0, 1).is_err(),
                "a stamp that it missed"
            );
            for file in files_of(&path, located) {
                assert_eq!(std::fs::read(file).unwrap(), *expected);
            }
        }
        // One connection serves several reads.
        let mut stream = connect_data(&located[0], 1);
        for offset in [0, 512, 5120] {
            let read = read_from(&mut stream, &located[0].block, offset, 512).unwrap();
            assert_eq!(read, expected[0][offset as usize..offset as usize + 512]);
        }
    })
    .await
    .unwrap();
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_that_is_being_written_is_read_as_far_as_it_is_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = start(dir.path(), 3).await;
    as_root(cluster.address()).await;
    let mut client = connect(cluster.address()).await;
    wait_for_nodes(&mut client, 3).await;
    let file = create(&mut client, "/open").await;
    let located = add_block(&mut client, "/open", file, None).await;
    let data = content(3, 2000);
    let ipc = format!("127.0.0.1:{}", located.locations[2].id.ipc_port);
    let (to, sent) = (located.clone(), data.clone());
    let mut stream = tokio::task::spawn_blocking(move || {
        let mut stream = begin_write(&to);
        let head = Header { offset: 0, sequence: 0, is_last: false, data: 700, sync: false };
        stream.write_all(&packet(head, &sent[..700])).unwrap();
        assert_eq!(read_message::<PipelineAck>(&mut stream).replies, [0, 0, 0]);
        stream
    })
    .await
    .unwrap();
    let mut node = Client::connect(&ipc, "tester", protocol::CLIENT_DATANODE, [1; 16]).await.unwrap();
    let ask = calls::ReplicaLengthRequest { block: located.block.clone() };
    let answer: calls::ReplicaLengthResponse = node.call("getReplicaVisibleLength", &ask).await.unwrap();
    assert_eq!(answer.length, 700);
    let missing = calls::ReplicaLengthRequest { block: ExtendedBlock { id: 5, ..located.block.clone() } };
    let refused =
        node.call::<calls::ReplicaLengthResponse>("getReplicaVisibleLength", &missing).await.unwrap_err();
    assert!(
        matches!(&refused, CallError::Refused { class, .. } if class.ends_with("ReplicaNotFoundException"))
    );

    let (to, sent) = (located.clone(), data.clone());
    tokio::task::spawn_blocking(move || {
        for at in 0..3 {
            assert_eq!(read_block(&to, at, 0, 700).unwrap(), sent[..700]);
            assert!(read_block(&to, at, 0, 701).is_err());
        }
        // The writer repeats the chunk that was not full, and goes on.
        let head = Header { offset: 512, sequence: 1, is_last: false, data: 1488, sync: true };
        stream.write_all(&packet(head, &sent[512..])).unwrap();
        let head = Header { offset: 2000, sequence: 2, is_last: true, data: 0, sync: false };
        stream.write_all(&packet(head, &[])).unwrap();
        for expected in 1..=2 {
            let ack: PipelineAck = read_message(&mut stream);
            assert_eq!((ack.sequence, ack.replies.as_slice()), (expected, &[0, 0, 0][..]));
        }
        for at in 0..3 {
            assert_eq!(read_block(&to, at, 0, 2000).unwrap(), sent);
        }
    })
    .await
    .unwrap();
    let last = ExtendedBlock { length: Some(2000), ..located.block };
    assert!(complete(&mut client, "/open", file, last).await);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_packets_and_lost_writers_leave_nothing_that_counts() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = start(dir.path(), 3).await;
    as_root(cluster.address()).await;
    let mut client = connect(cluster.address()).await;
    wait_for_nodes(&mut client, 3).await;
    let file = create(&mut client, "/f").await;
    let located = add_block(&mut client, "/f", file, None).await;
    let to = located.clone();
    tokio::task::spawn_blocking(move || {
        let mut stream = begin_write(&to);
        let head = Header { offset: 0, sequence: 0, is_last: false, data: 700, sync: false };
        let mut bytes = packet(head, &content(4, 700));
        *bytes.last_mut().unwrap() ^= 1;
        stream.write_all(&bytes).unwrap();
        // The last node finds it, and nobody says that all is well: the two above it have the same bytes.
        let mut rest = Vec::new();
        let ended = stream.read_to_end(&mut rest);
        assert!(rest.is_empty(), "{ended:?} {rest:?}");
    })
    .await
    .unwrap();
    let last = ExtendedBlock { length: Some(700), ..located.block.clone() };
    assert!(!complete(&mut client, "/f", file, last).await);
    let abandon = calls::AbandonBlockRequest {
        block: located.block.clone(),
        src: "/f".to_owned(),
        holder: "tester".to_owned(),
        file_id: Some(file),
    };
    let _: calls::Empty = client.call("abandonBlock", &abandon).await.unwrap();
    // What is left of it goes.
    let mut tries = 0;
    while !files_of(dir.path(), &located).is_empty() {
        tries += 1;
        assert!(tries < 600, "the files of an abandoned block stay");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let again = add_block(&mut client, "/f", file, None).await;
    assert!(again.block.id > located.block.id, "numbers are not used again");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_ends_its_connection_and_costs_nobody_else_anything() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = start(dir.path(), 3).await;
    as_root(cluster.address()).await;
    let mut client = connect(cluster.address()).await;
    wait_for_nodes(&mut client, 3).await;
    let data = content(5, 100_000);
    write(&mut client, "/f", std::slice::from_ref(&data)).await;
    let located = blocks_of(&mut client, "/f").await.remove(0);
    let (namenode, to) = (cluster.address(), located.clone());
    tokio::task::spawn_blocking(move || {
        let node = &to.locations[0].id;
        let ports = [namenode.port(), node.transfer_port as u16, node.ipc_port as u16];
        let mut idle = Vec::new();
        for port in ports {
            let open = || TcpStream::connect(("127.0.0.1", port)).unwrap();
            let frame =
                |length: u32, rest: &[u8]| [&b"hrpc\x09\x00\x00"[..], &length.to_be_bytes(), rest].concat();
            for bytes in [
                content(6, 5000),
                frame(0x8000_0000, b""),
                frame(10, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
                b"GET / HTTP/1.1\r\n\r\n".to_vec(),
                // A write and a read whose messages are announced with 2 GB.
                vec![0, 28, 80, 0xff, 0xff, 0xff, 0xff, 0x07],
                vec![0, 28, 81, 0xff, 0xff, 0xff, 0xff, 0x07],
                vec![0, 28, 99],
            ] {
                let mut stream = open();
                stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
                // It may be closed before all is sent.
                let _ = stream.write_all(&bytes).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
                let mut answer = Vec::new();
                let _ = stream.read_to_end(&mut answer);
                assert!(answer.len() < 1000, "{} bytes for {bytes:?}", answer.len());
            }
            // Half of what is announced, and silence.
            for bytes in [&b"hr"[..], b"hrpc\x09\x00\x00\x00\x00", &[0, 28], &[0, 28, 80, 0x7f, 1]] {
                let mut stream = open();
                stream.write_all(bytes).unwrap();
                idle.push(stream);
            }
            idle.extend(std::iter::repeat_with(open).take(100));
        }
        // Packets that do not add up, in a pipeline that has begun.
        for (sequence, offset, claimed) in [(0, 7, 700), (0, 0, 701), (-5, 0, 700)] {
            let mut other = to.clone();
            other.block.id = 77 + claimed as u64 + offset;
            let mut stream = begin_write(&other);
            let head = Header { offset, sequence, is_last: false, data: claimed, sync: false };
            let mut bytes = BytesMut::new();
            head.encode(8, &mut bytes);
            stream.write_all(&[&bytes[..], &content(7, 708)].concat()).unwrap();
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest);
            assert!(rest.is_empty(), "{rest:?}");
        }
        for at in 0..3 {
            assert_eq!(read_block(&to, at, 0, 100_000).unwrap(), data);
        }
        drop(idle);
    })
    .await
    .unwrap();
    let unknown = calls::PathRequest { src: "/f".to_owned() };
    let refused = client.call::<calls::Empty>("fly", &unknown).await.unwrap_err();
    assert!(
        matches!(&refused, CallError::Refused { class, .. } if class == "org.apache.hadoop.ipc.RpcNoSuchMethodException")
    );
    assert_eq!(blocks_of(&mut client, "/f").await.len(), 1);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_serves_one_process_and_one_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = start(dir.path(), 1).await;
    wait_for_nodes(&mut connect(cluster.address()).await, 1).await;
    let taken = |options: Options| async {
        match Cluster::start(options).await {
            Ok(_) => panic!("a directory is used twice"),
            Err(error) => error.to_string(),
        }
    };
    let mut again = Options::new(1, dir.path());
    again.namenode.port = 0;
    let error = taken(again).await;
    assert!(error.contains("is in use by another NameNode"), "{error}");
    cluster.stop().await;

    // Another NameNode's cluster, and the same DataNode: it is not taken, and keeps what it has.
    std::fs::remove_dir_all(dir.path().join("namenode")).unwrap();
    let mut options = Options::new(1, dir.path());
    (options.namenode.port, options.namenode.http_port) = (0, Some(0));
    let cluster = Cluster::start(options).await.unwrap();
    let mut client = connect(cluster.address()).await;
    let metrics = cluster.http_address().unwrap();
    let was_refused = move || metrics_of(metrics).contains("fs_namesystem_refused_data_nodes 1");
    for _ in 0..600 {
        if tokio::task::spawn_blocking(was_refused).await.unwrap() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(tokio::task::spawn_blocking(was_refused).await.unwrap(), "the DataNode did not come");
    let all = calls::DatanodeReportRequest { kind: 1 };
    let report: calls::DatanodeReportResponse = client.call("getDatanodeReport", &all).await.unwrap();
    assert_eq!(report.datanodes, []);
    cluster.stop().await;
}
