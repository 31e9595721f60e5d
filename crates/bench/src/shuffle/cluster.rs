//! A master in this process and one worker, here or in a process of its own.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::Plan;
use yeoul_base::{Error, ErrorKind, Result};
use yeoul_shuffle::client::{Application, Options as ClientOptions};
use yeoul_shuffle::ids::WorkerId;
use yeoul_shuffle::{master, worker};

/// What a case measures on. Dropping it ends all of it.
pub(super) struct Cluster {
    pub(super) application: Application,
    pub(super) worker: WorkerId,
    pub(super) worker_dir: PathBuf,
    _running: Running,
    _master: master::Handle,
}

enum Running {
    Here(#[allow(dead_code, reason = "held for its drop")] worker::Handle),
    Process(Child),
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Self::Process(child) = self {
            // It holds nothing that anybody needs.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Cluster {
    /// Starts a master and a worker with this memory, in a directory of this name.
    pub(super) async fn start(plan: &Plan, name: &str, memory_bytes: u64) -> Result<Self> {
        let master = master::Server::start(master::Options::embedded()).await?;
        let worker_dir = plan.dir.join(name);
        std::fs::create_dir_all(&worker_dir)?;
        let address = master.address().to_string();
        let (worker, running) = match &plan.command {
            Some(command) => process(command, &address, &worker_dir, memory_bytes).await?,
            None => {
                let options = worker::Options::embedded([&address], &worker_dir);
                let options = worker::Options { memory_bytes, ..options };
                let handle = worker::Server::start(options).await?;
                (handle.id().clone(), Running::Here(handle))
            }
        };
        master.wait_for_workers(1, Duration::from_secs(10)).await?;
        let application = Application::start(ClientOptions::new([address])).await?;
        Ok(Self { application, worker, worker_dir, _running: running, _master: master })
    }
}

/// Starts a worker's process and waits for the line with its id.
async fn process(
    command: &[String],
    master: &str,
    dir: &std::path::Path,
    memory_bytes: u64,
) -> Result<(WorkerId, Running)> {
    let (program, before) = command
        .split_first()
        .ok_or_else(|| Error::new(ErrorKind::Invalid, "the command of the servers is empty"))?;
    let settings = std::env::vars_os().map(|(name, _)| name);
    let settings = settings.filter(|name| name.as_encoded_bytes().starts_with(b"YEOUL_SHUFFLE_"));
    let mut command = Command::new(program);
    // Settings for this machine's own workers are not for this one.
    settings.chain(["CELEBORN_CONF_DIR".into()]).for_each(|name| _ = command.env_remove(name));
    let mut child = command
        .env("YEOUL_LOG", "error")
        .args(before)
        .args(["worker", "--master", master, "--disk-reserve", "0", "--memory", &memory_bytes.to_string()])
        .arg("--dir")
        .arg(dir)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| {
            Error::new(ErrorKind::NotFound, format!("cannot start {program}: {error}")).with_source(error)
        })?;
    let stdout = child.stdout.take();
    let running = Running::Process(child);
    let line = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        stdout.map(|stdout| BufReader::new(stdout).read_line(&mut line)).transpose().map(|_| line)
    });
    let line = line.await.map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))??;
    let id = line.trim().parse().map_err(|error| {
        Error::new(ErrorKind::Unavailable, format!("the worker did not say who it is: {line:.80}"))
            .with_source(error)
    })?;
    Ok((id, running))
}
