//! Goal: a stage of a query reads no rows that a join of the same stage leaves out. Method: a session whose queries are handed to the test,
//! which runs their plans as a task does.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::Session as State;
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, collect};
use yeoul_dialect::wrong_answers::rows;

use crate::catalog::text_scan::file_scan;
use crate::distributed::{Elsewhere, Workplace, planning_config};
use crate::{Options, Session};

/// A place that keeps the plan that it is given.
#[derive(Default)]
struct Kept(Mutex<Option<Arc<dyn ExecutionPlan>>>);

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kept")
    }
}

#[async_trait]
impl Elsewhere for Kept {
    fn check(&self, _: &LogicalPlan) -> Result<()> {
        Ok(())
    }

    fn run(&self, plan: Arc<dyn ExecutionPlan>, _: &dyn State) -> Result<Arc<dyn ExecutionPlan>> {
        *self.0.lock().unwrap() = Some(Arc::clone(&plan));
        Ok(plan)
    }

    fn analyze(
        &self,
        _: Arc<dyn ExecutionPlan>,
        _: datafusion::arrow::datatypes::SchemaRef,
        _: &dyn State,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        unreachable!("nothing is analyzed")
    }

    async fn jobs(&self) -> crate::Result<RecordBatch> {
        unreachable!("nobody asks for jobs")
    }
}

/// A task that runs the plan of a query whole: its rows, and how many those were that its scan of `big` gave.
async fn task(folder: &Path, sql: &str, is_filtered: bool) -> (Vec<String>, usize) {
    let kept = Arc::new(Kept::default());
    let session = Session::with_queries(Options::default(), Arc::clone(&kept) as _).unwrap();
    let planned = async { session.sql(&on(folder, sql)).await?.collect().await };
    let unfiltered = rows(&planned.await.unwrap()).unwrap();
    let plan = reset_plan_states(kept.0.lock().unwrap().take().unwrap()).unwrap();

    let here = Session::new(Options::default()).unwrap();
    let workplace: Workplace = here.workplace();
    let config = planning_config().unwrap();
    let context = Arc::new(TaskContext::from(workplace.state()));
    let before = rows_of_big(&plan).unwrap();
    let (plan, context) = match is_filtered {
        true => (workplace.filtered(plan, &config).unwrap(), workplace.filtering(&context)),
        false => (plan, context),
    };
    let plan = workplace.prepared(plan, config.options()).unwrap();
    let found = rows(&collect(Arc::clone(&plan), context).await.unwrap()).unwrap();
    assert_eq!(found, unfiltered, "{sql}");
    (found, rows_of_big(&plan).unwrap() - before)
}

/// The rows that the scan of `big` gave.
fn rows_of_big(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    let is_big = file_scan(plan).is_some_and(|scan| {
        let mut files = scan.file_groups.iter().flat_map(|group| group.files());
        files.any(|file| file.object_meta.location.as_ref().ends_with("big.parquet"))
    });
    match is_big {
        true => plan.metrics()?.output_rows(),
        false => plan.children().into_iter().find_map(rows_of_big),
    }
}

fn on(folder: &Path, sql: &str) -> String {
    sql.replace('~', &folder.to_string_lossy())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_filters_the_scan_of_its_probe_side() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::new(Options::default()).unwrap();
    for copy in [
        "COPY (SELECT value AS k, value % 7 AS v FROM generate_series(1, 100000)) TO '~/big.parquet'",
        "COPY (SELECT * FROM (VALUES (5, CAST('NaN' AS DOUBLE)), (50000, 1.5), (99999, NULL), (NULL, 7)) AS s(k, x)) TO '~/small.parquet'",
        "COPY (SELECT 1 AS k, CAST('NaN' AS DOUBLE) AS x, 3 AS v) TO '~/odd/big.parquet'",
    ] {
        let written = async { session.sql(&on(folder.path(), copy)).await?.collect().await };
        written.await.unwrap();
    }
    // Joins whose rows of `big` match or are not there.
    for join in ["JOIN", "RIGHT SEMI JOIN"] {
        let sql = match join {
            "JOIN" => {
                "SELECT b.k, b.v, s.x FROM '~/small.parquet' AS s JOIN '~/big.parquet' AS b ON s.k = b.k ORDER BY b.k"
            }
            _ => {
                "SELECT b.k, b.v FROM '~/big.parquet' AS b WHERE b.k IN (SELECT k FROM '~/small.parquet') ORDER BY b.k"
            }
        };
        let (found, read) = task(folder.path(), sql, true).await;
        assert!(found.len() == 3 && read < 1000, "{sql}: {read} rows");
        let (same, all) = task(folder.path(), sql, false).await;
        assert!(same == found && all == 100_000, "{sql}: {all} rows");
    }
    // All rows of `big` are there, whether they match or not.
    let outer =
        "SELECT count(*), count(s.k) FROM '~/big.parquet' AS b LEFT JOIN '~/small.parquet' AS s ON s.k = b.k";
    assert_eq!(task(folder.path(), outer, true).await, (vec!["100000 | 3".to_owned()], 100_000));
    // A limit counts what is there before the join.
    let limit = "SELECT count(*) FROM (SELECT k FROM '~/big.parquet' LIMIT 4) AS b JOIN '~/small.parquet' AS s ON s.k = b.k";
    assert_eq!(task(folder.path(), limit, true).await.0, ["0"]);
    // NaN is in no range that a file tells.
    let nan = "SELECT b.k, s.k FROM '~/small.parquet' AS s JOIN '~/odd/big.parquet' AS b ON s.x = b.x";
    assert_eq!(task(folder.path(), nan, true).await.0, ["1 | 5"]);
}
