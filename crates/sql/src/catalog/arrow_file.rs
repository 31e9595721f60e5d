use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::{GetExt, Result, Statistics};
use datafusion::datasource::file_format::arrow::{ArrowFormat, ArrowFormatFactory};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_datasource::TableSchema;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_scan_config::FileScanConfig;
use datafusion_datasource::file_sink_config::FileSinkConfig;
use object_store::{ObjectMeta, ObjectStore};

use super::mended_columns::mended;

/// Arrow files as DataFusion reads and writes them, but for values that it would take for others.
#[derive(Debug)]
pub(super) struct ArrowFile;

#[async_trait]
impl FileFormat for ArrowFile {
    fn get_ext(&self) -> String {
        ArrowFormat.get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        ArrowFormat.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        ArrowFormat.compression_type()
    }

    async fn infer_schema(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        ArrowFormat.infer_schema(state, store, objects).await
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        ArrowFormat.infer_stats(state, store, schema, object).await
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        scan: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        mended(&self.get_ext(), ArrowFormat.create_physical_plan(state, scan).await?, state)
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        files: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        ArrowFormat.create_writer_physical_plan(input, state, files, order).await
    }

    fn file_source(&self, schema: TableSchema) -> Arc<dyn FileSource> {
        ArrowFormat.file_source(schema)
    }
}

/// Creates [`ArrowFile`]s.
#[derive(Debug)]
pub(crate) struct ArrowFiles;

impl FileFormatFactory for ArrowFiles {
    fn create(&self, _: &dyn Session, _: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        Ok(Arc::new(ArrowFile))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(ArrowFile)
    }
}

impl GetExt for ArrowFiles {
    fn get_ext(&self) -> String {
        ArrowFormatFactory::new().get_ext()
    }
}
