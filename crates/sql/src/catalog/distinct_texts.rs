//! The number of distinct texts in a column of a Parquet file, by the headers of its dictionaries.
//!
//! Footers rarely tell it, and the least and the greatest text say nothing of it. A writer counts them, because it writes each once.

use std::any::Any;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::execution::cache::cache_manager::{CachedFileMetadataEntry, FileMetadata, FileMetadataCache};
use datafusion::parquet::basic::{Encoding, Type};
use datafusion::parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use object_store::{ObjectMeta, ObjectStore};

use super::page_header::{PageHeader, PageKind};

/// Bytes that are read of a page for its header.
const HEADER_BYTES: u64 = 128;
/// Row groups of a file whose dictionaries are asked.
const GROUPS_MAX: usize = 3;
/// A writer gives a dictionary up that grows larger than a page, 1 MiB as a rule: one that is nearly as large may lack texts.
const WHOLE_BYTES_MAX: u64 = 900 << 10;

/// The estimated numbers of distinct texts of columns of a file, by their names. Kept beside the file's footer.
#[derive(Debug)]
struct DistinctTexts(HashMap<String, usize>);

impl FileMetadata for DistinctTexts {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn memory_size(&self) -> usize {
        self.0.keys().map(|name| name.len() + 2 * size_of::<(String, usize)>()).sum()
    }

    fn extra_info(&self) -> datafusion::common::HashMap<String, String> {
        datafusion::common::HashMap::default()
    }
}

/// Adds the numbers of distinct texts to what is known of a file whose columns are those of `schema`. What cannot be read is not known:
/// the scan will say why.
pub(super) async fn count(
    known: &mut Statistics,
    schema: &Schema,
    footer: &ParquetMetaData,
    (store, file): (&dyn ObjectStore, &ObjectMeta),
    cache: &Arc<FileMetadataCache>,
) {
    // A file has no files below it.
    let key = file.location.clone().join("distinct-texts");
    let kept = cache.get(&key).filter(|kept| kept.is_valid_for(file));
    let entry = match kept {
        Some(entry) => entry,
        None => {
            let counted = Arc::new(DistinctTexts(counted(footer, store, file).await));
            let entry = CachedFileMetadataEntry::new(file.clone(), counted);
            cache.put(&key, entry.clone());
            entry
        }
    };
    let Some(counted) = entry.file_metadata.as_any().downcast_ref::<DistinctTexts>() else { return };
    for (column, field) in known.column_statistics.iter_mut().zip(schema.fields()) {
        if let (Precision::Absent, Some(count)) = (&column.distinct_count, counted.0.get(field.name())) {
            column.distinct_count = Precision::Inexact(*count);
        }
    }
}

async fn counted(
    footer: &ParquetMetaData,
    store: &dyn ObjectStore,
    file: &ObjectMeta,
) -> HashMap<String, usize> {
    let groups = footer.row_groups();
    let step = groups.len().div_ceil(GROUPS_MAX).max(1);
    let groups: Vec<_> = groups.iter().step_by(step).collect();
    let columns = footer.file_metadata().schema_descr();
    let mut chunks: Vec<(&str, &ColumnChunkMetaData)> = Vec::new();
    for (leaf, column) in columns.columns().iter().enumerate() {
        // Of a list, the numbers of rows and of values differ.
        let is_text = column.physical_type() == Type::BYTE_ARRAY && column.path().parts().len() == 1;
        let of_groups: Option<Vec<_>> = groups
            .iter()
            .map(|group| Some((column.name(), group.column(leaf))).filter(|(_, chunk)| has_dictionary(chunk)))
            .collect();
        if is_text {
            chunks.extend(of_groups.into_iter().flatten());
        }
    }
    chunks.retain(|(_, chunk)| !header_range(chunk, file).is_empty());
    let ranges: Vec<Range<u64>> = chunks.iter().map(|(_, chunk)| header_range(chunk, file)).collect();
    let Ok(headers) = store.get_ranges(&file.location, &ranges).await else { return HashMap::new() };
    let mut counts: HashMap<String, Option<f64>> = HashMap::new();
    for ((name, chunk), header) in chunks.into_iter().zip(headers) {
        let header = PageHeader::decode(&header).filter(|header| header.kind == PageKind::Dictionary);
        let count = header.filter(|header| is_whole(chunk, header)).map(|header| {
            let rows = u64::try_from(chunk.num_values()).unwrap_or(0);
            of_table(header.values as f64, rows as f64)
        });
        let before = counts.entry(name.to_owned()).or_insert(Some(0.0));
        *before = before.zip(count).map(|(before, count)| before.max(count));
    }
    let rows = footer.file_metadata().num_rows() as f64;
    let count =
        |(name, count): (String, Option<f64>)| Some((name, count?.min(rows).max(1.0).round() as usize));
    counts.into_iter().filter_map(count).collect()
}

fn header_range(chunk: &ColumnChunkMetaData, file: &ObjectMeta) -> Range<u64> {
    let start = chunk.dictionary_page_offset().and_then(|offset| u64::try_from(offset).ok()).unwrap_or(0);
    let start = start.min(file.size);
    start..start.saturating_add(HEADER_BYTES).min(file.size)
}

/// True if all pages of a chunk may be by its dictionary.
fn has_dictionary(chunk: &ColumnChunkMetaData) -> bool {
    let pages = chunk.page_encoding_stats_mask();
    let is_by_dictionary = pages.is_none_or(|pages| {
        pages.is_only(Encoding::RLE_DICTIONARY) || pages.is_only(Encoding::PLAIN_DICTIONARY)
    });
    is_by_dictionary && chunk.dictionary_page_offset().is_some()
}

fn is_whole(chunk: &ColumnChunkMetaData, dictionary: &PageHeader) -> bool {
    chunk.page_encoding_stats_mask().is_some() || dictionary.uncompressed <= WHOLE_BYTES_MAX
}

/// The number of distinct values from which so many rows have drawn so many distinct ones, without regard to order.
fn of_table(distinct: f64, rows: f64) -> f64 {
    if distinct > 0.95 * rows {
        return f64::INFINITY;
    }
    let drawn = |from: f64| from * (1.0 - (-rows / from).exp());
    let (mut least, mut most) = (distinct.max(1.0), 20.0 * rows.max(1.0));
    for _ in 0..60 {
        let middle = (least + most) / 2.0;
        if drawn(middle) < distinct { least = middle } else { most = middle }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_texts_in_many_rows_are_all_there_are() {
        assert!((of_table(10.0, 100_000.0) - 10.0).abs() < 0.01);
    }

    #[test]
    fn texts_of_which_a_row_group_has_a_part_are_more() {
        let from = 50_000.0;
        let rows = 60_000.0_f64;
        let distinct = from * (1.0 - (-rows / from).exp());
        assert!((of_table(distinct, rows) / from - 1.0).abs() < 0.01);
        assert!(of_table(rows, rows).is_infinite());
    }
}
