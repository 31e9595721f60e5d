//! Goal: what was once answered wrongly in one process is not so on a cluster. Method: each statement of `judges/sql/wrong_answers`, in
//! sessions whose queries run on one, has the right answer there or is refused as not being there; the files that a statement writes are
//! read by those behind it.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::started;
use yeoul_cluster::Cluster;
use yeoul_dialect::wrong_answers::{cases, rows};
use yeoul_sql::{Options, Session};

/// Words of the refusals of what a cluster does not have.
const NOT_THERE: [&str; 4] = [
    "cannot run on a cluster",
    "cannot be sent to a cluster",
    "on a cluster is not there",
    // Values of subqueries that one process computes before the rest.
    "not supported: a subquery here",
];

/// The most statements of a hundred that a cluster may refuse: else the test tests nothing.
const REFUSED_PERCENT_MAX: usize = 5;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_statement_is_answered_rightly_or_refused() {
    let servers = started::cluster(None).await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../judges/sql/wrong_answers");
    let (mut faults, mut count, mut refused) = (Vec::new(), 0, 0);
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "sql") {
            continue;
        }
        let options = Options { threads: Some(3), ..Options::default() };
        let cluster = Cluster::new(&servers.scheduler, true).unwrap();
        let files = tempfile::tempdir().unwrap();
        let session = Session::with_queries(options, Arc::new(cluster)).unwrap();
        for case in cases(&fs::read_to_string(&path).unwrap()).unwrap() {
            count += 1;
            let answer = answer(&session, files.path(), &case.sql).await;
            match &answer {
                Err(text) if NOT_THERE.iter().any(|words| text.contains(words)) => refused += 1,
                _ => {
                    let at = format!("{}:{}: {}", path.display(), case.line, case.sql);
                    faults.extend(case.fault(answer).map(|fault| format!("{at}\n    {fault}")));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} of {count}:\n{}", faults.len(), faults.join("\n"));
    assert!(count > 0, "no statements in {}", folder.display());
    assert!(refused * 100 <= count * REFUSED_PERCENT_MAX, "{refused} of {count} are refused");
}

/// Time for an answer: what takes longer hangs.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// The rows of a statement in which `~` stands for the folder, as text.
async fn answer(session: &Session, folder: &Path, sql: &str) -> Result<Vec<String>, String> {
    let sql = sql.replace('~', &folder.to_string_lossy());
    let answer = async { session.sql(&sql).await?.collect().await };
    match tokio::time::timeout(ANSWER_MAX, answer).await {
        Err(_) => Err(format!("no answer in {ANSWER_MAX:?}")),
        Ok(Ok(batches)) => Ok(rows(&batches).unwrap()),
        Ok(Err(error)) => Err(format!("{error}; hint: {}", error.hint().unwrap_or("none"))),
    }
}
