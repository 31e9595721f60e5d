//! The binary: one verb per file, wiring only.

mod allocator;
mod bench;
mod demo;
mod exit;
mod memory;
mod shuffle;
mod sql;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The Spark data stack without the JVM: SQL and a shuffle in one binary, streams and storage to come.
#[derive(Parser)]
#[command(
    name = "yeoul",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Sql(sql::SqlArgs),
    Shuffle(shuffle::ShuffleArgs),
    Generate(yeoul_bench::generate::GenerateArgs),
    Bench(bench::BenchArgs),
    /// Run queries for `yeoul bench`, which talks to it over stdin and stdout
    #[command(hide = true)]
    BenchContestant,
    Demo(demo::DemoArgs),
}

fn main() -> ExitCode {
    match Cli::parse().verb {
        Verb::Sql(args) => sql::run(args),
        Verb::Shuffle(args) => {
            allocator::take_small_pages();
            shuffle::run(args)
        }
        Verb::Generate(args) => bench::generate(args),
        Verb::Bench(args) => bench::run(args),
        Verb::BenchContestant => bench::contestant(),
        Verb::Demo(args) => demo::run(args),
    }
}
