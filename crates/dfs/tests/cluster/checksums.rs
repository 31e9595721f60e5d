//! Checksum types of files: what a client writes with NULL, CRC32 or CRC32C reads back, keeps its type on disk, and has a checksum.

use yeoul_dfs::client::{FileSystem, Options as ClientOptions};
use yeoul_dfs::wire::proto::transfer::{BlockChecksum, ChecksumAnswer};

use super::*;

/// The types by their numbers on the wire, and bytes of checksums for three chunks.
const KINDS: [(i32, usize); 3] = [(0, 0), (1, 12), (2, 12)];

fn checksum_of(located: &LocatedBlock, length: usize) -> ChecksumAnswer {
    let block = ExtendedBlock { length: Some(length as u64), ..located.block.clone() };
    let request = BlockChecksum { header: BaseHeader { block, token: None }, options: None };
    let mut stream = connect_data(located, 1);
    stream.write_all(&transfer_op::encode(Operation::BlockChecksum, &request)).unwrap();
    read_message::<Response>(&mut stream).checksum.unwrap()
}

/// The checksum type under which a block goes out to a client of this name.
fn type_for(located: &LocatedBlock, client_name: &str) -> i32 {
    let header = ClientHeader { client_name: client_name.to_owned(), ..header(&located.block) };
    let request = ReadBlock { header, offset: 0, length: 1, send_checksums: Some(true) };
    let mut stream = connect_data(located, 0);
    stream.write_all(&transfer_op::encode(Operation::Read, &request)).unwrap();
    read_message::<Response>(&mut stream).read_checksum.unwrap().checksum.kind
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_each_checksum_type_read_back_and_keep_their_type() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = start(dir.path(), 3).await;
    as_root(cluster.address()).await;
    let mut client = connect(cluster.address()).await;
    wait_for_nodes(&mut client, 3).await;
    let default_fs = Some(format!("hdfs://{}", cluster.address()));
    let own =
        FileSystem::connect(ClientOptions { default_fs, ..ClientOptions::default() }, None).await.unwrap();
    for (kind, checksum_bytes) in KINDS {
        let (path, data) = (format!("/of-{kind}"), content(kind as u64, 1200));
        let chunking = Chunking::new(kind, 512).unwrap();
        let file = create(&mut client, &path).await;
        let located = add_block(&mut client, &path, file, None).await;
        let (to, written) = (located.clone(), data.clone());
        tokio::task::spawn_blocking(move || write_block_with(&to, &written, chunking)).await.unwrap();
        let last = ExtendedBlock { length: Some(1200), ..located.block.clone() };
        assert!(complete(&mut client, &path, file, last).await);

        // Another client, which checks what it gets.
        let mut read = Vec::new();
        let reader = own.open(&path).await.unwrap();
        let all = reader.read_all(|bytes| {
            read.extend_from_slice(bytes);
            Ok(())
        });
        all.await.unwrap();
        assert!(read == data, "{kind}");
        // On the disks, as HDFS keeps it.
        let mut checksums = Vec::new();
        chunking.compute(&data, &mut checksums);
        let files = files_of(dir.path(), &located);
        assert_eq!(files.len(), 3);
        for file in files {
            let meta = file.with_file_name(format!(
                "{}_{}.meta",
                file.file_name().unwrap().to_str().unwrap(),
                located.block.stamp
            ));
            let meta = std::fs::read(meta).unwrap();
            assert_eq!(meta.len(), 7 + checksum_bytes);
            assert_eq!((meta[2], &meta[7..]), (kind as u8, &checksums[..]));
        }
        let of_all = blocks_of(&mut client, &path).await.remove(0);
        let answer = tokio::task::spawn_blocking(move || {
            // hdfs-native has another CRC-32 than everybody else.
            assert_eq!(type_for(&of_all, "DFSClient_NONMAPREDUCE_1_1"), kind);
            assert_eq!(type_for(&of_all, "b9f2"), if kind == 1 { 2 } else { kind });
            checksum_of(&of_all, 1200)
        });
        let answer = answer.await.unwrap();
        assert_eq!((answer.crc_kind(), answer.crc_per_block), (kind, checksum_bytes as u64 / 4));
    }
    cluster.stop().await;
}
