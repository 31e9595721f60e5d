use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type, Schema};

use super::producer::{self, Outgoing, Producer};
use super::record_size::row_bytes_max;
use super::{KafkaSinkOptions, SinkFormat, Transactions, record_keys};
use crate::BatchId;
use crate::connectors::Sink;
use crate::connectors::format::{CsvDialect, write_json_lines};
use crate::error::{Result, computing, invalid};

/// Sink of records that are visible at once, each at least once: after a failure those since the last checkpoint come again. Or
/// of records in transactions, each exactly once to who reads what is committed.
pub struct KafkaSink {
    options: KafkaSinkOptions,
    producer: Producer,
}

/// What is done with each record of rows.
type Take<'t> = &'t mut dyn FnMut(&Outgoing<'_>) -> Result<()>;

impl KafkaSink {
    /// Checks that rows of this schema can become records.
    ///
    /// # Errors
    /// `Invalid` for a column that is missing, of a wrong type, or not honoured.
    pub fn check(options: &KafkaSinkOptions, owner: &str, schema: &Schema) -> Result<()> {
        let is_bytes = |name: &str| match schema.field_with_name(name) {
            Ok(field) if !matches!(field.data_type(), DataType::Binary | DataType::Utf8) => Err(invalid(
                format!("{owner}: column '{name}' is {}, expected STRING or BINARY", field.data_type()),
            )),
            found => Ok(found.is_ok()),
        };
        if let SinkFormat::Csv { .. } = &options.format {
            CsvDialect::check(owner, schema)?;
        }
        if options.format != SinkFormat::Raw {
            return record_keys::check(owner, options.key_fields.as_deref().unwrap_or_default(), schema);
        }
        if !is_bytes("value")? {
            return Err(invalid(format!("{owner}: the query has no column 'value'"))
                .with_hint("name one so, or write all columns with 'format' = 'json'"));
        }
        let known = ["key", "value", "topic", "partition"];
        for field in schema.fields() {
            if !known.contains(&field.name().as_str()) {
                return Err(invalid(format!("{owner}: a raw record has no column '{}'", field.name()))
                    .with_hint(
                        "key, value, topic and partition are there; 'format' = 'json' takes all columns",
                    ));
            }
        }
        is_bytes("key")?;
        if !is_bytes("topic")? && options.topic.is_none() {
            return Err(invalid(format!("{owner}: neither the option nor the column 'topic' is there")));
        }
        Ok(())
    }

    /// Checks that a producer can be made, and that the topic is there if the options name one.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn check_topic(options: &KafkaSinkOptions) -> Result<()> {
        producer::check(&options.client, options.topic.as_deref())
    }

    /// Opens the sink for the epochs from `open` on.
    ///
    /// # Errors
    /// `Invalid` for options that Kafka's client refuses; `NotFound` for a topic that is not there; if brokers do not answer.
    pub fn open(
        options: KafkaSinkOptions,
        transactions: Option<Transactions>,
        open: BatchId,
    ) -> Result<Self> {
        let producer = match transactions {
            Some(transactions) => Producer::transactional(transactions, open),
            None => Producer::new(&options.client, options.has_updates, open)?,
        };
        if let Some(topic) = &options.topic {
            producer.check_topic(topic)?;
        }
        Ok(Self { options, producer })
    }

    /// Gives the records of rows, in their order.
    fn each_record(&self, rows: &RecordBatch, take: Take<'_>) -> Result<()> {
        match &self.options.format {
            SinkFormat::Raw => self.each_raw(rows, take),
            SinkFormat::Json => self.each_json(rows, take),
            SinkFormat::Csv { dialect } => {
                let records = dialect.records(rows)?;
                self.each_value(rows, records.iter().map(Vec::as_slice), take)
            }
        }
    }

    fn each_raw(&self, rows: &RecordBatch, take: Take<'_>) -> Result<()> {
        let [key, value, topic] = ["key", "value", "topic"].map(|name| bytes(rows, name));
        let (key, value, topic) = (key?, value?, topic?);
        let partition = rows.column_by_name("partition").map(|column| cast(column, &DataType::Int32));
        let partition = partition.transpose().map_err(computing)?;
        for row in 0..rows.num_rows() {
            let topic = match (&self.options.topic, &topic) {
                // As in Spark: the option stands above the column.
                (Some(topic), _) => topic.as_str(),
                (None, Some(topics)) if topics.is_valid(row) => {
                    std::str::from_utf8(topics.value(row)).map_err(computing)?
                }
                _ => return Err(invalid("a row has no topic")),
            };
            let partition = partition.as_ref().filter(|numbers| numbers.is_valid(row));
            let partition = partition.map(|numbers| numbers.as_primitive::<Int32Type>().value(row));
            let key = key.as_ref().filter(|column| column.is_valid(row)).map(|column| column.value(row));
            let partition = partition.or(self.partition_of(key));
            let value = value.as_ref().filter(|column| column.is_valid(row)).map(|column| column.value(row));
            take(&Outgoing { topic, partition, key, value, headers: &[] })?;
        }
        Ok(())
    }

    fn each_json(&self, rows: &RecordBatch, take: Take<'_>) -> Result<()> {
        let text = write_json_lines(rows)?;
        // A line end within a text is escaped.
        let values = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        self.each_value(rows, values, take)
    }

    /// The partition of a record with this key, if it is not the client's to choose. Records without a key would go to any of them.
    fn partition_of(&self, key: Option<&[u8]>) -> Option<i32> {
        (self.options.has_updates && key.is_none()).then_some(0)
    }

    /// Gives records with the values of rows, one for each in their order.
    fn each_value<'a>(
        &self,
        rows: &RecordBatch,
        values: impl Iterator<Item = &'a [u8]>,
        take: Take<'_>,
    ) -> Result<()> {
        let topic = self.options.topic.as_deref().expect("it was checked");
        let keys =
            self.options.key_fields.as_ref().map(|names| record_keys::keys(rows, names)).transpose()?;
        for (row, value) in values.enumerate() {
            let key = keys.as_ref().filter(|keys| keys.is_valid(row)).map(|keys| keys.value(row));
            take(&Outgoing {
                topic,
                partition: self.partition_of(key),
                key,
                value: Some(value),
                headers: &[],
            })?;
        }
        Ok(())
    }
}

impl Sink for KafkaSink {
    fn check(&self, rows: &RecordBatch) -> Result<()> {
        // A key of columns is as long as they are in the value, at most.
        let bytes_max = row_bytes_max(rows).map(|bytes| 2 * bytes + 100);
        let fits = bytes_max.is_some_and(|bytes| bytes <= self.producer.record_bytes_max());
        if fits && self.options.format != SinkFormat::Raw {
            return Ok(());
        }
        self.each_record(rows, &mut |record| self.producer.check_size(record))
    }

    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        self.each_record(rows, &mut |record| self.producer.send(record))
    }

    fn barrier(&mut self, batch: BatchId) -> Result<()> {
        self.producer.barrier(batch)
    }

    fn acknowledged(&mut self) -> Result<Option<BatchId>> {
        self.producer.acknowledged()
    }
}

fn bytes(rows: &RecordBatch, name: &str) -> Result<Option<BinaryArray>> {
    let Some(column) = rows.column_by_name(name) else { return Ok(None) };
    let column: ArrayRef = cast(column, &DataType::Binary).map_err(computing)?;
    Ok(Some(column.as_binary::<i32>().clone()))
}
