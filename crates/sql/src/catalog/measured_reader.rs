//! A reader of Parquet files that asks for the memory of pages and values before they are decoded.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::ParquetFileReaderFactory;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use futures::future::BoxFuture;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use yeoul_base::{ByteSize, ErrorKind};
use yeoul_memory::{Claim, ProcessMemory};

use super::files::shown;
use super::page_header::{PageHeader, PageKind};
use crate::Error;
use crate::answer::room_hint;

/// What a row group takes while it is decoded is asked for if it is this part of the promise: what is less has its place beside the
/// memory of operators.
const ASKED_PART: u64 = 8;

/// A page with a dictionary is in memory as it is in the file, and as values.
const DICTIONARY_COPIES: u64 = 2;

/// A batch is in memory while it is made, in the vectors that it is made of as they grow, and in the operator that takes it.
const BATCH_COPIES: u64 = 4;

/// Bytes of a value of which nothing but its number in a dictionary is in the file, if its type does not say.
const VALUE_BYTES: u64 = 8;

/// Writers end a page at some 1 MiB: what is much larger has large values.
const LARGE_PAGE_BYTES: u64 = 4 << 20;

/// Readers of another factory, measured.
#[derive(Debug)]
pub(super) struct MeasuredReaders {
    pub(super) inner: Arc<dyn ParquetFileReaderFactory>,
    pub(super) process: Arc<ProcessMemory>,
    /// The rows of a batch.
    pub(super) batch_rows: usize,
}

impl ParquetFileReaderFactory for MeasuredReaders {
    fn create_reader(
        &self,
        partition: usize,
        file: PartitionedFile,
        footer_bytes: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        let name = shown(file.object_meta.location.as_ref()).to_owned();
        let inner = self.inner.create_reader(partition, file, footer_bytes, metrics)?;
        let process = Arc::clone(&self.process);
        let room = Room { name, process, claim: None };
        let sizes = Sizes { batch_rows: self.batch_rows as u64, footer: None, chunks: Vec::new() };
        Ok(Box::new(MeasuredReader { inner, room, sizes }))
    }
}

struct MeasuredReader {
    inner: Box<dyn AsyncFileReader + Send>,
    room: Room,
    sizes: Sizes,
}

impl AsyncFileReader for MeasuredReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        self.inner.get_bytes(range)
    }

    /// The bytes of the pages that are decoded next.
    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        async move {
            let encoded = ranges.iter().map(|range| range.end.saturating_sub(range.start)).sum();
            self.room.ask(encoded)?;
            if self.sizes.footer.is_none() {
                // A reader that takes the place of another one is not asked for it: what it says is in a cache.
                self.sizes.footer = Some(self.inner.get_metadata(None).await?);
            }
            let pages = self.inner.get_byte_ranges(ranges.clone()).await?;
            let decoded = self.sizes.bytes_decoded(&ranges, &pages);
            self.room.ask(encoded.saturating_add(decoded))?;
            Ok(pages)
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        async move {
            let footer = self.inner.get_metadata(options).await?;
            self.sizes.footer = Some(Arc::clone(&footer));
            Ok(footer)
        }
        .boxed()
    }
}

/// The share of the process's memory that a file holds.
struct Room {
    name: String,
    process: Arc<ProcessMemory>,
    claim: Option<Claim>,
}

impl Room {
    /// Holds so many bytes in place of what was asked for before, if they are many.
    fn ask(&mut self, bytes: u64) -> ParquetResult<()> {
        self.claim = None;
        let promise = self.process.promise().unwrap_or(usize::MAX) as u64;
        if bytes < promise / ASKED_PART {
            return Ok(());
        }
        let asked = usize::try_from(bytes).unwrap_or(usize::MAX);
        let claim = self.process.claim(asked).map_err(|free| {
            let size = ByteSize::from_bytes;
            let what = format!(
                "decoding the values of '{}' takes up to {}, and the process has {} left under its limit",
                self.name,
                size(bytes),
                size(free as u64)
            );
            let error = Error::new(ErrorKind::ResourceExhausted, what);
            ParquetError::External(Box::new(error.with_hint(room_hint(&self.process, asked))))
        })?;
        self.claim = Some(claim);
        Ok(())
    }
}

impl fmt::Debug for MeasuredReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MeasuredReader").field("file", &self.room.name).finish_non_exhaustive()
    }
}

/// The memory that the pages of a file take once they are decoded.
struct Sizes {
    batch_rows: u64,
    footer: Option<Arc<ParquetMetaData>>,
    /// The places where the column chunks of the file begin, in order, each with its row group and column.
    chunks: Vec<(u64, usize, usize)>,
}

impl Sizes {
    /// What decoding these pages takes at most at a time, in bytes: of each column its dictionary, its largest page and the values of
    /// a batch. Pages of which the header cannot be read count as nothing: the decoder refuses them.
    fn bytes_decoded(&mut self, ranges: &[Range<u64>], pages: &[Bytes]) -> u64 {
        let Some(footer) = &self.footer else { return 0 };
        if self.chunks.is_empty() {
            self.chunks = places_of_chunks(footer);
        }
        let mut columns: Vec<((usize, usize), ColumnPages)> = Vec::new();
        for (range, bytes) in ranges.iter().zip(pages) {
            let next = self.chunks.partition_point(|(start, ..)| *start <= range.start);
            let Some((_, group, column)) = next.checked_sub(1).map(|at| self.chunks[at]) else { continue };
            if columns.last().is_none_or(|(last, _)| *last != (group, column)) {
                columns.push(((group, column), ColumnPages::new(footer.row_group(group), column)));
            }
            if let Some((_, column)) = columns.last_mut() {
                PageHeader::all(bytes).for_each(|page| column.add(page));
            }
        }
        columns.iter().map(|(_, column)| column.bytes_decoded(self.batch_rows)).fold(0, u64::saturating_add)
    }
}

fn places_of_chunks(footer: &ParquetMetaData) -> Vec<(u64, usize, usize)> {
    let mut chunks: Vec<(u64, usize, usize)> = Vec::new();
    for (at, group) in footer.row_groups().iter().enumerate() {
        chunks
            .extend(group.columns().iter().enumerate().map(|(column, chunk)| (start_of(chunk), at, column)));
    }
    chunks.sort_unstable();
    chunks
}

/// The place where the first page of a column chunk begins.
fn start_of(chunk: &ColumnChunkMetaData) -> u64 {
    count(chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset()))
}

/// The pages of a column chunk, in order.
struct ColumnPages<'a> {
    chunk: &'a ColumnChunkMetaData,
    /// More than one for lists.
    values_per_row: u64,
    dictionary: u64,
    /// Bytes of a value of the dictionary, on average.
    entry: u64,
    largest: u64,
    data: Vec<DataPage>,
}

/// A page of data.
struct DataPage {
    values: u64,
    /// Bytes of the values, once they are decoded.
    bytes: u64,
    /// True if they may be those of a single value.
    is_large: bool,
}

impl<'a> ColumnPages<'a> {
    fn new(group: &'a RowGroupMetaData, column: usize) -> Self {
        let chunk = group.column(column);
        let values_per_row = match chunk.column_descr().max_rep_level() {
            0 => 1,
            _ => count(chunk.num_values()).div_ceil(count(group.num_rows()).max(1)).max(1),
        };
        Self { chunk, values_per_row, dictionary: 0, entry: VALUE_BYTES, largest: 0, data: Vec::new() }
    }

    fn add(&mut self, page: PageHeader) {
        match page.kind {
            PageKind::Dictionary => {
                self.dictionary = page.uncompressed;
                self.entry = page.uncompressed / page.values.max(1);
            }
            PageKind::Data { is_by_dictionary } => {
                self.largest = self.largest.max(page.uncompressed);
                let is_large = !is_by_dictionary && page.uncompressed >= LARGE_PAGE_BYTES;
                let bytes =
                    if is_by_dictionary { page.values.saturating_mul(self.entry) } else { page.uncompressed };
                self.data.push(DataPage { values: page.values, bytes, is_large });
            }
            PageKind::Other => {}
        }
    }

    fn bytes_decoded(&self, batch_rows: u64) -> u64 {
        let dictionary = self.dictionary.saturating_mul(DICTIONARY_COPIES);
        let batch = self.bytes_of_batch(batch_rows.saturating_mul(self.values_per_row));
        dictionary.saturating_add(self.largest).saturating_add(batch.saturating_mul(BATCH_COPIES))
    }

    /// The bytes of the largest batch of so many values.
    fn bytes_of_batch(&self, batch_values: u64) -> u64 {
        // One that ends with a page, and one that begins with one.
        let most = largest_run(self.data.iter(), batch_values);
        let most = most.max(largest_run(self.data.iter().rev(), batch_values));
        // Prefixes are in the file once, and the largest texts of a dictionary may be the most frequent.
        let known = self.chunk.unencoded_byte_array_data_bytes().map_or(0, count);
        let estimated = self.data.iter().fold(0u64, |sum, page| sum.saturating_add(page.bytes));
        if known > estimated { scaled(most, known, estimated).min(known) } else { most }
    }
}

/// The bytes of the most that so many values, up to the end of a page, have.
fn largest_run<'p>(pages: impl Iterator<Item = &'p DataPage>, run_values: u64) -> u64 {
    let (mut window, mut values, mut bytes, mut most) = (VecDeque::new(), 0u64, 0u64, 0u64);
    for page in pages {
        let counted = if page.is_large { page.values.min(run_values) } else { page.values };
        window.push_back((counted, page.bytes));
        values = values.saturating_add(counted);
        bytes = bytes.saturating_add(page.bytes);
        while let Some((first_values, first_bytes)) = window.front().copied() {
            let without_first = (values.saturating_sub(first_values), bytes.saturating_sub(first_bytes));
            if without_first.0 < run_values || window.len() == 1 {
                // Of the first page, only the last values.
                let missing = run_values.saturating_sub(without_first.0).min(first_values);
                most = most.max(without_first.1.saturating_add(scaled(first_bytes, missing, first_values)));
                break;
            }
            window.pop_front();
            (values, bytes) = without_first;
        }
    }
    most
}

/// A number of a footer.
fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// `bytes` times `part` over `whole`.
fn scaled(bytes: u64, part: u64, whole: u64) -> u64 {
    let scaled = u128::from(bytes) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, ListArray, RecordBatch, StringArray};
    use datafusion::arrow::datatypes::Int64Type;
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::{EnabledStatistics, WriterProperties};
    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;

    /// What decoding the only column of a file of one row group takes, with batches of 100 rows.
    fn bytes_decoded(column: ArrayRef, has_dictionary: bool) -> u64 {
        let batch = RecordBatch::try_from_iter([("t", column)]).unwrap();
        let properties = WriterProperties::builder()
            .set_dictionary_enabled(has_dictionary)
            .set_dictionary_page_size_limit(64 << 20)
            .set_statistics_enabled(EnabledStatistics::None)
            .set_write_batch_size(100);
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties.build())).unwrap();
        writer.write(&batch).unwrap();
        let file = Bytes::from(writer.into_inner().unwrap());
        let footer = Arc::new(SerializedFileReader::new(file.clone()).unwrap().metadata().clone());
        let (start, length) = footer.row_group(0).column(0).byte_range();
        let mut sizes = Sizes { batch_rows: 100, footer: Some(footer), chunks: Vec::new() };
        let range = start..start + length;
        let pages = file.slice(start as usize..range.end as usize);
        sizes.bytes_decoded(&[range], &[pages])
    }

    fn texts(length_of: impl Fn(usize) -> usize) -> ArrayRef {
        Arc::new((0..2000).map(|n| Some(format!("{n}{}", "x".repeat(length_of(n))))).collect::<StringArray>())
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn what_decoding_takes_follows_the_largest_values() {
        // A batch has 1 MB of texts, a page 1 MiB.
        let even = bytes_decoded(texts(|_| 10_000), false);
        assert!((4 * MIB..12 * MIB).contains(&even), "{even}");
        // 40 of 2,000 texts are large, and one batch has them.
        let skewed = bytes_decoded(texts(|n| if (900..940).contains(&n) { 500_000 } else { 10 }), false);
        assert!((60 * MIB..130 * MIB).contains(&skewed), "{skewed}");
        let small = bytes_decoded(texts(|_| 10), false);
        assert!(small < MIB, "{small}");
    }

    #[test]
    fn texts_by_a_dictionary_count_as_often_as_they_are_used() {
        let same = |length: usize| Arc::new(StringArray::from(vec!["x".repeat(length); 2000])) as ArrayRef;
        let bytes = bytes_decoded(same(100_000), true);
        assert!((38 * MIB..42 * MIB).contains(&bytes), "a batch has 10 MB: {bytes}");
        assert!(bytes_decoded(same(10), true) < MIB);
    }

    #[test]
    fn rows_of_lists_have_as_many_values_as_their_items() {
        let items = (0..10_000).map(Some).collect::<Vec<_>>();
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>((0..200).map(|_| Some(items.clone())));
        let bytes = bytes_decoded(Arc::new(lists), false);
        assert!((30 * MIB..50 * MIB).contains(&bytes), "a batch has 8 MB: {bytes}");
    }

    #[test]
    fn what_is_no_page_counts_as_nothing() {
        let mut sizes = Sizes { batch_rows: 100, footer: None, chunks: Vec::new() };
        assert_eq!(
            sizes.bytes_decoded(std::slice::from_ref(&(0..9)), &[Bytes::from_static(b"123456789")]),
            0
        );
    }
}
