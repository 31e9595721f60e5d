//! The begin of a CSV file, read to tell its dialect.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use futures::TryStreamExt;
use object_store::{ObjectMeta, ObjectStore};
use yeoul_base::ErrorKind;

use super::csv_sniffer::{Known, SAMPLE_BYTES, Sniffed, sniff};
use super::files::shown;
use super::text_bytes::bytes_of;
use crate::Error;

/// The dialect of a file.
///
/// # Errors
/// The store's own; `Invalid` for a file that is UTF-16.
pub(super) async fn sniffed(
    store: &Arc<dyn ObjectStore>,
    file: &ObjectMeta,
    compression: FileCompressionType,
    known: Known,
) -> Result<Sniffed> {
    let mut bytes = bytes_of(store.as_ref(), &file.location, compression).await?;
    let mut sample = Vec::new();
    let mut is_whole = true;
    while let Some(chunk) = bytes.try_next().await? {
        let left = SAMPLE_BYTES - sample.len();
        sample.extend_from_slice(&chunk[..left.min(chunk.len())]);
        // The next chunk may be empty, and so may what follows a sample of this length.
        if sample.len() == SAMPLE_BYTES {
            is_whole = false;
            break;
        }
    }
    if matches!(&sample[..], [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..]) {
        let name = shown(file.location.as_ref());
        let error = Error::new(ErrorKind::Invalid, format!("'{name}' is UTF-16, and text is read as UTF-8"));
        return Err(error.with_hint(format!("iconv -f UTF-16 -t UTF-8 '{name}' converts it")).into());
    }
    Ok(sniff(&sample, is_whole, known))
}

/// The options of DataFusion's format for a dialect.
pub(super) fn options(sniffed: Sniffed) -> Vec<(&'static str, String)> {
    let letter = |letter: u8| char::from(letter).to_string();
    let mut options = vec![
        ("format.delimiter", letter(sniffed.layout.delimiter)),
        ("format.has_header", sniffed.has_header.to_string()),
        ("format.quote", letter(sniffed.layout.quote)),
    ];
    options.extend(sniffed.layout.escape.map(|escape| ("format.escape", letter(escape))));
    options.extend(sniffed.layout.comment.map(|comment| ("format.comment", letter(comment))));
    options
}
