//! A cluster on one machine: a scheduler and a shuffle in this process, and executors in processes of their own.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use clap::Args;
use tokio::process::{Child, Command};
use tracing::level_filters::LevelFilter;
use yeoul_base::{ByteSize, Error, ErrorKind, Result};
use yeoul_cluster::scheduler::{self, ShuffleOptions};
use yeoul_shuffle::{master, worker};

use super::{HTTP_PORT, SCHEDULER_PORT, stdin_closed};
use crate::daemon::announce;
use crate::exit::Stop;
use crate::port::port;

/// The most executors on one machine.
const EXECUTORS_MAX: u16 = 64;

/// Memory of the process up to which the shuffle's worker keeps rows off the disk.
const SHUFFLE_MEMORY_BYTES: u64 = 512 << 20;

/// Time for the shuffle's worker to find its master.
const WORKER_AWAITED: Duration = Duration::from_secs(10);

/// Run a scheduler, a shuffle and some executors on this machine
#[derive(Args, Debug)]
pub(super) struct LocalArgs {
    /// How many executors, 1 to 64
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=i64::from(EXECUTORS_MAX)))]
    executors: u16,

    /// The most memory that each executor's process may use, such as 1GiB; at least 128MiB [default: no limit]
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,

    /// Tasks that each executor runs at once
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,

    /// Where tasks write and spill [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Place of the rows between stages: in a shuffle, which keeps them when an executor dies, or on the disks of executors (off)
    #[arg(long, value_name = "WHERE", default_value = "on", value_parser = clap::builder::BoolishValueParser::new(), action = clap::ArgAction::Set)]
    shuffle: bool,

    /// Workers of the shuffle in this process; with two or more, each row is on two of them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    shuffle_workers: u8,

    /// End once stdin is closed, as it is when the process that started this one ends
    #[arg(long, hide = true)]
    with_stdin: bool,

    /// The port for clients and executors; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = SCHEDULER_PORT, value_parser = port, allow_negative_numbers = true)]
    port: u16,

    /// The port for pages, /api/v1 and metrics; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = HTTP_PORT, value_parser = port, allow_negative_numbers = true)]
    http_port: u16,
}

pub(super) async fn serve(args: LocalArgs, log: LevelFilter) -> Result<()> {
    let mut stop = Stop::listen()?;
    let host = "127.0.0.1".to_owned();
    let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    std::fs::create_dir_all(&parent)?;
    let dir = tempfile::Builder::new().prefix("yeoul-cluster-").tempdir_in(&parent)?;
    let service =
        if args.shuffle { Some(Shuffle::start(dir.path(), args.shuffle_workers).await?) } else { None };
    let shuffle = service.as_ref().map(|service| ShuffleOptions {
        masters: vec![service.master()],
        copies: args.shuffle_workers.min(2),
        port: 0,
    });
    let options =
        scheduler::Options { host, port: args.port, http_port: Some(args.http_port), shuffle, token: None };
    let server = scheduler::Server::bind(options).await?;
    let address = server.address().to_string();
    // Their sockets wait until it serves.
    let work = Work { dir: dir.path(), threads: args.threads, memory: args.memory, log };
    let mut executors: Vec<Child> =
        (0..args.executors).map(|_| executor(&address, &work)).collect::<Result<_>>()?;
    // Their ends of the pipes close with this process; waiting for one would close it before.
    let _pipes: Vec<_> = executors.iter_mut().map(|executor| executor.stdin.take()).collect();
    announce(&address);
    let mut ended: futures::stream::FuturesUnordered<_> =
        executors.into_iter().map(|mut executor| async move { executor.wait().await }).collect();
    tokio::select! {
        served = server.serve() => served,
        ended = futures::StreamExt::next(&mut ended) => {
            let how = ended.and_then(|ended| ended.ok()).map_or_else(String::new, |status| format!(": {status}"));
            Err(Error::new(ErrorKind::Unavailable, format!("an executor has ended{how}")))
        }
        () = stdin_closed(), if args.with_stdin => Ok(()),
        _ = stop.asked() => Ok(()),
    }
}

/// Shuffle service in this process, until it is dropped. It dies with the scheduler, whose jobs it serves: a second copy of a row saves
/// nothing there, and is for tests and measurements.
pub(crate) struct Shuffle {
    master: master::Handle,
    _workers: Vec<worker::Handle>,
}

impl Shuffle {
    /// Starts it with so many workers, whose directories are below `dir`.
    pub(crate) async fn start(dir: &Path, count: u8) -> Result<Self> {
        let master = master::Server::start(master::Options::embedded()).await?;
        let mut workers = Vec::new();
        for number in 0..count {
            let dir = dir.join(format!("shuffle-{number}"));
            let options = worker::Options {
                memory_bytes: SHUFFLE_MEMORY_BYTES,
                ..worker::Options::embedded([master.address().to_string()], dir)
            };
            workers.push(worker::Server::start(options).await?);
        }
        master.wait_for_workers(workers.len(), WORKER_AWAITED).await?;
        Ok(Self { master, _workers: workers })
    }

    /// Address of its master.
    pub(crate) fn master(&self) -> String {
        self.master.address().to_string()
    }
}

/// Means of an executor on this machine.
pub(crate) struct Work<'a> {
    pub dir: &'a Path,
    pub threads: usize,
    pub memory: Option<ByteSize>,
    pub log: LevelFilter,
}

/// Starts an executor in a process of its own. It ends once its stdin is closed.
pub(crate) fn executor(scheduler: &str, work: &Work<'_>) -> Result<Child> {
    let Work { dir, threads, memory, log } = work;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["cluster", "executor", "--with-stdin", "--scheduler", scheduler]);
    command.arg("--spill-dir").arg(dir).args(["--threads", &threads.to_string(), "--log", &log.to_string()]);
    if let Some(memory) = memory {
        command.args(["--memory", &memory.as_u64().to_string()]);
    }
    // It ends when this process does, whose end of the pipe is then closed.
    command.stdin(Stdio::piped()).stdout(Stdio::null()).kill_on_drop(true);
    Ok(command.spawn()?)
}
