use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use yeoul_base::{Error, ErrorKind, Result};
use yeoul_dfs::client::{FileSystem, Options as ClientOptions};
use yeoul_dfs::local::{Cluster, Options};
use yeoul_dfs::report::ClusterReport;

/// How long the DataNodes may take to register.
const REGISTER_MAX: Duration = Duration::from_secs(10);
/// How often the NameNode is asked whether something has come about.
const POLL: Duration = Duration::from_millis(20);
/// Blocks and their checksums begin so.
const BLOCK_FILE: &str = "blk_";

/// A cluster in this process, with a client.
pub struct Scene {
    cluster: Cluster,
    files: FileSystem,
    dir: PathBuf,
}

/// DataNodes that were killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Killed {
    /// Their addresses for blocks.
    pub addresses: Vec<String>,
    /// Blocks and internal blocks that they had.
    pub units: u64,
    /// Blocks and internal blocks of all DataNodes that were alive.
    pub units_before: u64,
}

impl Scene {
    /// Starts a NameNode and so many DataNodes with directories under `dir`, and waits until they have registered.
    ///
    /// # Errors
    /// A server cannot start, or a DataNode does not register.
    pub async fn start(dir: &Path, datanodes: usize) -> Result<Self> {
        let mut options = Options::new(datanodes, dir);
        options.namenode.port = 0;
        let cluster = Cluster::start(options).await?;
        let default_fs = Some(format!("hdfs://{}", cluster.address()));
        let files =
            FileSystem::connect(ClientOptions { default_fs, ..ClientOptions::default() }, None).await?;
        let scene = Self { cluster, files, dir: dir.to_owned() };
        let what = format!("{datanodes} DataNodes have registered");
        scene.until(REGISTER_MAX, &what, |report| report.datanodes.len() == datanodes).await?;
        Ok(scene)
    }

    /// The client.
    pub fn files(&self) -> &FileSystem {
        &self.files
    }

    /// Asks for the report until it shows something, and returns after how long.
    ///
    /// # Errors
    /// `Unavailable` if it does not within `max`; `what` says what it was.
    pub async fn until(
        &self,
        max: Duration,
        what: &str,
        is_so: impl Fn(&ClusterReport) -> bool,
    ) -> Result<Duration> {
        let began = Instant::now();
        while !is_so(&self.files.report().await?) {
            if began.elapsed() > max {
                let message = format!("it is not so after {} seconds that {what}", max.as_secs());
                return Err(Error::new(ErrorKind::Unavailable, message));
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(began.elapsed())
    }

    /// Bytes of all files of blocks and of their checksums, as the disks have them.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub fn bytes_on_disks(&self) -> Result<u64> {
        Ok(bytes_of_blocks(&self.dir)?)
    }

    /// Kills the DataNodes that have most blocks.
    ///
    /// # Errors
    /// `Internal` if one of them lives on, or if they had nothing, so that their death shows nothing.
    pub async fn kill(&mut self, count: usize) -> Result<Killed> {
        let mut nodes = self.files.report().await?.datanodes;
        nodes.retain(|node| node.live);
        nodes.sort_by_key(|node| std::cmp::Reverse(node.blocks));
        let units_before = nodes.iter().map(|node| node.blocks).sum();
        nodes.truncate(count);
        let units = nodes.iter().map(|node| node.blocks).sum();
        let internal = |message: String| Error::new(ErrorKind::Internal, message);
        let mut addresses = Vec::new();
        for node in nodes {
            let address =
                node.address.parse().map_err(|error| internal(format!("{}: {error}", node.address)))?;
            if !self.cluster.kill_datanode(address).await || TcpStream::connect(address).await.is_ok() {
                return Err(internal(format!("the DataNode at {address} lives on")));
            }
            addresses.push(node.address);
        }
        if addresses.len() < count || units == 0 {
            return Err(internal("the killed DataNodes had nothing".to_owned()));
        }
        Ok(Killed { addresses, units, units_before })
    }

    /// Ends all servers.
    pub async fn stop(self) {
        self.cluster.stop().await;
    }
}

fn bytes_of_blocks(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            bytes += bytes_of_blocks(&entry.path())?;
        } else if entry.file_name().to_string_lossy().starts_with(BLOCK_FILE) {
            bytes += entry.metadata()?.len();
        }
    }
    Ok(bytes)
}
