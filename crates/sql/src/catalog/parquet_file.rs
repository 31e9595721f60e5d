use std::collections::HashMap;
use std::slice;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::config::ConfigFileType;
use datafusion::common::stats::Precision;
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
use futures::{StreamExt, TryStreamExt};
use object_store::{ObjectMeta, ObjectStore};

use super::files::unreadable;
use super::merged_columns::MergedColumns;

/// Parquet files as DataFusion reads and writes them, but for three things that their writers note in them:
///
/// - how the writer held texts in memory (`ARROW:schema`): a folder to which several have written would be no table;
/// - the order of their rows (`sorting_columns`), of which not a word is said. DataFusion takes files that are in order, and
///   whose ranges do not meet, for one table in order, though null keys lie at one end of each file; and it writes the number
///   of a column where the format has that of a leaf, which differ behind a nested column;
/// - the ranges of floats, in which NaN is not, though DataFusion takes it for the greatest number.
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

/// The columns of a file, with its texts and bytes as the reader holds them: as views of larger buffers, or not.
fn one_kind_of_text(schema: &Schema, views: bool) -> Schema {
    let fields = schema.fields().iter().map(|field| match (field.data_type(), views) {
        (DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View, true) => {
            of_type(field, DataType::Utf8View)
        }
        (DataType::Binary | DataType::LargeBinary | DataType::BinaryView, true) => {
            of_type(field, DataType::BinaryView)
        }
        _ => plain(field),
    });
    Schema::new_with_metadata(fields.collect::<Fields>(), schema.metadata().clone())
}

/// A field without views, also within what is nested.
fn plain(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::LargeBinary | DataType::BinaryView => DataType::Binary,
        DataType::List(item) => DataType::List(plain(item)),
        DataType::LargeList(item) => DataType::LargeList(plain(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(plain(item), *length),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain).collect()),
        DataType::Map(entries, is_sorted) => DataType::Map(plain(entries), *is_sorted),
        other => other.clone(),
    };
    of_type(field, data_type)
}

fn of_type(field: &Field, data_type: DataType) -> FieldRef {
    Arc::new(field.clone().with_data_type(data_type))
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
        let mut objects: Vec<&ObjectMeta> = objects.iter().collect();
        objects.sort_by(|one, other| one.location.cmp(&other.location));
        let told = futures::stream::iter(objects).map(|object| async move {
            let told = self.0.infer_schema(state, store, slice::from_ref(object)).await;
            told.map(|told| (object, told)).map_err(|error| unreadable(object, error))
        });
        let at_once = state.config_options().execution.meta_fetch_concurrency.get();
        let mut told = told.boxed().buffered(at_once);
        let mut columns = MergedColumns::default();
        while let Some((object, schema)) = told.try_next().await? {
            let schema = one_kind_of_text(&schema, self.0.force_view_types());
            columns.add(object.location.as_ref(), schema)?;
        }
        Ok(Arc::new(columns.finish()?))
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        let mut statistics = self.0.infer_stats(state, store, Arc::clone(&schema), object).await?;
        for (column, field) in statistics.column_statistics.iter_mut().zip(schema.fields()) {
            if field.data_type().is_floating() {
                (column.min_value, column.max_value) = (Precision::Absent, Precision::Absent);
            }
        }
        Ok(statistics)
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
