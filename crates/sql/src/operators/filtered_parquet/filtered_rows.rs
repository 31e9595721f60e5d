//! The rows of some row groups that the conditions of a scan keep, in batches of the usual size.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use arrow::compute::BatchCoalescer;
use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use futures::stream::{BoxStream, Stream, StreamExt};

use super::Scan;
use super::choice::Way;
use super::conditions::{Kept, Kind, kept, order};

/// Batches after which the conditions are put in order again.
const BATCHES_IN_ORDER: usize = 16;

/// Batches without a row that is kept after which other tasks of the thread have their turn.
const EMPTY_BATCHES_IN_TURN: usize = 16;

/// Row groups that are read together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) way: Way,
    pub(super) groups: usize,
    pub(super) rows: u64,
}

/// Stream of the rows that are kept.
pub(super) struct FilteredRows {
    decoded: BoxStream<'static, Result<RecordBatch>>,
    scan: Arc<Scan>,
    run: Run,
    order: Vec<usize>,
    batches: usize,
    output: BatchCoalescer,
    kept: u64,
    nanos: u64,
    is_done: bool,
}

impl FilteredRows {
    pub(super) fn new(decoded: BoxStream<'static, Result<RecordBatch>>, scan: Arc<Scan>, run: Run) -> Self {
        let most = scan.batch_rows;
        // Batches of which most rows are left are not copied.
        let output = BatchCoalescer::new(Arc::clone(&scan.schema), most)
            .with_biggest_coalesce_batch_size(Some(most / 2));
        Self { decoded, scan, run, order: Vec::new(), batches: 0, output, kept: 0, nanos: 0, is_done: false }
    }

    /// Asks the rows of a batch.
    fn push(&mut self, batch: RecordBatch) -> Result<()> {
        if self.batches.is_multiple_of(BATCHES_IN_ORDER) {
            self.order = order(&self.scan.conditions);
        }
        self.batches += 1;
        let way = self.run.way;
        let conditions = self.order.iter().map(|at| &self.scan.conditions[*at]);
        let asked = conditions.filter(|condition| match way {
            Way::AfterDecoding => condition.is_asked(),
            // Filters were asked before, and all that is left would look as if they kept everything.
            Way::WhileDecoding => condition.kind != Kind::Filter,
        });
        let (batch, mask) = match kept(batch, asked, way)? {
            Kept::None => return Ok(()),
            Kept::All(batch) => (batch, None),
            Kept::Some(batch, mask) => (batch, Some(mask)),
        };
        let batch = batch.project(&self.scan.output)?;
        match mask {
            None => {
                self.kept += batch.num_rows() as u64;
                self.output.push_batch(batch)?;
            }
            Some(mask) => {
                self.kept += mask.true_count() as u64;
                self.output.push_batch_with_filter(batch, &mask)?;
            }
        }
        Ok(())
    }

    /// Ends with the rows that are buffered. `started`: when the poll began that came to the end.
    fn finish(&mut self, started: Instant) -> Result<()> {
        self.is_done = true;
        self.output.finish_buffered_batch()?;
        let Run { way, groups, rows } = self.run;
        if self.scan.is_asking() {
            let nanos = self.nanos + started.elapsed().as_nanos() as u64;
            self.scan.choice.note(way, groups, rows, self.kept, nanos);
        }
        Ok(())
    }

    fn poll_kept(
        &mut self,
        context: &mut Context<'_>,
        started: Instant,
    ) -> Poll<Option<Result<RecordBatch>>> {
        for _ in 0..EMPTY_BATCHES_IN_TURN {
            if let Some(batch) = self.output.next_completed_batch() {
                return Poll::Ready(Some(Ok(batch)));
            }
            if self.is_done {
                return Poll::Ready(None);
            }
            let pushed = match ready!(self.decoded.poll_next_unpin(context)) {
                Some(batch) => batch.and_then(|batch| self.push(batch)),
                None => self.finish(started),
            };
            if let Err(error) = pushed {
                self.is_done = true;
                return Poll::Ready(Some(Err(error)));
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Stream for FilteredRows {
    type Item = Result<RecordBatch>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let started = Instant::now();
        let polled = this.poll_kept(context, started);
        this.nanos += started.elapsed().as_nanos() as u64;
        polled
    }
}
