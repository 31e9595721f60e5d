//! Metrics for Prometheus under Celeborn's names, so that its dashboards show what exists here as well. Panels for what
//! does not stay empty: Flink's streams, sorting, HDFS, congestion control, Netty's and the JVM's memory.
//!
//! Celeborn writes a gauge `Name` as `metrics_Name_Value`, a counter as `metrics_Name_Count`, and a timer as
//! `metrics_Name_{Count,Max,Mean,Min,50thPercentile,…}` in milliseconds, each with the label `role`. Prometheus itself
//! adds the label `instance`.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use yeoul_base::process;
pub use yeoul_net::metrics::{Counter, Timer};

/// A distribution of sizes in bytes.
#[derive(Debug, Default)]
pub struct Sizes(Timer);

impl Sizes {
    /// Adds a size.
    pub fn record(&self, bytes: u64) {
        self.0.record(Duration::from_micros(bytes)); // a timer counts in microseconds
    }
}

/// A number of things that are under way.
#[derive(Debug, Default)]
pub struct UnderWay(AtomicU64);

impl UnderWay {
    /// Counts one more until the result is dropped.
    pub fn begin(&self) -> Begun<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Begun(self)
    }

    /// How many there are now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One of those that are [`UnderWay`].
#[derive(Debug)]
pub struct Begun<'a>(&'a UnderWay);

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The requests on an `rpc` port.
#[derive(Debug, Default)]
pub struct RpcMeters {
    /// From a request's head until its body is there.
    queue: Timer,
    /// From then until its answer.
    process: Timer,
    open: UnderWay,
}

impl RpcMeters {
    /// A request whose head has arrived.
    pub fn begin(&self) -> RpcRequest<'_> {
        RpcRequest { meters: self, since: Instant::now(), is_whole: false, _open: self.open.begin() }
    }
}

/// A request, from its head to its answer, which is when this is dropped.
#[derive(Debug)]
pub struct RpcRequest<'a> {
    meters: &'a RpcMeters,
    since: Instant,
    is_whole: bool,
    _open: Begun<'a>,
}

impl RpcRequest<'_> {
    /// Its body is there.
    pub fn arrived(&mut self) {
        self.meters.queue.record(self.since.elapsed());
        (self.since, self.is_whole) = (Instant::now(), true);
    }
}

impl Drop for RpcRequest<'_> {
    fn drop(&mut self) {
        if self.is_whole {
            self.meters.process.record(self.since.elapsed());
        }
    }
}

/// Writes the text that Prometheus reads, under Celeborn's names.
#[derive(Debug)]
pub struct Exposition(yeoul_net::metrics::Exposition);

impl Exposition {
    /// For a `Master` or a `Worker`.
    pub fn new(role: &str) -> Self {
        Self(yeoul_net::metrics::Exposition::new(&[("role", role)]))
    }

    /// A number that goes up and down, with what it counts.
    pub fn gauge(&mut self, name: &str, what: &str, value: impl Display) {
        self.gauge_of(name, what, &[], value);
    }

    /// A gauge with further labels. The lines of one name stand together, as Prometheus wants them.
    pub fn gauge_of(&mut self, name: &str, what: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.gauge(&format!("metrics_{name}_Value"), what, labels, value);
    }

    /// A number that only goes up.
    pub fn counter(&mut self, name: &str, what: &str, value: impl Display) {
        self.0.counter(&format!("metrics_{name}_Count"), what, &[], value);
    }

    /// The metrics that every program gives of its process, under Prometheus' standard names, and those that Celeborn's
    /// dashboards show.
    pub fn process(&mut self) {
        self.0.process();
        if let Some(seconds) = process::cpu_seconds() {
            // Celeborn's name, although there is no JVM.
            self.gauge("JVMCPUTime", "CPU time used, in nanoseconds", (seconds * 1e9) as u64);
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
        self.distribution(name, what, timer, ["longest", "shortest", "time, in ms"], 1000.0);
    }

    /// The distribution of sizes, in bytes.
    pub fn sizes(&mut self, name: &str, what: &str, sizes: &Sizes) {
        self.distribution(name, what, &sizes.0, ["largest", "smallest", "size, in bytes"], 1.0);
    }

    /// The requests on an `rpc` port.
    pub fn rpc(&mut self, meters: &RpcMeters) {
        let of = "requests on the rpc port";
        self.timer("RpcQueueTime", &format!("{of}, from the head until the body is there"), &meters.queue);
        self.timer("RpcProcessTime", &format!("{of}, from then to the answer"), &meters.process);
        self.gauge("RpcQueueLength", &format!("{of} that are not answered yet"), meters.open.get());
    }

    fn distribution(&mut self, name: &str, what: &str, timer: &Timer, words: [&str; 3], unit: f64) {
        let [most, least, value] = words;
        let reading = timer.read();
        let scaled = |number: u64| number as f64 / unit;
        self.counter(name, what, reading.count);
        let mut of_all = |suffix: &str, which: &str, number: f64| {
            let what = format!("{what}: the {which} {value}");
            self.0.gauge(&format!("metrics_{name}{suffix}"), &what, &[], number);
        };
        of_all("_Max", most, scaled(reading.max_us));
        of_all("_Mean", "mean", scaled(reading.sum_us) / reading.count.max(1) as f64);
        of_all("_Min", least, scaled(reading.min_us));
        for (suffix, part) in [
            ("_50thPercentile", 0.5),
            ("_75thPercentile", 0.75),
            ("_95thPercentile", 0.95),
            ("_98thPercentile", 0.98),
            ("_99thPercentile", 0.99),
            ("_999thPercentile", 0.999),
        ] {
            of_all(suffix, &format!("{part} quantile of the"), scaled(reading.quantile_us(part)));
        }
    }

    /// The text.
    pub fn finish(self) -> String {
        self.0.finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn requests_and_sizes_are_shown_as_what_they_are() {
        let (rpc, sizes) = (RpcMeters::default(), Sizes::default());
        let mut first = rpc.begin();
        first.arrived();
        let second = rpc.begin();
        drop(first);
        [10, 3_000_000_000].into_iter().for_each(|bytes| sizes.record(bytes));
        let shown = || {
            let mut exposition = Exposition::new("Worker");
            exposition.rpc(&rpc);
            exposition.sizes("PartitionFileSizeBytes", "locations", &sizes);
            exposition.finish()
        };
        let text = shown();
        for line in [
            "metrics_RpcQueueTime_Count{role=\"Worker\"} 1\n",
            "metrics_RpcProcessTime_Count{role=\"Worker\"} 1\n",
            "metrics_RpcQueueLength_Value{role=\"Worker\"} 1\n",
            "metrics_PartitionFileSizeBytes_Count{role=\"Worker\"} 2\n",
            "metrics_PartitionFileSizeBytes_Max{role=\"Worker\"} 3000000000\n",
            "metrics_PartitionFileSizeBytes_Mean{role=\"Worker\"} 1500000005\n",
            "# HELP metrics_PartitionFileSizeBytes_Min locations: the smallest size, in bytes\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        drop(second);
        assert!(shown().contains("metrics_RpcQueueLength_Value{role=\"Worker\"} 0\n"));
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
