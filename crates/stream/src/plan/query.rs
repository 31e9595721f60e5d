use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::{OptionMap, Pipeline, Settings};

/// A column of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamColumn {
    /// Its name, with the case in which it was written.
    pub name: String,
    /// Its type.
    pub data_type: DataType,
    /// Whether a record without it is well formed.
    pub is_nullable: bool,
    /// The column of the connector that it shows, rather than a field of the record's value.
    pub metadata: Option<String>,
}

/// The time column of a stream, and how late its rows may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatermarkDefinition {
    /// Name of the column.
    pub column: String,
    /// Milliseconds that the watermark stays behind the greatest time.
    pub delay_ms: i64,
    /// Rules by the machine's clock.
    pub clock: WatermarkClock,
}

/// Options by which the machine's clock bears on a stream's watermark. Without them only rows move it, and it is the same each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WatermarkClock {
    /// Milliseconds without rows after which the query's watermark does not wait for the stream: `scan.watermark.idle-timeout`,
    /// as in Flink.
    pub idle_after_ms: Option<i64>,
    /// Milliseconds after now up to which times move the watermark: `watermark.future-limit`.
    pub future_limit_ms: Option<i64>,
    /// True if rows with later times go to the dead letters: `watermark.future-rows`.
    pub sets_future_aside: bool,
}

/// `CREATE STREAM`.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamDefinition {
    /// Name.
    pub name: String,
    /// Its columns; empty if the connector brings its own.
    pub columns: Vec<StreamColumn>,
    /// Its watermark.
    pub watermark: Option<WatermarkDefinition>,
    /// Options.
    pub options: OptionMap,
}

/// `CREATE SINK`.
#[derive(Debug, Clone, PartialEq)]
pub struct SinkDefinition {
    /// Name.
    pub name: String,
    /// Options.
    pub options: OptionMap,
}

/// `CREATE TABLE`: rows at rest, which a query reads when it starts.
#[derive(Debug, Clone, PartialEq)]
pub struct TableDefinition {
    /// Name.
    pub name: String,
    /// Columns.
    pub columns: Vec<StreamColumn>,
    /// Options.
    pub options: OptionMap,
}

impl TableDefinition {
    /// Schema of its rows.
    pub fn schema(&self) -> SchemaRef {
        let field =
            |column: &StreamColumn| Field::new(&column.name, column.data_type.clone(), column.is_nullable);
        Arc::new(Schema::new(self.columns.iter().map(field).collect::<Vec<_>>()))
    }
}

/// Which rows of an aggregation come out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputMode {
    /// Rows that never change again: all of a stateless query; of an aggregation those of closed windows
    /// (`EMIT ON WINDOW CLOSE`).
    Append,
    /// Each group that changed (`EMIT UPDATES`).
    Update,
    /// All groups, whenever one changed (`EMIT COMPLETE`); none ever goes.
    Complete,
}

/// One query, as any front can build it: a stream's rows on their way through a pipeline to a sink.
#[derive(Debug, Clone)]
pub struct Query {
    /// Its name: the sink's. Its checkpoint lies in a folder of that name.
    pub name: String,
    /// Where rows come from.
    pub stream: StreamDefinition,
    /// What the stream's rows look like.
    pub stream_schema: SchemaRef,
    /// Further streams, of a join or a union, with what their rows look like.
    pub further_streams: Vec<(StreamDefinition, SchemaRef)>,
    /// Tables at rest that streams are joined with, in the order in which operators number them.
    pub tables: Vec<TableDefinition>,
    /// What is done with them.
    pub pipeline: Pipeline,
    /// Where they go.
    pub sink: SinkDefinition,
    /// Which rows come out.
    pub output_mode: OutputMode,
    /// Trigger and intervals.
    pub settings: Settings,
}

impl Query {
    /// Streams that are read, in the order in which operators number them, with what their rows look like.
    pub fn streams(&self) -> impl Iterator<Item = (&StreamDefinition, &SchemaRef)> {
        let further = self.further_streams.iter().map(|(stream, schema)| (stream, schema));
        std::iter::once((&self.stream, &self.stream_schema)).chain(further)
    }
}
