//! `yeoul bench tpch|tpcds`: our engine and its peers on the same files, threads and queries, in one run.
//!
//! First all contestants answer each query, and each answer is compared by value with the oracle's; this run warms up and is
//! not timed. Then they take turns, run by run, in orders that favour nobody, each stopped while others run; the best run of
//! each counts. A time is the contestant's own, from the SQL text to the last row that the engine returns as Arrow; rows are
//! counted and dropped. The operating system reports the most memory that each process held.

mod args;
mod entering;
mod oracle;
mod queries;
mod rounds;
#[cfg(feature = "cluster")]
mod store;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::thread::available_parallelism;
use std::time::Duration;
use std::{env, fs};

use indicatif::{ProgressBar, ProgressStyle};
use yeoul_base::{ByteSize, ErrorKind, machine_memory};

pub use self::args::{Compared, TpcArgs};
use self::entering::Entering;
use self::oracle::Oracle;
use self::queries::QuerySet;
use self::rounds::{Entrant, Rules, play};
use crate::compare::{QUOTIENT_SCALE_MIN, TOLERANCE_ABSOLUTE, TOLERANCE_QUOTIENT, TOLERANCE_RELATIVE};
use crate::contest::protocol::Open;
use crate::contest::{Peer, venv};
use crate::error::{Error, Result};
use crate::generate::{self, Manifest, Suite, generate};
use crate::report::{Accumulate, Contestant, Fact, Metric, Report, Unit};

/// The metric of times.
const TIME: &str = "time";
/// The metric of the most memory that a process held.
const PEAK: &str = "peak_memory";

/// Runs the comparison, on the tables in the directory `given` if there is one. Setting `stop` ends it soon, and the
/// contestants with it.
///
/// # Errors
/// `Unavailable` if a peer cannot be installed, or ours or the oracle not be started. A query that fails or is answered wrongly,
/// and a peer that does not start, are in the report.
fn bench(args: &TpcArgs, suite: Suite, given: Option<PathBuf>, stop: &AtomicBool) -> Result<Report> {
    let set = QuerySet::fetch(suite, stop)?;
    let queries = set.select(&args.queries);
    let data = match given {
        Some(data) => data,
        None => generated(suite, args.scale, stop)?,
    };
    let tables = tables_in(&data)?;
    let threads = args.threads.unwrap_or_else(|| available_parallelism().map_or(1, |n| n.get()));
    let scratch = tempfile::Builder::new()
        .prefix("yeoul-bench-")
        .tempdir()
        .map_err(|e| Error::io("create a directory in", &env::temp_dir(), e))?;
    let scratch_path = scratch.path().to_owned();
    let open =
        Open { data: data.clone(), tables, threads, memory_bytes: None, scratch: scratch_path.clone() };

    let entering = Entering::new(args, &open, stop)?;
    let mut peers = vec![entering.ours()];
    for peer in &args.against {
        if !peers.contains(peer) {
            peers.push(*peer);
        }
    }
    let mut entrants =
        peers.iter().map(|peer| entering.enter(*peer, &open, stop)).collect::<Result<Vec<_>>>()?;
    let mut oracle_launch = Peer::DuckDb.launch(&scratch_path, stop)?;
    oracle_launch.log = scratch_path.join("oracle.log");
    let mut oracle = Oracle::new(oracle_launch, open.clone());

    let limits: Vec<_> = match args.memory.as_slice() {
        [] => vec![None],
        limits => limits.iter().copied().map(Some).collect(),
    };
    let runs = limits.len() * queries.len() * entrants.len() * (args.runs as usize + 1);
    let bar = progress_bar(runs as u64);
    let timeout = Duration::from_secs(args.timeout);
    let rules = Rules { queries: &queries, runs: args.runs, timeout, open, stop, bar: &bar };
    let mut rounds = Vec::with_capacity(limits.len());
    for limit in limits {
        let round =
            play(&rules, limit, &mut entrants, &mut oracle).inspect_err(|_| bar.finish_and_clear())?;
        rounds.push(round);
        oracle.rest();
    }
    bar.finish_and_clear();

    let contestant = |entrant: &Entrant| {
        let name = entrant.peer.name().to_owned();
        Contestant { version: entrant.version.clone().unwrap_or_else(|| name.clone()), name }
    };
    let mut facts = facts(args.runs, &set, &data, threads, oracle.version().unwrap_or("DuckDB"));
    facts.extend(entering.facts());
    Ok(Report {
        title: format!("Derived from {} at scale {}", suite.title(), args.scale),
        facts,
        metrics: metrics(),
        contestants: entrants.iter().map(contestant).collect(),
        rounds,
    })
}

fn metrics() -> Vec<Metric> {
    vec![
        Metric {
            name: TIME.to_owned(),
            title: "time".to_owned(),
            unit: Unit::Milliseconds,
            total: Accumulate::Sum,
        },
        Metric {
            name: PEAK.to_owned(),
            title: "peak RSS".to_owned(),
            unit: Unit::Bytes,
            total: Accumulate::Max,
        },
    ]
}

fn facts(runs: u32, set: &QuerySet, data: &Path, threads: usize, oracle: &str) -> Vec<Fact> {
    vec![
        Fact::new("machine", machine()),
        Fact::new("threads", format!("{threads} for each contestant")),
        Fact::new("files", format!("{}, the same for everyone", data.display())),
        Fact::new("queries", format!("{}, SHA-256 {}", set.source, set.sha256)),
        Fact::new(
            "time",
            format!(
                "from the SQL text to the last row out of the engine as Arrow, by the contestant's clock; best of \
                 {runs}, after one run whose answer was written to a file, compared, and not timed; contestants took \
                 turns, run by run, and each was stopped while others ran"
            ),
        ),
        Fact::new(
            "memory",
            "the most that the process held at once (VmHWM), its interpreter or virtual machine included; a limit is \
             --memory for yeoul, memory_limit for DuckDB, a fair spill pool for DataFusion, for Spark the heap (without a \
             limit 8 GiB, or half of the machine's memory if that is less)",
        ),
        Fact::new(
            "answers",
            format!(
                "compared by value with those of {oracle} in a process of its own, in the contestant's null order \
                 and integer division; floating point numbers may differ by {TOLERANCE_RELATIVE:e} of their size or \
                 {TOLERANCE_ABSOLUTE:e}, decimal quotients ({QUOTIENT_SCALE_MIN} or more digits, against another type) by \
                 {TOLERANCE_QUOTIENT:e} or their last digit, decimals by their last digit from floats that were rounded to as many, \
                 all else not at all; rows as a bag, and in the sequence of \
                 the output columns that the query orders by"
            ),
        ),
    ]
}

fn check_memory(limits: &[ByteSize]) -> Result<()> {
    limits.iter().try_for_each(|limit| {
        let options = yeoul_sql::Options { memory: Some(*limit), ..yeoul_sql::Options::default() };
        options.check().map_err(|error| {
            let refused = Error::new(error.kind(), error.to_string());
            refused.with_hint(error.hint().unwrap_or_default())
        })
    })
}

/// The directory that the user names. Its files may come from anywhere; but if we have generated them, they must be of this
/// suite and scale.
fn given(suite: Suite, scale: f64, directory: &Path) -> Result<PathBuf> {
    match Manifest::read(directory) {
        Ok(Some(held)) if held.suite != suite || held.scale != scale => {
            let Manifest { suite, scale, .. } = held;
            let message = format!("{} holds {suite} at scale {scale}", directory.display());
            Err(Error::new(ErrorKind::Invalid, message)
                .with_hint(format!("yeoul bench {suite} --scale {scale} compares on it")))
        }
        _ => {
            tables_in(directory)?;
            Ok(directory.to_owned())
        }
    }
}

/// The directory with the tables, generated into the cache if they do not exist.
fn generated(suite: Suite, scale: f64, stop: &AtomicBool) -> Result<PathBuf> {
    let directory = venv::cache_directory()?.join("data").join(format!("{suite}-{scale}"));
    let held = Manifest::read(&directory).ok().flatten().filter(|held| held.is_of(suite, scale));
    if !held.as_ref().is_some_and(|held| held.is_complete(&directory)) {
        eprintln!("generating {} at scale {scale}, once, into {}", suite.title(), directory.display());
        // The cache belongs to the benchmark: what cannot be continued, such as an earlier generator's tables, is replaced.
        let force = held.is_none();
        generate(&generate::Options { force, ..generate::Options::new(suite, scale, &directory) }, stop)?;
    }
    Ok(directory)
}

/// The names of the Parquet files of a directory, which are the tables' names.
fn tables_in(directory: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(directory).map_err(|e| Error::io("read", directory, e))?;
    let mut tables = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| Error::io("read", directory, e))?.path();
        if path.extension().is_some_and(|extension| extension == "parquet")
            && let Some(name) = path.file_stem().and_then(|name| name.to_str())
        {
            tables.push(name.to_owned());
        }
    }
    if tables.is_empty() {
        return Err(Error::new(
            ErrorKind::NotFound,
            format!("there is no <table>.parquet in {}", directory.display()),
        )
        .with_hint("yeoul generate makes them; without --data they are made in the cache directory"));
    }
    tables.sort();
    Ok(tables)
}

/// Processor, cores and memory, as far as the operating system reports them.
fn machine() -> String {
    let model = || {
        let text = fs::read_to_string("/proc/cpuinfo").ok()?;
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let processor = model().unwrap_or_else(|| env::consts::ARCH.to_owned());
    let cores = available_parallelism().map_or(1, |n| n.get());
    let memory = machine_memory().map(|memory| format!(", {memory} of memory"));
    format!("{processor}, {cores} cores{}, {}", memory.unwrap_or_default(), env::consts::OS)
}

fn progress_bar(runs: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:6} {wide_bar} {pos}/{len} runs  {elapsed} ~{eta}")
        .expect("the template is well-formed");
    ProgressBar::new(runs).with_style(style)
}
