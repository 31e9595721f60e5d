use std::sync::Arc;
use std::{mem, slice};

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::config::{ConfigFileType, TableOptions};
use datafusion::common::stats::Precision;
use datafusion::common::{Result, Statistics};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::parquet::{ParquetFormat, ParquetSink};
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::datasource::physical_plan::{FileScanConfig, ParquetSource};
use datafusion::datasource::sink::DataSink;
use datafusion::datasource::source::DataSourceExec;
use datafusion::parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_datasource::file_sink_config::FileSinkConfig;
use futures::{StreamExt, TryStreamExt};
use object_store::{ObjectMeta, ObjectStore};
use yeoul_base::ErrorKind;

use super::files::unreadable;
use super::measured_reader::MeasuredReaders;
use super::merged_columns::MergedColumns;
use super::own_format::Own;
use super::parquet_sizes::rows_per_batch;
use super::text_limits::TextLimits;
use super::uuid_columns;
use crate::Error;
use crate::copy::written_times::{TimestampUnit, WrittenTimes};
use crate::memory::pool::PromisePool;
use yeoul_dialect::time::contains_interval;

/// Parquet files as DataFusion reads and writes them, except for intervals, which are refused because the reader drops their months, for
/// UUIDs, which are texts, and
/// for some metadata:
///
/// - `ARROW:schema` (how the writer held strings in memory) is ignored: files of different writers would not form one table;
/// - `sorting_columns` are neither believed nor written. DataFusion treats sorted files with disjoint ranges as one sorted
///   table, although nulls sort to one end of each file; and it writes column numbers where the format wants leaf numbers,
///   which differ after a nested column;
/// - the min/max of float columns is not believed: NaN is outside of it, and DataFusion sorts NaN last. That a column has one value, or
///   none but null, is not believed either: it is read.
#[async_trait]
impl Own for ParquetFormat {
    const TYPE: ConfigFileType = ConfigFileType::PARQUET;

    fn with(options: TableOptions) -> Self {
        Self::default().with_options(options.parquet)
    }

    fn sink(
        &self,
        _: &dyn Session,
        mut files: FileSinkConfig,
        unit: TimestampUnit,
    ) -> Result<Arc<dyn DataSink>> {
        let schema = Arc::clone(&files.output_schema);
        let written = unit.written_schema(&schema)?;
        files.output_schema = Arc::clone(&written);
        let sink: Arc<dyn DataSink> = Arc::new(ParquetSink::new(files, self.options().clone()));
        Ok(if schema == written { sink } else { Arc::new(WrittenTimes { files: sink, schema, written }) })
    }

    async fn columns(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        let mut files: Vec<&ObjectMeta> = files.iter().collect();
        files.sort_by(|one, other| one.location.cmp(&other.location));
        let told = futures::stream::iter(files).map(|file| async move {
            let told = self.infer_schema(state, store, slice::from_ref(file)).await;
            told.map(|told| (file, told)).map_err(|error| unreadable(file, error))
        });
        let at_once = state.config_options().execution.meta_fetch_concurrency.get();
        let mut told = told.boxed().buffered(at_once);
        let mut columns = MergedColumns::default();
        while let Some((file, told)) = told.try_next().await? {
            refuse_intervals(file, &told)?;
            let footer = footer(state, store, file).await?;
            refuse_contradictions(file, &footer)?;
            let views = self.force_view_types();
            let told = uuid_columns::as_texts(one_kind_of_text(&told, views), &footer, views);
            columns.add(file.location.as_ref(), told)?;
        }
        Ok(Arc::new(columns.finish()?))
    }

    /// Under a memory limit, batches of wide rows have few rows.
    async fn before_scan(&self, mut scan: FileScanConfig, state: &dyn Session) -> Result<FileScanConfig> {
        let runtime = state.runtime_env();
        if PromisePool::process_of(&runtime.memory_pool).is_some() {
            let batch_bytes = TextLimits::of(state).batch_bytes;
            let most = state.config().batch_size();
            scan.batch_size = rows_per_batch(&scan, runtime, most, batch_bytes).await?;
        }
        Ok(scan)
    }

    /// Under a memory limit, memory is asked for before it is decoded into.
    fn scan(&self, plan: Arc<dyn ExecutionPlan>, state: &dyn Session) -> Arc<dyn ExecutionPlan> {
        let Some(process) = PromisePool::process_of(&state.runtime_env().memory_pool) else { return plan };
        let scan = plan.downcast_ref::<DataSourceExec>();
        let Some(config) = scan.and_then(|scan| scan.data_source().downcast_ref::<FileScanConfig>()) else {
            return plan;
        };
        let source = config.file_source().downcast_ref::<ParquetSource>();
        let Some((source, inner)) =
            source.and_then(|source| Some((source, source.parquet_file_reader_factory()?)))
        else {
            return plan;
        };
        let (inner, process) = (Arc::clone(inner), Arc::clone(process));
        let batch_rows = config.batch_size.unwrap_or_else(|| state.config().batch_size());
        let readers = Arc::new(MeasuredReaders { inner, process, batch_rows });
        let mut config = config.clone();
        config.file_source = Arc::new(source.clone().with_parquet_file_reader_factory(readers));
        DataSourceExec::from_data_source(config)
    }

    fn as_stored(columns: &Schema) -> Schema {
        uuid_columns::as_stored(columns)
    }

    fn check_insert(columns: &Schema) -> Result<()> {
        uuid_columns::check_insert(columns)
    }

    fn believed(mut told: Statistics, schema: &Schema) -> Statistics {
        for (column, field) in told.column_statistics.iter_mut().zip(schema.fields()) {
            if field.data_type().is_floating() || uuid_columns::is_uuid(field) {
                (column.min_value, column.max_value) = (Precision::Absent, Precision::Absent);
            }
            // DataFusion would not read a column whose values are said to be all one, or all null.
            if column.min_value == column.max_value {
                column.min_value = mem::take(&mut column.min_value).to_inexact();
                column.max_value = mem::take(&mut column.max_value).to_inexact();
            }
            if column.null_count == told.num_rows {
                column.null_count = column.null_count.to_inexact();
            }
        }
        told
    }
}

/// Refuses columns of Parquet's type INTERVAL.
fn refuse_intervals(file: &ObjectMeta, schema: &Schema) -> Result<()> {
    let intervals = schema.fields().iter().find(|field| contains_interval(field.data_type()));
    let Some(field) = intervals else { return Ok(()) };
    let what = format!(
        "column '{}' of '{}' is an INTERVAL, of which the months cannot be read",
        field.name(),
        file.location
    );
    let hint = "write it to the file as text, and cast it: \"i\"::interval";
    Err(Error::new(ErrorKind::Invalid, what).with_hint(hint).into())
}

/// The footer of a file, from the session's cache if it is there.
///
/// # Errors
/// The store's own, and the format's.
pub(super) async fn footer(
    state: &dyn Session,
    store: &Arc<dyn ObjectStore>,
    file: &ObjectMeta,
) -> Result<Arc<ParquetMetaData>> {
    let footers = state.runtime_env().cache_manager.get_file_metadata_cache();
    let footer = DFParquetMetadata::new(store.as_ref(), file)
        .with_file_metadata_cache(Some(footers))
        .with_page_index_policy(Some(PageIndexPolicy::Skip));
    footer.fetch_metadata().await.map_err(|error| unreadable(file, error).into())
}

/// Refuses a file that says two things: several columns of one name, of which a table could have one; a footer that counts other rows than
/// its row groups do, of which some are asked and some answers are made of the footer.
fn refuse_contradictions(file: &ObjectMeta, footer: &ParquetMetaData) -> Result<()> {
    let columns = footer.file_metadata().schema().get_fields();
    let mut names: Vec<&str> = columns.iter().map(|column| column.name()).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|two| two[0] == two[1]) {
        let what = format!("'{}' has several columns '{}'", file.location, twice[0]);
        return Err(Error::new(ErrorKind::Corrupt, what)
            .with_hint("write it again with a name for each")
            .into());
    }
    let told = footer.file_metadata().num_rows();
    let counted: i64 = footer.row_groups().iter().map(|group| group.num_rows()).sum();
    if told != counted {
        let what =
            format!("'{}' has {counted} rows in its row groups, and {told} by its footer", file.location);
        let hint = "it is damaged, or was written by a faulty program";
        return Err(Error::new(ErrorKind::Corrupt, what).with_hint(hint).into());
    }
    Ok(())
}

/// A file's columns with strings and binaries in the form that the reader uses: views or plain.
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

/// A field without view types, nested ones included.
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
