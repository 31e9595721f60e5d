//! Writes a table as one Parquet file: parts are encoded in parallel, and written in order.
//!
//! A part is a row group. Threads take parts in order and encode each into memory (compressed pages, some megabytes); the
//! caller's thread appends finished parts to the file. Encoding may be ahead of the file by no more than the window, so that
//! memory stays the same at any scale. The file has a temporary name until it is complete and synced.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use datafusion::parquet::arrow::ArrowSchemaConverter;
use datafusion::parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowRowGroupWriterFactory, compute_leaves,
};
use datafusion::parquet::basic::Compression;
use datafusion::parquet::errors::ParquetError;
use datafusion::parquet::file::properties::{EnabledStatistics, WriterProperties};
use datafusion::parquet::file::writer::SerializedFileWriter;

use super::table::Table;
use yeoul_base::ErrorKind;
use yeoul_disk::{RealDisk, place_files};

use crate::error::{Error, Result};

/// Parts that are encoded but not yet written, in addition to the one that each thread works on.
const PARTS_AHEAD: u64 = 1;

/// The size of a table that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Written {
    /// Rows in the file.
    pub rows: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// A part's number and its encoded columns, on their way to the file.
type Part = (u64, Result<Vec<ArrowColumnChunk>>);

/// Writes `table` to `path` with `threads` threads, calling `progress` with the number of rows after each part is written.
///
/// # Errors
/// `Cancelled` if `stop` was set meanwhile; else the file system's or the generator's. In each case there is no file at
/// `path` that did not exist before, and none under the temporary name.
pub(super) fn write(
    table: &Table,
    path: &Path,
    threads: usize,
    stop: &AtomicBool,
    progress: &dyn Fn(u64),
) -> Result<Written> {
    let temporary = temporary_path(path);
    let written = write_parts(table, &temporary, threads, stop, progress).and_then(|written| {
        place_files(&RealDisk, [(temporary.clone(), path.to_owned())])
            .map_err(|failure| Error::io("rename to", path, failure.source))?;
        Ok(written)
    });
    if written.is_err() {
        // If that fails too there is nothing more to do: the first error is reported.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// The name of `path` until it is complete: hidden, and not ending in `.parquet`, so that no reader takes it for a table.
pub(super) fn temporary_path(path: &Path) -> PathBuf {
    let name = path.file_name().map(|n| n.to_string_lossy()).unwrap_or_default();
    path.with_file_name(format!(".{name}.part"))
}

fn properties() -> WriterProperties {
    WriterProperties::builder()
        .set_created_by(concat!("yeoul ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::SNAPPY)
        .set_dictionary_enabled(true)
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_max_row_group_row_count(None)
        .build()
}

/// Writes the file under its temporary name, `path`.
pub(super) fn write_parts(
    table: &Table,
    path: &Path,
    threads: usize,
    stop: &AtomicBool,
    progress: &dyn Fn(u64),
) -> Result<Written> {
    let parquet = |e: ParquetError| parquet_error(path, e);
    let file = File::create(path).map_err(|e| Error::io("create", path, e))?;
    // The file has no Arrow schema in its metadata: that would tell readers to use the generator's string views.
    let schema = ArrowSchemaConverter::new().convert(&table.schema).map_err(parquet)?;
    let mut writer =
        SerializedFileWriter::new(file, schema.root_schema_ptr(), Arc::new(properties())).map_err(parquet)?;
    let factory = ArrowRowGroupWriterFactory::new(&writer, table.schema.clone());

    let threads = threads.clamp(1, usize::try_from(table.parts).unwrap_or(usize::MAX));
    let queue = Queue::new(table.parts, threads as u64 + PARTS_AHEAD);
    let (sender, receiver) = mpsc::channel::<Part>();
    let mut rows = 0;
    thread::scope(|scope| {
        // However this thread leaves, the others stop waiting for it.
        let closing = CloseOnDrop(&queue);
        for _ in 0..threads {
            let (sender, queue, factory) = (sender.clone(), &queue, &factory);
            scope.spawn(move || {
                let closing = CloseOnDrop(queue);
                while let Some(part) = queue.take() {
                    let encoded = encode(table, part, factory, stop, path);
                    let failed = encoded.is_err();
                    if sender.send((part, encoded)).is_err() || failed {
                        return;
                    }
                }
                closing.disarm();
            });
        }
        drop(sender);

        let mut early = BTreeMap::new();
        let mut next = 0;
        while next < table.parts {
            let Ok((part, encoded)) = receiver.recv() else {
                // Only a thread that panicked leaves without its part, and the scope passes the panic on.
                return Err(Error::new(ErrorKind::Internal, format!("a part of {} was lost", table.name)));
            };
            early.insert(part, encoded?);
            while let Some(chunks) = early.remove(&next) {
                let mut group = writer.next_row_group().map_err(parquet)?;
                for chunk in chunks {
                    chunk.append_to_row_group(&mut group).map_err(parquet)?;
                }
                let group_rows = group.close().map_err(parquet)?.num_rows().unsigned_abs();
                rows += group_rows;
                progress(group_rows);
                next += 1;
                queue.written(next);
            }
        }
        closing.disarm();
        Ok(())
    })?;

    writer.finish().map_err(parquet)?;
    let file = writer.inner();
    file.sync_all().map_err(|e| Error::io("sync", path, e))?;
    let bytes = file.metadata().map_err(|e| Error::io("read the size of", path, e))?.len();
    Ok(Written { rows, bytes })
}

/// Generates one part and encodes it as the columns of a row group.
fn encode(
    table: &Table,
    part: u64,
    factory: &ArrowRowGroupWriterFactory,
    stop: &AtomicBool,
    path: &Path,
) -> Result<Vec<ArrowColumnChunk>> {
    let parquet = |e: ParquetError| parquet_error(path, e);
    let index = usize::try_from(part).expect("a part number fits a machine word");
    let mut columns = factory.create_column_writers(index).map_err(parquet)?;
    for batch in (table.open)(part) {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Cancelled, "interrupted"));
        }
        let batch = batch.map_err(|e| {
            Error::new(ErrorKind::Internal, format!("the generator of {} failed", table.name)).with_source(e)
        })?;
        // Columns of these suites are not nested: each has one leaf, in the order of the schema.
        for ((field, array), column) in table.schema.fields().iter().zip(batch.columns()).zip(&mut columns) {
            for leaf in compute_leaves(field, array).map_err(parquet)? {
                column.write(&leaf).map_err(parquet)?;
            }
        }
    }
    columns.into_iter().map(|column| column.close().map_err(parquet)).collect()
}

/// Converts an error of the writer; a full disk keeps its kind although the library wraps it.
fn parquet_error(path: &Path, error: ParquetError) -> Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(io) => Error::io("write", path, *io),
            Err(other) => Error::new(ErrorKind::Internal, format!("cannot encode {}", path.display()))
                .with_source(other),
        },
        other => {
            Error::new(ErrorKind::Internal, format!("cannot encode {}", path.display())).with_source(other)
        }
    }
}

/// Hands out the part numbers in order, no further ahead of the file than the window.
struct Queue {
    parts: u64,
    window: u64,
    state: Mutex<QueueState>,
    changed: Condvar,
}

struct QueueState {
    taken: u64,
    written: u64,
    closed: bool,
}

impl Queue {
    fn new(parts: u64, window: u64) -> Self {
        let state = Mutex::new(QueueState { taken: 0, written: 0, closed: false });
        Self { parts, window, state, changed: Condvar::new() }
    }

    /// The next part, once it may be encoded; `None` if there is none, or the queue is closed.
    fn take(&self) -> Option<u64> {
        let mut state = self.lock();
        loop {
            if state.closed || state.taken == self.parts {
                return None;
            }
            if state.taken < state.written + self.window {
                state.taken += 1;
                return Some(state.taken - 1);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Notes that the file holds the first `count` parts.
    fn written(&self, count: u64) {
        self.lock().written = count;
        self.changed.notify_all();
    }

    fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// The state is valid between any two statements, so a panic elsewhere cannot have broken it.
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes the queue unless disarmed: on an early return and on a panic, so that no thread waits for one that has ended.
struct CloseOnDrop<'a>(&'a Queue);

impl CloseOnDrop<'_> {
    fn disarm(self) {
        std::mem::forget(self);
    }
}

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}
