//! `yeoul sql`: SQL on files, for people and for scripts.

mod signals;

use std::io::{self, BufReader, IsTerminal, Write};
use std::panic;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use clap::Args;
use yeoul_base::{ByteSize, ErrorKind, Report};
use yeoul_sql::output::{Format, NewFile, OutputOptions, full_disk_hint};
use yeoul_sql::shell::{Console, CtrlC, Interrupts, Outcome, Quotes, Settings, Shell, note_panic, rows_max};
use yeoul_sql::{Error, Options, STACK_BYTES, Session, System};

use self::signals::{First, Signals};
use crate::allocator::keep_to_small_limit;
use crate::exit::{Asked, refused};
use crate::memory::beyond_machine;

const EXAMPLES: &str = "\
Examples:
  yeoul sql                                                    the shell: .help lists its commands
  yeoul sql -c \"SELECT count(*) FROM 'events/*.parquet'\"       files and globs are tables
  yeoul sql -c \"COPY (SELECT …) TO 'out.parquet'\" --memory 1GiB
  yeoul sql -f report.sql -o report.csv                        report.csv appears once it is complete
  yeoul sql --dialect spark -f report.sql                      statements of Spark, with its meaning
  echo 'SELECT 6 * 7 AS answer' | yeoul sql --format json

Answers go to stdout, all else to stderr. Exit code: 0 done, 1 failed or refused, 2 wrong usage,
130 interrupted, 143 terminated.";

/// Run SQL on files: Parquet, CSV, JSON lines and Arrow, local or at s3://, http(s):// or hdfs://
///
/// Without -c and -f it reads SQL from stdin; at a terminal, it is a shell with history and completion.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct SqlArgs {
    /// Run these statements and exit; may be given more than once
    #[arg(short, long, value_name = "SQL", conflicts_with = "file", allow_hyphen_values = true)]
    command: Vec<String>,

    /// Run the statements of a file and exit; - is stdin; may be given more than once
    #[arg(short, long, value_name = "FILE")]
    file: Vec<PathBuf>,

    /// Output format: table, csv, json (an object per line), line (a line per value), parquet or arrow [default: by the
    /// extension of --output, else table]
    #[arg(long)]
    format: Option<Format>,

    /// Write the answer to this file, which appears only once it is complete
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Show at most N rows of a table, the first and the last ones; or all [default: 40 on a terminal, else all]
    #[arg(long, value_name = "N", value_parser = rows, allow_negative_numbers = true)]
    max_rows: Option<RowsMax>,

    /// Print errors and answers only: no row counts, times or notices
    #[arg(short, long)]
    quiet: bool,

    /// The most memory that the whole process may use, such as 1GiB; at least 128MiB [default: no limit]
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,

    /// Threads that run queries, 1 to 1024 [default: the machine's cores]
    #[arg(long, value_name = "N", value_parser = threads, allow_negative_numbers = true)]
    threads: Option<usize>,

    /// Where operators spill what does not fit into memory [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    spill_dir: Option<PathBuf>,

    /// The most spilled data on disk at a time [default: 100GiB]
    #[arg(long, value_name = "SIZE")]
    spill_limit: Option<ByteSize>,

    /// Run queries on the cluster of this scheduler
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "HOST:PORT", env = "YEOUL_CLUSTER")]
    cluster: Option<String>,

    /// The file with the secret that the cluster asks for
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "FILE", env = "YEOUL_CLUSTER_TOKEN_FILE")]
    cluster_token_file: Option<PathBuf>,

    /// Say that the paths of this machine are the same files on all machines of the cluster
    #[cfg(feature = "cluster")]
    #[arg(long, requires = "cluster")]
    shared_paths: bool,

    /// The system whose statements are taken: yeoul, which is most of PostgreSQL and DuckDB, or spark [default: yeoul]
    #[arg(long, value_name = "NAME", env = "YEOUL_SQL_DIALECT")]
    dialect: Option<System>,

    /// Set an engine setting, as SET does; may be given more than once
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting)]
    set: Vec<(String, String)>,
}

impl SqlArgs {
    fn format(&self) -> Format {
        let told = || self.output.as_deref().and_then(Format::of_file);
        self.format.or_else(told).unwrap_or(Format::Table)
    }

    /// Refuses an answer of which nobody said what it is to be: a table in `report.xlsx` is not what its name says.
    fn check_format(&self) -> Result<(), Refusal> {
        let Some(output) = self.output.as_deref().filter(|_| self.format.is_none()) else { return Ok(()) };
        let is_plain = output.extension().is_none_or(|ending| ending.eq_ignore_ascii_case("txt"));
        if is_plain || Format::of_file(output).is_some() {
            return Ok(());
        }
        let message = format!("cannot tell the format from '{}'", output.display());
        Err(Refusal::usage(message, "--format csv, json, line, parquet, arrow or table"))
    }
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// The most rows that a table shows; `None` shows all.
#[derive(Clone, Copy, Debug)]
struct RowsMax(Option<usize>);

fn rows(text: &str) -> Result<RowsMax, String> {
    rows_max(text).map(RowsMax)
}

fn threads(text: &str) -> Result<usize, String> {
    let range = 1..=Options::THREADS_MAX;
    let count = text.parse().ok().filter(|count| range.contains(count));
    count.ok_or_else(|| format!("expected a number from 1 to {}", Options::THREADS_MAX))
}

/// Runs the verb.
pub fn run(args: SqlArgs) -> ExitCode {
    keep_to_small_limit(args.memory);
    if let Some(notice) = args.memory.and_then(beyond_machine).filter(|_| !args.quiet) {
        let _ = writeln!(io::stderr(), "notice: {notice}");
    }
    if std::env::var_os("RUST_BACKTRACE").is_none() {
        // A panic becomes an error; its message and trace are for those who ask for them.
        panic::set_hook(Box::new(note_panic));
    } else {
        let shown = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            note_panic(panic);
            shown(panic);
        }));
    }
    match run_on_large_stack(&args) {
        Ok(ended) => ended.exit_code(),
        Err(Refusal { kind, report }) => refused(kind, &report),
    }
}

/// How the input ended.
struct Ended {
    outcome: Outcome,
    /// The signal that came, if it was one.
    asked: Option<Asked>,
}

impl Ended {
    fn exit_code(self) -> ExitCode {
        match self.outcome {
            Outcome::Done | Outcome::Quit | Outcome::ReaderGone => ExitCode::SUCCESS,
            Outcome::Failed => ExitCode::FAILURE,
            Outcome::Interrupted => self.asked.unwrap_or(Asked::Interrupt).code(),
        }
    }
}

/// Why nothing was run, or no more.
struct Refusal {
    kind: ErrorKind,
    report: Box<Report>,
}

impl Refusal {
    fn new(kind: ErrorKind, report: Report) -> Self {
        Self { kind, report: Box::new(report) }
    }

    fn usage(message: String, hint: &str) -> Self {
        Self::new(ErrorKind::Invalid, Report::new(message).hint(Some(hint.to_owned())))
    }

    fn io(what: &str, path: &Path, error: &io::Error) -> Self {
        let report = Report::new(format!("cannot {what} '{}': {error}", path.display()));
        let hint = full_disk_hint(error).map(str::to_owned).or_else(|| missing_folder(path));
        Self::new(ErrorKind::Unavailable, report.hint(hint))
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let report = Report::new(error.to_string()).hint(error.hint().map(str::to_owned));
        Self::new(error.kind(), report)
    }
}

/// What to do where a file cannot be written because its folder is not there.
fn missing_folder(file: &Path) -> Option<String> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists())?;
    Some(format!("there is no folder '{}': make it first", folder.display()))
}

/// Runs the input on a thread whose stack is large enough to plan any statement.
fn run_on_large_stack(args: &SqlArgs) -> Result<Ended, Refusal> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, || run_to_end(args));
        let running = thread.map_err(|error| {
            Refusal::new(ErrorKind::Unavailable, Report::new(format!("cannot start a thread: {error}")))
        })?;
        running.join().unwrap_or_else(|_| {
            let report = Report::new("unforeseen failure")
                .hint(Some("RUST_BACKTRACE=1 shows where; please report it".to_owned()));
            Err(Refusal::new(ErrorKind::Internal, report))
        })
    })
}

fn run_to_end(args: &SqlArgs) -> Result<Ended, Refusal> {
    args.check_format()?;
    let to_terminal = args.output.is_none() && io::stdout().is_terminal();
    if to_terminal && !args.format().is_text() {
        let message = format!("{} is binary, and stdout is a terminal", args.format());
        return Err(Refusal::usage(message, "write a file with --output FILE"));
    }
    let options = Options {
        memory: args.memory,
        threads: args.threads,
        spill_dir: args.spill_dir.clone(),
        spill_limit: args.spill_limit.unwrap_or(Options::SPILL_LIMIT),
        dialect: args.dialect.unwrap_or_default(),
        settings: args.set.clone(),
    };
    let runtime = yeoul_sql::runtime(&options)?;
    let mut output = match &args.output {
        Some(path) => {
            Some(NewFile::create(&below_home(path)).map_err(|error| Refusal::io("write", path, &error))?)
        }
        None => None,
    };
    let (outcome, asked, binary_answers) = {
        let _inside = runtime.enter();
        let session = Arc::new(session(args, options)?);
        session.on_promise_broken(|error| {
            let refusal = Refusal::from(error);
            let _ = refused(refusal.kind, &refusal.report);
            std::process::exit(1);
        });
        if let Some(notice) = session.notice().filter(|_| !args.quiet) {
            let _ = writeln!(io::stderr(), "notice: {notice}");
        }
        let (interrupts, asked) = interrupts(args)?;
        let mut shell = Shell::new(session, settings(args), interrupts);
        let (mut stdout, mut stderr) = (io::stdout(), io::stderr());
        let out: &mut (dyn Write + Send) = match &mut output {
            Some(file) => file,
            None => &mut stdout,
        };
        let mut console = Console { out, err: &mut stderr };
        let outcome = runtime.block_on(run_input(args, &mut shell, &mut console))?;
        (outcome, asked.get().copied(), shell.binary_answers())
    };
    if let (Some(file), Outcome::Done | Outcome::Quit) = (output, outcome) {
        if !args.format().is_text() && binary_answers == 0 {
            let message = format!("there is no answer to write, and a {} file holds one", args.format());
            return Err(Refusal::new(ErrorKind::NotFound, Report::new(message)));
        }
        let path = args.output.as_deref().unwrap_or(Path::new(""));
        file.commit().map_err(|error| Refusal::io("write", path, &error))?;
    }
    // What still runs belongs to a query that nobody waits for.
    runtime.shutdown_background();
    Ok(Ended { outcome, asked })
}

#[cfg(feature = "cluster")]
fn session(args: &SqlArgs, options: Options) -> Result<Session, Error> {
    match &args.cluster {
        Some(scheduler) => {
            let mut cluster = yeoul_cluster::Cluster::new(scheduler, args.shared_paths)?;
            if let Some(file) = &args.cluster_token_file {
                cluster = cluster.with_token(yeoul_cluster::Token::of_file(file)?);
            }
            Session::with_queries(options, Arc::new(cluster))
        }
        None => Session::new(options),
    }
}

#[cfg(not(feature = "cluster"))]
fn session(_: &SqlArgs, options: Options) -> Result<Session, Error> {
    Session::new(options)
}

/// A path as a shell would have written it out, had it not been in quotes.
fn below_home(path: &Path) -> PathBuf {
    path.to_str().map_or_else(|| path.to_owned(), |text| PathBuf::from(&*yeoul_sql::at_home(text)))
}

/// Whether a person types.
fn is_interactive(args: &SqlArgs) -> bool {
    let has_script = !args.command.is_empty() || !args.file.is_empty();
    !has_script && io::stdin().is_terminal() && io::stdout().is_terminal() && args.output.is_none()
}

/// What interrupts the input, and which signal it was. The shell of a person ends a statement with Ctrl-C, and dies of others.
fn interrupts(args: &SqlArgs) -> Result<(Box<dyn Interrupts>, First), Refusal> {
    if is_interactive(args) {
        return Ok((Box::new(CtrlC::default()), Arc::default()));
    }
    let unheard = |error: io::Error| {
        Refusal::new(ErrorKind::Unavailable, Report::new(format!("cannot handle signals: {error}")))
    };
    let Signals { told, first } = Signals::listen().map_err(unheard)?;
    Ok((Box::new(told), first))
}

fn settings(args: &SqlArgs) -> Settings {
    let settings = if args.output.is_some() {
        Settings::for_script(args.format())
    } else {
        Settings::for_stdout(args.format())
    };
    let rows_max = args.max_rows.map_or(settings.output.rows_max, |RowsMax(rows)| rows);
    Settings {
        output: OutputOptions { rows_max, is_file: args.output.is_some(), ..settings.output },
        timer: settings.timer && !args.quiet,
        quiet: args.quiet,
        quotes: Quotes::of(args.dialect.unwrap_or_default()),
        ..settings
    }
}

async fn run_input(
    args: &SqlArgs,
    shell: &mut Shell<Arc<Session>>,
    console: &mut Console<'_>,
) -> Result<Outcome, Refusal> {
    for sql in &args.command {
        match shell.run_script(io::Cursor::new(sql.clone()), None, console).await {
            Outcome::Done => {}
            ended => return Ok(ended),
        }
    }
    for path in &args.file {
        let ended = if path == Path::new("-") {
            shell.run_script(BufReader::new(io::stdin()), Some("-"), console).await
        } else {
            shell.run_file(path, console).await
        };
        match ended {
            Outcome::Done => {}
            ended => return Ok(ended),
        }
    }
    if !args.command.is_empty() || !args.file.is_empty() {
        return Ok(Outcome::Done);
    }
    if is_interactive(args) {
        let greeting =
            format!("yeoul {}; .help lists the commands, Ctrl-D leaves\n", env!("CARGO_PKG_VERSION"));
        if !args.quiet {
            let _ = console.err.write_all(greeting.as_bytes());
        }
        let ended = shell.interact(console).await;
        return ended.map_err(|error| Refusal::new(ErrorKind::Unavailable, Report::from_error(&error)));
    }
    Ok(shell.run_script(BufReader::new(io::stdin()), Some("stdin"), console).await)
}
