use chrono::DateTime;
use serde_json::Value;
use yeoul_net::metrics::Exposition;

use super::QueryFigures;
use super::figures::Figures;
use crate::dataflow::{Progress, StateProgress};

/// A number of each query: its name and what it is.
type OfQuery<T> = (&'static str, &'static str, fn(&Figures) -> T);
/// A number of each operator with state: its name and what it is.
type OfOperator = (&'static str, &'static str, fn(&Figures, usize, &StateProgress) -> u64);

/// Numbers that only go up.
const COUNTERS: [OfQuery<u64>; 4] = [
    ("yeoul_stream_epochs_total", "epochs whose checkpoint is complete", |of| of.status.num_epochs),
    ("yeoul_stream_input_rows_total", "rows that came", |of| of.status.num_input_rows),
    (
        "yeoul_stream_malformed_rows_total",
        "rows that could not be read and went to the dead-letter topic",
        |of| of.status.num_malformed_rows,
    ),
    ("yeoul_stream_output_rows_total", "rows that went to the sink", |of| of.status.num_output_rows),
];

/// Numbers of the last epoch.
const GAUGES: [OfQuery<Option<f64>>; 5] = [
    ("yeoul_stream_active", "1 while the query runs", |of| Some(f64::from(u8::from(of.status.is_active)))),
    ("yeoul_stream_batch_id", "number of the last epoch", |of| last(of, |last| Some(last.batch_id.0 as f64))),
    ("yeoul_stream_input_rows_per_second", "rows a second in the last epoch", |of| {
        last(of, |last| Some(last.input_rows_per_second))
    }),
    ("yeoul_stream_last_epoch_timestamp_seconds", "when the last epoch ended, in seconds since 1970", |of| {
        last(of, |last| seconds(&last.timestamp))
    }),
    ("yeoul_stream_watermark_timestamp_seconds", "the watermark, in seconds since 1970", |of| {
        last(of, |last| seconds(&last.event_time.as_ref()?.watermark))
    }),
];

/// Numbers of operators with state that go up and down.
const STATE_GAUGES: [OfOperator; 2] = [
    ("yeoul_stream_state_rows", "keys of state", |_, _, operator| operator.num_rows_total),
    ("yeoul_stream_state_bytes", "memory of the state", |_, _, operator| operator.memory_used_bytes),
];

/// Numbers of operators with state that only go up.
const STATE_COUNTERS: [OfOperator; 3] = [
    ("yeoul_stream_state_rows_updated_total", "keys of state that changed", |of, at, _| {
        of.operators[at].updated
    }),
    ("yeoul_stream_state_rows_removed_total", "keys of state that were over and went", |of, at, _| {
        of.operators[at].removed
    }),
    ("yeoul_stream_late_rows_total", "rows or groups that were late and dropped", |of, at, _| {
        of.operators[at].late
    }),
];

/// A number of a partition, from the end of the last epoch and the latest offset: its name and what it is.
type OfPartition = (&'static str, &'static str, fn(i64, Option<i64>) -> Option<i64>);

/// Numbers of partitions of Kafka.
const OFFSETS: [OfPartition; 2] = [
    (
        "yeoul_stream_offset",
        "offset after the last record of a partition that the last epoch has",
        |end, _| Some(end),
    ),
    (
        "yeoul_stream_offset_lag",
        "records of a partition that were there at the end of the last epoch and not in it",
        |end, latest| latest.map(|latest| latest - end),
    ),
];

/// A latency of an epoch, if a row of it left.
type Latency = fn(&Progress) -> Option<u64>;

/// Latencies of the last epoch by their quantiles.
const LATENCIES: [(&str, Latency); 2] =
    [("0.5", |last| last.latency_ms_p50), ("0.99", |last| last.latency_ms_p99)];

impl QueryFigures {
    /// The figures as the text that Prometheus reads.
    pub fn prometheus(&self) -> String {
        let queries = self.queries();
        let mut exposition = Exposition::new(&[]);
        for (name, what, value) in COUNTERS {
            for (query, of) in &*queries {
                exposition.counter(name, what, &[("query", query)], value(of));
            }
        }
        for (name, what, value) in GAUGES {
            for (query, of) in &*queries {
                if let Some(value) = value(of) {
                    exposition.gauge(name, what, &[("query", query)], value);
                }
            }
        }
        for (query, of) in &*queries {
            add_latencies(&mut exposition, query, of);
        }
        for (query, of) in &*queries {
            add_durations(&mut exposition, query, of);
        }
        for (query, of) in &*queries {
            let what = "time from an epoch's barrier until its checkpoint was complete";
            exposition.timer("yeoul_stream_checkpoint_seconds", what, &[("query", query)], &of.checkpoints);
        }
        for (number, is_gauge) in
            STATE_GAUGES.iter().map(|number| (number, true)).chain(STATE_COUNTERS.iter().map(|n| (n, false)))
        {
            for (query, of) in &*queries {
                add_state(&mut exposition, query, of, number, is_gauge);
            }
        }
        for (name, what, value) in OFFSETS {
            for (query, of) in &*queries {
                add_offsets(&mut exposition, query, of, (name, what, value));
            }
        }
        exposition.process();
        exposition.finish()
    }
}

fn add_latencies(exposition: &mut Exposition, query: &str, of: &Figures) {
    let Some(last) = &of.status.last_progress else { return };
    for (quantile, latency) in LATENCIES {
        if let Some(ms) = latency(last) {
            exposition.gauge(
                "yeoul_stream_last_epoch_latency_seconds",
                "time from a record's time to its row's way to the sink, in the last epoch",
                &[("query", query), ("quantile", quantile)],
                ms as f64 / 1000.0,
            );
        }
    }
}

fn add_state(exposition: &mut Exposition, query: &str, of: &Figures, number: &OfOperator, is_gauge: bool) {
    let Some(last) = &of.status.last_progress else { return };
    let (name, what, value) = number;
    for (at, operator) in last.state_operators.iter().enumerate() {
        // Two operators of a query may have one name.
        let place = at.to_string();
        let labels = [("query", query), ("operator", operator.operator_name.as_str()), ("number", &place)];
        let value = value(of, at, operator);
        if is_gauge {
            exposition.gauge(name, what, &labels, value);
        } else {
            exposition.counter(name, what, &labels, value);
        }
    }
}

/// Adds the times of the parts of the last epoch's work.
fn add_durations(exposition: &mut Exposition, query: &str, of: &Figures) {
    for (phase, ms) in of.status.last_progress.iter().flat_map(|last| &last.duration_ms) {
        exposition.gauge(
            "yeoul_stream_last_epoch_duration_seconds",
            "time of a part of the last epoch's work, by Spark's names",
            &[("query", query), ("phase", phase)],
            *ms as f64 / 1000.0,
        );
    }
}

/// Adds a number of each partition of sources of Kafka, whose offsets are `{"topic":{"0":5}}`.
fn add_offsets(exposition: &mut Exposition, query: &str, of: &Figures, (name, what, value): OfPartition) {
    for source in of.status.last_progress.iter().flat_map(|last| &last.sources) {
        for (topic, partitions) in source.end_offset.as_object().into_iter().flatten() {
            for (partition, offset) in partitions.as_object().into_iter().flatten() {
                let latest = source.latest_offset.get(topic).and_then(|latest| latest.get(partition));
                if let Some(number) =
                    offset.as_i64().and_then(|end| value(end, latest.and_then(Value::as_i64)))
                {
                    let labels = [("query", query), ("topic", topic), ("partition", partition)];
                    exposition.gauge(name, what, &labels, number);
                }
            }
        }
    }
}

fn last<T>(of: &Figures, value: impl FnOnce(&Progress) -> Option<T>) -> Option<T> {
    of.status.last_progress.as_ref().and_then(value)
}

/// Seconds since 1970 of a time in the form of ISO 8601.
fn seconds(time: &str) -> Option<f64> {
    Some(DateTime::parse_from_rfc3339(time).ok()?.timestamp_millis() as f64 / 1000.0)
}
