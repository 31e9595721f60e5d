//! The binary: one module for each verb, wiring only, and the demo.

mod allocator;
#[cfg(any(feature = "shuffle", feature = "sql", feature = "stream"))]
mod bench;
#[cfg(feature = "cluster")]
mod cluster;
#[cfg(any(feature = "dfs", feature = "shuffle"))]
mod daemon;
#[cfg(any(feature = "dfs", feature = "shuffle", feature = "sql"))]
mod demo;
#[cfg(feature = "dfs")]
mod dfs;
mod exit;
#[cfg(any(feature = "dfs", feature = "shuffle", feature = "stream"))]
mod exposure;
#[cfg(any(feature = "dfs", feature = "shuffle", feature = "sql", feature = "stream"))]
mod memory;
#[cfg(any(feature = "dfs", feature = "shuffle", feature = "stream"))]
mod port;
#[cfg(feature = "shuffle")]
mod shuffle;
#[cfg(feature = "sql")]
mod sql;
#[cfg(feature = "stream")]
mod stream;

#[cfg(not(any(feature = "dfs", feature = "shuffle", feature = "sql", feature = "stream")))]
compile_error!("a binary of no part: build with --features dfs, shuffle, sql, stream or several of them");

use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use clap::{Command, CommandFactory, Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The Spark data stack without the JVM: SQL, streams, a shuffle and a file system in one binary.
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
    #[cfg(feature = "sql")]
    Sql(sql::SqlArgs),
    #[cfg(feature = "cluster")]
    Cluster(cluster::ClusterArgs),
    #[cfg(feature = "stream")]
    Stream(stream::StreamArgs),
    #[cfg(feature = "shuffle")]
    Shuffle(shuffle::ShuffleArgs),
    #[cfg(feature = "dfs")]
    Dfs(dfs::DfsArgs),
    #[cfg(feature = "sql")]
    Generate(yeoul_bench::generate::GenerateArgs),
    #[cfg(any(feature = "shuffle", feature = "sql", feature = "stream"))]
    Bench(bench::BenchArgs),
    #[cfg(feature = "sql")]
    /// Run queries for `yeoul bench`, which talks to it over stdin and stdout
    #[command(name = yeoul_bench::CONTESTANT_VERB, hide = true)]
    BenchContestant(yeoul_bench::contestant::ContestantArgs),
    #[cfg(feature = "stream")]
    /// Copy records from a topic to another one for `yeoul bench stream`, until the process ends
    #[command(name = yeoul_bench::stream::LOOP_VERB, hide = true)]
    BenchLoop(bench::LoopArgs),
    #[cfg(any(feature = "dfs", feature = "shuffle", feature = "sql"))]
    Demo(demo::DemoArgs),
}

fn main() -> ExitCode {
    allocator::give_memory_back_near_limits();
    #[cfg(not(feature = "dfs"))]
    let args = std::env::args_os();
    #[cfg(feature = "dfs")]
    let args = match dfs::prepared(std::env::args_os()) {
        Ok(args) => args,
        Err(report) => return exit::refused(yeoul_base::ErrorKind::Invalid, &report),
    };
    match Cli::try_parse_from(args).unwrap_or_else(|error| naming_variable(error).exit()).verb {
        #[cfg(feature = "sql")]
        Verb::Sql(args) => sql::run(args),
        #[cfg(feature = "cluster")]
        Verb::Cluster(args) => cluster::run(args),
        #[cfg(feature = "stream")]
        Verb::Stream(args) => stream::run(args),
        #[cfg(feature = "shuffle")]
        Verb::Shuffle(args) => {
            allocator::take_small_pages();
            shuffle::run(args)
        }
        #[cfg(feature = "dfs")]
        Verb::Dfs(args) => {
            allocator::take_small_pages();
            dfs::run(args)
        }
        #[cfg(feature = "sql")]
        Verb::Generate(args) => bench::generate(args),
        #[cfg(any(feature = "shuffle", feature = "sql", feature = "stream"))]
        Verb::Bench(args) => bench::run(args),
        #[cfg(feature = "sql")]
        Verb::BenchContestant(args) => bench::contestant(&args),
        #[cfg(feature = "stream")]
        Verb::BenchLoop(args) => bench::run_loop(&args),
        #[cfg(any(feature = "dfs", feature = "shuffle", feature = "sql"))]
        Verb::Demo(args) => demo::run(args),
    }
}

/// Names the variable of the environment that a wrong value is from: clap names the flag that it stands for.
fn naming_variable(mut error: clap::Error) -> clap::Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let (Some(arg), Some(value)) = (text(ContextKind::InvalidArg), text(ContextKind::InvalidValue)) else {
        return error;
    };
    let mut cli = Cli::command();
    cli.build();
    if let Some(name) = variable_of(&cli, arg, value) {
        let tip = StyledStr::from(format!("'{value}' is from the variable {name} of the environment"));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    error
}

/// The variable that stands for an argument, if `value` is, or is in, what it is set to.
fn variable_of(command: &Command, arg: &str, value: &str) -> Option<String> {
    let set = command.get_arguments().filter(|known| known.to_string() == arg).find_map(|known| {
        let name = known.get_env()?;
        let said = std::env::var(name).ok()?;
        (said == value || said.split(',').any(|part| part == value))
            .then(|| name.to_string_lossy().into_owned())
    });
    set.or_else(|| command.get_subcommands().find_map(|inner| variable_of(inner, arg, value)))
}
