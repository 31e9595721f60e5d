//! The text that Prometheus reads.

use std::fmt::{Display, Write};

use yeoul_base::{ResidentSet, process};

use super::Timer;

/// The quantiles that a [`Timer`] is shown with.
const QUANTILES: [f64; 3] = [0.5, 0.95, 0.99];

/// Metrics as the text that Prometheus reads, version 0.0.4 of its format.
#[derive(Debug)]
pub struct Exposition {
    text: String,
    labels: String,
    /// The metric of the lines before: its HELP and TYPE are written once.
    last: String,
}

impl Exposition {
    /// An empty one. Each of its lines gets these labels.
    pub fn new(labels: &[(&str, &str)]) -> Self {
        Self { text: String::new(), labels: joined(labels), last: String::new() }
    }

    /// Adds a number that goes up and down, with what it counts. The lines of one name stand together, as Prometheus wants
    /// them.
    pub fn gauge(&mut self, name: &str, what: &str, labels: &[(&str, &str)], value: impl Display) {
        self.head("gauge", name, what);
        self.line(name, labels, value);
    }

    /// Adds a number that only goes up.
    pub fn counter(&mut self, name: &str, what: &str, labels: &[(&str, &str)], value: impl Display) {
        self.head("counter", name, what);
        self.line(name, labels, value);
    }

    /// Adds a timer's distribution, in seconds, as a summary: the name should end in `_seconds`.
    pub fn timer(&mut self, name: &str, what: &str, labels: &[(&str, &str)], timer: &Timer) {
        let reading = timer.read();
        self.head("summary", name, what);
        let seconds = |us: u64| us as f64 / 1e6;
        for quantile in QUANTILES {
            let of = quantile.to_string();
            let labels = [labels, &[("quantile", of.as_str())]].concat();
            self.line(name, &labels, seconds(reading.quantile_us(quantile)));
        }
        self.line(&format!("{name}_sum"), labels, seconds(reading.sum_us));
        self.line(&format!("{name}_count"), labels, reading.count);
    }

    /// Adds what every program tells of its process, under Prometheus' standard names.
    pub fn process(&mut self) {
        if let Some(seconds) = process::cpu_seconds() {
            self.counter("process_cpu_seconds_total", "CPU time used, in seconds", &[], seconds);
        }
        if let Some(bytes) = ResidentSet::open().and_then(|resident| resident.bytes()) {
            self.gauge("process_resident_memory_bytes", "memory held (RSS), in bytes", &[], bytes);
        }
        if let Some(count) = process::open_files() {
            self.gauge("process_open_fds", "files and sockets that are open", &[], count);
        }
    }

    /// The text.
    pub fn finish(self) -> String {
        self.text
    }

    /// The HELP and TYPE of a metric, before the first of its lines.
    fn head(&mut self, kind: &str, name: &str, what: &str) {
        if self.last != name {
            self.text.push_str(&format!("# HELP {name} {what}\n# TYPE {name} {kind}\n"));
            self.last = name.to_owned();
        }
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let (all, own) = (&self.labels, joined(labels));
        let comma = if all.is_empty() || own.is_empty() { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = if all.is_empty() && own.is_empty() {
            writeln!(self.text, "{name} {value}")
        } else {
            writeln!(self.text, "{name}{{{all}{comma}{own}}} {value}")
        };
    }
}

fn joined(labels: &[(&str, &str)]) -> String {
    let labels: Vec<String> =
        labels.iter().map(|(label, text)| format!("{label}=\"{}\"", escaped(text))).collect();
    labels.join(",")
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn names_are_explained_once_and_labels_are_escaped() {
        let timer = Timer::default();
        (1..=1000).for_each(|ms| timer.record(Duration::from_millis(ms)));
        let mut exposition = Exposition::new(&[("role", "node")]);
        exposition.counter("bytes_total", "bytes read", &[], 7);
        exposition.gauge("used", "bytes used", &[("dir", "a\"b\\c\nd")], 1.5);
        exposition.gauge("used", "bytes used", &[("dir", "e")], 2);
        exposition.timer("wait_seconds", "time waited", &[("op", "read")], &timer);
        let text = exposition.finish();
        let expected = "\
# HELP bytes_total bytes read
# TYPE bytes_total counter
bytes_total{role=\"node\"} 7
# HELP used bytes used
# TYPE used gauge
used{role=\"node\",dir=\"a\\\"b\\\\c\\nd\"} 1.5
used{role=\"node\",dir=\"e\"} 2
# HELP wait_seconds time waited
# TYPE wait_seconds summary
";
        let (exact, rest) = text.split_at(expected.len());
        assert_eq!(exact, expected);
        let lines: Vec<(&str, f64)> = rest
            .lines()
            .map(|line| line.rsplit_once(' ').unwrap())
            .map(|(name, value)| (name, value.parse().unwrap()))
            .collect();
        let names: Vec<&str> = lines.iter().map(|(name, _)| *name).collect();
        assert_eq!(
            names,
            [
                "wait_seconds{role=\"node\",op=\"read\",quantile=\"0.5\"}",
                "wait_seconds{role=\"node\",op=\"read\",quantile=\"0.95\"}",
                "wait_seconds{role=\"node\",op=\"read\",quantile=\"0.99\"}",
                "wait_seconds_sum{role=\"node\",op=\"read\"}",
                "wait_seconds_count{role=\"node\",op=\"read\"}",
            ]
        );
        assert!((0.5..=0.563).contains(&lines[0].1) && (0.99..=1.0).contains(&lines[2].1), "{lines:?}");
        assert_eq!((lines[3].1, lines[4].1), (500.5, 1000.0));
        let mut bare = Exposition::new(&[]);
        bare.gauge("up", "1", &[], 1);
        assert!(bare.finish().ends_with("\nup 1\n"));
    }
}
