//! One case: records go into topics at a steady rate, a party carries them, and a consumer behind it sees how old they are.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use yeoul_base::{Error, ErrorKind, Result, quantile};
use yeoul_stream::connectors::kafka::measure::{create_topics, feed, now_us, read};

use super::cpu_time::cpu_seconds;
use super::party::{Case, Party, text_of};
use super::pipelines::Coverage;

/// Longest time to the first row: a JVM compiles what it runs.
const FIRST_MAX: Duration = Duration::from_secs(90);
/// Longest time for the last records after the producer has ended.
const LATE_MAX: Duration = Duration::from_secs(30);
/// Times between looks how far a party is, and whether it still works.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Microseconds that the producer may be behind at the end.
const FEED_LATE_US_MAX: i64 = 500_000;
/// The most that the median latency may be of the time that counts.
const LAG_MAX: f64 = 0.5;
/// Quantiles that are kept of many ages, from the least to the most.
const QUANTILES: usize = 1001;

/// Times of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    /// From the first row that comes out: not counted.
    pub warm_up: Duration,
    /// Time that is counted.
    pub measured: Duration,
}

/// Outcome of a case.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Every record came through.
    Measured(Measured),
    /// The party's own words, or what is missing.
    Failed(String),
}

/// Measurements of a party in a case.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Milliseconds from when a record was due to its arrival behind the party; a thousand quantiles, if there were more.
    pub ages_ms: Vec<f64>,
    /// Seconds of CPU time of all its processes for a million records that went in.
    pub cpu_seconds_per_million: f64,
    /// The most memory that its processes held, in bytes.
    pub peak_bytes: u64,
}

/// Records that came out so far.
struct Seen {
    coverage: Coverage,
    /// When each record was due, and how long it took, in microseconds.
    ages_us: Vec<(i64, i64)>,
}

/// Readings of the clocks at two moments.
struct Interval {
    from_us: i64,
    to_us: i64,
    cpu_seconds: f64,
    peak_bytes: u64,
}

/// Measures a party in a case.
///
/// # Errors
/// As Kafka says; `Cancelled` by `stop`. What the party does wrong is an outcome.
pub(super) fn measure(
    case: &Case,
    times: &Times,
    party: &mut dyn Party,
    stop: &AtomicBool,
) -> Result<Outcome> {
    let topics: Vec<&str> = case.from.iter().chain([&case.to]).map(String::as_str).collect();
    create_topics(&case.servers, &topics)?;
    if let Err(error) = party.start(case) {
        return Ok(Outcome::Failed(text_of(&error)));
    }
    let (carried, seen) = carry(case, times, party, stop)?;
    // One that has ended by itself says why.
    let outcome = match (carried, party.stop()) {
        (Ok(interval), Ok(())) => judged(measured(case, &interval, &seen), times),
        (Err(text), Ok(())) => Outcome::Failed(text),
        (_, Err(error)) => Outcome::Failed(text_of(&error)),
    };
    Ok(outcome)
}

/// Feeds and reads while the party works; gives the interval that counts, or what is missing.
fn carry(
    case: &Case,
    times: &Times,
    party: &mut dyn Party,
    stop: &AtomicBool,
) -> Result<(Result<Interval, String>, Seen)> {
    let seen = Mutex::new(Seen { coverage: Coverage::new(case.pipeline), ages_us: Vec::new() });
    let (is_fed, is_over, expected) =
        (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(u64::MAX));
    let take = |value: &Value, now: i64| {
        let mut seen = lock(&seen);
        seen.coverage.add(value);
        let sent = value["sent"].as_i64().unwrap_or(0);
        seen.ages_us.push((sent, now - sent));
        seen.coverage.records < expected.load(Ordering::Relaxed)
    };
    let each = (case.rate / case.from.len() as u32).max(1);
    let carried = thread::scope(|scope| -> Result<Result<Interval, String>> {
        let reader = scope.spawn(|| {
            // Whatever ends it, nobody waits for it.
            let read = read(&case.servers, &case.to, take, &is_over);
            is_over.store(true, Ordering::Relaxed);
            read
        });
        let feeders: Vec<_> =
            case.from.iter().map(|topic| scope.spawn(|| feed(&case.servers, topic, each, &is_fed))).collect();
        let timed = time(times, party, &seen, stop);
        is_fed.store(true, Ordering::Relaxed);
        let fed: Result<Vec<(u64, i64)>> =
            feeders.into_iter().map(|feeder| feeder.join().map_err(broke)?).collect();
        if let (Ok(fed), Ok(Ok(_))) = (&fed, &timed) {
            let expected_now =
                case.pipeline.expected(fed.iter().map(|(records, _)| *records).min().unwrap_or(0));
            expected.store(expected_now, Ordering::Relaxed);
            let deadline = Instant::now() + LATE_MAX;
            while lock(&seen).coverage.records < expected_now
                && !is_over.load(Ordering::Relaxed)
                && Instant::now() < deadline
            {
                thread::sleep(LOOK_EVERY);
            }
        }
        is_over.store(true, Ordering::Relaxed);
        reader.join().map_err(broke)??;
        let fed_until_us = fed?.into_iter().map(|(_, due_us)| due_us).min().unwrap_or(0);
        Ok(timed?.and_then(|interval| interval.if_fed_until(fed_until_us)))
    })?;
    let seen = seen.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (came, expected) = (seen.coverage.records, expected.into_inner());
    let carried = carried.and_then(|interval| {
        if came >= expected {
            Ok(interval)
        } else {
            let late = LATE_MAX.as_secs();
            Err(format!("{came} of {expected} records came through until {late} s after the last one"))
        }
    });
    Ok((carried, seen))
}

/// Waits for the first row, warms up, and takes the interval that counts.
fn time(
    times: &Times,
    party: &mut dyn Party,
    seen: &Mutex<Seen>,
    stop: &AtomicBool,
) -> Result<Result<Interval, String>> {
    let begin = Instant::now();
    while lock(seen).ages_us.is_empty() {
        if begin.elapsed() > FIRST_MAX {
            return Ok(Err(format!("nothing came out within {} s", FIRST_MAX.as_secs())));
        }
        if let Err(text) = wait(CHECK_EVERY, party, stop, || !lock(seen).ages_us.is_empty())? {
            return Ok(Err(text));
        }
    }
    if let Err(text) = wait(times.warm_up, party, stop, || false)? {
        return Ok(Err(text));
    }
    let processes = party.processes();
    yeoul_memory::reset_peak(&processes);
    let (from_us, cpu_before) = (now_us(), cpu_seconds(&processes));
    if let Err(text) = wait(times.measured, party, stop, || false)? {
        return Ok(Err(text));
    }
    let (to_us, cpu_after) = (now_us(), cpu_seconds(&processes));
    let peak_bytes = yeoul_memory::peak_bytes(&processes).unwrap_or(0);
    Ok(Ok(Interval { from_us, to_us, cpu_seconds: cpu_after - cpu_before, peak_bytes }))
}

/// Waits so long, or until something is done; gives what became of the party, if it does not work any more.
fn wait(
    time: Duration,
    party: &mut dyn Party,
    stop: &AtomicBool,
    is_done: impl Fn() -> bool,
) -> Result<Result<(), String>> {
    let begin = Instant::now();
    while begin.elapsed() < time && !is_done() {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Cancelled, "interrupted"));
        }
        thread::sleep(LOOK_EVERY.min(time.saturating_sub(begin.elapsed())));
    }
    Ok(party.check().map_err(|error| text_of(&error)))
}

impl Interval {
    /// Itself, if the producer sent all that was due in it.
    fn if_fed_until(self, due_us: i64) -> Result<Self, String> {
        if due_us + FEED_LATE_US_MAX >= self.to_us {
            return Ok(self);
        }
        let late_ms = (self.to_us - due_us) / 1000;
        Err(format!(
            "the measuring producer was {late_ms} ms behind: the machine or the broker is too busy to measure"
        ))
    }
}

/// One that does not keep pace has no latency to speak of, and does its work after the time that counts.
fn judged(measured: Measured, times: &Times) -> Outcome {
    let median_ms = measured.latency_ms(0.5);
    if measured.ages_ms.is_empty() {
        Outcome::Failed("no record of the time that counts came out by itself".to_owned())
    } else if median_ms > times.measured.as_secs_f64() * 1000.0 * LAG_MAX {
        let seconds = times.measured.as_secs();
        Outcome::Failed(format!(
            "it does not keep pace: half of the records took {median_ms:.0} ms or more in {seconds} s"
        ))
    } else {
        Outcome::Measured(measured)
    }
}

fn measured(case: &Case, interval: &Interval, seen: &Seen) -> Measured {
    let within = |due: i64| due >= interval.from_us && due < interval.to_us;
    let ages = seen.ages_us.iter().filter(|(due, _)| within(*due)).map(|(_, age)| *age as f64 / 1000.0);
    let seconds = (interval.to_us - interval.from_us) as f64 / 1e6;
    let millions = f64::from(case.rate) * seconds / 1e6;
    Measured {
        ages_ms: quantiles(ages.collect()),
        cpu_seconds_per_million: interval.cpu_seconds / millions,
        peak_bytes: interval.peak_bytes,
    }
}

/// The values in order, or so many of them that their quantiles are the same to a thousandth.
fn quantiles(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    if values.len() <= QUANTILES {
        return values;
    }
    let last = values.len() - 1;
    (0..QUANTILES).map(|part| values[(last * part).div_ceil(QUANTILES - 1)]).collect()
}

impl Measured {
    /// A quantile of the latency, in milliseconds.
    pub fn latency_ms(&self, part: f64) -> f64 {
        quantile(&self.ages_ms, part)
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn broke(_: Box<dyn std::any::Any + Send>) -> Error {
    Error::new(ErrorKind::Internal, "a measuring thread broke")
}

#[cfg(test)]
mod tests {
    use super::super::pipelines::Pipeline;
    use super::*;

    #[test]
    fn quantiles_of_many_values_are_theirs() {
        let values: Vec<f64> = (0..100_000).rev().map(f64::from).collect();
        let kept = quantiles(values.clone());
        assert_eq!(kept.len(), QUANTILES);
        for part in [0.0, 0.5, 0.95, 0.99, 1.0] {
            assert_eq!(quantile(&kept, part), quantile(&values, part), "{part}");
        }
        assert_eq!(quantiles(vec![3.0, 1.0, 2.0]), [1.0, 2.0, 3.0]);
    }

    #[test]
    fn what_cannot_be_measured_has_failed() {
        let times = Times { warm_up: Duration::ZERO, measured: Duration::from_secs(10) };
        let judged = |ages_ms: &[f64]| {
            let ages_ms = ages_ms.to_vec();
            judged(Measured { ages_ms, cpu_seconds_per_million: 1.0, peak_bytes: 1 }, &times)
        };
        assert!(matches!(judged(&[4999.0]), Outcome::Measured(_)));
        assert!(matches!(judged(&[5001.0]), Outcome::Failed(text) if text.contains("does not keep pace")));
        assert!(matches!(judged(&[]), Outcome::Failed(text) if text.contains("no record")));
        let interval = || Interval { from_us: 0, to_us: 10_000_000, cpu_seconds: 0.0, peak_bytes: 0 };
        assert!(interval().if_fed_until(9_500_000).is_ok());
        let text = interval().if_fed_until(9_000_000).err().unwrap();
        assert!(text.starts_with("the measuring producer was 1000 ms behind"), "{text}");
    }

    #[test]
    fn only_the_interval_counts() {
        let case = Case {
            servers: String::new(),
            pipeline: Pipeline::Stateless,
            rate: 1000,
            from: vec![],
            to: String::new(),
        };
        let interval = Interval { from_us: 10_000_000, to_us: 20_000_000, cpu_seconds: 0.5, peak_bytes: 7 };
        let ages_us =
            vec![(9_999_999, 50_000_000), (10_000_000, 1500), (19_999_999, 2500), (20_000_000, 60_000_000)];
        let seen = Seen { coverage: Coverage::new(Pipeline::Stateless), ages_us };
        let measured = measured(&case, &interval, &seen);
        assert_eq!(measured.ages_ms, [1.5, 2.5]);
        // Half a second for ten thousand records.
        assert_eq!(measured.cpu_seconds_per_million, 50.0);
        assert_eq!(measured.latency_ms(1.0), 2.5);
    }
}
