use std::time::{Duration, Instant};

use tokio::process::Child;
use tracing::level_filters::LevelFilter;
use yeoul_cluster::Cluster;
use yeoul_cluster::scheduler::{Options as SchedulerOptions, Server, ShuffleOptions};
use yeoul_sql::{Options, Session};

use super::{Failure, Row, Stage, single_value};
use crate::cluster::local::{Shuffle, Work, executor};

/// Executors, of which one is killed.
const EXECUTORS: usize = 2;
/// Time from the question to the kill: before the first stages have ended.
const KILLED_AFTER: Duration = Duration::from_millis(100);

/// A question that shows that all executors are there.
const FIRST: &str = "SELECT count(*) FROM generate_series(1, 1000)";
const JOIN: &str = "SELECT sum(o.k) FROM (SELECT value AS k FROM generate_series(1, 12000000)) AS o \
     JOIN (SELECT value AS k FROM generate_series(1, 12000000, 3)) AS l ON o.k = l.k";
/// Four million numbers, each three above the one before.
const ANSWER: &str = "23999998000000";

pub(super) fn run(stage: &Stage) -> Result<Vec<Row>, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let row = runtime.block_on(stage.unless_stopped(join_with_a_kill(stage)))?;
    // What still waits for an executor that is gone does not keep the demo.
    runtime.shutdown_background();
    Ok(vec![row])
}

async fn join_with_a_kill(stage: &Stage) -> Result<Row, Failure> {
    let dir = stage.dir.join("cluster");
    std::fs::create_dir_all(&dir)?;
    let shuffle = Shuffle::start(&dir, 1).await?;
    let options = SchedulerOptions {
        host: "127.0.0.1".to_owned(),
        port: 0,
        http_port: None,
        shuffle: Some(ShuffleOptions { masters: vec![shuffle.master()], copies: 1, port: 0 }),
        token: None,
    };
    let server = Server::bind(options).await?;
    let scheduler = server.address().to_string();
    let serving = tokio::spawn(server.serve());
    let work = Work { dir: &dir, threads: 1, memory: None, log: LevelFilter::OFF };
    let mut executors: Vec<Child> =
        (0..EXECUTORS).map(|_| executor(&scheduler, &work)).collect::<Result<_, _>>()?;

    let options = Options { threads: Some(EXECUTORS), spill_dir: Some(dir.clone()), ..Options::default() };
    // It reads no files.
    let session = Session::with_queries(options, std::sync::Arc::new(Cluster::new(&scheduler, false)?))?;
    session.sql(FIRST).await?.collect().await?;

    let began = Instant::now();
    let answer = session.sql(JOIN).await?;
    let mut joining = tokio::spawn(answer.collect());
    if tokio::time::timeout(KILLED_AFTER, &mut joining).await.is_ok() {
        return Err("the join had ended before an executor was killed".into());
    }
    executors[0].kill().await?;
    let value = single_value(&joining.await??)?;
    let time = began.elapsed();
    if value != ANSWER {
        return Err(format!("the join gave {value}, not {ANSWER}").into());
    }
    serving.abort();
    Ok(Row {
        what: "join 12 and 4 million rows on a cluster".to_owned(),
        result: value,
        time,
        bounds: format!("1 of {EXECUTORS} executors killed after {} ms", KILLED_AFTER.as_millis()),
    })
}
