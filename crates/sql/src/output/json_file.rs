use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::catalog::Session;
use datafusion::common::config::{ConfigFileType, JsonOptions};
use datafusion::common::file_options::json_writer::JsonWriterOptions;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, GetExt, Result, Statistics, not_impl_err};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::json::{JsonFormat, JsonFormatFactory};
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use datafusion_datasource::TableSchema;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_scan_config::FileScanConfig;
use datafusion_datasource::file_sink_config::{FileSink, FileSinkConfig};
use datafusion_datasource::write::BatchSerializer;
use datafusion_datasource::write::demux::DemuxedStreamReceiver;
use datafusion_datasource::write::orchestration::spawn_writer_tasks_and_join;
use object_store::{ObjectMeta, ObjectStore};

use super::answer::{BatchWriter, WriteFailure};
use super::json::JsonWriter;

/// JSON files as DataFusion reads them, written with the texts of [`Format::Json`](super::Format::Json).
///
/// DataFusion's own writer puts the text of an error into the file where a time is out of range, and null for what is no
/// number.
#[derive(Debug, Default)]
pub(crate) struct JsonFileFactory;

impl FileFormatFactory for JsonFileFactory {
    fn create(&self, state: &dyn Session, options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        let mut known = state.default_table_options();
        known.set_config_format(ConfigFileType::JSON);
        known.alter_with_string_hash_map(options)?;
        Ok(Arc::new(JsonFile::new(known.json)))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(JsonFile::new(JsonOptions::default()))
    }
}

impl GetExt for JsonFileFactory {
    fn get_ext(&self) -> String {
        JsonFormatFactory::new().get_ext()
    }
}

/// Reads as the format within.
#[derive(Debug)]
struct JsonFile {
    read: JsonFormat,
}

impl JsonFile {
    fn new(options: JsonOptions) -> Self {
        Self { read: JsonFormat::default().with_options(options) }
    }
}

#[async_trait]
impl FileFormat for JsonFile {
    fn get_ext(&self) -> String {
        self.read.get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        self.read.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.read.compression_type()
    }

    async fn infer_schema(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        self.read.infer_schema(state, store, objects).await
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        self.read.infer_stats(state, store, schema, object).await
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        scan: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.read.create_physical_plan(state, scan).await
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        _: &dyn Session,
        config: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if config.insert_op != InsertOp::Append {
            return not_impl_err!("overwriting JSON files");
        }
        let options = JsonWriterOptions::try_from(self.read.options())?;
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(JsonSink { config, options }), order)))
    }

    fn file_source(&self, schema: TableSchema) -> Arc<dyn FileSource> {
        self.read.file_source(schema)
    }
}

/// Writes rows into files.
#[derive(Debug)]
struct JsonSink {
    config: FileSinkConfig,
    options: JsonWriterOptions,
}

impl DisplayAs for JsonSink {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JsonSink(file={})", self.config.original_url)
    }
}

#[async_trait]
impl FileSink for JsonSink {
    fn config(&self) -> &FileSinkConfig {
        &self.config
    }

    async fn spawn_writer_tasks_and_join(
        &self,
        context: &Arc<TaskContext>,
        divided: SpawnedTask<Result<()>>,
        files: DemuxedStreamReceiver,
        store: Arc<dyn ObjectStore>,
    ) -> Result<u64> {
        let (compression, level) = (self.options.compression.into(), self.options.compression_level);
        spawn_writer_tasks_and_join(context, Arc::new(Lines), compression, level, store, divided, files).await
    }
}

#[async_trait]
impl DataSink for JsonSink {
    fn schema(&self) -> &SchemaRef {
        self.config.output_schema()
    }

    async fn write_all(&self, rows: SendableRecordBatchStream, context: &Arc<TaskContext>) -> Result<u64> {
        FileSink::write_all(self, rows, context).await
    }
}

/// An object per line.
struct Lines;

impl BatchSerializer for Lines {
    fn serialize(&self, batch: RecordBatch, _: bool) -> Result<Bytes> {
        let mut text = Vec::new();
        JsonWriter::new(&mut text, &batch.schema()).write(&batch).map_err(|failure| match failure {
            WriteFailure::Io(error) => DataFusionError::from(error),
            WriteFailure::Encode(error) => DataFusionError::from(error),
        })?;
        Ok(Bytes::from(text))
    }
}
