//! `yeoul cluster`: the scheduler and the executors of queries on many machines.

pub(crate) mod local;

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use tracing::level_filters::LevelFilter;
use yeoul_base::{ByteSize, Error, ErrorKind, Result};
use yeoul_cluster::{Token, executor, scheduler};
use yeoul_net::LogLevels;
use yeoul_sql::{Options, STACK_BYTES};

use crate::allocator::keep_to_small_limit;
use crate::daemon::{Threads, announce, run as run_daemon};
use crate::exit::Stop;
use crate::memory::beyond_machine;
use crate::port::port;

/// The module that warns of each stage without metrics of its operators, which no task sends.
const STAGES: &str = "ballista_scheduler::state::execution_stage";

/// Port of a scheduler that is not told another.
const SCHEDULER_PORT: u16 = 50050;

/// Port for what executors ask a scheduler about the shuffle.
const SHUFFLE_PORT: u16 = 50051;

/// Port for pages of a scheduler.
const HTTP_PORT: u16 = 50052;

/// Threads of a process that may wait for disks.
const BLOCKING_THREADS_MAX: usize = 64;

const EXAMPLES: &str = "\
Examples:
  yeoul cluster local --executors 3 --memory 1GiB              all of it on this machine, with a shuffle
  yeoul sql --cluster 127.0.0.1:50050 --shared-paths           its shell: local files are the same ones there

On several machines, of which each has the same secret in a file:
  openssl rand -hex 32 > cluster.token; export YEOUL_CLUSTER_TOKEN_FILE=cluster.token
  yeoul cluster scheduler --host 10.0.0.1 --shuffle 10.0.0.9:9097
  yeoul cluster executor --scheduler 10.0.0.1:50050 --host 10.0.0.2 --memory 4GiB --spill-dir /data/1
  yeoul sql --cluster 10.0.0.1:50050 -c \"SELECT count(*) FROM 'hdfs://store/sales/**/*.parquet'\"

The secret keeps strangers out; nothing is encrypted (docs/security.md).

Exit code: 0 told to stop, 1 failed, 2 wrong usage.";

/// Run queries of `yeoul sql` in stages, on many machines or in several processes
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ClusterArgs {
    #[command(subcommand)]
    role: Role,

    /// What to say on stderr: error, warn, info, debug, trace or off
    #[arg(long, global = true, value_name = "LEVEL", env = "YEOUL_LOG", default_value = "warn")]
    log: LevelFilter,
}

#[derive(Subcommand, Debug)]
enum Role {
    Scheduler(SchedulerArgs),
    Executor(ExecutorArgs),
    Local(local::LocalArgs),
}

/// Divide queries into stages, and give their tasks to executors
#[derive(Args, Debug)]
struct SchedulerArgs {
    /// The address to listen on: 0.0.0.0 for every one of this machine
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    host: String,

    /// The port for clients and executors; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = SCHEDULER_PORT, value_parser = port, allow_negative_numbers = true)]
    port: u16,

    /// The port for pages, /api/v1 and metrics; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = HTTP_PORT, value_parser = port, allow_negative_numbers = true)]
    http_port: u16,

    /// Masters of `yeoul shuffle`, which keeps the rows between stages when an executor dies [default: executors keep them on their disks]
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',')]
    shuffle: Vec<String>,

    /// Workers of the shuffle that have each row, 1 or 2
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=2), requires = "shuffle")]
    shuffle_copies: u8,

    /// The port for what executors ask about the shuffle; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = SHUFFLE_PORT, value_parser = port, allow_negative_numbers = true, requires = "shuffle")]
    shuffle_port: u16,

    #[command(flatten)]
    token: TokenArgs,
}

/// Run tasks
#[derive(Args, Debug)]
struct ExecutorArgs {
    /// The scheduler
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050")]
    scheduler: String,

    /// The name or address by which the others reach this executor, and on which it listens
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    host: String,

    /// The port for reads of what tasks have written; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 0, value_parser = port, allow_negative_numbers = true)]
    port: u16,

    /// The port for the scheduler; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 0, value_parser = port, allow_negative_numbers = true)]
    control_port: u16,

    /// The most memory that the whole process may use, such as 4GiB; at least 128MiB [default: no limit]
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,

    /// Tasks that run at once, each on a thread [default: the machine's cores]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,

    /// Where tasks write and spill [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    spill_dir: Option<PathBuf>,

    #[command(flatten)]
    token: TokenArgs,

    /// End once stdin is closed, as it is when the process that started this one ends
    #[arg(long, hide = true)]
    with_stdin: bool,
}

/// The cluster's token
#[derive(Args, Debug)]
struct TokenArgs {
    /// The file with the secret that clients, scheduler and executors share; only a loopback address does without one
    #[arg(long, value_name = "FILE", env = "YEOUL_CLUSTER_TOKEN_FILE")]
    token_file: Option<PathBuf>,
}

impl TokenArgs {
    fn read(&self) -> Result<Option<Token>> {
        self.token_file.as_deref().map(Token::of_file).transpose()
    }
}

/// Runs the verb until the server has ended or was told to.
pub fn run(args: ClusterArgs) -> ExitCode {
    if let Role::Executor(executor) = &args.role {
        keep_to_small_limit(executor.memory);
    }
    let log = LogLevels::new(args.log);
    let log_level = args.log;
    if (LevelFilter::WARN..LevelFilter::DEBUG).contains(&log_level) {
        log.set(STAGES, "ERROR").expect("a module and a level");
    }
    let threads =
        Threads { name: "cluster", blocking_max: BLOCKING_THREADS_MAX, stack_bytes: Some(STACK_BYTES) };
    run_daemon(&log, threads, async move {
        match args.role {
            Role::Scheduler(args) => serve_scheduler(args).await,
            Role::Executor(args) => serve_executor(args).await,
            Role::Local(args) => local::serve(args, log_level).await,
        }
    })
}

async fn serve_scheduler(args: SchedulerArgs) -> Result<()> {
    let mut stop = Stop::listen()?;
    let SchedulerArgs { host, port, http_port, shuffle, shuffle_copies, shuffle_port, token } = args;
    let has_shuffle = !shuffle.is_empty();
    let shuffle = scheduler::ShuffleOptions { masters: shuffle, copies: shuffle_copies, port: shuffle_port };
    let shuffle = has_shuffle.then_some(shuffle);
    let options =
        scheduler::Options { host, port, http_port: Some(http_port), shuffle, token: token.read()? };
    let server = scheduler::Server::bind(options).await?;
    announce(&server.address().to_string());
    tokio::select! {
        served = server.serve() => served,
        _ = stop.asked() => Ok(()),
    }
}

async fn serve_executor(args: ExecutorArgs) -> Result<()> {
    if let Some(notice) = args.memory.and_then(beyond_machine) {
        tracing::warn!("{notice}");
    }
    let parent = args.spill_dir.clone().unwrap_or_else(std::env::temp_dir);
    let made = tempfile::Builder::new().prefix("yeoul-executor-").tempdir_in(&parent);
    let dir = made.map_err(|error| {
        let text = format!("cannot make a directory in '{}': {error}", parent.display());
        Error::new(ErrorKind::of_io(&error), text).with_source(error)
    })?;
    let options = executor::Options {
        scheduler: args.scheduler,
        port: free_port(&args.host, args.port)?,
        control_port: free_port(&args.host, args.control_port)?,
        host: args.host,
        token: args.token.read()?,
        dir: dir.path().to_owned(),
        process: Options {
            memory: args.memory,
            threads: args.threads,
            spill_dir: Some(dir.path().to_owned()),
            ..Options::default()
        },
    };
    announce(&format!("{}:{}", options.host, options.port));
    tokio::select! {
        ran = executor::run(options) => ran,
        () = stdin_closed(), if args.with_stdin => Ok(()),
    }
}

/// Waits until nobody can write to stdin any more.
async fn stdin_closed() {
    let (tell, told) = tokio::sync::oneshot::channel();
    // Such a read cannot be given up, and a thread of its own keeps no process.
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = tell.send(());
    });
    let _ = told.await;
}

/// The port, or one that is free now.
fn free_port(host: &str, port: u16) -> Result<u16> {
    if port != 0 {
        return Ok(port);
    }
    let found = TcpListener::bind((host, 0)).and_then(|listener| listener.local_addr());
    found.map(|address| address.port()).map_err(|error| {
        Error::new(ErrorKind::Unavailable, format!("cannot listen on {host}: {error}")).with_source(error)
    })
}
