use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::common::config::{ConfigFileType, CsvOptions, TableOptions};
use datafusion::common::file_options::csv_writer::CsvWriterOptions;
use datafusion::common::parsers::CsvQuoteStyle;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::csv::{CsvFormat, CsvSink};
use datafusion::datasource::file_format::json::JsonFormat;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::sink::DataSink;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_datasource::file_sink_config::FileSinkConfig;
use object_store::{ObjectMeta, ObjectStore};
use yeoul_base::ErrorKind;

use super::own_format::Own;
use super::records::RecordEnds;
use super::text_scan::{self, TextKind};
use super::text_width;
use super::{csv_columns, json_columns};
use crate::Error;
use crate::copy::written_times::TimestampUnit;
use crate::output::{Text, TextSink};

/// The records from which columns are inferred, as in DuckDB.
pub(super) const SAMPLED_RECORDS: usize = 20_480;

/// Reads as DataFusion does. DataFusion's writer writes an error's text for a time that is out of range, and null for NaN;
/// ours does not.
#[async_trait]
impl Own for JsonFormat {
    const TYPE: ConfigFileType = ConfigFileType::JSON;

    fn with(options: TableOptions) -> Self {
        Self::default().with_options(options.json)
    }

    fn sink(&self, _: &dyn Session, files: FileSinkConfig, _: TimestampUnit) -> Result<Arc<dyn DataSink>> {
        let options = self.options();
        Ok(Arc::new(TextSink::new(files, Text::Json, options.compression, options.compression_level)))
    }

    async fn columns(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        if self.options().newline_delimited {
            return json_columns::infer(self.options(), state, store, files).await;
        }
        self.infer_schema(state, store, files).await
    }

    async fn before_scan(&self, scan: FileScanConfig, state: &dyn Session) -> Result<FileScanConfig> {
        if self.options().newline_delimited {
            return text_width::with_batch_rows(scan, state, RecordEnds::json).await;
        }
        Ok(scan)
    }

    fn scan(&self, plan: Arc<dyn ExecutionPlan>, state: &dyn Session) -> Arc<dyn ExecutionPlan> {
        if self.options().newline_delimited {
            text_scan::by_records(plan, TextKind::Json, state)
        } else {
            plan
        }
    }
}

/// Reads as DataFusion does, but for the types of columns, and for options that its reader does not know. DataFusion's writer cannot tell empty text from null and refuses nested values, but supports
/// options that ours does not.
#[async_trait]
impl Own for CsvFormat {
    const TYPE: ConfigFileType = ConfigFileType::CSV;

    fn with(options: TableOptions) -> Self {
        Self::default().with_options(options.csv)
    }

    fn sink(
        &self,
        state: &dyn Session,
        files: FileSinkConfig,
        _: TimestampUnit,
    ) -> Result<Arc<dyn DataSink>> {
        let has_header = self.has_header().unwrap_or(state.config_options().catalog.has_header);
        let options = self.options().clone().with_has_header(has_header);
        if !is_plain(&options) {
            return Ok(Arc::new(CsvSink::new(files, CsvWriterOptions::try_from(&options)?)));
        }
        let text = Text::Csv { delimiter: options.delimiter, has_header };
        Ok(Arc::new(TextSink::new(files, text, options.compression, options.compression_level)))
    }

    async fn columns(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        csv_columns::infer(self, 0, state, store, files).await
    }

    async fn before_scan(&self, scan: FileScanConfig, state: &dyn Session) -> Result<FileScanConfig> {
        let options = self.options();
        text_width::with_batch_rows(scan, state, || RecordEnds::csv(options)).await
    }

    fn scan(&self, plan: Arc<dyn ExecutionPlan>, state: &dyn Session) -> Arc<dyn ExecutionPlan> {
        let has_header = self.has_header().unwrap_or(state.config_options().catalog.has_header);
        let options = self.options().clone().with_has_header(has_header);
        text_scan::by_records(plan, TextKind::Csv(Box::new(options)), state)
    }

    fn check_read(&self) -> Result<()> {
        let options = self.options();
        let given = [
            ("date_format", &options.date_format),
            ("datetime_format", &options.datetime_format),
            ("timestamp_format", &options.timestamp_format),
            ("timestamp_tz_format", &options.timestamp_tz_format),
            ("time_format", &options.time_format),
            ("null_value", &options.null_value),
        ];
        let Some((name, _)) = given.into_iter().find(|(_, value)| value.is_some()) else { return Ok(()) };
        let text = format!("not supported: the option '{name}' of CSV files that are read");
        Err(Error::new(ErrorKind::Invalid, text)
            .with_hint(
                "name the columns as VARCHAR and convert them: nullif(a, 'NA'), to_date(a, '%d/%m/%Y')",
            )
            .into())
    }
}

/// True if files are to be written per RFC 4180, except for header and delimiter.
fn is_plain(options: &CsvOptions) -> bool {
    matches!(
        options,
        CsvOptions {
            quote: b'"',
            quote_style: CsvQuoteStyle::Necessary,
            double_quote: None | Some(true),
            escape: None,
            ignore_leading_whitespace: None | Some(false),
            ignore_trailing_whitespace: None | Some(false),
            date_format: None,
            datetime_format: None,
            timestamp_format: None,
            timestamp_tz_format: None,
            time_format: None,
            null_value: None,
            ..
        }
    )
}
