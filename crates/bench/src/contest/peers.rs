//! The contestants, and how each is started.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;

use yeoul_base::ErrorKind;

use super::process::Launch;
use super::venv;
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
                java(stop)?;
                python(&["pyspark==4.3.0", "pyarrow==26.0.1"], "peer_spark.py")
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

/// The Java that Spark 4 needs at least.
const JAVA_MIN: u32 = 17;

/// Spark says only in a long stack trace that there is no Java, or one that is too old.
fn java(stop: &AtomicBool) -> Result<()> {
    let program =
        std::env::var("JAVA_HOME").map_or_else(|_| "java".to_owned(), |home| format!("{home}/bin/java"));
    let refused = |text: String| {
        Error::new(ErrorKind::NotFound, format!("Spark needs Java {JAVA_MIN} or newer, and {text}"))
            .with_hint(format!(
                "install a JDK of version {JAVA_MIN} or newer, or leave spark out of --against"
            ))
    };
    // Java 8 does not know this option.
    let said = venv::output(std::process::Command::new(&program).arg("--version"), "run Java", stop);
    let said = said.map_err(|e| match e.kind() {
        ErrorKind::Cancelled => e,
        _ => refused(format!("{program} is not there or too old")).with_source(e),
    })?;
    match java_version(&String::from_utf8_lossy(&said)) {
        Some(version) if version < JAVA_MIN => Err(refused(format!("{program} is version {version}"))),
        // A version that nobody understands may do.
        _ => Ok(()),
    }
}

/// The number in a line such as `openjdk 17.0.9 2023-10-17`.
fn java_version(said: &str) -> Option<u32> {
    let version = said.split_whitespace().nth(1)?;
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_of_java_is_read() {
        assert_eq!(
            java_version("openjdk 17.0.9 2023-10-17\nOpenJDK Runtime Environment (build 17)"),
            Some(17)
        );
        assert_eq!(java_version("java 21 2023-09-19 LTS"), Some(21));
        assert_eq!(java_version("openjdk 26-ea 2026-03-17"), Some(26));
        assert_eq!(java_version("openjdk"), None);
    }
}
