//! `yeoul generate`, `yeoul bench` and the contestant that the latter starts.

use std::future::Future;
use std::process::ExitCode;

use tokio::runtime::Builder;
use yeoul_base::ErrorKind;
use yeoul_bench::Error;
use yeoul_bench::generate::GenerateArgs;
use yeoul_bench::tpc::BenchArgs;

/// What a shell gives for a program that Ctrl-C ended: 128 and the number of SIGINT.
const INTERRUPTED: u8 = 130;

pub fn generate(args: GenerateArgs) -> ExitCode {
    exit_code(wait(args.run()).map(|()| true))
}

pub fn compare(args: BenchArgs) -> ExitCode {
    exit_code(wait(args.run()))
}

pub fn contestant() -> ExitCode {
    exit_code(yeoul_bench::contestant::run().map(|()| true))
}

fn wait<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let runtime = Builder::new_multi_thread().enable_all().build();
    runtime
        .map_err(|source| Error::new(ErrorKind::Unavailable, format!("cannot start threads: {source}")))?
        .block_on(work)
}

fn exit_code(result: Result<bool, Error>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            if let Some(hint) = error.hint() {
                eprintln!("hint: {hint}");
            }
            if error.kind() == ErrorKind::Cancelled { ExitCode::from(INTERRUPTED) } else { ExitCode::FAILURE }
        }
    }
}
