//! Servers without memory, and charges for what they hold.

use yeoul_dfs::memory::{Charge, MEMORY_BYTES_MIN, Memory, Party, TableCharge};
use yeoul_dfs::{datanode, namenode};

use super::*;

/// Takes what tables may have, but for less than 1 KiB.
fn fill(memory: &Memory) -> TableCharge {
    let (mut tables, mut bytes) = (memory.tables(), 0);
    for step in [1 << 20, 1 << 10] {
        while memory.has_room_in_tables(step) {
            bytes += step;
            tables.set(bytes);
        }
    }
    tables
}

/// Takes all that clients at this address may have.
async fn take_all(memory: &Memory) -> Vec<Charge> {
    let (party, mut charges) = (Party::client("127.0.0.1"), Vec::new());
    for step in [1 << 20, 64 << 10, 1 << 10] {
        while let Some(charge) = memory.acquire(&party, step, Duration::from_millis(5)).await {
            charges.push(charge);
        }
    }
    charges
}

async fn until_one_waits(memory: &Memory) {
    for _ in 0..3000 {
        if memory.waiting() == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("nobody waits for memory");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namenode_without_memory_takes_nothing_new_and_answers_what_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    // Nobody has its limit follow the process: other tests run in it.
    let memory = Memory::new(MEMORY_BYTES_MIN).unwrap();
    let options = namenode::Options { port: 0, may_format: true, ..namenode::Options::new(dir.path()) };
    let namenode = namenode::Server::start_in(options, memory.clone()).await.unwrap();
    as_root(namenode.address()).await;
    let mut client = connect(namenode.address()).await;
    let mkdirs = |src: &str| calls::MkdirsRequest {
        src: src.to_owned(),
        masked: Permission { mode: 0o755 },
        create_parent: true,
        ..calls::MkdirsRequest::default()
    };
    let _: calls::BoolResponse = client.call("mkdirs", &mkdirs("/before")).await.unwrap();

    let tables = fill(&memory);
    // Any change makes the server look at its memory.
    let times = calls::SetTimesRequest { src: "/before".to_owned(), modified_ms: 7, accessed_ms: 7 };
    let _: calls::Empty = client.call("setTimes", &times).await.unwrap();
    let error = client.call::<calls::BoolResponse>("mkdirs", &mkdirs("/without")).await.unwrap_err();
    let CallError::Refused { class, message } = &error else { panic!("{error}") };
    assert_eq!(class, "java.io.IOException");
    assert!(message.contains("no memory for more files"), "{message}");
    let found = |src: &str| calls::PathRequest { src: src.to_owned() };
    let info: calls::FileInfoResponse = client.call("getFileInfo", &found("/before")).await.unwrap();
    assert_eq!(info.status.unwrap().modified_ms, 7);
    let info: calls::FileInfoResponse = client.call("getFileInfo", &found("/without")).await.unwrap();
    assert!(info.status.is_none(), "what is refused changes nothing");
    let mut late = connect(namenode.address()).await;
    let refused = late.call::<calls::FileInfoResponse>("getFileInfo", &found("/before")).await;
    assert!(
        matches!(refused, Err(CallError::Connection { .. })),
        "one more connection is closed: {refused:?}"
    );
    drop(tables);

    let charges = take_all(&memory).await;
    let asking = tokio::spawn(async move {
        let info: calls::FileInfoResponse = client.call("getFileInfo", &found("/before")).await.unwrap();
        (client, info.status.is_some())
    });
    until_one_waits(&memory).await;
    assert!(!asking.is_finished(), "a call waits for memory");
    drop(charges);
    let (mut client, is_there) = asking.await.unwrap();
    assert!(is_there);
    let deleted = calls::DeleteRequest { src: "/before".to_owned(), recursive: true };
    let _: calls::BoolResponse = client.call("delete", &deleted).await.unwrap();
    let _: calls::BoolResponse = client.call("mkdirs", &mkdirs("/after")).await.unwrap();
    namenode.stop().await;
}

/// Asks a DataNode to take a block of its own; false if it closes the connection instead of an answer.
async fn is_answered(located: &LocatedBlock, at: usize) -> bool {
    let located = located.clone();
    let asked = move || {
        let mut stream = connect_data(&located, at);
        let request = WriteBlock {
            header: header(&located.block),
            targets: Vec::new(),
            stage: 6,
            pipeline_size: 1,
            requested_checksum: Chunking::default().to_message(),
            ..WriteBlock::default()
        };
        stream.write_all(&transfer_op::encode(Operation::Write, &request)).unwrap();
        matches!(stream.read(&mut [0]), Ok(1))
    };
    tokio::task::spawn_blocking(asked).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_datanode_without_memory_lets_transfers_wait() {
    let dir = tempfile::tempdir().unwrap();
    let options = namenode::Options {
        port: 0,
        may_format: true,
        ..namenode::Options::new(dir.path().join("namenode"))
    };
    let namenode = namenode::Server::start(options).await.unwrap();
    let mut memories = Vec::new();
    let mut datanodes = Vec::new();
    for number in 0..3 {
        let memory = Memory::new(MEMORY_BYTES_MIN).unwrap();
        let own = dir.path().join(format!("datanode-{number}"));
        let options = datanode::Options {
            host: Some("127.0.0.1".to_owned()),
            port: 0,
            ipc_port: 0,
            ..datanode::Options::new(namenode.address().to_string(), vec![own])
        };
        datanodes.push(datanode::Server::start_in(options, memory.clone()).await.unwrap());
        memories.push(memory);
    }
    as_root(namenode.address()).await;
    let mut client = connect(namenode.address()).await;
    wait_for_nodes(&mut client, 3).await;
    let data = content(5, 900_000);
    write(&mut client, "/f", std::slice::from_ref(&data)).await;
    let located = blocks_of(&mut client, "/f").await.remove(0);

    let from = u32::from(datanodes[1].address().port());
    let at = located.locations.iter().position(|location| location.id.transfer_port == from).unwrap();
    let charges = take_all(&memories[1]).await;
    let reading = tokio::task::spawn_blocking({
        let located = located.clone();
        move || read_block(&located, at, 0, 900_000)
    });
    until_one_waits(&memories[1]).await;
    assert!(!reading.is_finished(), "the reader waits for memory");
    drop(charges);
    assert_eq!(reading.await.unwrap().unwrap(), data);

    // One more replica does not fit into the table: the writer is told, and may go elsewhere. A connection that ends late gives
    // its room back after the table was filled, so this may take more than one attempt.
    let mut tables = vec![fill(&memories[1])];
    let file = create(&mut client, "/g").await;
    let located = add_block(&mut client, "/g", file, None).await;
    for (at, location) in located.locations.iter().enumerate() {
        let is_full = location.id.transfer_port == from;
        let mut attempts = 0;
        while is_answered(&located, at).await == is_full {
            attempts += 1;
            assert!(is_full && attempts < 100, "a full DataNode closes, and the others answer");
            tables.push(fill(&memories[1]));
        }
    }
    drop(tables);
    for datanode in datanodes {
        datanode.stop().await;
    }
    namenode.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_is_charged_for_as_long_as_it_is_open() {
    /// Two threads, buffers and a packet.
    const TRANSFER: u64 = 512 << 10;
    let dir = tempfile::tempdir().unwrap();
    let options = namenode::Options {
        port: 0,
        may_format: true,
        ..namenode::Options::new(dir.path().join("namenode"))
    };
    let namenode = namenode::Server::start(options).await.unwrap();
    let memory = Memory::new(MEMORY_BYTES_MIN).unwrap();
    let options = datanode::Options {
        host: Some("127.0.0.1".to_owned()),
        port: 0,
        ipc_port: 0,
        ..datanode::Options::new(namenode.address().to_string(), vec![dir.path().join("datanode")])
    };
    let datanode = datanode::Server::start_in(options, memory.clone()).await.unwrap();
    as_root(namenode.address()).await;
    let mut client = connect(namenode.address()).await;
    wait_for_nodes(&mut client, 1).await;
    let before = memory.used();
    let mut open = Vec::new();
    for number in 1..=3 {
        let path = format!("/{number}");
        let file = create(&mut client, &path).await;
        let located = add_block(&mut client, &path, file, None).await;
        let stream = tokio::task::spawn_blocking(move || begin_write(&located)).await.unwrap();
        open.push(stream);
        let charged = memory.used() - before;
        assert!((number * TRANSFER..(number + 1) * TRANSFER).contains(&charged), "{number}: {charged}");
    }
    // Others wait for what is left, and one gets its turn when a writer has gone.
    let charges = take_all(&memory).await;
    let file = create(&mut client, "/late").await;
    let located = add_block(&mut client, "/late", file, None).await;
    let late = tokio::task::spawn_blocking(move || begin_write(&located));
    until_one_waits(&memory).await;
    assert!(!late.is_finished(), "it waits for memory");
    drop(open.pop());
    open.push(late.await.unwrap());
    drop((charges, open));
    for _ in 0..3000 {
        if memory.used() < before + TRANSFER {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(memory.used() < before + TRANSFER, "what has ended is charged: {}", memory.used() - before);
    datanode.stop().await;
    namenode.stop().await;
}
