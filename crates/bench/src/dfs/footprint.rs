//! `yeoul bench dfs`: the memory of servers that have little to do, as processes of their own.
//!
//! The NameNode gets its files over the wire, from many clients at a time; DataNodes that are none report the replicas.

mod files;
mod server_process;

use std::path::Path;
use std::time::Duration;

use yeoul_base::{Error, ErrorKind, Result};
use yeoul_dfs::client::{FileSystem, Options};

use self::files::Files;
use self::server_process::ServerProcess;
use crate::findings::{Bar, Finding, Unit};

/// The most memory of a DataNode that has nothing to do, in MiB: 25 MB.
const IDLE_DATANODE_MIB_MAX: f64 = 23.8;
/// The most memory of a NameNode with [`BAR_FILES`] files, in MiB: 60 MB.
const NAMENODE_MIB_MAX: f64 = 57.2;
/// The files for which the bar stands.
const BAR_FILES: u64 = 100_000;
/// How long a server is left alone before its memory is read.
const REST: Duration = Duration::from_secs(2);
/// How long a DataNode may take to register.
const REGISTER_MAX: Duration = Duration::from_secs(10);
/// How often the NameNode is asked whether it has.
const POLL: Duration = Duration::from_millis(50);

/// What to measure with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Files of one block and three copies.
    pub files: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self { files: BAR_FILES }
    }
}

/// Starts servers of this binary with directories under `dir`, and measures the physical memory of each, its peak included.
/// `say` gets a line for each step.
///
/// # Errors
/// A server does not start, or does not do what it is asked.
pub async fn run(dir: &Path, plan: &Plan, mut say: impl FnMut(&str)) -> Result<Vec<Finding>> {
    let namenode =
        ServerProcess::start(&["namenode", "--port", "0", "--http-port", "0"], &dir.join("namenode"))?;
    let own = ["datanode", "--namenode", namenode.address(), "--host", "127.0.0.1"];
    let ports = ["--port", "0", "--ipc-port", "0", "--http-port", "0"];
    let datanode = ServerProcess::start(&[&own[..], &ports].concat(), &dir.join("datanode"))?;
    registered(namenode.address()).await?;
    tokio::time::sleep(REST).await;
    let mut found = vec![
        finding("NameNode without files", namenode.peak_mib()?, NAMENODE_MIB_MAX),
        finding("DataNode without blocks", datanode.peak_mib()?, IDLE_DATANODE_MIB_MAX),
    ];
    datanode.stop()?;

    say(&format!("{} files of one block, three copies each", plan.files));
    Files { namenode: namenode.address(), count: plan.files }.make().await?;
    let busy = namenode.peak_mib()?;
    namenode.forget_peak();
    tokio::time::sleep(REST).await;
    let max = NAMENODE_MIB_MAX * (plan.files as f64 / BAR_FILES as f64).max(1.0);
    found.push(finding("NameNode while they are made", busy, max));
    found.push(finding("NameNode with them", namenode.peak_mib()?, max));

    let folder = namenode.stop()?;
    let again = ServerProcess::start(&["namenode", "--port", "0", "--http-port", "0"], &folder)?;
    let files = connect(again.address()).await?;
    let summary = files.summary("/").await?;
    if summary.files != plan.files {
        let message = format!("{} of {} files are there after a restart", summary.files, plan.files);
        return Err(Error::new(ErrorKind::DataLoss, message));
    }
    found.push(finding("NameNode that has read them from its disk", again.peak_mib()?, max));
    again.stop()?;
    Ok(found)
}

fn finding(name: &'static str, mib: f64, most: f64) -> Finding {
    Finding {
        name: name.into(),
        unit: Unit::Mib,
        bytes: None,
        ours: vec![mib],
        peer: "",
        peers: Vec::new(),
        bar: Bar::MedianAtMost(most),
    }
}

async fn connect(namenode: &str) -> Result<FileSystem> {
    let default_fs = Some(format!("hdfs://{namenode}"));
    FileSystem::connect(Options { default_fs, ..Options::default() }, None).await
}

/// Waits until a DataNode has registered.
async fn registered(namenode: &str) -> Result<()> {
    let files = connect(namenode).await?;
    let polls = REGISTER_MAX.as_millis() / POLL.as_millis();
    for _ in 0..polls {
        if !files.report().await?.datanodes.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(POLL).await;
    }
    Err(Error::new(ErrorKind::Unavailable, "the DataNode does not register"))
}
