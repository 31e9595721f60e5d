//! Goal: a script runs step by step, answers go to one place and everything else to another, and each way to end has its
//! outcome. Method: the shell with an engine that has canned answers, and scripts as text.

use super::*;
use crate::Span;
use crate::output::ProgressSnapshot;
use crate::shell::engine::{ColumnInfo, Diagnose, Watched};
use arrow::array::Int64Array;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use futures::stream;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug, thiserror::Error)]
#[error("there is no table '{0}'")]
struct NoTable(String);

impl Diagnose for NoTable {
    fn hint(&self) -> Option<String> {
        Some("did you mean 'orders'?".to_owned())
    }
    fn span(&self) -> Option<Span> {
        let place = Place { line: 2, column: 6 };
        Some(Span { place, chars: self.0.chars().count() as u64 })
    }
}

/// Answers `count N` with N rows, `none` with nothing, `fail …` with an error, `endless` without end.
#[derive(Default)]
struct Rote {
    ran: Mutex<Vec<String>>,
    /// Whether work that does not end by itself has begun, and whether it has been dropped.
    begun: Arc<AtomicBool>,
    dropped: Arc<AtomicBool>,
}

/// No interrupts.
struct Never;

#[async_trait]
impl Interrupts for Never {
    async fn next(&mut self) {
        std::future::pending().await
    }
}

struct Told(Vec<String>);

impl ProgressSource for Told {
    fn snapshot(&self) -> ProgressSnapshot {
        ProgressSnapshot::default()
    }
}

impl Watched for Told {
    fn notices(&self) -> Vec<String> {
        self.0.clone()
    }
}

struct TellDrop(Arc<AtomicBool>);

impl Drop for TellDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn numbers(range: std::ops::Range<i64>) -> RecordBatch {
    RecordBatch::try_new(number_schema(), vec![Arc::new(Int64Array::from_iter_values(range))]).unwrap()
}

fn number_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]))
}

#[async_trait]
impl Engine for Arc<Rote> {
    type Error = NoTable;

    async fn run(&self, sql: &str) -> Result<Answer<NoTable>, NoTable> {
        self.ran.lock().unwrap().push(sql.to_owned());
        let mut notices = Vec::new();
        let (schema, batches) = match sql.split_once(' ').unwrap_or((sql, "")) {
            ("count", rows) => {
                let batch = numbers(0..rows.parse().unwrap());
                (number_schema(), stream::iter([Ok(batch)]).boxed())
            }
            ("none", _) => (Arc::new(Schema::empty()), stream::empty().boxed()),
            ("late", _) => {
                notices.push("planned again".to_owned());
                (number_schema(), stream::iter([Ok(numbers(0..1)), Err(NoTable("late".into()))]).boxed())
            }
            ("endless", _) => {
                self.begun.store(true, Ordering::Relaxed);
                let held = TellDrop(Arc::clone(&self.dropped));
                let batches = stream::repeat_with(move || {
                    let _ = &held;
                    Ok(numbers(0..1))
                });
                (number_schema(), batches.boxed())
            }
            _ => return Err(NoTable("ordres".into())),
        };
        Ok(Answer { schema, is_plan: false, batches, watch: Some(Arc::new(Told(notices))) })
    }

    async fn tables(&self) -> Result<Vec<String>, NoTable> {
        Ok(vec!["lines".to_owned(), "orders".to_owned()])
    }

    async fn columns(&self, table: &str) -> Result<Vec<ColumnInfo>, NoTable> {
        if table == "unreachable" {
            self.begun.store(true, Ordering::Relaxed);
            let _held = TellDrop(Arc::clone(&self.dropped));
            return std::future::pending().await;
        }
        if !matches!(table, "orders" | "lines") {
            return Err(NoTable(table.to_owned()));
        }
        let column = |name: &str, data_type: &str| ColumnInfo {
            name: format!("{}_{name}", &table[..1]),
            data_type: data_type.to_owned(),
        };
        Ok(vec![column("key", "BIGINT"), column("note", "VARCHAR")])
    }

    async fn jobs(&self) -> Result<RecordBatch, NoTable> {
        Ok(numbers(7..8))
    }

    fn functions(&self) -> Vec<String> {
        vec!["sum".to_owned()]
    }

    fn memory_report(&self) -> String {
        "limit 1 GiB".to_owned()
    }
}

struct Run {
    outcome: Outcome,
    out: String,
    err: String,
    ran: Vec<String>,
}

/// A script that the reading thread can own.
fn text(script: &str) -> io::Cursor<String> {
    io::Cursor::new(script.to_owned())
}

fn run_with(settings: Settings, interrupts: Box<dyn Interrupts>, script: &str, name: Option<&str>) -> Run {
    let engine = Arc::new(Rote::default());
    let mut shell = Shell::new(Arc::clone(&engine), settings, interrupts);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut console = Console { out: &mut out, err: &mut err };
    let outcome = runtime.block_on(shell.run_script(text(script), name, &mut console));
    let ran = engine.ran.lock().unwrap().clone();
    Run {
        outcome,
        out: String::from_utf8_lossy(&out).into_owned(),
        err: String::from_utf8(err).unwrap(),
        ran,
    }
}

fn run(format: Format, script: &str) -> Run {
    run_with(Settings::for_script(format), Box::new(Never), script, Some("a.sql"))
}

#[test]
fn answers_go_to_out_in_the_format_and_times_do_not() {
    let csv = run(Format::Csv, "count 2; none; count 1");
    assert_eq!((csv.outcome, csv.out.as_str(), csv.err.as_str()), (Outcome::Done, "n\n0\n1\nn\n0\n", ""));
    let table = run(Format::Table, "count 2; none;");
    assert_eq!(table.out, "┌───┐\n│ n │\n├───┤\n│ 0 │\n│ 1 │\n└───┘\n");
    let lines: Vec<&str> = table.err.lines().collect();
    assert!(lines[0].starts_with("2 rows in ") && lines[1].starts_with("done in "), "{lines:?}");
}

#[test]
fn a_failure_ends_the_script_and_points_at_its_place() {
    let run = run(Format::Csv, "count 1;\n-- now\n  select\n from ordres;\ncount 2;");
    assert_eq!((run.outcome, run.out.as_str()), (Outcome::Failed, "n\n0\n"));
    assert_eq!(run.ran, ["count 1", "select\n from ordres"]);
    let expected = "error: there is no table 'ordres'\n --> a.sql:4:6\n  |\n4 |  from ordres\n  |      ^^^^^^\nhint: did you mean 'orders'?\n";
    assert_eq!(run.err, expected);
}

#[test]
fn a_failure_after_rows_keeps_them_and_notices_are_told() {
    let run = run(Format::Json, "late");
    assert_eq!((run.outcome, run.out.as_str()), (Outcome::Failed, "{\"n\":0}\n"));
    assert_eq!(
        run.err,
        "notice: planned again\nerror: there is no table 'late'\nhint: did you mean 'orders'?\n"
    );
}

#[test]
fn a_script_that_is_not_closed_names_where_it_was_opened() {
    let run = run(Format::Csv, "count 1;\ncount 'x");
    assert_eq!((run.outcome, run.ran.len()), (Outcome::Failed, 1));
    assert_eq!(run.err, "error: the quoted string that starts here is not closed\n --> a.sql:2:7\n");
}

#[test]
fn commands_list_what_the_engine_has() {
    let run = run(Format::Csv, ".tables\n.tables ORD\n.schema orders\n.memory\n.jobs\n.mode json\n.schema\n");
    let expected = "table\nlines\norders\ntable\norders\n\
        column,type\no_key,BIGINT\no_note,VARCHAR\nlimit 1 GiB\nn\n7\n\
        {\"table\":\"lines\",\"column\":\"l_key\",\"type\":\"BIGINT\"}\n";
    assert!(run.out.starts_with(expected), "{}", run.out);
    assert_eq!((run.outcome, run.err.as_str(), run.out.lines().count()), (Outcome::Done, "", 15));
}

#[test]
fn a_command_that_does_not_exist_is_a_failure_with_the_near_one() {
    let run = run(Format::Csv, "count 1;\n.tabels\ncount 2;");
    assert_eq!((run.outcome, run.ran.len()), (Outcome::Failed, 1));
    assert_eq!(
        run.err,
        "error: there is no command '.tabels'\n --> a.sql:2:1\nhint: did you mean .tables?\n"
    );
    let run = self::run(Format::Csv, ".schema ordres\n");
    assert_eq!(run.err, "error: there is no table 'ordres'\nhint: did you mean 'orders'?\n");
}

#[test]
fn a_reader_that_breaks_is_no_end_of_the_script() {
    /// Panics after its first line.
    struct Breaks(usize);
    impl io::Read for Breaks {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0 += 1;
            assert!(self.0 == 1, "the second line");
            buffer[..8].copy_from_slice(b"count 1;");
            buffer[8] = b'\n';
            Ok(9)
        }
    }
    let engine = Arc::new(Rote::default());
    let mut shell = Shell::new(Arc::clone(&engine), Settings::for_script(Format::Csv), Box::new(Never));
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut console = Console { out: &mut out, err: &mut err };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let script = io::BufReader::new(Breaks(0));
    assert_eq!(runtime.block_on(shell.run_script(script, None, &mut console)), Outcome::Failed);
    assert_eq!(engine.ran.lock().unwrap().len(), 1);
    assert_eq!(err, b"error: reading the script ended in an unforeseen way\n");
}

#[test]
fn quit_leaves_the_rest_alone() {
    let run = run(Format::Csv, "count 1;\n.quit\ncount 2;");
    assert_eq!((run.outcome, run.ran.len()), (Outcome::Quit, 1));
}

#[test]
fn the_timer_and_the_mode_change_what_follows() {
    let run = run(Format::Csv, "count 1;\n.timer on\n.mode json\ncount 2;\n.timer off\ncount 1;");
    assert_eq!(run.out, "n\n0\n{\"n\":0}\n{\"n\":1}\n{\"n\":0}\n");
    assert!(run.err.starts_with("2 rows in ") && run.err.lines().count() == 1, "{}", run.err);
}

#[test]
fn files_read_files_and_name_themselves_in_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("inner.sql"), "count 1;\n\nnonsense\nhere;\n").unwrap();
    std::fs::write(path("outer.sql"), format!(".read '{}'\ncount 3;", path("inner.sql"))).unwrap();
    let run = run(Format::Csv, &format!(".read {}\ncount 4;", path("outer.sql")));
    assert_eq!((run.outcome, run.ran.len()), (Outcome::Failed, 2));
    assert!(run.err.contains(&format!("--> {}:4:6\n", path("inner.sql"))), "{}", run.err);

    std::fs::write(path("loop.sql"), format!("count 1;\n.read {}\n", path("loop.sql"))).unwrap();
    let run = self::run(Format::Csv, &format!(".read {}", path("loop.sql")));
    assert_eq!((run.outcome, run.ran.len()), (Outcome::Failed, READ_DEPTH_MAX));
    assert!(run.err.contains("does a file read itself?"), "{}", run.err);

    let missing = self::run(Format::Csv, ".read /no/such/file.sql");
    assert!(
        missing.err.starts_with("error: cannot open '/no/such/file.sql': No such file"),
        "{}",
        missing.err
    );
    let directory = self::run(Format::Csv, &format!(".read {}", folder.path().display()));
    assert!(directory.err.contains("is a directory"), "{}", directory.err);
}

#[test]
fn a_binary_format_holds_one_answer() {
    let run = run(Format::Parquet, "none; count 3; none; count 1;");
    assert_eq!(run.outcome, Outcome::Failed);
    let message = "error: the script has more than one answer, and a parquet file holds one\n";
    assert!(run.err.starts_with(message), "{}", run.err);
    assert_eq!(run.out.matches("PAR1").count(), 2);
}

#[test]
fn what_the_shell_itself_says_stays_out_of_a_binary_answer() {
    let run = run(Format::Parquet, ".help\n.memory\ncount 3;\n.tables\n.schema orders\n.timer on\n");
    assert_eq!(run.outcome, Outcome::Done);
    assert!(run.out.starts_with("PAR1") && run.out.ends_with("PAR1"), "{}", run.out);
    assert_eq!(run.out.matches("PAR1").count(), 2);
    for text in [".help", "limit 1 GiB", "│ orders │", "│ o_key  │"] {
        assert!(run.err.contains(text), "{text}: {}", run.err);
    }
    let run = self::run(Format::Parquet, "count 3;\n.mode csv\ncount 1;");
    assert_eq!((run.outcome, run.ran.len()), (Outcome::Failed, 1));
}

#[test]
fn the_reader_going_away_ends_the_script_quietly() {
    struct Closed;
    impl io::Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for script in ["endless; count 1;", ".help\ncount 1;", ".tables\ncount 1;"] {
        let engine = Arc::new(Rote::default());
        let mut shell = Shell::new(Arc::clone(&engine), Settings::for_script(Format::Csv), Box::new(Never));
        let mut err = Vec::new();
        let mut console = Console { out: &mut Closed, err: &mut err };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let outcome = runtime.block_on(shell.run_script(text(script), None, &mut console));
        assert_eq!((outcome, err.len()), (Outcome::ReaderGone, 0), "{script}");
        assert!(!engine.ran.lock().unwrap().contains(&"count 1".to_owned()), "{script}");
    }
}

/// An interrupt that comes soon after the work that it is meant to end has begun.
struct Soon(Arc<AtomicBool>);

#[async_trait]
impl Interrupts for Soon {
    async fn next(&mut self) {
        loop {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            if self.0.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

#[test]
fn an_interrupt_ends_a_command_and_a_wait_for_the_script() {
    let engine = Arc::new(Rote::default());
    let mut shell = Shell::new(
        Arc::clone(&engine),
        Settings::for_script(Format::Csv),
        Box::new(Soon(Arc::clone(&engine.begun))),
    );
    let (mut out, mut err) = (io::sink(), Vec::new());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut console = Console { out: &mut out, err: &mut err };
    let outcome =
        runtime.block_on(shell.run_script(text(".schema unreachable\ncount 1;"), None, &mut console));
    assert_eq!(outcome, Outcome::Interrupted);
    assert!(engine.dropped.load(Ordering::Relaxed) && engine.ran.lock().unwrap().is_empty());

    // Nobody writes into the pipe, and nobody closes it.
    let (pipe, _writer) = io::pipe().unwrap();
    let outcome = runtime.block_on(shell.run_script(io::BufReader::new(pipe), None, &mut console));
    assert_eq!(outcome, Outcome::Interrupted);
    // Nobody opens the pipe for writing.
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    let outcome = runtime.block_on(shell.run_file(&pipe, &mut console));
    assert_eq!(outcome, Outcome::Interrupted);
    let read = text(&format!(".read {}\n", pipe.display()));
    let outcome = runtime.block_on(shell.run_script(read, None, &mut console));
    assert_eq!(outcome, Outcome::Interrupted);
    assert_eq!(err, b"interrupted\n".repeat(4));
}

#[test]
fn an_interrupt_ends_the_statement_and_drops_the_query() {
    let engine = Arc::new(Rote::default());
    let mut shell = Shell::new(
        Arc::clone(&engine),
        Settings::for_script(Format::Csv),
        Box::new(Soon(Arc::clone(&engine.begun))),
    );
    let (mut out, mut err) = (io::sink(), Vec::new());
    let mut console = Console { out: &mut out, err: &mut err };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = runtime.block_on(shell.run_script(text("endless; count 1;"), None, &mut console));
    assert_eq!((outcome, err.as_slice()), (Outcome::Interrupted, b"interrupted\n".as_slice()));
    assert!(engine.dropped.load(Ordering::Relaxed));
    assert_eq!(engine.ran.lock().unwrap().len(), 1);
}

#[test]
fn a_person_hears_back_from_every_statement() {
    let settings = Settings { timer: false, interactive: true, ..Settings::for_script(Format::Csv) };
    let run = run_with(settings, Box::new(Never), "none; count 1;\n.timer\n.mode table\n", None);
    assert_eq!(run.err, "done\n1 row\ntimer on\nmode table\n");
}
