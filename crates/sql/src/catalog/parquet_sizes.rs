//! How large the values of Parquet files are, as far as their footers say, and how many rows a batch may have then.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::execution::runtime_env::RuntimeEnv;
use futures::{StreamExt, TryStreamExt};
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use parquet::basic::Type;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use super::page_header::{PageHeader, PageKind};

/// Bytes per row from which on texts by a dictionary may be much larger than their column is in the file.
const LARGE_TEXT_BYTES: u64 = 256;

/// No header of a page with a dictionary is longer.
const HEADER_BYTES_MAX: u64 = 128;

/// The most footers that are read at a time.
const FILES_AT_ONCE: usize = 8;

/// How many rows a batch of these files may have to be of at most `batch_bytes`, going by the widest row group and the columns that
/// are read; `None` if no row group is so wide that `batch_rows` of it are more.
///
/// # Errors
/// The store's own.
pub(super) async fn rows_per_batch(
    scan: &FileScanConfig,
    runtime: &Arc<RuntimeEnv>,
    batch_rows: usize,
    batch_bytes: usize,
) -> Result<Option<usize>> {
    let store = runtime.object_store(&scan.object_store_url)?;
    let cache = runtime.cache_manager.get_file_metadata_cache();
    let columns = columns_read(scan);
    let mut seen = HashSet::new();
    let files: Vec<&ObjectMeta> = scan
        .file_groups
        .iter()
        .flat_map(|group| group.files())
        .map(|file| &file.object_meta)
        .filter(|file| seen.insert(&file.location))
        .collect();
    let (store, cache, columns) = (&store, &cache, &columns);
    let widths = futures::stream::iter(files).map(|file| async move {
        let reader =
            DFParquetMetadata::new(store.as_ref(), file).with_file_metadata_cache(Some(Arc::clone(cache)));
        let footer = reader.fetch_metadata().await?;
        widest(&footer, columns, store.as_ref(), file).await
    });
    let widest =
        widths.boxed().buffered(FILES_AT_ONCE).try_fold(0, |one, other| async move { Ok(one.max(other)) });
    let rows = batch_bytes as u64 / widest.await?.max(1);
    Ok((rows < batch_rows as u64).then_some((rows as usize).max(1)))
}

/// The names of the columns of the files that a scan reads.
fn columns_read(scan: &FileScanConfig) -> HashSet<String> {
    let fields = scan.file_schema().fields();
    match scan.file_source().projection() {
        // Those after them are of the folders.
        Some(projection) => {
            let places = projection.column_indices();
            places.iter().filter_map(|at| fields.get(*at)).map(|field| field.name().clone()).collect()
        }
        None => fields.iter().map(|field| field.name().clone()).collect(),
    }
}

/// The bytes of a row in the row group with the widest rows.
async fn widest(
    footer: &ParquetMetaData,
    columns: &HashSet<String>,
    store: &dyn ObjectStore,
    file: &ObjectMeta,
) -> Result<u64> {
    let schema = footer.file_metadata().schema_descr();
    let mut widest = 0;
    for group in footer.row_groups() {
        let rows = u64::try_from(group.num_rows()).unwrap_or(0).max(1);
        let mut bytes = 0u64;
        for (leaf, chunk) in group.columns().iter().enumerate() {
            if columns.contains(schema.get_column_root(leaf).name()) {
                bytes = bytes.saturating_add(bytes_of_chunk(chunk, rows, store, file).await?);
            }
        }
        widest = widest.max(bytes / rows);
    }
    Ok(widest)
}

/// The bytes of the values of a column chunk once they are decoded.
async fn bytes_of_chunk(
    chunk: &ColumnChunkMetaData,
    rows: u64,
    store: &dyn ObjectStore,
    file: &ObjectMeta,
) -> Result<u64> {
    let size = |bytes: i64| u64::try_from(bytes).unwrap_or(0);
    let encoded = size(chunk.uncompressed_size());
    if chunk.column_type() != Type::BYTE_ARRAY {
        return Ok(encoded);
    }
    if let Some(bytes) = chunk.unencoded_byte_array_data_bytes() {
        return Ok(size(bytes));
    }
    match chunk.dictionary_page_offset() {
        Some(offset) if encoded / rows >= LARGE_TEXT_BYTES => {
            let start = size(offset);
            let end = start.saturating_add(HEADER_BYTES_MAX).min(file.size);
            let bytes = store.get_range(&file.location, start..end.max(start)).await?;
            let header = PageHeader::decode(&bytes).filter(|header| header.kind == PageKind::Dictionary);
            let text = header.map_or(0, |header| header.uncompressed / header.values.max(1));
            Ok(encoded.max(text.saturating_mul(size(chunk.num_values()))))
        }
        _ => Ok(encoded),
    }
}
