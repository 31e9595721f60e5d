//! The map task: rows of one partition of a stage, divided by a hash into a shuffle.

use std::sync::Arc;

use ballista_core::JobId;
use ballista_core::serde::protobuf::ShuffleWritePartition;
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::Time;
use datafusion::physical_plan::repartition::BatchPartitioner;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::TryStreamExt;
use prost::Message;
use yeoul_base::ErrorKind;
use yeoul_dialect::Error;
use yeoul_shuffle::client::{Begun, Writer};
use yeoul_shuffle::ids::{MapId, PartitionId};

use super::payload::encoded;
use super::place::Place;
use super::summary::{Summary, Written};
use super::{Shuffles, failed};
use crate::limits::{PAYLOAD_BYTES, TASK_BUFFERED_BYTES_MAX};

/// Map task of a stage.
pub(crate) struct MapTask {
    pub shuffles: Shuffles,
    pub application: String,
    pub job: JobId,
    pub stage: usize,
    pub map: u64,
    /// Expressions whose hash decides the partition.
    pub by: Vec<Arc<dyn PhysicalExpr>>,
    pub partitions: usize,
    /// The plan of its rows, in one partition.
    pub input: Arc<dyn ExecutionPlan>,
}

impl MapTask {
    /// Places of its rows, once all are in the shuffle. If it has run before, those of then, at once.
    ///
    /// # Errors
    /// Those of the plan and of the shuffle.
    pub async fn run(&self, context: Arc<TaskContext>) -> Result<Vec<ShuffleWritePartition>> {
        if self.input.output_partitioning().partition_count() != 1 {
            let text = "a task of a shuffle has several partitions";
            return Err(Error::new(ErrorKind::Internal, text).into());
        }
        let map = MapId(i32::try_from(self.map).unwrap_or(i32::MAX));
        let shuffle = self.shuffles.open(&self.application, &self.job, self.stage, self.partitions).await?;
        let ended = match shuffle.begin(map).await.map_err(failed)? {
            Begun::Ended(ended) => {
                tracing::info!(job = %self.job, stage = self.stage, map = map.0, "a map was looked up");
                ended
            }
            Begun::Writer(writer) => {
                let mut output = Output::new(*writer, self.partitions, &context);
                self.write(&mut output, context).await?;
                output.end().await?
            }
        };
        let place = Place { partitions: self.partitions, map, attempt: ended.attempt };
        Summary::read(&ended.summary)?.at(place)
    }

    async fn write(&self, output: &mut Output, context: Arc<TaskContext>) -> Result<()> {
        let mut rows = self.input.execute(0, context)?;
        let mut divided =
            BatchPartitioner::new_hash_partitioner(self.by.clone(), self.partitions, Time::new())?;
        while let Some(batch) = rows.try_next().await? {
            for part in divided.partition_iter(batch)? {
                let (partition, rows) = part?;
                output.add(partition, rows).await?;
            }
        }
        Ok(())
    }
}

/// Rows on their way into a shuffle. Those of a partition are pushed when there are enough of them.
struct Output {
    writer: Writer,
    /// By partition.
    buffers: Vec<Buffer>,
    written: Vec<Written>,
    /// Memory of all buffers.
    reservation: MemoryReservation,
}

/// Rows of one partition, with their bytes.
#[derive(Default)]
struct Buffer {
    rows: Vec<RecordBatch>,
    bytes: usize,
}

impl Output {
    fn new(writer: Writer, partitions: usize, context: &TaskContext) -> Self {
        let consumer = MemoryConsumer::new("rows for a shuffle").with_can_spill(true);
        Self {
            writer,
            buffers: std::iter::repeat_with(Buffer::default).take(partitions).collect(),
            written: vec![Written::default(); partitions],
            reservation: consumer.register(context.memory_pool()),
        }
    }

    /// Takes rows of a partition.
    async fn add(&mut self, partition: usize, rows: RecordBatch) -> Result<()> {
        let bytes = rows.get_array_memory_size();
        let has_room = self.reservation.size() + bytes <= TASK_BUFFERED_BYTES_MAX
            && self.reservation.try_grow(bytes).is_ok();
        if !has_room {
            self.push_all().await?;
            self.reservation.try_grow(bytes)?;
        }
        let buffer = &mut self.buffers[partition];
        buffer.rows.push(rows);
        buffer.bytes += bytes;
        if buffer.bytes >= PAYLOAD_BYTES { self.push(partition).await } else { Ok(()) }
    }

    /// Pushes what there is of a partition.
    async fn push(&mut self, partition: usize) -> Result<()> {
        let Buffer { rows, bytes } = std::mem::take(&mut self.buffers[partition]);
        let Some(first) = rows.first() else { return Ok(()) };
        let rows = concat_batches(&first.schema(), &rows)?;
        let payload = encoded(&rows)?;
        let written = &mut self.written[partition];
        written.rows += rows.num_rows() as u64;
        written.payloads += 1;
        written.bytes += payload.len() as u64;
        drop(rows);
        self.reservation.shrink(bytes);
        let partition = PartitionId(i32::try_from(partition).expect("no shuffle has more"));
        self.writer.push(partition, payload).await.map_err(failed)
    }

    async fn push_all(&mut self) -> Result<()> {
        for partition in 0..self.buffers.len() {
            self.push(partition).await?;
        }
        Ok(())
    }

    /// Ends the map, if no other attempt of it was first.
    async fn end(mut self) -> Result<yeoul_shuffle::client::Ended> {
        self.push_all().await?;
        let summary = Summary::of(&self.written).encode_to_vec();
        self.writer.finish_with(summary).await.map_err(failed)
    }
}
