//! `yeoul bench stream`: latency of queries from Kafka to Kafka, beside a loop that only consumes and produces, with the same
//! producer and consumer around each, one after the other.

pub mod act;
mod pipelines;
pub mod two_streams;
pub mod windowed_count;

pub use pipelines::Pipeline;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use yeoul_base::{Error, ErrorKind, Result, quantile};
use yeoul_stream::connectors::kafka::measure::{ages_ms, bare_loop, create_topics, feed};
use yeoul_stream::state::MemoryShare;
use yeoul_stream::{dataflow, parse_job};

use crate::findings::{Bar, Finding, Unit};
use pipelines::Coverage;

/// Ages of the records of the first part of a run are not counted: clients connect, and code is warmed.
const WARM_UP: f64 = 0.1;
/// How long the last records may take after the producer has ended.
const LATE_MAX: Duration = Duration::from_secs(30);

/// What to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Address of the broker, in which topics are made that stay.
    pub servers: String,
    /// Records a second, a case each.
    pub rates: Vec<u32>,
    /// Queries, a case each.
    pub pipelines: Vec<Pipeline>,
    /// Time for which records come in a case.
    pub time: Duration,
}

/// Measures every case; `say` gets each finding as soon as it is there.
///
/// # Errors
/// `DataLoss` if records are missing; as Kafka says.
pub fn run(plan: &Plan, checkpoint: &Path, mut say: impl FnMut(&Finding)) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let run_id = yeoul_stream::checkpoint::new_id();
    for rate in &plan.rates {
        let name = |who: &str, end: &str| format!("yeoul-bench-{}-{rate}-{who}-{end}", &run_id[..8]);
        let (from, to) = (vec![name("loop", "in")], name("loop", "out"));
        let peers = measure(plan, *rate, Pipeline::Stateless, (&from, &to), |is_stopped| {
            bare_loop(&plan.servers, &from[0], &to, is_stopped)
        })?;
        for pipeline in &plan.pipelines {
            let who = pipeline.name();
            let from: Vec<String> = (0..pipeline.inputs()).map(|n| name(who, &format!("in{n}"))).collect();
            let to = name(who, "out");
            let folder = checkpoint.join(format!("{rate}-{who}"));
            let job = pipeline.job(&plan.servers, &from, &to);
            let ours =
                measure(plan, *rate, *pipeline, (&from, &to), |is_stopped| query(&job, &folder, is_stopped))?;
            let bar = Bar::P99AtMost(pipeline.p99_ms_max(quantile(&peers, 0.99)));
            let [mine, its] =
                [&ours, &peers].map(|ages| format!("{:.1}/{:.1}", quantile(ages, 0.5), quantile(ages, 0.99)));
            let name = format!("{who}, {rate} records/s, p50/p99: {mine} ms, the loop {its} ms").into();
            let peers = peers.clone();
            let finding =
                Finding { name, unit: Unit::Milliseconds, bytes: None, ours, peer: "bare loop", peers, bar };
            say(&finding);
            findings.push(finding);
        }
    }
    Ok(findings)
}

/// Ages of the records that come through a pipeline.
fn measure(
    plan: &Plan,
    rate: u32,
    pipeline: Pipeline,
    (from, to): (&[String], &str),
    work: impl FnOnce(&AtomicBool) -> Result<()> + Send,
) -> Result<Vec<f64>> {
    let topics: Vec<&str> = from.iter().map(String::as_str).chain([to]).collect();
    create_topics(&plan.servers, &topics)?;
    let each = (rate / pipeline.inputs() as u32).max(1);
    let expected = pipeline.expected((plan.time.as_secs_f64() * f64::from(each)) as u64);
    let (is_stopped, is_late) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut coverage = Coverage::new(pipeline);
    let ages = thread::scope(|scope| {
        let work = scope.spawn(|| work(&is_stopped));
        let is_last = |value: &Value| {
            coverage.add(value);
            coverage.records >= expected
        };
        let ages = scope.spawn(|| ages_ms(&plan.servers, to, is_last, &is_late));
        let feeders: Vec<_> =
            from.iter().map(|topic| scope.spawn(|| feed(&plan.servers, topic, each, plan.time))).collect();
        let broke = |_| Error::new(ErrorKind::Internal, "a measuring thread broke");
        let fed: Result<Vec<u64>> = feeders.into_iter().map(|feeder| feeder.join().map_err(broke)?).collect();
        let deadline = std::time::Instant::now() + LATE_MAX;
        while fed.is_ok()
            && !ages.is_finished()
            && !work.is_finished()
            && std::time::Instant::now() < deadline
        {
            thread::sleep(Duration::from_millis(10));
        }
        is_late.store(true, Ordering::Relaxed);
        is_stopped.store(true, Ordering::Relaxed);
        work.join().map_err(broke)??;
        fed?;
        ages.join().map_err(broke)?
    })?;
    if coverage.records < expected {
        let text = format!(
            "{} of {expected} records came through {} within {} s",
            coverage.records,
            pipeline.name(),
            LATE_MAX.as_secs()
        );
        return Err(Error::new(ErrorKind::DataLoss, text));
    }
    Ok(ages[(ages.len() as f64 * WARM_UP) as usize..].to_vec())
}

/// Ours, until it is told to stop.
fn query(job: &str, checkpoint: &Path, is_stopped: &AtomicBool) -> Result<()> {
    let query = parse_job(job)?.pop().expect("the job has one query");
    let handle = dataflow::start(query, checkpoint, MemoryShare::default(), |_| {})?;
    while handle.is_active() && !is_stopped.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(10));
    }
    handle.stop();
    handle.wait()
}
