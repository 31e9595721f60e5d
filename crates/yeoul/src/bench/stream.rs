//! `yeoul bench stream`: steps with state on one core, and latency from Kafka to Kafka.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use yeoul_base::Result;
use yeoul_bench::findings::{self, Finding};
use yeoul_bench::stream::{self, Pipeline, Plan, two_streams, windowed_count};

use super::json_report::JsonReport;
use crate::exit::failed;

/// Measure steps with state, and how long records take through queries beside a loop that only consumes and produces
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  yeoul bench stream
  yeoul bench stream --kafka localhost:9092
  yeoul bench stream --kafka localhost:9092 --rates 1000 --seconds 10 --json -
  yeoul bench stream --kafka localhost:9092 --pipelines stateless,keyed-state

Without a broker, one thread takes batches of records in memory: a windowed count of a thousand keys, a deduplication, a join of two
streams, and a running count of fifty thousand keys with timeouts.

With one, a query for each of: stateless; windowed-count (a minute, a thousand keys, as they change); deduplication (each fifth a
repeat); join (within five seconds, half of the records in each stream); keyed-state (a running count of fifty thousand keys);
exactly-once (stateless, in transactions that are committed each 100 ms: rows wait for that).

A record's latency is the time from when it was due at the producer to its arrival at a consumer behind the query's sink; of a count
or a pair, that of the last record in it. All see the same producer and consumer, one after the other. The topics of a run stay in the broker.

Exit code: 0 done, even if a target (the column bar) is missed, 1 if records are missing or the broker fails, 2 wrong usage.")]
pub struct StreamArgs {
    /// The broker; without one only what needs none is measured
    #[arg(long, value_name = "HOST:PORT")]
    kafka: Option<String>,

    /// Records a second, a case each
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1000, 10_000], value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rates: Vec<u32>,

    /// Queries, a case each at every rate
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_values_t = Pipeline::ALL.map(|pipeline| pipeline.name().to_owned()))]
    pipelines: Vec<String>,

    /// How long records come in each case
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,

    /// Write every measurement as JSON to FILE; - for stdout, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub fn run(args: StreamArgs) -> ExitCode {
    match run_to_end(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(error.kind(), &error, error.hint()),
    }
}

fn run_to_end(args: StreamArgs) -> Result<()> {
    let json = JsonReport::open(args.json.as_deref())?;
    let pipelines: Vec<Pipeline> =
        args.pipelines.iter().map(|name| Pipeline::of_name(name)).collect::<Result<_>>()?;
    let mut found = Vec::new();
    for measure in [
        windowed_count::measure,
        two_streams::measure_deduplication,
        two_streams::measure_join,
        two_streams::measure_keyed_state,
    ] {
        let measured = measure()?;
        eprintln!("{}", measured.name);
        found.push(measured);
    }
    let time = Duration::from_secs(args.seconds);
    if let Some(servers) = args.kafka {
        let plan = Plan { servers, rates: args.rates, pipelines, time };
        found.extend(through_kafka(&plan)?);
    }
    json.give(
        || findings::to_table(&found),
        || format!("{:#}", json!({"seconds": time.as_secs(), "findings": findings::to_json(&found)})),
    )
}

fn through_kafka(plan: &Plan) -> Result<Vec<Finding>> {
    let checkpoint = tempfile::Builder::new().prefix("yeoul-bench-").tempdir()?;
    stream::run(plan, checkpoint.path(), |finding| eprintln!("{}", finding.name))
}
