//! What `yeoul bench tpch` and `yeoul bench tpcds` take on the command line.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use clap::Args;
use yeoul_base::{ByteSize, ReportFile};

use super::{bench, check_memory, given, queries};
use crate::contest::Peer;
use crate::error::{Error, Result};
use crate::generate::{Suite, parse_scale, parse_threads};

const NOTES: &str = "\
Every answer is compared by value with DuckDB's. Contestants are processes of their own that take turns on the same files \
with the same threads. Peers and query texts come from PyPI, once, into the cache directory; Spark needs a JDK 17 or newer.

Exit code: 0 done, 1 if it failed, an answer of ours is wrong or missing, or our process held more than --memory, 2 wrong \
usage, 130 interrupted, 143 terminated.";

/// How one of the TPC suites is to be run.
#[derive(Debug, Clone, Args)]
pub struct TpcArgs {
    /// Scale factor of the tables, also of those in --data: about this many GB as text; fractions work
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_scale, allow_negative_numbers = true)]
    pub(super) scale: f64,

    /// Memory limit of each contestant; several make a round each [default: none]
    #[arg(long, value_name = "M[,M...]", value_delimiter = ',')]
    pub(super) memory: Vec<ByteSize>,

    /// Threads of each contestant [default: all of the machine's]
    #[arg(long, value_name = "N", value_parser = parse_threads, allow_negative_numbers = true)]
    pub(super) threads: Option<usize>,

    /// Run our queries on a cluster of so many executors on this machine, each with the memory limit, on tables in a store (hdfs://)
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) cluster: Option<u16>,

    /// With whom to compare: duckdb, datafusion, spark; with --cluster also yeoul (one process) and cluster-without-shuffle [default: nobody;
    /// answers are compared with DuckDB's in any case]
    #[arg(long, value_name = "PEER[,PEER...]", value_delimiter = ',')]
    pub(super) against: Vec<Peer>,

    /// Only these queries, by number [default: all]
    #[arg(long, value_name = "Q[,Q...]", value_delimiter = ',')]
    pub(super) queries: Vec<u32>,

    /// Timed runs of each query, of which the best counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) runs: u32,

    /// Seconds that one run may take
    #[arg(long, value_name = "S", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(super) timeout: u64,

    /// Directory with a <table>.parquet for each table [default: generated in the cache directory]
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,

    /// Write every measurement as JSON to FILE; - for stdout, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write a page with charts to FILE
    #[arg(long, value_name = "FILE", value_parser = html_file)]
    html: Option<PathBuf>,
}

impl TpcArgs {
    /// The end of a suite's help.
    pub fn help(suite: Suite) -> String {
        let (how_much, heavy) = match suite {
            Suite::TpcH => ("22 queries at scale 1, four minutes", "9,18,21"),
            Suite::TpcDs => ("99 queries at scale 1", "4,23,67"),
        };
        let on_cluster = if cfg!(feature = "cluster") {
            format!(
                "\n  yeoul bench {suite} --cluster 3 --against yeoul,duckdb     # three executors beside one process"
            )
        } else {
            String::new()
        };
        format!(
            "Examples:
  yeoul bench {suite} --against duckdb,datafusion     # {how_much}
  yeoul bench {suite} --scale 10 --memory 1GiB,2GiB,4GiB,8GiB --against duckdb --html sweep.html
  yeoul bench {suite} --queries {heavy} --memory 512MiB --json - | jq .summary{on_cluster}

{NOTES}"
        )
    }

    /// Compares, and writes the report to the files asked for. Setting `stop` ends it and all contestants.
    ///
    /// # Errors
    /// `Invalid` for a query that does not exist or a limit that nobody can keep; `NotFound` for a directory without the
    /// tables; `Unavailable` if a peer cannot be installed or started; `Cancelled` after `stop`; those of writing the
    /// report.
    pub fn run(self, suite: Suite, stop: &AtomicBool) -> Result<Compared> {
        // Bad arguments and files that cannot be written should be found before anything is measured.
        queries::check(suite, &self.queries)?;
        check_memory(&self.memory)?;
        let given = self.data.as_deref().map(|data| given(suite, self.scale, data)).transpose()?;
        let open = |path: &Path| ReportFile::open(path).map_err(|e| Error::io("write", path, e));
        let json = self.json.as_deref().filter(|path| !is_stdout(path)).map(open).transpose()?;
        let html = self.html.as_deref().map(open).transpose()?;
        let report = bench(&self, suite, given, stop)?;
        let write = |file: ReportFile, text: &str| {
            let path = file.path().to_owned();
            file.write(text).map_err(|e| Error::io("write", &path, e))
        };
        html.map(|file| write(file, &report.to_html())).transpose()?;
        json.map(|file| write(file, &report.to_json())).transpose()?;
        let to_stdout = self.json.as_deref().is_some_and(is_stdout);
        let text = if to_stdout { report.to_json() } else { report.to_terminal() };
        Ok(Compared { text: text.trim_end().to_owned(), is_well: report.is_right() && report.keeps_limits() })
    }
}

/// The result of a comparison.
#[derive(Debug)]
pub struct Compared {
    /// The report, to be printed.
    pub text: String,
    /// Whether all our answers are there and right, and no memory limit was exceeded: exit code 0, else 1.
    pub is_well: bool,
}

fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The page goes to no terminal.
fn html_file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if is_stdout(&path) { Err("expected the name of a file".to_owned()) } else { Ok(path) }
}
