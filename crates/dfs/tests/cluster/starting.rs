//! What a NameNode does before its DataNodes are there, and with a directory that has no file system.

use yeoul_dfs::{datanode, namenode};

use super::*;

fn namenode_options(dir: &Path) -> namenode::Options {
    namenode::Options { port: 0, ..namenode::Options::new(dir.join("namenode")) }
}

async fn start_datanode(dir: &Path, number: usize, namenode: SocketAddr) -> datanode::Handle {
    let options = datanode::Options {
        host: Some("127.0.0.1".to_owned()),
        port: 0,
        ipc_port: 0,
        ..datanode::Options::new(namenode.to_string(), vec![dir.join(format!("datanode-{number}"))])
    };
    datanode::Server::start(options).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_block_waits_for_a_datanode() {
    let dir = tempfile::tempdir().unwrap();
    let namenode = namenode::Server::start(namenode_options(dir.path())).await.unwrap();
    as_root(namenode.address()).await;
    let mut client = connect(namenode.address()).await;
    let file = create(&mut client, "/early").await;
    let adding = tokio::spawn(async move { add_block(&mut client, "/early", file, None).await });
    // Other calls go on meanwhile, and this one proves that no DataNode is there.
    let mut other = connect(namenode.address()).await;
    wait_for_nodes(&mut other, 0).await;
    let datanode = start_datanode(dir.path(), 0, namenode.address()).await;
    let located = adding.await.unwrap();
    assert_eq!(located.locations.len(), 1);
    datanode.stop().await;
    namenode.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_an_open_file_waits_for_the_datanodes_that_have_what_was_flushed() {
    let dir = tempfile::tempdir().unwrap();
    let namenode = namenode::Server::start(namenode_options(dir.path())).await.unwrap();
    as_root(namenode.address()).await;
    let datanode = start_datanode(dir.path(), 0, namenode.address()).await;
    let mut client = connect(namenode.address()).await;
    wait_for_nodes(&mut client, 1).await;
    // One writer has told the NameNode how much it has flushed, as `hsync` does if asked to, and the other one only the DataNode.
    let mut streams = Vec::new();
    for (path, told) in [("/told", Some(700)), ("/untold", None)] {
        let file = create(&mut client, path).await;
        let located = add_block(&mut client, path, file, None).await;
        let flushed = tokio::task::spawn_blocking(move || {
            let mut stream = begin_write(&located);
            let head = Header { offset: 0, sequence: 0, is_last: false, data: 700, sync: false };
            stream.write_all(&packet(head, &content(3, 700))).unwrap();
            assert_eq!(read_message::<PipelineAck>(&mut stream).replies, [0]);
            stream
        });
        streams.push(flushed.await.unwrap());
        let fsync = calls::FsyncRequest {
            src: path.to_owned(),
            client_name: "tester".to_owned(),
            last_block_length: told,
            file_id: Some(file),
        };
        let _: calls::Empty = client.call("fsync", &fsync).await.unwrap();
    }
    datanode.stop().await;
    namenode.stop().await;
    let namenode = namenode::Server::start(namenode_options(dir.path())).await.unwrap();
    for path in ["/told", "/untold"] {
        let mut early = connect(namenode.address()).await;
        let ask = calls::BlockLocationsRequest { src: path.to_owned(), offset: 0, length: 700 };
        let asking = early.call::<calls::BlockLocationsResponse>("getBlockLocations", &ask);
        let early = tokio::time::timeout(Duration::from_secs(1), asking).await;
        assert!(early.is_err(), "a client would take {path} for empty: {early:?}");
    }
    let datanode = start_datanode(dir.path(), 0, namenode.address()).await;
    for path in ["/told", "/untold"] {
        let mut client = connect(namenode.address()).await;
        let ask = calls::BlockLocationsRequest { src: path.to_owned(), offset: 0, length: 700 };
        let found: calls::BlockLocationsResponse = client.call("getBlockLocations", &ask).await.unwrap();
        let last = found.locations.unwrap().last_block.unwrap();
        assert_eq!(last.locations.len(), 1, "{path}");
        let ipc = format!("127.0.0.1:{}", last.locations[0].id.ipc_port);
        let mut node = Client::connect(&ipc, "tester", protocol::CLIENT_DATANODE, [1; 16]).await.unwrap();
        let ask = calls::ReplicaLengthRequest { block: last.block };
        let answer: calls::ReplicaLengthResponse = node.call("getReplicaVisibleLength", &ask).await.unwrap();
        assert_eq!(answer.length, 700, "{path}");
    }
    datanode.stop().await;
    namenode.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_for_which_no_datanode_comes_is_refused_in_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let namenode = namenode::Server::start(namenode_options(dir.path())).await.unwrap();
    as_root(namenode.address()).await;
    let mut client = connect(namenode.address()).await;
    let file = create(&mut client, "/never").await;
    let request = calls::AddBlockRequest {
        src: "/never".to_owned(),
        client_name: "tester".to_owned(),
        file_id: Some(file),
        ..calls::AddBlockRequest::default()
    };
    let adding = client.call::<calls::AddBlockResponse>("addBlock", &request);
    // The stock client gives a call up after a minute.
    let answer = tokio::time::timeout(Duration::from_secs(30), adding).await.expect("an answer");
    let CallError::Refused { class, message } = answer.unwrap_err() else { panic!("no refusal") };
    let words = "could only be written to 0 of the 1 minReplication nodes";
    assert!(class == "java.io.IOException" && message.contains(words), "{class}: {message}");
    namenode.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn safe_mode_waits_for_as_many_datanodes_as_are_set() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = namenode_options(dir.path());
    options.rules.safe_mode_datanodes_min = 2;
    let namenode = namenode::Server::start(options).await.unwrap();
    let mut client = connect(namenode.address()).await;
    let first = start_datanode(dir.path(), 0, namenode.address()).await;
    wait_for_nodes(&mut client, 1).await;
    let make = calls::MkdirsRequest {
        src: "/d".to_owned(),
        masked: Permission { mode: 0o755 },
        create_parent: true,
        unmasked: None,
    };
    let refused = client.call::<calls::BoolResponse>("mkdirs", &make).await.unwrap_err();
    let CallError::Refused { message, .. } = refused else { panic!("{refused}") };
    let expected = "Cannot create directory /d. Name node is in safe mode. 1 of the 2 DataNodes";
    assert!(message.contains(expected), "{message}");
    let second = start_datanode(dir.path(), 1, namenode.address()).await;
    wait_for_nodes(&mut client, 2).await;
    as_root(namenode.address()).await;
    let _: calls::BoolResponse = client.call("mkdirs", &make).await.unwrap();
    first.stop().await;
    second.stop().await;
    namenode.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_must_have_a_file_system_is_refused_without_one() {
    let dir = tempfile::tempdir().unwrap();
    let existing = || namenode::Options { must_exist: true, ..namenode_options(dir.path()) };
    for _ in 0..2 {
        let Err(error) = namenode::Server::start(existing()).await else { panic!("it starts") };
        assert!(error.to_string().contains("there is no file system in"), "{error}");
    }
    namenode::Server::start(namenode_options(dir.path())).await.unwrap().stop().await;
    namenode::Server::start(existing()).await.unwrap().stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_of_hdfs_is_refused_and_one_with_a_file_system_of_ours_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let version = dir.path().join("namenode/current/VERSION");
    std::fs::create_dir_all(dir.path().join("namenode/current")).unwrap();
    std::fs::write(&version, "storageType=NAME_NODE\n").unwrap();
    for _ in 0..2 {
        let Err(error) = namenode::Server::start(namenode_options(dir.path())).await else {
            panic!("it starts")
        };
        assert!(error.to_string().contains("has the names of an HDFS NameNode"), "{error}");
    }
    std::fs::remove_file(&version).unwrap();
    namenode::Server::start(namenode_options(dir.path())).await.unwrap().stop().await;
    // Whoever began one there with an earlier version keeps it.
    std::fs::write(&version, "storageType=NAME_NODE\n").unwrap();
    namenode::Server::start(namenode_options(dir.path())).await.unwrap().stop().await;
}
