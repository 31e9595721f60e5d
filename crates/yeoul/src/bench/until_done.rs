//! A suite that works on a thread of its own until it is done, or until a signal asks it to stop.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Builder;
use tokio::task::spawn_blocking;
use yeoul_base::ErrorKind;
use yeoul_bench::Error;

use crate::exit::{Stop, failed};

/// Works on a thread of its own, and tells it to stop when a signal asks us to. It gives whether all is well.
pub(super) fn until_done(work: impl FnOnce(&AtomicBool) -> Result<bool, Error> + Send + 'static) -> ExitCode {
    let unavailable = |source: std::io::Error| {
        Error::new(ErrorKind::Unavailable, format!("cannot start threads: {source}")).with_source(source)
    };
    let runtime = match Builder::new_current_thread().enable_all().build().map_err(unavailable) {
        Ok(runtime) => runtime,
        Err(error) => return exit_code(Err(error)),
    };
    runtime.block_on(async {
        // Before there is anything that a signal would leave behind.
        let mut signals = match Stop::listen().map_err(unavailable) {
            Ok(signals) => signals,
            Err(error) => return exit_code(Err(error)),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let mut work = spawn_blocking({
            let stop = Arc::clone(&stop);
            move || work(&stop)
        });
        let (done, asked) = tokio::select! {
            done = &mut work => (done, None),
            asked = signals.asked() => {
                stop.store(true, Ordering::Relaxed);
                (work.await, Some(asked))
            }
        };
        let broke = |source| Error::new(ErrorKind::Internal, "it broke").with_source(source);
        let done = done.map_err(broke).and_then(|done| done);
        let was_cancelled = done.as_ref().is_err_and(|error| error.kind() == ErrorKind::Cancelled);
        let code = exit_code(done);
        // It may have come to its end before it saw that it was to stop.
        asked.filter(|_| was_cancelled).map_or(code, |asked| asked.code())
    })
}

/// End of a suite: whether all is well, or an error, which goes to stderr.
pub(super) fn exit_code(result: Result<bool, Error>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => failed(error.kind(), &error, error.hint()),
    }
}
