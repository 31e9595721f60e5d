//! The bench of a test: a session of its own, a folder for its files, and what it asks.

use std::fs;
use std::path::Path;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches;
use tempfile::TempDir;
use yeoul_base::ByteSize;
use yeoul_memory::{ProcessMemory, Resident};

use crate::{Error, Options, Session};

/// The size of a process with no other test in it: what they use at the same time is not what a session's limit is about.
#[derive(Debug)]
struct Alone;

impl Resident for Alone {
    fn bytes(&self) -> Option<u64> {
        Some(64 << 20)
    }
}

/// A session, and a folder for its files.
pub(super) struct Bench {
    pub(super) session: Session,
    folder: TempDir,
    pub(super) runtime: tokio::runtime::Runtime,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::with(Options { threads: Some(2), ..Options::default() })
    }

    pub(super) fn with(options: Options) -> Self {
        let runtime = crate::runtime(&options).unwrap();
        let _inside = runtime.enter();
        let promise = options.memory.map(ByteSize::as_usize);
        let process = ProcessMemory::watch_by(promise, Some(Box::new(Alone))).unwrap();
        let session = Session::in_process(options, process, None).unwrap();
        Self { session, folder: tempfile::tempdir().unwrap(), runtime }
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The rows of a statement in which `~` stands for the folder.
    pub(super) fn batches(&self, sql: &str) -> Result<Vec<RecordBatch>, Error> {
        let sql = sql.replace('~', &self.path().to_string_lossy());
        self.runtime.block_on(async { self.session.sql(&sql).await?.collect().await })
    }

    /// The answer of a statement, drawn as a table.
    pub(super) fn try_sql(&self, sql: &str) -> Result<String, Error> {
        Ok(pretty_format_batches(&self.batches(sql)?).unwrap().to_string())
    }

    pub(super) fn sql(&self, sql: &str) -> String {
        self.try_sql(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// The sorted rows of a statement, or its error.
    pub(super) fn sorted_rows(&self, sql: &str) -> Result<Vec<String>, String> {
        let table = self.try_sql(sql).map_err(|error| error.to_string())?;
        let mut rows: Vec<String> = table.lines().map(str::to_owned).collect();
        rows.sort();
        Ok(rows)
    }

    /// The sorted rows of a statement, or its error, and its plan, with a setting on or off.
    pub(super) fn answered_with(
        &self,
        setting: &str,
        is_on: bool,
        sql: &str,
    ) -> (Result<Vec<String>, String>, String) {
        self.sql(&format!("SET {setting} = {is_on}"));
        let plan = self.sql(&format!("EXPLAIN {sql}"));
        (self.sorted_rows(sql), plan)
    }

    /// The notices of a statement that is read to its end.
    pub(super) fn notices(&self, sql: &str) -> Vec<String> {
        self.runtime.block_on(async {
            let answer = self.session.sql(sql).await.expect(sql);
            let watch = answer.watch();
            answer.collect().await.expect(sql);
            watch.notices()
        })
    }

    /// The error of a statement.
    pub(super) fn refused(&self, sql: &str) -> Error {
        self.try_sql(sql).expect_err(sql)
    }

    /// The values of column `n` of a table or file, sorted.
    pub(super) fn numbers(&self, name: &str) -> Vec<i64> {
        self.numbers_where(name, "true")
    }

    pub(super) fn numbers_where(&self, name: &str, filter: &str) -> Vec<i64> {
        let table = self.sql(&format!("SELECT n FROM '{name}' WHERE {filter} ORDER BY n"));
        table.lines().filter_map(|line| line.trim_matches(['|', ' ']).parse().ok()).collect()
    }

    /// The values of an answer's only column, as text.
    pub(super) fn column(&self, sql: &str) -> Vec<String> {
        let table = self.sql(sql);
        let rows = table.lines().skip(3).filter(|line| line.starts_with('|'));
        rows.map(|line| line.trim_matches(['|', ' ']).to_owned()).collect()
    }
}
