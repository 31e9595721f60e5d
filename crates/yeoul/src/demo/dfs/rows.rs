use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::util::display::array_value_to_string;
use tokio::runtime::Runtime;
use yeoul_base::{ByteSize, Error, ErrorKind, Result};
use yeoul_bench::dfs::Contents;
use yeoul_dfs::client::FileSystem;
use yeoul_sql::{Options, Session};

use super::Failure;

/// The file, as the table names it.
pub(super) const WHAT: &str = "a Parquet file";
/// Reading it, as the table names that.
pub(super) const READ: &str = "SQL on it";

/// The limit on the process, NameNode and DataNodes included.
const MEMORY: ByteSize = ByteSize::from_mib(512);
/// Rows whose numbers do not compress well: the file has several stripes.
const ROWS: &str = "SELECT value AS id, value * 7919 % 100003 AS customer, value * 48271 % 2147483647 AS amount \
                    FROM generate_series(1, 4000000)";

/// The rows of [`ROWS`] as a Parquet file.
pub(super) struct Rows {
    session: Arc<Session>,
    /// The engine's own threads: it has few for files, and each transfer of a DataNode has one.
    runtime: Runtime,
}

pub(super) fn contents() -> Result<Rows, Failure> {
    let options = Options { memory: Some(MEMORY), ..Options::default() };
    let runtime = yeoul_sql::runtime(&options)?;
    let entered = runtime.enter();
    let session = Arc::new(Session::new(options)?);
    drop(entered);
    Ok(Rows { session, runtime })
}

impl Rows {
    async fn run(&self, sql: String) -> Result<Vec<RecordBatch>> {
        let session = Arc::clone(&self.session);
        let running = self.runtime.spawn(async move { session.sql(&sql).await?.collect().await });
        let ended = running.await.map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
        ended.map_err(|error: yeoul_sql::Error| Error::new(error.kind(), error.to_string()))
    }

    /// How many rows there are, the sum of the amounts, and how much the best customer spent.
    async fn totals(&self, from: &str) -> Result<[String; 3]> {
        let sql = format!(
            "SELECT sum(rows), sum(spent), max(spent) FROM \
             (SELECT customer, count(id) AS rows, sum(amount) AS spent FROM {from} GROUP BY customer)"
        );
        let batches = self.run(sql).await?;
        let batch = batches.iter().find(|batch| batch.num_rows() > 0);
        let batch = batch.ok_or_else(|| Error::new(ErrorKind::Internal, "an aggregate has no row"))?;
        let mut totals = <[String; 3]>::default();
        for (total, column) in totals.iter_mut().zip(batch.columns()) {
            *total = array_value_to_string(column, 0)
                .map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
        }
        Ok(totals)
    }
}

impl Contents for Rows {
    fn name(&self) -> &'static str {
        "orders.parquet"
    }

    async fn write(&self, files: &FileSystem, path: &str) -> Result<()> {
        self.run(format!("COPY ({ROWS}) TO 'hdfs://{}{path}'", files.address())).await.map(drop)
    }

    async fn check(&self, files: &FileSystem, path: &str) -> Result<String> {
        let found = self.totals(&format!("'hdfs://{}{path}'", files.address())).await?;
        let expected = self.totals(&format!("({ROWS})")).await?;
        if found != expected {
            let message = format!("SQL finds {found:?} in {path}, where {expected:?} was written");
            return Err(Error::new(ErrorKind::DataLoss, message));
        }
        Ok(format!("{} rows, right sums", found[0]))
    }
}
