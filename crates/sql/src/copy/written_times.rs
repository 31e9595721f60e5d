//! Times as other readers of Parquet know them: in microseconds, and never as bare integers.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::sink::DataSink;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use futures::StreamExt;
use yeoul_base::ErrorKind;

use crate::Error;

/// The unit in which timestamps of nanoseconds are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TimestampUnit {
    /// What Spark, DuckDB and all others read. Digits beyond are cut, as DuckDB does.
    #[default]
    Microseconds,
    /// As they are; Spark refuses such a file.
    Nanoseconds,
}

impl TimestampUnit {
    /// The option of a Parquet file that says it.
    pub(crate) const OPTION: &str = "format.timestamp_unit";

    /// Reads the option's value.
    ///
    /// # Errors
    /// `Invalid` for another text than a unit's.
    pub(crate) fn read(text: &str) -> Result<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "us" | "microseconds" => Ok(Self::Microseconds),
            "ns" | "nanoseconds" => Ok(Self::Nanoseconds),
            _ => Err(Error::new(ErrorKind::Invalid, format!("'{text}' is no unit of timestamps"))
                .with_hint("'us' (the default) or 'ns'")
                .into()),
        }
    }

    /// The schema of a file for columns of `schema`.
    ///
    /// # Errors
    /// `Invalid` for a duration, for which Parquet has no type.
    pub(crate) fn written_schema(self, schema: &Schema) -> Result<SchemaRef, Error> {
        let fields = schema.fields().iter().map(|field| {
            self.field(field).ok_or_else(|| {
                let what = format!("column '{}' is a duration, for which Parquet has no type", field.name());
                Error::new(ErrorKind::Invalid, what).with_hint(
                    "write a number, such as extract(epoch FROM a - b), or a text: (a - b)::varchar",
                )
            })
        });
        let fields = fields.collect::<Result<Vec<_>, _>>()?;
        Ok(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
    }

    fn field(self, field: &FieldRef) -> Option<FieldRef> {
        let written = self.written(field.data_type())?;
        Some(if written == *field.data_type() {
            Arc::clone(field)
        } else {
            Arc::new(Field::clone(field).with_data_type(written))
        })
    }

    /// The type that is written for one; `None` if there is none.
    fn written(self, of: &DataType) -> Option<DataType> {
        let is_coarse = self == Self::Microseconds;
        Some(match of {
            DataType::Timestamp(TimeUnit::Second, zone) => {
                DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
            }
            DataType::Timestamp(TimeUnit::Nanosecond, zone) if is_coarse => {
                DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
            }
            DataType::Time32(TimeUnit::Second) => DataType::Time32(TimeUnit::Millisecond),
            DataType::Time64(TimeUnit::Nanosecond) if is_coarse => DataType::Time64(TimeUnit::Microsecond),
            DataType::Date64 => DataType::Date32,
            DataType::Duration(_) => return None,
            DataType::List(item) => DataType::List(self.field(item)?),
            DataType::LargeList(item) => DataType::LargeList(self.field(item)?),
            DataType::FixedSizeList(item, length) => DataType::FixedSizeList(self.field(item)?, *length),
            DataType::Map(entries, sorted) => DataType::Map(self.field(entries)?, *sorted),
            DataType::Struct(fields) => {
                DataType::Struct(fields.iter().map(|field| self.field(field)).collect::<Option<_>>()?)
            }
            DataType::Dictionary(key, value) => {
                let written = self.written(value)?;
                if written == **value {
                    of.clone()
                } else {
                    DataType::Dictionary(key.clone(), written.into())
                }
            }
            other => other.clone(),
        })
    }
}

/// A batch with the types of a file.
///
/// # Errors
/// For a time that does not fit.
pub(crate) fn as_written(batch: &RecordBatch, written: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let exact = CastOptions { safe: false, ..CastOptions::default() };
    let columns = batch.columns().iter().zip(written.fields());
    let columns = columns.map(|(column, field)| match field.data_type() {
        same if same == column.data_type() => Ok(Arc::clone(column)),
        other => cast_with_options(column, other, &exact),
    });
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(written), columns.collect::<Result<_, _>>()?, &rows)
}

/// A sink of files whose types differ from those of the rows that it takes.
#[derive(Debug)]
pub(crate) struct WrittenTimes {
    /// Takes rows of the files' types.
    pub(crate) files: Arc<dyn DataSink>,
    /// The columns of the rows.
    pub(crate) schema: SchemaRef,
    /// The same columns with the types of the files.
    pub(crate) written: SchemaRef,
}

impl DisplayAs for WrittenTimes {
    fn fmt_as(&self, how: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.fmt_as(how, f)
    }
}

#[async_trait]
impl DataSink for WrittenTimes {
    fn metrics(&self) -> Option<MetricsSet> {
        self.files.metrics()
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn write_all(&self, rows: SendableRecordBatchStream, context: &Arc<TaskContext>) -> Result<u64> {
        let written = Arc::clone(&self.written);
        let rows = rows.map(move |batch| as_written(&batch?, &written).map_err(DataFusionError::from));
        let rows = RecordBatchStreamAdapter::new(Arc::clone(&self.written), rows);
        self.files.write_all(Box::pin(rows), context).await
    }
}
