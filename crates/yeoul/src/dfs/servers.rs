//! The servers: NameNode, DataNode, and both in one process.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tracing::level_filters::LevelFilter;
use yeoul_base::{ByteSize, Error, ErrorKind, Result};
use yeoul_dfs::settings::apply;
use yeoul_dfs::{datanode, local, namenode};
use yeoul_net::LogLevels;

use super::conf::Conf;
use crate::daemon::{Threads, announce, run as run_daemon};
use crate::exit::Stop;
use crate::exposure::warn_of_exposure;
use crate::memory::beyond_machine;
use crate::port::port;

/// Each transfer of a DataNode has a thread or two; `local` has several DataNodes.
const BLOCKING_THREADS_MAX: usize = 8192;
/// Ports of HDFS for pages.
const NAMENODE_HTTP_PORT: u16 = 9870;
const DATANODE_HTTP_PORT: u16 = 9864;

/// Keep track of names, files and blocks, and of where the blocks are
#[derive(Args, Debug)]
pub struct NamenodeArgs {
    /// Directory of the journal and the image, from which a killed NameNode restarts; required, here or in --conf
    #[arg(long, value_name = "DIR", env = "YEOUL_DFS_NAMENODE_DIR")]
    dir: Option<PathBuf>,

    /// Refuse a directory without a file system, rather than begin a new one there: for a disk that may not be mounted
    #[arg(long)]
    existing: bool,

    /// The address to listen on: 0.0.0.0 for every one of this machine [default: 127.0.0.1]
    #[arg(long, value_name = "HOST", env = "YEOUL_DFS_HOST")]
    host: Option<String>,

    /// The port for clients and DataNodes; 0 takes a free one [default: 8020]
    #[arg(long, value_name = "PORT", env = "YEOUL_DFS_PORT", value_parser = port, allow_negative_numbers = true)]
    port: Option<u16>,

    /// The port for /status and /metrics/prometheus; 0 takes a free one [default: 9870]
    #[arg(long, value_name = "PORT", env = "YEOUL_DFS_HTTP_PORT", value_parser = port, allow_negative_numbers = true)]
    http_port: Option<u16>,

    /// The address to listen on for HTTP [default: that of --host]
    #[arg(long, value_name = "HOST", env = "YEOUL_DFS_HTTP_HOST")]
    http_host: Option<String>,

    /// Names by which browsers and others may ask for HTTP, beside this machine's own: those of a proxy or a service
    #[arg(long = "http-name", value_name = "NAME,…", value_delimiter = ',', env = "YEOUL_DFS_HTTP_NAME")]
    http_names: Vec<String>,

    #[command(flatten)]
    memory: MemoryArg,

    #[command(flatten)]
    files: FileArgs,
}

/// Keep blocks, and give them to clients
#[derive(Args, Debug)]
pub struct DatanodeArgs {
    /// The NameNodes; required, here or in --conf
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',', env = "YEOUL_DFS_NAMENODE")]
    namenode: Vec<String>,

    /// Directories for blocks, one for each disk; required, here or in --conf
    #[arg(long, value_name = "DIR,…", value_delimiter = ',', env = "YEOUL_DFS_DATANODE_DIR")]
    dir: Vec<PathBuf>,

    /// The name by which clients and other DataNodes reach this one [default: the address from which it reaches its NameNode]
    #[arg(long, value_name = "HOST", env = "YEOUL_DFS_HOST")]
    host: Option<String>,

    /// The port for blocks; 0 takes a free one [default: 9866]
    #[arg(long, value_name = "PORT", env = "YEOUL_DFS_DATANODE_PORT", value_parser = port, allow_negative_numbers = true)]
    port: Option<u16>,

    /// The port for calls of clients; 0 takes a free one [default: 9867]
    #[arg(long, value_name = "PORT", env = "YEOUL_DFS_IPC_PORT", value_parser = port, allow_negative_numbers = true)]
    ipc_port: Option<u16>,

    /// The port for /status and /metrics/prometheus; 0 takes a free one [default: 9864]
    #[arg(long, value_name = "PORT", env = "YEOUL_DFS_HTTP_PORT", value_parser = port, allow_negative_numbers = true)]
    http_port: Option<u16>,

    /// The address to listen on for HTTP [default: as for the other ports]
    #[arg(long, value_name = "HOST", env = "YEOUL_DFS_HTTP_HOST")]
    http_host: Option<String>,

    /// Names by which browsers and others may ask for HTTP, beside this machine's own: those of a proxy or a service
    #[arg(long = "http-name", value_name = "NAME,…", value_delimiter = ',', env = "YEOUL_DFS_HTTP_NAME")]
    http_names: Vec<String>,

    /// The rack, such as /dc1/rack2: copies of a block are on two racks [default: /default-rack]
    #[arg(long, value_name = "RACK", env = "YEOUL_DFS_RACK", default_value = "", hide_default_value = true)]
    rack: String,

    /// What to leave free in each directory's file system [default: 0]
    #[arg(long, value_name = "SIZE", env = "YEOUL_DFS_DISK_RESERVE")]
    disk_reserve: Option<ByteSize>,

    #[command(flatten)]
    memory: MemoryArg,
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

    /// The port for clients; 0 takes a free one [default: 8020]
    #[arg(long, value_name = "PORT", env = "YEOUL_DFS_PORT", value_parser = port, allow_negative_numbers = true)]
    port: Option<u16>,

    /// The port for /status and /metrics/prometheus; 0 takes a free one [default: 9870, or a free one if --port is 0]
    #[arg(long, value_name = "PORT", env = "YEOUL_DFS_HTTP_PORT", value_parser = port, allow_negative_numbers = true)]
    http_port: Option<u16>,

    #[command(flatten)]
    memory: MemoryArg,

    #[command(flatten)]
    files: FileArgs,
}

/// The promise about the process.
#[derive(Args, Debug)]
struct MemoryArg {
    /// The most memory that the whole process may use, at least 48MiB [default: 1GiB]
    #[arg(long, value_name = "SIZE", env = "YEOUL_DFS_MEMORY")]
    memory: Option<ByteSize>,
}

impl MemoryArg {
    /// Bytes of the promise; what could be taken for it and is not, and what cannot be kept, is said.
    fn bytes(&self, default: u64) -> u64 {
        let bytes = self.memory.map_or(default, ByteSize::as_u64);
        let size = ByteSize::from_bytes(bytes);
        if self.memory.is_none()
            && let Some(name) = apply::unread_memory(|name| std::env::var_os(name).is_some())
        {
            tracing::warn!(
                "{name} is set and not read: the whole process gets {size}, unless --memory says otherwise"
            );
        }
        if let Some(notice) = beyond_machine(size) {
            tracing::warn!("{notice}");
        }
        bytes
    }
}

/// What files are like if the client does not say.
#[derive(Args, Debug)]
struct FileArgs {
    /// Copies of a block if the client does not say how many [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    replication: Option<u16>,

    /// The least size of a block [default: 1MiB]
    #[arg(long, value_name = "SIZE")]
    min_block_size: Option<ByteSize>,
}

impl FileArgs {
    fn apply(&self, rules: &mut namenode::Rules) {
        rules.replication = self.replication.unwrap_or(rules.replication);
        rules.block_size_min = self.min_block_size.map_or(rules.block_size_min, ByteSize::as_u64);
    }
}

/// The error for a server that lacks what it cannot do without.
fn needs(what: &str, hint: &str) -> Error {
    Error::new(ErrorKind::Invalid, what).with_hint(hint)
}

/// The options of a NameNode from Hadoop's settings and flags.
fn namenode_options(args: NamenodeArgs, conf: &Conf) -> Result<namenode::Options> {
    let NamenodeArgs { dir, existing, host, port, http_port, http_host, http_names, memory, files } = args;
    let mut options = namenode::Options::new(PathBuf::new());
    options.http_port = Some(NAMENODE_HTTP_PORT);
    conf.apply(|entries, surroundings| apply::to_namenode(entries, surroundings, &mut options))?;
    options.dir = dir.unwrap_or(options.dir);
    if options.dir.as_os_str().is_empty() {
        return Err(needs(
            "a NameNode needs a directory",
            "give one with --dir, or dfs.namenode.name.dir in --conf",
        ));
    }
    options.must_exist = existing;
    options.host = host.unwrap_or(options.host);
    options.port = port.unwrap_or(options.port);
    options.http_port = http_port.or(options.http_port);
    options.http_host = http_host.or(options.http_host);
    options.http_names = http_names;
    options.memory_bytes = memory.bytes(options.memory_bytes);
    files.apply(&mut options.rules);
    Ok(options)
}

/// The options of a DataNode from Hadoop's settings and flags.
fn datanode_options(args: DatanodeArgs, conf: &Conf) -> Result<datanode::Options> {
    let DatanodeArgs {
        namenode,
        dir,
        host,
        port,
        ipc_port,
        http_port,
        http_host,
        http_names,
        rack,
        disk_reserve,
        memory,
    } = args;
    let mut options = datanode::Options { namenodes: Vec::new(), ..datanode::Options::new("", Vec::new()) };
    options.http_port = Some(DATANODE_HTTP_PORT);
    conf.apply(|entries, surroundings| apply::to_datanode(entries, surroundings, &mut options))?;
    options.namenodes = if namenode.is_empty() { options.namenodes } else { namenode };
    if options.namenodes.is_empty() {
        let hint = "give it with --namenode HOST:PORT, or fs.defaultFS in --conf";
        return Err(needs("a DataNode needs the address of its NameNode", hint));
    }
    options.dirs = if dir.is_empty() { options.dirs } else { dir };
    if options.dirs.is_empty() {
        let hint = "give one with --dir, or several, separated by commas, or dfs.datanode.data.dir in --conf";
        return Err(needs("a DataNode needs a directory", hint));
    }
    options.host = host.or(options.host);
    options.port = port.unwrap_or(options.port);
    options.ipc_port = ipc_port.unwrap_or(options.ipc_port);
    options.http_port = http_port.or(options.http_port);
    options.http_host = http_host.or(options.http_host);
    options.http_names = http_names;
    options.rack = rack;
    options.memory_bytes = memory.bytes(options.memory_bytes);
    options.reserved_bytes = disk_reserve.map_or(options.reserved_bytes, ByteSize::as_u64);
    Ok(options)
}

/// The options of a whole cluster from Hadoop's settings and flags.
fn local_options(args: LocalArgs, conf: &Conf) -> Result<local::Options> {
    let LocalArgs { datanodes, dir, port, http_port, memory, files } = args;
    let mut options = local::Options::new(datanodes.into(), dir);
    let own = options.namenode.clone();
    options.namenode.http_port = Some(if port == Some(0) { 0 } else { NAMENODE_HTTP_PORT });
    conf.apply(|entries, surroundings| apply::to_namenode(entries, surroundings, &mut options.namenode))?;
    // All of it is below the one directory, and on the loopback address.
    (options.namenode.dir, options.namenode.host) = (own.dir, own.host);
    options.namenode.http_host = None;
    options.namenode.port = port.unwrap_or(options.namenode.port);
    options.namenode.http_port = http_port.or(options.namenode.http_port);
    options.memory_bytes = memory.bytes(options.memory_bytes);
    files.apply(&mut options.namenode.rules);
    Ok(options)
}

/// Runs a server until it has ended or was told to.
pub fn run(log: LevelFilter, serve: impl Future<Output = Result<()>>) -> ExitCode {
    let threads = Threads { name: "dfs", blocking_max: BLOCKING_THREADS_MAX, stack_bytes: None };
    run_daemon(&LogLevels::new(log), threads, serve)
}

/// Serves until it is told to stop.
pub async fn serve_namenode(args: NamenodeArgs, conf: Conf) -> Result<()> {
    let options = namenode_options(args, &conf)?;
    let mut stop = Stop::listen()?;
    let mut handle = namenode::Server::start(options).await?;
    announce(&handle.address().to_string());
    let may = "read, write and delete all files under any user's name";
    warn_of_exposure(Some(handle.address()), may, "give --host an address of the cluster's own network");
    let may = "see the DataNodes and how full they are";
    warn_of_exposure(handle.http_address(), may, "give --http-host 127.0.0.1 or another address");
    tokio::select! {
        error = handle.ended() => return Err(error),
        _ = stop.asked() => {}
    }
    handle.stop().await;
    Ok(())
}

/// Serves until it is told to stop.
pub async fn serve_datanode(args: DatanodeArgs, conf: Conf) -> Result<()> {
    let options = datanode_options(args, &conf)?;
    let mut stop = Stop::listen()?;
    let handle = tokio::select! {
        started = datanode::Server::start(options) => started?,
        // It waits for its NameNode.
        _ = stop.asked() => return Ok(()),
    };
    announce(&handle.address().to_string());
    let may = "read all blocks and write further ones";
    warn_of_exposure(
        Some(handle.address()),
        may,
        "a DataNode listens so unless its own address is a loopback one",
    );
    let may = "see how full its directories are";
    warn_of_exposure(handle.http_address(), may, "give --http-host 127.0.0.1 or another address");
    tokio::select! {
        _ = stop.asked() => {}
        () = handle.asked_to_end() => {}
    }
    handle.stop().await;
    Ok(())
}

/// Serves until it is told to stop.
pub async fn serve_local(args: LocalArgs, conf: Conf) -> Result<()> {
    let options = local_options(args, &conf)?;
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
