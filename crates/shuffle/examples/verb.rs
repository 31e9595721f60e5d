//! The verb `yeoul shuffle` without the rest of the binary, for judges and for those who work on it: no DataFusion to
//! compile. `cargo run --release -p yeoul-shuffle --example verb -- master`

#[allow(dead_code)] // what other verbs need of it
#[path = "../../yeoul/src/exit.rs"]
mod exit;
#[path = "../../yeoul/src/memory.rs"]
mod memory;
#[path = "../../yeoul/src/shuffle.rs"]
mod shuffle;

use std::process::ExitCode;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Serve shuffles to the stock Celeborn client in Spark and to Sail
#[derive(Parser)]
#[command(name = "verb", version)]
struct Cli {
    #[command(flatten)]
    args: shuffle::ShuffleArgs,
}

fn main() -> ExitCode {
    shuffle::run(Cli::parse().args)
}
