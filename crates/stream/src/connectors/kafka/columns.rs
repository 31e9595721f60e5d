use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryBuilder, Int32Builder, Int64Builder, RecordBatch, StringBuilder,
    TimestampMicrosecondBuilder,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::error::{Result, computing};
use crate::plan::TIMESTAMP;

/// Columns of Kafka's records, with Spark's names and types.
pub fn record_schema() -> SchemaRef {
    let field = |name: &str, data_type, is_nullable| Field::new(name, data_type, is_nullable);
    Arc::new(Schema::new(vec![
        field("key", DataType::Binary, true),
        field("value", DataType::Binary, true),
        field("topic", DataType::Utf8, true),
        field("partition", DataType::Int32, true),
        field("offset", DataType::Int64, true),
        field("timestamp", TIMESTAMP(), true),
        field("timestampType", DataType::Int32, true),
    ]))
}

/// Records that are becoming a batch.
#[derive(Debug)]
pub(super) struct RecordColumns {
    key: BinaryBuilder,
    value: BinaryBuilder,
    topic: StringBuilder,
    partition: Int32Builder,
    offset: Int64Builder,
    timestamp: TimestampMicrosecondBuilder,
    timestamp_type: Int32Builder,
    rows: usize,
    bytes: usize,
}

/// One record.
pub(super) struct Record<'a> {
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub topic: &'a str,
    pub partition: i32,
    pub offset: i64,
    /// Milliseconds since 1970, if there are some.
    pub timestamp_ms: Option<i64>,
    /// 0 if its producer gave the time, 1 if the broker did.
    pub timestamp_type: i32,
}

impl RecordColumns {
    pub fn new() -> Self {
        Self {
            key: BinaryBuilder::new(),
            value: BinaryBuilder::new(),
            topic: StringBuilder::new(),
            partition: Int32Builder::new(),
            offset: Int64Builder::new(),
            timestamp: TimestampMicrosecondBuilder::new().with_timezone("+00:00"),
            timestamp_type: Int32Builder::new(),
            rows: 0,
            bytes: 0,
        }
    }

    pub fn push(&mut self, record: &Record<'_>) {
        self.key.append_option(record.key);
        self.value.append_option(record.value);
        self.topic.append_value(record.topic);
        self.partition.append_value(record.partition);
        self.offset.append_value(record.offset);
        self.timestamp.append_option(record.timestamp_ms.map(|ms| ms.saturating_mul(1000)));
        self.timestamp_type.append_value(record.timestamp_type);
        self.rows += 1;
        self.bytes += record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len);
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The batch; the columns are empty after it.
    ///
    /// # Errors
    /// Never: the columns are those of the schema.
    pub fn finish(&mut self) -> Result<RecordBatch> {
        (self.rows, self.bytes) = (0, 0);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.key.finish()),
            Arc::new(self.value.finish()),
            Arc::new(self.topic.finish()),
            Arc::new(self.partition.finish()),
            Arc::new(self.offset.finish()),
            Arc::new(self.timestamp.finish()),
            Arc::new(self.timestamp_type.finish()),
        ];
        RecordBatch::try_new(record_schema(), columns).map_err(computing)
    }
}
