//! `yeoul bench shuffle`: one worker and our own client against what the machine does without them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use yeoul_base::{ByteSize, Error, Result, is_in_memory};
use yeoul_bench::findings::{self, Finding};
use yeoul_bench::shuffle::{self as measure, Plan};

use super::json_report::JsonReport;
use crate::exit::{Stop, failed, interrupted};

/// Compare the shuffle's worker with plain copies over loopback and to the disk
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  yeoul bench shuffle                                # a minute or two
  yeoul bench shuffle --dir /data/1 --bytes 8GiB     # on the disk that the worker will use
  yeoul bench shuffle --json - | jq .findings

The worker is a process of its own. Ours and the plain copy take turns on as many bytes; medians are compared. What goes \
to the disk is measured with the fsync that brings it there, on both sides. Every read checks that each batch comes exactly \
once, with the right length, first and last bytes; one unmeasured read of each kind compares every byte.

Exit code: 0 done, even if a target (the column bar) is missed, 1 if it failed or what was read is not what was written, 2 wrong usage, 130 \
interrupted, 143 terminated.")]
pub struct ShuffleArgs {
    /// Size of each throughput measurement, at least 4MiB; in memory at most a quarter of the machine's memory, on disk at
    /// least 2GiB (256MiB with --rounds 1)
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = parse_bytes)]
    bytes: ByteSize,

    /// How often each measurement is repeated
    #[arg(long, value_name = "N", default_value_t = 5, allow_negative_numbers = true,
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,

    /// Measure on the disk of this directory [default: a temporary directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Write every measurement as JSON to FILE; - for stdout, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub fn run(args: ShuffleArgs) -> ExitCode {
    run_to_end(&args).unwrap_or_else(|error| failed(error.kind(), &error, error.hint()))
}

fn run_to_end(args: &ShuffleArgs) -> Result<ExitCode> {
    let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut stop = {
        let _inside = runtime.enter();
        // Before there is anything that a signal would leave behind.
        Stop::listen()?
    };
    let unusable = |error: Error| {
        Error::new(error.kind(), format!("cannot use {}", parent.display()))
            .with_hint("--dir names a directory that exists")
            .with_source(error)
    };
    if is_in_memory(&parent).map_err(|error| unusable(error.into()))? {
        eprintln!("notice: {} is in memory, and so is what is measured as its disk", parent.display());
        eprintln!("hint: name a directory on a disk with --dir");
    }
    let dir = tempfile::Builder::new()
        .prefix("yeoul-bench-")
        .tempdir_in(&parent)
        .map_err(|error| unusable(error.into()))?;
    let program = std::env::current_exe()?.display().to_string();
    let plan = Plan {
        bytes: args.bytes.as_u64(),
        command: Some(vec![program, "shuffle".to_owned()]),
        ..Plan::new(dir.path(), args.rounds.into())
    };
    plan.check_room(&parent)?;
    let json = JsonReport::open(args.json.as_deref())?;
    let measured = runtime.block_on(async {
        tokio::select! {
            findings = measure::run(&plan, |finding| eprintln!("{}", finding.name)) => findings.map(Ok),
            asked = stop.asked() => Ok(Err(asked)),
        }
    });
    // Nobody waits for a file that is still being written or synced.
    runtime.shutdown_background();
    let findings = match measured? {
        Ok(findings) => findings,
        Err(asked) => return Ok(interrupted(asked)),
    };
    json.give(|| to_table(&findings, &parent, args.rounds), || to_json(&plan, &findings))?;
    Ok(ExitCode::SUCCESS)
}

fn to_json(plan: &Plan, findings: &[Finding]) -> String {
    let report =
        json!({"dir": plan.dir.parent(), "rounds": plan.rounds, "findings": findings::to_json(findings)});
    format!("{report:#}")
}

/// Enough that there is something to measure.
fn parse_bytes(text: &str) -> Result<ByteSize, String> {
    let size: ByteSize = text.parse().map_err(|error| format!("{error}"))?;
    if size.as_u64() < BYTES_MIN {
        Err("there is nothing to measure below 4MiB".to_owned())
    } else {
        Ok(size)
    }
}

const BYTES_MIN: u64 = 4 << 20;

fn to_table(findings: &[Finding], dir: &Path, rounds: u16) -> String {
    format!("{}\n{rounds} rounds, the disk is that of {}", findings::to_table(findings), dir.display())
}
