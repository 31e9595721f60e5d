//! The columns of CSV files, inferred from their first records.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use datafusion::arrow::datatypes::{Fields, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::datasource::file_format::DEFAULT_SCHEMA_INFER_MAX_RECORD;
use datafusion::datasource::file_format::csv::CsvFormat;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::{ObjectMeta, ObjectStore};

use super::files::{shown, unreadable};
use super::records::RecordEnds;
use super::text_bytes::bytes_of;
use super::text_limits::{TextLimits, unclosed};

/// The columns of files that form one table. DataFusion's own cuts chunks within values that have line breaks.
///
/// # Errors
/// The store's own; `Corrupt` for what is no CSV, naming the file.
pub(super) async fn infer(
    format: &CsvFormat,
    state: &dyn Session,
    store: &Arc<dyn ObjectStore>,
    files: &[ObjectMeta],
) -> Result<SchemaRef> {
    let mut left = format.options().schema_infer_max_rec.unwrap_or(DEFAULT_SCHEMA_INFER_MAX_RECORD);
    let mut schemas = Vec::new();
    for file in files {
        let limits = TextLimits::of(state);
        let bytes = bytes_of(store.as_ref(), &file.location, format.options().compression.into()).await?;
        let records =
            whole_records(shown(file.location.as_ref()), RecordEnds::csv(format.options()), limits, bytes);
        let told = format.infer_schema_from_stream(state, left, records).await;
        let (schema, read) = told.map_err(|error| unreadable(file, error))?;
        schemas.push(with_own_names(&schema));
        left -= read;
        if left == 0 {
            break;
        }
    }
    Ok(Arc::new(Schema::try_merge(schemas)?))
}

/// Chunks of whole records.
fn whole_records(
    name: &str,
    records: RecordEnds,
    limits: TextLimits,
    bytes: BoxStream<'static, Result<Bytes>>,
) -> BoxStream<'static, Result<Bytes>> {
    let start = (name.to_owned(), records, bytes, BytesMut::new(), false);
    futures::stream::try_unfold(start, move |(name, mut records, mut bytes, mut open, ended)| async move {
        if ended {
            return Ok(None);
        }
        while let Some(chunk) = bytes.try_next().await? {
            let mut whole = 0;
            while let Some(end) = records.next_end(&chunk[whole..]) {
                whole += end;
            }
            limits.check(&name, &records)?;
            if whole == 0 {
                open.extend_from_slice(&chunk);
                continue;
            }
            open.extend_from_slice(&chunk[..whole]);
            let rows = std::mem::replace(&mut open, BytesMut::from(&chunk[whole..])).freeze();
            return Ok(Some((rows, (name, records, bytes, open, false))));
        }
        if let Some(line) = records.open_quote() {
            return Err(unclosed(&name, line));
        }
        if open.is_empty() {
            return Ok(None);
        }
        Ok(Some((open.split().freeze(), (name, records, bytes, open, true))))
    })
    .boxed()
}

/// The columns with names of their own: of equal ones, the later get a number, as in DuckDB: `a, a_1`.
fn with_own_names(schema: &Schema) -> Schema {
    let mut taken: HashSet<String> = HashSet::new();
    let written: HashSet<&String> = schema.fields().iter().map(|field| field.name()).collect();
    let fields = schema.fields().iter().map(|field| {
        let mut name = field.name().clone();
        let mut number = 0;
        while taken.contains(&name) || (number > 0 && written.contains(&name)) {
            number += 1;
            name = format!("{}_{number}", field.name());
        }
        taken.insert(name.clone());
        Arc::new(field.as_ref().clone().with_name(name))
    });
    Schema::new_with_metadata(fields.collect::<Fields>(), schema.metadata().clone())
}
