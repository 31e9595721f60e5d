//! Writers that go on after a DataNode of their pipeline has gone: what was acknowledged stays, and the file is whole.

use yeoul_dfs::wire::proto::shared::DatanodeId;
use yeoul_dfs::wire::proto::transfer::TransferBlock;
use yeoul_dfs::{datanode, namenode};

use super::*;

const STREAMING_RECOVERY: i32 = 3;
const CLOSE_RECOVERY: i32 = 5;
/// Packets that are acknowledged before the DataNode goes.
const BEFORE: usize = 3;

const RESTARTING: i32 = 8;

struct Servers {
    namenode: namenode::Handle,
    datanodes: Vec<Option<datanode::Handle>>,
}

impl Servers {
    async fn start(dir: &Path, datanodes: usize) -> Self {
        let options = namenode::Options { port: 0, ..namenode::Options::new(dir.join("namenode")) };
        let namenode = namenode::Server::start(options).await.unwrap();
        let mut servers = Self { namenode, datanodes: Vec::new() };
        for number in 0..datanodes {
            let options = datanode::Options {
                host: Some("127.0.0.1".to_owned()),
                port: 0,
                ipc_port: 0,
                ..datanode::Options::new(
                    servers.namenode.address().to_string(),
                    vec![dir.join(format!("datanode-{number}"))],
                )
            };
            servers.datanodes.push(Some(datanode::Server::start(options).await.unwrap()));
        }
        servers
    }

    /// Ends the DataNode of a location.
    async fn stop_datanode(&mut self, located: &LocatedBlock, at: usize) {
        let port = located.locations[at].id.transfer_port;
        let is_meant = |node: &&mut Option<datanode::Handle>| {
            node.as_ref().is_some_and(|node| u32::from(node.address().port()) == port)
        };
        self.datanodes.iter_mut().find(is_meant).unwrap().take().unwrap().stop().await;
    }

    async fn stop(self) {
        for datanode in self.datanodes.into_iter().flatten() {
            datanode.stop().await;
        }
        self.namenode.stop().await;
    }
}

fn send(stream: &mut TcpStream, data: &[u8], packets: std::ops::Range<usize>, has_end: bool) {
    let count = packets.len();
    for (sequence, at) in packets.enumerate() {
        let part = &data[at * PACKET..data.len().min((at + 1) * PACKET)];
        let offset = (at * PACKET) as u64;
        let head =
            Header { offset, sequence: sequence as i64, is_last: false, data: part.len(), sync: false };
        stream.write_all(&packet(head, part)).unwrap();
    }
    if has_end {
        let (offset, sequence) = (data.len() as u64, count as i64);
        let last = Header { offset, sequence, is_last: true, data: 0, sync: false };
        stream.write_all(&packet(last, &[])).unwrap();
    }
}

fn acknowledged(stream: &mut TcpStream, count: usize, nodes: usize) {
    for expected in 0..count as i64 {
        let ack: PipelineAck = read_message(stream);
        assert_eq!((ack.sequence, ack.replies), (expected, vec![0; nodes]));
    }
}

/// Begins another pipeline for a block, through these locations.
fn begin_again(
    located: &LocatedBlock,
    stamp: u64,
    stage: i32,
    (acknowledged, sent): (usize, usize),
) -> (TcpStream, Response) {
    let mut stream = connect_data(located, 0);
    let request = WriteBlock {
        header: header(&located.block),
        targets: located.locations[1..].to_vec(),
        stage,
        pipeline_size: located.locations.len() as u32,
        min_bytes_received: acknowledged as u64,
        max_bytes_received: sent as u64,
        latest_stamp: stamp,
        requested_checksum: Chunking::default().to_message(),
        storage_id: Some(located.storage_ids[0].clone()),
        target_storage_ids: located.storage_ids[1..].to_vec(),
        target_storage_types: vec![1; located.locations.len() - 1],
        ..WriteBlock::default()
    };
    stream.write_all(&transfer_op::encode(Operation::Write, &request)).unwrap();
    let response = read_message(&mut stream);
    (stream, response)
}

fn without(located: &LocatedBlock, at: usize) -> LocatedBlock {
    let mut left = located.clone();
    left.locations.remove(at);
    left.storage_ids.remove(at);
    left
}

async fn new_stamp(client: &mut Client, located: &LocatedBlock) -> u64 {
    let request =
        calls::UpdateBlockRequest { block: located.block.clone(), client_name: "tester".to_owned() };
    let given: calls::UpdateBlockResponse = client.call("updateBlockForPipeline", &request).await.unwrap();
    given.block.block.stamp
}

async fn update(client: &mut Client, located: &LocatedBlock, stamp: u64, length: usize) -> ExtendedBlock {
    let new = ExtendedBlock { stamp, length: Some(length as u64), ..located.block.clone() };
    let request = calls::UpdatePipelineRequest {
        client_name: "tester".to_owned(),
        old: located.block.clone(),
        new: new.clone(),
        nodes: located.locations.iter().map(|node| -> DatanodeId { node.id.clone() }).collect(),
        storage_ids: located.storage_ids.clone(),
    };
    let _: calls::Empty = client.call("updatePipeline", &request).await.unwrap();
    new
}

/// Replicas of the block are whole on so many DataNodes, all with these bytes.
async fn whole_on(client: &mut Client, path: &str, nodes: usize, data: &[u8]) {
    let located = blocks_of(client, path).await.remove(0);
    assert_eq!(located.locations.len(), nodes);
    for at in 0..nodes {
        let (from, length) = (located.clone(), data.len() as u64);
        let read = tokio::task::spawn_blocking(move || read_block(&from, at, 0, length));
        assert!(read.await.unwrap().unwrap() == data, "{at}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_goes_on_with_the_datanodes_that_are_left_and_one_that_joins() {
    let dir = tempfile::tempdir().unwrap();
    let mut servers = Servers::start(dir.path(), 4).await;
    as_root(servers.namenode.address()).await;
    let mut client = connect(servers.namenode.address()).await;
    for lost in 0..2 {
        wait_for_nodes(&mut client, 4 - lost).await;
        let (path, data) = (format!("/lost-{lost}"), content(lost as u64, 5 * PACKET + 700));
        let file = create(&mut client, &path).await;
        let located = add_block(&mut client, &path, file, None).await;
        let (to, written) = (located.clone(), data.clone());
        let stream = tokio::task::spawn_blocking(move || {
            let mut stream = begin_write(&to);
            send(&mut stream, &written, 0..BEFORE, false);
            acknowledged(&mut stream, BEFORE, to.locations.len());
            stream
        });
        let mut stream = stream.await.unwrap();
        servers.stop_datanode(&located, lost).await;
        // The writer has sent more than anybody has acknowledged.
        let _ = stream.write_all(&packet(
            Header { offset: (BEFORE * PACKET) as u64, sequence: 3, is_last: false, data: 512, sync: false },
            &data[BEFORE * PACKET..BEFORE * PACKET + 512],
        ));
        let mut left = without(&located, lost);
        let stamp = new_stamp(&mut client, &located).await;
        let block = ExtendedBlock { length: Some((BEFORE * PACKET) as u64), ..located.block.clone() };
        let mut joins = false;
        if lost == 0 {
            let request = calls::AdditionalDatanodeRequest {
                src: path.clone(),
                block: block.clone(),
                existing: left.locations.clone(),
                excluded: vec![located.locations[lost].clone()],
                count: 1,
                client_name: "tester".to_owned(),
                existing_storage_ids: left.storage_ids.clone(),
                file_id: Some(file),
            };
            let given: calls::AdditionalDatanodeResponse =
                client.call("getAdditionalDatanode", &request).await.unwrap();
            joins = given.block.locations.len() == 3;
            assert!(joins, "the fourth one is free");
            let request = TransferBlock {
                header: header(&block),
                targets: given.block.locations[2..].to_vec(),
                target_storage_types: vec![1],
                target_storage_ids: given.block.storage_ids[2..].to_vec(),
            };
            let from = left.clone();
            let answer = tokio::task::spawn_blocking(move || {
                let mut stream = connect_data(&from, 0);
                stream.write_all(&transfer_op::encode(Operation::Transfer, &request)).unwrap();
                read_message::<Response>(&mut stream)
            });
            let answer = answer.await.unwrap();
            assert_eq!(answer.status, 0, "{answer:?}");
            (left.locations, left.storage_ids) = (given.block.locations, given.block.storage_ids);
        }
        // An attempt with the stamp that the block has already is refused, and the next one is not.
        let (to, written) = (left.clone(), data.clone());
        let again = tokio::task::spawn_blocking(move || {
            let lengths = (BEFORE * PACKET, BEFORE * PACKET + 512);
            assert_ne!(begin_again(&to, to.block.stamp, STREAMING_RECOVERY, lengths).1.status, 0);
            let (stream, response) = begin_again(&to, stamp, STREAMING_RECOVERY, lengths);
            assert_eq!(response.status, 0, "{response:?}");
            (stream, written)
        });
        let (mut stream, written) = again.await.unwrap();
        update(&mut client, &left, stamp, BEFORE * PACKET).await;
        let nodes = left.locations.len();
        tokio::task::spawn_blocking(move || {
            send(&mut stream, &written, BEFORE..6, true);
            acknowledged(&mut stream, 6 - BEFORE + 1, nodes);
        })
        .await
        .unwrap();
        let last = ExtendedBlock { stamp, length: Some(data.len() as u64), ..located.block };
        assert!(complete(&mut client, &path, file, last).await);
        whole_on(&mut client, &path, if joins { 3 } else { 2 }, &data).await;
    }
    servers.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_has_sent_all_ends_the_block_on_the_datanodes_that_are_left() {
    let dir = tempfile::tempdir().unwrap();
    let mut servers = Servers::start(dir.path(), 3).await;
    as_root(servers.namenode.address()).await;
    let mut client = connect(servers.namenode.address()).await;
    wait_for_nodes(&mut client, 3).await;
    let data = content(9, 2 * PACKET + 700);
    let file = create(&mut client, "/f").await;
    let located = add_block(&mut client, "/f", file, None).await;
    let (to, written) = (located.clone(), data.clone());
    let stream = tokio::task::spawn_blocking(move || {
        let mut stream = begin_write(&to);
        send(&mut stream, &written, 0..3, false);
        acknowledged(&mut stream, 3, 3);
        stream
    });
    let _stream = stream.await.unwrap();
    servers.stop_datanode(&located, 2).await;
    let (left, stamp) = (without(&located, 2), new_stamp(&mut client, &located).await);
    let (to, length) = (left.clone(), data.len());
    let closed = tokio::task::spawn_blocking(move || {
        let lacking = begin_again(&to, stamp, CLOSE_RECOVERY, (length + 1, length + 1)).1;
        assert_ne!(lacking.status, 0, "nobody has that byte");
        begin_again(&to, stamp, CLOSE_RECOVERY, (length, length)).1
    });
    assert_eq!(closed.await.unwrap().status, 0);
    let last = update(&mut client, &left, stamp, data.len()).await;
    assert!(complete(&mut client, "/f", file, last).await);
    whole_on(&mut client, "/f", 2, &data).await;
    servers.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_datanode_that_ends_says_so_and_its_writer_goes_on_when_it_is_there_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut servers = Servers::start(dir.path(), 1).await;
    as_root(servers.namenode.address()).await;
    let mut client = connect(servers.namenode.address()).await;
    wait_for_nodes(&mut client, 1).await;
    let data = content(11, 3 * PACKET + 700);
    let file = create(&mut client, "/f").await;
    let located = add_block(&mut client, "/f", file, None).await;
    let (to, written) = (located.clone(), data.clone());
    let stream = tokio::task::spawn_blocking(move || {
        let mut stream = begin_write(&to);
        send(&mut stream, &written, 0..2, false);
        acknowledged(&mut stream, 2, 1);
        stream
    });
    let mut stream = stream.await.unwrap();
    // Whoever has no later stamp, or means another pool, ends no writer.
    let (to, written) = (located.clone(), data.clone());
    let stream = tokio::task::spawn_blocking(move || {
        let lengths = (2 * PACKET, 2 * PACKET);
        let mut elsewhere = to.clone();
        elsewhere.block.pool = "BP-2".to_owned();
        for (named, stamp) in [(&to, to.block.stamp), (&to, 0), (&elsewhere, to.block.stamp + 1)] {
            assert_ne!(begin_again(named, stamp, STREAMING_RECOVERY, lengths).1.status, 0);
        }
        let part = &written[2 * PACKET..3 * PACKET];
        let offset = 2 * PACKET as u64;
        let head = Header { offset, sequence: 2, is_last: false, data: part.len(), sync: false };
        stream.write_all(&packet(head, part)).unwrap();
        let ack: PipelineAck = read_message(&mut stream);
        assert_eq!((ack.sequence, ack.replies), (2, vec![0]));
        stream
    });
    let mut stream = stream.await.unwrap();
    let port = located.locations[0].id.transfer_port as u16;
    let heard = tokio::task::spawn_blocking(move || {
        let ack: PipelineAck = read_message(&mut stream);
        (ack.sequence, ack.replies)
    });
    servers.stop_datanode(&located, 0).await;
    assert_eq!(heard.await.unwrap(), (-2, vec![RESTARTING]));
    let options = datanode::Options {
        host: Some("127.0.0.1".to_owned()),
        port,
        ipc_port: 0,
        ..datanode::Options::new(servers.namenode.address().to_string(), vec![dir.path().join("datanode-0")])
    };
    servers.datanodes.push(Some(datanode::Server::start(options).await.unwrap()));
    let stamp = new_stamp(&mut client, &located).await;
    let (to, written) = (located.clone(), data.clone());
    let again = tokio::task::spawn_blocking(move || {
        let (stream, response) = begin_again(&to, stamp, STREAMING_RECOVERY, (3 * PACKET, 3 * PACKET));
        assert_eq!(response.status, 0, "{response:?}");
        (stream, written)
    });
    let (mut stream, written) = again.await.unwrap();
    let new = update(&mut client, &located, stamp, 3 * PACKET).await;
    tokio::task::spawn_blocking(move || {
        send(&mut stream, &written, 3..4, true);
        acknowledged(&mut stream, 2, 1);
    })
    .await
    .unwrap();
    let last = ExtendedBlock { length: Some(data.len() as u64), ..new };
    assert!(complete(&mut client, "/f", file, last).await);
    whole_on(&mut client, "/f", 1, &data).await;
    servers.stop().await;
}
