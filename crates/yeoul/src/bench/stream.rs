//! `yeoul bench stream`: steps with state on one core, and latency and CPU time from Kafka to Kafka.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::json;
use yeoul_base::{Error, ErrorKind, Result};
use yeoul_bench::findings::{self, Finding};
use yeoul_bench::stream::{
    self, Outcome, Pipeline, Plan, Row, SparkFiles, json_count, latency_report, restart, two_streams,
    windowed_count,
};

use super::json_report::JsonReport;
use super::until_done::{exit_code, until_done};

/// Measure steps with state, and how long records take through queries beside a loop that only consumes and produces, and Spark
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  yeoul bench stream
  yeoul bench stream --kafka localhost:9092 --against spark --quick     # ten minutes
  yeoul bench stream --kafka localhost:9092 --against spark             # an hour
  yeoul bench stream --kafka localhost:9092 --rates 1000 --seconds 10 --json -
  yeoul bench stream --kafka localhost:9092 --pipelines stateless,keyed-state

Without a broker, one thread takes batches of records in memory: a windowed count of a thousand keys, a deduplication, a join of two
streams, and a running count of fifty thousand keys with timeouts.

With one, a query for each of: stateless; windowed-count (a minute, a thousand keys, as they change); deduplication (each fifth a
repeat); join (within five seconds, half of the records in each stream); keyed-state (a running count of fifty thousand keys);
exactly-once (stateless, in transactions that are committed each 100 ms: rows wait for that). Then a windowed count of a backlog on one
core, and restarts with a million keys of state.

Each is run by `yeoul stream run` and, with --against spark, by Spark 4.3.0 from PyPI: as micro-batches with state in its provider
that is HDFS-backed, in real-time mode as it comes, and in real-time mode with spark.shuffle.streaming.networkBufferMaxWaitTimeMs at
1 or 5 ms (Spark's default is 50). Python, a JDK of 17 or newer and Maven have to be there; the rest is fetched once.

A record's latency is the time from when it was due at the producer to its arrival at a consumer behind the query's sink; of a count
or a pair, that of the last record in it. All see the same producer and consumer, one after the other, and warm up from their first row
on, for a quarter of the time that counts and at least five seconds. CPU time and memory are those of all of a party's processes. The
topics of a run stay in the broker.

Exit code: 0 done, even if a target (the column bar) is missed, 1 if records of ours are missing or the broker fails, 2 wrong usage, \
130 interrupted, 143 terminated.")]
pub struct StreamArgs {
    /// The broker; without one only what needs none is measured
    #[arg(long, value_name = "HOST:PORT")]
    kafka: Option<String>,

    /// Peers to compare with, beside the bare loop
    #[arg(long, value_name = "PEER", value_delimiter = ',', requires = "kafka", value_parser = PossibleValuesParser::new(["spark"]))]
    against: Vec<String>,

    /// Ten minutes for all: one rate (10000), ten seconds for each case, one round of everything else
    #[arg(long)]
    quick: bool,

    /// Records a second, a case each [default: 1000,10000]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rates: Vec<u32>,

    /// Queries, a case each at every rate
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_values_t = Pipeline::ALL.map(|pipeline| pipeline.name().to_owned()))]
    pipelines: Vec<String>,

    /// How long records count in each case [default: 60]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,

    /// Measure latency only: no steps in memory, no backlog, no restart
    #[arg(long, requires = "kafka")]
    latency_only: bool,

    /// Write every measurement as JSON to FILE; - for stdout, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Topics that the bare loop copies.
#[derive(Debug, Clone, Args)]
pub struct LoopArgs {
    servers: String,
    from: String,
    to: String,
}

/// Size of the suite.
struct Size {
    rates: Vec<u32>,
    time: Duration,
    /// Of a step in memory, and of what takes longer.
    rounds: usize,
    long_rounds: usize,
}

pub fn run(args: StreamArgs) -> ExitCode {
    until_done(move |stop| Ok(run_to_end(&args, stop)?))
}

/// Copies until the process is ended.
pub fn run_loop(args: &LoopArgs) -> ExitCode {
    let done = stream::run_loop(&args.servers, &args.from, &args.to);
    exit_code(done.map(|()| true).map_err(Into::into))
}

impl StreamArgs {
    fn size(&self) -> Size {
        let (rates, seconds, rounds, long_rounds) =
            if self.quick { (vec![10_000], 10, 1, 1) } else { (vec![1000, 10_000], 60, 5, 3) };
        Size {
            rates: if self.rates.is_empty() { rates } else { self.rates.clone() },
            time: Duration::from_secs(self.seconds.unwrap_or(seconds)),
            rounds,
            long_rounds,
        }
    }
}

/// True if nothing of ours is missing.
fn run_to_end(args: &StreamArgs, stop: &AtomicBool) -> Result<bool> {
    let json = JsonReport::open(args.json.as_deref())?;
    let pipelines: Vec<Pipeline> =
        args.pipelines.iter().map(|name| Pipeline::of_name(name)).collect::<Result<_>>()?;
    // What is missing is said before anything is measured.
    let spark = if args.against.is_empty() { None } else { Some(SparkFiles::prepare(stop)?) };
    let size = args.size();
    let mut found = Vec::new();
    if !args.latency_only {
        found.extend(in_memory(size.rounds, stop)?);
    }
    let mut rows = Vec::new();
    if let Some(servers) = &args.kafka {
        let plan =
            Plan { servers: servers.clone(), rates: size.rates.clone(), pipelines, time: size.time, spark };
        let folder = tempfile::Builder::new().prefix("yeoul-bench-").tempdir()?;
        rows = stream::run(&plan, folder.path(), stop, tell)?;
        found.extend(latency_report::findings(&rows));
        if !args.latency_only {
            found.push(json_count::measure(servers, folder.path(), size.long_rounds, stop)?);
            found.push(restart::measure(servers, folder.path(), size.long_rounds as u64, stop)?);
        }
    }
    let failures = latency_report::failures(&rows);
    for failure in &failures {
        eprintln!("failed: {failure}");
    }
    json.give(|| to_table(&rows, &found), || to_json(&size, &rows, &found))?;
    Ok(failures.is_empty())
}

fn in_memory(rounds: usize, stop: &AtomicBool) -> Result<Vec<Finding>> {
    let steps = [
        windowed_count::measure,
        two_streams::measure_deduplication,
        two_streams::measure_join,
        two_streams::measure_keyed_state,
    ];
    let measured = steps.into_iter().map(|measure| {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Cancelled, "interrupted"));
        }
        measure(rounds).inspect(|finding| eprintln!("{}", finding.name))
    });
    measured.collect()
}

fn tell(row: &Row) {
    let what = format!("{} records/s, {}, {}", row.rate, row.who.name(), row.pipeline.name());
    match &row.outcome {
        Outcome::Failed(words) => {
            eprintln!("{what}: failed: {}", words.lines().next().unwrap_or_default());
        }
        Outcome::Measured(measured) => {
            let [p50, p99] = [0.5, 0.99].map(|part| measured.latency_ms(part));
            let cpu = measured.cpu_seconds_per_million;
            eprintln!("{what}: p50 {p50:.1} ms, p99 {p99:.1} ms, {cpu:.1} CPU-s for a million");
        }
    }
}

fn to_table(rows: &[Row], found: &[Finding]) -> String {
    let findings = findings::to_table(found);
    if rows.is_empty() { findings } else { format!("{}\n\n{findings}", latency_report::to_table(rows)) }
}

fn to_json(size: &Size, rows: &[Row], found: &[Finding]) -> String {
    let (rows, findings) = (latency_report::to_json(rows), findings::to_json(found));
    format!("{:#}", json!({"seconds": size.time.as_secs(), "latency": rows, "findings": findings}))
}
