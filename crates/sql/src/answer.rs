use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, SessionState};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::stream::{RecordBatchReceiverStreamBuilder, RecordBatchStreamAdapter};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use yeoul_base::{ByteSize, ErrorKind};
use yeoul_memory::ProcessMemory;

use crate::copy::staged_copy::StagedCopy;
use crate::memory::pool::PromisePool;
use crate::operators::shared_subplan;
use crate::optimizer::ShownEstimates;
use crate::progress::Progress;
use crate::settings::fallback_state;
use crate::{Error, Result};
use yeoul_dialect::ColumnTexts;
use yeoul_dialect::error::Shortage;

/// The rows of a statement, as they come. Dropping it cancels the query.
pub struct Answer {
    schema: SchemaRef,
    is_plan: bool,
    watch: Watch,
    batches: BoxStream<'static, Result<RecordBatch>>,
}

/// A handle that shows the progress and the notices of a running query; cheap to clone.
#[derive(Clone)]
pub struct Watch {
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    plan: Arc<dyn ExecutionPlan>,
    notices: Vec<String>,
}

impl Watch {
    fn new(plan: Arc<dyn ExecutionPlan>) -> Self {
        Self { shared: Arc::new(Mutex::new(Shared { plan, notices: Vec::new() })) }
    }

    fn with<T>(&self, read: impl FnOnce(&mut Shared) -> T) -> T {
        read(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The progress of the query.
    pub fn progress(&self) -> Progress {
        let plan = self.with(|shared| Arc::clone(&shared.plan));
        Progress::of(&plan)
    }

    /// The notices: what the person should know though nothing failed, in order.
    pub fn notices(&self) -> Vec<String> {
        self.with(|shared| shared.notices.clone())
    }
}

impl Answer {
    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Whether it is a plan, the answer of `EXPLAIN`: texts of several lines.
    pub fn is_plan(&self) -> bool {
        self.is_plan
    }

    /// The answer with its columns renamed.
    pub(crate) fn headed(mut self, texts: &ColumnTexts) -> Self {
        let schema = Arc::new(texts.head(&self.schema));
        if schema == self.schema {
            return self;
        }
        let names = Arc::clone(&schema);
        self.schema = schema;
        self.batches = self.batches.map(move |batch| with_names(&batch?, &names)).boxed();
        self
    }

    /// The answer with notices before those of its query.
    pub(crate) fn noticing(self, notices: Vec<String>) -> Self {
        self.watch.with(|shared| {
            shared.notices.splice(0..0, notices);
        });
        self
    }

    /// The notices: what the person should know though nothing failed, such as that the query was planned again to save memory.
    pub fn notices(&self) -> Vec<String> {
        self.watch.notices()
    }

    /// A handle to watch the query while it runs.
    pub fn watch(&self) -> Watch {
        self.watch.clone()
    }

    /// Reads it to the end into memory. For answers that are known to be small.
    ///
    /// # Errors
    /// The query's own.
    pub async fn collect(mut self) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        while let Some(batch) = self.next().await {
            batches.push(batch?);
        }
        Ok(batches)
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl Stream for Answer {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.batches.poll_next_unpin(context)
    }
}

/// `batch` with its columns named as in `names`.
fn with_names(batch: &RecordBatch, names: &Schema) -> Result<RecordBatch> {
    let schema = batch.schema();
    let fields = schema.fields().iter().zip(names.fields());
    let fields: Vec<Field> =
        fields.map(|(field, named)| field.as_ref().clone().with_name(named.name())).collect();
    let schema = Schema::new_with_metadata(fields, schema.metadata().clone());
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let named = RecordBatch::try_new_with_options(Arc::new(schema), batch.columns().to_vec(), &rows);
    named.map_err(|error| Error::from(DataFusionError::from(error)))
}

/// The memory limits of a query, which all queries of its session share.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub process: Arc<ProcessMemory>,
    pub pool: Option<Arc<PromisePool>>,
}

/// A query, with all that is needed to run it a second time.
pub(crate) struct Query {
    pub state: SessionState,
    pub logical: LogicalPlan,
    pub limits: Limits,
    /// Where a `COPY` to the local disk writes until it is whole.
    pub staged: Option<StagedCopy>,
}

impl Query {
    /// Plans the query and starts it.
    pub(crate) async fn start(self) -> Result<Answer> {
        let plan = self.state.create_physical_plan(&self.logical).await?;
        let mut stream = execute_stream(Arc::clone(&plan), self.state.task_ctx())?;
        if let Some(analyze) = plan.downcast_ref::<AnalyzeExec>() {
            let estimates = ShownEstimates::of(analyze.input());
            let schema = stream.schema();
            let shown = stream.map(move |batch| estimates.put_into(&batch?));
            stream = Box::pin(RecordBatchStreamAdapter::new(schema, shown));
        }
        let stream = on_own_task(stream);
        let watch = Watch::new(plan);
        let schema = stream.schema();
        let is_plan = matches!(self.logical, LogicalPlan::Explain(_) | LogicalPlan::Analyze(_));
        let run =
            Run { stream: Some(stream), query: self, watch: watch.clone(), answered: false, again: false };
        Ok(Answer { schema, is_plan, watch, batches: futures::stream::unfold(run, Run::step).boxed() })
    }

    /// Whether running it twice does the same as running it once: an `INSERT`, or a `COPY` to a store, that failed may have
    /// left files, and the second run's files have other names.
    fn can_run_again(&self) -> bool {
        match self.logical {
            LogicalPlan::Dml(_) | LogicalPlan::Ddl(_) | LogicalPlan::Analyze(_) => false,
            LogicalPlan::Copy(_) => self.staged.is_some(),
            _ => true,
        }
    }
}

/// A stream that is computed on a task of its own: one call of a function may take long, and whoever waits for it has to see signals
/// and the memory limit meanwhile.
fn on_own_task(mut stream: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let mut builder = RecordBatchReceiverStreamBuilder::new(stream.schema(), 1);
    let batches = builder.tx();
    builder.spawn(async move {
        while let Some(batch) = stream.next().await {
            let is_last = batch.is_err();
            // Nobody listens any more if it cannot be sent.
            if batches.send(batch).await.is_err() || is_last {
                break;
            }
        }
        Ok(())
    });
    builder.build()
}

struct Run {
    /// `None` once the answer has ended, well or badly. Dropped before the query, whose staged folder it writes into.
    stream: Option<SendableRecordBatchStream>,
    query: Query,
    watch: Watch,
    /// Whether rows have been handed out; then a second run would repeat them.
    answered: bool,
    /// Whether this is the second run.
    again: bool,
}

impl Drop for Run {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Run {
    async fn step(mut self) -> Option<(Result<RecordBatch>, Self)> {
        loop {
            match self.next().await? {
                Ok(batch) => {
                    self.answered = true;
                    // A COPY's only row, its count, comes when all is written. The files move into place before the row
                    // is handed out, so that they are there for its reader, and stay if nobody reads on.
                    let moved = match self.query.staged.take() {
                        Some(staged) => staged.commit().await,
                        None => Ok(()),
                    };
                    if moved.is_err() {
                        self.stream = None;
                    }
                    return Some((moved.map(|()| batch), self));
                }
                Err(error) => {
                    self.stop();
                    if error.shortage() == Some(Shortage::Memory) && self.may_run_again() {
                        match self.run_again(&error).await {
                            Ok(()) => continue,
                            Err(error) => return Some((Err(self.explain(error)), self)),
                        }
                    }
                    return Some((Err(self.explain(error)), self));
                }
            }
        }
    }

    async fn next(&mut self) -> Option<Result<RecordBatch>> {
        let stream = self.stream.as_mut()?;
        let process = &self.query.limits.process;
        tokio::select! {
            biased;
            () = process.exceeded(), if process.promise().is_some() => Some(Err(process_full(process))),
            batch = stream.next() => batch.map(|batch| batch.map_err(Error::from)),
        }
    }

    /// Ends the query, and frees what it holds beside its stream: the watch keeps its plan.
    fn stop(&mut self) {
        self.stream = None;
        self.watch.with(|shared| shared_subplan::release(&shared.plan));
    }

    fn may_run_again(&self) -> bool {
        !self.answered && !self.again && self.query.limits.pool.is_some() && self.query.can_run_again()
    }

    /// Plans the query again with operators that can spill, and starts it.
    async fn run_again(&mut self, error: &Error) -> Result<(), Error> {
        self.again = true;
        self.query.limits.process.settle().await;
        if let Some(staged) = &mut self.query.staged {
            staged.start_over(&mut self.query.logical)?;
        }
        let state = fallback_state(&self.query.state);
        let plan = state.create_physical_plan(&self.query.logical).await?;
        self.stream = Some(on_own_task(execute_stream(Arc::clone(&plan), state.task_ctx())?));
        self.watch.with(|shared| {
            shared.plan = plan;
            shared.notices.push(format!("planned again with operators that spill to disk, because {error}"));
        });
        Ok(())
    }

    /// Adds to an out-of-memory error the limit that would be enough.
    fn explain(&self, error: Error) -> Error {
        let (Some(pool), Some(promise)) = (&self.query.limits.pool, self.query.limits.process.promise())
        else {
            return error;
        };
        if error.shortage() != Some(Shortage::Memory) || error.hint().is_some() {
            return error;
        }
        let wanted = pool.enough_for_last_refusal().max(self.query.limits.process.wanted());
        if wanted <= promise {
            return error.with_hint(UNKNOWN_HINT);
        }
        let is_proportional = self.watch.with(|shared| !has_groups(&shared.plan));
        error.with_hint(enough_hint(wanted, self.watch.progress(), is_proportional))
    }
}

/// Advice where nothing is known about what would be enough.
pub(crate) const UNKNOWN_HINT: &str = "a larger --memory is needed; how large is not known";

/// Advice when the process has no room for so many bytes at once.
pub(crate) fn room_hint(process: &ProcessMemory, bytes: usize) -> String {
    format!("{} would have room for that", memory_flag(process.promise_for(bytes.min(BYTES_MAX))))
}

/// More than any machine has.
const BYTES_MAX: usize = 1 << 60;

/// How much more than in proportion to the input an operator may need: vectors and hash tables double when they are full.
const GROWTH: f64 = 2.0;
/// The least share of the input from which it is told what the whole would need.
const SHARE_MIN: f64 = 0.1;

/// Whether a plan has an aggregate with groups. It spills, hands its state on early, and keeps it twice at the end, so that nobody can
/// tell from its beginning what it would need in memory.
fn has_groups(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_grouped = |aggregate: &AggregateExec| !aggregate.group_expr().is_empty();
    plan.downcast_ref::<AggregateExec>().is_some_and(is_grouped)
        || plan.children().into_iter().any(has_groups)
}

/// What to advise when an operator would have needed a promise of `wanted` bytes by then. How much the whole needs is known if it is
/// proportional to the input, all of it in memory.
fn enough_hint(wanted: usize, progress: Progress, is_proportional: bool) -> String {
    let share = progress.input_share.unwrap_or(0.0).min(1.0);
    if share < SHARE_MIN || progress.spilled_bytes > 0 || !is_proportional {
        return format!(
            "with {} it would have gone on; how much all of it takes is not known",
            memory_flag(wanted)
        );
    }
    let flag = memory_flag((wanted as f64 * GROWTH / share) as usize);
    format!(
        "{flag} would be enough, going by the {:.0} % of the input that were read until then",
        share * 100.0
    )
}

/// How a person gives a promise of at least `bytes`, in steps of 64 MiB. It is in whole units: a size for people may be rounded to
/// less.
pub(crate) fn memory_flag(bytes: usize) -> String {
    let mib = (bytes as u64).div_ceil(1 << 20).next_multiple_of(64);
    if mib.is_multiple_of(1024) {
        format!("--memory {}GiB", mib / 1024)
    } else {
        format!("--memory {mib}MiB")
    }
}

pub(crate) fn process_full(process: &ProcessMemory) -> Error {
    let size = |bytes: usize| ByteSize::from_bytes(bytes as u64);
    let promise = process.promise().unwrap_or(usize::MAX);
    Error::new(
        ErrorKind::ResourceExhausted,
        format!(
            "the query was stopped: the process uses {} of the {} it may",
            size(process.sample()),
            size(promise),
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_advised_grows_with_what_was_not_read_yet() {
        const MIB: usize = 1 << 20;
        const UNKNOWN: &str =
            "with --memory 320MiB it would have gone on; how much all of it takes is not known";
        for (input_share, spilled_bytes, hint) in [
            (None, 0, UNKNOWN),
            (Some(0.09), 0, UNKNOWN),
            (
                Some(0.25),
                0,
                "--memory 2560MiB would be enough, going by the 25 % of the input that were read until then",
            ),
            (Some(0.25), 1, UNKNOWN),
            (
                Some(1.0),
                0,
                "--memory 640MiB would be enough, going by the 100 % of the input that were read until then",
            ),
        ] {
            let progress = Progress { input_share, rows_read: 0, spilled_bytes };
            assert_eq!(enough_hint(320 * MIB, progress, true), hint);
            assert_eq!(enough_hint(320 * MIB, progress, false), UNKNOWN);
        }
    }

    #[test]
    fn a_promise_to_try_is_never_less_than_what_is_enough() {
        const MIB: usize = 1 << 20;
        for (bytes, flag) in [
            (128 * MIB, "--memory 128MiB"),
            (128 * MIB + 1, "--memory 192MiB"),
            (1000 * MIB, "--memory 1GiB"),
            (1024 * MIB + 1, "--memory 1088MiB"),
            (1150 * MIB, "--memory 1152MiB"),
            (5 << 30, "--memory 5GiB"),
        ] {
            let given = memory_flag(bytes);
            assert_eq!(given, flag);
            let read: ByteSize = given["--memory ".len()..].parse().unwrap();
            assert!(read.as_usize() >= bytes, "{given} for {bytes}");
        }
    }
}
