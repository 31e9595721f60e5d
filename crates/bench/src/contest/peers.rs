//! The contestants, and how each is started.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;

use super::line_process::Launch;
use super::venv::SPARK_PACKAGES;
use super::{java, venv};
use crate::error::{Error, Result};

/// The verb of our binary that uses the protocol.
pub const CONTESTANT_VERB: &str = "bench-contestant";

/// A contestant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// Our own engine.
    Yeoul,
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
            Self::DuckDb => "duckdb",
            Self::DataFusion => "datafusion",
            Self::Spark => "spark",
        }
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
                environment_limited: Vec::new(),
                log: log.clone(),
            })
        };
        let (key, value) = yeoul_sql::RETURN_MEMORY;
        match self {
            Self::Yeoul => Ok(Launch {
                program: std::env::current_exe()
                    .map_err(|e| Error::io("find", Path::new("our own program"), e))?,
                arguments: vec![CONTESTANT_VERB.to_owned()],
                environment: Vec::new(),
                environment_limited: vec![(key.to_owned(), value.to_owned())],
                log,
            }),
            Self::DuckDb => python(&["duckdb==2.0.0", "pyarrow==26.0.1"], "peer_duckdb.py"),
            Self::DataFusion => python(&["datafusion==55.0.0", "pyarrow==26.0.1"], "peer_datafusion.py"),
            Self::Spark => {
                java::check(stop)?;
                python(&SPARK_PACKAGES, "peer_spark.py")
            }
        }
    }
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
            _ => Err(format!("unknown peer {name:?}; there are duckdb, datafusion and spark")),
        }
    }
}
