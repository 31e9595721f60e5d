//! `yeoul stream run`: queries at work.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use yeoul_base::{ByteSize, Result};
use yeoul_net::http::{PageOptions, serve_pages_with};
use yeoul_net::{Listener, Serving, cannot_bind};
use yeoul_stream::checkpoint::storage::CheckpointAddress;
use yeoul_stream::dataflow::{QueryHandle, check_checkpoint, start};
use yeoul_stream::pages::{QueryFigures, StreamPages};
use yeoul_stream::state::MemoryShare;

use super::job::queries;
use super::reporter::{ProgressFormat, Reporter};
use crate::exit::{Asked, Stop, failed};
use crate::exposure::exposure;
use crate::memory::beyond_machine;
use crate::port::port;

/// How often it is looked whether queries have ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Run the queries of a job file
///
/// Each query writes what it has done to a folder of its name in the place of checkpoints, and goes on from there when it is
/// run again, also after a crash: no row is lost, and rows since the last checkpoint may come again, unless its sink delivers
/// exactly once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  yeoul stream run orders.sql --checkpoint /var/lib/yeoul/orders
  yeoul stream run orders.sql --checkpoint s3://bucket/orders
  yeoul stream run orders.sql --checkpoint hdfs://namenode:8020/checkpoints/orders
  yeoul stream run orders.sql --checkpoint DIR 2> progress.jsonl
  yeoul stream run orders.sql --checkpoint DIR --memory 2GiB --http-port 9464

An address of S3 takes credentials, region and endpoint from the environment (AWS_ACCESS_KEY_ID, AWS_REGION, AWS_ENDPOINT_URL, ...),
one of HDFS takes Hadoop's configuration from HADOOP_CONF_DIR. A store that cannot create an object only if it is absent is refused.

Progress goes to stderr: a table that moves on a terminal, else a line of JSON for each epoch. Rows of a console sink go to stdout. With
--http-port there are pages, listed at /: /metrics/prometheus, /queries and /healthz. SIGTERM and Ctrl-C take no further rows,
bring what was read to the sinks, and take a last checkpoint; a second one ends at once, which loses nothing.

Exit code: 0 done or stopped, 1 a query failed, 2 wrong usage or a job that is refused.")]
pub struct RunArgs {
    /// The job: CREATE STREAM, CREATE SINK, SET and INSERT INTO
    #[arg(value_name = "JOB.sql")]
    job: PathBuf,

    /// Place of the checkpoints: a directory, made if need be, or an address such as s3://bucket/prefix or hdfs://host:port/path
    #[arg(long, value_name = "PLACE")]
    checkpoint: OsString,

    /// Limit on the memory of the process; state that does not fit ends the query, which can be started again with more
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,

    /// Progress on stderr [default: table on a terminal, unless rows go there, too; else json]
    #[arg(long, value_enum, value_name = "FORMAT")]
    progress: Option<ProgressFormat>,

    /// Port for /metrics/prometheus, /queries and /healthz; 0 takes a free one [default: none]
    #[arg(long, value_name = "PORT", value_parser = port, allow_negative_numbers = true)]
    http_port: Option<u16>,

    /// Address to listen on for HTTP: 0.0.0.0 for every one of this machine
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1", requires = "http_port")]
    http_host: String,

    /// Names by which browsers and others may ask for HTTP, beside this machine's own: those of a proxy or a service
    #[arg(long = "http-name", value_name = "NAME,…", value_delimiter = ',', requires = "http_port")]
    http_names: Vec<String>,
}

pub fn run(args: &RunArgs) -> Result<ExitCode> {
    let queries = queries(&args.job)?;
    let memory = match args.memory {
        None => MemoryShare::default(),
        Some(limit) => {
            if let Some(text) = beyond_machine(limit) {
                let _ = writeln!(std::io::stderr(), "warning: {text}");
            }
            MemoryShare::below(limit)?
        }
    };
    let checkpoint = CheckpointAddress::parse(&args.checkpoint)?;
    // One that is refused takes no query from a process that runs, not even those of the job that are right.
    queries.iter().try_for_each(|query| check_checkpoint(query, &checkpoint))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // Before there is anything that a signal would cut off.
        let mut stop = Stop::listen()?;
        let figures = Arc::new(QueryFigures::default());
        queries.iter().for_each(|query| figures.expect(&query.name));
        let reporter = Arc::new(Reporter::new(args.progress, &queries, Arc::clone(&figures)));
        // It serves as long as it is there.
        let _pages = pages(args, figures, &reporter).await?;
        let mut handles = Vec::new();
        for query in queries {
            let reporter = Arc::clone(&reporter);
            handles.push(start(query, &checkpoint, memory.clone(), move |event| reporter.tell(event))?);
        }
        Ok(wait(&mut stop, handles).await)
    })
}

/// Serves pages, if there is to be a port for them.
async fn pages(args: &RunArgs, figures: Arc<QueryFigures>, reporter: &Reporter) -> Result<Option<Serving>> {
    let Some(port) = args.http_port else { return Ok(None) };
    let host = args.http_host.as_str();
    let listener = Listener::bind((host, port)).await;
    let listener = listener.map_err(|error| cannot_bind("http", host, port, error))?;
    let names = [args.http_names.clone(), vec![host.to_owned()]].concat();
    let options = PageOptions { names, ..PageOptions::default() };
    let serving = serve_pages_with(listener, options, Arc::new(StreamPages::new(figures)));
    let hint = "give --http-host 127.0.0.1 or another address";
    if let Some(text) = exposure(Some(serving.address()), "see the queries and their progress", hint) {
        let _ = writeln!(std::io::stderr(), "warning: {text}");
    }
    reporter.tell_address(&serving.address().to_string());
    Ok(Some(serving))
}

/// Waits until all queries have ended. One that fails ends alone: the others have nothing of it, and `/healthz` says that it is missing.
async fn wait(stop: &mut Stop, mut handles: Vec<QueryHandle>) -> ExitCode {
    let mut asked: Option<Asked> = None;
    let mut code = ExitCode::SUCCESS;
    while !handles.is_empty() {
        let (active, ended): (Vec<_>, Vec<_>) = handles.into_iter().partition(QueryHandle::is_active);
        handles = active;
        for handle in ended {
            let name = handle.name().to_owned();
            if let Err(error) = handle.wait() {
                code = failed(error.kind(), &error, error.hint());
                if !handles.is_empty() && asked.is_none() {
                    let _ = writeln!(
                        std::io::stderr(),
                        "warning: the query '{name}' has failed; the others go on"
                    );
                }
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
