//! Scans of CSV and JSON files that know where records end: a batch has fewer rows if they are wide, a record that is too
//! large is refused before it is decoded, and so is a file that ends within quotes.

use std::fmt;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::csv;
use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json;
use datafusion::catalog::Session;
use datafusion::common::config::CsvOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{
    CsvSource, FileOpenFuture, FileOpener, FileScanConfig, FileSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use datafusion::prelude::SessionConfig;
use datafusion_datasource::boundary_stream::AlignedBoundaryStream;
use datafusion_datasource::projection::{ProjectionOpener, SplitProjection};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::ObjectStore;

use super::csv_columns::null_regex;
use super::files::shown;
use super::json_objects::objects;
use super::records::RecordEnds;
use super::text_bytes::{bytes_of, without_lines};
use super::text_limits::{TextLimits, ragged, unclosed};

/// The format of a file's text.
#[derive(Clone, Debug)]
pub enum TextKind {
    /// With these options.
    Csv(Box<CsvOptions>),
    /// One object a line.
    Json,
}

/// A scan of text files in parts that can be sent to another process.
#[derive(Debug)]
pub struct TextScan {
    /// DataFusion's scan of the same files.
    pub plain: Arc<dyn ExecutionPlan>,
    /// Format of the text.
    pub kind: TextKind,
    /// Compression of the files.
    pub compression: FileCompressionType,
    /// Rows of a batch.
    pub batch_rows: usize,
    /// Lines before the records of each file.
    pub skipped_lines: usize,
}

/// Options of a scan of text files, beside those of DataFusion's format.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TextReading {
    /// Lines before the records of each file.
    pub(super) skipped_lines: usize,
    /// True if files cannot be read in parts: their lines are no records.
    pub(super) is_whole: bool,
}

/// Has the scan of text in a plan, if there is one, go about its files in this way.
///
/// # Errors
/// DataFusion's own.
pub(super) fn read_as(plan: Arc<dyn ExecutionPlan>, reading: TextReading) -> Result<Arc<dyn ExecutionPlan>> {
    let scan = |plan: Arc<dyn ExecutionPlan>| {
        let Some(config) = file_scan(&plan) else { return Ok(Transformed::no(plan)) };
        let Some(source) = config.file_source.downcast_ref::<TextSource>() else {
            return Ok(Transformed::no(plan));
        };
        let mut config = config.clone();
        config.file_source = Arc::new(TextSource { reading, ..source.clone() });
        Ok(Transformed::yes(DataSourceExec::from_data_source(config) as _))
    };
    plan.transform_down(scan).data()
}

impl TextScan {
    /// The parts of a plan that is such a scan.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let config = file_scan(plan)?;
        let source = config.file_source.downcast_ref::<TextSource>()?;
        let mut plain = config.clone();
        plain.file_source = Arc::clone(&source.inner);
        Some(Self {
            plain: DataSourceExec::from_data_source(plain),
            kind: source.kind.clone(),
            compression: config.file_compression_type,
            batch_rows: source.batch_rows,
            skipped_lines: source.reading.skipped_lines,
        })
    }

    /// The scan within limits of the process that runs it; `None` if the plain one is no scan of files.
    pub fn within(self, runtime: &RuntimeEnv, config: &SessionConfig) -> Option<Arc<dyn ExecutionPlan>> {
        let mut scan = file_scan(&self.plain)?.clone();
        let Self { kind, compression, batch_rows, skipped_lines, .. } = self;
        // Whoever sent it has cut the files into parts.
        let reading = TextReading { skipped_lines, is_whole: true };
        let inner = match &kind {
            TextKind::Csv(options) => {
                let plain = scan.file_source.downcast_ref::<CsvSource>()?.clone();
                Arc::new(plain.with_csv_options(options.as_ref().clone())) as _
            }
            TextKind::Json => Arc::clone(&scan.file_source),
        };
        let limits = TextLimits::within(runtime, config);
        scan.file_compression_type = compression;
        scan.file_source = Arc::new(TextSource { inner, kind, limits, batch_rows, reading });
        Some(DataSourceExec::from_data_source(scan))
    }
}

/// The files that a plan scans, if it is such a scan.
pub(crate) fn file_scan(plan: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
    plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()
}

/// DataFusion's scan of text files with our own way of decoding them.
#[derive(Clone)]
struct TextSource {
    inner: Arc<dyn FileSource>,
    kind: TextKind,
    limits: TextLimits,
    batch_rows: usize,
    reading: TextReading,
}

/// Has a scan that DataFusion planned read text as this module says.
pub(super) fn by_records(
    plan: Arc<dyn ExecutionPlan>,
    kind: TextKind,
    state: &dyn Session,
) -> Arc<dyn ExecutionPlan> {
    let Some(config) = file_scan(&plan) else { return plan };
    let mut config = config.clone();
    let inner = Arc::clone(&config.file_source);
    let batch_rows = state.config().batch_size();
    let (limits, reading) = (TextLimits::of(state), TextReading::default());
    config.file_source = Arc::new(TextSource { inner, kind, limits, batch_rows, reading });
    DataSourceExec::from_data_source(config)
}

impl TextSource {
    fn around(&self, inner: Arc<dyn FileSource>) -> Arc<dyn FileSource> {
        Arc::new(Self { inner, ..self.clone() })
    }
}

impl FileSource for TextSource {
    fn create_file_opener(
        &self,
        store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let schema = self.inner.table_schema().file_schema();
        let projection = match self.inner.projection() {
            Some(projection) => SplitProjection::new(schema, projection),
            None => SplitProjection::unprojected(self.inner.table_schema()),
        };
        let opener = TextOpener {
            inner: self.inner.create_file_opener(Arc::clone(&store), config, partition)?,
            store,
            compression: config.file_compression_type,
            schema: Arc::clone(schema),
            columns: projection.file_indices.clone(),
            source: self.clone(),
        };
        let whole = Arc::new(opener);
        let projected = ProjectionOpener::try_new(projection, Arc::clone(&whole) as _, schema)?;
        Ok(Arc::new(Either { whole, projected }))
    }

    fn table_schema(&self) -> &TableSchema {
        self.inner.table_schema()
    }

    fn with_batch_size(&self, rows: usize) -> Arc<dyn FileSource> {
        Arc::new(Self { inner: self.inner.with_batch_size(rows), batch_rows: rows, ..self.clone() })
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        self.inner.projection()
    }

    fn try_pushdown_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn FileSource>>> {
        let inner = self.inner.try_pushdown_projection(projection)?;
        Ok(inner.map(|inner| self.around(inner)))
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        self.inner.metrics()
    }

    fn file_type(&self) -> &str {
        self.inner.file_type()
    }

    fn fmt_extra(&self, display: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        self.inner.fmt_extra(display, f)
    }

    fn supports_repartitioning(&self) -> bool {
        // DataFusion's reader of parts of CSV files knows no texts for nulls.
        let has_null_texts = matches!(&self.kind, TextKind::Csv(options) if options.null_regex.is_some());
        let is_whole = self.reading.is_whole || self.reading.skipped_lines > 0 || has_null_texts;
        !is_whole && self.inner.supports_repartitioning()
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.inner.apply_expressions(visit)
    }
}

/// Opens files as this module says, but for parts of CSV files: within them, nobody knows what a quote means.
struct Either {
    whole: Arc<TextOpener>,
    projected: Arc<dyn FileOpener>,
}

impl FileOpener for Either {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        match (&self.whole.source.kind, &file.range) {
            (TextKind::Csv(_), Some(_)) => self.whole.inner.open(file),
            _ => self.projected.open(file),
        }
    }
}

struct TextOpener {
    /// DataFusion's own, which projects.
    inner: Arc<dyn FileOpener>,
    store: Arc<dyn ObjectStore>,
    compression: FileCompressionType,
    /// The columns of the files.
    schema: Arc<Schema>,
    /// The columns that are read.
    columns: Vec<usize>,
    source: TextSource,
}

impl FileOpener for TextOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let decoder = self.decoder()?;
        let skipped_lines = self.source.reading.skipped_lines;
        let (records, is_json) = match &self.source.kind {
            TextKind::Csv(options) => (RecordEnds::csv(options).behind(skipped_lines), false),
            TextKind::Json => (RecordEnds::json(), true),
        };
        let (store, compression) = (Arc::clone(&self.store), self.compression);
        let limits = self.source.limits;
        Ok(Box::pin(async move {
            let meta = &file.object_meta;
            let name = shown(meta.location.as_ref()).to_owned();
            let bytes = match &file.range {
                None => {
                    let bytes = bytes_of(store.as_ref(), &meta.location, compression).await?;
                    let bytes = without_lines(bytes, skipped_lines);
                    if is_json { objects(&name, bytes) } else { bytes }
                }
                Some(range) => {
                    let (start, end) = (range.start.unsigned_abs(), range.end.unsigned_abs());
                    let at = meta.location.clone();
                    let bytes = AlignedBoundaryStream::new(store, at, start, end, meta.size, b'\n')
                        .await?
                        .map_err(DataFusionError::from)
                        .boxed();
                    if is_json && start == 0 { objects(&name, bytes) } else { bytes }
                }
            };
            let batches = Batches {
                name,
                bytes,
                decoder,
                records,
                limits,
                chunk: Bytes::new(),
                piece: Bytes::new(),
                held: 0,
                at_end: false,
            };
            Ok(futures::stream::try_unfold(batches, Batches::next).boxed())
        }))
    }
}

impl TextOpener {
    fn decoder(&self) -> Result<Decoder> {
        let rows = self.source.batch_rows;
        Ok(match &self.source.kind {
            TextKind::Csv(options) => {
                let mut builder = csv::ReaderBuilder::new(Arc::clone(&self.schema))
                    .with_delimiter(options.delimiter)
                    .with_batch_size(rows)
                    .with_header(options.has_header.unwrap_or(true))
                    .with_quote(options.quote)
                    .with_truncated_rows(options.truncated_rows.unwrap_or(false))
                    .with_projection(self.columns.clone());
                if let Some(nulls) = null_regex(options)? {
                    builder = builder.with_null_regex(nulls);
                }
                if let Some(terminator) = options.terminator {
                    builder = builder.with_terminator(terminator);
                }
                if let Some(escape) = options.escape {
                    builder = builder.with_escape(escape);
                }
                if let Some(comment) = options.comment {
                    builder = builder.with_comment(comment);
                }
                Decoder::Csv(Box::new(builder.build_decoder()))
            }
            TextKind::Json => {
                let columns = Arc::new(self.schema.project(&self.columns)?);
                Decoder::Json(Box::new(
                    json::ReaderBuilder::new(columns)
                        .with_batch_size(rows)
                        // A column of texts may have been told by texts and numbers.
                        .with_coerce_primitive(true)
                        .build_decoder()?,
                ))
            }
        })
    }
}

enum Decoder {
    Csv(Box<csv::reader::Decoder>),
    Json(Box<json::reader::Decoder>),
}

impl Decoder {
    fn decode(&mut self, bytes: &[u8]) -> Result<usize, ArrowError> {
        match self {
            Self::Csv(decoder) => decoder.decode(bytes),
            Self::Json(decoder) => decoder.decode(bytes),
        }
    }

    fn flush(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        match self {
            Self::Csv(decoder) => decoder.flush(),
            Self::Json(decoder) => decoder.flush(),
        }
    }
}

/// A file that is being read.
struct Batches {
    name: String,
    bytes: BoxStream<'static, Result<Bytes>>,
    decoder: Decoder,
    records: RecordEnds,
    limits: TextLimits,
    /// Bytes that were read and have not been looked through.
    chunk: Bytes,
    /// Bytes that were looked through and are not decoded.
    piece: Bytes,
    /// The bytes that the decoder holds.
    held: usize,
    at_end: bool,
}

impl Batches {
    async fn next(mut self) -> Result<Option<(RecordBatch, Self)>> {
        loop {
            if !self.piece.is_empty() {
                let decoded = self.decoder.decode(&self.piece).map_err(|error| self.explained(error))?;
                self.piece.advance(decoded);
                self.held += decoded;
                let is_wide = self.piece.is_empty()
                    && self.held >= self.limits.batch_bytes
                    && self.records.open_record().0 == 0;
                if (decoded == 0 || is_wide)
                    && let Some(batch) = self.flush()?
                {
                    return Ok(Some((batch, self)));
                }
                continue;
            }
            if self.at_end {
                return Ok(None);
            }
            if !self.chunk.is_empty() {
                self.piece = self.next_piece()?;
                continue;
            }
            match self.bytes.try_next().await? {
                Some(chunk) => self.chunk = chunk,
                None => {
                    self.limits.check(&self.name, &self.records)?;
                    if let Some(line) = self.records.open_quote() {
                        return Err(unclosed(&self.name, line));
                    }
                    self.at_end = true;
                    // Ends the last record.
                    self.decoder.decode(&[]).map_err(|error| self.explained(error))?;
                    return Ok(self.flush()?.map(|batch| (batch, self)));
                }
            }
        }
    }

    fn explained(&self, error: ArrowError) -> DataFusionError {
        match ragged(&self.name, &error.to_string()) {
            Some(ragged) => ragged.into(),
            None => error.into(),
        }
    }

    fn flush(&mut self) -> Result<Option<RecordBatch>> {
        self.held = 0;
        Ok(self.decoder.flush()?)
    }

    /// Bytes of the chunk that end with a record if a batch is wide enough then, and with the chunk otherwise.
    fn next_piece(&mut self) -> Result<Bytes> {
        let mut found = 0;
        while let Some(end) = self.records.next_end(&self.chunk[found..]) {
            found += end;
            if self.held + found >= self.limits.batch_bytes {
                return Ok(self.chunk.split_to(found));
            }
        }
        self.limits.check(&self.name, &self.records)?;
        Ok(std::mem::take(&mut self.chunk))
    }
}
