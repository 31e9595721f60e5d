//! The cluster of a contestant: `yeoul cluster local` in a process group of its own.
//!
//! A contestant is stopped while others run. Servers that were stopped would be taken for dead once they run again, so these go on:
//! without a query they do nothing but tell that they are there.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use clap::Args;
use yeoul_base::ErrorKind;

use crate::contest::own_program;
use crate::contest::protocol::Open;
use crate::error::{Error, Result};

/// Workers of the shuffle, each of which has each row.
const SHUFFLE_WORKERS: u16 = 2;

/// The cluster that a contestant's queries run on.
#[derive(Args, Debug, Clone, Copy, Default)]
pub struct ClusterArgs {
    /// Executors; 0 runs queries in this process
    #[arg(long, value_name = "N", default_value_t = 0)]
    executors: u16,

    /// Place of the rows between stages: in a shuffle, or with the executors (off)
    #[arg(long, value_name = "WHERE", default_value = "on", value_parser = clap::builder::BoolishValueParser::new(), action = clap::ArgAction::Set)]
    shuffle: bool,
}

impl ClusterArgs {
    /// True if there is a cluster.
    pub(super) fn is_some(self) -> bool {
        self.executors > 0
    }

    /// Tasks that run at once, in all executors.
    fn parts(self, threads: usize) -> usize {
        usize::from(self.executors) * self.threads_of_executor(threads)
    }

    fn threads_of_executor(self, threads: usize) -> usize {
        threads.div_ceil(usize::from(self.executors.max(1)))
    }

    fn words(self) -> &'static str {
        if self.shuffle { "executors and a shuffle" } else { "executors" }
    }
}

/// A running cluster, until it is dropped.
pub(super) struct Cluster {
    /// It ends once its stdin is closed, whatever happens to this process.
    child: Child,
    address: String,
    executors: Vec<u32>,
    parts: usize,
    what: String,
}

impl Cluster {
    /// Starts it, with the memory limit and the scratch directory of the contestant for each executor.
    ///
    /// # Errors
    /// `Unavailable` if it does not start.
    pub(super) fn start(args: ClusterArgs, open: &Open) -> Result<Self> {
        let mut command = Command::new(own_program()?);
        command.args(["cluster", "local", "--with-stdin", "--port", "0", "--http-port", "0"]);
        command.args(["--executors", &args.executors.to_string()]);
        command.args(["--threads", &args.threads_of_executor(open.threads).to_string()]);
        command.arg("--dir").arg(&open.scratch);
        if args.shuffle {
            command.args(["--shuffle-workers", &SHUFFLE_WORKERS.to_string()]);
        } else {
            command.args(["--shuffle", "off"]);
        }
        if let Some(bytes) = open.memory_bytes {
            command.args(["--memory", &bytes.to_string()]);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|e| Error::io("start", Path::new("yeoul cluster local"), e))?;
        let mut address = String::new();
        let stdout = child.stdout.take().expect("stdout was asked to be a pipe");
        let read = BufReader::new(stdout).read_line(&mut address);
        let address = address.trim().to_owned();
        if read.is_err() || address.is_empty() {
            return Err(Error::new(ErrorKind::Unavailable, "the cluster does not start"));
        }
        let what = format!("{} {}", args.executors, args.words());
        let parts = args.parts(open.threads);
        Ok(Self { executors: children_of(child.id()), child, address, parts, what })
    }

    /// Address of its scheduler.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Processes of its executors.
    pub(super) fn executors(&self) -> &[u32] {
        &self.executors
    }

    /// Parts into which a stage is divided.
    pub(super) fn parts(&self) -> usize {
        self.parts
    }

    /// Name for people.
    pub(super) fn what(&self) -> &str {
        &self.what
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Processes that a process has started.
fn children_of(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent_of = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("PPid:")).and_then(|ppid| ppid.trim().parse().ok())
    };
    pids.filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_found() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let found = children_of(std::process::id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&child.id()), "{found:?}");
    }

    #[test]
    fn as_many_parts_as_tasks_run_at_once() {
        let of = |executors| ClusterArgs { executors, shuffle: true };
        assert_eq!((of(3).parts(2), of(2).parts(2), of(1).parts(2), of(2).parts(3)), (3, 2, 2, 4));
    }
}
