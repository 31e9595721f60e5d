//! A windowed count of JSON in Kafka on one core: a backlog is read, counted and written to Kafka by `yeoul stream run`.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use yeoul_base::{Error, ErrorKind, Result};
use yeoul_stream::connectors::kafka::measure::{create_topics, fill, read};

use super::Pipeline;
use super::own_process::OwnProcess;
use super::pipelines::Coverage;
use crate::findings::{Bar, Finding, Unit};

/// Records of the backlog.
const RECORDS: u64 = 2_000_000;
/// The core that the process has, with all its threads.
const CORE: usize = 0;
/// Millions of records a second.
const RATE_MIN: f64 = 0.2;
/// Longest time for a backlog.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Counts a backlog so many times, from the start of the process to the last count behind its sink.
///
/// # Errors
/// `DataLoss` if counts are missing; as Kafka says; `Cancelled` by `stop`.
pub fn measure(servers: &str, folder: &Path, rounds: usize, stop: &AtomicBool) -> Result<Finding> {
    let run_id = yeoul_stream::checkpoint::new_id();
    let from = vec![format!("yeoul-bench-{}-json-in", &run_id[..8])];
    create_topics(servers, &[&from[0]])?;
    fill(servers, &from[0], 0..RECORDS)?;
    let mut ours = Vec::new();
    for round in 0..rounds {
        let to = format!("yeoul-bench-{}-json-out{round}", &run_id[..8]);
        create_topics(servers, &[&to])?;
        let job = Pipeline::WindowedCount.job(servers, &from, &to);
        let begin = Instant::now();
        let mut process = OwnProcess::of_job_on_core(&job, folder, &format!("json-{round}"), CORE)?;
        let counted = count(servers, &to, &mut process, stop)?;
        ours.push(RECORDS as f64 / 1e6 / (counted - begin).as_secs_f64());
        process.stop()?;
    }
    let name =
        "windowed count of 1000 keys from JSON in Kafka, one core, from the start of the process".into();
    let bar = Bar::MedianAtLeast(RATE_MIN);
    Ok(Finding { name, unit: Unit::MillionsPerSecond, bytes: None, ours, peer: "", peers: Vec::new(), bar })
}

/// The moment when the last count has come.
fn count(servers: &str, to: &str, process: &mut OwnProcess, stop: &AtomicBool) -> Result<Instant> {
    let coverage = Mutex::new(Coverage::new(Pipeline::WindowedCount));
    let covered = || coverage.lock().map_or(0, |coverage| coverage.records);
    let is_over = AtomicBool::new(false);
    let take = |value: &Value, _| {
        if let Ok(mut coverage) = coverage.lock() {
            coverage.add(value);
        }
        covered() < RECORDS
    };
    thread::scope(|scope| {
        let reader = scope.spawn(|| read(servers, to, take, &is_over).map(|()| Instant::now()));
        let deadline = Instant::now() + PATIENCE;
        let mut works = Ok(());
        while !reader.is_finished() && works.is_ok() {
            thread::sleep(LOOK_EVERY);
            works = process.check();
            if stop.load(Ordering::Relaxed) {
                works = Err(Error::new(ErrorKind::Cancelled, "interrupted"));
            } else if Instant::now() > deadline {
                let text = format!("{} of {RECORDS} records are counted", covered());
                works = Err(Error::new(ErrorKind::DataLoss, text));
            }
        }
        is_over.store(true, Ordering::Relaxed);
        let read = reader.join().map_err(|_| Error::new(ErrorKind::Internal, "a measuring thread broke"))?;
        works.and(read)
    })
}
