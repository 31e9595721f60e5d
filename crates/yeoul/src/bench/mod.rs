//! `yeoul bench` and what belongs to it.

#[cfg(feature = "dfs")]
mod codec;
#[cfg(feature = "dfs")]
mod dfs;
mod json_report;
#[cfg(feature = "shuffle")]
mod shuffle;
#[cfg(feature = "stream")]
mod stream;
#[cfg(feature = "sql")]
mod tpc;
#[cfg(any(feature = "sql", feature = "stream"))]
mod until_done;

use std::process::ExitCode;

use clap::{Args, Subcommand};
#[cfg(feature = "sql")]
use yeoul_bench::{generate::Suite as Tables, tpc::TpcArgs};

#[cfg(feature = "stream")]
pub use self::stream::{LoopArgs, run_loop};
#[cfg(feature = "sql")]
pub use self::tpc::{contestant, generate};

/// Measure a part of Yeoul against the systems that it replaces, and check its answers
#[derive(Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Subcommand)]
enum Suite {
    #[cfg(feature = "sql")]
    /// Compare with DuckDB, DataFusion and Spark on the 22 queries of TPC-H
    #[command(name = "tpch", after_help = TpcArgs::help(Tables::TpcH))]
    TpcH(TpcArgs),
    #[cfg(feature = "sql")]
    /// Compare with DuckDB, DataFusion and Spark on the 99 queries of TPC-DS
    #[command(name = "tpcds", after_help = TpcArgs::help(Tables::TpcDs))]
    TpcDs(TpcArgs),
    #[cfg(feature = "shuffle")]
    Shuffle(shuffle::ShuffleArgs),
    #[cfg(feature = "stream")]
    Stream(stream::StreamArgs),
    #[cfg(feature = "dfs")]
    Codec(codec::CodecArgs),
    #[cfg(feature = "dfs")]
    Dfs(dfs::DfsArgs),
}

pub fn run(args: BenchArgs) -> ExitCode {
    match args.suite {
        #[cfg(feature = "sql")]
        Suite::TpcH(args) => tpc::compare(args, Tables::TpcH),
        #[cfg(feature = "sql")]
        Suite::TpcDs(args) => tpc::compare(args, Tables::TpcDs),
        #[cfg(feature = "shuffle")]
        Suite::Shuffle(args) => shuffle::run(args),
        #[cfg(feature = "stream")]
        Suite::Stream(args) => stream::run(args),
        #[cfg(feature = "dfs")]
        Suite::Codec(args) => codec::run(args),
        #[cfg(feature = "dfs")]
        Suite::Dfs(args) => dfs::run(args),
    }
}
