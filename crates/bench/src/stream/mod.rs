//! `yeoul bench stream`: latency of a stateless query from Kafka to Kafka, beside a loop that only consumes and produces, with the
//! same producer and consumer around both, one after the other.

pub mod act;
pub mod two_streams;
pub mod windowed_count;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use yeoul_base::{Error, ErrorKind, Result, quantile};
use yeoul_stream::connectors::kafka::measure::{ages_ms, bare_loop, create_topics, feed};
use yeoul_stream::state::MemoryShare;
use yeoul_stream::{dataflow, parse_job};

use crate::findings::{Bar, Finding, Unit};

/// Ages of the records of the first part of a run are not counted: clients connect, and code is warmed.
const WARM_UP: f64 = 0.1;
/// How long the last records may take after the producer has ended.
const LATE_MAX: Duration = Duration::from_secs(30);
/// What the 99th percentile may be of the bare loop's.
const P99_RATIO_MAX: f64 = 1.5;

/// What to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Address of the broker, in which topics are made that stay.
    pub servers: String,
    /// Records a second, a case each.
    pub rates: Vec<u32>,
    /// How long records come in a case, for each of the two.
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
        let pair = |who: &str| (name(who, "in"), name(who, "out"));
        let (from, to) = pair("loop");
        let peers = measure(plan, *rate, (&from, &to), |is_stopped| {
            bare_loop(&plan.servers, &from, &to, is_stopped)
        })?;
        let (from, to) = pair("query");
        let folder = checkpoint.join(rate.to_string());
        let ours = measure(plan, *rate, (&from, &to), |is_stopped| {
            query(&plan.servers, &from, &to, &folder, is_stopped)
        })?;
        let bar = Bar::P99AtMost((P99_RATIO_MAX * quantile(&peers, 0.99) * 1000.0).round() / 1000.0);
        let [mine, its] =
            [&ours, &peers].map(|ages| format!("{:.1}/{:.1}", quantile(ages, 0.5), quantile(ages, 0.99)));
        let name = format!("{rate} records/s, p50/p99: {mine} ms, the loop {its} ms").into();
        let finding =
            Finding { name, unit: Unit::Milliseconds, bytes: None, ours, peer: "bare loop", peers, bar };
        say(&finding);
        findings.push(finding);
    }
    Ok(findings)
}

/// Ages of the records that come through a pipeline.
fn measure(
    plan: &Plan,
    rate: u32,
    (from, to): (&str, &str),
    pipeline: impl FnOnce(&AtomicBool) -> Result<()> + Send,
) -> Result<Vec<f64>> {
    create_topics(&plan.servers, &[from, to])?;
    let count = (plan.time.as_secs_f64() * f64::from(rate)) as usize;
    let is_stopped = Arc::new(AtomicBool::new(false));
    let is_late = AtomicBool::new(false);
    let ages = thread::scope(|scope| {
        let pipeline = scope.spawn(|| pipeline(&is_stopped));
        let ages = scope.spawn(|| ages_ms(&plan.servers, to, count, &is_late));
        let fed = feed(&plan.servers, from, rate, plan.time);
        let deadline = std::time::Instant::now() + LATE_MAX;
        while fed.is_ok()
            && !ages.is_finished()
            && !pipeline.is_finished()
            && std::time::Instant::now() < deadline
        {
            thread::sleep(Duration::from_millis(10));
        }
        is_late.store(true, Ordering::Relaxed);
        is_stopped.store(true, Ordering::Relaxed);
        let broke = |_| Error::new(ErrorKind::Internal, "a measuring thread broke");
        pipeline.join().map_err(broke)??;
        fed?;
        ages.join().map_err(broke)?
    })?;
    if ages.len() < count {
        let text = format!("{} of {count} records came through within {} s", ages.len(), LATE_MAX.as_secs());
        return Err(Error::new(ErrorKind::DataLoss, text));
    }
    Ok(ages[(count as f64 * WARM_UP) as usize..].to_vec())
}

/// Ours, until it is told to stop.
fn query(servers: &str, from: &str, to: &str, checkpoint: &Path, is_stopped: &AtomicBool) -> Result<()> {
    let kafka = format!("'connector' = 'kafka', 'kafka.bootstrap.servers' = '{servers}', 'format' = 'json'");
    let job = format!(
        "CREATE STREAM records (id BIGINT, sent BIGINT) WITH ({kafka}, 'subscribe' = '{from}', 'startingOffsets' = 'earliest');\n\
         CREATE SINK copies WITH ({kafka}, 'topic' = '{to}');\n\
         INSERT INTO copies SELECT id, sent FROM records WHERE id >= 0;"
    );
    let query = parse_job(&job)?.pop().expect("the job has one query");
    let handle = dataflow::start(query, checkpoint, MemoryShare::default(), |_| {})?;
    while handle.is_active() && !is_stopped.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(10));
    }
    handle.stop();
    handle.wait()
}
