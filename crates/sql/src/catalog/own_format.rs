use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{Fields, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::config::{ConfigFileType, TableOptions};
use datafusion::common::{GetExt, Result, Statistics, not_impl_err};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_datasource::TableSchema;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_scan_config::FileScanConfig;
use datafusion_datasource::file_sink_config::FileSinkConfig;
use object_store::{ObjectMeta, ObjectStore};

use super::mended_columns::mended;
use crate::copy::written_times::TimestampUnit;

/// What we do differently for one of DataFusion's file formats.
#[async_trait]
pub(crate) trait Own: FileFormat + Default {
    const TYPE: ConfigFileType;

    /// The format with the options of a table or statement.
    fn with(options: TableOptions) -> Self;

    /// Writes rows into files.
    ///
    /// # Errors
    /// The format's own for its options.
    fn sink(
        &self,
        state: &dyn Session,
        files: FileSinkConfig,
        unit: TimestampUnit,
    ) -> Result<Arc<dyn DataSink>>;

    /// The columns of files that form one table.
    ///
    /// # Errors
    /// The store's own, and the format's for what it finds in a file.
    async fn columns(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        self.infer_schema(state, store, files).await
    }

    /// Checks that reading honours all options.
    ///
    /// # Errors
    /// `Invalid` for one that only writing honours.
    fn check_read(&self) -> Result<()> {
        Ok(())
    }

    /// What is to be scanned, with what we do differently before it is planned.
    ///
    /// # Errors
    /// The store's own.
    async fn before_scan(&self, scan: FileScanConfig, _: &dyn Session) -> Result<FileScanConfig> {
        Ok(scan)
    }

    /// The scan that DataFusion planned, with what we do differently when reading.
    fn scan(&self, plan: Arc<dyn ExecutionPlan>, _: &dyn Session) -> Arc<dyn ExecutionPlan> {
        plan
    }

    /// The columns of a table as files of this format hold them.
    fn as_stored(columns: &Schema) -> Schema {
        columns.clone()
    }

    /// Checks that rows may come beside the files of a table with these columns.
    ///
    /// # Errors
    /// `Invalid` if the files would not be one table.
    fn check_insert(_: &Schema) -> Result<()> {
        Ok(())
    }

    /// Which of the statistics that a file declares about its columns are believed.
    fn believed(told: Statistics, _: &Schema) -> Statistics {
        told
    }
}

/// One of DataFusion's formats with our changes. It keeps the trait's default for the order of rows: none.
#[derive(Debug)]
pub(crate) struct OwnFormat<F>(pub(super) F, pub(super) TimestampUnit);

#[async_trait]
impl<F: Own> FileFormat for OwnFormat<F> {
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
        self.0.columns(state, store, objects).await
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        let stored = Arc::new(F::as_stored(&schema));
        let told = self.0.infer_stats(state, store, stored, object).await?;
        Ok(F::believed(told, &schema))
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        scan: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.check_read()?;
        let scan = self.0.before_scan(scan, state).await?;
        let plan = self.0.create_physical_plan(state, scan).await?;
        mended(&self.get_ext(), self.0.scan(plan, state), state)
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        files: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if files.insert_op != InsertOp::Append {
            return not_impl_err!("overwriting {:?} files", F::TYPE);
        }
        // `COPY` makes new files, of which it knows the address.
        if files.original_url.is_empty() {
            F::check_insert(&files.output_schema)?;
        }
        Ok(Arc::new(DataSinkExec::new(input, self.0.sink(state, files, self.1)?, order)))
    }

    fn file_source(&self, schema: TableSchema) -> Arc<dyn FileSource> {
        let columns = Arc::new(F::as_stored(schema.file_schema()));
        let keys = schema.table_partition_cols().iter().cloned().collect::<Fields>();
        self.0.file_source(TableSchema::builder(columns).with_table_partition_cols(keys).build())
    }
}

/// Creates formats of one kind.
pub(crate) struct OwnFormatFactory<F>(PhantomData<F>);

impl<F> OwnFormatFactory<F> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<F: Own> FileFormatFactory for OwnFormatFactory<F> {
    fn create(&self, state: &dyn Session, options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        let mut known = state.default_table_options();
        known.set_config_format(F::TYPE);
        let mut options = options.clone();
        // Of all formats, only Parquet's types have units.
        let unit = match F::TYPE {
            ConfigFileType::PARQUET => options.remove(TimestampUnit::OPTION),
            _ => None,
        };
        let unit = unit.map_or(Ok(TimestampUnit::default()), |unit| TimestampUnit::read(&unit))?;
        known.alter_with_string_hash_map(&options)?;
        Ok(Arc::new(OwnFormat(F::with(known), unit)))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(OwnFormat(F::default(), TimestampUnit::default()))
    }
}

impl<F: Own> GetExt for OwnFormatFactory<F> {
    fn get_ext(&self) -> String {
        F::default().get_ext()
    }
}

impl<F: Own> fmt::Debug for OwnFormatFactory<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnFormatFactory({:?})", F::TYPE)
    }
}
