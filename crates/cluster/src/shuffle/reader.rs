//! Rows out of shuffles: the operator that stands where Ballista reads the files of executors.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use ballista_core::JobId;
use ballista_core::execution_plans::{ShuffleReaderExec, stats_for_partitions};
use ballista_core::serde::scheduler::PartitionLocation;
use datafusion::arrow::compute::BatchCoalescer;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use yeoul_base::ErrorKind;
use yeoul_dialect::Error;
use yeoul_shuffle::client::Reader;
use yeoul_shuffle::ids::{AttemptId, MapId, PartitionId};

use super::payload::decoded;
use super::place::Place;
use super::{Shuffles, corrupt, failed};

/// The plan of a task, in which what the tasks of other stages have put into shuffles is read from there, and the rest from executors, whose
/// own files are below `dir`.
///
/// # Errors
/// `Internal` for locations of which only some are in a shuffle.
pub(crate) fn reading(
    plan: Arc<dyn ExecutionPlan>,
    shuffles: &Shuffles,
    application: &str,
    dir: &str,
) -> Result<Arc<dyn ExecutionPlan>> {
    let reading = plan.transform_up(|node| {
        let Some(reader) = node.downcast_ref::<ShuffleReaderExec>() else { return Ok(Transformed::no(node)) };
        let mut places = reader.partition.iter().flatten();
        if !places.clone().any(|place| place.is_sort_shuffle) {
            let reader: Arc<dyn ExecutionPlan> = Arc::new(reader.with_work_dir(dir.to_owned()));
            return Ok(Transformed::yes(reader));
        }
        if !places.all(|place| place.is_sort_shuffle) {
            let text = "a stage has written to a shuffle and to its disk";
            return Err(Error::new(ErrorKind::Internal, text).into());
        }
        let parts = reader.partition.iter().map(|places| parts_of(places)).collect::<Result<_>>()?;
        let (shuffles, application) = (shuffles.clone(), application.to_owned());
        let from = From { shuffles, application, stage: reader.stage_id };
        let is_broadcast = reader.broadcast;
        let read = ShuffledExec { from: Arc::new(from), is_broadcast, parts, like: node };
        Ok(Transformed::yes(Arc::new(read) as Arc<dyn ExecutionPlan>))
    });
    reading.data()
}

/// Operator that reads partitions of a stage's shuffle.
#[derive(Debug)]
struct ShuffledExec {
    from: Arc<From>,
    /// True if each partition is all that the stage has written.
    is_broadcast: bool,
    /// By its own partition, what that consists of.
    parts: Vec<Vec<Part>>,
    /// The reader in whose place it stands.
    like: Arc<dyn ExecutionPlan>,
}

/// The shuffle of a stage.
struct From {
    shuffles: Shuffles,
    application: String,
    stage: usize,
}

impl fmt::Debug for From {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stage {} at {}", self.stage, self.application)
    }
}

/// Rows of one partition of a shuffle.
#[derive(Clone, Debug)]
struct Part {
    job: JobId,
    partition: PartitionId,
    partitions: usize,
    /// The attempt of each map that has written some.
    maps: BTreeMap<MapId, AttemptId>,
    /// Number of the rows.
    rows: u64,
}

/// Parts that locations consist of, one for each partition.
fn parts_of(locations: &[PartitionLocation]) -> Result<Vec<Part>> {
    let mut parts: BTreeMap<usize, Part> = BTreeMap::new();
    for location in locations {
        let lacks =
            |what: &str| Error::new(ErrorKind::Internal, format!("a location in a shuffle lacks {what}"));
        let place = Place::of_number(location.file_id.ok_or_else(|| lacks("its place"))?);
        let counted = stats_for_partitions(0, std::iter::once(location.partition_stats)).num_rows;
        let rows = *counted.get_value().ok_or_else(|| lacks("its number of rows"))?;
        let number = location.partition_id.partition_id;
        let part = parts.entry(number).or_insert_with(|| Part {
            job: location.partition_id.job_id.clone(),
            partition: PartitionId(i32::try_from(number).unwrap_or(i32::MAX)),
            partitions: place.partitions,
            maps: BTreeMap::new(),
            rows: 0,
        });
        part.rows += rows as u64;
        if part.maps.insert(place.map, place.attempt).is_some() {
            return Err(lacks("its own map").into());
        }
    }
    Ok(parts.into_values().collect())
}

impl DisplayAs for ShuffledExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShuffledExec: stage={}, broadcast={}", self.from.stage, self.is_broadcast)
    }
}

impl ExecutionPlan for ShuffledExec {
    fn name(&self) -> &str {
        "ShuffledExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.like.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let partition = if self.is_broadcast { 0 } else { partition };
        let schema = self.schema();
        let reading = Reading {
            from: Arc::clone(&self.from),
            parts: self.parts[partition].clone().into(),
            open: None,
            rows: BatchCoalescer::new(Arc::clone(&schema), context.session_config().batch_size()),
        };
        let rows = futures::stream::try_unfold(reading, |mut reading| async move {
            Ok(reading.next().await?.map(|batch| (batch, reading)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// Parts that are being read, one after another.
struct Reading {
    from: Arc<From>,
    parts: VecDeque<Part>,
    open: Option<(Part, Reader)>,
    /// Those that were read and not given yet.
    rows: BatchCoalescer,
}

impl Reading {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.rows.next_completed_batch() {
                return Ok(Some(batch));
            }
            let Some((part, reader)) = &mut self.open else {
                let Some(part) = self.parts.pop_front() else {
                    self.rows.finish_buffered_batch()?;
                    return Ok(self.rows.next_completed_batch());
                };
                let From { shuffles, application, stage } = self.from.as_ref();
                let shuffle = shuffles.open(application, &part.job, *stage, part.partitions).await?;
                let reader = shuffle.reader(part.partition, ..).await.map_err(failed)?;
                self.open = Some((part, reader));
                continue;
            };
            let Some(batch) = reader.next().await.map_err(failed)? else {
                part.check_end()?;
                self.open = None;
                continue;
            };
            part.check(batch.header.map, batch.header.attempt)?;
            for rows in decoded(&batch.payload, &self.rows.schema())? {
                part.take(rows.num_rows())?;
                self.rows.push_batch(rows)?;
            }
        }
    }
}

impl Part {
    /// Checks that rows are of the attempt that the scheduler knows of.
    ///
    /// # Errors
    /// `Internal` for others.
    fn check(&self, map: MapId, attempt: AttemptId) -> Result<()> {
        if self.maps.get(&map) == Some(&attempt) {
            return Ok(());
        }
        let text = format!("attempt {attempt} of map {map} was read, and the scheduler knows of another");
        Err(Error::new(ErrorKind::Internal, text).into())
    }

    /// Counts rows that were read.
    ///
    /// # Errors
    /// `Corrupt` for more than were written.
    fn take(&mut self, rows: usize) -> Result<()> {
        let left = self.rows.checked_sub(rows as u64);
        self.rows = left.ok_or_else(|| corrupt("a shuffle gives more rows than were written to it"))?;
        Ok(())
    }

    /// Checks that all rows were read.
    ///
    /// # Errors
    /// `DataLoss` if some were not.
    fn check_end(&self) -> Result<()> {
        match self.rows {
            0 => Ok(()),
            left => {
                let text = format!("a shuffle has lost {left} rows of partition {}", self.partition);
                Err(Error::new(ErrorKind::DataLoss, text).into())
            }
        }
    }
}
