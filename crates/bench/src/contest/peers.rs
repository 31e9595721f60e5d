//! The contestants, and how each is started.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::AtomicBool;

use super::line_process::Launch;
use super::venv::SPARK_PACKAGES;
use super::{java, venv};
use crate::error::{Error, Result};

/// The verb of our binary that uses the protocol.
pub const CONTESTANT_VERB: &str = "bench-contestant";

/// The end of the list of peers: our own engine in other ways, which are compared with a cluster.
const OWN_PEERS: &str =
    if cfg!(feature = "cluster") { ", and with --cluster yeoul and cluster-without-shuffle" } else { "" };

/// A contestant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// Our own engine, in one process.
    Yeoul,
    /// Our own engine on a cluster of this machine, with a shuffle between its stages.
    #[cfg(feature = "cluster")]
    Cluster,
    /// The same without a shuffle: rows between stages stay with the executors.
    #[cfg(feature = "cluster")]
    ClusterWithoutShuffle,
    /// DuckDB in Python.
    DuckDb,
    /// DataFusion in Python, with its default settings.
    DataFusion,
    /// Spark in local mode.
    Spark,
}

impl Peer {
    /// Its name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Yeoul => "yeoul",
            #[cfg(feature = "cluster")]
            Self::Cluster => "cluster",
            #[cfg(feature = "cluster")]
            Self::ClusterWithoutShuffle => "cluster-without-shuffle",
            Self::DuckDb => "duckdb",
            Self::DataFusion => "datafusion",
            Self::Spark => "spark",
        }
    }

    /// True of one that runs in executors, and reads from a store.
    #[cfg(feature = "cluster")]
    pub(crate) fn is_cluster(self) -> bool {
        matches!(self, Self::Cluster | Self::ClusterWithoutShuffle)
    }

    /// Prepares the contestant and returns how to start it; its stderr goes to a file in `logs`.
    ///
    /// # Errors
    /// `NotFound` or `Unavailable` if it cannot be installed; `Cancelled` by `stop`.
    pub(crate) fn launch(self, logs: &Path, stop: &AtomicBool) -> Result<Launch> {
        let log = logs.join(format!("{}.log", self.name()));
        let python = |packages: &[&str], script: &str| {
            Ok(Launch {
                program: venv::python_with(packages, stop)?,
                arguments: vec![venv::scripts()?.join(script).to_string_lossy().into_owned()],
                environment: vec![("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned())],
                log: log.clone(),
            })
        };
        let ours = |arguments: &[&str]| {
            Ok(Launch {
                program: own_program()?,
                arguments: [CONTESTANT_VERB].iter().chain(arguments).map(|&one| one.to_owned()).collect(),
                environment: Vec::new(),
                log: log.clone(),
            })
        };
        match self {
            Self::Yeoul => ours(&[]),
            #[cfg(feature = "cluster")]
            Self::Cluster => ours(&["--shuffle", "on"]),
            #[cfg(feature = "cluster")]
            Self::ClusterWithoutShuffle => ours(&["--shuffle", "off"]),
            Self::DuckDb => python(&["duckdb==2.0.0", "pyarrow==26.0.1"], "peer_duckdb.py"),
            Self::DataFusion => python(&["datafusion==55.0.0", "pyarrow==26.0.1"], "peer_datafusion.py"),
            Self::Spark => {
                java::check(stop)?;
                python(&SPARK_PACKAGES, "peer_spark.py")
            }
        }
    }
}

/// Path of our own binary.
///
/// # Errors
/// If the system does not say.
pub(crate) fn own_program() -> Result<PathBuf> {
    std::env::current_exe().map_err(|e| Error::io("find", Path::new("our own program"), e))
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Peer {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "duckdb" => Ok(Self::DuckDb),
            "datafusion" => Ok(Self::DataFusion),
            "spark" => Ok(Self::Spark),
            #[cfg(feature = "cluster")]
            "yeoul" => Ok(Self::Yeoul),
            #[cfg(feature = "cluster")]
            "cluster-without-shuffle" => Ok(Self::ClusterWithoutShuffle),
            _ => Err(format!("unknown peer {name:?}; there are duckdb, datafusion and spark{OWN_PEERS}")),
        }
    }
}
