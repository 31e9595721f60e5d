//! `yeoul generate`: the tables of TPC-H and TPC-DS as Parquet files, one file per table.
//!
//! Rows come from the crates `tpchgen-arrow` and `tpcdsgen-arrow`, which reproduce the official generators' output. The
//! same suite and scale give the same rows on every machine and with any number of threads.
//!
//! Memory does not grow with the scale: each thread holds one row group, and TPC-H's generator 300 MiB of text.

mod args;
mod manifest;
mod table;
mod table_file;
mod tpcds;
mod tpch;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};

pub use self::args::GenerateArgs;
pub(crate) use self::args::{parse_scale, parse_threads};
use self::manifest::Entry;
pub(crate) use self::manifest::Manifest;
use self::table::{ROWS_PER_PART, Table};
use self::table_file::{Written, temporary_path};
use yeoul_base::ErrorKind;
use yeoul_disk::{FolderLock, LockOptions};

use crate::error::{Error, Result};

/// The smallest scale: below it some tables would be empty, and the generators would divide by zero.
pub(crate) const SCALE_MIN: f64 = 0.001;
/// The largest scale that TPC-DS defines; we use it for TPC-H too.
pub(crate) const SCALE_MAX: f64 = 100_000.0;

/// A benchmark, by its tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Suite {
    /// Eight tables of orders and their parts: about 1 GB as text at scale 1, 0.3 GB as Parquet.
    TpcH,
    /// 24 tables of three sales channels: about 1 GB as text at scale 1, 0.4 GB as Parquet.
    TpcDs,
}

impl Suite {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::TpcH => "tpch",
            Self::TpcDs => "tpcds",
        }
    }

    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::TpcH => "TPC-H",
            Self::TpcDs => "TPC-DS",
        }
    }

    fn tables(self, scale: f64, part_rows: u64) -> Result<Vec<Table>> {
        match self {
            Self::TpcH => Ok(tpch::tables(scale, part_rows)),
            Self::TpcDs => tpcds::tables(scale, part_rows),
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Suite {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "tpch" => Ok(Self::TpcH),
            "tpcds" => Ok(Self::TpcDs),
            _ => Err(format!("unknown suite {name:?}; there are tpch and tpcds")),
        }
    }
}

/// What to generate, and where.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The suite.
    pub suite: Suite,
    /// The scale factor, [`SCALE_MIN`] to [`SCALE_MAX`]; fractions such as 0.01 work.
    pub scale: f64,
    /// The directory, created if missing; each table becomes `<table>.parquet` in it.
    pub out: PathBuf,
    /// Threads to use; all of the machine's if `None`.
    pub threads: Option<usize>,
    /// Generate existing tables again, and replace tables of another suite or scale.
    pub force: bool,
    /// Show a progress bar, if stderr is a terminal.
    pub progress: bool,
}

impl Options {
    /// `suite` at `scale` into `out`, with all threads and a progress bar, keeping existing tables.
    pub fn new(suite: Suite, scale: f64, out: impl Into<PathBuf>) -> Self {
        Self { suite, scale, out: out.into(), threads: None, force: false, progress: true }
    }
}

/// The tables in the directory after [`generate`].
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Summary {
    /// The suite.
    pub suite: Suite,
    /// The scale factor.
    pub scale: f64,
    /// Where they are.
    pub out: PathBuf,
    /// The tables, sorted by name.
    pub tables: Vec<TableSummary>,
    /// How long it took, in seconds.
    pub seconds: f64,
}

/// A table in the directory.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct TableSummary {
    /// The table's name.
    pub name: String,
    /// Rows in it.
    pub rows: u64,
    /// Bytes of its file.
    pub bytes: u64,
    /// Whether it existed before.
    pub kept: bool,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut rows, mut bytes) = (0, 0);
        for table in &self.tables {
            rows += table.rows;
            bytes += table.bytes;
            let kept = if table.kept { "  kept" } else { "" };
            let (count, size) = (HumanCount(table.rows).to_string(), HumanBytes(table.bytes).to_string());
            writeln!(f, "{:<24} {count:>15} rows {size:>12}{kept}", table.name)?;
        }
        write!(
            f,
            "{} at scale {}: {} tables, {} rows, {} in {} after {:.1} s",
            self.suite.title(),
            self.scale,
            self.tables.len(),
            HumanCount(rows),
            HumanBytes(bytes),
            self.out.display(),
            self.seconds,
        )
    }
}

/// Generates the tables of `options` that do not exist yet. Setting `stop` ends it soon.
///
/// A table gets its final name only when it is complete and on disk. An interrupted run leaves the tables that were
/// finished, and the next one continues from there.
///
/// # Errors
/// `Invalid` for a scale out of range; `Conflict` if the directory holds other tables, or is being written to;
/// `Cancelled` after `stop`; `Denied`, `ResourceExhausted` and the like from the file system.
pub(crate) fn generate(options: &Options, stop: &AtomicBool) -> Result<Summary> {
    generate_in_parts(options, stop, ROWS_PER_PART)
}

fn generate_in_parts(options: &Options, stop: &AtomicBool, part_rows: u64) -> Result<Summary> {
    let start = Instant::now();
    let Options { suite, scale, ref out, .. } = *options;
    if !(SCALE_MIN..=SCALE_MAX).contains(&scale) {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!("scale {scale} is not from {SCALE_MIN} to {SCALE_MAX}"),
        )
        .with_hint("1 is about 1 GB of text; 0.01 is enough to try things"));
    }
    let tables = suite.tables(scale, part_rows)?;
    fs::create_dir_all(out).map_err(|e| Error::io("create", out, e))?;
    let _lock = lock(out)?;
    let mut manifest = start_manifest(options, &tables)?;

    let threads = options.threads.unwrap_or_else(|| available_parallelism().map_or(1, |n| n.get()));
    let bar = if options.progress { progress_bar(&tables) } else { ProgressBar::hidden() };
    let mut summaries = Vec::with_capacity(tables.len());
    for table in &tables {
        let (entry, kept) = match manifest.has(out, table.name) {
            Some(entry) => {
                bar.inc(table.rows);
                (entry, true)
            }
            None => {
                bar.set_message(table.name);
                let path = file_of(out, table.name);
                let result = table_file::write(table, &path, threads, stop, &|rows| bar.inc(rows));
                let Written { rows, bytes } = result.inspect_err(|_| bar.finish_and_clear())?;
                let entry = Entry { rows, bytes };
                manifest.tables.insert(table.name.to_owned(), entry);
                manifest.write(out)?;
                (entry, false)
            }
        };
        summaries.push(TableSummary {
            name: table.name.to_owned(),
            rows: entry.rows,
            bytes: entry.bytes,
            kept,
        });
    }
    bar.finish_and_clear();
    summaries.sort_by(|a, b| a.name.cmp(&b.name));
    let seconds = start.elapsed().as_secs_f64();
    Ok(Summary { suite, scale, out: out.clone(), tables: summaries, seconds })
}

/// The manifest to continue with: the directory's own if it is of the same suite and scale, or an empty one if none of the
/// files to be written exists.
fn start_manifest(options: &Options, tables: &[Table]) -> Result<Manifest> {
    let Options { suite, scale, ref out, force, .. } = *options;
    for table in tables {
        // Left by a run that was killed: we hold the lock, so nobody is writing to it.
        let _ = fs::remove_file(temporary_path(&file_of(out, table.name)));
    }
    if force {
        remove_others(out, tables)?;
        // The manifest is removed first, so that it never lists a replaced table with the old one's size.
        let path = Manifest::path(out);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(Error::io("remove", &path, e)),
            _ => return Ok(Manifest::new(suite, scale)),
        }
    }
    let conflict = |message: String| {
        Error::new(ErrorKind::Conflict, message).with_hint("choose another --out, or replace it with --force")
    };
    match Manifest::read(out)? {
        Some(manifest) if manifest.is_of(suite, scale) => Ok(manifest),
        Some(other) => Err(conflict(format!(
            "{} holds {} at scale {}, not {} at scale {scale}",
            out.display(),
            other.suite,
            other.scale,
            suite
        ))),
        None => match tables.iter().map(|t| file_of(out, t.name)).find(|path| path.exists()) {
            Some(path) => {
                Err(conflict(format!("{} is there already, and not from yeoul generate", path.display())))
            }
            None => Ok(Manifest::new(suite, scale)),
        },
    }
}

/// Removes the tables in the directory that its manifest lists and that are none of `tables`: those of another suite, which
/// would be tables of a benchmark on that directory. It comes before the manifest goes, without which nobody knows them.
fn remove_others(out: &Path, tables: &[Table]) -> Result<()> {
    // What a manifest that cannot be understood has listed stays.
    let Ok(Some(old)) = Manifest::read(out) else { return Ok(()) };
    let is_other = |name: &&String| tables.iter().all(|table| table.name != name.as_str());
    // Whoever wrote that file, nothing outside of the directory goes.
    let is_plain = |name: &&String| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    for name in old.tables.keys().filter(is_other).filter(is_plain) {
        let path = file_of(out, name);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(Error::io("remove", &path, e)),
            _ => {}
        }
    }
    Ok(())
}

/// Keeps a second `generate` out of the directory; the operating system releases the lock if this process dies.
fn lock(out: &Path) -> Result<FolderLock> {
    let options = LockOptions { name: ".yeoul-generate.lock", owner: "yeoul generate", wait: Duration::ZERO };
    FolderLock::acquire(out, options).map_err(|error| match error.kind() {
        ErrorKind::Conflict => {
            let text = format!("another yeoul generate is writing to {}", out.display());
            Error::new(ErrorKind::Conflict, text)
        }
        kind => Error::new(kind, error.to_string()),
    })
}

fn file_of(directory: &Path, table: &str) -> PathBuf {
    directory.join(format!("{table}.parquet"))
}

fn progress_bar(tables: &[Table]) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{msg:24} {wide_bar} {percent:>3}%  {human_pos} rows  {elapsed} ~{eta}")
            .expect("the template is well-formed");
    let bar = ProgressBar::new(tables.iter().map(|t| t.rows).sum()).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

#[cfg(test)]
mod tests;
