use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use futures::StreamExt;
use terminal_size::{Width, terminal_size_of};
use yeoul_base::Report;

use super::command::{Action, find, help, help_for, parse};
use super::engine::{Answer, Diagnose, Engine};
use super::interrupt::{Interrupts, or_interrupt};
use super::names::may_change_names;
use super::script::{Opener, Step, Steps, open};
use super::statement::{Quotes, Statement};
use crate::Place;
use crate::output::{
    Format, OutputError, OutputOptions, ProgressLine, ProgressSource, Summary, duration_text, full_disk_hint,
    write_answer,
};

/// How deep files that `.read` other files may be nested.
const READ_DEPTH_MAX: usize = 16;
/// The most tables whose columns `.schema` lists.
const SCHEMA_TABLES_MAX: usize = 1_000;

/// The way in which a shell shows answers, times and notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The format of answers.
    pub format: Format,
    /// The other options for answers. In an interactive shell the width follows the terminal.
    pub output: OutputOptions,
    /// Whether to show the time that each statement took and the number of its rows.
    pub timer: bool,
    /// The meaning of quotes in scripts and lines.
    pub quotes: Quotes,
    /// Whether a person types: then each statement gets a response, if only `done`.
    pub interactive: bool,
    /// Whether to suppress notices and the progress line.
    pub quiet: bool,
    /// Whether answers and the progress line share a terminal, so that the line has to be removed before an answer is
    /// written.
    pub answers_on_terminal: bool,
}

impl Settings {
    /// For a script or a pipe. Row counts and times are shown with tables, but not with formats for programs.
    pub fn for_script(format: Format) -> Self {
        Self {
            format,
            output: OutputOptions::default(),
            timer: format == Format::Table,
            quotes: Quotes::default(),
            interactive: false,
            quiet: false,
            answers_on_terminal: false,
        }
    }

    /// For answers that go to stdout: like [`for_script`](Self::for_script), and fitted to the terminal if stdout is one.
    pub fn for_stdout(format: Format) -> Self {
        let settings = Self::for_script(format);
        if !std::io::stdout().is_terminal() {
            return settings;
        }
        // https://no-color.org
        let color = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let rows_max = Some(OutputOptions::TERMINAL_ROWS_MAX);
        let output = OutputOptions { width: Some(terminal_width()), rows_max, color, ..settings.output };
        Self { output, answers_on_terminal: true, ..settings }
    }
}

/// The width of the terminal on stdout, or 80 if it does not report it.
pub(super) fn terminal_width() -> usize {
    terminal_size_of(std::io::stdout()).map_or(80, |(Width(columns), _)| usize::from(columns))
}

/// Where the shell writes.
pub struct Console<'a> {
    /// Answers.
    pub out: &'a mut (dyn Write + Send),
    /// Everything else. Failed writes are ignored.
    pub err: &'a mut (dyn Write + Send),
}

/// The end of a statement or a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// Everything was done.
    Done,
    /// Something failed, and has been reported.
    Failed,
    /// The user stopped it.
    Interrupted,
    /// The reader of the answers has closed the pipe and does not want the rest. A success.
    ReaderGone,
    /// The user asked to leave.
    Quit,
}

/// Runs statements and commands, one after the other.
pub struct Shell<E> {
    pub(super) engine: E,
    pub(super) settings: Settings,
    pub(super) interrupts: Box<dyn Interrupts>,
    /// Answers written so far in a binary format. A file holds only one.
    binary_answers: usize,
    /// Whether tables or views may have come or gone since the names for completion were last read.
    pub(super) names_are_old: bool,
}

impl<E: Engine> Shell<E> {
    /// A shell over `engine`.
    pub fn new(engine: E, settings: Settings, interrupts: Box<dyn Interrupts>) -> Self {
        Self { engine, settings, interrupts, binary_answers: 0, names_are_old: true }
    }

    /// The number of answers that were written in a binary format. A file holds only one.
    pub fn binary_answers(&self) -> usize {
        self.binary_answers
    }

    /// Runs a script up to its end or its first failure, which is reported with its place in the script `name`.
    ///
    /// A separate thread reads the script, so that an interrupt works while the next line is awaited.
    pub async fn run_script(
        &mut self,
        script: impl BufRead + Send + 'static,
        name: Option<&str>,
        console: &mut Console<'_>,
    ) -> Outcome {
        self.run_steps(Box::new(|| Ok(script)), name, 0, console).await
    }

    /// Runs the statements of a file, as [`run_script`](Self::run_script) does.
    pub async fn run_file(&mut self, path: &Path, console: &mut Console<'_>) -> Outcome {
        let name = path.display().to_string();
        self.run_steps(file(path), Some(&name), 0, console).await
    }

    pub(super) async fn run_steps<R: BufRead + 'static>(
        &mut self,
        script: Opener<R>,
        name: Option<&str>,
        depth: usize,
        console: &mut Console<'_>,
    ) -> Outcome {
        let mut steps = match Steps::read(script, self.settings.quotes) {
            Ok(steps) => steps,
            Err(error) => return fail(console, &Report::from_error(&error)),
        };
        loop {
            let outcome = match or_interrupt(self.interrupts.as_mut(), steps.next()).await {
                None => interrupted(console),
                Some(Ok(None)) => return Outcome::Done,
                Some(Ok(Some(Step::Statement(statement)))) => {
                    self.run_statement(&statement, name, console).await
                }
                Some(Ok(Some(Step::Command { text, place }))) => {
                    self.run_command(&text, name, place, depth, console).await
                }
                Some(Err(error)) => {
                    let mut report = Report::from_error(&error);
                    if let Some(place) = error.place() {
                        report = report.in_script(name, place);
                    }
                    fail(console, &report)
                }
            };
            if outcome != Outcome::Done {
                return outcome;
            }
        }
    }

    /// Runs one statement of the script `name`, until it is done or interrupted.
    async fn run_statement(
        &mut self,
        statement: &Statement,
        name: Option<&str>,
        console: &mut Console<'_>,
    ) -> Outcome {
        let started = Instant::now();
        self.names_are_old |= may_change_names(&statement.text);
        let run =
            run_to_end(&self.engine, &self.settings, &mut self.binary_answers, &statement.text, console);
        match or_interrupt(self.interrupts.as_mut(), run).await {
            None => interrupted(console),
            Some(Ok(summary)) if summary.closed => Outcome::ReaderGone,
            Some(Ok(summary)) => {
                if self.settings.timer || self.settings.interactive {
                    tell(console, &self.footer(&summary, started));
                }
                Outcome::Done
            }
            Some(Err(failure)) => {
                let sql = &statement.text;
                let report = match failure {
                    RunFailure::Engine(error) => error.report(sql, name, statement.place),
                    RunFailure::Other(report) => report,
                };
                tell(console, &report.text());
                Outcome::Failed
            }
        }
    }

    fn footer(&self, summary: &Summary, started: Instant) -> String {
        let elapsed = started.elapsed();
        if summary.columns > 0 {
            return format!("{}\n", summary.footer(self.settings.timer.then_some(elapsed)));
        }
        if self.settings.timer {
            format!("done in {}\n", duration_text(elapsed))
        } else {
            "done\n".to_owned()
        }
    }

    /// Runs one command, such as `.tables`.
    pub(super) async fn run_command(
        &mut self,
        line: &str,
        name: Option<&str>,
        place: Place,
        depth: usize,
        console: &mut Console<'_>,
    ) -> Outcome {
        let action = match parse(line) {
            Ok(action) => action,
            Err(error) => {
                let mut report = Report::from_error(&error).hint(Some(error.hint()));
                if name.is_some() {
                    report = report.in_script(name, place);
                }
                tell(console, &report.text());
                return Outcome::Failed;
            }
        };
        match action {
            Action::Quit => Outcome::Quit,
            Action::Help(None) => self.print(console, &help()),
            Action::Help(Some(topic)) => {
                let topic = if topic.starts_with(['.', '\\']) { topic } else { format!(".{topic}") };
                match find(&topic) {
                    Ok(command) => self.print(console, &help_for(command)),
                    Err(error) => fail(console, &Report::from_error(&error).hint(Some(error.hint()))),
                }
            }
            Action::Timer(on) => {
                self.settings.timer = on.unwrap_or(!self.settings.timer);
                self.acknowledge("timer", if self.settings.timer { "on" } else { "off" }, console)
            }
            Action::Mode(Some(_)) if !self.settings.format.is_text() => {
                let message = format!("a {} file holds one answer, and nothing else", self.settings.format);
                fail(console, &Report::new(message).hint(Some("leave out --format, or the .mode".to_owned())))
            }
            Action::Mode(format) => {
                self.settings.format = format.unwrap_or(self.settings.format);
                self.acknowledge("mode", self.settings.format.name(), console)
            }
            Action::MaxRows(rows_max) => {
                if let Some(rows_max) = rows_max {
                    self.settings.output.rows_max = rows_max;
                }
                let shown = self.settings.output.rows_max;
                self.acknowledge("maxrows", &shown.map_or("all".to_owned(), |rows| rows.to_string()), console)
            }
            Action::Memory => self.print(console, &format!("{}\n", self.engine.memory_report().trim_end())),
            Action::Tables(text) => {
                let listed = list_tables(&self.engine, &self.settings, text.as_deref(), console);
                let ended = or_interrupt(self.interrupts.as_mut(), listed).await;
                ended.unwrap_or_else(|| interrupted(console))
            }
            Action::Schema(table) => {
                let listed = list_columns(&self.engine, &self.settings, table.as_deref(), console);
                let ended = or_interrupt(self.interrupts.as_mut(), listed).await;
                ended.unwrap_or_else(|| interrupted(console))
            }
            Action::Jobs => {
                let listed = list_jobs(&self.engine, &self.settings, console);
                let ended = or_interrupt(self.interrupts.as_mut(), listed).await;
                ended.unwrap_or_else(|| interrupted(console))
            }
            Action::Read(path) => self.read_file(&path, depth, console).await,
        }
    }

    fn acknowledge(&self, what: &str, value: &str, console: &mut Console<'_>) -> Outcome {
        if self.settings.interactive {
            tell(console, &format!("{what} {value}\n"));
        }
        Outcome::Done
    }

    async fn read_file(&mut self, path: &Path, depth: usize, console: &mut Console<'_>) -> Outcome {
        let name = path.display().to_string();
        if depth >= READ_DEPTH_MAX {
            let message = format!("'{name}' is the {READ_DEPTH_MAX}th file that reads another one");
            return fail(console, &Report::new(message).hint(Some("does a file read itself?".to_owned())));
        }
        Box::pin(self.run_steps(file(path), Some(&name), depth + 1, console)).await
    }

    /// Writes the shell's own text to where answers go, or to `console.err` if the answer's format is binary.
    fn print(&self, console: &mut Console<'_>, text: &str) -> Outcome {
        if !self.settings.format.is_text() {
            tell(console, text);
            return Outcome::Done;
        }
        match console.out.write_all(text.as_bytes()).and_then(|()| console.out.flush()) {
            Ok(()) => Outcome::Done,
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Outcome::ReaderGone,
            Err(error) => fail(console, &Report::new(format!("cannot write: {error}"))),
        }
    }
}

async fn list_tables<E: Engine>(
    engine: &E,
    settings: &Settings,
    text: Option<&str>,
    console: &mut Console<'_>,
) -> Outcome {
    let mut tables = match engine.tables().await {
        Ok(tables) => tables,
        Err(error) => return fail(console, &error.report("", None, Place::START)),
    };
    if let Some(text) = text {
        let text = text.to_lowercase();
        tables.retain(|table| table.to_lowercase().contains(&text));
    }
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(tables));
    show(settings, [("table", names)], console).await
}

async fn list_columns<E: Engine>(
    engine: &E,
    settings: &Settings,
    table: Option<&str>,
    console: &mut Console<'_>,
) -> Outcome {
    let tables = match table {
        Some(table) => vec![table.to_owned()],
        None => match engine.tables().await {
            Ok(tables) => tables.into_iter().take(SCHEMA_TABLES_MAX).collect(),
            Err(error) => return fail(console, &error.report("", None, Place::START)),
        },
    };
    let (mut owners, mut infos) = (Vec::new(), Vec::new());
    for name in &tables {
        match engine.columns(name).await {
            Ok(columns) => {
                owners.resize(owners.len() + columns.len(), name);
                infos.extend(columns);
            }
            Err(error) => return fail(console, &error.report("", None, Place::START)),
        }
    }
    let columns: [(&str, ArrayRef); 3] = [
        ("table", Arc::new(StringArray::from_iter_values(owners))),
        ("column", Arc::new(StringArray::from_iter_values(infos.iter().map(|info| &info.name)))),
        ("type", Arc::new(StringArray::from_iter_values(infos.iter().map(|info| &info.data_type)))),
    ];
    if table.is_some() {
        show(settings, columns.into_iter().skip(1), console).await
    } else {
        show(settings, columns, console).await
    }
}

async fn list_jobs<E: Engine>(engine: &E, settings: &Settings, console: &mut Console<'_>) -> Outcome {
    match engine.jobs().await {
        Ok(jobs) => show_rows(settings, jobs, console).await,
        Err(error) => fail(console, &error.report("", None, Place::START)),
    }
}

/// Shows the shell's own columns; see [`show_rows`].
async fn show(
    settings: &Settings,
    columns: impl IntoIterator<Item = (&'static str, ArrayRef)>,
    console: &mut Console<'_>,
) -> Outcome {
    let rows =
        RecordBatch::try_from_iter(columns).expect("the columns have the same length and distinct names");
    show_rows(settings, rows, console).await
}

/// Shows the shell's own rows in the format of answers; if that is binary, as a table on `console.err`.
async fn show_rows(settings: &Settings, batch: RecordBatch, console: &mut Console<'_>) -> Outcome {
    let schema = batch.schema();
    let batches = futures::stream::iter([Ok::<_, std::convert::Infallible>(batch)]);
    let is_text = settings.format.is_text();
    let format = if is_text { settings.format } else { Format::Table };
    let out: &mut (dyn Write + Send) = if is_text { console.out } else { console.err };
    let options = OutputOptions { rows_max: None, ..settings.output };
    match write_answer(batches, schema, format, &options, out).await {
        Ok(summary) if summary.closed => Outcome::ReaderGone,
        Ok(_) => Outcome::Done,
        Err(error) => fail(console, &Report::from_error(&error)),
    }
}

enum RunFailure<E> {
    Engine(E),
    Other(Report),
}

/// Starts a statement, and writes its answer completely.
async fn run_to_end<E: Engine>(
    engine: &E,
    settings: &Settings,
    binary_answers: &mut usize,
    sql: &str,
    console: &mut Console<'_>,
) -> Result<Summary, RunFailure<E::Error>> {
    let Answer { schema, is_plan, batches, watch } = engine.run(sql).await.map_err(RunFailure::Engine)?;
    if !settings.format.is_text() && !schema.fields().is_empty() {
        *binary_answers += 1;
        if *binary_answers > 1 {
            let message =
                format!("the script has more than one answer, and a {} file holds one", settings.format);
            let hint = format!("write files of their own with COPY (…) TO 'file.{}'", settings.format);
            return Err(RunFailure::Other(Report::new(message).hint(Some(hint))));
        }
    }
    // A statement without an answer writes nothing, not even a header.
    let format = if schema.fields().is_empty() { Format::Table } else { settings.format };
    let output = OutputOptions { is_plan, ..settings.output };
    let watch = watch.filter(|_| !settings.quiet);
    let source = watch.as_ref().map(|watch| Arc::clone(watch) as Arc<dyn ProgressSource>);
    let mut progress = source.map(ProgressLine::on_stderr);
    let written = {
        let batches = batches.inspect(|_| {
            if let Some(progress) = progress.as_mut().filter(|_| settings.answers_on_terminal) {
                progress.clear();
            }
        });
        write_answer(batches, schema, format, &output, console.out).await
    };
    drop(progress);
    for notice in watch.iter().flat_map(|watch| watch.notices()) {
        tell(console, &format!("notice: {notice}\n"));
    }
    written.map_err(|error| match error {
        OutputError::Query(error) => RunFailure::Engine(error),
        error => RunFailure::Other(Report::from_error(&error).hint(hint_of(&error))),
    })
}

/// The hint for an answer that could not be written completely.
fn hint_of<E: std::error::Error>(error: &OutputError<E>) -> Option<String> {
    let OutputError::Write(error) = error else { return None };
    full_disk_hint(error).map(str::to_owned)
}

/// Opens a file of statements, when called.
fn file(path: &Path) -> Opener<impl BufRead + 'static> {
    let path: PathBuf = path.to_owned();
    Box::new(move || open(&path))
}

fn interrupted(console: &mut Console<'_>) -> Outcome {
    tell(console, "interrupted\n");
    Outcome::Interrupted
}

fn fail(console: &mut Console<'_>, report: &Report) -> Outcome {
    tell(console, &report.text());
    Outcome::Failed
}

pub(super) fn tell(console: &mut Console<'_>, text: &str) {
    // If stderr fails, there is nowhere left to report it.
    let _ = console.err.write_all(text.as_bytes()).and_then(|()| console.err.flush());
}

#[cfg(test)]
#[path = "steps_tests.rs"]
mod tests;
