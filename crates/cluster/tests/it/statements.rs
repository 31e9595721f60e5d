//! Goal: a cluster answers as one process does, or refuses. Method: a scheduler and two executors in this process, each statement there and
//! in a session of its own.

use std::path::Path;
use std::sync::Arc;

use ballista_core::serde::protobuf::StopExecutorParams;
use ballista_core::serde::protobuf::executor_grpc_client::ExecutorGrpcClient;
use tonic::Code;
use tonic::transport::Endpoint;
use yeoul_base::ErrorKind;
use yeoul_cluster::{Cluster, Token};
use yeoul_dialect::wrong_answers::rows;
use yeoul_sql::distributed::Elsewhere;
use yeoul_sql::{Options, Session};

use crate::started::{self, Started};

/// Statements over files `~/t/*.parquet` with columns `n` and `k`, and a text file.
const ANSWERED: [&str; 25] = [
    "SELECT count(*), sum(n), min(k) FROM '~/t/*.parquet' WHERE n % 3 = 1",
    "SELECT k, count(*), sum(n), avg(n) FROM '~/t/*.parquet' GROUP BY k ORDER BY k",
    "SELECT a.n, b.k FROM '~/t/*.parquet' AS a JOIN '~/t/*.parquet' AS b ON a.n = b.n + 1 ORDER BY a.n LIMIT 5 OFFSET 2",
    "SELECT count(*) FROM '~/t/*.parquet' AS a WHERE EXISTS (SELECT 1 FROM '~/t/*.parquet' AS b WHERE b.n = a.n + 390)",
    "SELECT count(*) FROM '~/t/*.parquet' WHERE n NOT IN (SELECT n + 1 FROM '~/t/*.parquet')",
    "SELECT n, rank() OVER (PARTITION BY k ORDER BY n DESC) AS r FROM '~/t/*.parquet' ORDER BY n LIMIT 9",
    "SELECT k FROM '~/t/*.parquet' UNION SELECT n FROM '~/t/*.parquet' WHERE n < 3 ORDER BY k",
    "SELECT substr(CAST(n AS VARCHAR), 1, 1) AS d, count(*) FROM '~/t/*.parquet' GROUP BY d ORDER BY d",
    "SELECT CAST(n AS DECIMAL(9, 2)) / 3 AS q, CAST('2024-02-29' AS TIMESTAMP) AS t FROM '~/t/*.parquet' ORDER BY n LIMIT 3",
    "SELECT max(CAST(n AS DOUBLE)), min(INTERVAL '1 month') FROM '~/t/*.parquet'",
    "SELECT n FROM (SELECT n FROM '~/t/*.parquet' ORDER BY n LIMIT 4 OFFSET 3) AS s ORDER BY n DESC",
    "SELECT * FROM '~/text.csv.gz' ORDER BY a",
    "SELECT a, count(*) FROM '~/text.csv.gz' AS s JOIN '~/t/*.parquet' AS t ON s.a = t.n GROUP BY a ORDER BY a",
    "SELECT k, n % 2 AS odd, count(*) FROM '~/t/*.parquet' GROUP BY CUBE (k, odd) ORDER BY k, odd",
    // In several tasks, each would give the rows that have met none of its own.
    "SELECT count(*), count(a.n), count(b.n) FROM '~/t/*.parquet' AS a FULL JOIN '~/t/*.parquet' AS b ON a.n > b.n + 395",
    "SELECT a.n, b.n FROM '~/t/*.parquet' AS a LEFT JOIN '~/t/*.parquet' AS b ON a.n > b.n + 395 ORDER BY a.n, b.n",
    "SELECT count(*) FROM '~/t/*.parquet' AS a WHERE EXISTS (SELECT 1 FROM '~/t/*.parquet' AS b WHERE a.n > b.n + 395)",
    "SELECT (SELECT max(n) FROM '~/t/*.parquet') AS m, 6 * 7 AS answer",
    // Joins whose small side filters the scan of the other one, in each task, and of which one task has nothing to read.
    "SELECT a.n, b.n FROM (SELECT n, k FROM '~/t/*.parquet' WHERE n < 9) AS a JOIN '~/t/*.parquet' AS b ON a.n = b.n ORDER BY a.n",
    "SELECT count(*) FROM '~/t/*.parquet' WHERE n IN (SELECT n * 50 FROM '~/t/0.parquet' WHERE n < 9)",
    "SELECT count(*) FROM '~/t/*.parquet' WHERE n NOT IN (SELECT n * 50 FROM '~/t/0.parquet' WHERE n < 9)",
    "SELECT a.n, b.n FROM '~/t/*.parquet' AS b LEFT JOIN (SELECT n FROM '~/t/0.parquet' WHERE n < 3) AS a ON a.n = b.n ORDER BY b.n LIMIT 9",
    "SELECT count(*) FROM (SELECT n FROM '~/t/*.parquet' UNION ALL SELECT n FROM '~/t/1.parquet') AS u JOIN (SELECT n FROM '~/t/*.parquet' WHERE n > 390) AS s ON u.n = s.n",
    "SELECT count(*) FROM (SELECT b.n FROM '~/t/0.parquet' AS a JOIN '~/t/*.parquet' AS b ON a.n = b.n UNION ALL SELECT n FROM '~/t/1.parquet') AS u",
    "SELECT count(*) FROM '~/t/*.parquet' AS a JOIN '~/t/*.parquet' AS b ON a.n = b.n JOIN (SELECT n FROM '~/t/2.parquet' WHERE k = 100) AS none ON none.n = a.n",
];

/// Statements that are refused there, with words of the refusal.
const REFUSED: [(&str, &str); 2] = [
    (
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r",
        "RECURSIVE",
    ),
    ("SELECT 9223372036854775807 + n FROM '~/t/*.parquet'", "integer overflow"),
];

#[test]
fn statements_are_answered_as_in_one_process() {
    // Clients plan, and servers read plans, on stacks that do for deep ones.
    let runtime = yeoul_sql::runtime(&options()).unwrap();
    runtime.block_on(runtime.spawn(statements())).unwrap();
}

async fn statements() {
    let folder = tempfile::tempdir().unwrap();
    let alone = Session::new(options()).unwrap();
    std::fs::create_dir(folder.path().join("t")).unwrap();
    for part in 0..4 {
        let from = part * 100;
        let values = format!(
            "SELECT value AS n, value % 7 AS k FROM generate_series({from}, {}) AS g(value)",
            from + 99
        );
        answer(&alone, folder.path(), &format!("COPY ({values}) TO '~/t/{part}.parquet'")).await.unwrap();
    }
    let text = "COPY (SELECT n AS a, 'line ' || n || chr(10) || 'two' AS b FROM '~/t/0.parquet' WHERE n < 9) TO '~/text.csv.gz' STORED AS CSV OPTIONS ('format.compression' 'gzip')";
    answer(&alone, folder.path(), text).await.unwrap();

    let token = token(folder.path(), "it is told to nobody else");
    let servers = started::cluster(Some(token.clone())).await;
    strangers_are_refused(&servers, folder.path()).await;
    let cluster = |has_shared_paths| {
        Cluster::new(&servers.scheduler, has_shared_paths).unwrap().with_token(token.clone())
    };
    let session = Session::with_queries(options(), Arc::new(cluster(true))).unwrap();
    for sql in ANSWERED {
        let expected = answer(&alone, folder.path(), sql).await.unwrap();
        let found = answer(&session, folder.path(), sql).await;
        assert_eq!(found.as_ref(), Ok(&expected), "{sql}");
        assert!(!expected.is_empty(), "{sql}");
    }
    for (sql, words) in REFUSED {
        let error = answer(&session, folder.path(), sql).await.unwrap_err();
        assert!(error.contains(words), "{sql}: {error}");
    }
    // More operators, one below the other, than a message has levels: of many stages, and of one.
    let deep = |level_of: fn(usize) -> String| {
        let levels = (1..60).map(|level| format!("s{level} AS ({})", level_of(level))).collect::<Vec<_>>();
        let levels = levels.join(", ");
        format!("WITH s0 AS (SELECT n, k FROM '~/t/*.parquet'), {levels} SELECT sum(n), sum(k) FROM s59")
    };
    let stages = deep(|level| format!("SELECT n + 1 AS n, k FROM s{} GROUP BY n, k", level - 1));
    let expected = answer(&alone, folder.path(), &stages).await.unwrap();
    assert_eq!(answer(&session, folder.path(), &stages).await, Ok(expected));
    let stage = deep(|level| {
        let order = if level % 2 == 0 { "k, n" } else { "n, k" };
        format!("SELECT n, k FROM s{} ORDER BY {order} LIMIT {}", level - 1, 400 - level)
    });
    let refused = answer(&session, folder.path(), &stage).await.unwrap_err();
    assert!(refused.contains("too many operators"), "{refused}");
    // Rows of a table, of which one statement knows less than the other.
    for table in
        ["CREATE TABLE t (n INT, b TEXT)", "INSERT INTO t VALUES (1, 'x')", "INSERT INTO t (n) VALUES (2)"]
    {
        answer(&session, folder.path(), table).await.unwrap();
    }
    let rows = answer(&session, folder.path(), "SELECT b, n FROM t ORDER BY n").await;
    assert_eq!(rows, Ok(vec!["x | 1".to_owned(), "NULL | 2".to_owned()]));
    // A file that is another one than the query was planned for cannot be told apart later than this.
    let elsewhere = Session::with_queries(options(), Arc::new(cluster(false))).unwrap();
    let error =
        answer(&elsewhere, folder.path(), "SELECT n FROM '~/t/0.parquet' WHERE n > 5").await.unwrap_err();
    assert!(error.contains("another file on each machine"), "{error}");
}

/// A token without spaces.
fn token(folder: &Path, text: &str) -> Token {
    let file = folder.join("token");
    std::fs::write(&file, text.replace(' ', "-")).unwrap();
    Token::of_file(&file).unwrap()
}

async fn strangers_are_refused(servers: &Started, folder: &Path) {
    let stranger = Cluster::new(&servers.scheduler, true).unwrap();
    let other =
        Cluster::new(&servers.scheduler, true).unwrap().with_token(token(folder, "it is told to nobody"));
    for (cluster, words) in [(stranger, "asks for its token"), (other, "has another token")] {
        let reports = cluster.jobs().await.unwrap_err();
        assert_eq!(reports.kind(), ErrorKind::Denied, "{reports}");
        assert!(reports.to_string().contains(words), "{reports}");
        let session = Session::with_queries(options(), Arc::new(cluster)).unwrap();
        let error = answer(&session, folder, "SELECT count(*) FROM '~/t/*.parquet'").await.unwrap_err();
        assert!(error.contains(words), "{error}");
    }
    for address in [&servers.scheduler].into_iter().chain(&servers.executors) {
        let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
        let order = StopExecutorParams { executor_id: String::new(), reason: String::new(), force: true };
        let answer = ExecutorGrpcClient::new(channel).stop_executor(order).await;
        assert_eq!(answer.unwrap_err().code(), Code::Unauthenticated, "{address}");
    }
}

fn options() -> Options {
    Options { threads: Some(3), ..Options::default() }
}

/// The rows of a statement in which `~` stands for the folder, as text.
async fn answer(session: &Session, folder: &Path, sql: &str) -> Result<Vec<String>, String> {
    let sql = sql.replace('~', &folder.to_string_lossy());
    let answer = async { session.sql(&sql).await?.collect().await };
    let batches = answer.await.map_err(|error| error.to_string())?;
    Ok(rows(&batches).unwrap())
}
