//! `yeoul stream state`: what a checkpoint has.

mod rows;
mod summaries;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use yeoul_base::{Error, ErrorKind, Result};
use yeoul_stream::BatchId;
use yeoul_stream::checkpoint::storage::{CheckpointAddress, Patience};
use yeoul_stream::checkpoint::{CheckpointReader, CheckpointSummary, StoredCheckpoint};

use crate::exit::print;

/// Show what a checkpoint has: epoch, offsets, watermark and tables of state
///
/// It reads the last checkpoint of each query that can be used, and names the files that cannot. Nothing is written or taken over: a
/// query that runs goes on. State is read into memory, as much as the query has.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  yeoul stream state /var/lib/yeoul/orders                     all queries of a job
  yeoul stream state /var/lib/yeoul/orders/large               one of them
  yeoul stream state s3://bucket/orders
  yeoul stream state DIR --format json | jq '.sources[].offset'
  yeoul stream state DIR --query counts --rows aggregate --limit 5
  yeoul stream state DIR --query counts --epoch 42 --rows aggregate --format csv

Results go to stdout, damaged files to stderr. Exit code: 0 done, 1 there is no checkpoint that can be used, 2 wrong usage.")]
pub struct StateArgs {
    /// Directory or address that was given with --checkpoint, or a query's folder in it
    #[arg(value_name = "PLACE")]
    place: OsString,

    /// Output format: table, csv, or json (an object for each query, or for each row with --rows, one a line)
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,

    /// Show this query only
    #[arg(long, value_name = "NAME")]
    query: Option<String>,

    /// Show the checkpoint of this epoch [default: the last one that can be used]
    #[arg(long, value_name = "N")]
    epoch: Option<u64>,

    /// Show the keys and values of this table, those that are over first at the top
    #[arg(long, value_name = "TABLE")]
    rows: Option<String>,

    /// The most keys that --rows shows
    #[arg(long, value_name = "N", default_value_t = 20, requires = "rows")]
    limit: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Table,
    /// Comma-separated, with a header
    Csv,
    /// An object a line
    Json,
}

/// A query with its checkpoint.
type Found = (String, StoredCheckpoint);

pub fn run(args: &StateArgs) -> Result<ExitCode> {
    let found = found(args)?;
    for text in found.iter().flat_map(|(_, stored)| &stored.damaged) {
        // A stderr that is gone leaves nobody to tell.
        let _ = writeln!(std::io::stderr(), "warning: {text}");
    }
    let text = match &args.rows {
        Some(table) => rows::text(one(args, &found)?, table, args.limit, args.format)?,
        None => {
            let summary = |(query, stored): &Found| CheckpointSummary::new(query.clone(), stored);
            summaries::text(&found.iter().map(summary).collect::<Vec<_>>(), args.format)?
        }
    };
    print(text.trim_end_matches('\n'))?;
    Ok(ExitCode::SUCCESS)
}

/// Checkpoints of the queries that are wanted.
fn found(args: &StateArgs) -> Result<Vec<Found>> {
    // A person waits.
    let place = CheckpointAddress::parse(&args.place)?.open(Patience::default().at_first())?;
    let mut readers = CheckpointReader::find(&place)?;
    let names: Vec<String> = readers.iter().map(CheckpointReader::query).collect();
    if let Some(wanted) = &args.query {
        readers.retain(|reader| reader.query() == *wanted);
        if readers.is_empty() {
            let text = format!("there is no query '{wanted}' in '{}'", args.place.display());
            return Err(Error::new(ErrorKind::NotFound, text).with_hint(format!("{} are", names.join(", "))));
        }
    }
    readers.iter().map(|reader| Ok((reader.query(), reader.read(args.epoch.map(BatchId))?))).collect()
}

/// The one query whose rows are wanted.
fn one<'a>(args: &StateArgs, found: &'a [Found]) -> Result<&'a Found> {
    match found {
        [one] => Ok(one),
        several => {
            let names: Vec<&str> = several.iter().map(|(query, _)| query.as_str()).collect();
            let text = format!("--rows shows those of one query, '{}' has several", args.place.display());
            Err(Error::new(ErrorKind::Invalid, text)
                .with_hint(format!("choose one with --query: {}", names.join(", "))))
        }
    }
}
