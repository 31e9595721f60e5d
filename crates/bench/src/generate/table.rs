//! A table to be generated: its schema, and how to open each of its parts.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

/// Rows of a part, and thus of a row group. DuckDB and DataFusion divide the scan of a file by row groups, so there should
/// be more of them than threads even at scale 1; below some 120 000 rows the overhead of a group is noticeable.
pub(super) const ROWS_PER_PART: u64 = 250_000;

/// The batches of one part, in order.
pub(super) type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

/// One table of a suite.
pub(super) struct Table {
    /// The table's name, which is also its file's name.
    pub name: &'static str,
    /// Its approximate number of rows, for the progress bar and the number of parts.
    pub rows: u64,
    /// The schema of every batch.
    pub schema: SchemaRef,
    /// Number of parts, at least 1.
    pub parts: u64,
    /// Opens a part, numbered from 0. All parts in order form the table.
    pub open: Box<dyn Fn(u64) -> Batches + Send + Sync>,
}

/// The number of parts of about `part_rows` rows for a table of about `rows` rows.
pub(super) fn parts_for(rows: u64, part_rows: u64) -> u64 {
    rows.div_ceil(part_rows).max(1)
}
