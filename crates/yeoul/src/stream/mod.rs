//! `yeoul stream`: queries over streams.

mod explain;
mod job;
mod live_table;
mod reporter;
mod run;
mod state;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::exit::failed;

/// Run queries over Kafka's topics, for ever
#[derive(Debug, Args)]
pub struct StreamArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(run::RunArgs),
    Explain(explain::ExplainArgs),
    State(state::StateArgs),
}

/// Runs the verb.
pub fn run(args: StreamArgs) -> ExitCode {
    let ended = match args.verb {
        Verb::Run(args) => run::run(&args),
        Verb::Explain(args) => explain::run(&args),
        Verb::State(args) => state::run(&args),
    };
    ended.unwrap_or_else(|error| failed(error.kind(), &error, error.hint()))
}
