//! `yeoul stream`: queries over streams.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use yeoul_base::{ByteSize, Error, ErrorKind, Result};
use yeoul_stream::dataflow::{QueryEvent, QueryHandle, check_checkpoint, start};
use yeoul_stream::parse_job;
use yeoul_stream::state::MemoryShare;

use crate::exit::{Asked, Stop, failed};
use crate::memory::beyond_machine;

/// How often it is looked whether queries have ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Run queries over Kafka's topics, for ever
#[derive(Debug, Args)]
pub struct StreamArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(RunArgs),
}

/// Run the queries of a job file
///
/// Each query writes what it has done to a folder of its name in the checkpoint directory, and goes on from there when it is
/// run again, also after a crash: no row is lost, and rows since the last checkpoint may come again, unless its sink delivers
/// exactly once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  yeoul stream run orders.sql --checkpoint /var/lib/yeoul/orders
  yeoul stream run orders.sql --checkpoint DIR 2> progress.jsonl

A line of JSON for each epoch goes to stderr, rows of a console sink to stdout. SIGTERM and Ctrl-C take no further rows,
bring what was read to the sinks, and take a last checkpoint; a second one ends at once, which loses nothing.

Exit code: 0 done or stopped, 1 a query failed, 2 wrong usage or a job that is refused.")]
struct RunArgs {
    /// The job: CREATE STREAM, CREATE SINK, SET and INSERT INTO
    #[arg(value_name = "JOB.sql")]
    job: PathBuf,

    /// Directory of the checkpoints, made if need be
    #[arg(long, value_name = "DIR")]
    checkpoint: PathBuf,

    /// Limit on the memory of the process; state that does not fit ends the query, which can be started again with more
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,
}

pub fn run(args: StreamArgs) -> ExitCode {
    let Verb::Run(args) = args.verb;
    match run_job(&args) {
        Ok(code) => code,
        Err(error) => failed(error.kind(), &error, error.hint()),
    }
}

fn run_job(args: &RunArgs) -> Result<ExitCode> {
    let text = std::fs::read_to_string(&args.job).map_err(|error| {
        Error::new(ErrorKind::of_io(&error), format!("cannot read '{}'", args.job.display()))
            .with_source(error)
    })?;
    let queries = parse_job(&text)?;
    let memory = match args.memory {
        None => MemoryShare::default(),
        Some(limit) => {
            if let Some(text) = beyond_machine(limit) {
                let _ = writeln!(std::io::stderr(), "warning: {text}");
            }
            MemoryShare::below(limit)?
        }
    };
    // One that is refused takes no query from a process that runs, not even those of the job that are right.
    queries.iter().try_for_each(|query| check_checkpoint(query, &args.checkpoint))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // Before there is anything that a signal would cut off.
        let mut stop = Stop::listen()?;
        let mut handles = Vec::new();
        for query in queries {
            handles.push(start(query, &args.checkpoint, memory.clone(), tell)?);
        }
        Ok(wait(&mut stop, handles).await)
    })
}

/// Waits until all queries have ended. One that fails has the others stop, too.
async fn wait(stop: &mut Stop, mut handles: Vec<QueryHandle>) -> ExitCode {
    let mut asked: Option<Asked> = None;
    let mut code = ExitCode::SUCCESS;
    while !handles.is_empty() {
        let (active, ended): (Vec<_>, Vec<_>) = handles.into_iter().partition(QueryHandle::is_active);
        handles = active;
        for handle in ended {
            if let Err(error) = handle.wait() {
                code = failed(error.kind(), &error, error.hint());
                handles.iter().for_each(QueryHandle::stop);
            }
        }
        let again = async {
            match asked {
                None => stop.asked().await,
                Some(first) => stop.asked_again(first).await,
            }
        };
        tokio::select! {
            signal = again => {
                if asked.is_some() {
                    return signal.code();
                }
                asked = Some(signal);
                handles.iter().for_each(QueryHandle::stop);
            }
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
    code
}

fn tell(event: &QueryEvent) {
    if let Ok(line) = serde_json::to_string(event) {
        // Nobody may be listening.
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}
