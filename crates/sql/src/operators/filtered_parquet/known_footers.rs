//! Readers of a file whose footer and page indexes are known: they are not read again each time that some of its row groups are opened.

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
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::ParquetMetaData;

/// Readers of another factory, for one file.
#[derive(Debug)]
pub(super) struct KnownFooters {
    pub(super) inner: Arc<dyn ParquetFileReaderFactory>,
    pub(super) footer: Arc<ParquetMetaData>,
}

impl ParquetFileReaderFactory for KnownFooters {
    fn create_reader(
        &self,
        partition: usize,
        file: PartitionedFile,
        footer_bytes: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        let inner = self.inner.create_reader(partition, file, footer_bytes, metrics)?;
        Ok(Box::new(KnownFooter { inner, footer: Arc::clone(&self.footer) }))
    }
}

struct KnownFooter {
    inner: Box<dyn AsyncFileReader + Send>,
    footer: Arc<ParquetMetaData>,
}

impl AsyncFileReader for KnownFooter {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        self.inner.get_bytes(range)
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        self.inner.get_byte_ranges(ranges)
    }

    fn get_metadata<'a>(
        &'a mut self,
        _: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        let footer = Arc::clone(&self.footer);
        async move { Ok(footer) }.boxed()
    }
}
