//! Goal: a query gives each row of its source once while nothing fails, goes on from its checkpoint, and yields to a second
//! process. Method: a rate source, whose rows are known, and a console or no sink; no broker.

use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::super::fragile::{Fault, Fragile};
use super::super::{QueryHandle, check, start};
use super::*;
use crate::connectors::StreamConnector;
use crate::plan::{Script, plan};
use crate::state::MemoryShare;

const JOB: &str = "CREATE STREAM r WITH ('connector' = 'rate', 'rowsPerSecond' = '10000');\
                   CREATE SINK nowhere WITH ('connector' = 'noop'); SET 'execution.checkpointing.interval' = '20 ms';";
/// How long a query may take to tell something.
const PATIENCE: Duration = Duration::from_secs(60);

fn query(job: &str) -> Result<Query> {
    let script = Script::parse(job)?;
    Ok(plan(&script, |stream| Ok(StreamConnector::new(stream)?.schema()))?.remove(0))
}

fn running(folder: &Path) -> (QueryHandle, Receiver<Progress>) {
    let (tell, progress) = channel();
    let query = query(&format!("{JOB} INSERT INTO nowhere SELECT value * 2 AS v FROM r WHERE value % 3 = 0"))
        .unwrap();
    let handle = start(query, folder, MemoryShare::default(), move |event| {
        if let QueryEvent::Progress(progress) = event {
            let _ = tell.send(progress.clone());
        }
    });
    (handle.unwrap(), progress)
}

fn next(progress: &Progress) -> i64 {
    progress.sources[0].end_offset["next"].as_i64().unwrap()
}

#[test]
fn each_row_is_in_one_epoch_and_a_restart_goes_on_where_the_last_ended() {
    let place = tempfile::tempdir().unwrap();
    let (handle, told) = running(place.path());
    let mut epochs: Vec<Progress> = (0..3).map(|_| told.recv_timeout(PATIENCE).unwrap()).collect();
    handle.stop();
    handle.wait().unwrap();
    epochs.extend(told.try_iter());
    let last = next(epochs.last().unwrap());
    let (handle, told) = running(place.path());
    epochs.push(told.recv_timeout(PATIENCE).unwrap());
    handle.stop();
    handle.wait().unwrap();
    let (mut rows, mut batch) = (0, 1);
    for epoch in &epochs {
        assert_eq!(epoch.sources[0].start_offset["next"], rows, "{epoch:?}");
        assert_eq!(epoch.num_input_rows as i64, next(epoch) - rows);
        let multiples = |end: i64| (end + 2) / 3;
        assert_eq!(epoch.num_output_rows as i64, multiples(next(epoch)) - multiples(rows));
        assert_eq!(
            (epoch.sink.description.as_str(), epoch.sink.num_output_rows),
            ("noop", epoch.num_output_rows)
        );
        assert_eq!(epoch.sources[0].num_input_rows, epoch.num_input_rows);
        assert_eq!((&epoch.sources[0].latest_offset, epoch.sources[0].metrics.len()), (&Value::Null, 0));
        // No plan, and no transaction.
        let phases: Vec<&str> = epoch.duration_ms.keys().copied().collect();
        assert_eq!(phases, ["addBatch", "commitOffsets", "triggerExecution"]);
        let all_ms = epoch.duration_ms["triggerExecution"];
        assert!(epoch.duration_ms.values().all(|ms| (0..=all_ms).contains(ms)), "{epoch:?}");
        assert!(all_ms >= epoch.checkpoint_ms - 1, "{epoch:?}");
        // The second process claims an epoch of its own.
        batch += u64::from(rows == last);
        assert_eq!(epoch.batch_id, BatchId(batch));
        (rows, batch) = (next(epoch), batch + 1);
    }
    assert!(rows > last && last > 0);
}

#[test]
fn a_second_process_takes_the_query_and_the_first_stops() {
    let place = tempfile::tempdir().unwrap();
    let (first, told) = running(place.path());
    told.recv_timeout(PATIENCE).unwrap();
    let (second, told_second) = running(place.path());
    told_second.recv_timeout(PATIENCE).unwrap();
    let error = first.wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
    assert_eq!(error.to_string(), "another process has taken the query 'nowhere' over");
    second.stop();
    second.wait().unwrap();
}

#[test]
fn a_query_of_what_is_there_now_ends_by_itself() {
    let place = tempfile::tempdir().unwrap();
    let job = format!("{JOB} SET trigger = 'available now'; INSERT INTO nowhere SELECT value FROM r");
    let handle = start(query(&job).unwrap(), place.path(), MemoryShare::default(), |_| {}).unwrap();
    handle.wait().unwrap();
    assert!(place.path().join("nowhere/commits/1").exists());
}

#[test]
fn a_query_that_runs_once_has_one_epoch_and_one_with_a_period_an_epoch_in_each() {
    let place = tempfile::tempdir().unwrap();
    let job =
        |trigger: &str| format!("{JOB} SET trigger = '{trigger}'; INSERT INTO nowhere SELECT value FROM r");
    let commits = || std::fs::read_dir(place.path().join("nowhere/commits")).unwrap().count();
    let run = |trigger: &str| {
        let query = query(&job(trigger)).unwrap();
        start(query, place.path(), MemoryShare::default(), |_| {}).unwrap().wait().unwrap();
        // There are rows for the next one.
        std::thread::sleep(Duration::from_millis(5));
        commits()
    };
    let before = run("available now");
    // Each process claims an epoch of its own.
    assert_eq!((run("once"), run("once")), (before + 2, before + 4));
    let (tell, told) = channel();
    let began_ms = now_ms();
    let handle =
        start(query(&job("every 200 ms")).unwrap(), place.path(), MemoryShare::default(), move |event| {
            if let QueryEvent::Progress(progress) = event {
                let _ = tell.send(progress.clone());
            }
        });
    let epochs: Vec<Progress> = (0..4).map(|_| told.recv_timeout(PATIENCE).unwrap()).collect();
    let periods = now_ms() / 200 - began_ms / 200;
    let handle = handle.unwrap();
    handle.stop();
    handle.wait().unwrap();
    assert!(epochs[1..].iter().all(|epoch| epoch.num_input_rows > 0), "{epochs:?}");
    assert!(epochs.iter().all(|epoch| epoch.duration_ms.contains_key("latestOffset")), "{epochs:?}");
    // The rest before a plan is none of its work.
    let rested = |epoch: &Progress| epoch.duration_ms["triggerExecution"] < epoch.batch_duration;
    assert!(epochs[1..].iter().any(rested), "{epochs:?}");
    // Each began in a period of its own.
    assert!(periods >= 3, "four epochs in {periods} periods");
}

#[test]
fn a_limit_that_one_batch_would_not_keep_is_refused() {
    let job = "CREATE STREAM f WITH ('connector' = 'filesystem', 'path' = '/tmp', 'maxFilesPerTrigger' = '1');\
               CREATE SINK nowhere WITH ('connector' = 'noop'); SET trigger = 'once'; INSERT INTO nowhere SELECT value FROM f";
    let error = check(&query(job).unwrap()).unwrap_err().to_string();
    assert!(error.contains("'once'") && error.contains("'maxFilesPerTrigger'"), "{error}");
}

#[test]
fn what_cannot_be_computed_ends_the_query_and_says_why() {
    let place = tempfile::tempdir().unwrap();
    let job = format!("{JOB} INSERT INTO nowhere SELECT value + 9223372036854775807 AS v FROM r");
    let error = start(query(&job).unwrap(), place.path(), MemoryShare::default(), |_| {})
        .unwrap()
        .wait()
        .unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && format!("{error:?}").contains("overflow"), "{error:?}");
}

#[test]
fn what_is_not_there_yet_is_refused_before_anything_starts() {
    for (select, expected) in [
        ("SELECT median(value) FROM r EMIT UPDATES", "the aggregate function median is not there yet"),
        ("SELECT count(DISTINCT value) FROM r EMIT UPDATES", "not there yet"),
    ] {
        let error = query(&format!("{JOB} INSERT INTO nowhere {select}")).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let wrong = JOB.replace("'noop'", "'socket'");
    let error =
        check(&query(&format!("{wrong} INSERT INTO nowhere SELECT value FROM r")).unwrap()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "sink 'nowhere': the option 'connector' is 'socket', expected kafka, filesystem, console, memory or noop"
    );
}

#[test]
fn a_state_function_that_fails_ends_the_query_and_leaves_the_checkpoint_as_it_was() {
    let place = tempfile::tempdir().unwrap();
    let fragile = Fragile::new(30_000);
    let run = || {
        let job = format!(
            "{JOB} CREATE VIEW v AS SELECT value * 0 AS k FROM r; \
             INSERT INTO nowhere SELECT n FROM fragile(TABLE v PARTITION BY k) EMIT UPDATES"
        );
        let query = crate::parse_job_with(&job, &fragile.registered()).unwrap().remove(0);
        let (tell, told) = channel();
        let handle = start(query, place.path(), MemoryShare::default(), move |event| {
            if let QueryEvent::Progress(progress) = event {
                let _ = tell.send(progress.clone());
            }
        });
        (handle.unwrap(), told)
    };
    fragile.set_fault(Some(Fault::Error));
    let (handle, told) = run();
    let error = handle.wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(error.to_string(), "the state function 'fragile' failed: more than 30000 rows");
    let last = told.try_iter().last().map_or(0, |progress| next(&progress));
    assert!(last > 0 && last <= 30_000, "a checkpoint before the failure at {last}");
    fragile.set_fault(None);
    let (handle, told) = run();
    let first = told.recv_timeout(PATIENCE).unwrap();
    handle.stop();
    handle.wait().unwrap();
    let end = next(&told.try_iter().last().unwrap_or(first));
    // Each row before the offset was counted once, whatever came after the last checkpoint before the failure.
    assert!(fragile.last_count() > 30_000);
    assert_eq!(fragile.last_count(), end);
}

#[test]
fn a_key_is_forgotten_by_the_clock_while_no_row_comes() {
    let place = tempfile::tempdir().unwrap();
    // A second passes between one row and the next, each of a key of its own.
    let job = "CREATE STREAM r WITH ('connector' = 'rate', 'rowsPerSecond' = '1'); CREATE SINK nowhere WITH ('connector' = 'noop');\
               SET 'execution.checkpointing.interval' = '20 ms';\
               INSERT INTO nowhere SELECT value, count FROM \
               running_count(TABLE r PARTITION BY value, timeout => INTERVAL '300 ms') EMIT UPDATES";
    let (tell, told) = channel();
    let handle = start(query(job).unwrap(), place.path(), MemoryShare::default(), move |event| {
        if let QueryEvent::Progress(progress) = event {
            let _ = tell.send(progress.clone());
        }
    });
    let handle = handle.unwrap();
    let mut removed = 0;
    while removed == 0 {
        let progress = told.recv_timeout(PATIENCE).unwrap();
        let state = &progress.state_operators[0];
        if progress.num_input_rows == 0 {
            removed += state.num_rows_removed;
        }
    }
    handle.stop();
    handle.wait().unwrap();
}
