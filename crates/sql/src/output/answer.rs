use std::error::Error;
use std::io::{self, Write};
use std::pin::pin;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use futures::{Stream, StreamExt};

use super::arrow_ipc::ArrowWriter;
use super::csv::CsvWriter;
use super::format::Format;
use super::json::JsonWriter;
use super::line::LineWriter;
use super::parquet::ParquetFileWriter;
use super::plan::PlanWriter;
use super::sink::Sink;
use super::table::TableWriter;

/// The choices that a format leaves in writing an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputOptions {
    /// Columns of the terminal that a table must fit into. `None` (a file, a pipe) cuts nothing.
    pub width: Option<usize>,
    /// The most rows that a table shows: the first and the last ones, with a mark in between. `None` shows all.
    pub rows_max: Option<usize>,
    /// Whether a table may use ANSI colours.
    pub color: bool,
    /// Whether the answer is that of `EXPLAIN`, which is shown line by line instead of as a table.
    pub is_plan: bool,
    /// True if it goes into a file by its name. Then Arrow has the format of files, which has a footer, and not that of streams.
    pub is_file: bool,
}

/// A count of what was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Rows of the answer.
    pub rows: u64,
    /// Rows that the format shows: fewer than `rows` if [`OutputOptions::rows_max`] was reached.
    pub rows_shown: u64,
    /// Columns of the answer.
    pub columns: usize,
    /// Columns that the format shows: fewer than `columns` if the terminal is too narrow.
    pub columns_shown: usize,
    /// Bytes written.
    pub bytes: u64,
    /// Whether the reader closed the pipe before the end, which ends the query and is no failure.
    pub closed: bool,
}

impl OutputOptions {
    /// The most rows that a table shows on a terminal, unless a person asks for more.
    pub const TERMINAL_ROWS_MAX: usize = 40;
}

impl Summary {
    /// The line under a table: `3 rows in 12 ms`, and what was left out.
    pub fn footer(&self, elapsed: Option<Duration>) -> String {
        let plural = if self.rows == 1 { "" } else { "s" };
        let mut line = format!("{} row{plural}", self.rows);
        if self.rows_shown < self.rows {
            line.push_str(&format!(" ({} shown)", self.rows_shown));
        }
        if self.columns_shown < self.columns {
            line.push_str(&format!(", {} columns ({} shown)", self.columns, self.columns_shown));
        }
        if let Some(elapsed) = elapsed {
            line.push_str(&format!(" in {}", duration_text(elapsed)));
        }
        line
    }
}

/// A time for people, with three digits: `12 ms`, `1.23 s`, `2 min 5 s`.
pub(crate) fn duration_text(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    match elapsed.as_millis() {
        0 => format!("{} µs", elapsed.as_micros()),
        millis @ 1..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{:.2} s", elapsed.as_secs_f64()),
        60_000..3_600_000 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// Why an answer was not written completely.
#[derive(Debug, thiserror::Error)]
pub enum OutputError<E: Error + 'static> {
    /// The query failed while its answer was being read.
    #[error(transparent)]
    Query(E),
    /// Writing failed (no space, for example).
    #[error("cannot write the answer")]
    Write(#[source] io::Error),
    /// The format cannot represent a value.
    #[error("cannot write the answer as {format}")]
    Encode {
        /// The format that was asked for.
        format: Format,
        /// What it cannot represent.
        #[source]
        source: ArrowError,
    },
}

/// A failure of a format's writer, before it is known whether the reader has closed the pipe.
#[derive(Debug)]
pub(super) enum WriteFailure {
    Io(io::Error),
    Encode(ArrowError),
}

impl From<io::Error> for WriteFailure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<ArrowError> for WriteFailure {
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::IoError(_, error) => Self::Io(error),
            error => Self::Encode(error),
        }
    }
}

/// What each format implements: batches in, bytes out.
pub(super) trait BatchWriter {
    /// Writes the rows of `batch`.
    fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteFailure>;
    /// Writes what comes after the last batch, and flushes.
    fn finish(&mut self) -> Result<(), WriteFailure>;
    /// Rows and columns shown so far, if they differ from what was written.
    fn shown(&self) -> Option<(u64, usize)> {
        None
    }
}

/// Writes `stream`, whose batches have `schema`, to `out` as `format`.
///
/// Yields to the runtime after each batch, so that a `select!` around it sees an interrupt even if the stream is always
/// ready. Dropping the future drops the stream, and with it the query.
///
/// # Errors
/// The query's own error; the writer's, except for a closed pipe; a value that `format` cannot represent.
pub async fn write_answer<S, E, W>(
    stream: S,
    schema: SchemaRef,
    format: Format,
    options: &OutputOptions,
    out: &mut W,
) -> Result<Summary, OutputError<E>>
where
    S: Stream<Item = Result<RecordBatch, E>>,
    E: Error + 'static,
    W: Write + Send + ?Sized,
{
    let columns = schema.fields().len();
    let mut summary = Summary { columns, columns_shown: columns, ..Summary::default() };
    let mut sink = Sink::new(out);
    let written = write_batches(stream, schema, format, options, &mut sink, &mut summary).await;
    summary.bytes = sink.bytes();
    summary.closed = sink.closed();
    match written {
        Ok(()) => Ok(summary),
        Err(BatchFailure::Query(error)) => Err(OutputError::Query(error)),
        Err(BatchFailure::Write(_)) if summary.closed => Ok(summary),
        Err(BatchFailure::Write(WriteFailure::Io(error))) => Err(OutputError::Write(error)),
        Err(BatchFailure::Write(WriteFailure::Encode(source))) => Err(OutputError::Encode { format, source }),
    }
}

enum BatchFailure<E> {
    Query(E),
    Write(WriteFailure),
}

impl<E> From<WriteFailure> for BatchFailure<E> {
    fn from(failure: WriteFailure) -> Self {
        Self::Write(failure)
    }
}

async fn write_batches<S, E, W>(
    stream: S,
    schema: SchemaRef,
    format: Format,
    options: &OutputOptions,
    sink: &mut Sink<'_, W>,
    summary: &mut Summary,
) -> Result<(), BatchFailure<E>>
where
    S: Stream<Item = Result<RecordBatch, E>>,
    W: Write + Send + ?Sized,
{
    let mut writer: Box<dyn BatchWriter + '_> = match format {
        Format::Table if options.is_plan => Box::new(PlanWriter::new(sink)),
        Format::Table => Box::new(TableWriter::new(sink, schema, options)),
        Format::Csv => Box::new(CsvWriter::new(sink, schema)),
        Format::Json => Box::new(JsonWriter::new(sink, &schema)),
        Format::Line => Box::new(LineWriter::new(sink, &schema)),
        Format::Parquet => Box::new(ParquetFileWriter::new(sink, &schema)?),
        Format::Arrow if options.is_file => Box::new(ArrowWriter::new_file(sink, &schema)?),
        Format::Arrow => Box::new(ArrowWriter::new(sink, &schema)?),
    };
    let mut stream = pin!(stream);
    let mut result = Ok(());
    while let Some(batch) = stream.next().await {
        match batch {
            Ok(batch) => {
                summary.rows += batch.num_rows() as u64;
                writer.write(&batch)?;
            }
            Err(error) => {
                result = Err(BatchFailure::Query(error));
                break;
            }
        }
        tokio::task::yield_now().await;
    }
    // Rows that came before a failure are shown. But a binary file with half of an answer is not finished to look complete,
    // and a failure before the first row shows nothing, not even a header.
    if result.is_ok() || (format.is_text() && summary.rows > 0) {
        let finished = writer.finish();
        if result.is_ok() {
            finished?;
        }
    }
    (summary.rows_shown, summary.columns_shown) = writer.shown().unwrap_or((summary.rows, summary.columns));
    result
}

/// Distinct names for columns: the second `id` becomes `id_1`, or the next free number.
pub(super) fn distinct_names(schema: &SchemaRef) -> Vec<String> {
    let mut taken: std::collections::HashSet<String> =
        schema.fields().iter().map(|f| f.name().clone()).collect();
    let mut seen = std::collections::HashSet::new();
    let mut names = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let mut name = field.name().clone();
        if !seen.insert(name.clone()) {
            let mut number = 1u64;
            while !taken.insert(format!("{name}_{number}")) {
                number += 1;
            }
            name = format!("{name}_{number}");
        }
        names.push(name);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array};
    use arrow::datatypes::{DataType, Field, Schema};
    use futures::stream;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Debug, PartialEq, Eq, thiserror::Error)]
    #[error("the query failed")]
    struct Failed;

    fn numbers(from: i64, to: i64) -> RecordBatch {
        RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from_iter_values(from..to)) as ArrayRef)])
            .unwrap()
    }

    fn written(
        batches: Vec<Result<RecordBatch, Failed>>,
        format: Format,
        out: &mut (dyn Write + Send),
    ) -> Result<Summary, OutputError<Failed>> {
        let schema = numbers(0, 0).schema();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(write_answer(stream::iter(batches), schema, format, &OutputOptions::default(), out))
    }

    #[test]
    fn the_summary_counts_what_was_written_in_every_format() {
        for format in Format::ALL {
            let mut out = Vec::new();
            let summary =
                written(vec![Ok(numbers(0, 3)), Ok(numbers(3, 3)), Ok(numbers(3, 10))], format, &mut out)
                    .unwrap();
            let bytes = out.len() as u64;
            let expected =
                Summary { rows: 10, rows_shown: 10, columns: 1, columns_shown: 1, bytes, closed: false };
            assert_eq!(summary, expected, "{format}");
            assert!(bytes > 0);
        }
    }

    /// Takes some bytes, then fails with the given error.
    struct Full {
        room: usize,
        kind: io::ErrorKind,
    }

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.room = self.room.checked_sub(bytes.len()).ok_or(self.kind)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_pipe_ends_the_query_and_is_a_success_in_every_format() {
        for format in Format::ALL {
            let read = Arc::new(AtomicUsize::new(0));
            let seen = Arc::clone(&read);
            let endless = stream::iter(0..100_000).map(move |index| {
                seen.fetch_add(1, Ordering::Relaxed);
                Ok::<_, Failed>(numbers(index * 5_000, (index + 1) * 5_000))
            });
            let mut out = Full { room: 100_000, kind: io::ErrorKind::BrokenPipe };
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let options = OutputOptions::default();
            let written = write_answer(endless, numbers(0, 0).schema(), format, &options, &mut out);
            let summary = runtime.block_on(written).unwrap();
            assert!(summary.closed && summary.bytes <= 100_000, "{format}");
            assert!(read.load(Ordering::Relaxed) < 1_000, "{format} read on after the reader had gone");
        }
    }

    #[test]
    fn a_full_disk_is_an_error_that_says_so() {
        for format in Format::ALL {
            let mut out = Full { room: 0, kind: io::ErrorKind::StorageFull };
            match written(vec![Ok(numbers(0, 10))], format, &mut out) {
                Err(OutputError::Write(error)) => {
                    assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{format}")
                }
                other => panic!("{format}: {other:?}"),
            }
        }
    }

    #[test]
    fn rows_before_a_failure_are_shown_and_a_binary_file_is_not_made_whole() {
        for format in Format::ALL {
            let mut out = Vec::new();
            let error = written(vec![Ok(numbers(0, 3)), Err(Failed), Ok(numbers(3, 6))], format, &mut out)
                .unwrap_err();
            assert!(matches!(error, OutputError::Query(Failed)));
            if format.is_text() {
                let text = String::from_utf8(out).unwrap();
                assert!(text.contains('2') && !text.contains('3'), "{format}: {text}");
            } else {
                assert!(!out.ends_with(b"PAR1") && !out.ends_with(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]));
            }
        }
    }

    #[test]
    fn a_failure_before_the_first_row_writes_nothing() {
        for format in [Format::Table, Format::Csv, Format::Json] {
            let mut out = Vec::new();
            written(vec![Ok(numbers(0, 0)), Err(Failed)], format, &mut out).unwrap_err();
            assert_eq!(String::from_utf8(out).unwrap(), "", "{format}");
        }
    }

    #[test]
    fn a_value_that_a_format_has_no_form_for_is_a_typed_error() {
        let union = arrow::array::UnionArray::try_new(
            [(0, Arc::new(Field::new("a", DataType::Int64, true)))].into_iter().collect(),
            vec![0_i8].into(),
            None,
            vec![Arc::new(Int64Array::from(vec![1]))],
        )
        .unwrap();
        let batch = RecordBatch::try_from_iter([("u", Arc::new(union) as ArrayRef)]).unwrap();
        let schema = batch.schema();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let batches = stream::iter([Ok::<_, Failed>(batch)]);
        let mut out = Vec::new();
        let error = runtime.block_on(write_answer(
            batches,
            schema,
            Format::Json,
            &OutputOptions::default(),
            &mut out,
        ));
        let error = error.unwrap_err();
        assert_eq!(error.to_string(), "cannot write the answer as json");
        assert!(error.source().unwrap().to_string().contains("Union"));
    }

    #[test]
    fn other_tasks_run_between_batches_of_a_stream_that_is_always_ready() {
        let endless = stream::repeat_with(|| Ok::<_, Failed>(numbers(0, 1)));
        let schema = numbers(0, 0).schema();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let interrupted = runtime.block_on(async {
            let mut out = io::sink();
            let options = OutputOptions::default();
            tokio::select! {
                _ = write_answer(endless, schema, Format::Csv, &options, &mut out) => false,
                () = tokio::time::sleep(Duration::from_millis(20)) => true,
            }
        });
        assert!(interrupted);
    }

    #[test]
    fn the_footer_says_what_was_left_out() {
        let all = Summary { rows: 1, rows_shown: 1, columns: 2, columns_shown: 2, bytes: 9, closed: false };
        assert_eq!(all.footer(None), "1 row");
        let part = Summary { rows: 2_000, rows_shown: 40, columns: 50, columns_shown: 6, ..all };
        let text = "2000 rows (40 shown), 50 columns (6 shown) in 1.50 s";
        assert_eq!(part.footer(Some(Duration::from_millis(1_500))), text);
        for (millis, text) in
            [(12, "12 ms"), (999, "999 ms"), (61_000, "1 min 1 s"), (7_260_000, "2 h 1 min")]
        {
            assert_eq!(duration_text(Duration::from_millis(millis)), text);
        }
        assert_eq!(duration_text(Duration::from_micros(37)), "37 µs");
    }

    #[test]
    fn distinct_names_do_not_collide_with_other_names() {
        let fields: Vec<Field> =
            ["a", "a", "a_1", "a", "b"].iter().map(|name| Field::new(*name, DataType::Int64, true)).collect();
        assert_eq!(distinct_names(&Arc::new(Schema::new(fields))), ["a", "a_2", "a_1", "a_3", "b"]);
    }
}
