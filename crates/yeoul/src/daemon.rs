//! What the verbs that serve share: the log, the runtime, and how they begin and end.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use tracing::level_filters::LevelFilter;
use yeoul_base::Result;

use crate::exit::failed;

/// Runs a server until it has ended or was told to; it says on stderr what `log` lets through. Up to
/// `blocking_threads_max` threads may wait for disks.
pub fn run(
    log: LevelFilter,
    name: &'static str,
    blocking_threads_max: usize,
    serve: impl Future<Output = Result<()>>,
) -> ExitCode {
    let ansi =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|said| said.is_empty());
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(ansi).with_max_level(log).init();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.enable_all().max_blocking_threads(blocking_threads_max).thread_name(name);
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
