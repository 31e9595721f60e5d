//! `yeoul bench dfs`: the memory of the servers.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use yeoul_base::Result;
use yeoul_bench::dfs::footprint::{self, Plan};
use yeoul_bench::findings;

use super::json_report::JsonReport;
use crate::exit::failed;

/// Measure the memory of a NameNode with many files and of an idle DataNode
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  yeoul bench dfs                      # with 100,000 files of one block
  yeoul bench dfs --files 1000000
  yeoul bench dfs --json - | jq .findings

Servers are processes of this binary, with directories in the system's temporary one; their memory is the most that each has held.

Exit code: 0 done, even if a target (the column bar) is missed, 1 if a server fails or loses a file, 2 wrong usage.")]
pub struct DfsArgs {
    /// Files of one block with three copies
    #[arg(long, value_name = "N", default_value_t = Plan::default().files, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    files: u64,

    /// Write every measurement as JSON to FILE; - for stdout, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub fn run(args: DfsArgs) -> ExitCode {
    match run_to_end(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(error.kind(), &error, error.hint()),
    }
}

fn run_to_end(args: &DfsArgs) -> Result<()> {
    let json = JsonReport::open(args.json.as_deref())?;
    let dir = tempfile::Builder::new().prefix("yeoul-bench-").tempdir()?;
    let plan = Plan { files: args.files };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let found = runtime.block_on(footprint::run(dir.path(), &plan, |line| eprintln!("{line}")))?;
    json.give(
        || findings::to_table(&found).to_string(),
        || format!("{:#}", json!({"files": plan.files, "findings": findings::to_json(&found)})),
    )
}
