//! The bytes of a text file, decompressed.

use std::io::Read;

use bytes::Bytes;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
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
