//! A Parquet scan that asks the query's conditions and the filters of joins of its rows, and measures how that is done best.
//!
//! - [`conditions`]: what is asked, in which order, and which filter is dropped;
//! - [`choice`]: whether the columns of the conditions are decoded first;
//! - [`known_footers`]: footers that are read once;
//! - [`row_group_runs`]: the row groups of a file, a few at a time;
//! - [`filtered_rows`]: the rows that are kept.

mod choice;
pub(crate) mod conditions;
mod filtered_rows;
mod known_footers;
mod row_group_runs;

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileOpener, FileScanConfig, FileSource, ParquetSource};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{PhysicalExpr, utils::conjunction_opt};
use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_datasource::morsel::Morselizer;
use object_store::ObjectStore;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::file::metadata::ParquetMetaData;

use choice::{Choice, Way};
use conditions::{Condition, Kind};
use known_footers::KnownFooters;
use row_group_runs::RunMorselizer;

/// A Parquet scan that gives only rows that conditions keep.
///
/// Row groups that statistics exclude are skipped, as in DataFusion's. In all others, the conditions are asked either of decoded
/// rows, in an order that follows from what they cost and keep, or while they are decoded: the columns of the conditions first, and
/// all others only for the rows that are left. Both ways are tried where few rows are kept, and the faster one stays. A filter that a
/// join fills while a file is read is asked from the next batch on, and one that keeps too many rows is dropped.
#[derive(Clone)]
pub(crate) struct FilteredParquet {
    /// Reads the columns of the answer and of the conditions, and uses its filter only to skip row groups and pages.
    read: ParquetSource,
    /// The columns of the answer among these.
    output: Vec<usize>,
    projection: ProjectionExprs,
    conditions: Arc<[Condition]>,
    choice: Arc<Choice>,
    is_divided: bool,
    batch_rows: usize,
}

impl FilteredParquet {
    /// A scan of what `read` reads, which gives some of its columns. It is not `is_divided` if its row groups are read in another order
    /// than that of the file.
    pub(crate) fn new(
        read: ParquetSource,
        output: Vec<usize>,
        conditions: Vec<Condition>,
        is_divided: bool,
    ) -> Self {
        let columns = read.projection().map(ProjectionExprs::as_ref).unwrap_or_default();
        let projection = ProjectionExprs::new(output.iter().map(|at| columns[*at].clone()));
        let choice = Arc::default();
        Self { read, output, projection, conditions: conditions.into(), choice, is_divided, batch_rows: 0 }
    }

    /// The columns that are read, of the table.
    pub(crate) fn columns_read(&self) -> &ProjectionExprs {
        self.read.projection().expect("a Parquet scan has a projection")
    }

    /// The query's own conditions, on the columns that are read.
    pub(crate) fn own_conditions(&self) -> impl Iterator<Item = Arc<dyn PhysicalExpr>> {
        let own = self.conditions.iter().filter(|condition| condition.kind != Kind::Filter);
        own.map(|condition| Arc::clone(&condition.on_batch))
    }

    /// The columns of the answer among those that are read.
    pub(crate) fn output(&self) -> &[usize] {
        &self.output
    }
}

impl FileSource for FilteredParquet {
    fn create_file_opener(
        &self,
        store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        self.read.create_file_opener(store, config, partition)
    }

    fn create_morselizer(
        &self,
        store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Box<dyn Morselizer>> {
        let columns = self.read.table_schema().table_schema();
        let scan = Scan {
            schema: Arc::new(self.projection.project_schema(columns)?),
            output: self.output.clone(),
            read: self.read.clone(),
            conditions: Arc::clone(&self.conditions),
            choice: Arc::clone(&self.choice),
            is_divided: self.is_divided,
            batch_rows: self.batch_rows,
            store,
            config: config.clone(),
        };
        Ok(Box::new(RunMorselizer { scan: Arc::new(scan), partition }))
    }

    fn table_schema(&self) -> &TableSchema {
        self.read.table_schema()
    }

    fn with_batch_size(&self, batch_rows: usize) -> Arc<dyn FileSource> {
        let read = self.read.with_batch_size(batch_rows);
        let Some(read) = read.downcast_ref::<ParquetSource>() else { return read };
        Arc::new(Self { read: read.clone(), batch_rows, ..self.clone() })
    }

    fn filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        self.read.filter()
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        Some(&self.projection)
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        self.read.metrics()
    }

    fn file_type(&self) -> &str {
        self.read.file_type()
    }

    /// Conditions and, once the scan has run, what was measured of them.
    fn fmt_extra(&self, display: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        self.read.fmt_extra(display, f)?;
        let parts: Vec<String> = self.conditions.iter().map(|condition| format!("[{condition}]")).collect();
        let asked = parts.join(" and ");
        let [after, within] = self.choice.groups();
        let groups = match (after, within) {
            (0, 0) => String::new(),
            _ => format!(", row groups asked after decoding {after}, while decoding {within}"),
        };
        match display {
            DisplayFormatType::TreeRender => writeln!(f, "asked={asked}"),
            _ => write!(f, ", asked={asked}{groups}"),
        }
    }

    fn reorder_files(&self, files: Vec<PartitionedFile>) -> Vec<PartitionedFile> {
        self.read.reorder_files(files)
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for condition in self.conditions.iter() {
            if visit(&condition.on_batch)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        self.read.apply_expressions(visit)
    }
}

/// A scan that runs.
struct Scan {
    /// Columns of the answer.
    schema: SchemaRef,
    /// Their places in the batches that are read.
    output: Vec<usize>,
    read: ParquetSource,
    conditions: Arc<[Condition]>,
    choice: Arc<Choice>,
    is_divided: bool,
    batch_rows: usize,
    store: Arc<dyn ObjectStore>,
    config: FileScanConfig,
}

impl Scan {
    /// True if rows are asked anything.
    fn is_asking(&self) -> bool {
        self.conditions.iter().any(Condition::is_asked)
    }

    /// The way for the next row groups of a file.
    fn way(&self) -> Way {
        let asked =
            || self.conditions.iter().filter(|condition| condition.is_decodable() && condition.is_asked());
        // What is saved is the decoding of columns that no condition reads.
        let is_other = |column| asked().all(|condition| !condition.reads(column));
        let columns = self.read.projection().map_or(0, |columns| columns.as_ref().len());
        if asked().next().is_none() || !(0..columns).any(is_other) {
            return Way::AfterDecoding;
        }
        self.choice.next(asked().filter_map(Condition::estimate).min_by(f64::total_cmp))
    }

    /// Opens files in a way, or a file whose footer is known.
    fn morselizer(
        &self,
        way: Way,
        partition: usize,
        footer: Option<&Arc<ParquetMetaData>>,
    ) -> Result<Box<dyn Morselizer>> {
        let mut read = self.read.clone();
        if let (Some(footer), Some(readers)) = (footer, read.parquet_file_reader_factory()) {
            let (inner, footer) = (Arc::clone(readers), Arc::clone(footer));
            read = read.with_parquet_file_reader_factory(Arc::new(KnownFooters { inner, footer }));
        }
        if way == Way::WhileDecoding {
            let asked = conditions::order(&self.conditions).into_iter().map(|at| &self.conditions[at]);
            let asked = asked.filter(|condition| condition.is_asked());
            read = read.with_pushdown_filters(true).with_reorder_filters(false);
            if let Some(filter) = conjunction_opt(asked.flat_map(Condition::while_decoding)) {
                read = read.with_predicate(filter);
            }
        }
        read.create_morselizer(Arc::clone(&self.store), &self.config, partition)
    }

    /// A reader of a file.
    fn reader(&self, partition: usize, file: &PartitionedFile) -> Result<Box<dyn AsyncFileReader + Send>> {
        let Some(readers) = self.read.parquet_file_reader_factory() else {
            return internal_err!("a Parquet scan has no readers");
        };
        readers.create_reader(partition, file.clone(), file.metadata_size_hint, self.read.metrics())
    }
}

impl fmt::Debug for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan").field("choice", &self.choice).finish_non_exhaustive()
    }
}
