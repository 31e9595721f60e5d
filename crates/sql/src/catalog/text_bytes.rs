//! The bytes of a text file, decompressed.

use std::io::Read;

use bytes::{Buf, Bytes};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use memchr::memchr;
use object_store::path::Path;
use object_store::{GetOptions, GetResultPayload, ObjectStore};

/// The bytes of a local file that are read at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// The content of a whole file.
///
/// # Errors
/// The store's own.
pub(super) async fn bytes_of(
    store: &dyn ObjectStore,
    location: &Path,
    compression: FileCompressionType,
) -> Result<BoxStream<'static, Result<Bytes>>> {
    match store.get_opts(location, GetOptions::default()).await?.payload {
        // A store's own stream of a local file has a task for every 8 KiB.
        GetResultPayload::File(file, _) => {
            let mut file = compression.convert_read(file)?;
            let chunks = std::iter::from_fn(move || {
                let mut chunk = Vec::with_capacity(CHUNK_BYTES);
                match file.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut chunk) {
                    Ok(0) => None,
                    Ok(_) => Some(Ok(Bytes::from(chunk))),
                    Err(error) => Some(Err(DataFusionError::from(error))),
                }
            });
            Ok(futures::stream::iter(chunks).boxed())
        }
        GetResultPayload::Stream(stream) => {
            compression.convert_stream(stream.map_err(DataFusionError::from).boxed())
        }
    }
}

/// The bytes behind some lines.
pub(super) fn without_lines(
    bytes: BoxStream<'static, Result<Bytes>>,
    lines: usize,
) -> BoxStream<'static, Result<Bytes>> {
    if lines == 0 {
        return bytes;
    }
    let mut left = lines;
    let behind = move |mut chunk: Bytes| {
        while left > 0 {
            let Some(end) = memchr(b'\n', &chunk) else { return Bytes::new() };
            chunk.advance(end + 1);
            left -= 1;
        }
        chunk
    };
    bytes.map_ok(behind).boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_left_out_however_the_bytes_are_cut() {
        let text = b"a\n\nb\nc\n";
        for (lines, expected) in [(0, "a\n\nb\nc\n"), (1, "\nb\nc\n"), (3, "c\n"), (4, ""), (9, "")] {
            for length in 1..=text.len() {
                let chunks: Vec<Result<Bytes>> =
                    text.chunks(length).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
                let bytes = without_lines(futures::stream::iter(chunks).boxed(), lines);
                let left: Vec<Bytes> = bytes.try_collect().await.unwrap();
                assert_eq!(left.concat(), expected.as_bytes(), "{lines} by {length}");
            }
        }
    }
}
