//! Spark's Structured Streaming as a party: one JVM for all cases of a mode and a rate.
//!
//! The protocol is that of `peers/peer_spark_stream.py`.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::RecvTimeoutError;
use std::thread::available_parallelism;
use std::time::Duration;

use serde_json::{Value, json};
use yeoul_base::{Error, ErrorKind, Result};

use super::party::{Case, Party};
use crate::contest::line_process::{Launch, LineProcess};
use crate::contest::{java, maven, venv};

/// Longest time for an answer of Spark: it starts a JVM, or waits for a query to begin.
const ANSWER_MAX: Duration = Duration::from_secs(300);
/// Partitions of the topics, beyond which more of the shuffle's do not help.
const PARTITIONS_MAX: usize = 5;

/// Mode in which Spark runs a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    MicroBatch,
    RealTime,
    /// With `spark.shuffle.streaming.networkBufferMaxWaitTimeMs`, of which Spark's default is 50.
    RealTimeTuned {
        wait_ms: u32,
    },
}

impl Mode {
    /// The waits that were best at a thousand and at ten thousand records a second.
    pub fn real_time_tuned(rate: u32) -> Self {
        Self::RealTimeTuned { wait_ms: if rate <= 2000 { 1 } else { 5 } }
    }

    fn open(self, files: &SparkFiles, scratch: &Path) -> Value {
        let (mode, wait_ms) = match self {
            Self::MicroBatch => ("micro-batch", None),
            Self::RealTime => ("real-time", None),
            Self::RealTimeTuned { wait_ms } => ("real-time", Some(wait_ms)),
        };
        let partitions = available_parallelism().map_or(1, usize::from).min(PARTITIONS_MAX);
        json!({"open": {
            "mode": mode, "jars": files.jars, "scratch": scratch, "partitions": partitions, "wait_ms": wait_ms,
        }})
    }
}

/// Files that Spark needs: a Python that has it, our script, and its connector to Kafka.
#[derive(Debug, Clone)]
pub struct SparkFiles {
    python: PathBuf,
    script: PathBuf,
    jars: PathBuf,
}

impl SparkFiles {
    /// Installs what is missing into the user's cache directory.
    ///
    /// # Errors
    /// `NotFound` without Python, Java or Maven; `Unavailable` if something cannot be fetched; `Cancelled` by `stop`.
    pub fn prepare(stop: &AtomicBool) -> Result<Self> {
        let prepare = || {
            java::check(stop)?;
            let script = venv::scripts()?.join("peer_spark_stream.py");
            let python = venv::python_with(&venv::SPARK_PACKAGES, stop)?;
            Ok(Self { python, script, jars: maven::jars("spark_kafka_pom.xml", stop)? })
        };
        prepare().map_err(|error: crate::Error| {
            let outer = Error::new(error.kind(), error.to_string());
            error.hint().map_or_else(|| outer.clone(), |hint| outer.clone().with_hint(hint))
        })
    }
}

/// A running Spark.
#[derive(Debug)]
pub(super) struct Spark {
    lines: LineProcess,
    processes: Vec<u32>,
    /// It has died, or an answer may still come that would be taken for the next one's.
    is_gone: bool,
}

impl Spark {
    /// Starts it, with its files in a folder.
    ///
    /// # Errors
    /// `Unavailable` with Spark's words if it does not start.
    pub fn open(files: &SparkFiles, mode: Mode, folder: &Path) -> Result<Self> {
        let launch = Launch {
            program: files.python.clone(),
            arguments: vec![files.script.display().to_string()],
            environment: vec![("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned())],
            log: folder.join("spark.log"),
        };
        let lines = LineProcess::start(&launch)
            .map_err(|error| Error::new(ErrorKind::Unavailable, error.to_string()))?;
        let mut spark = Self { lines, processes: Vec::new(), is_gone: false };
        let opened = spark.ask(&mode.open(files, folder), "opened")?;
        let pids = opened["pids"].as_array().into_iter().flatten();
        spark.processes = pids.filter_map(|pid| u32::try_from(pid.as_u64()?).ok()).collect();
        Ok(spark)
    }

    /// Asks, and gives the answer of the wanted kind.
    fn ask(&mut self, request: &Value, wanted: &str) -> Result<Value> {
        let line = self.answer(request).inspect_err(|_| self.is_gone = true)?;
        let broken = |error| Error::new(ErrorKind::Internal, "Spark breaks the protocol").with_source(error);
        let answer: Value = serde_json::from_str(&line).map_err(broken)?;
        match (answer.get(wanted), answer["failed"]["message"].as_str()) {
            (Some(value), _) => Ok(value.clone()),
            (None, Some(message)) => Err(Error::new(ErrorKind::Unavailable, message)),
            (None, None) => Err(Error::new(ErrorKind::Internal, format!("Spark says {answer}"))),
        }
    }

    fn answer(&mut self, request: &Value) -> Result<String> {
        let unavailable = |text: String| Err(Error::new(ErrorKind::Unavailable, text));
        if self.lines.send(&request.to_string()).is_err() {
            return unavailable(self.lines.died());
        }
        match self.lines.receive(ANSWER_MAX) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Disconnected) => unavailable(self.lines.died()),
            Err(RecvTimeoutError::Timeout) => {
                self.lines.kill();
                unavailable(format!("no answer within {} s", ANSWER_MAX.as_secs()))
            }
        }
    }
}

impl Party for Spark {
    fn start(&mut self, case: &Case) -> Result<()> {
        let start = json!({"start": {
            "pipeline": case.pipeline.name(), "servers": case.servers, "from": case.from, "to": case.to,
        }});
        self.ask(&start, "started").map(drop)
    }

    fn check(&mut self) -> Result<()> {
        self.ask(&json!({"check": {}}), "runs").map(drop)
    }

    fn processes(&self) -> Vec<u32> {
        self.processes.clone()
    }

    fn stop(&mut self) -> Result<()> {
        self.ask(&json!({"stop": {}}), "stopped").map(drop)
    }

    fn is_usable(&self) -> bool {
        !self.is_gone
    }
}
