//! The rows of one partition that several readers share: one task computes them, and each reader gets all of them.
//!
//! A reader waits for the task only, never for another reader, and the task waits for none of them: a join may drain one reader before it
//! asks another for its first row. So everything is kept, in memory while the pool grants it, and on disk from then on.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::spill_file::SpillFile;
use datafusion::physical_plan::spill::SpillManager;
use futures::{FutureExt, StreamExt};
use tokio::sync::Notify;
use yeoul_base::ErrorKind;

use crate::Error;

/// Bytes of rows in a file. Readers wait until a file is whole.
const FILE_BYTES: usize = 16 << 20;

/// Rows of a partition, and the task that computes them for as long as somebody holds this.
pub(super) struct SharedRows {
    kept: Arc<Kept>,
    _task: SpawnedTask<()>,
}

/// Rows that have been computed so far.
struct Kept {
    state: Mutex<State>,
    /// Told of each change of the state.
    changed: Notify,
    /// Memory of the batches of the state.
    reservation: MemoryReservation,
    spill: SpillManager,
}

#[derive(Default)]
struct State {
    /// Batches in memory; none once there are files.
    batches: Vec<RecordBatch>,
    /// Files with the batches from the first one on.
    files: Vec<File>,
    is_on_disk: bool,
    end: Option<End>,
}

struct File {
    file: Arc<dyn SpillFile>,
    batches: usize,
}

enum End {
    Done,
    Failed(Arc<DataFusionError>),
    /// The payload, for the first reader that asks.
    Panicked(Option<Box<dyn Any + Send>>),
}

/// Number of a partition's readers that are alive.
#[derive(Debug, Default)]
pub(super) struct Audience {
    readers: Mutex<usize>,
    joined: Notify,
}

impl Audience {
    pub(super) fn join(&self) {
        *self.readers() += 1;
        self.joined.notify_waiters();
    }

    /// Counts a reader out; the number of those that are left.
    pub(super) fn leave(&self) -> usize {
        let mut readers = self.readers();
        assert!(*readers > 0, "a reader left twice");
        *readers -= 1;
        *readers
    }

    fn readers(&self) -> MutexGuard<'_, usize> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is a reader.
    async fn wait(&self) {
        loop {
            let joined = self.joined.notified();
            tokio::pin!(joined);
            joined.as_mut().enable();
            if *self.readers() > 0 {
                return;
            }
            joined.await;
        }
    }
}

impl SharedRows {
    /// Starts to compute the rows of `input`. The task pauses while nobody is left in the audience.
    pub(super) fn start(
        input: SendableRecordBatchStream,
        audience: Arc<Audience>,
        reservation: MemoryReservation,
        spill: SpillManager,
    ) -> Self {
        let kept = Arc::new(Kept {
            state: Mutex::new(State::default()),
            changed: Notify::new(),
            reservation,
            spill,
        });
        let computed = Arc::clone(&kept);
        let task = SpawnedTask::spawn(async move {
            let ending = Ending(&computed);
            let work = AssertUnwindSafe(compute(input, &audience, &computed)).catch_unwind().await;
            ending.0.end(match work {
                Ok(Ok(())) => End::Done,
                Ok(Err(error)) => End::Failed(Arc::new(error)),
                Err(panic) => End::Panicked(Some(panic)),
            });
        });
        Self { kept, _task: task }
    }
}

impl fmt::Debug for SharedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedRows")
    }
}

/// Ends what is kept even if its task is stopped, so that no reader waits for ever.
struct Ending<'a>(&'a Kept);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let error = Error::new(ErrorKind::Cancelled, "what computes a shared part of the query was stopped");
        self.0.end(End::Failed(Arc::new(error.into())));
    }
}

async fn compute(mut input: SendableRecordBatchStream, audience: &Audience, kept: &Kept) -> Result<()> {
    let mut disk: Option<Disk> = None;
    loop {
        audience.wait().await;
        let Some(batch) = input.next().await else { break };
        let batch = batch?;
        if batch.num_rows() == 0 {
            continue;
        }
        if let Some(disk) = &mut disk {
            disk.write(&batch, kept)?;
        } else if kept.reservation.try_grow(bytes_of(&batch)).is_ok() {
            kept.with(|state| state.batches.push(batch));
        } else {
            let mut written = Disk::default();
            for earlier in kept.with(State::leave_memory) {
                written.write(&earlier, kept)?;
            }
            kept.reservation.free();
            written.write(&batch, kept)?;
            disk = Some(written);
        }
    }
    disk.map_or(Ok(()), |mut disk| disk.close(kept))
}

/// The file that is written.
#[derive(Default)]
struct Disk {
    file: Option<OpenFile>,
    batches: usize,
    bytes: usize,
}

/// A file that is open, which DataFusion has no public name for.
type OpenFile = Box<dyn FnMut(Step<'_>) -> Result<Stepped> + Send>;

enum Step<'a> {
    Append(&'a RecordBatch),
    Finish,
}

enum Stepped {
    /// Bytes of the batch in memory.
    Appended(usize),
    Finished(Option<Arc<dyn SpillFile>>),
}

fn open(spill: &SpillManager) -> Result<OpenFile> {
    let mut file = spill.create_in_progress_file("a shared subplan")?;
    Ok(Box::new(move |step| match step {
        Step::Append(batch) => file.append_batch(batch).map(Stepped::Appended),
        Step::Finish => file.finish().map(Stepped::Finished),
    }))
}

impl Disk {
    fn write(&mut self, batch: &RecordBatch, kept: &Kept) -> Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(open(&kept.spill)?),
        };
        if let Stepped::Appended(bytes) = file(Step::Append(batch))? {
            self.bytes += bytes;
        }
        self.batches += 1;
        if self.bytes >= FILE_BYTES { self.close(kept) } else { Ok(()) }
    }

    /// Ends the file, and shows it to the readers.
    fn close(&mut self, kept: &Kept) -> Result<()> {
        let written = std::mem::take(self);
        let Some(mut file) = written.file else { return Ok(()) };
        if let Stepped::Finished(Some(file)) = file(Step::Finish)? {
            kept.with(|state| state.files.push(File { file, batches: written.batches }));
        }
        Ok(())
    }
}

impl State {
    /// The batches in memory, which are going to be in files.
    fn leave_memory(&mut self) -> Vec<RecordBatch> {
        self.is_on_disk = true;
        std::mem::take(&mut self.batches)
    }

    /// The batch at a place, or the file that has it and its place there.
    fn at(&self, place: usize) -> Option<Found> {
        if !self.is_on_disk {
            return self.batches.get(place).cloned().map(Found::Batch);
        }
        let mut first = 0;
        for File { file, batches } in &self.files {
            if place < first + batches {
                return Some(Found::File { file: Arc::clone(file), place: place - first });
            }
            first += batches;
        }
        None
    }
}

enum Found {
    Batch(RecordBatch),
    File { file: Arc<dyn SpillFile>, place: usize },
    End(Option<DataFusionError>),
}

impl Kept {
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.state());
        self.changed.notify_waiters();
        changed
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends what is kept, unless it has ended.
    fn end(&self, end: End) {
        self.with(|state| {
            state.end.get_or_insert(end);
        });
    }

    /// Rows at a place, once they are there.
    async fn found(&self, place: usize) -> Found {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(found) = self.found_now(place) {
                return found;
            }
            changed.await;
        }
    }

    fn found_now(&self, place: usize) -> Option<Found> {
        let mut state = self.state();
        if let Some(found) = state.at(place) {
            return Some(found);
        }
        match state.end.as_mut()? {
            End::Done => Some(Found::End(None)),
            End::Failed(error) => Some(Found::End(Some(DataFusionError::Shared(Arc::clone(error))))),
            End::Panicked(payload) => {
                let payload = payload.take();
                drop(state);
                match payload {
                    Some(payload) => resume_unwind(payload),
                    None => {
                        let text = "what computes a shared part of the query panicked";
                        Some(Found::End(Some(Error::new(ErrorKind::Internal, text).into())))
                    }
                }
            }
        }
    }
}

/// A place in shared rows, which goes from their beginning to their end.
pub(super) struct Reader {
    rows: Arc<SharedRows>,
    place: usize,
    file: Option<SendableRecordBatchStream>,
    has_ended: bool,
}

impl Reader {
    pub(super) fn new(rows: Arc<SharedRows>) -> Self {
        Self { rows, place: 0, file: None, has_ended: false }
    }

    /// The next batch; `None` at the end and behind an error.
    pub(super) async fn next(&mut self) -> Option<Result<RecordBatch>> {
        if self.has_ended {
            return None;
        }
        let batch = self.read().await.transpose();
        self.has_ended = !matches!(batch, Some(Ok(_)));
        self.place += 1;
        batch
    }

    async fn read(&mut self) -> Result<Option<RecordBatch>> {
        let kept = &self.rows.kept;
        loop {
            if let Some(file) = &mut self.file {
                if let Some(batch) = file.next().await {
                    return batch.map(Some);
                }
                self.file = None;
            }
            match kept.found(self.place).await {
                Found::Batch(batch) => return Ok(Some(batch)),
                Found::End(None) => return Ok(None),
                Found::End(Some(error)) => return Err(error),
                Found::File { file, place } => {
                    let mut file = kept.spill.read_spill_as_stream(file, None)?;
                    for read in 0..place {
                        if file.next().await.transpose()?.is_none() {
                            let text = format!(
                                "a spilled file has {read} batches, and should have more than {place}"
                            );
                            return Err(Error::new(ErrorKind::Corrupt, text).into());
                        }
                    }
                    self.file = Some(file);
                }
            }
        }
    }
}

/// Bytes that a batch keeps in memory. Slices of one buffer are kept together, and count as what they are of it.
fn bytes_of(batch: &RecordBatch) -> usize {
    let bytes = |column: &dyn Array| match column.data_type() {
        // The views of a slice keep the whole texts.
        DataType::Utf8View | DataType::BinaryView => column.get_array_memory_size(),
        _ => column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size()),
    };
    batch.columns().iter().map(|column| bytes(column.as_ref())).sum()
}

#[cfg(test)]
mod tests {
    //! Goal: each reader gets all rows in order, or the one error, whatever the others do. Method: a source whose steps the test takes one
    //! by one.

    use std::time::Duration;

    use datafusion::arrow::array::Int64Array;
    use datafusion::arrow::datatypes::{Field, Schema};
    use datafusion::common::exec_err;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};
    use datafusion::execution::runtime_env::RuntimeEnv;
    use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use futures::stream;
    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

    use super::*;

    const ROWS: usize = 1000;

    fn batch(first: usize) -> RecordBatch {
        let numbers: Int64Array = (first as i64..(first + ROWS) as i64).map(Some).collect();
        let schema = Schema::new(vec![Field::new("n", DataType::Int64, true)]);
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(numbers)]).unwrap()
    }

    type Source = UnboundedSender<fn() -> Result<RecordBatch>>;

    /// Shared rows in a pool of so many bytes, what they come from, and the readers that are counted.
    fn shared(pool: usize) -> (Arc<SharedRows>, Source, Arc<Audience>) {
        let (source, mut steps) = unbounded_channel::<fn() -> Result<RecordBatch>>();
        let batches =
            stream::poll_fn(move |context| steps.poll_recv(context).map(|step| step.map(|step| step())));
        let schema = batch(0).schema();
        let input = Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), batches));
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(pool));
        let reservation = MemoryConsumer::new("test").with_can_spill(true).register(&pool);
        let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
        let spill = SpillManager::new(Arc::new(RuntimeEnv::default()), metrics, schema);
        let audience = Arc::new(Audience::default());
        audience.join();
        (Arc::new(SharedRows::start(input, Arc::clone(&audience), reservation, spill)), source, audience)
    }

    async fn rest(reader: &mut Reader) -> Vec<i64> {
        let mut numbers = Vec::new();
        while let Some(batch) = reader.next().await {
            let batch = batch.unwrap();
            numbers.extend(batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap().values());
        }
        numbers
    }

    #[tokio::test]
    async fn one_reader_may_end_before_another_begins() {
        for pool in [usize::MAX, 0, 3 * 8 * ROWS] {
            let (rows, source, _audience) = shared(pool);
            let mut first = Reader::new(Arc::clone(&rows));
            // It is within the rows in memory when they go to disk.
            source.send(|| Ok(batch(0))).unwrap();
            source.send(|| Ok(batch(ROWS))).unwrap();
            if pool > 0 {
                assert_eq!(first.next().await.unwrap().unwrap(), batch(0));
            }
            for step in
                [(|| Ok(batch(2 * ROWS))) as fn() -> _, || Ok(batch(3 * ROWS)), || Ok(batch(4 * ROWS))]
            {
                source.send(step).unwrap();
            }
            drop(source);
            let all: Vec<i64> = (0..5 * ROWS as i64).collect();
            let read = if pool > 0 { ROWS } else { 0 };
            assert_eq!(rest(&mut first).await, all[read..], "{pool}");
            drop(first);
            assert_eq!(rest(&mut Reader::new(rows)).await, all, "{pool}");
        }
    }

    #[tokio::test]
    async fn an_error_comes_once_to_each_reader_behind_the_rows_before_it() {
        let (rows, source, _audience) = shared(usize::MAX);
        source.send(|| Ok(batch(0))).unwrap();
        source.send(|| exec_err!("broken")).unwrap();
        for _ in 0..2 {
            let mut reader = Reader::new(Arc::clone(&rows));
            assert!(reader.next().await.unwrap().is_ok());
            let error = reader.next().await.unwrap().unwrap_err();
            assert!(error.to_string().contains("broken"), "{error}");
            assert!(reader.next().await.is_none());
        }
    }

    #[tokio::test]
    async fn a_panic_comes_to_one_reader_and_is_an_error_to_the_others() {
        let (rows, source, _audience) = shared(usize::MAX);
        source.send(|| panic!("broken")).unwrap();
        let mut reader = Reader::new(Arc::clone(&rows));
        let panic = AssertUnwindSafe(reader.next()).catch_unwind().await.unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"broken"));
        let error = Reader::new(rows).next().await.unwrap().unwrap_err();
        assert!(error.to_string().contains("panicked"), "{error}");
    }

    /// The next rows are computed once somebody is there again.
    #[tokio::test]
    async fn nothing_is_computed_for_nobody() {
        let (rows, source, audience) = shared(usize::MAX);
        let mut reader = Reader::new(Arc::clone(&rows));
        source.send(|| Ok(batch(0))).unwrap();
        assert!(reader.next().await.unwrap().is_ok());
        assert_eq!(audience.leave(), 0);
        // What is awaited already comes; what is behind it does not.
        source.send(|| Ok(batch(ROWS))).unwrap();
        assert!(reader.next().await.unwrap().is_ok());
        source.send(|| Ok(batch(2 * ROWS))).unwrap();
        let third = tokio::time::timeout(Duration::from_millis(50), reader.next()).await;
        assert!(third.is_err(), "computed without a reader");
        audience.join();
        assert_eq!(reader.next().await.unwrap().unwrap(), batch(2 * ROWS));
    }

    #[tokio::test]
    async fn a_task_that_is_stopped_leaves_no_reader_waiting() {
        let (rows, _source, _audience) = shared(usize::MAX);
        let kept = Arc::clone(&rows.kept);
        let waiting = tokio::spawn(async move { kept.found(0).await });
        tokio::task::yield_now().await;
        drop(rows);
        assert!(matches!(waiting.await.unwrap(), Found::End(Some(_))));
    }
}
