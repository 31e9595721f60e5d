use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, JoinType, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};
use datafusion::physical_plan::execution_plan::{
    ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, SpillMetrics,
};
use datafusion::physical_plan::spill::SpillManager;
use datafusion::physical_plan::stream::{RecordBatchReceiverStream, RecordBatchStreamAdapter};
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
};
use futures::{StreamExt, stream};
use tokio::sync::mpsc::Sender;
use yeoul_base::ErrorKind;

use super::buckets::{BUCKETS, Bucket, Divider, LEVELS_MAX};
use super::lent_memory::LentMemory;
use crate::Error;

/// Bytes of a hash join's table per build row: a 16 byte entry at a load of 7/8, and 8 bytes of chain.
const TABLE_BYTES_PER_ROW: usize = 27;

/// A build side occupies twice its size for a moment, while DataFusion's join concatenates its batches into one.
const BUILD_COPIES: usize = 2;

/// Output batches that wait between the join and its reader.
const OUTPUT_BATCHES: usize = 2;

/// A hash join whose build side may be larger than memory (Grace hash join, Kitsuregawa et al. 1983).
///
/// Each partition gathers its build side in memory. If that fits, it is joined as DataFusion joins it. If not, both sides
/// are divided on disk by the hash of the join keys into [`BUCKETS`] buckets, which are joined one after the other;
/// a bucket that is still too large is divided again by another hash. Each bucket is joined by DataFusion's
/// [`HashJoinExec`], so every join type and filter means what it means there.
///
/// Unlike `HashJoinExec` it does not keep the order of the probe side.
#[derive(Debug)]
pub(crate) struct GraceHashJoinExec {
    /// The join as planned: the template for the join of each bucket, never executed itself.
    join: HashJoinExec,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl GraceHashJoinExec {
    pub(crate) fn try_new(join: &HashJoinExec) -> Result<Self> {
        let join =
            join.builder().with_partition_mode(PartitionMode::Partitioned).recompute_properties().build()?;
        let mut equivalences = join.properties().eq_properties.clone();
        equivalences.clear_orderings();
        let properties = PlanProperties::new(
            equivalences,
            join.properties().partitioning.clone(),
            EmissionType::Final,
            join.properties().boundedness,
        );
        Ok(Self { join, properties: Arc::new(properties), metrics: ExecutionPlanMetricsSet::new() })
    }
}

impl DisplayAs for GraceHashJoinExec {
    fn fmt_as(&self, display: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Grace")?;
        self.join.fmt_as(display, f)
    }
}

impl ExecutionPlan for GraceHashJoinExec {
    fn name(&self) -> &str {
        "GraceHashJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.join.input_distribution_requirements()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.join.children()
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.join.apply_expressions(visit)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let join = self.join.builder().with_new_children(children)?.recompute_properties().build()?;
        Ok(Arc::new(Self::try_new(&join)?))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let build = self.join.left.execute(partition, Arc::clone(&context))?;
        let probe = self.join.right.execute(partition, Arc::clone(&context))?;
        let schema = self.join.schema();
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let mut output = RecordBatchReceiverStream::builder(Arc::clone(&schema), OUTPUT_BATCHES);
        let joiner = Joiner {
            join: self.join.builder().build()?,
            reservation: MemoryConsumer::new(format!("GraceHashJoin[{partition}]"))
                .with_can_spill(true)
                .register(context.memory_pool()),
            spill: SpillMetrics::new(&self.metrics, partition),
            output: output.tx(),
            context,
        };
        output.spawn(async move { joiner.run(build, probe).await });
        let batches = output.build().inspect(move |batch| {
            if let Ok(batch) = batch {
                metrics.record_output(batch.num_rows());
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// The work of one partition.
struct Joiner {
    join: HashJoinExec,
    context: Arc<TaskContext>,
    reservation: MemoryReservation,
    spill: SpillMetrics,
    output: Sender<Result<RecordBatch>>,
}

/// A side of the join.
#[derive(Clone, Copy)]
enum Side {
    Build,
    Probe,
}

impl Joiner {
    async fn run(self, mut build: SendableRecordBatchStream, probe: SendableRecordBatchStream) -> Result<()> {
        let mut gathered = VecDeque::new();
        while let Some(batch) = build.next().await {
            let batch = batch?;
            let needed = memory_needed(batch.get_array_memory_size(), batch.num_rows());
            gathered.push_back(batch);
            if self.reservation.try_grow(needed).is_err() {
                return self.divide_and_join(gathered, build, probe).await;
            }
        }
        let schema = self.join.left.schema();
        let build = RecordBatchStreamAdapter::new(schema, stream::iter(gathered.into_iter().map(Ok)));
        self.join_in_memory(Box::pin(build), probe).await
    }

    async fn divide_and_join(
        &self,
        mut gathered: VecDeque<RecordBatch>,
        build: SendableRecordBatchStream,
        probe: SendableRecordBatchStream,
    ) -> Result<()> {
        let mut divider = self.divider(Side::Build, 0);
        while let Some(batch) = gathered.pop_front() {
            divider.push(&batch)?;
            // Leaves the batch's memory to the divider, whose rows take less.
            let held = memory_needed(batch.get_array_memory_size(), batch.num_rows());
            self.reservation.shrink(held.min(self.reservation.size()));
        }
        divider.push_all(build).await?;
        let build = divider.finish()?;
        let mut divider = self.divider(Side::Probe, 0);
        divider.push_all(probe).await?;
        let probe = divider.finish()?;
        self.join_buckets(build, probe).await
    }

    /// Joins the buckets of the first division, and divides again those that are too large.
    async fn join_buckets(&self, build: Vec<Option<Bucket>>, probe: Vec<Option<Bucket>>) -> Result<()> {
        let mut todo: Vec<(usize, Option<Bucket>, Option<Bucket>)> =
            build.into_iter().zip(probe).rev().map(|(build, probe)| (1, build, probe)).collect();
        while let Some((level, build, probe)) = todo.pop() {
            if !self.may_answer(build.is_some(), probe.is_some()) {
                continue;
            }
            let (rows, bytes) = build.as_ref().map_or((0, 0), |bucket| (bucket.rows, bucket.bytes));
            let needed = memory_needed(bytes, rows);
            if let Err(refused) = self.reservation.try_grow(needed) {
                if level >= LEVELS_MAX {
                    let limit = self.context.memory_pool().memory_limit();
                    return Err(undivided(rows, needed, &limit, refused));
                }
                let parts = self.divide_again(Side::Build, level, build).await?;
                let others = self.divide_again(Side::Probe, level, probe).await?;
                todo.extend(
                    parts.into_iter().zip(others).rev().map(|(build, probe)| (level + 1, build, probe)),
                );
                continue;
            }
            let build = self.rows(Side::Build, build);
            let probe = self.rows(Side::Probe, probe);
            self.join_in_memory(build, probe).await?;
        }
        Ok(())
    }

    async fn divide_again(
        &self,
        side: Side,
        level: usize,
        bucket: Option<Bucket>,
    ) -> Result<Vec<Option<Bucket>>> {
        let Some(bucket) = bucket else { return Ok((0..BUCKETS).map(|_| None).collect()) };
        let mut divider = self.divider(side, level);
        divider.push_all(bucket.stream).await?;
        divider.finish()
    }

    /// Whether a bucket can produce output, given which sides have rows.
    fn may_answer(&self, build: bool, probe: bool) -> bool {
        match self.join.join_type {
            JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi => build && probe,
            JoinType::Left | JoinType::LeftAnti | JoinType::LeftMark => build,
            JoinType::Right | JoinType::RightAnti | JoinType::RightMark => probe,
            JoinType::Full => build || probe,
        }
    }

    /// Joins a build side that fits, in the memory that was reserved for it.
    async fn join_in_memory(
        &self,
        build: SendableRecordBatchStream,
        probe: SendableRecordBatchStream,
    ) -> Result<()> {
        let join = self
            .join
            .builder()
            .with_new_children(vec![once(build)?, once(probe)?])?
            .with_partition_mode(PartitionMode::CollectLeft)
            .reset_state()
            .recompute_properties()
            .build()?;
        let lent = LentMemory::new(self.reservation.split(self.reservation.size()), &self.context);
        let mut rows = join.execute(0, lent.within(&self.context))?;
        while let Some(batch) = rows.next().await {
            // The build side is one batch now.
            lent.give_back();
            if self.output.send(batch).await.is_err() {
                // The reader has gone, as under a LIMIT that is met.
                return Ok(());
            }
        }
        Ok(())
    }

    fn rows(&self, side: Side, bucket: Option<Bucket>) -> SendableRecordBatchStream {
        match bucket {
            Some(bucket) => bucket.stream,
            None => Box::pin(RecordBatchStreamAdapter::new(self.schema(side), stream::empty())),
        }
    }

    fn divider(&self, side: Side, level: usize) -> Divider {
        let keys = self.join.on.iter().map(|(build, probe)| match side {
            Side::Build => Arc::clone(build),
            Side::Probe => Arc::clone(probe),
        });
        let config = self.context.session_config();
        let spill = SpillManager::new(self.context.runtime_env(), self.spill.clone(), self.schema(side))
            .with_compression_type(config.spill_compression());
        Divider::new(
            keys.collect::<Vec<PhysicalExprRef>>(),
            self.join.null_equality,
            level,
            spill,
            config.options().execution.max_spill_file_size_bytes.get(),
            self.reservation.new_empty(),
        )
    }

    fn schema(&self, side: Side) -> SchemaRef {
        match side {
            Side::Build => self.join.left.schema(),
            Side::Probe => self.join.right.schema(),
        }
    }
}

fn memory_needed(bytes: usize, rows: usize) -> usize {
    bytes * BUILD_COPIES + rows * TABLE_BYTES_PER_ROW
}

/// The error for a bucket that no division makes smaller, of rows that need this much memory.
fn undivided(rows: usize, needed: usize, limit: &MemoryLimit, refused: DataFusionError) -> DataFusionError {
    let why = match limit {
        MemoryLimit::Finite(all) if needed <= *all => {
            "do not fit into memory beside what else the query holds"
        }
        _ => "have the same key and do not fit into memory together",
    };
    Error::new(ErrorKind::ResourceExhausted, format!("{rows} rows of a join's smaller side {why}: {refused}"))
        .with_source(refused)
        .into()
}

/// An operator that yields an existing stream, once.
fn once(stream: SendableRecordBatchStream) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = stream.schema();
    let partition = Arc::new(Once { schema: Arc::clone(&schema), stream: Mutex::new(Some(stream)) });
    Ok(Arc::new(StreamingTableExec::try_new(schema, vec![partition], None, None, false, None)?))
}

struct Once {
    schema: SchemaRef,
    stream: Mutex<Option<SendableRecordBatchStream>>,
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Once")
    }
}

impl PartitionStream for Once {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner).take();
        stream.unwrap_or_else(|| {
            let error = Error::new(ErrorKind::Internal, "a stream was read twice");
            Box::pin(RecordBatchStreamAdapter::new(
                Arc::clone(&self.schema),
                stream::iter([Err(error.into())]),
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    //! Goal: whether or not it fits into memory, a join gives the rows of DataFusion's own hash join. Method: every
    //! join type, with nulls and duplicates, in a pool so small that both sides are divided twice.

    use std::sync::atomic::{AtomicUsize, Ordering};

    use datafusion::arrow::array::{Int64Array, StringArray};
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::arrow::util::pretty::pretty_format_batches;
    use datafusion::common::NullEquality;
    use datafusion::datasource::memory::MemorySourceConfig;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::physical_expr::expressions::Column;
    use datafusion::physical_plan::collect;
    use datafusion::prelude::{SessionConfig, SessionContext};

    use super::*;

    const ROWS: i64 = 20_000;
    const TYPES: [JoinType; 10] = [
        JoinType::Inner,
        JoinType::Left,
        JoinType::Right,
        JoinType::Full,
        JoinType::LeftSemi,
        JoinType::RightSemi,
        JoinType::LeftAnti,
        JoinType::RightAnti,
        JoinType::LeftMark,
        JoinType::RightMark,
    ];

    /// Rows with keys from `key`, a null every 97 rows, and a text that is unique to the row.
    fn table(name: &str, key: impl Fn(i64) -> i64) -> Arc<dyn ExecutionPlan> {
        table_with_nulls(name, |row| (row % 97 != 0).then(|| key(row)))
    }

    fn table_with_nulls(name: &str, key: impl Fn(i64) -> Option<i64>) -> Arc<dyn ExecutionPlan> {
        let schema = Arc::new(Schema::new(vec![
            Field::new(format!("{name}_key"), DataType::Int64, true),
            Field::new(format!("{name}_text"), DataType::Utf8, false),
        ]));
        let batches: Vec<RecordBatch> = (0..ROWS)
            .step_by(1000)
            .map(|start| {
                let rows = start..start + 1000;
                let keys: Int64Array = rows.clone().map(&key).collect();
                let texts: StringArray = rows.map(|row| Some(format!("{name} number {row}"))).collect();
                RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(keys), Arc::new(texts)]).unwrap()
            })
            .collect();
        MemorySourceConfig::try_new_exec(&[batches], schema, None).unwrap()
    }

    fn join(
        join_type: JoinType,
        build: Arc<dyn ExecutionPlan>,
        probe: Arc<dyn ExecutionPlan>,
    ) -> HashJoinExec {
        let keys: (PhysicalExprRef, PhysicalExprRef) =
            (Arc::new(Column::new("build_key", 0)), Arc::new(Column::new("probe_key", 0)));
        let mode = PartitionMode::CollectLeft;
        let nulls = NullEquality::NullEqualsNothing;
        HashJoinExec::try_new(build, probe, vec![keys], None, &join_type, None, mode, nulls, false).unwrap()
    }

    async fn rows(plan: Arc<dyn ExecutionPlan>, pool_bytes: usize) -> Result<Vec<String>> {
        rows_within(plan, Arc::new(GreedyMemoryPool::new(pool_bytes))).await
    }

    async fn rows_within(plan: Arc<dyn ExecutionPlan>, pool: Arc<dyn MemoryPool>) -> Result<Vec<String>> {
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().unwrap();
        let config = SessionConfig::new().with_target_partitions(1);
        let context = SessionContext::new_with_config_rt(config, runtime).task_ctx();
        let batches = collect(plan, context).await?;
        let text = pretty_format_batches(&batches)?.to_string();
        let mut lines: Vec<String> =
            text.lines().filter(|line| line.starts_with("| ")).map(str::to_owned).collect();
        // The columns' widths differ with the batches.
        lines.iter_mut().for_each(|line| *line = line.split_whitespace().collect::<Vec<_>>().join(" "));
        lines.sort();
        Ok(lines)
    }

    #[tokio::test]
    async fn every_join_type_answers_as_the_stock_join_whether_it_spills_or_not() {
        for join_type in TYPES {
            let build = table("build", |row| row * 7 % 15_000);
            let probe = table("probe", |row| row * 11 % 19_000);
            let stock = join(join_type, build, probe);
            let expected = rows(Arc::new(stock.builder().build().unwrap()), 1 << 30).await.unwrap();
            assert!(expected.len() > 100, "{join_type}: {} rows prove little", expected.len());
            // 20,000 build rows need about 3 MB: there is room for all of it, a sixteenth, less than a sixteenth.
            for (pool_bytes, spills) in [(1 << 30, false), (1 << 20, true), (128 << 10, true)] {
                let grace = Arc::new(GraceHashJoinExec::try_new(&stock).unwrap());
                let found = rows(Arc::clone(&grace) as _, pool_bytes).await.unwrap();
                assert!(
                    found == expected,
                    "{join_type} in {pool_bytes} bytes: {} and {}",
                    found.len(),
                    expected.len()
                );
                let spilled = grace.metrics().and_then(|metrics| metrics.spilled_bytes()).unwrap_or(0);
                assert_eq!(spilled > 0, spills, "{join_type} in {pool_bytes} bytes spilled {spilled}");
            }
        }
    }

    #[tokio::test]
    async fn rows_without_a_key_are_divided_though_they_are_nine_of_ten() {
        for join_type in TYPES {
            let build = table_with_nulls("build", |row| (row % 10 == 0).then_some(row * 7 % 15_000));
            let probe = table("probe", |row| row * 11 % 19_000);
            let stock = join(join_type, build, probe);
            let expected = rows(Arc::new(stock.builder().build().unwrap()), 1 << 30).await.unwrap();
            assert!(expected.len() > 100, "{join_type}: {} rows prove little", expected.len());
            // 18,000 rows whose key is null need some 2.7 MB.
            let grace = Arc::new(GraceHashJoinExec::try_new(&stock).unwrap());
            let found = rows(grace, 512 << 10).await.unwrap();
            assert!(found == expected, "{join_type}: {} and {}", found.len(), expected.len());
        }
    }

    /// A pool in which, when this join gives back all that it has, somebody takes whatever there is until it asks again.
    #[derive(Debug)]
    struct Contested {
        pool: GreedyMemoryPool,
        bytes: usize,
        taken: AtomicUsize,
    }

    impl fmt::Display for Contested {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.pool.fmt(f)
        }
    }

    impl MemoryPool for Contested {
        fn name(&self) -> &str {
            "contested"
        }

        fn grow(&self, reservation: &MemoryReservation, additional: usize) {
            self.pool.grow(reservation, additional);
        }

        fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
            self.pool.shrink(reservation, shrink);
            if is_ours(reservation) && reservation.size() == 0 {
                let all = self.bytes - self.pool.reserved();
                self.pool.grow(reservation, all);
                self.taken.fetch_add(all, Ordering::Relaxed);
            }
        }

        fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
            if is_ours(reservation) {
                self.pool.shrink(reservation, self.taken.swap(0, Ordering::Relaxed));
            }
            self.pool.try_grow(reservation, additional)
        }

        fn reserved(&self) -> usize {
            self.pool.reserved()
        }
    }

    fn is_ours(reservation: &MemoryReservation) -> bool {
        reservation.consumer().name().starts_with("GraceHashJoin")
    }

    #[tokio::test]
    async fn nobody_takes_what_was_reserved_before_the_rows_are_joined_in_it() {
        let stock = join(JoinType::Inner, table("build", |row| row), table("probe", |row| row));
        let expected = rows(Arc::new(stock.builder().build().unwrap()), 1 << 30).await.unwrap();
        for bytes in [8 << 20, 1 << 20] {
            let pool = Contested { pool: GreedyMemoryPool::new(bytes), bytes, taken: AtomicUsize::new(0) };
            let (grace, pool) = (Arc::new(GraceHashJoinExec::try_new(&stock).unwrap()), Arc::new(pool));
            let found = rows_within(grace, Arc::clone(&pool) as _).await.unwrap();
            assert!(found == expected, "in {bytes} bytes: {} and {}", found.len(), expected.len());
            assert!(pool.taken.load(Ordering::Relaxed) > 0, "nobody took anything");
            assert_eq!(pool.reserved(), pool.taken.load(Ordering::Relaxed), "something is not given back");
        }
    }

    #[tokio::test]
    async fn a_key_that_no_division_divides_is_a_typed_error() {
        let stock = join(JoinType::Inner, table("build", |_| 1), table("probe", |row| row + 2));
        let grace = Arc::new(GraceHashJoinExec::try_new(&stock).unwrap());
        let error = Error::from(rows(grace, 256 << 10).await.unwrap_err());
        assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error}");
        assert!(error.to_string().contains("have the same key"), "{error}");
        // Rows that would fit by themselves are not to blame.
        let refused = DataFusionError::ResourcesExhausted("all is taken".to_owned());
        let error = Error::from(undivided(2, 100, &MemoryLimit::Finite(1000), refused));
        assert!(error.to_string().contains("beside what else the query holds"), "{error}");
    }
}
