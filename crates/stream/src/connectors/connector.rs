use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use serde_json::Value;

use super::console::ConsoleSink;
use super::files::{CsvHeader, FileSink, FileSinkOptions, FileSource, FileSourceOptions};
use super::format::{CsvDialect, FailingRows, TimestampUnit, Tombstones};
use super::kafka::{
    DeadLetters, KafkaSink, KafkaSinkOptions, KafkaSource, KafkaSourceOptions, Transactions,
    check_dead_letters, check_interval, check_pattern, record_schema, transactional_id,
};
use super::memory::{MemoryRows, MemorySink};
use super::noop::NoopSink;
use super::rate::RateSource;
use super::rate_schedule::RateSchedule;
use super::{Decoder, Sink, Source};
use crate::BatchId;
use crate::checkpoint::OutputMarker;
use crate::checkpoint::storage::Storage;
use crate::error::{Result, invalid};
use crate::plan::{GroupColumns, OptionMap, Query, SinkDefinition, StreamDefinition};

/// The connector of a stream, with its options checked; nothing is open yet.
#[derive(Debug)]
pub struct StreamConnector {
    owner: String,
    kind: StreamKind,
    decoder: Decoder,
    failing_rows: FailingRows,
    schema: SchemaRef,
}

#[derive(Debug)]
enum StreamKind {
    Kafka(KafkaSourceOptions),
    Files(FileSourceOptions),
    Rate(RateSchedule),
}

/// The connector of a sink, with its options checked; nothing is open yet.
#[derive(Debug)]
pub enum SinkConnector {
    /// Topics of Kafka.
    Kafka(KafkaSinkOptions),
    /// Files of a directory.
    Files(FileSinkOptions),
    /// Lines on stdout.
    Console,
    /// Memory of this process.
    Memory(MemoryRows),
    /// Nowhere.
    Noop,
}

impl StreamConnector {
    /// Checks a stream.
    ///
    /// # Errors
    /// `Invalid` for an option that is missing, wrong or not honoured, and for columns that the connector does not have.
    pub fn new(stream: &StreamDefinition) -> Result<Self> {
        let mut options = stream.options.clone();
        let owner = options.owner().to_owned();
        let (mut kind, own, format) = match options.require("connector")?.as_str() {
            "kafka" => {
                let kafka = KafkaSourceOptions::take(&mut options)?;
                (StreamKind::Kafka(kafka), record_schema(), options.take("format"))
            }
            "filesystem" => {
                let files = FileSourceOptions::take(&mut options)?;
                (StreamKind::Files(files), FileSource::schema(), options.take("format"))
            }
            "rate" => {
                let schedule = RateSchedule::take(&mut options)?;
                (StreamKind::Rate(schedule), RateSource::schema(), None)
            }
            other => return Err(options.wrong("connector", other, "kafka, filesystem or rate")),
        };
        let decoder = match format.as_deref() {
            Some("json") => {
                let unit = TimestampUnit::take(&mut options)?;
                Decoder::json(&owner, &stream.columns, &own, unit)?
            }
            Some("csv") => {
                let dialect = CsvDialect::of_stream(&mut options)?;
                if let StreamKind::Files(files) = &mut kind
                    && options.take_bool("header", false)?
                {
                    let of_value = stream.columns.iter().filter(|column| column.metadata.is_none());
                    let fields = of_value.map(|column| column.name.clone()).collect();
                    files.header = Some(CsvHeader { dialect: dialect.clone(), fields });
                }
                Decoder::csv(&owner, &stream.columns, &own, dialect)?
            }
            None | Some("raw") => Decoder::AsTheyAre,
            Some(other) => return Err(options.wrong("format", other, "json, csv or raw")),
        };
        let decoder = match (&kind, &decoder) {
            (StreamKind::Kafka(_), Decoder::Fields(_)) => {
                decoder.with_tombstones(Tombstones::take(&mut options)?)
            }
            _ => decoder,
        };
        let schema = match decoder.schema() {
            Some(schema) => schema,
            None => own_columns(&owner, stream, own)?,
        };
        if let StreamKind::Kafka(KafkaSourceOptions { dead_letter_topic: Some(_), .. }) = &kind
            && matches!(decoder, Decoder::AsTheyAre)
        {
            return Err(invalid(format!(
                "{owner}: no raw record is malformed: 'dead-letter.topic' needs a format"
            )));
        }
        let sets_aside = stream.watermark.as_ref().is_some_and(|watermark| watermark.clock.sets_future_aside);
        let has_letters = matches!(&kind, StreamKind::Kafka(kafka) if kafka.dead_letter_topic.is_some());
        if sets_aside && !has_letters {
            let text = format!("{owner}: 'watermark.future-rows' = 'dead-letter' needs 'dead-letter.topic'");
            return Err(invalid(text));
        }
        let failing_rows = match &kind {
            StreamKind::Rate(_) => FailingRows::Fail,
            StreamKind::Kafka(_) | StreamKind::Files(_) => FailingRows::take(&mut options, has_letters)?,
        };
        options.finish()?;
        Ok(Self { owner, kind, decoder, failing_rows, schema })
    }

    /// What rows of the stream look like.
    pub fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    /// What the stream is: what a checkpoint is of.
    pub fn description(&self) -> String {
        match &self.kind {
            StreamKind::Kafka(options) => options.description(),
            StreamKind::Files(options) => format!("filesystem [{}]", options.path.display()),
            StreamKind::Rate(schedule) => format!("rate [{}]", schedule.description()),
        }
    }

    /// The option that bounds a planned epoch, if it is given.
    pub fn epoch_limit(&self) -> Option<&'static str> {
        match &self.kind {
            StreamKind::Kafka(options) => options.epoch_records_max.map(|_| "maxOffsetsPerTrigger"),
            StreamKind::Files(options) => {
                (options.epoch_files_max < usize::MAX).then_some("maxFilesPerTrigger")
            }
            StreamKind::Rate(_) => None,
        }
    }

    /// Checks that the source can be read: what can be known without an offset.
    ///
    /// # Errors
    /// `NotFound` if it is not there; `Invalid` for options that its client refuses; if it does not answer.
    pub fn check(&self) -> Result<()> {
        match &self.kind {
            StreamKind::Kafka(options) => {
                DeadLetters::check(options)?;
                KafkaSource::check(options)
            }
            StreamKind::Files(options) => FileSource::check(options),
            StreamKind::Rate(_) => Ok(()),
        }
    }

    /// Where a new query begins.
    ///
    /// # Errors
    /// If the source cannot say.
    pub fn initial_offset(&self) -> Result<Value> {
        match &self.kind {
            StreamKind::Kafka(options) => KafkaSource::initial_offsets(options),
            StreamKind::Files(_) => Ok(FileSource::initial_offset()),
            StreamKind::Rate(_) => Ok(RateSource::initial_offset()),
        }
    }

    /// Opens the source at an offset, with what it kept there to know its rows again. Its own log, if it has one, lies in the place `log`.
    ///
    /// # Errors
    /// If it cannot go on from there.
    pub fn open(
        &self,
        offset: &Value,
        marks: Option<&Value>,
        log: Arc<dyn Storage>,
    ) -> Result<Box<dyn Source>> {
        Ok(match &self.kind {
            StreamKind::Kafka(options) => Box::new(KafkaSource::at(options.clone(), offset, marks)?),
            StreamKind::Files(options) => Box::new(FileSource::at(options.clone(), offset, log)?),
            StreamKind::Rate(schedule) => Box::new(RateSource::at(*schedule, offset)?),
        })
    }

    /// Checks that it fits a sink: that malformed records can go into the sink's transactions, if it has such, and that no pattern
    /// matches the sink's topic.
    ///
    /// # Errors
    /// `Invalid` if not.
    pub fn check_sink(&self, sink: &SinkConnector) -> Result<()> {
        match (&self.kind, sink) {
            (StreamKind::Kafka(stream), SinkConnector::Kafka(sink)) => {
                check_pattern(&self.owner, stream, sink)?;
                check_dead_letters(stream, sink)
            }
            _ => Ok(()),
        }
    }

    /// Opens the topic of malformed records, if there is one.
    ///
    /// # Errors
    /// `Invalid` for options that Kafka's client refuses.
    pub fn open_dead_letters(
        &self,
        transactions: Option<&Transactions>,
        open: BatchId,
    ) -> Result<Option<DeadLetters>> {
        match &self.kind {
            StreamKind::Kafka(options) => DeadLetters::open(options, transactions, open),
            StreamKind::Files(_) | StreamKind::Rate(_) => Ok(None),
        }
    }

    /// The fate of rows that an expression fails on.
    pub fn failing_rows(&self) -> FailingRows {
        self.failing_rows
    }

    /// The decoder of its rows.
    pub fn into_decoder(self) -> Decoder {
        self.decoder
    }
}

/// The connector's own columns; a job may name them all again, to read what it gets.
fn own_columns(owner: &str, stream: &StreamDefinition, own: SchemaRef) -> Result<SchemaRef> {
    let is_same = |(column, field): (&crate::plan::StreamColumn, &arrow::datatypes::FieldRef)| {
        column.name == *field.name() && column.data_type == *field.data_type() && column.metadata.is_none()
    };
    let are_same =
        stream.columns.len() == own.fields().len() && stream.columns.iter().zip(own.fields()).all(is_same);
    if stream.columns.is_empty() || are_same {
        return Ok(own);
    }
    let names: Vec<String> =
        own.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect();
    Err(invalid(format!("{owner}: without a format its columns are {}", names.join(", ")))
        .with_hint("leave them out, or read fields of the value with 'format' = 'json' or 'csv'"))
}

impl SinkConnector {
    /// Checks the sink of a query.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of(query: &Query) -> Result<Self> {
        Self::new(&query.sink, &query.pipeline.schema, GroupColumns::of(query).as_ref())
    }

    /// Checks a sink for rows of this schema, which take the place of others of their groups if there are such.
    ///
    /// # Errors
    /// `Invalid` for an option that is missing, wrong or not honoured, and for rows that do not fit.
    pub fn new(sink: &SinkDefinition, schema: &Schema, groups: Option<&GroupColumns>) -> Result<Self> {
        let mut options: OptionMap = sink.options.clone();
        let connector = match options.require("connector")?.as_str() {
            "kafka" => {
                let kafka = KafkaSinkOptions::take(&mut options)?;
                KafkaSink::check(&kafka, options.owner(), schema)?;
                Self::Kafka(match groups {
                    Some(groups) => kafka.with_updates(options.owner(), groups)?,
                    None => kafka,
                })
            }
            "filesystem" => Self::Files(FileSinkOptions::take(&mut options, schema)?),
            "console" => Self::Console,
            "memory" => Self::Memory(MemoryRows::default()),
            "noop" => Self::Noop,
            other => {
                return Err(options.wrong("connector", other, "kafka, filesystem, console, memory or noop"));
            }
        };
        options.finish()?;
        Ok(connector)
    }

    /// Description of the sink.
    pub fn description(&self) -> String {
        match self {
            Self::Kafka(options) => {
                format!("kafka [{}]", options.topic.as_deref().unwrap_or("topics of the rows"))
            }
            Self::Files(options) => format!("filesystem [{}]", options.path.display()),
            Self::Console => "console".to_owned(),
            Self::Memory(_) => "memory".to_owned(),
            Self::Noop => "noop".to_owned(),
        }
    }

    /// Columns that are the key of what it writes, if it has keys of columns.
    pub fn key_columns(&self) -> Option<&[String]> {
        if let Self::Kafka(options) = self { options.key_fields.as_deref() } else { None }
    }

    /// Delivery guarantee: times that a row comes out, whatever fails.
    pub fn guarantee(&self) -> &'static str {
        match self {
            // A file of an epoch is put in its place as a whole, and again after a crash.
            Self::Kafka(KafkaSinkOptions { transactional_id_prefix: Some(_), .. }) | Self::Files(_) => {
                "exactly once"
            }
            Self::Kafka(_) | Self::Console | Self::Memory(_) | Self::Noop => "at least once",
        }
    }

    /// Checks that it can do with so much time between checkpoints.
    ///
    /// # Errors
    /// `Invalid` if not.
    pub fn check_interval(&self, interval_ms: i64) -> Result<()> {
        match self {
            Self::Kafka(options) if options.transactional_id_prefix.is_some() => {
                check_interval(options, interval_ms)
            }
            _ => Ok(()),
        }
    }

    /// Checks that it can be written to: what can be known before it is opened.
    ///
    /// # Errors
    /// `Invalid` for options that its client refuses; `NotFound` for a topic that is not there; if brokers do not answer.
    pub fn check(&self) -> Result<()> {
        if let Self::Kafka(options) = self { KafkaSink::check_topic(options) } else { Ok(()) }
    }

    /// Transactional id of a query, if the sink delivers exactly once.
    pub fn transactional_id(&self, query_id: &str) -> Option<String> {
        let Self::Kafka(options) = self else { return None };
        options.transactional_id_prefix.as_ref().map(|prefix| transactional_id(prefix, query_id))
    }

    /// Begins transactions, if it delivers exactly once, and says which is the last that is committed. Older processes are
    /// fenced then.
    ///
    /// # Errors
    /// As [`Transactions::begin`].
    pub fn transactions(
        &self,
        query_id: &str,
        interval_ms: i64,
    ) -> Result<Option<(Transactions, Option<OutputMarker>)>> {
        match self {
            Self::Kafka(options @ KafkaSinkOptions { transactional_id_prefix: Some(prefix), .. }) => {
                Transactions::begin(options, prefix, query_id, interval_ms).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Checks that nobody else's rows lie where those of a new query are to come.
    ///
    /// # Errors
    /// `Conflict` if some do.
    pub fn check_unused(&self) -> Result<()> {
        if let Self::Files(options) = self { FileSink::check_unused(options) } else { Ok(()) }
    }

    /// Opens it for the epochs from `open` on. Rows of epochs after `rows_until` come again.
    ///
    /// # Errors
    /// `Invalid` for options that Kafka's client refuses.
    pub fn open(
        &self,
        transactions: Option<Transactions>,
        open: BatchId,
        rows_until: BatchId,
    ) -> Result<Box<dyn Sink>> {
        Ok(match self {
            Self::Kafka(options) => Box::new(KafkaSink::open(options.clone(), transactions, open)?),
            Self::Files(options) => Box::new(FileSink::open(options, open, rows_until)?),
            Self::Console => Box::new(ConsoleSink::default()),
            Self::Memory(rows) => Box::new(MemorySink::new(rows.clone())),
            Self::Noop => Box::new(NoopSink::default()),
        })
    }
}
