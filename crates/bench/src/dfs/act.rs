//! An act for `yeoul demo`: a whole cluster in this process, and DataNodes that die before what they have is read.

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::net::TcpStream;
use yeoul_base::{Error, ErrorKind, Result, SplitMix};
use yeoul_dfs::client::{FileSystem, NewFile, Options as ClientOptions};
use yeoul_dfs::local::{Cluster, Options};
use yeoul_dfs::report::ClusterReport;

/// Bytes that are written at a time, a multiple of eight.
const PIECE_BYTES: usize = 1 << 20;
/// How long the DataNodes may take to register.
const REGISTER_MAX: Duration = Duration::from_secs(10);
/// How often the NameNode is asked whether they have.
const REGISTER_POLL: Duration = Duration::from_millis(20);
/// The file.
const FILE: &str = "/demo/file";

/// How large the act is.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// DataNodes.
    pub datanodes: usize,
    /// DataNodes that are killed: fewer than there are copies.
    pub killed: usize,
    /// Copies of each block.
    pub copies: u16,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Pieces of [`PIECE_BYTES`] that are written.
    pub pieces: u64,
}

impl Default for Script {
    fn default() -> Self {
        Self { datanodes: 9, killed: 2, copies: 3, block_bytes: 4 << 20, pieces: 64 }
    }
}

/// What happened, and was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Bytes of the file, written, and read back right.
    pub bytes: u64,
    /// Replicas of all DataNodes.
    pub replicas: u64,
    /// Replicas of those that were killed.
    pub replicas_killed: u64,
    /// From the first byte to the acknowledgement of the whole file.
    pub write: Duration,
    /// From opening the file to its last byte, after the kill.
    pub read: Duration,
}

/// Starts a cluster with directories under `dir`, writes a file, kills DataNodes, and compares what is read with what was
/// written. `say` gets a line for each step.
///
/// # Errors
/// `DataLoss` if a byte is missing or wrong; `Internal` if the killed DataNodes live on or had nothing; whatever the cluster
/// says if it fails.
pub async fn run(dir: &Path, script: &Script, mut say: impl FnMut(&str)) -> Result<Outcome> {
    if script.killed >= usize::from(script.copies) || usize::from(script.copies) > script.datanodes {
        return Err(Error::new(
            ErrorKind::Invalid,
            "the act needs a copy of each block on a DataNode that lives",
        ));
    }
    let mut options = Options::new(script.datanodes, dir);
    options.namenode.port = 0;
    let mut cluster = Cluster::start(options).await?;
    let client = ClientOptions {
        default_fs: Some(format!("hdfs://{}", cluster.address())),
        replication: Some(script.copies),
        block_size: Some(script.block_bytes),
        ..ClientOptions::default()
    };
    let files = FileSystem::connect(client, None).await?;
    let nodes = registered(&files, script.datanodes).await?;
    say(&format!(
        "a NameNode at {} and {} DataNodes, in this process",
        cluster.address(),
        nodes.datanodes.len()
    ));

    let began = Instant::now();
    write(&files, script).await?;
    let write = began.elapsed();

    let before = files.report().await?;
    let mut killed = Vec::new();
    while killed.len() < script.killed {
        killed.push(cluster.kill_datanode().await.expect("there are more").to_string());
    }
    let blocks = |wanted: &dyn Fn(&str) -> bool| {
        let nodes = before.datanodes.iter().filter(|node| wanted(&node.address));
        nodes.map(|node| node.blocks).sum::<u64>()
    };
    let replicas = blocks(&|_| true);
    let replicas_killed = blocks(&|address| killed.iter().any(|killed| killed == address));
    for address in &killed {
        if TcpStream::connect(address).await.is_ok() {
            return Err(Error::new(ErrorKind::Internal, format!("the DataNode at {address} lives on")));
        }
    }
    if replicas_killed == 0 {
        return Err(Error::new(ErrorKind::Internal, "the killed DataNodes had nothing"));
    }
    say(&format!("killed {} with {replicas_killed} of {replicas} replicas", killed.join(" and ")));

    let began = Instant::now();
    let bytes = check(&files, script).await?;
    let read = began.elapsed();
    cluster.stop().await;
    Ok(Outcome { bytes, replicas, replicas_killed, write, read })
}

/// Waits until all DataNodes have registered.
async fn registered(files: &FileSystem, datanodes: usize) -> Result<ClusterReport> {
    let began = Instant::now();
    loop {
        let report = files.report().await?;
        if report.datanodes.len() == datanodes {
            return Ok(report);
        }
        if began.elapsed() > REGISTER_MAX {
            let message = format!("{} of {datanodes} DataNodes have registered", report.datanodes.len());
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        tokio::time::sleep(REGISTER_POLL).await;
    }
}

/// A piece of the file: bytes that no other piece has.
fn piece(number: u64) -> Vec<u8> {
    let mut random = SplitMix::new(number);
    (0..PIECE_BYTES / 8).flat_map(|_| random.next_u64().to_le_bytes()).collect()
}

async fn write(files: &FileSystem, script: &Script) -> Result<()> {
    files.make_directory("/demo", true).await?;
    let mut writer = files.create(FILE, NewFile { mode: 0o644, may_replace: false }).await?;
    for number in 0..script.pieces {
        writer.write(Bytes::from(piece(number))).await?;
    }
    writer.close().await
}

/// Reads the file, and compares it with what was written; its length.
async fn check(files: &FileSystem, script: &Script) -> Result<u64> {
    let (mut number, mut expected) = (0, Vec::new());
    let reader = files.open(FILE).await?;
    let read = reader.read_all(|mut bytes| {
        while !bytes.is_empty() {
            if expected.is_empty() {
                expected = piece(number);
                number += 1;
            }
            let length = bytes.len().min(expected.len());
            if bytes[..length] != expected[..length] {
                let message = format!("a byte of piece {} is not as it was written", number - 1);
                return Err(Error::new(ErrorKind::DataLoss, message));
            }
            expected.drain(..length);
            bytes = &bytes[length..];
        }
        Ok(())
    });
    let bytes = read.await?;
    if bytes != script.pieces * PIECE_BYTES as u64 {
        return Err(Error::new(
            ErrorKind::DataLoss,
            format!("{bytes} bytes of {} pieces are there", script.pieces),
        ));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_small_act_reads_what_it_wrote() {
        let dir = tempfile::tempdir().unwrap();
        let script = Script { datanodes: 4, killed: 2, block_bytes: 1 << 20, pieces: 8, ..Script::default() };
        let mut said = Vec::new();
        let outcome = run(dir.path(), &script, |line| said.push(line.to_owned())).await.unwrap();
        assert_eq!((outcome.bytes, outcome.replicas), (8 << 20, 24));
        // Three copies on four DataNodes: two have at least a third of them, and the last block's report may be on its way.
        assert!((8..=16).contains(&outcome.replicas_killed), "{outcome:?}");
        assert_eq!(said.len(), 2);
        let script = Script { killed: 3, ..script };
        assert_eq!(run(dir.path(), &script, |_| {}).await.unwrap_err().kind(), ErrorKind::Invalid);
    }
}
