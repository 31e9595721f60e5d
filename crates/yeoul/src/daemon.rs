//! What the verbs that serve share: the log, the runtime, and how they begin and end.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{fmt, registry, reload};
use yeoul_base::Result;
use yeoul_net::{LogLevels, ROOT_LOGGER};

use crate::exit::failed;

/// Threads of a server.
#[derive(Clone, Copy, Debug)]
pub struct Threads {
    pub name: &'static str,
    /// Most of those that wait for disks.
    pub blocking_max: usize,
    /// Stack of each, if it needs another than threads have.
    pub stack_bytes: Option<usize>,
}

/// Runs a server until it has ended or was told to; it says on stderr what `log` lets through.
pub fn run(log: &LogLevels, threads: Threads, serve: impl Future<Output = Result<()>>) -> ExitCode {
    let ansi =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|said| said.is_empty());
    let (filter, levels) = reload::Layer::new(Targets::new());
    registry().with(filter).with(fmt::layer().with_writer(std::io::stderr).with_ansi(ansi)).init();
    log.applied_by(move |all| {
        let targets = all.iter().fold(Targets::new(), |targets, (name, level)| match name.as_str() {
            ROOT_LOGGER => targets.with_default(*level),
            name => targets.with_target(name, *level),
        });
        // It fails only without the subscriber, which is there as long as the process.
        let _ = levels.reload(targets);
    });
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.enable_all().max_blocking_threads(threads.blocking_max).thread_name(threads.name);
    if let Some(bytes) = threads.stack_bytes {
        runtime.thread_stack_size(bytes);
    }
    let served = match runtime.build() {
        Ok(runtime) => {
            let served = runtime.block_on(serve);
            // What still waits for a disk that hangs does not keep the process.
            runtime.shutdown_background();
            served
        }
        Err(error) => Err(error.into()),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(error.kind(), &error, error.hint()),
    }
}

/// Says on stdout where the server is, which scripts with free ports wait for.
pub fn announce(address: &str) {
    let mut out = std::io::stdout();
    // Nobody may be listening.
    let _ = writeln!(out, "{address}").and_then(|()| out.flush());
}
