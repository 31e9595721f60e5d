//! `yeoul generate`, `yeoul bench tpch` and `tpcds`, and the contestant that these start.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Builder;
use tokio::task::spawn_blocking;
use yeoul_base::ErrorKind;
use yeoul_bench::Error;
use yeoul_bench::generate::{GenerateArgs, Suite as Tables};
use yeoul_bench::tpc::TpcArgs;

use crate::exit::{self, Stop, failed};

pub fn generate(args: GenerateArgs) -> ExitCode {
    until_done(move |stop| print(&args.run(stop)?).map(|()| true))
}

pub(super) fn compare(args: TpcArgs, suite: Tables) -> ExitCode {
    until_done(move |stop| {
        let compared = args.run(suite, stop)?;
        print(&compared.text).map(|()| compared.is_well)
    })
}

fn print(text: &str) -> Result<(), Error> {
    exit::print(text).map_err(|error| Error::io("write to", Path::new("stdout"), error))
}

pub fn contestant() -> ExitCode {
    exit_code(yeoul_bench::contestant::run().map(|()| true))
}

/// Works on a thread of its own, and tells it to stop when a signal asks us to. It gives whether all is well.
fn until_done(work: impl FnOnce(&AtomicBool) -> Result<bool, Error> + Send + 'static) -> ExitCode {
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

fn exit_code(result: Result<bool, Error>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => failed(error.kind(), &error, error.hint()),
    }
}
