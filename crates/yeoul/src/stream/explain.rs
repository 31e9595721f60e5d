//! `yeoul stream explain`: what a job would do.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use yeoul_base::{Error, ErrorKind, Result};
use yeoul_stream::explain::{outline, tree};

use super::job::queries;
use crate::exit::print;

/// Show what the queries of a job file do, and start nothing
///
/// Each query is a tree: its sink, and below each step those that it gets its rows from, down to the streams. A step with state
/// says which tables it has in the checkpoint, by what, and how long a key is kept. No broker, file or checkpoint is touched, and a
/// job that `run` refuses is refused with the same words.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  yeoul stream explain orders.sql
  yeoul stream explain orders.sql --format json | jq .sink

Exit code: 0 done, 1 the file cannot be read, 2 wrong usage or a job that is refused.")]
pub struct ExplainArgs {
    /// The job: CREATE STREAM, CREATE SINK, SET and INSERT INTO
    #[arg(value_name = "JOB.sql")]
    job: PathBuf,

    /// Output format: a tree, or json (an object for each query, one a line)
    #[arg(long, value_enum, default_value_t = Format::Tree)]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A tree
    Tree,
    /// An object for each query
    Json,
}

pub fn run(args: &ExplainArgs) -> Result<ExitCode> {
    let mut shown = Vec::new();
    for query in queries(&args.job)? {
        let query = outline(&query)?;
        shown.push(match args.format {
            Format::Tree => tree(&query),
            Format::Json => serde_json::to_string(&query).map_err(|error| {
                Error::new(ErrorKind::Internal, "cannot show the query").with_source(error)
            })?,
        });
    }
    // A tree ends with a line end; one is between two of them.
    print(shown.join("\n").trim_end_matches('\n'))?;
    Ok(ExitCode::SUCCESS)
}
