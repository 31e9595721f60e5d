mod stages;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::{DynamicFileCatalog, MemoryCatalogProviderList, SchemaProvider, UrlTableFactory};
use datafusion::common::TableReference;
use datafusion::common::runtime::SpawnedTask;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::json::JsonFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::cache::cache_manager::{
    CacheManagerConfig, DEFAULT_METADATA_CACHE_LIMIT, FileMetadataCache,
};
use datafusion::execution::cache::default_cache::DefaultCache;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::SessionContext;
use tracing::debug;
use yeoul_base::{ByteSize, ErrorKind, raise_file_limit};
use yeoul_dialect::functions::DEFINITIONS;
use yeoul_dialect::{Dialect, suggest, type_name};
use yeoul_memory::ProcessMemory;

use crate::answer::{Answer, Limits, UNKNOWN_HINT};
use crate::catalog::arrow_file::ArrowFiles;
use crate::catalog::files::FileTables;
use crate::catalog::own_format::OwnFormatFactory;
use crate::catalog::stores::Stores;
use crate::distributed::{Elsewhere, Planner, Workplace};
use crate::memory::growing_state::GrowingState;
use crate::memory::measured_concat::MeasuredConcats;
use crate::memory::measured_function;
use crate::memory::policy::{Bounds, Ledger};
use crate::memory::pool::PromisePool;
use crate::memory::spill_dir::SpillDir;
use crate::optimizer::{PHYSICAL, PLANNING, with_shared_subplans};
use crate::settings::{for_stages, session_config};
use crate::{Error, Options, Result};

/// One person's or program's engine: its tables, settings and limits. Cheap to share behind an `Arc`.
pub struct Session {
    options: Options,
    context: SessionContext,
    files: Arc<FileTables>,
    limits: Limits,
    /// Runner of its queries, if that is not this process.
    elsewhere: Option<Arc<dyn Elsewhere>>,
    /// Holds what operators spill; removed with the session, and not with the last statement that is left behind.
    spill_dir: Option<SpillDir>,
}

/// The memory that a session and its process hold, for people: the shell's `.memory`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryReport {
    /// The promise about the process, if there is one.
    pub promise: Option<ByteSize>,
    /// The process's resident set size now.
    pub resident: ByteSize,
    /// The largest resident set size that was seen.
    pub resident_peak: ByteSize,
    /// What operators have reserved now, the most they had, and the most they may: under a limit only.
    pub reserved: Option<(ByteSize, ByteSize, ByteSize)>,
    /// What lies spilled on disk now, and the most that may.
    pub spilled: (ByteSize, ByteSize),
}

/// The most names of tables in a list.
const TABLES_MAX: usize = 10_000;

impl Session {
    /// Starts a session.
    ///
    /// # Errors
    /// `Invalid` for options that cannot be kept (a memory limit below [`Options::MEMORY_MIN`], unknown settings),
    /// `NotFound` or `Denied` for the spill directory.
    pub fn new(options: Options) -> Result<Self> {
        let process = watched(&options)?;
        Self::in_process(options, process, None)
    }

    /// Starts a session whose queries run elsewhere. `options` are those of this process.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn with_queries(options: Options, elsewhere: Arc<dyn Elsewhere>) -> Result<Self> {
        let process = watched(&options)?;
        Self::in_process(options, process, Some(elsewhere))
    }

    /// Place of this process in which stages of others' queries run.
    pub fn workplace(&self) -> Workplace {
        Workplace::new(self.context.state(), Arc::clone(&self.limits.process))
    }

    /// The jobs of the place where its queries run, a row each.
    ///
    /// # Errors
    /// `Invalid` if that is this process; `Unavailable` if nobody there tells.
    pub async fn jobs(&self) -> Result<RecordBatch> {
        match &self.elsewhere {
            Some(elsewhere) => elsewhere.jobs().await,
            None => {
                let error = Error::new(ErrorKind::Invalid, "queries run in this process, and no others do");
                Err(error.with_hint("--cluster runs them on a cluster, whose jobs these are"))
            }
        }
    }

    /// The same session for a task that may outlive it.
    fn for_task(&self) -> Self {
        Self {
            options: self.options.clone(),
            context: self.context.clone(),
            files: Arc::clone(&self.files),
            limits: self.limits.clone(),
            elsewhere: self.elsewhere.clone(),
            spill_dir: None,
        }
    }

    /// Starts a session in a process that is watched.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub(crate) fn in_process(
        options: Options,
        process: Arc<ProcessMemory>,
        elsewhere: Option<Arc<dyn Elsewhere>>,
    ) -> Result<Self> {
        options.check()?;
        if let Err(error) = raise_file_limit() {
            // A join that spills has a file for each bucket of each partition open.
            debug!(%error, "the limit of open files stays as it is");
        }
        let pool = options.memory.map(|promise| {
            let ledger = Ledger::new(Bounds::for_promise(promise.as_usize()));
            Arc::new(PromisePool::new(ledger, Arc::clone(&process)))
        });
        let spill_parent = options.spill_dir.clone().unwrap_or_else(std::env::temp_dir);
        let spill_dir = SpillDir::create(&spill_parent)?;
        let runtime = runtime_env(&options, &spill_dir, pool.clone())?;
        let (context, files) = context(&options, runtime, &process, elsewhere.clone())?;
        let limits = Limits { process, pool };
        Ok(Self { options, context, files, limits, elsewhere, spill_dir: Some(spill_dir) })
    }

    /// Runs one statement; its rows come from the answer.
    ///
    /// # Errors
    /// With the place in `sql` where one is known: `Invalid` for what is no SQL, `NotFound` for what it names and is not
    /// there, and whatever planning the query found.
    pub async fn sql(&self, sql: &str) -> Result<Answer> {
        let process = &self.limits.process;
        if process.is_exceeded() {
            // A query was stopped a moment ago: what it held is on its way back to the system.
            process.settle().await;
        }
        let keeps_rows = Arc::new(AtomicBool::new(false));
        // Planning computes constants and does not yield. On a task of its own it can be left behind by those who wait for it.
        let (session, text, keeps) = (self.for_task(), sql.to_owned(), Arc::clone(&keeps_rows));
        let start = SpawnedTask::spawn(async move { session.start(&text, &keeps).await }).join_unwind();
        tokio::select! {
            biased;
            () = process.exceeded(), if process.promise().is_some() => {
                Err(self.stopped_before_its_answer(keeps_rows.load(Ordering::Relaxed)))
            }
            answer = start => {
                let answer = answer.map_err(|stopped| {
                    Error::new(ErrorKind::Cancelled, "the statement was stopped").with_source(stopped)
                })?;
                answer.map_err(|error| self.with_near_table(error))
            }
        }
    }

    /// The error of a statement that reached the memory limit before it answered. Most are still planned then; a
    /// `CREATE TABLE … AS`, `DELETE` or `UPDATE` does its work then, and `keeps_rows` in memory.
    fn stopped_before_its_answer(&self, keeps_rows: bool) -> Error {
        let error = |text: &str| Error::new(ErrorKind::ResourceExhausted, text);
        if keeps_rows {
            return error("the statement was stopped: the process reached its memory limit").with_hint(
                "a table that CREATE TABLE … AS makes is kept in memory; COPY (…) TO 'file.parquet' writes a file",
            );
        }
        error("the statement was stopped while it was planned: the process reached its memory limit")
            .with_hint(UNKNOWN_HINT)
    }

    /// The schema in which a table of this name is, or would be, and its name there.
    fn schema_of(&self, name: &TableReference) -> Option<(Arc<dyn SchemaProvider>, Arc<str>)> {
        let catalog = self.context.state().config_options().catalog.clone();
        let name = name.clone().resolve(&catalog.default_catalog, &catalog.default_schema);
        let schema = self.context.catalog(&name.catalog)?.schema(&name.schema)?;
        Some((schema, name.table))
    }

    /// The names of the tables and views that were made in this session, in order.
    pub fn tables(&self) -> Vec<String> {
        let schema = self.schema_of(&TableReference::bare("any"));
        let mut names = schema.map(|(schema, _)| schema.table_names()).unwrap_or_default();
        names.sort();
        names.truncate(TABLES_MAX);
        names
    }

    /// The columns of a table or file with their types as SQL writes them.
    ///
    /// # Errors
    /// `NotFound` when there is no such table or file.
    pub async fn columns(&self, table: &str) -> Result<Vec<(String, String)>> {
        let provider = self.context.table_provider(TableReference::bare(table)).await;
        let schema = provider.map_err(|error| self.with_near_table(error.into()))?.schema();
        Ok(schema.fields().iter().map(|field| (field.name().clone(), type_name(field.data_type()))).collect())
    }

    /// The names of all functions, in order.
    pub fn functions(&self) -> Vec<String> {
        let state = self.context.state();
        let mut names: Vec<String> = state.scalar_functions().keys().cloned().collect();
        names.extend(state.aggregate_functions().keys().cloned());
        names.extend(state.window_functions().keys().cloned());
        names.extend(state.table_functions().keys().cloned());
        names.extend(DEFINITIONS.iter().map(|definition| definition.name.to_owned()));
        names.sort();
        names.dedup();
        names
    }

    /// The memory that the session and the process hold now.
    pub fn memory(&self) -> MemoryReport {
        let size = |bytes: usize| ByteSize::from_bytes(bytes as u64);
        let process = &self.limits.process;
        let disk = &self.context.runtime_env().disk_manager;
        MemoryReport {
            promise: self.options.memory,
            resident: size(process.sample()),
            resident_peak: size(process.peak()),
            reserved: self.limits.pool.as_ref().map(|pool| {
                let ledger = pool.ledger();
                (size(ledger.total()), size(ledger.peak()), size(ledger.capacity()))
            }),
            spilled: (ByteSize::from_bytes(disk.used_disk_space()), self.options.spill_limit),
        }
    }

    /// A notice for the person before the first statement, if there is something: that spilled data stays in memory, which
    /// the promise does not count.
    pub fn notice(&self) -> Option<String> {
        let parent = self.options.memory.and_then(|_| self.spill_dir.as_ref()?.parent_in_memory())?;
        Some(format!(
            "spilled data stays in memory, beyond --memory, because {} is on a tmpfs; name a directory on a disk with --spill-dir",
            parent.display()
        ))
    }

    /// Has `end` called, once, if the process passes its promise by a tenth: if what runs does not react, the process has to end.
    pub fn on_promise_broken(&self, end: impl FnOnce(Error) + Send + 'static) {
        self.limits.process.on_broken(move |resident| {
            let size = ByteSize::from_bytes(resident as u64);
            let what = format!("the process uses {size}, more than it may, and the statement does not react");
            end(Error::new(ErrorKind::ResourceExhausted, what).with_hint(UNKNOWN_HINT));
        });
    }

    /// The options that the session was started with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Adds the near name to an error about a table that is not there.
    fn with_near_table(&self, error: Error) -> Error {
        let Some(name) = missing_table(&error.to_string()) else { return error };
        let span = error.span();
        let tables = self.tables();
        let hint = match suggest::nearest(&name, &tables) {
            Some(near) => format!("did you mean '{near}'?"),
            None if Path::new(&name).is_file() => format!(
                "its ending does not say what the file is: FROM read_csv('{name}'), read_json or read_parquet"
            ),
            None if tables.is_empty() => "a file is a table too: FROM 'file.parquet'".to_owned(),
            None => format!(
                "the tables are {}; a file is a table too: FROM 'file.parquet'",
                suggest::list(&tables)
            ),
        };
        Error::new(ErrorKind::NotFound, format!("there is no table '{name}'"))
            .with_hint(hint)
            .with_span(span)
            .with_source(error)
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The name in DataFusion's "table 'datafusion.public.x' not found" and "No table named 'x'".
fn missing_table(message: &str) -> Option<String> {
    let quoted = message
        .strip_prefix("table '")
        .and_then(|rest| rest.strip_suffix("' not found"))
        .or_else(|| message.strip_prefix("no table named '").and_then(|rest| rest.strip_suffix('\'')))?;
    Some(quoted.strip_prefix("datafusion.public.").unwrap_or(quoted).to_owned())
}

fn watched(options: &Options) -> Result<Arc<ProcessMemory>> {
    ProcessMemory::watch(options.memory.map(ByteSize::as_usize)).map_err(|source| {
        Error::new(ErrorKind::Unavailable, "cannot watch the memory in use").with_source(source)
    })
}

fn runtime_env(
    options: &Options,
    spill_dir: &SpillDir,
    pool: Option<Arc<PromisePool>>,
) -> Result<Arc<RuntimeEnv>> {
    let disk = DiskManagerBuilder::default()
        .with_mode(DiskManagerMode::Directories(vec![spill_dir.path()]))
        .with_max_temp_directory_size(options.spill_limit.as_u64());
    let footers: Arc<FileMetadataCache> = Arc::new(DefaultCache::new(DEFAULT_METADATA_CACHE_LIMIT));
    let caches = CacheManagerConfig::default()
        .with_file_metadata_cache(Some(Arc::clone(&footers)))
        // What was listed once is not what is there now, and DataFusion finds a list by its path alone, whatever the store.
        .with_list_files_cache_limit(0);
    let builder = RuntimeEnvBuilder::new()
        .with_disk_manager_builder(disk)
        .with_cache_manager(caches)
        .with_object_store_registry(Arc::new(Stores::new(footers)));
    let builder = match pool {
        Some(pool) => builder.with_memory_pool(pool),
        None => builder,
    };
    Ok(builder.build_arc()?)
}

fn context(
    options: &Options,
    runtime: Arc<RuntimeEnv>,
    process: &Arc<ProcessMemory>,
    elsewhere: Option<Arc<dyn Elsewhere>>,
) -> Result<(SessionContext, Arc<FileTables>)> {
    let files = Arc::new(FileTables::default());
    let catalogs = DynamicFileCatalog::new(
        Arc::new(MemoryCatalogProviderList::new()),
        Arc::clone(&files) as Arc<dyn UrlTableFactory>,
    );
    let mut config = session_config(options)?;
    if elsewhere.is_some() {
        for_stages(&mut config);
    }
    let builder = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_catalog_list(Arc::new(catalogs))
        .with_default_features();
    let is_here = elsewhere.is_none();
    let dialect = Dialect::OWN;
    let mut state = match elsewhere {
        // The other rules for speed and memory are those of the processes that run stages.
        Some(elsewhere) => {
            let planner = Arc::new(Planner(elsewhere));
            dialect.session_state(builder.with_query_planner(planner), &PLANNING)?
        }
        None => with_shared_subplans(dialect.session_state(builder, &[&PLANNING[..], &PHYSICAL].concat())?)?,
    };
    if options.memory.is_some() && is_here {
        GrowingState::register(&mut state, process)?;
        measured_function::register(&mut state, process)?;
    }
    state.register_file_format(Arc::new(ArrowFiles), true)?;
    state.register_file_format(Arc::new(OwnFormatFactory::<CsvFormat>::new()), true)?;
    state.register_file_format(Arc::new(OwnFormatFactory::<JsonFormat>::new()), true)?;
    state.register_file_format(Arc::new(OwnFormatFactory::<ParquetFormat>::new()), true)?;
    let context = SessionContext::new_with_state(state);
    if options.memory.is_some() && is_here {
        context.add_optimizer_rule(Arc::new(MeasuredConcats::new(process)));
    }
    files.serve(&context);
    Ok((context, files))
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};
    use std::time::Duration;

    use datafusion::arrow::datatypes::DataType;
    use datafusion::common::ScalarValue;
    use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};

    use super::*;

    #[test]
    fn what_is_said_of_a_stopped_statement_is_about_that_statement() {
        let options = Options { memory: Some(Options::MEMORY_MIN), ..Options::default() };
        let runtime = crate::runtime(&options).unwrap();
        let _inside = runtime.enter();
        let mut session = Session::new(options).unwrap();
        // Any process is larger.
        session.limits.process = ProcessMemory::watch(Some(1 << 20)).unwrap();
        let error = runtime.block_on(session.sql("SELECT 1")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResourceExhausted);
        assert!(error.to_string().contains("while it was planned"), "{error}");
        assert_eq!(error.hint(), Some(UNKNOWN_HINT));
        let error = session.stopped_before_its_answer(true);
        assert!(error.hint().is_some_and(|hint| hint.contains("CREATE TABLE")), "{error}");
    }

    /// Whoever waits for a statement can leave it while one call of a function is running: a constant, while it is planned, and a row's.
    #[test]
    fn a_statement_can_be_left_within_a_call_of_a_function() {
        for volatility in [Volatility::Immutable, Volatility::Volatile] {
            let options = Options { threads: Some(2), ..Options::default() };
            let runtime = crate::runtime(&options).unwrap();
            let _inside = runtime.enter();
            let session = Session::new(options).unwrap();
            let (begin, mut begun) = tokio::sync::mpsc::unbounded_channel();
            let (release, released) = mpsc::channel::<()>();
            let released = Mutex::new(released);
            let (end, ended) = mpsc::channel();
            let call = move |_: &[ColumnarValue]| {
                let _ = begin.send(());
                // It ends by itself only if whoever should leave it waits for it.
                let was_left = released.lock().unwrap().recv_timeout(Duration::from_secs(30)).is_ok();
                let _ = end.send(was_left);
                Ok(ColumnarValue::Scalar(ScalarValue::Int64(Some(1))))
            };
            session.context.register_udf(create_udf(
                "wait_here",
                Vec::new(),
                DataType::Int64,
                volatility,
                Arc::new(call),
            ));
            runtime.block_on(async {
                let answer = async { session.sql("SELECT wait_here()").await?.collect().await };
                tokio::select! {
                    answer = answer => panic!("it was not left: {answer:?}"),
                    _ = begun.recv() => {}
                }
            });
            release.send(()).unwrap();
            assert!(ended.recv().unwrap(), "{volatility:?}: it was waited for");
        }
    }
}
