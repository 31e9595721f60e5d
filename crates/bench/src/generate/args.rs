//! `yeoul generate` on the command line.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use clap::Args;

use super::{Options, SCALE_MAX, SCALE_MIN, Suite, generate};
use crate::error::Result;

/// Generate the tables of TPC-H or TPC-DS as Parquet files
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  yeoul generate tpch --scale 0.01 --out data      # 3 MB, in a second
  yeoul generate tpcds --scale 10 --out tpcds-10   # 4 GB
  yeoul sql -c \"SELECT count(*) FROM 'data/lineitem.parquet'\"

The same suite and scale give the same rows everywhere. Tables that are there already are kept; after an interruption \
the next run goes on with the ones that are missing.

Exit code: 0 done, 1 failed or refused, 2 wrong usage, 130 interrupted, 143 terminated.")]
pub struct GenerateArgs {
    /// tpch: 8 tables of orders and parts; tpcds: 24 tables of three sales channels
    #[arg(value_name = "SUITE")]
    suite: Suite,

    /// Scale factor: about this many GB as text, a third of it as Parquet; fractions work
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_scale, allow_negative_numbers = true)]
    scale: f64,

    /// Directory for the files, one <table>.parquet per table; created if needed
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Threads to use [default: all of the machine's]
    #[arg(long, value_name = "N", value_parser = parse_threads, allow_negative_numbers = true)]
    threads: Option<usize>,

    /// Generate again what is there, and replace tables of another suite or scale
    #[arg(long)]
    force: bool,

    /// Print what was generated as JSON
    #[arg(long)]
    json: bool,
}

impl GenerateArgs {
    /// Generates, and returns a summary to print. Setting `stop` ends it with nothing half-written.
    ///
    /// # Errors
    /// `Conflict` if the directory holds other tables, or is being written to; `Cancelled` after `stop`; `Denied`,
    /// `ResourceExhausted` and their like from the file system.
    pub fn run(self, stop: &AtomicBool) -> Result<String> {
        let options = Options {
            suite: self.suite,
            scale: self.scale,
            out: self.out,
            threads: self.threads,
            force: self.force,
            progress: true,
        };
        let summary = generate(&options, stop)?;
        Ok(if self.json {
            serde_json::to_string_pretty(&summary).expect("a summary has only text keys and finite numbers")
        } else {
            summary.to_string()
        })
    }
}

/// A scale factor in the range that both suites define.
pub(crate) fn parse_scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if (SCALE_MIN..=SCALE_MAX).contains(&scale) => Ok(scale),
        _ => Err(format!("a scale is a number from {SCALE_MIN} to {SCALE_MAX}, such as 0.01, 1 or 10")),
    }
}

/// A number of threads from 1 to 1024.
pub(crate) fn parse_threads(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(threads @ 1..=1024) => Ok(threads),
        _ => Err("a number of threads is a whole number from 1 to 1024".to_owned()),
    }
}
