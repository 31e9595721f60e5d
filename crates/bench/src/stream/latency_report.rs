//! The rows of all cases as a table, and what the bars ask of them.

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::{Value, json};

use super::{Measured, Outcome, Pipeline, Row, Who};
use crate::findings::{Bar, Finding, Unit};

/// Part of the latency of Spark's micro-batches that ours may be.
const MICRO_BATCH_PART: f64 = 1.0 / 20.0;
/// Seconds of CPU time that a million records may take, at this rate or a higher one.
const CPU_SECONDS_MAX: f64 = 20.0;
const CPU_RATE_MIN: u32 = 10_000;

/// Every case with its parties beside each other, and below them the words of those that failed.
pub fn to_table(rows: &[Row]) -> String {
    let mut parties: Vec<Who> = Vec::new();
    let mut cases: Vec<(u32, Pipeline)> = Vec::new();
    for row in rows {
        if !parties.contains(&row.who) {
            parties.push(row.who);
        }
        if !cases.contains(&(row.rate, row.pipeline)) {
            cases.push((row.rate, row.pipeline));
        }
    }
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["records/s", "pipeline"].into_iter().chain(parties.iter().map(|who| who.name())));
    let mut notes: Vec<&str> = Vec::new();
    for (rate, pipeline) in cases {
        let mut line = vec![rate.to_string(), pipeline.name().to_owned()];
        line.extend(parties.iter().map(|who| match outcome(rows, *who, pipeline, rate) {
            None => String::new(),
            Some(Outcome::Measured(measured)) => cell(measured),
            Some(Outcome::Failed(words)) => format!("none ({})", note(&mut notes, words)),
        }));
        table.add_row(line);
    }
    let notes = notes.iter().enumerate().map(|(number, words)| format!("\n({}) {words}", number + 1));
    format!(
        "{table}\nlatency p50 / p99 in ms; CPU seconds per million records; peak memory{}",
        notes.collect::<String>()
    )
}

/// The number of a note with these words, which stand once.
fn note<'a>(notes: &mut Vec<&'a str>, words: &'a str) -> usize {
    let known = notes.iter().position(|note| *note == words);
    known.unwrap_or_else(|| {
        notes.push(words);
        notes.len() - 1
    }) + 1
}

fn cell(measured: &Measured) -> String {
    let [p50, p99] = [0.5, 0.99].map(|part| measured.latency_ms(part));
    let mib = measured.peak_bytes >> 20;
    format!("{p50:.1} / {p99:.1}\n{:.1} CPU-s, {mib} MiB", measured.cpu_seconds_per_million)
}

/// The rows with their quantiles.
pub fn to_json(rows: &[Row]) -> Value {
    let rows = rows.iter().map(|row| {
        let mut value = json!({"who": row.who.name(), "pipeline": row.pipeline.name(), "rate": row.rate});
        match &row.outcome {
            Outcome::Failed(words) => value["failed"] = json!(words),
            Outcome::Measured(measured) => {
                for (name, part) in [("p50_ms", 0.5), ("p95_ms", 0.95), ("p99_ms", 0.99), ("max_ms", 1.0)] {
                    value[name] = json!(measured.latency_ms(part));
                }
                value["cpu_seconds_per_million"] = json!(measured.cpu_seconds_per_million);
                value["peak_bytes"] = json!(measured.peak_bytes);
            }
        }
        value
    });
    rows.collect()
}

/// The words of ours that failed.
pub fn failures(rows: &[Row]) -> Vec<String> {
    let ours = rows.iter().filter(|row| Who::OURS.contains(&row.who));
    let failed = ours.filter_map(|row| match &row.outcome {
        Outcome::Measured(_) => None,
        Outcome::Failed(words) => {
            Some(format!("{}, {}, {} records/s: {words}", row.who.name(), row.pipeline.name(), row.rate))
        }
    });
    failed.collect()
}

/// The bars of each case of ours: the loop, Spark's modes, CPU time.
pub fn findings(rows: &[Row]) -> Vec<Finding> {
    let ours = rows.iter().filter(|row| row.who == Who::Yeoul);
    ours.flat_map(|row| match &row.outcome {
        Outcome::Measured(measured) => findings_of(rows, row, measured),
        Outcome::Failed(_) => Vec::new(),
    })
    .collect()
}

fn findings_of(rows: &[Row], row: &Row, ours: &Measured) -> Vec<Finding> {
    let case = format!("{}, {} records/s", row.pipeline.name(), row.rate);
    let peer = |who, pipeline| match outcome(rows, who, pipeline, row.rate) {
        Some(Outcome::Measured(measured)) => Some(measured),
        _ => None,
    };
    let latency = |who: Who, its: &Measured, bar| Finding {
        name: format!("{case}: latency").into(),
        unit: Unit::Milliseconds,
        bytes: None,
        ours: ours.ages_ms.clone(),
        peer: who.name(),
        peers: its.ages_ms.clone(),
        bar,
    };
    let mut found = Vec::new();
    let bare_loop = peer(Who::BareLoop, Pipeline::Stateless);
    if let Some(its) = bare_loop {
        let bar = Bar::P99AtMost(row.pipeline.p99_ms_max(its.latency_ms(0.99)));
        found.push(latency(Who::BareLoop, its, bar));
    }
    for (who, part) in [(Who::RealTimeTuned, 1.0), (Who::MicroBatch, MICRO_BATCH_PART)] {
        if let Some(its) = peer(who, row.pipeline) {
            found.push(latency(who, its, Bar::MedianAtMost(rounded(part * its.latency_ms(0.5)))));
            found.push(latency(who, its, Bar::P99AtMost(rounded(part * its.latency_ms(0.99)))));
        }
    }
    if row.rate >= CPU_RATE_MIN && row.pipeline != Pipeline::ExactlyOnce {
        found.push(Finding {
            name: format!("{case}: CPU time").into(),
            unit: Unit::CpuSecondsPerMillion,
            bytes: None,
            ours: vec![ours.cpu_seconds_per_million],
            peer: Who::BareLoop.name(),
            peers: bare_loop.map(|its| its.cpu_seconds_per_million).into_iter().collect(),
            bar: Bar::MedianAtMost(CPU_SECONDS_MAX),
        });
    }
    found
}

fn outcome(rows: &[Row], who: Who, pipeline: Pipeline, rate: u32) -> Option<&Outcome> {
    let found = rows.iter().find(|row| row.who == who && row.pipeline == pipeline && row.rate == rate);
    found.map(|row| &row.outcome)
}

/// To a thousandth, as the tables show it.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(who: Who, rate: u32, ages_ms: &[f64], cpu_seconds_per_million: f64) -> Row {
        let measured = Measured { ages_ms: ages_ms.to_vec(), cpu_seconds_per_million, peak_bytes: 3 << 20 };
        Row { who, pipeline: Pipeline::Stateless, rate, outcome: Outcome::Measured(measured) }
    }

    fn rows() -> Vec<Row> {
        let words = "[NOT_YET] real-time mode has no joins".to_owned();
        vec![
            row(Who::BareLoop, 10_000, &[2.0, 4.0], 25.0),
            row(Who::Yeoul, 10_000, &[3.0, 5.0], 19.5),
            row(Who::MicroBatch, 10_000, &[100.0, 90.0], 59.0),
            Row {
                who: Who::RealTimeTuned,
                pipeline: Pipeline::Join,
                rate: 10_000,
                outcome: Outcome::Failed(words),
            },
            row(Who::RealTimeTuned, 10_000, &[2.5, 6.0], 63.0),
        ]
    }

    #[test]
    fn each_bar_is_about_its_peer() {
        let found = findings(&rows());
        let told: Vec<_> = found.iter().map(|f| (f.peer, f.bar, f.is_met())).collect();
        // Of two values the median is the greater one.
        let expected = [
            ("bare loop", Bar::P99AtMost(6.0), true),
            ("Spark real-time, tuned", Bar::MedianAtMost(6.0), true),
            ("Spark real-time, tuned", Bar::P99AtMost(6.0), true),
            ("Spark micro-batch", Bar::MedianAtMost(5.0), true),
            ("Spark micro-batch", Bar::P99AtMost(5.0), true),
            ("bare loop", Bar::MedianAtMost(20.0), true),
        ];
        assert_eq!(told, expected);
        let mut slower = rows();
        slower[1] = row(Who::Yeoul, 10_000, &[7.0, 7.0], 20.5);
        assert!(findings(&slower).iter().all(|finding| !finding.is_met()));
        let slow = [row(Who::Yeoul, 1000, &[3.0], 500.0)];
        assert_eq!(findings(&slow), [], "a thousand records a second have no bar of CPU time");
    }

    #[test]
    fn a_table_has_the_words_of_those_that_failed() {
        let table = to_table(&rows());
        assert!(table.contains("5.0 / 5.0") && table.contains("19.5 CPU-s, 3 MiB"), "{table}");
        let note = "\n(1) [NOT_YET] real-time mode has no joins";
        assert!(table.contains("none (1)") && table.ends_with(note), "{table}");
        let twice = [rows(), vec![Row { pipeline: Pipeline::KeyedState, ..rows().swap_remove(3) }]].concat();
        let twice = to_table(&twice);
        assert!(twice.contains("none (1)") && twice.ends_with(note), "the same words stand once: {twice}");
        assert_eq!(failures(&rows()), Vec::<String>::new(), "only ours count");
        let mut failed = rows();
        failed[1].outcome = Outcome::Failed("9 of 10 records came through".to_owned());
        assert_eq!(failures(&failed), ["yeoul, stateless, 10000 records/s: 9 of 10 records came through"]);
        assert_eq!(to_json(&failed)[1]["failed"], "9 of 10 records came through");
        assert_eq!(to_json(&rows())[4]["p99_ms"], 6.0);
    }
}
