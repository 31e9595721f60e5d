//! A query with a million keys of state that is stopped and started again: how long it takes until the first row comes out.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use yeoul_base::{Error, ErrorKind, Result};
use yeoul_stream::connectors::kafka::measure::{create_topics, fill, now_us, read};

use super::own_process::OwnProcess;
use crate::findings::{Bar, Finding, Unit};

/// Keys of the state.
const KEYS: u64 = 1_000_000;
/// Records that wait when the query is started again, one for each of as many keys.
const WAITING: u64 = 1000;
/// Milliseconds from the start of the process to the first row behind its sink.
const RESTART_MS_MAX: f64 = 2000.0;
/// Longest time for any step.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Rows that came out so far.
#[derive(Default)]
struct Seen {
    /// Rows of the first count of a key.
    first_counts: u64,
    /// The greatest count, and when it came first, in microseconds since 1970.
    greatest: (u64, i64),
}

/// Restarts the query so many times.
///
/// # Errors
/// `DataLoss` if state is lost; as Kafka says; `Cancelled` by `stop`.
pub fn measure(servers: &str, folder: &Path, rounds: u64, stop: &AtomicBool) -> Result<Finding> {
    let run_id = yeoul_stream::checkpoint::new_id();
    let [from, to] = ["in", "out"].map(|end| format!("yeoul-bench-{}-restart-{end}", &run_id[..8]));
    create_topics(servers, &[&from, &to])?;
    fill(servers, &from, 0..KEYS)?;
    let job = job(servers, &from, &to);
    let (seen, is_over) = (Mutex::new(Seen::default()), AtomicBool::new(false));
    let take = |value: &Value, now| {
        if let Ok(mut seen) = seen.lock() {
            seen.add(value["n"].as_u64().unwrap_or(0), now);
        }
        true
    };
    let ours = thread::scope(|scope| {
        let reader = scope.spawn(|| read(servers, &to, take, &is_over));
        let restarts = || -> Result<Vec<f64>> {
            let process = OwnProcess::of_job(&job, folder, "restart")?;
            wait(process, &seen, stop, |seen| seen.first_counts >= KEYS)?;
            let mut ours = Vec::new();
            for round in 1..=rounds {
                fill(servers, &from, 0..WAITING)?;
                let begin = now_us();
                let process = OwnProcess::of_job(&job, folder, "restart")?;
                let came = wait(process, &seen, stop, |seen| seen.greatest.0 > round)?;
                ours.push((came - begin) as f64 / 1000.0);
            }
            Ok(ours)
        };
        let ours = restarts();
        is_over.store(true, Ordering::Relaxed);
        reader.join().map_err(|_| Error::new(ErrorKind::Internal, "a measuring thread broke"))??;
        ours
    })?;
    if seen.lock().is_ok_and(|seen| seen.first_counts > KEYS) {
        return Err(Error::new(ErrorKind::DataLoss, "a key was counted from 1 again after a restart"));
    }
    let name = "restart with a million keys of state, from the start of the process to its first row".into();
    let bar = Bar::MedianAtMost(RESTART_MS_MAX);
    Ok(Finding { name, unit: Unit::Milliseconds, bytes: None, ours, peer: "", peers: Vec::new(), bar })
}

impl Seen {
    fn add(&mut self, count: u64, now: i64) {
        self.first_counts += u64::from(count == 1);
        if count > self.greatest.0 {
            self.greatest = (count, now);
        }
    }
}

/// Waits until the query has got so far, and stops it; gives when the greatest count came first.
fn wait(
    mut process: OwnProcess,
    seen: &Mutex<Seen>,
    stop: &AtomicBool,
    is_enough: impl Fn(&Seen) -> bool,
) -> Result<i64> {
    let deadline = Instant::now() + PATIENCE;
    let came = loop {
        if let Some(came) = seen.lock().ok().filter(|seen| is_enough(seen)).map(|seen| seen.greatest.1) {
            break came;
        }
        process.check()?;
        if stop.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Cancelled, "interrupted"));
        }
        if Instant::now() > deadline {
            let text = format!("what was to come did not within {} s", PATIENCE.as_secs());
            return Err(Error::new(ErrorKind::DataLoss, text));
        }
        thread::sleep(LOOK_EVERY);
    };
    process.stop()?;
    Ok(came)
}

/// A running count of each number.
fn job(servers: &str, from: &str, to: &str) -> String {
    let kafka = format!("'connector' = 'kafka', 'kafka.bootstrap.servers' = '{servers}', 'format' = 'json'");
    format!(
        "CREATE SINK results WITH ({kafka}, 'topic' = '{to}');\n\
         CREATE STREAM a (id BIGINT, sent BIGINT, ts TIMESTAMP METADATA FROM 'timestamp', \
         WATERMARK FOR ts AS ts - INTERVAL '10' SECOND)\n  \
         WITH ({kafka}, 'subscribe' = '{from}', 'startingOffsets' = 'earliest');\n\
         CREATE VIEW keyed AS SELECT id AS k, to_timestamp_micros(sent) AS sent_at, ts FROM a;\n\
         INSERT INTO results SELECT k, count AS n \
         FROM running_count(TABLE keyed PARTITION BY k, time => DESCRIPTOR(sent_at), timeout => INTERVAL '30' MINUTE) \
         EMIT UPDATES;"
    )
}

#[cfg(test)]
mod tests {
    use yeoul_stream::parse_job;

    use super::*;

    #[test]
    fn the_job_is_understood() {
        let queries = parse_job(&job("localhost:1", "in", "out")).unwrap();
        assert_eq!(queries.len(), 1);
    }

    #[test]
    fn the_first_row_of_a_round_is_that_with_a_new_count() {
        let mut seen = Seen::default();
        for (count, now) in [(1, 10), (1, 20), (2, 30), (2, 40), (1, 50)] {
            seen.add(count, now);
        }
        assert_eq!((seen.first_counts, seen.greatest), (3, (2, 30)));
    }
}
