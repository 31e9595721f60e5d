//! What `yeoul bench tpch` and `yeoul bench tpcds` take on the command line.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use yeoul_base::ByteSize;

use super::{Options, bench, queries};
use crate::contest::Peer;
use crate::error::{Error, Result};
use crate::generate::{Suite, parse_scale, parse_threads};

const NOTES: &str = "\
Every answer is compared by value with DuckDB's. Contestants are processes of their own that take turns on the same files \
with the same threads. Peers and query texts come from PyPI, once, into the cache directory; Spark needs a JDK 17.

Exit code: 0 done, 1 if it failed, an answer of ours is wrong or missing, or our process held more than --memory, 2 wrong \
usage, 130 interrupted, 143 terminated.";

/// How one of the TPC suites is to be run.
#[derive(Debug, Clone, Args)]
pub struct TpcArgs {
    /// Scale factor of the tables, also of those in --data: about this many GB as text; fractions work
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_scale, allow_negative_numbers = true)]
    pub scale: f64,

    /// Memory limit of each contestant; several make a round each [default: none]
    #[arg(long, value_name = "M[,M...]", value_delimiter = ',')]
    pub memory: Vec<ByteSize>,

    /// Threads of each contestant [default: all of the machine's]
    #[arg(long, value_name = "N", value_parser = parse_threads, allow_negative_numbers = true)]
    pub threads: Option<usize>,

    /// With whom to compare: duckdb, datafusion, spark
    #[arg(long, value_name = "PEER[,PEER...]", value_delimiter = ',')]
    pub against: Vec<Peer>,

    /// Only these queries, by number [default: all]
    #[arg(long, value_name = "Q[,Q...]", value_delimiter = ',')]
    pub queries: Vec<u32>,

    /// Timed runs of each query, of which the best counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,

    /// Seconds that one run may take
    #[arg(long, value_name = "S", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout: u64,

    /// Directory with a <table>.parquet for each table [default: generated in the cache directory]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// Write every measurement as JSON to FILE; - for stdout, instead of the table
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write a page with charts to FILE
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

impl TpcArgs {
    /// What the help of a suite ends with.
    pub fn help(suite: Suite) -> String {
        let (how_much, heavy) = match suite {
            Suite::TpcH => ("22 queries at scale 1, four minutes", "9,18,21"),
            Suite::TpcDs => ("99 queries at scale 1", "4,23,67"),
        };
        format!(
            "Examples:
  yeoul bench {suite} --against duckdb,datafusion     # {how_much}
  yeoul bench {suite} --scale 10 --memory 1GiB,2GiB,4GiB,8GiB --against duckdb --html sweep.html
  yeoul bench {suite} --queries {heavy} --memory 512MiB --json - | jq .summary

{NOTES}"
        )
    }

    /// Compares, and prints the report. Gives whether our answers are all there and right, and no memory limit was broken to
    /// get them: exit 0, or else 1. Setting `stop` ends it and all contestants.
    ///
    /// # Errors
    /// Those of [`bench`], and of writing the report.
    pub fn run(self, suite: Suite, stop: &AtomicBool) -> Result<bool> {
        let options = Options {
            suite,
            scale: self.scale,
            memory: self.memory,
            threads: self.threads,
            against: self.against,
            queries: self.queries,
            runs: self.runs,
            timeout: Duration::from_secs(self.timeout),
            data: self.data,
        };
        // What is not asked for rightly or cannot be written should not be measured first.
        queries::check(suite, &options.queries)?;
        for path in [&self.json, &self.html].into_iter().flatten().filter(|path| !is_stdout(path)) {
            std::fs::OpenOptions::new()
                .append(true)
                .create(true)
                .open(path)
                .map_err(|e| Error::io("write", path, e))?;
        }
        let report = bench(&options, stop)?;
        if let Some(path) = &self.html {
            std::fs::write(path, report.to_html()).map_err(|e| Error::io("write", path, e))?;
        }
        match &self.json {
            Some(path) if is_stdout(path) => crate::stdout::print(&report.to_json())?,
            Some(path) => {
                std::fs::write(path, report.to_json()).map_err(|e| Error::io("write", path, e))?;
                crate::stdout::print(report.to_terminal().trim_end())?;
            }
            None => crate::stdout::print(report.to_terminal().trim_end())?,
        }
        Ok(report.is_right() && report.keeps_limits())
    }
}

fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}
