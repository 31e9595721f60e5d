//! Metrics for Prometheus under Celeborn's names, so that the dashboards of 0.5 show what exists here as well. Panels
//! for what does not stay empty: Flink's streams, sorting, HDFS, congestion control, Netty's and the JVM's memory.
//!
//! Celeborn writes a gauge `Name` as `metrics_Name_Value`, a counter as `metrics_Name_Count`, and a timer as
//! `metrics_Name_{Count,Max,Mean,Min,50thPercentile,…}` in milliseconds, each with the label `role`. Prometheus itself
//! adds the label `instance`.

use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use yeoul_base::{ResidentSet, process};

/// Writes the text that Prometheus reads.
#[derive(Debug)]
pub struct Exposition {
    text: String,
    labels: String,
    /// The metric of the lines before: its HELP and TYPE are written once.
    last: String,
}

impl Exposition {
    /// For a `Master` or a `Worker`.
    pub fn new(role: &str) -> Self {
        Self { text: String::new(), labels: format!("role=\"{role}\""), last: String::new() }
    }

    /// A number that goes up and down, with what it counts.
    pub fn gauge(&mut self, name: &str, what: &str, value: impl Display) {
        self.line("gauge", &format!("metrics_{name}_Value"), what, "", value);
    }

    /// A gauge with further labels. The lines of one name stand together, as Prometheus wants them.
    pub fn gauge_of(&mut self, name: &str, what: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels = labels.iter().map(|(label, text)| format!(",{label}=\"{}\"", escaped(text)));
        self.line("gauge", &format!("metrics_{name}_Value"), what, &labels.collect::<String>(), value);
    }

    /// A number that only goes up.
    pub fn counter(&mut self, name: &str, what: &str, value: impl Display) {
        self.line("counter", &format!("metrics_{name}_Count"), what, "", value);
    }

    /// The metrics that every program gives of its process, under Prometheus' standard names, and those that Celeborn's
    /// dashboards show.
    pub fn process(&mut self) {
        let cpu_seconds = process::cpu_seconds();
        if let Some(seconds) = cpu_seconds {
            self.line("counter", "process_cpu_seconds_total", "CPU time used, in seconds", "", seconds);
            // Celeborn's name, although there is no JVM.
            self.gauge("JVMCPUTime", "CPU time used, in nanoseconds", (seconds * 1e9) as u64);
        }
        if let Some(bytes) = ResidentSet::open().and_then(|resident| resident.bytes()) {
            self.line("gauge", "process_resident_memory_bytes", "memory held (RSS), in bytes", "", bytes);
        }
        if let Some(count) = process::open_files() {
            self.line("gauge", "process_open_fds", "files and sockets that are open", "", count);
        }
        if let Some(load) = process::system_load() {
            self.gauge("LastMinuteSystemLoad", "the machine's load average of the last minute", load);
        }
        if let Ok(processors) = std::thread::available_parallelism() {
            self.gauge("AvailableProcessors", "processors that may be used", processors);
        }
    }

    /// The distribution of a timer's times, in milliseconds.
    pub fn timer(&mut self, name: &str, what: &str, timer: &Timer) {
        let reading = timer.read();
        let ms = |us: u64| us as f64 / 1000.0;
        self.counter(name, what, reading.count);
        let mut of_all = |suffix: &str, which: &str, ms: f64| {
            let what = format!("{what}: the {which} time, in ms");
            self.line("gauge", &format!("metrics_{name}{suffix}"), &what, "", ms);
        };
        of_all("_Max", "longest", ms(reading.max_us));
        of_all("_Mean", "mean", ms(reading.sum_us) / reading.count.max(1) as f64);
        of_all("_Min", "shortest", ms(reading.min_us));
        for (suffix, part) in [
            ("_50thPercentile", 0.5),
            ("_75thPercentile", 0.75),
            ("_95thPercentile", 0.95),
            ("_98thPercentile", 0.98),
            ("_99thPercentile", 0.99),
            ("_999thPercentile", 0.999),
        ] {
            of_all(suffix, &format!("{part} quantile of the"), ms(reading.percentile_us(part)));
        }
    }

    /// The text.
    pub fn finish(self) -> String {
        self.text
    }

    fn line(&mut self, kind: &str, name: &str, what: &str, label: &str, value: impl Display) {
        let labels = &self.labels;
        if self.last != name {
            self.text.push_str(&format!("# HELP {name} {what}\n# TYPE {name} {kind}\n"));
            self.last = name.to_owned();
        }
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{name}{{{labels}{label}}} {value}");
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Counts events since the process started.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds so many events.
    pub fn add(&self, times: u64) {
        self.0.fetch_add(times, Ordering::Relaxed);
    }

    /// The number of events.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Buckets per doubling of the time; a percentile is at most 1/8 too high.
const STEPS: u64 = 8;
/// Up to 2^43 microseconds, which is a hundred days; the last one also has longer times.
const BUCKETS: usize = 41 * STEPS as usize;

/// Times of an operation since the process started, in buckets.
#[derive(Debug)]
pub struct Timer {
    count: AtomicU64,
    sum_us: AtomicU64,
    max_us: AtomicU64,
    /// `u64::MAX` while nothing was counted.
    min_us: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

impl Default for Timer {
    fn default() -> Self {
        Self {
            count: AtomicU64::new(0),
            sum_us: AtomicU64::new(0),
            max_us: AtomicU64::new(0),
            min_us: AtomicU64::new(u64::MAX),
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl Timer {
    /// Runs an operation and counts its time.
    pub fn time<T>(&self, operation: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let outcome = operation();
        self.record(begun.elapsed());
        outcome
    }

    /// Counts one operation.
    pub fn record(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
        self.max_us.fetch_max(us, Ordering::Relaxed);
        self.min_us.fetch_min(us, Ordering::Relaxed);
        self.buckets[bucket(us)].fetch_add(1, Ordering::Relaxed);
    }

    /// How many operations were counted.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// What they took together.
    pub fn total(&self) -> Duration {
        Duration::from_micros(self.sum_us.load(Ordering::Relaxed))
    }

    fn read(&self) -> Reading {
        let max_us = self.max_us.load(Ordering::Relaxed);
        Reading {
            count: self.count.load(Ordering::Relaxed),
            sum_us: self.sum_us.load(Ordering::Relaxed),
            max_us,
            min_us: self.min_us.load(Ordering::Relaxed).min(max_us),
            buckets: self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect(),
        }
    }
}

struct Reading {
    count: u64,
    sum_us: u64,
    max_us: u64,
    min_us: u64,
    buckets: Vec<u64>,
}

impl Reading {
    fn percentile_us(&self, part: f64) -> u64 {
        let total: u64 = self.buckets.iter().sum();
        let rank = (total as f64 * part).ceil() as u64;
        let mut below = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            below += count;
            if *count > 0 && below >= rank {
                return upper_us(index).min(self.max_us);
            }
        }
        0
    }
}

/// Which bucket a time falls into: exact below 8 µs, then [`STEPS`] for each doubling.
fn bucket(us: u64) -> usize {
    if us < STEPS {
        return us as usize;
    }
    let exponent = u64::from(us.ilog2());
    let step = (us >> (exponent - 3)) - STEPS;
    (((exponent - 2) * STEPS + step) as usize).min(BUCKETS - 1)
}

/// The longest time of a bucket.
fn upper_us(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let (exponent, step) = (bucket / STEPS + 2, bucket % STEPS);
    ((STEPS + step + 1) << (exponent - 3)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_in_the_bucket_that_ends_at_or_behind_it() {
        for us in
            (0..5000).chain((13..40).map(|shift| 1 << shift)).chain((13..40).map(|shift| (1 << shift) - 1))
        {
            let upper = upper_us(bucket(us));
            assert!(upper >= us && upper <= us + us / 8, "{us} in a bucket up to {upper}");
            assert!(bucket(us) == 0 || upper_us(bucket(us) - 1) < us, "{us}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn the_text_has_celeborns_names_and_the_right_percentiles() {
        let timer = Timer::default();
        (1..=1000).for_each(|ms| timer.record(Duration::from_millis(ms)));
        let mut exposition = Exposition::new("Master");
        exposition.gauge("WorkerCount", "workers", 3);
        exposition.gauge_of("diskBytesWritten", "bytes", &[("tenantId", "t"), ("name", "a\"b")], 7);
        exposition.gauge_of("diskBytesWritten", "bytes", &[("name", "c")], 8);
        exposition.timer("OfferSlotsTime", "slot requests", &timer);
        exposition.timer("CommitFilesTime", "commits", &Timer::default());
        exposition.process();
        let text = exposition.finish();
        assert!(text.contains("metrics_WorkerCount_Value{role=\"Master\"} 3\n"), "{text}");
        assert!(text.contains("{role=\"Master\",tenantId=\"t\",name=\"a\\\"b\"} 7\n"), "{text}");
        assert_eq!(text.matches("# TYPE metrics_diskBytesWritten_Value gauge").count(), 1);
        for help in [
            "WorkerCount_Value workers",
            "OfferSlotsTime_Count slot requests",
            "OfferSlotsTime_999thPercentile slot requests: the 0.999 quantile of the time, in ms",
        ] {
            assert!(text.contains(&format!("# HELP metrics_{help}\n")), "{help}: {text}");
        }
        let names = |word: &str| {
            let lines = text.lines().filter_map(|line| line.strip_prefix(word));
            lines.map(|line| line.split(' ').next().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(names("# HELP "), names("# TYPE "), "each name has both, once");
        let value = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(&format!("{name}{{")));
            line.unwrap().rsplit(' ').next().unwrap().parse::<f64>().unwrap()
        };
        let number = |suffix: &str| value(&format!("metrics_OfferSlotsTime{suffix}"));
        assert_eq!((number("_Min"), value("metrics_CommitFilesTime_Min")), (1.0, 0.0));
        assert_eq!((number("_Count"), number("_Max"), number("_Mean")), (1000.0, 1000.0, 500.5));
        assert!((500.0..=563.0).contains(&number("_50thPercentile")));
        assert!((990.0..=1000.0).contains(&number("_99thPercentile")));
        assert!(value("process_resident_memory_bytes") > 1e6 && value("process_open_fds") >= 3.0);
        assert!(value("process_cpu_seconds_total") >= 0.0);
    }
}
