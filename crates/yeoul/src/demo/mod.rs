//! `yeoul demo`: what each part does, in under a minute, with no network and nothing else installed.
//!
//! An act is a function from the stage to rows of the closing table; another part adds a file and a line in [`ACTS`].

mod shuffle;
mod sql;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::allocator::return_memory_at_once;
use clap::Args;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// Show what Yeoul does, in under a minute
///
/// Generates data in a temporary directory, runs each part on it, checks the results, and shows a table of what happened.
#[derive(Args)]
pub struct DemoArgs {
    /// Run only the acts with these names
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    act: Vec<String>,
}

/// What an act may use.
struct Stage<'a> {
    /// A directory of its own, removed at the end.
    dir: &'a Path,
}

/// A line of the closing table.
struct Row {
    what: String,
    result: String,
    time: Duration,
    /// Memory and disk, or whatever else the act kept within bounds.
    bounds: String,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

struct Act {
    name: &'static str,
    about: &'static str,
    run: fn(&Stage) -> Result<Vec<Row>, Failure>,
}

const ACTS: [Act; 2] = [
    Act { name: "sql", about: "SQL on 8.7 million rows, in a process of at most 512 MiB", run: sql::run },
    Act { name: "shuffle", about: "a replicated shuffle that loses a worker half-way", run: shuffle::run },
];

pub fn run(args: DemoArgs) -> ExitCode {
    // An act may promise a memory limit.
    return_memory_at_once();
    let names: Vec<&str> = ACTS.iter().map(|act| act.name).collect();
    if let Some(unknown) = args.act.iter().find(|name| !names.contains(&name.as_str())) {
        eprintln!("error: there is no act '{unknown}'\nhint: the acts are {}", names.join(", "));
        return ExitCode::from(2);
    }
    match play(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: the demo failed: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn play(args: &DemoArgs) -> Result<(), Failure> {
    let started = Instant::now();
    let dir = tempfile::Builder::new().prefix("yeoul-demo-").tempdir()?;
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["part", "what", "result", "time", "bounds"]);
    for act in ACTS.iter().filter(|act| args.act.is_empty() || args.act.iter().any(|name| name == act.name)) {
        eprintln!("yeoul {}: {}", act.name, act.about);
        for row in (act.run)(&Stage { dir: dir.path() })? {
            table.add_row([act.name.to_owned(), row.what, row.result, seconds(row.time), row.bounds]);
        }
    }
    if let Some(column) = table.column_mut(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let total = seconds(started.elapsed());
    let mut out = io::stdout().lock();
    let written = writeln!(out, "{table}\nEvery result was checked; the whole took {total}.");
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}
