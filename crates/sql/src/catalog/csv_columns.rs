//! The columns of CSV files, inferred from their first records.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};
use datafusion::arrow::datatypes::{Fields, Schema, SchemaRef};
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

use super::files::{shown, unreadable};
use super::records::RecordEnds;
use super::text_bytes::{bytes_of, without_lines};
use super::text_files::SAMPLED_RECORDS;
use super::text_limits::{TextLimits, ragged, unclosed};
use crate::Error;

/// The columns of files that form one table, behind some lines of each. DataFusion's own cuts chunks within values that have line breaks.
///
/// # Errors
/// The store's own; `Corrupt` for what is no CSV, naming the file.
pub(super) async fn infer(
    format: &CsvFormat,
    skipped_lines: usize,
    state: &dyn Session,
    store: &Arc<dyn ObjectStore>,
    files: &[ObjectMeta],
) -> Result<SchemaRef> {
    // DataFusion's own takes it for granted that this is one.
    null_regex(format.options())?;
    let mut left = format.options().schema_infer_max_rec.unwrap_or(SAMPLED_RECORDS);
    let mut schemas = Vec::new();
    for file in files {
        let limits = TextLimits::of(state);
        let bytes = bytes_of(store.as_ref(), &file.location, format.options().compression.into()).await?;
        let bytes = without_lines(bytes, skipped_lines);
        let ends = RecordEnds::csv(format.options()).behind(skipped_lines);
        let begin = Arc::new(AtomicU64::new(skipped_lines as u64));
        let records = whole_records(shown(file.location.as_ref()), ends, limits, bytes, Arc::clone(&begin));
        let told = format.infer_schema_from_stream(state, left, records).await;
        let (schema, read) = told.map_err(|error| {
            let name = shown(file.location.as_ref());
            let begin = begin.load(Ordering::Relaxed);
            ragged(name, "line", begin, &error.to_string()).unwrap_or_else(|| unreadable(file, error))
        })?;
        schemas.push(with_own_names(&schema));
        left -= read;
        if left == 0 {
            break;
        }
    }
    Ok(Arc::new(Schema::try_merge(schemas)?))
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
    /// What was read and not given away.
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

/// The columns with names of their own, as in DuckDB: without blanks around them; of equal ones, the later get a number, `a, a_1`; one that
/// is empty is `column0`.
fn with_own_names(schema: &Schema) -> Schema {
    let names = schema.fields().iter().enumerate().map(|(at, field)| match field.name().trim() {
        "" => numbered_name(at, schema.fields().len()),
        name => name.to_owned(),
    });
    let names: Vec<String> = names.collect();
    let written: HashSet<&String> = names.iter().collect();
    let mut taken: HashSet<String> = HashSet::new();
    let fields = schema.fields().iter().zip(&names).map(|(field, written_name)| {
        let mut name = written_name.clone();
        let mut number = 0;
        while taken.contains(&name) || (number > 0 && written.contains(&name)) {
            number += 1;
            name = format!("{written_name}_{number}");
        }
        taken.insert(name.clone());
        Arc::new(field.as_ref().clone().with_name(name))
    });
    Schema::new_with_metadata(fields.collect::<Fields>(), schema.metadata().clone())
}

/// The name of a column that has none, as DuckDB has it: `column0`, and `column00` if there are more than ten.
pub(super) fn numbered_name(at: usize, columns: usize) -> String {
    let digits = columns.saturating_sub(1).to_string().len();
    format!("column{at:0digits$}")
}
