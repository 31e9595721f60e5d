//! The columns of CSV files, inferred from their first records.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};
use datafusion::arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::common::config::CsvOptions;
use datafusion::datasource::file_format::csv::CsvFormat;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use memchr::memchr_iter;
use object_store::{ObjectMeta, ObjectStore};
use regex::Regex;
use yeoul_base::ErrorKind;

use super::csv_types::ValueKinds;
use super::files::{shown, unreadable};
use super::records::RecordEnds;
use super::text_bytes::{bytes_of, without_lines};
use super::text_files::SAMPLED_RECORDS;
use super::text_limits::{TextLimits, unclosed, unequal};
use crate::Error;

/// The columns of files that form one table, behind some lines of each. Those without a value in the first records are texts: a later
/// value is any.
///
/// # Errors
/// The store's own; `Corrupt` for what is no CSV, naming the file; `Invalid` for files that do not form one table.
pub(super) async fn infer(
    format: &CsvFormat,
    skipped_lines: usize,
    state: &dyn Session,
    store: &Arc<dyn ObjectStore>,
    files: &[ObjectMeta],
) -> Result<SchemaRef> {
    let options = format.options();
    let mut left = options.schema_infer_max_rec.unwrap_or(SAMPLED_RECORDS);
    let mut tables: Vec<Vec<Column>> = Vec::new();
    for file in files {
        let limits = TextLimits::of(state);
        let bytes = bytes_of(store.as_ref(), &file.location, options.compression.into()).await?;
        let bytes = without_lines(bytes, skipped_lines);
        let ends = RecordEnds::csv(options).behind(skipped_lines);
        let begin = Arc::new(AtomicU64::new(skipped_lines as u64));
        let name = shown(file.location.as_ref());
        let mut records = whole_records(name, ends, limits, bytes, Arc::clone(&begin));
        let mut columns = Columns::of(options, name, state)?;
        while let Some(chunk) = records.try_next().await.map_err(|error| unreadable(file, error))? {
            left -= columns.add(&chunk, begin.load(Ordering::Relaxed), left)?;
            if left == 0 {
                break;
            }
        }
        tables.push(columns.named());
        if left == 0 {
            break;
        }
    }
    let schemas = tables.iter().map(|columns| typed(columns, &tables));
    Ok(Arc::new(valueless_as_text(&Schema::try_merge(schemas)?)))
}

/// A column of a file.
struct Column {
    name: String,
    kinds: ValueKinds,
}

/// The columns of one of these files. Numbers of one and of another have one type, which is that of texts if some have leading zeros; so
/// have times.
fn typed(columns: &[Column], tables: &[Vec<Column>]) -> Schema {
    let field = |column: &Column| {
        let all = tables.iter().flatten().filter(|other| other.name == column.name);
        let all = all.fold(column.kinds, |all, other| all.with(other.kinds));
        let is_one = all.data_type() != DataType::Utf8 || all.are_numbers();
        let of = if is_one { all.data_type() } else { column.kinds.data_type() };
        Field::new(&column.name, of, true)
    };
    Schema::new(columns.iter().map(field).collect::<Fields>())
}

fn valueless_as_text(told: &Schema) -> Schema {
    let fields = told.fields().iter().map(|field| match field.data_type() {
        DataType::Null => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8)),
        _ => Arc::clone(field),
    });
    Schema::new(fields.collect::<Fields>())
}

/// The columns of a file, of which some records were read.
struct Columns<'a> {
    options: &'a CsvOptions,
    file: &'a str,
    nulls: Option<Regex>,
    has_header: bool,
    /// Names in the header, or none.
    names: Option<Vec<String>>,
    kinds: Vec<ValueKinds>,
}

impl<'a> Columns<'a> {
    fn of(options: &'a CsvOptions, file: &'a str, state: &dyn Session) -> Result<Self> {
        let has_header = options.has_header.unwrap_or(state.config_options().catalog.has_header);
        Ok(Self { options, file, nulls: null_regex(options)?, has_header, names: None, kinds: Vec::new() })
    }

    /// Adds records, `most` at most, and tells how many they were. `begin` is the number of lines before them.
    fn add(&mut self, records: &[u8], begin: u64, most: usize) -> Result<usize> {
        let mut reader = self.reader(records);
        let mut record = csv::StringRecord::new();
        let mut count = 0;
        let mut is_first = self.names.is_none();
        while count < most || is_first {
            let is_read = reader.read_record(&mut record).map_err(|error| self.unreadable(&error, begin))?;
            if !is_read {
                break;
            }
            if std::mem::take(&mut is_first) {
                self.kinds = vec![ValueKinds::default(); record.len()];
                let name = |(at, value): (usize, &str)| match self.has_header {
                    true => value.to_owned(),
                    false => format!("column_{}", at + 1),
                };
                self.names = Some(record.iter().enumerate().map(name).collect());
                if self.has_header || count == most {
                    continue;
                }
            }
            let place = begin + record.position().map_or(0, csv::Position::line);
            self.check_length(record.len(), place)?;
            for (kinds, value) in self.kinds.iter_mut().zip(&record) {
                let is_null = self.nulls.as_ref().map_or(value.is_empty(), |nulls| nulls.is_match(value));
                if !is_null {
                    kinds.add(value);
                }
            }
            count += 1;
        }
        Ok(count)
    }

    fn reader<'r>(&self, records: &'r [u8]) -> csv::Reader<&'r [u8]> {
        let options = self.options;
        let mut builder = csv::ReaderBuilder::new();
        builder.has_headers(false).flexible(true).delimiter(options.delimiter).quote(options.quote);
        builder.escape(options.escape).comment(options.comment);
        if let Some(terminator) = options.terminator {
            builder.terminator(csv::Terminator::Any(terminator));
        }
        builder.from_reader(records)
    }

    fn check_length(&self, values: usize, line: u64) -> Result<(), Error> {
        let expected = self.kinds.len();
        let may_be_short = self.options.truncated_rows.unwrap_or(false);
        if values == expected || values < expected && may_be_short {
            return Ok(());
        }
        let name = format!("line {line} of '{}'", self.file);
        Err(unequal(&name, expected as u64, Some(values as u64)))
    }

    fn unreadable(&self, error: &csv::Error, begin: u64) -> Error {
        let file = self.file;
        let csv::ErrorKind::Utf8 { pos, .. } = error.kind() else {
            return Error::new(ErrorKind::Corrupt, format!("cannot read '{file}': {error}"));
        };
        let line = begin + pos.as_ref().map_or(0, csv::Position::line);
        let what = format!("line {line} of '{file}' is not UTF-8");
        Error::new(ErrorKind::Corrupt, what)
            .with_hint(format!("iconv -f ISO-8859-1 -t UTF-8 '{file}' converts a file of Western Europe"))
    }

    fn named(self) -> Vec<Column> {
        let names = with_own_names(&self.names.unwrap_or_default());
        names.into_iter().zip(self.kinds).map(|(name, kinds)| Column { name, kinds }).collect()
    }
}

/// The texts that are null.
///
/// # Errors
/// `Invalid` for what is no regular expression.
pub(super) fn null_regex(options: &CsvOptions) -> Result<Option<Regex>> {
    let Some(nulls) = &options.null_regex else { return Ok(None) };
    let regex = Regex::new(nulls).map_err(|source| {
        let what = format!("the option 'null_regex' is '{nulls}', which is no regular expression");
        Error::new(ErrorKind::Invalid, what).with_source(source)
    });
    Ok(Some(regex?))
}

/// Chunks of whole records. `begin` is the number of lines before the last chunk.
fn whole_records(
    name: &str,
    records: RecordEnds,
    limits: TextLimits,
    bytes: BoxStream<'static, Result<Bytes>>,
    begin: Arc<AtomicU64>,
) -> BoxStream<'static, Result<Bytes>> {
    let lines = begin.load(Ordering::Relaxed);
    let start = Chunks { name: name.to_owned(), records, bytes, open: BytesMut::new(), lines, begin };
    futures::stream::try_unfold(Some(start), move |chunks| async move {
        let Some(mut chunks) = chunks else { return Ok(None) };
        while let Some(chunk) = chunks.bytes.try_next().await? {
            let mut whole = 0;
            while let Some(end) = chunks.records.next_end(&chunk[whole..]) {
                whole += end;
            }
            limits.check(&chunks.name, &chunks.records)?;
            chunks.open.extend_from_slice(&chunk[..whole]);
            if whole > 0 {
                let rows = chunks.take();
                chunks.open.extend_from_slice(&chunk[whole..]);
                return Ok(Some((rows, Some(chunks))));
            }
            chunks.open.extend_from_slice(&chunk);
        }
        if let Some(line) = chunks.records.open_quote() {
            return Err(unclosed(&chunks.name, line));
        }
        let rows = chunks.take();
        Ok((!rows.is_empty()).then_some((rows, None)))
    })
    .boxed()
}

/// A file that is read in chunks.
struct Chunks {
    name: String,
    records: RecordEnds,
    bytes: BoxStream<'static, Result<Bytes>>,
    /// Bytes that were read and not given away.
    open: BytesMut,
    /// The lines that were given away, and those before them.
    lines: u64,
    begin: Arc<AtomicU64>,
}

impl Chunks {
    fn take(&mut self) -> Bytes {
        self.begin.store(self.lines, Ordering::Relaxed);
        self.lines += memchr_iter(b'\n', &self.open).count() as u64;
        self.open.split().freeze()
    }
}

/// Names that each are another's, as in DuckDB: without blanks around them; of equal ones, the later get a number, `a, a_1`; an empty one
/// is `column0`.
fn with_own_names(names: &[String]) -> Vec<String> {
    let written = names.iter().enumerate().map(|(at, name)| match name.trim() {
        "" => numbered_name(at, names.len()),
        name => name.to_owned(),
    });
    let written: Vec<String> = written.collect();
    let all: HashSet<&String> = written.iter().collect();
    let mut taken: HashSet<String> = HashSet::new();
    let own = written.iter().map(|written| {
        let mut name = written.clone();
        let mut number = 0;
        while taken.contains(&name) || (number > 0 && all.contains(&name)) {
            number += 1;
            name = format!("{written}_{number}");
        }
        taken.insert(name.clone());
        name
    });
    own.collect()
}

/// The name of a column that has none, as DuckDB has it: `column0`, and `column00` if there are more than ten.
pub(super) fn numbered_name(at: usize, columns: usize) -> String {
    let digits = columns.saturating_sub(1).to_string().len();
    format!("column{at:0digits$}")
}
