//! `yeoul generate`, `yeoul bench` and the contestant that the latter starts.

mod shuffle;

use std::future::Future;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use tokio::runtime::Builder;
use yeoul_base::ErrorKind;
use yeoul_bench::Error;
use yeoul_bench::generate::{GenerateArgs, Suite as Tables};
use yeoul_bench::tpc::TpcArgs;

use crate::exit::code_of;

/// Measure a part of Yeoul against the systems that it replaces, and check its answers
#[derive(Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Subcommand)]
enum Suite {
    /// Compare with DuckDB, DataFusion and Spark on the 22 queries of TPC-H
    #[command(name = "tpch")]
    TpcH(TpcArgs),
    /// Compare with DuckDB, DataFusion and Spark on the 99 queries of TPC-DS
    #[command(name = "tpcds")]
    TpcDs(TpcArgs),
    Shuffle(shuffle::ShuffleArgs),
}

pub fn generate(args: GenerateArgs) -> ExitCode {
    exit_code(wait(args.run()).map(|()| true))
}

pub fn run(args: BenchArgs) -> ExitCode {
    match args.suite {
        Suite::TpcH(args) => exit_code(wait(args.run(Tables::TpcH))),
        Suite::TpcDs(args) => exit_code(wait(args.run(Tables::TpcDs))),
        Suite::Shuffle(args) => shuffle::run(args),
    }
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
            code_of(error.kind())
        }
    }
}
