use std::collections::HashMap;

use serde_json::Value;
use yeoul_base::{Error, ErrorKind, Result};

/// Keys of the windowed count, as in Apache's own benchmark of Spark.
const WINDOW_KEYS: u32 = 1000;
/// Most that the 99th percentile may be of the bare loop's.
const P99_RATIO_MAX: f64 = 1.5;
/// Milliseconds that it may be of output that is committed each tenth of a second.
const EXACTLY_ONCE_P99_MS_MAX: f64 = 250.0;
/// Keys of the state function, as there.
const STATE_KEYS: u32 = 50_000;

/// A query from Kafka to Kafka over records with a number `id` and the microseconds `sent` since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pipeline {
    /// A filter that all pass.
    Stateless,
    /// Counts by minutes and a thousand keys, as they change.
    WindowedCount,
    /// Records of which each fifth is a repeat.
    Deduplication,
    /// Two streams with the same numbers, within five seconds.
    Join,
    /// A running count of fifty thousand keys, each with a timeout.
    KeyedState,
    /// A filter that all pass, whose output is delivered exactly once, with ten checkpoints a second.
    ExactlyOnce,
}

/// Count of the records that are in what came out so far.
pub struct Coverage {
    pipeline: Pipeline,
    /// The last count of each group.
    counts: HashMap<(String, i64), u64>,
    pub records: u64,
}

impl Pipeline {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Stateless,
        Self::WindowedCount,
        Self::Deduplication,
        Self::Join,
        Self::KeyedState,
        Self::ExactlyOnce,
    ];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stateless => "stateless",
            Self::WindowedCount => "windowed-count",
            Self::Deduplication => "deduplication",
            Self::Join => "join",
            Self::KeyedState => "keyed-state",
            Self::ExactlyOnce => "exactly-once",
        }
    }

    /// The one of a name.
    ///
    /// # Errors
    /// `Invalid` if there is none.
    pub fn of_name(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|pipeline| pipeline.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|pipeline| pipeline.name()).collect();
            let text = format!("there is no pipeline '{name}', expected {}", names.join(", "));
            Error::new(ErrorKind::Invalid, text)
        })
    }

    /// Number of topics that it reads; records are spread evenly over them.
    pub fn inputs(self) -> usize {
        if self == Self::Join { 2 } else { 1 }
    }

    /// Records that are to be in what comes out, of so many in each topic that is read.
    pub fn expected(self, records: u64) -> u64 {
        match self {
            // Of five numbers in turn four are different.
            Self::Deduplication => records - records / 5,
            _ => records,
        }
    }

    /// Milliseconds that the 99th percentile of its latency may be, beside so many of the bare loop's.
    pub fn p99_ms_max(self, loop_ms: f64) -> f64 {
        match self {
            // Rows are to be seen once their checkpoint is complete: what counts is the checkpoints' interval.
            Self::ExactlyOnce => EXACTLY_ONCE_P99_MS_MAX,
            _ => (P99_RATIO_MAX * loop_ms * 1000.0).round() / 1000.0,
        }
    }

    /// The job.
    pub fn job(self, servers: &str, from: &[String], to: &str) -> String {
        let kafka =
            format!("'connector' = 'kafka', 'kafka.bootstrap.servers' = '{servers}', 'format' = 'json'");
        let guarantee = if self == Self::ExactlyOnce { "exactly-once" } else { "at-least-once" };
        let mut job = format!(
            "CREATE SINK results WITH ({kafka}, 'topic' = '{to}', 'delivery-guarantee' = '{guarantee}');\n"
        );
        for (name, topic) in ["a", "b"].iter().zip(from) {
            job += &format!(
                "CREATE STREAM {name} (id BIGINT, sent BIGINT, ts TIMESTAMP METADATA FROM 'timestamp', \
                 WATERMARK FOR ts AS ts - INTERVAL '10' SECOND)\n  \
                 WITH ({kafka}, 'subscribe' = '{topic}', 'startingOffsets' = 'earliest');\n"
            );
        }
        job + &match self {
            Self::Stateless => "INSERT INTO results SELECT id, sent FROM a WHERE id >= 0;".to_owned(),
            Self::ExactlyOnce => "SET 'execution.checkpointing.interval' = '100 ms';\n\
                                  INSERT INTO results SELECT id, sent FROM a WHERE id >= 0;"
                .to_owned(),
            Self::WindowedCount => format!(
                "INSERT INTO results SELECT window_start, id % {WINDOW_KEYS} AS k, count(*) AS n, max(sent) AS sent \
                 FROM TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '1' MINUTE) GROUP BY window_start, id % {WINDOW_KEYS} EMIT UPDATES;"
            ),
            Self::Deduplication => {
                "CREATE VIEW repeated AS SELECT CASE WHEN id % 5 = 4 THEN id - 1 ELSE id END AS id, sent, ts FROM a;\n\
                 INSERT INTO results SELECT DISTINCT WITHIN WATERMARK ON (id) id, sent FROM repeated;"
                    .to_owned()
            }
            Self::Join => "INSERT INTO results SELECT a.id, CASE WHEN a.sent > b.sent THEN a.sent ELSE b.sent END AS sent \
                           FROM a JOIN b ON a.id = b.id \
                           AND b.ts BETWEEN a.ts - INTERVAL '5' SECOND AND a.ts + INTERVAL '5' SECOND;"
                .to_owned(),
            Self::KeyedState => format!(
                "CREATE VIEW keyed AS SELECT id % {STATE_KEYS} AS k, to_timestamp_micros(sent) AS sent_at, ts FROM a;\n\
                 INSERT INTO results SELECT k, count AS n, CAST(extract(epoch FROM last_time) * 1000000 AS BIGINT) AS sent \
                 FROM running_count(TABLE keyed PARTITION BY k, time => DESCRIPTOR(sent_at), timeout => INTERVAL '30' MINUTE) \
                 EMIT UPDATES;"
            ),
        }
    }
}

impl Coverage {
    /// Nothing yet.
    pub fn new(pipeline: Pipeline) -> Self {
        Self { pipeline, counts: HashMap::new(), records: 0 }
    }

    /// Takes a record that came out.
    pub fn add(&mut self, value: &Value) {
        if !matches!(self.pipeline, Pipeline::WindowedCount | Pipeline::KeyedState) {
            self.records += 1;
            return;
        }
        let window = value["window_start"].as_str().unwrap_or_default().to_owned();
        let (key, count) = (value["k"].as_i64().unwrap_or(-1), value["n"].as_u64().unwrap_or(0));
        // Records of a key may come in any order, which lie in several partitions.
        let last = self.counts.entry((window, key)).or_insert(0);
        self.records += count.saturating_sub(*last);
        *last = count.max(*last);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use yeoul_stream::parse_job;

    use super::*;

    #[test]
    fn each_pipeline_is_a_job_that_is_understood() {
        for pipeline in Pipeline::ALL {
            let from: Vec<String> = (0..pipeline.inputs()).map(|n| format!("in-{n}")).collect();
            let job = pipeline.job("localhost:1", &from, "out");
            let queries = parse_job(&job).unwrap_or_else(|error| panic!("{job}\n{error}"));
            assert_eq!((queries.len(), queries[0].streams().count()), (1, pipeline.inputs()), "{job}");
            assert_eq!(Pipeline::of_name(pipeline.name()).unwrap(), pipeline);
        }
        assert!(Pipeline::of_name("sort").is_err());
    }

    #[test]
    fn counts_cover_their_records_once() {
        let mut coverage = Coverage::new(Pipeline::KeyedState);
        for (k, n) in [(1, 1), (2, 1), (1, 3), (1, 2), (2, 2)] {
            coverage.add(&json!({"k": k, "n": n, "sent": 0}));
        }
        assert_eq!(coverage.records, 5);
        assert_eq!(Pipeline::Deduplication.expected(1000), 800);
    }
}
