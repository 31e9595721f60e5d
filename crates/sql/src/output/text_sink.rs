use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::common::parsers::CompressionTypeVariant;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::sink::DataSink;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use datafusion_datasource::file_sink_config::{FileSink, FileSinkConfig};
use datafusion_datasource::write::BatchSerializer;
use datafusion_datasource::write::demux::DemuxedStreamReceiver;
use datafusion_datasource::write::orchestration::spawn_writer_tasks_and_join;
use object_store::ObjectStore;

use super::answer::{BatchWriter, WriteFailure};
use super::csv::CsvWriter;
use super::json::JsonWriter;

/// Writes rows into files, as [`Format::Csv`](super::Format::Csv) and [`Format::Json`](super::Format::Json) write them.
#[derive(Debug)]
pub(crate) struct TextSink {
    files: FileSinkConfig,
    text: Text,
    compression: CompressionTypeVariant,
    level: Option<u32>,
}

/// The format of the files.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Text {
    /// An object per line.
    Json,
    /// A record per line.
    Csv { delimiter: u8, has_header: bool },
}

impl TextSink {
    pub(crate) fn new(
        files: FileSinkConfig,
        text: Text,
        compression: CompressionTypeVariant,
        level: Option<u32>,
    ) -> Self {
        Self { files, text, compression, level }
    }
}

impl DisplayAs for TextSink {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.text {
            Text::Json => "JsonSink",
            Text::Csv { .. } => "CsvSink",
        };
        write!(f, "{name}(file={})", self.files.original_url)
    }
}

#[async_trait]
impl FileSink for TextSink {
    fn config(&self) -> &FileSinkConfig {
        &self.files
    }

    async fn spawn_writer_tasks_and_join(
        &self,
        context: &Arc<TaskContext>,
        divided: SpawnedTask<Result<()>>,
        files: DemuxedStreamReceiver,
        store: Arc<dyn ObjectStore>,
    ) -> Result<u64> {
        let (text, compression) = (Arc::new(self.text), self.compression.into());
        spawn_writer_tasks_and_join(context, text, compression, self.level, store, divided, files).await
    }
}

#[async_trait]
impl DataSink for TextSink {
    fn schema(&self) -> &SchemaRef {
        self.files.output_schema()
    }

    async fn write_all(&self, rows: SendableRecordBatchStream, context: &Arc<TaskContext>) -> Result<u64> {
        FileSink::write_all(self, rows, context).await
    }
}

impl BatchSerializer for Text {
    fn serialize(&self, batch: RecordBatch, initial: bool) -> Result<Bytes> {
        let mut text = Vec::new();
        let written = match *self {
            Self::Json => JsonWriter::new(&mut text, &batch.schema()).write(&batch),
            Self::Csv { delimiter, has_header } => {
                let mut part = CsvWriter::part(&mut text, batch.schema(), delimiter, has_header && initial);
                // The header is written even if there are no rows.
                part.write(&batch).and_then(|()| part.finish())
            }
        };
        written.map_err(|failure| match failure {
            WriteFailure::Io(error) => DataFusionError::from(error),
            WriteFailure::Encode(error) => DataFusionError::from(error),
        })?;
        Ok(Bytes::from(text))
    }
}
