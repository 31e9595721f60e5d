use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::config::ConfigFileType;
use datafusion::common::{GetExt, Result, Statistics, not_impl_err};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::parquet::{ParquetFormat, ParquetFormatFactory, ParquetSink};
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_datasource::TableSchema;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_scan_config::FileScanConfig;
use datafusion_datasource::file_sink_config::FileSinkConfig;
use object_store::{ObjectMeta, ObjectStore};

/// Parquet files as DataFusion reads and writes them, without a word on the order of their rows (`sorting_columns`).
///
/// DataFusion takes files that are in order, and whose ranges do not meet, for one table in order, though null keys lie at
/// one end of each file; and it writes the number of a column where the format has that of a leaf, which differ behind a
/// nested column.
#[derive(Debug, Default)]
pub(crate) struct ParquetFileFactory;

impl FileFormatFactory for ParquetFileFactory {
    fn create(&self, state: &dyn Session, options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        let mut known = state.default_table_options();
        known.set_config_format(ConfigFileType::PARQUET);
        known.alter_with_string_hash_map(options)?;
        Ok(Arc::new(ParquetFile(ParquetFormat::default().with_options(known.parquet))))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(ParquetFile(ParquetFormat::default()))
    }
}

impl GetExt for ParquetFileFactory {
    fn get_ext(&self) -> String {
        ParquetFormatFactory::new().get_ext()
    }
}

/// Does as the format within, and leaves the trait's answer to what order there is: none.
#[derive(Debug)]
struct ParquetFile(ParquetFormat);

#[async_trait]
impl FileFormat for ParquetFile {
    fn get_ext(&self) -> String {
        self.0.get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        self.0.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.0.compression_type()
    }

    async fn infer_schema(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        self.0.infer_schema(state, store, objects).await
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        self.0.infer_stats(state, store, schema, object).await
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        scan: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.create_physical_plan(state, scan).await
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        _: &dyn Session,
        config: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if config.insert_op != InsertOp::Append {
            return not_impl_err!("overwriting Parquet files");
        }
        let sink = ParquetSink::new(config, self.0.options().clone());
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), order)))
    }

    fn file_source(&self, schema: TableSchema) -> Arc<dyn FileSource> {
        self.0.file_source(schema)
    }
}
