//! `yeoul demo`: what each part does, in under a minute, with no network and nothing else installed.
//!
//! An act is a function from the stage to rows of the closing table; another part adds a file and a line in [`ACTS`].

#[cfg(feature = "cluster")]
mod cluster;
#[cfg(feature = "dfs")]
mod dfs;
#[cfg(feature = "shuffle")]
mod shuffle;
#[cfg(feature = "sql")]
mod sql;
#[cfg(feature = "stream")]
mod stream;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[cfg(feature = "sql")]
use arrow::array::RecordBatch;
#[cfg(feature = "sql")]
use arrow::util::display::array_value_to_string;
use clap::Args;
use clap::builder::PossibleValuesParser;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde_json::json;
use tokio::sync::watch;
use yeoul_base::{ErrorKind, Report};

use crate::exit::{Asked, Stop, interrupted, print, refused};

/// Show what Yeoul does, in under a minute
///
/// Generates data in a temporary directory, runs each part on it, checks the results, and shows a table of what happened.
#[derive(Args)]
#[command(
    after_help = "Exit code: 0 done, 1 a result was wrong or an act failed, 2 wrong usage, 130 interrupted, 143 terminated."
)]
pub struct DemoArgs {
    /// Run only the acts with these names
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = PossibleValuesParser::new(ACTS.iter().map(|act| act.name)))]
    act: Vec<String>,

    /// Print what happened as JSON, instead of the table
    #[arg(long)]
    json: bool,
}

/// How long an act may take to leave when it is told to.
const LEAVE_MAX: Duration = Duration::from_secs(10);

/// What an act may use.
struct Stage {
    /// A directory of its own, removed at the end.
    dir: PathBuf,
    /// Whether it is to leave, and to leave nothing running that writes there.
    stopped: watch::Receiver<bool>,
}

impl Stage {
    /// Works until it is done, or the demo is told to stop.
    async fn unless_stopped<T>(&self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let mut stopped = self.stopped.clone();
        tokio::select! {
            done = work => done,
            _ = stopped.wait_for(|stopped| *stopped) => Err(STOPPED.into()),
        }
    }

    #[cfg(feature = "sql")]
    fn is_stopped(&self) -> bool {
        *self.stopped.borrow()
    }
}

/// Why an act that was told to leave is not done.
const STOPPED: &str = "interrupted";

/// A line of the closing table, or an object of the JSON.
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

const ACTS: &[Act] = &[
    #[cfg(feature = "sql")]
    Act { name: "sql", about: "SQL on 8.7 million rows, in a process of at most 512 MiB", run: sql::run },
    #[cfg(feature = "cluster")]
    Act {
        name: "cluster",
        about: "a join on two executors, of which one is killed half-way",
        run: cluster::run,
    },
    #[cfg(feature = "shuffle")]
    Act { name: "shuffle", about: "a replicated shuffle that loses a worker half-way", run: shuffle::run },
    #[cfg(feature = "dfs")]
    Act {
        name: "dfs",
        about: "an erasure-coded file that is read without two of its DataNodes, and repaired",
        run: dfs::run,
    },
    #[cfg(feature = "stream")]
    Act { name: "stream", about: "a windowed count that is killed again and again", run: stream::run },
];

pub fn run(args: DemoArgs) -> ExitCode {
    match play(args) {
        Ok(Ended::Done) => ExitCode::SUCCESS,
        Ok(Ended::Stopped(asked)) => interrupted(asked),
        Err(failure) => {
            let report = Report::new(format!("the demo failed: {failure}"));
            refused(ErrorKind::Unavailable, &report)
        }
    }
}

enum Ended {
    Done,
    Stopped(Asked),
}

/// Plays the acts on a thread of their own, so that a signal ends them at any moment and leaves nothing behind.
fn play(args: DemoArgs) -> Result<Ended, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        // Before there is anything that a signal would leave behind.
        let mut stop = Stop::listen()?;
        let dir = tempfile::Builder::new().prefix("yeoul-demo-").tempdir()?;
        let (tell, stopped) = watch::channel(false);
        let stage = Stage { dir: dir.path().to_owned(), stopped };
        let mut acts = tokio::task::spawn_blocking(move || perform(&args, &stage));
        let asked = tokio::select! {
            // First: an act whose process got the same Ctrl-C may have failed of it.
            biased;
            asked = stop.asked() => asked,
            done = &mut acts => return done?.map(|()| Ended::Done),
        };
        tell.send_replace(true);
        // What they say now is of no interest, but while they write the directory cannot be removed.
        tokio::select! {
            _ = tokio::time::timeout(LEAVE_MAX, acts) => {}
            _ = stop.asked() => {}
        }
        Ok(Ended::Stopped(asked))
    });
    // An act that does not leave does not keep the process.
    runtime.shutdown_background();
    ended
}

fn perform(args: &DemoArgs, stage: &Stage) -> Result<(), Failure> {
    let started = Instant::now();
    let mut rows = Vec::new();
    for act in ACTS.iter().filter(|act| args.act.is_empty() || args.act.iter().any(|name| name == act.name)) {
        eprintln!("yeoul {}: {}", act.name, act.about);
        rows.extend((act.run)(stage)?.into_iter().map(|row| (act.name, row)));
    }
    let total = started.elapsed();
    let text = if args.json { to_json(&rows, total) } else { to_table(rows, total) };
    Ok(print(&text)?)
}

fn to_json(rows: &[(&str, Row)], total: Duration) -> String {
    let rows: Vec<_> = rows
        .iter()
        .map(|(part, Row { what, result, time, bounds })| {
            json!({"part": part, "what": what, "result": result, "seconds": time.as_secs_f64(), "bounds": bounds})
        })
        .collect();
    format!("{:#}", json!({"rows": rows, "seconds": total.as_secs_f64()}))
}

fn to_table(rows: Vec<(&str, Row)>, total: Duration) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["part", "what", "result", "time", "bounds"]);
    for (part, row) in rows {
        table.add_row([part.to_owned(), row.what, row.result, seconds(row.time), row.bounds]);
    }
    if let Some(column) = table.column_mut(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{table}\nEvery result was checked; the whole took {}.", seconds(total))
}

/// The value of an answer of one row and column, as text.
#[cfg(feature = "sql")]
fn single_value(batches: &[RecordBatch]) -> Result<String, Failure> {
    match batches.iter().filter(|batch| batch.num_rows() > 0).collect::<Vec<_>>().as_slice() {
        [batch] if batch.num_rows() == 1 && batch.num_columns() == 1 => {
            Ok(array_value_to_string(batch.column(0), 0)?)
        }
        _ => Err("expected one value".into()),
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_reads_what_the_table_shows() {
        let row = || Row {
            what: "count".to_owned(),
            result: "7".to_owned(),
            time: Duration::from_millis(1500),
            bounds: String::new(),
        };
        let read: serde_json::Value =
            serde_json::from_str(&to_json(&[("sql", row())], Duration::from_secs(2))).unwrap();
        let expected = json!({"part": "sql", "what": "count", "result": "7", "seconds": 1.5, "bounds": ""});
        assert_eq!(read, json!({"rows": [expected], "seconds": 2.0}));
        let table = to_table(vec![("sql", row())], Duration::from_secs(2));
        assert!(table.contains("1.50 s") && table.ends_with("the whole took 2.00 s."), "{table}");
    }
}
