//! How wide the records of text files are, going by their first ones, and how many rows a batch may have then.

use std::cmp::Reverse;
use std::collections::HashSet;

use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::execution::memory_pool::MemoryLimit;
use futures::TryStreamExt;
use object_store::{ObjectMeta, ObjectStore};

use super::records::RecordEnds;
use super::text_bytes::bytes_of;
use super::text_limits::TextLimits;

/// The part of a file that is read for it.
const SAMPLE_BYTES: usize = 1 << 20;

/// The largest files of a table speak for all.
const FILES_MAX: usize = 4;

/// A scan with batches of few rows if the records are wide and there is a memory limit.
///
/// # Errors
/// The store's own.
pub(super) async fn with_batch_rows(
    mut scan: FileScanConfig,
    state: &dyn Session,
    records: impl Fn() -> RecordEnds + Send,
) -> Result<FileScanConfig> {
    let runtime = state.runtime_env();
    if !matches!(runtime.memory_pool.memory_limit(), MemoryLimit::Finite(_)) {
        return Ok(scan);
    }
    let store = runtime.object_store(&scan.object_store_url)?;
    let mut widest = 0;
    for file in largest(&scan) {
        widest = widest.max(width(&scan, store.as_ref(), &file, records()).await?);
    }
    let rows = TextLimits::of(state).batch_bytes / widest.max(1);
    if rows < state.config().batch_size() {
        scan.batch_size = Some(rows.max(1));
    }
    Ok(scan)
}

fn largest(scan: &FileScanConfig) -> Vec<ObjectMeta> {
    let mut seen = HashSet::new();
    let files = scan.file_groups.iter().flat_map(|group| group.files()).map(|file| &file.object_meta);
    let mut files: Vec<ObjectMeta> = files.filter(|file| seen.insert(&file.location)).cloned().collect();
    files.sort_by_key(|file| Reverse(file.size));
    files.truncate(FILES_MAX);
    files
}

/// The bytes of a record, on average.
async fn width(
    scan: &FileScanConfig,
    store: &dyn ObjectStore,
    file: &ObjectMeta,
    mut ends: RecordEnds,
) -> Result<usize> {
    let mut chunks = bytes_of(store, &file.location, scan.file_compression_type).await?;
    let (mut bytes, mut records) = (0, 0);
    while let Some(chunk) = chunks.try_next().await? {
        let mut rest = &chunk[..];
        while let Some(end) = ends.next_end(rest) {
            records += 1;
            rest = &rest[end..];
        }
        bytes += chunk.len();
        if bytes >= SAMPLE_BYTES {
            break;
        }
    }
    // One that has not ended is one, too.
    Ok(bytes / (records + usize::from(ends.open_record().0 > 0)).max(1))
}
