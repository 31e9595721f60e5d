//! `yeoul bench codec`: erasure codes against ISA-L and the memory's own speed.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::json;
use yeoul_base::Result;
use yeoul_bench::codec::{self, Plan};
use yeoul_bench::findings;

use super::json_report::JsonReport;
use crate::exit::failed;

/// Compare the erasure codes with ISA-L and with the memory's own speed
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  yeoul bench codec                      # against what the memory gives: some seconds
  yeoul bench codec --against isal       # and against Debian's ISA-L (package libisal2)
  yeoul bench codec --json - | jq .findings

Rates are bytes of input a second on one thread. Every byte that ours and ISA-L compute is compared.

Exit code: 0 done, even if a target (the column bar) is missed, 1 if ISA-L is missing or computes other bytes, 2 wrong usage.")]
pub struct CodecArgs {
    /// Peers to compare with, beside the memory
    #[arg(long, value_name = "PEER", value_delimiter = ',', value_parser = PossibleValuesParser::new(["isal"]))]
    against: Vec<String>,

    /// How often each measurement is repeated
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,

    /// Write every measurement as JSON to FILE; - for stdout, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub fn run(args: CodecArgs) -> ExitCode {
    match run_to_end(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(error.kind(), &error, error.hint()),
    }
}

fn run_to_end(args: &CodecArgs) -> Result<()> {
    let json = JsonReport::open(args.json.as_deref())?;
    let plan = Plan { rounds: args.rounds.into(), against_isal: !args.against.is_empty() };
    let found = codec::run(&plan, |finding| eprintln!("{}, against {}", finding.name, finding.peer))?;
    json.give(
        || {
            format!(
                "{}\n{} rounds, one thread, {} kernel",
                findings::to_table(&found),
                plan.rounds,
                codec::kernel()
            )
        },
        || {
            let findings = findings::to_json(&found);
            format!("{:#}", json!({"rounds": plan.rounds, "kernel": codec::kernel(), "findings": findings}))
        },
    )
}
