//! The servers: NameNode, DataNode, and both in one process.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tracing::level_filters::LevelFilter;
use yeoul_base::{ByteSize, Result};
use yeoul_dfs::{datanode, local, namenode};

use super::conf::Conf;
use crate::daemon::{announce, port, run as run_daemon};
use crate::exit::Stop;

/// Each transfer of a DataNode has a thread or two; `local` has several DataNodes.
const BLOCKING_THREADS_MAX: usize = 8192;

/// Keep track of names, files and blocks, and of where the blocks are
#[derive(Args, Debug)]
pub struct NamenodeArgs {
    /// Directory of the journal and the image, from which a killed NameNode restarts
    #[arg(long, value_name = "DIR", env = "YEOUL_DFS_NAMENODE_DIR")]
    dir: PathBuf,

    /// The address to listen on: 0.0.0.0 for every one of this machine
    #[arg(long, value_name = "HOST", env = "YEOUL_DFS_HOST", default_value = "127.0.0.1")]
    host: String,

    /// The port for clients and DataNodes; 0 takes a free one
    #[arg(long, value_name = "PORT", env = "YEOUL_DFS_PORT", default_value = "8020", value_parser = port)]
    port: u16,

    #[command(flatten)]
    files: FileArgs,
}

/// Keep blocks, and give them to clients
#[derive(Args, Debug)]
pub struct DatanodeArgs {
    /// The NameNodes
    #[arg(
        long,
        value_name = "HOST:PORT,…",
        value_delimiter = ',',
        env = "YEOUL_DFS_NAMENODE",
        required = true
    )]
    namenode: Vec<String>,

    /// Directories for blocks, one for each disk
    #[arg(
        long,
        value_name = "DIR,…",
        value_delimiter = ',',
        env = "YEOUL_DFS_DATANODE_DIR",
        required = true
    )]
    dir: Vec<PathBuf>,

    /// The name by which clients and other DataNodes reach this one [default: the address from which it reaches its NameNode]
    #[arg(long, value_name = "HOST", env = "YEOUL_DFS_HOST")]
    host: Option<String>,

    /// The port for blocks; 0 takes a free one
    #[arg(long, value_name = "PORT", env = "YEOUL_DFS_DATANODE_PORT", default_value = "9866", value_parser = port)]
    port: u16,

    /// The port for calls of clients; 0 takes a free one
    #[arg(long, value_name = "PORT", env = "YEOUL_DFS_IPC_PORT", default_value = "9867", value_parser = port)]
    ipc_port: u16,

    /// The rack, such as /dc1/rack2: copies of a block are on two racks [default: /default-rack]
    #[arg(long, value_name = "RACK", env = "YEOUL_DFS_RACK", default_value = "")]
    rack: String,

    /// What to leave free in each directory's file system
    #[arg(long, value_name = "SIZE", env = "YEOUL_DFS_DISK_RESERVE", default_value = "0")]
    disk_reserve: ByteSize,
}

/// Run a NameNode and some DataNodes in this process, on the loopback address
#[derive(Args, Debug)]
pub struct LocalArgs {
    /// How many DataNodes
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u16).range(1..=100))]
    datanodes: u16,

    /// The directory below which each of them has its own
    #[arg(long, value_name = "DIR", env = "YEOUL_DFS_DIR")]
    dir: PathBuf,

    /// The port for clients; 0 takes a free one
    #[arg(long, value_name = "PORT", env = "YEOUL_DFS_PORT", default_value = "8020", value_parser = port)]
    port: u16,

    #[command(flatten)]
    files: FileArgs,
}

/// What files are like if the client does not say.
#[derive(Args, Debug)]
struct FileArgs {
    /// Copies of a block if the client does not say how many
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u16).range(1..=512))]
    replication: u16,

    /// The least size of a block
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    min_block_size: ByteSize,
}

impl FileArgs {
    fn apply(&self, rules: &mut namenode::Rules) {
        rules.replication = self.replication;
        rules.block_size_min = self.min_block_size.as_u64();
    }
}

/// Runs a server until it has ended or was told to.
pub fn run(log: LevelFilter, serve: impl Future<Output = Result<()>>) -> ExitCode {
    run_daemon(log, "dfs", BLOCKING_THREADS_MAX, serve)
}

/// Serves until it is told to stop.
pub async fn serve_namenode(args: NamenodeArgs, _conf: Conf) -> Result<()> {
    let NamenodeArgs { dir, host, port, files } = args;
    let mut options = namenode::Options { host, port, ..namenode::Options::new(dir) };
    files.apply(&mut options.rules);
    let mut stop = Stop::listen()?;
    let mut handle = namenode::Server::start(options).await?;
    announce(&handle.address().to_string());
    tokio::select! {
        error = handle.ended() => return Err(error),
        _ = stop.asked() => {}
    }
    handle.stop().await;
    Ok(())
}

/// Serves until it is told to stop.
pub async fn serve_datanode(args: DatanodeArgs, _conf: Conf) -> Result<()> {
    let DatanodeArgs { namenode, dir, host, port, ipc_port, rack, disk_reserve } = args;
    let options = datanode::Options {
        namenodes: namenode,
        dirs: dir,
        host,
        port,
        ipc_port,
        rack,
        reserved_bytes: disk_reserve.as_u64(),
        ..datanode::Options::new("", Vec::new())
    };
    let mut stop = Stop::listen()?;
    let handle = tokio::select! {
        started = datanode::Server::start(options) => started?,
        // It waits for its NameNode.
        _ = stop.asked() => return Ok(()),
    };
    announce(&handle.address().to_string());
    stop.asked().await;
    handle.stop().await;
    Ok(())
}

/// Serves until it is told to stop.
pub async fn serve_local(args: LocalArgs, _conf: Conf) -> Result<()> {
    let LocalArgs { datanodes, dir, port, files } = args;
    let mut options = local::Options::new(datanodes.into(), dir);
    options.namenode.port = port;
    files.apply(&mut options.namenode.rules);
    let mut stop = Stop::listen()?;
    let mut cluster = local::Cluster::start(options).await?;
    announce(&cluster.address().to_string());
    tokio::select! {
        error = cluster.ended() => return Err(error),
        _ = stop.asked() => {}
    }
    cluster.stop().await;
    Ok(())
}
