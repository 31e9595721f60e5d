use crate::error::{Result, invalid};
use crate::plan::{OptionMap, parse_duration_ms};

/// Microseconds of a second.
const SECOND_US: i64 = 1_000_000;
/// Longest time of rising, in seconds: a day.
const RAMP_UP_MAX_SECONDS: i64 = 24 * 3600;
/// Most partitions.
const PARTITIONS_MAX: u64 = 1 << 16;

/// Times at which rows of a rate source are due: so many each second, spread evenly over it. All of them follow from the number
/// of a row, so that they are the same whenever it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateSchedule {
    rows_per_second: i64,
    /// Seconds for which the rate rises in steps, before it is whole.
    ramp_up_seconds: i64,
    /// True if rows of a second come together, once it is over, with times in whole milliseconds: as Spark's do.
    by_seconds: bool,
    /// Partitions over which neighbours are spread; those of a poll come partition by partition.
    partitions: usize,
}

impl RateSchedule {
    /// Takes Spark's options, and `granularity`.
    ///
    /// # Errors
    /// `Invalid` for values that are not honoured.
    pub fn take(options: &mut OptionMap) -> Result<Self> {
        let rows = options.take_number("rowsPerSecond", 1, 1)?;
        let wrong = |_| options.wrong("rowsPerSecond", &rows.to_string(), "less than 2^32");
        let rows_per_second = u32::try_from(rows).map_err(wrong)?.into();
        let ramp_up_seconds = match options.take("rampUpTime") {
            None => 0,
            Some(text) => ramp_up_seconds(&text)
                .map_err(|error| options.wrong("rampUpTime", &text, &format!("{error}")))?,
        };
        let partitions = options.take_number("numPartitions", 1, 1)?;
        if partitions > PARTITIONS_MAX {
            let expected = format!("at most {PARTITIONS_MAX}");
            return Err(options.wrong("numPartitions", &partitions.to_string(), &expected));
        }
        let by_seconds = match options.take("granularity").as_deref() {
            None | Some("row") => false,
            Some("second") => true,
            Some(other) => return Err(options.wrong("granularity", other, "row or second")),
        };
        let partitions = usize::try_from(partitions).unwrap_or(1);
        Ok(Self { rows_per_second, ramp_up_seconds, by_seconds, partitions })
    }

    /// A schedule of so many rows each second.
    #[cfg(test)]
    pub fn even(rows_per_second: u32) -> Self {
        Self { rows_per_second: rows_per_second.into(), ramp_up_seconds: 0, by_seconds: false, partitions: 1 }
    }

    /// Description of the rows: what a checkpoint is of.
    pub fn description(&self) -> String {
        let mut text = format!("{} rows per second", self.rows_per_second);
        if self.ramp_up_seconds > 0 {
            text += &format!(" after {} s", self.ramp_up_seconds);
        }
        if self.by_seconds {
            text += ", second by second";
        }
        text
    }

    /// Partitions of rows.
    pub fn partitions(&self) -> usize {
        self.partitions
    }

    /// Rows before a second begins, as Spark counts them: the rate rises by the same amount each second.
    fn rows_before(&self, second: i64) -> i64 {
        let ramp = second.clamp(0, self.ramp_up_seconds);
        let rise = self.rows_per_second / (self.ramp_up_seconds + 1);
        let rising = i128::from(rise) * i128::from(ramp) * i128::from(ramp + 1) / 2;
        let whole = i128::from((second - ramp).max(0)) * i128::from(self.rows_per_second);
        i64::try_from(rising + whole).unwrap_or(i64::MAX)
    }

    /// The second that a row is in.
    fn second_of(&self, row: i64) -> i64 {
        let whole = self.rows_before(self.ramp_up_seconds);
        if row >= whole {
            return self.ramp_up_seconds + (row - whole) / self.rows_per_second;
        }
        // The first second after which there are more rows than come before this one.
        let (mut low, mut high) = (0, self.ramp_up_seconds);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.rows_before(middle + 1) > row {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// Microseconds from the start to the time of a row.
    pub fn time_us(&self, row: i64) -> i64 {
        let second = self.second_of(row);
        let first = self.rows_before(second);
        let rows = self.rows_before(second + 1) - first;
        let mut within = i128::from(row - first) * i128::from(SECOND_US) / i128::from(rows.max(1));
        if self.by_seconds {
            // Spark rounds to milliseconds.
            within = (within + 500) / 1000 * 1000;
        }
        let time = i128::from(second) * i128::from(SECOND_US) + within;
        i64::try_from(time).unwrap_or(i64::MAX)
    }

    /// Microseconds from the start after which a row is due: [`due`](Self::due) counts it from then on.
    pub fn due_at_us(&self, row: i64) -> i64 {
        let second = self.second_of(row);
        let first = self.rows_before(second);
        let rows = i128::from(self.rows_before(second + 1) - first).max(1);
        let within = match self.by_seconds {
            true => i128::from(SECOND_US),
            false => (i128::from(row - first) * i128::from(SECOND_US) + rows - 1) / rows,
        };
        i64::try_from(i128::from(second) * i128::from(SECOND_US) + within).unwrap_or(i64::MAX)
    }

    /// Rows that are due so many microseconds after the start.
    pub fn due(&self, elapsed_us: i64) -> i64 {
        let elapsed_us = elapsed_us.max(0);
        let (second, within) = (elapsed_us / SECOND_US, elapsed_us % SECOND_US);
        let first = self.rows_before(second);
        if self.by_seconds {
            return first;
        }
        let rows = self.rows_before(second + 1) - first;
        let due = i128::from(within) * i128::from(rows) / i128::from(SECOND_US) + 1;
        first.saturating_add(rows.min(i64::try_from(due).unwrap_or(i64::MAX)))
    }
}

fn ramp_up_seconds(text: &str) -> Result<i64> {
    // A number alone is seconds, as in Spark.
    let is_number = text.trim().chars().all(|c| c.is_ascii_digit()) && !text.trim().is_empty();
    let ms =
        if is_number { parse_duration_ms(&format!("{} s", text.trim())) } else { parse_duration_ms(text) };
    match ms? / 1000 {
        seconds if seconds <= RAMP_UP_MAX_SECONDS => Ok(seconds),
        _ => Err(invalid(format!("at most {RAMP_UP_MAX_SECONDS} s"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(options: &[(&str, &str)]) -> Result<RateSchedule> {
        let given = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut options = OptionMap::new("stream r", given)?;
        let schedule = RateSchedule::take(&mut options)?;
        options.finish()?;
        Ok(schedule)
    }

    #[test]
    fn the_rate_rises_as_sparks_does() {
        // The example in Spark's source: 10 rows a second after 4 seconds.
        let rising = schedule(&[("rowsPerSecond", "10"), ("rampUpTime", "4s")]).unwrap();
        let before: Vec<i64> = (0..7).map(|second| rising.rows_before(second)).collect();
        assert_eq!(before, [0, 2, 6, 12, 20, 30, 40]);
        let times: Vec<i64> = (0..8).map(|row| rising.time_us(row) / 1000).collect();
        assert_eq!(times, [0, 500, 1000, 1250, 1500, 1750, 2000, 2166]);
        assert_eq!((rising.time_us(20), rising.time_us(31)), (4_000_000, 5_100_000));
        let slow = schedule(&[("rowsPerSecond", "2"), ("rampUpTime", "5")]).unwrap();
        assert_eq!((slow.rows_before(5), slow.time_us(0), slow.due(4_999_999)), (0, 5_000_000, 0));
    }

    #[test]
    fn a_row_is_due_at_its_time_or_once_its_second_is_over() {
        for (ramp, rows) in [("0", "3"), ("4 s", "10"), ("7", "1000"), ("0", "200000")] {
            let options = [("rowsPerSecond", rows), ("rampUpTime", ramp)];
            let fine = schedule(&options).unwrap();
            let coarse = schedule(&[options[0], options[1], ("granularity", "second")]).unwrap();
            for row in (0..40).chain([999, 5000]) {
                let time = fine.time_us(row);
                assert!(fine.due(time + 1) > row, "{ramp}, {rows}: row {row} at {time}");
                assert!(time == 0 || fine.due(time - 1) <= row, "{ramp}, {rows}: row {row} at {time}");
                for schedule in [&fine, &coarse] {
                    let due_at = schedule.due_at_us(row);
                    assert!(schedule.due(due_at) > row, "{ramp}, {rows}: row {row} after {due_at}");
                    assert!(due_at == 0 || schedule.due(due_at - 1) <= row, "row {row} before {due_at}");
                }
                let end = (time / SECOND_US + 1) * SECOND_US;
                assert!(coarse.due(end) > row && coarse.due(end - 1) <= row, "row {row}");
                assert!((coarse.time_us(row) - time).abs() <= 500 && coarse.time_us(row) % 1000 == 0);
            }
        }
    }

    #[test]
    fn what_is_not_honoured_is_refused_by_name() {
        for (name, value) in [
            ("rowsPerSecond", "0"),
            ("rowsPerSecond", "4294967296"),
            ("rampUpTime", "1 month"),
            ("rampUpTime", "100000"),
            ("numPartitions", "0"),
            ("numPartitions", "70000"),
            ("granularity", "minute"),
            ("startOffset", "1"),
        ] {
            let error = schedule(&[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(&format!("'{name}'")), "{error}");
        }
    }
}
