//! A cluster on one machine: a scheduler in this process, and executors in processes of their own.

use std::path::PathBuf;
use std::process::Stdio;

use clap::Args;
use tokio::process::{Child, Command};
use tracing::level_filters::LevelFilter;
use yeoul_base::{ByteSize, Error, ErrorKind, Result};
use yeoul_cluster::scheduler;

use super::SCHEDULER_PORT;
use crate::daemon::announce;
use crate::exit::Stop;
use crate::port::port;

/// The most executors on one machine.
const EXECUTORS_MAX: u16 = 64;

/// Run a scheduler and some executors on this machine
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

    /// The port for clients and executors; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = SCHEDULER_PORT, value_parser = port, allow_negative_numbers = true)]
    port: u16,
}

pub(super) async fn serve(args: LocalArgs, log: LevelFilter) -> Result<()> {
    let mut stop = Stop::listen()?;
    let host = "127.0.0.1".to_owned();
    let server = scheduler::Server::bind(scheduler::Options { host, port: args.port }).await?;
    let address = server.address().to_string();
    let dir = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    std::fs::create_dir_all(&dir)?;
    // Their sockets wait until it serves.
    let mut executors: Vec<Child> =
        (0..args.executors).map(|_| executor(&args, &address, &dir, log)).collect::<Result<_>>()?;
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
        _ = stop.asked() => Ok(()),
    }
}

fn executor(args: &LocalArgs, scheduler: &str, dir: &std::path::Path, log: LevelFilter) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["cluster", "executor", "--with-stdin", "--scheduler", scheduler]);
    command.arg("--spill-dir").arg(dir).args([
        "--threads",
        &args.threads.to_string(),
        "--log",
        &log.to_string(),
    ]);
    if let Some(memory) = args.memory {
        command.args(["--memory", &memory.as_u64().to_string()]);
    }
    // It ends when this process does, whose end of the pipe is then closed.
    command.stdin(Stdio::piped()).stdout(Stdio::null()).kill_on_drop(true);
    Ok(command.spawn()?)
}
