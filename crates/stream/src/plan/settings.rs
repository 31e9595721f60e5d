use super::parse_duration_ms;
use crate::error::{Error, Result, invalid};

/// Shortest time between checkpoints, in milliseconds. Each batch of a trigger by time is one.
const CHECKPOINT_INTERVAL_MIN_MS: i64 = 10;

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
                let hint = "known are trigger, execution.checkpointing.interval, yeoul.stream.tick, \
                            spark.sql.streaming.minBatchesToRetain and spark.sql.streaming.multipleWatermarkPolicy";
                return Err(invalid(format!("the setting '{key}' is not honoured")).with_hint(hint));
            }
        }
        Ok(())
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
        ] {
            let error = settings.set(key, value).unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
        assert_eq!(settings, before);
    }
}
