use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Fields, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Result, ScalarValue, Statistics};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_datasource::compute_all_files_statistics;
use datafusion_datasource::file_scan_config::output_partitioning_from_partition_fields;
use datafusion_datasource::file_sink_config::{FileOutputMode, FileSinkConfig};
use futures::{StreamExt, TryStreamExt};

use super::distinct_texts;
use super::file_set::FileSet;
use super::own_format::OwnFormat;
use super::parquet_file::footer;
use super::text_scan::read_as;
use crate::copy::written_times::TimestampUnit;

/// A scan of known files, planned as DataFusion's `ListingTable` does, except that it claims no order of rows. The order
/// that Parquet files declare does not hold across files if keys are null or NaN, nor when several columns share a name.
pub(super) struct FileScan<'a> {
    pub state: &'a dyn Session,
    pub found: &'a FileSet,
    /// The columns of the files, then those of their folders.
    pub schema: &'a TableSchema,
}

impl FileScan<'_> {
    /// Plans to read these columns of these files (at least one). The reader stops after `limit` rows; files after those
    /// that together have more than `enough` rows need not be read at all.
    ///
    /// # Errors
    /// The store's own, and the format's for what it finds in a file.
    pub(super) async fn plan(
        &self,
        files: Vec<PartitionedFile>,
        columns: Vec<usize>,
        limit: Option<usize>,
        enough: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (files, is_all) = self.measured(files, enough).await?;
        let (groups, is_by_key) = self.grouped(files);
        let schema = self.schema.table_schema();
        let measures = self.state.config().collect_statistics();
        let (groups, statistics) =
            compute_all_files_statistics(groups, Arc::clone(schema), measures, !is_all)?;
        let keys = self.schema.table_partition_cols();
        let partitioning = is_by_key
            .then(|| output_partitioning_from_partition_fields(schema, keys, groups.len()))
            .flatten();
        let source = self.found.format.file_source(self.schema.clone());
        let config = FileScanConfigBuilder::new(self.found.url.object_store(), source)
            .with_file_groups(groups)
            .with_statistics(statistics)
            .with_projection_indices(Some(columns))?
            .with_limit(limit)
            .with_output_partitioning(partitioning)
            .build();
        let plan = self.found.format.create_physical_plan(self.state, config).await?;
        read_as(plan, self.found.reading)
    }

    /// The files with their statistics, up to the one with which there are more than `enough` rows, and whether those are
    /// all files.
    async fn measured(
        &self,
        files: Vec<PartitionedFile>,
        enough: Option<usize>,
    ) -> Result<(Vec<PartitionedFile>, bool)> {
        let measures = self.state.config().collect_statistics();
        let store = self.state.runtime_env().object_store(&self.found.url)?;
        let (store, schema) = (&store, self.schema.file_schema());
        let measured = |mut file: PartitionedFile| async move {
            let mut statistics = Statistics::new_unknown(schema);
            if measures {
                let format = &self.found.format;
                let meta = &file.object_meta;
                statistics = format.infer_stats(self.state, store, Arc::clone(schema), meta).await?;
                if self.found.url.scheme() == "file"
                    && format.downcast_ref::<OwnFormat<ParquetFormat>>().is_some()
                {
                    // Elsewhere, to read the headers takes longer than a good plan saves.
                    let footer = footer(self.state, store, meta).await?;
                    let footers = self.state.runtime_env().cache_manager.get_file_metadata_cache();
                    let file = (store.as_ref(), meta);
                    distinct_texts::count(&mut statistics, schema, &footer, file, &footers).await;
                }
            }
            let rows = statistics.num_rows;
            statistics
                .column_statistics
                .extend(file.partition_values.iter().map(|value| of_key(value, rows)));
            file.statistics = Some(Arc::new(statistics));
            Ok::<_, datafusion::common::DataFusionError>((file, rows))
        };
        let at_once = self.state.config_options().execution.meta_fetch_concurrency.get();
        let count = files.len();
        let mut measured = futures::stream::iter(files).map(measured).buffered(at_once);
        let (mut files, mut rows) = (Vec::with_capacity(count), Precision::Exact(0));
        while let Some((file, rows_of_file)) = measured.try_next().await? {
            files.push(file);
            rows = rows.add(&rows_of_file);
            if matches!((rows, enough), (Precision::Exact(rows), Some(enough)) if rows > enough) {
                break;
            }
        }
        let is_all = files.len() == count;
        Ok((files, is_all))
    }

    /// The files in groups that are read in parallel, and whether all files of a key are in one group, as a setting may ask.
    fn grouped(&self, files: Vec<PartitionedFile>) -> (Vec<FileGroup>, bool) {
        let most = self.state.config().target_partitions().max(1);
        let least = self.state.config_options().optimizer.preserve_file_partitions;
        let files = FileGroup::new(files);
        if least > 0 && !self.schema.table_partition_cols().is_empty() {
            let groups = files.clone().group_by_partition_values(most);
            if groups.len() >= least {
                return (groups, true);
            }
        }
        (files.split_files(most), false)
    }

    /// Plans to write rows into a new file, or one for each value of the keys.
    ///
    /// # Errors
    /// The format's own.
    pub(super) async fn plan_insert(
        &self,
        rows: Arc<dyn ExecutionPlan>,
        how: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let keys = self.schema.table_partition_cols().iter();
        let config = FileSinkConfig {
            original_url: String::new(),
            object_store_url: self.found.url.object_store(),
            table_paths: vec![self.found.url.clone()],
            file_group: FileGroup::default(),
            output_schema: self.written_schema(),
            table_partition_cols: keys.map(|key| (key.name().clone(), key.data_type().clone())).collect(),
            insert_op: how,
            keep_partition_by_columns: false,
            file_extension: self.found.format.get_ext(),
            file_output_mode: FileOutputMode::Automatic,
        };
        // The new file is one of those that are there: its times have their unit.
        let format: Arc<dyn FileFormat> = match self.found.format.downcast_ref::<OwnFormat<ParquetFormat>>() {
            Some(OwnFormat(parquet, _)) => {
                let parquet = ParquetFormat::default().with_options(parquet.options().clone());
                Arc::new(OwnFormat(parquet, TimestampUnit::Nanoseconds))
            }
            None => Arc::clone(&self.found.format),
        };
        format.create_writer_physical_plan(rows, self.state, config, None).await
    }

    /// The schema that is written. A null key would be written as zero or empty text, so keys are not nullable: null is
    /// refused.
    fn written_schema(&self) -> SchemaRef {
        let keys = self.schema.table_partition_cols().iter();
        let keys = keys.map(|key| Arc::new(key.as_ref().clone().with_nullable(false)));
        let columns = self.schema.file_schema();
        let fields: Fields = columns.fields().iter().cloned().chain(keys).collect();
        Arc::new(Schema::new_with_metadata(fields, columns.metadata().clone()))
    }
}

/// Statistics of a folder's column in one file.
fn of_key(value: &ScalarValue, rows: Precision<usize>) -> ColumnStatistics {
    let unknown = ColumnStatistics::new_unknown();
    if value.is_null() {
        return unknown.with_null_count(rows);
    }
    // A file without rows, such as a CSV file with only a header, has no value.
    let is_there = matches!(rows, Precision::Exact(rows) if rows > 0);
    let bound = if is_there { Precision::Exact(value.clone()) } else { Precision::Inexact(value.clone()) };
    let width = DataType::primitive_width(&value.data_type());
    unknown
        .with_null_count(Precision::Exact(0))
        .with_min_value(bound.clone())
        .with_max_value(bound)
        .with_distinct_count(if is_there { Precision::Exact(1) } else { Precision::Inexact(1) })
        .with_byte_size(width.map_or(Precision::Absent, |width| rows.multiply(&Precision::Exact(width))))
}
