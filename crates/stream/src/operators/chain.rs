use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{cast, max};
use arrow::datatypes::TimestampMicrosecondType;

use super::{Aggregate, AggregateCounts, Calc, Watermark, WindowAssigner};
use crate::checkpoint::wire::Manifest;
use crate::error::{Result, computing};
use crate::plan::{Query, TIMESTAMP};
use crate::state::{Bucket, Layout, MemoryShare, MemoryTable, StateTable, StateUsage, Version};

/// A query's operators, in the order of its [`Pipeline`](crate::plan::Pipeline).
pub struct Operators {
    before_watermark: Calc,
    watermark: Option<EventTime>,
    windows: Option<WindowAssigner>,
    stages: Calc,
    aggregate: Option<Aggregate>,
    after_aggregate: Calc,
}

/// The watermark, and the column that moves it.
struct EventTime {
    column: usize,
    watermark: Watermark,
}

impl Operators {
    /// The table of state that a query needs, if it needs one.
    ///
    /// # Errors
    /// `Invalid` for types that state does not hold.
    pub fn layout(query: &Query) -> Result<Option<Arc<Layout>>> {
        query.pipeline.aggregate.as_ref().map(Aggregate::layout).transpose()
    }

    /// What the state of a query is of.
    pub fn state_identity(query: &Query) -> Option<String> {
        let aggregate = Aggregate::identity(query.pipeline.aggregate.as_ref()?);
        let windows = query.pipeline.windows.as_ref().map_or_else(String::new, |windows| {
            format!(
                ", windows of '{}', {} ms each {} ms from {} ms on",
                windows.time_column, windows.size_ms, windows.slide_ms, windows.offset_ms
            )
        });
        Some(format!("{aggregate}{windows}"))
    }

    /// Operators of a query that never ran, with state in memory.
    ///
    /// # Errors
    /// `Invalid` for types that state does not hold, and if the stream has no time column of the watermark's name.
    pub fn of_new_query(query: &Query, memory: &MemoryShare) -> Result<Self> {
        let table = match Self::layout(query)? {
            Some(layout) => Some(Box::new(MemoryTable::new(layout, memory.clone())?) as Box<dyn StateTable>),
            None => None,
        };
        Self::build(query, |delay_ms| Watermark::new(delay_ms, 0, 0), table)
    }

    /// Operators of a query that goes on from a checkpoint, with the table of its state.
    ///
    /// # Errors
    /// `Invalid` if the stream has no time column of the watermark's name.
    pub fn new(query: &Query, checkpoint: &Manifest, table: Option<Box<dyn StateTable>>) -> Result<Self> {
        let (current_ms, late_ms) = (checkpoint.watermark_ms, checkpoint.late_watermark_ms);
        Self::build(query, |delay_ms| Watermark::new(delay_ms, current_ms, late_ms), table)
    }

    fn build(
        query: &Query,
        watermark: impl FnOnce(i64) -> Watermark,
        table: Option<Box<dyn StateTable>>,
    ) -> Result<Self> {
        let pipeline = &query.pipeline;
        let rows = &query.stream_schema;
        let watermark = pipeline.watermark.as_ref().map(|definition| -> Result<EventTime> {
            let column = rows.index_of(&definition.column).map_err(computing)?;
            Ok(EventTime { column, watermark: watermark(definition.delay_ms) })
        });
        let windows = pipeline.windows.clone().map(|function| WindowAssigner::new(function, rows));
        let aggregate = pipeline.aggregate.clone().zip(table);
        let aggregate = aggregate.map(|(plan, table)| Aggregate::new(plan, query.output_mode, table));
        Ok(Self {
            before_watermark: Calc::new(pipeline.before_watermark.iter().cloned()),
            watermark: watermark.transpose()?,
            windows: windows.transpose()?,
            stages: Calc::new(pipeline.stages.iter().cloned()),
            aggregate: aggregate.transpose()?,
            after_aggregate: Calc::new(pipeline.after_aggregate.iter().cloned()),
        })
    }

    /// Whether it matters which rows are in which batch.
    pub fn has_batches(&self) -> bool {
        self.aggregate.is_some()
    }

    /// Whether groups that changed come out once for the open batch, at its end, rather than at once.
    pub fn set_gathering(&mut self, is_gathering: bool) {
        if let Some(aggregate) = &mut self.aggregate {
            aggregate.set_gathering(is_gathering);
        }
    }

    /// Takes rows of the open batch, and gives what comes out at once.
    ///
    /// # Errors
    /// `Invalid` for values that cannot be computed; as the table of state.
    pub fn push(&mut self, rows: RecordBatch) -> Result<Option<RecordBatch>> {
        let mut rows = self.before_watermark.push(rows)?;
        if let Some(time) = &mut self.watermark {
            time.observe(&rows)?;
        }
        if let Some(windows) = &self.windows {
            rows = windows.push(&rows)?;
        }
        let rows = self.stages.push(rows)?;
        let Some(aggregate) = &mut self.aggregate else { return Ok(some(rows)) };
        let late = self.watermark.as_ref().map(|time| bucket(time.watermark.late_ms()));
        match aggregate.push(&rows, late)? {
            Some(groups) => Ok(some(self.after_aggregate.push(groups)?)),
            None => Ok(None),
        }
    }

    /// Ends the open batch, and gives what comes out at its end.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn end_batch(&mut self) -> Result<Vec<RecordBatch>> {
        let evict_until =
            self.watermark.as_mut().map(|time| bucket(time.watermark.end_batch().evict_until_ms));
        let Some(aggregate) = &mut self.aggregate else { return Ok(Vec::new()) };
        let mut out = Vec::new();
        for groups in aggregate.end_batch(evict_until)? {
            out.extend(some(self.after_aggregate.push(groups)?));
        }
        Ok(out)
    }

    /// Whether the end of a batch without rows would let something go.
    pub fn wants_empty_batch(&self) -> bool {
        self.aggregate.is_some()
            && self.watermark.as_ref().is_some_and(|time| time.watermark.wants_empty_batch())
    }

    /// The watermark of the open batch and the one by which its rows are late, in milliseconds since 1970; 0 without one.
    pub fn watermarks_ms(&self) -> (i64, i64) {
        self.watermark.as_ref().map_or((0, 0), |time| (time.watermark.current_ms(), time.watermark.late_ms()))
    }

    /// Whether the stream has a watermark.
    pub fn has_watermark(&self) -> bool {
        self.watermark.is_some()
    }

    /// What changed in the state since this was asked last.
    ///
    /// # Errors
    /// As the table of state.
    pub fn version(&mut self) -> Result<Option<Version>> {
        self.aggregate.as_mut().map_or(Ok(None), |aggregate| aggregate.table().version())
    }

    /// What the state is, and what was done with it since this was asked last; nothing without state.
    pub fn take_usage(&mut self) -> Option<(StateUsage, AggregateCounts)> {
        let aggregate = self.aggregate.as_mut()?;
        Some((aggregate.table().usage(), aggregate.take_counts()))
    }
}

impl EventTime {
    /// Takes note of the greatest time; a row without one counts as 1970, as in Spark.
    fn observe(&mut self, rows: &RecordBatch) -> Result<()> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let times: ArrayRef = cast(rows.column(self.column), &TIMESTAMP()).map_err(computing)?;
        let times = times.as_primitive::<TimestampMicrosecondType>();
        let null = (times.null_count() > 0).then_some(0);
        let greatest = max(times).max(null).expect("there is a row");
        self.watermark.observe(greatest.div_euclid(1000));
        Ok(())
    }
}

fn some(rows: RecordBatch) -> Option<RecordBatch> {
    (rows.num_rows() > 0).then_some(rows)
}

/// What is over at a time: never what is for ever.
fn bucket(ms: i64) -> Bucket {
    Bucket(ms.saturating_mul(1000).min(Bucket::FOR_EVER.0 - 1))
}

#[cfg(test)]
mod tests;
