use super::{duration_text, parse_duration_ms};
use crate::error::{Error, Result, invalid};
use crate::state::VIRTUAL_PARTITIONS;

/// Shortest time between checkpoints, in milliseconds. Each batch of a trigger by time is one.
const CHECKPOINT_INTERVAL_MIN_MS: i64 = 10;

/// A key of `SET`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingEntry {
    /// Name.
    pub key: &'static str,
    /// Kind of its values.
    pub values: &'static str,
    /// Meaning.
    pub meaning: &'static str,
}

/// All keys of `SET`: one that is not here is refused.
pub const SETTINGS: [SettingEntry; 6] = [
    SettingEntry {
        key: "trigger",
        values: "`real time`, `every` and a duration, `available now` or `once`",
        meaning: "`real time` takes rows as they come, for ever; `every 10 seconds` takes what is there in a batch at each multiple of that time; `available now` takes what is there when the query starts, and ends; `once` does so in one batch",
    },
    SettingEntry {
        key: "execution.checkpointing.interval",
        values: "duration, at least 10 ms",
        meaning: "time between checkpoints, as in Flink; with `exactly-once` most of the latency",
    },
    SettingEntry {
        key: "yeoul.stream.tick",
        values: "duration, at least 1 ms",
        meaning: "time between moves of the watermark while rows come as they will",
    },
    SettingEntry {
        key: "parallelism.default",
        values: "number from 1 to 128",
        meaning: "threads among which the state of each step is divided, by key, as in Flink; `parallelism` is the same key; a query goes on from its checkpoint with another number",
    },
    SettingEntry {
        key: "spark.sql.streaming.minBatchesToRetain",
        values: "number from 2 on",
        meaning: "checkpoints that are kept",
    },
    SettingEntry {
        key: "spark.sql.streaming.multipleWatermarkPolicy",
        values: "`min` or `max`",
        meaning: "which watermark counts among those of several streams; `max` makes rows of slow streams late",
    },
];

/// When a query runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// Rows are taken as they come, for ever (Spark's real-time mode).
    RealTime,
    /// Rows that are there when the query starts, up to those; then it ends.
    AvailableNow,
    /// The same in one batch, however much there is.
    Once,
    /// Batches that begin at multiples of so many milliseconds since 1970, each with what is there (Spark's processing time). One that
    /// takes longer is followed at once by the next.
    Every(i64),
}

/// Rule by which the watermark of a query with several streams follows from theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WatermarkPolicy {
    /// The least one: no row of a slow stream is late because of a fast one.
    #[default]
    Min,
    /// The greatest one.
    Max,
}

/// Settings of a query, which `SET` changes for the queries after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// When the query runs: `trigger`.
    pub trigger: Trigger,
    /// Milliseconds between checkpoints: `execution.checkpointing.interval`, as in Flink.
    pub checkpoint_interval_ms: i64,
    /// Milliseconds between moves of the watermark: `yeoul.stream.tick`.
    pub tick_ms: i64,
    /// Threads among which the state of each step is divided: `parallelism.default`, as in Flink.
    pub parallelism: usize,
    /// Checkpoints that are kept: `spark.sql.streaming.minBatchesToRetain`, as in Spark.
    pub retained_checkpoints: usize,
    /// Which watermark counts among those of several streams: `spark.sql.streaming.multipleWatermarkPolicy`, as in Spark.
    pub watermark_policy: WatermarkPolicy,
}

impl Default for Settings {
    fn default() -> Self {
        // 1 s is durable often enough on a local disk; 50 ms is between 20 and 100 ms, where people do not see a delay;
        // 100 is Spark's default.
        Self {
            trigger: Trigger::RealTime,
            checkpoint_interval_ms: 1000,
            tick_ms: 50,
            parallelism: 1,
            retained_checkpoints: 100,
            watermark_policy: WatermarkPolicy::Min,
        }
    }
}

impl Settings {
    /// Changes a setting.
    ///
    /// # Errors
    /// `Invalid` for a key that is not honoured or a value that it does not take.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "trigger" => self.trigger = trigger(value)?,
            "execution.checkpointing.interval" => {
                self.checkpoint_interval_ms = duration(key, value, CHECKPOINT_INTERVAL_MIN_MS)?;
            }
            "yeoul.stream.tick" => self.tick_ms = duration(key, value, 1)?,
            "parallelism.default" | "parallelism" => {
                let most = usize::from(VIRTUAL_PARTITIONS);
                let wrong = || wrong(key, value, &format!("a whole number from 1 to {most}"));
                let number = value.parse().ok().filter(|number| (1..=most).contains(number));
                self.parallelism = number.ok_or_else(wrong)?;
            }
            "spark.sql.streaming.minBatchesToRetain" => {
                let wrong = || wrong(key, value, "a whole number from 2 on");
                self.retained_checkpoints = value.parse().ok().filter(|kept| *kept >= 2).ok_or_else(wrong)?;
            }
            "spark.sql.streaming.multipleWatermarkPolicy" => {
                self.watermark_policy = match value.to_lowercase().as_str() {
                    "min" => WatermarkPolicy::Min,
                    "max" => WatermarkPolicy::Max,
                    _ => return Err(wrong(key, value, "min or max")),
                };
            }
            _ => {
                let known: Vec<&str> = SETTINGS.iter().map(|entry| entry.key).collect();
                return Err(invalid(format!("the setting '{key}' is not honoured"))
                    .with_hint(format!("known are {}", known.join(", "))));
            }
        }
        Ok(())
    }

    /// The value of a key, as [`set`](Self::set) takes it; nothing if there is no such key.
    pub fn get(&self, key: &str) -> Option<String> {
        Some(match key {
            "trigger" => match self.trigger {
                Trigger::RealTime => "real time".to_owned(),
                Trigger::AvailableNow => "available now".to_owned(),
                Trigger::Once => "once".to_owned(),
                Trigger::Every(period_ms) => format!("every {}", duration_text(period_ms)),
            },
            "execution.checkpointing.interval" => duration_text(self.checkpoint_interval_ms),
            "yeoul.stream.tick" => duration_text(self.tick_ms),
            "parallelism.default" | "parallelism" => self.parallelism.to_string(),
            "spark.sql.streaming.minBatchesToRetain" => self.retained_checkpoints.to_string(),
            "spark.sql.streaming.multipleWatermarkPolicy" => match self.watermark_policy {
                WatermarkPolicy::Min => "min".to_owned(),
                WatermarkPolicy::Max => "max".to_owned(),
            },
            _ => return None,
        })
    }

    /// All keys with their values.
    pub fn shown(&self) -> Vec<(String, String)> {
        let value = |entry: &SettingEntry| self.get(entry.key).expect("each key of the table has a value");
        SETTINGS.iter().map(|entry| (entry.key.to_owned(), value(entry))).collect()
    }
}

fn trigger(value: &str) -> Result<Trigger> {
    if let Some(every) = value.trim().to_lowercase().strip_prefix("every ") {
        return duration("trigger", every, CHECKPOINT_INTERVAL_MIN_MS).map(Trigger::Every);
    }
    match value.to_lowercase().replace(['-', '_', ' '], "").as_str() {
        "realtime" => Ok(Trigger::RealTime),
        "availablenow" => Ok(Trigger::AvailableNow),
        "once" => Ok(Trigger::Once),
        _ => Err(wrong("trigger", value, "'real time', 'every 10 seconds', 'available now' or 'once'")),
    }
}

fn duration(key: &str, value: &str, min_ms: i64) -> Result<i64> {
    let ms = parse_duration_ms(value).map_err(|error| wrong(key, value, "a duration").with_source(error))?;
    if ms < min_ms { Err(wrong(key, value, &format!("at least {min_ms} ms"))) } else { Ok(ms) }
}

fn wrong(key: &str, value: &str, expected: &str) -> Error {
    invalid(format!("the setting '{key}' is '{value}', expected {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_take_their_values_and_refuse_others() {
        let mut settings = Settings::default();
        settings.set("trigger", "Available Now").unwrap();
        settings.set("execution.checkpointing.interval", "100 ms").unwrap();
        settings.set("spark.sql.streaming.minBatchesToRetain", "5").unwrap();
        assert_eq!((settings.trigger, settings.checkpoint_interval_ms), (Trigger::AvailableNow, 100));
        assert_eq!(settings.retained_checkpoints, 5);
        settings.set("parallelism", "3").unwrap();
        assert_eq!((settings.parallelism, settings.get("parallelism.default")), (3, Some("3".to_owned())));
        settings.set("parallelism.default", "128").unwrap();
        assert_eq!(settings.parallelism, 128);
        let mut timed = Settings::default();
        for (value, trigger) in [("Once", Trigger::Once), ("every 5 seconds", Trigger::Every(5000))] {
            timed.set("trigger", value).unwrap();
            assert_eq!(timed.trigger, trigger);
        }
        let before = settings.clone();
        for (key, value) in [
            ("trigger", "twice"),
            ("trigger", "every 9 ms"),
            ("trigger", "every day"),
            ("execution.checkpointing.interval", "1 ms"),
            ("spark.sql.streaming.minBatchesToRetain", "1"),
            ("spark.sql.shuffle.partitions", "5"),
            ("parallelism", "0"),
            ("parallelism.default", "129"),
            ("parallelism.default", "max"),
        ] {
            let error = settings.set(key, value).unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
        assert_eq!(settings, before);
    }

    #[test]
    fn each_value_that_is_shown_sets_the_same() {
        let mut settings = Settings {
            trigger: Trigger::AvailableNow,
            checkpoint_interval_ms: 1500,
            tick_ms: 20,
            parallelism: 5,
            retained_checkpoints: 7,
            watermark_policy: WatermarkPolicy::Max,
        };
        let shown = settings.shown();
        settings = Settings::default();
        for (key, value) in &shown {
            assert_ne!(Settings::default().get(key).as_ref(), Some(value), "{key}");
            settings.set(key, value).unwrap();
        }
        assert_eq!(settings.shown(), shown);
        assert_eq!(settings.get("trigger.interval"), None);
    }
}
