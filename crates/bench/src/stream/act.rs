//! An act for `yeoul demo`: a windowed count in a process of its own, which is killed with kill -9 again and again.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use yeoul_base::{Error, ErrorKind, Result};

/// How often it is looked how far a process is.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long a process may take for anything.
const PATIENCE: Duration = Duration::from_secs(30);

/// How large the act is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// Rows a second.
    pub rows_per_second: u32,
    /// Groups in each window of a second.
    pub groups: i64,
    /// How often the process is killed.
    pub kills: usize,
    /// How long it counts before it is killed, from its first checkpoint on.
    pub life: Duration,
}

impl Default for Script {
    fn default() -> Self {
        Self { rows_per_second: 200_000, groups: 8, kills: 3, life: Duration::from_millis(700) }
    }
}

/// What happened, and was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Rows that were counted.
    pub rows: u64,
    /// Groups whose last counts are those of a batch computation.
    pub groups: usize,
    /// Lines that came out in all, of which the last of each group counts.
    pub lines: u64,
    /// From the first start to the last end.
    pub time: Duration,
}

/// Runs `yeoul stream run`, of which `program` is the binary, with files under `dir`; kills it and starts it again, and compares
/// what came out with a batch computation. `say` gets a line for each step.
///
/// # Errors
/// `DataLoss` if a count is wrong; `Internal` if a process ends by itself or takes too long.
pub fn run(program: &Path, dir: &Path, script: &Script, mut say: impl FnMut(&str)) -> Result<Outcome> {
    std::fs::create_dir_all(dir)?;
    let started = Instant::now();
    for kill in 1..=script.kills {
        let mut process = start(program, dir, script, kill, "real time")?;
        let alive = wait_for_checkpoint(&mut process, dir, kill).map(|()| thread::sleep(script.life));
        process.kill()?;
        let ended = process.wait()?;
        alive?;
        if ended.code().is_some() {
            return Err(broken(format!("a process ended before it was killed: {}", said(dir, kill))));
        }
        say(&format!(
            "killed a process that counts {} rows/s, {kill} of {} times",
            script.rows_per_second, script.kills
        ));
    }
    // What has come due since then, and it ends by itself.
    let mut process = start(program, dir, script, 0, "available now")?;
    if !process.wait()?.success() {
        return Err(broken(format!("the last process failed: {}", said(dir, 0))));
    }
    let time = started.elapsed();
    let offset = last_offset(dir)?;
    let (found, lines) = counts_that_came_out(dir, script)?;
    let wanted = batch_counts(script, &offset)?;
    if found != wanted {
        let differ = wanted.iter().filter(|(group, count)| found.get(*group) != Some(count)).count();
        let text = format!("{differ} of {} groups differ from a batch computation", wanted.len());
        return Err(Error::new(ErrorKind::DataLoss, text));
    }
    Ok(Outcome { rows: wanted.values().sum(), groups: wanted.len(), lines, time })
}

fn job(script: &Script, trigger: &str) -> String {
    format!(
        "CREATE STREAM events (WATERMARK FOR timestamp AS timestamp - INTERVAL '5' SECOND)\n  WITH ('connector' = 'rate', 'rowsPerSecond' = '{}');\n\
         CREATE SINK counts WITH ('connector' = 'console');\n\
         SET trigger = '{trigger}'; SET 'execution.checkpointing.interval' = '100 ms';\n\
         INSERT INTO counts SELECT window_start, value % {} AS grp, count(*) AS n\n\
         FROM TUMBLE(TABLE events, DESCRIPTOR(timestamp), INTERVAL '1' SECOND)\n\
         GROUP BY window_start, value % {} EMIT UPDATES;\n",
        script.rows_per_second, script.groups, script.groups
    )
}

/// Starts a process, whose number tells its files from those of the others.
fn start(program: &Path, dir: &Path, script: &Script, number: usize, trigger: &str) -> Result<Child> {
    let path = dir.join(format!("job-{number}.sql"));
    std::fs::write(&path, job(script, trigger))?;
    let out = File::create(dir.join(format!("out-{number}.jsonl")))?;
    let log = File::create(dir.join(format!("log-{number}.jsonl")))?;
    let mut command = Command::new(program);
    command.args(["stream".as_ref(), "run".as_ref(), path.as_os_str(), "--checkpoint".as_ref()]);
    command.arg(dir.join("checkpoint")).stdin(Stdio::null()).stdout(out).stderr(log);
    Ok(command.spawn()?)
}

fn said(dir: &Path, number: usize) -> String {
    std::fs::read_to_string(dir.join(format!("log-{number}.jsonl"))).unwrap_or_default()
}

fn wait_for_checkpoint(process: &mut Child, dir: &Path, number: usize) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !said(dir, number).contains("\"event\":\"progress\"") {
        if process.try_wait()?.is_some() || Instant::now() > deadline {
            return Err(broken(format!("a process completed no checkpoint: {}", said(dir, number))));
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// The offset at which the query ended, from the log that Spark's tools read.
fn last_offset(dir: &Path) -> Result<Value> {
    let folder = dir.join("checkpoint/counts/offsets");
    let mut numbers: Vec<u64> = Vec::new();
    for entry in std::fs::read_dir(&folder)? {
        numbers.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u64>().ok()));
    }
    let last = numbers.iter().max().ok_or_else(|| broken("there is no checkpoint".to_owned()))?;
    let text = std::fs::read_to_string(folder.join(last.to_string()))?;
    let line = text.lines().last().unwrap_or_default();
    serde_json::from_str(line).map_err(|_| broken(format!("'{line}' is no offset")))
}

/// A group: the start of its window in milliseconds since 1970, and its number.
type Group = (i64, i64);

/// The last count of each group that came out, and how many lines came.
fn counts_that_came_out(dir: &Path, script: &Script) -> Result<(BTreeMap<Group, u64>, u64)> {
    let (mut counts, mut lines) = (BTreeMap::new(), 0);
    for number in (1..=script.kills).chain([0]) {
        let text = std::fs::read_to_string(dir.join(format!("out-{number}.jsonl")))?;
        // A process that was killed may not have written its last line to the end.
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let (group, count) = parse(line).ok_or_else(|| broken(format!("'{line}' is no count")))?;
            counts.insert(group, count);
            lines += 1;
        }
    }
    Ok((counts, lines))
}

fn parse(line: &str) -> Option<(Group, u64)> {
    let row: Value = serde_json::from_str(line).ok()?;
    let start = chrono::DateTime::parse_from_rfc3339(row["window_start"].as_str()?).ok()?;
    Some(((start.timestamp_millis(), row["grp"].as_i64()?), row["n"].as_u64()?))
}

/// The counts of all rows before an offset: row N is due N seconds divided by the rate after the start.
fn batch_counts(script: &Script, offset: &Value) -> Result<BTreeMap<Group, u64>> {
    let (Some(start_us), Some(end)) = (offset["startUs"].as_i64(), offset["next"].as_i64()) else {
        return Err(broken(format!("{offset} is no offset of a rate source")));
    };
    let mut counts = BTreeMap::new();
    for row in 0..end {
        let due_us = start_us + row * 1_000_000 / i64::from(script.rows_per_second);
        let window = due_us.div_euclid(1_000_000) * 1000;
        *counts.entry((window, row % script.groups)).or_insert(0) += 1;
    }
    Ok(counts)
}

fn broken(text: String) -> Error {
    Error::new(ErrorKind::Internal, text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_is_a_count_of_a_group() {
        let line = "{\"window_start\":\"2026-01-01T00:00:01Z\",\"grp\":3,\"n\":17}\n";
        assert_eq!(parse(line), Some(((1_767_225_601_000, 3), 17)));
        assert_eq!(parse("{\"grp\":3}"), None);
    }

    #[test]
    fn the_batch_computation_counts_each_row_once() {
        let script = Script { rows_per_second: 4, groups: 2, ..Script::default() };
        let counts = batch_counts(&script, &json!({"startUs": 500_000, "next": 7})).unwrap();
        let expected = [((0, 0), 1), ((0, 1), 1), ((1000, 0), 2), ((1000, 1), 2), ((2000, 0), 1)];
        assert_eq!(counts, BTreeMap::from(expected));
    }
}
