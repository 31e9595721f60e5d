//! The results of a benchmark: named cases, contestants, measurements with units, and whether the answers were right.
//!
//! This module knows no suite. A suite fills a [`Report`], from which come the table in the terminal
//! ([`Report::to_terminal`]), the JSON ([`Report::to_json`]) and the page ([`Report::to_html`]).
//!
//! Measurements of one case come from contestants that took turns in one run, so that a ratio between them is meaningful on
//! a busy machine. Of repeated times the best counts, of peaks the highest; the spread is worst / best.

mod html;
mod summary;
mod svg;
mod terminal;
mod unit;

use std::collections::BTreeMap;

use serde::Serialize;

use summary::Class;
pub use unit::Unit;

/// The results of a benchmark.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// What was measured: `TPC-H at scale 1`.
    pub title: String,
    /// What a reader must know to judge or repeat it: machine, files, settings, rules.
    pub facts: Vec<Fact>,
    /// The name and meaning of each measurement; the first one is compared case by case.
    pub metrics: Vec<Metric>,
    /// The contestants; the first one is ours, and the others are compared with it.
    pub contestants: Vec<Contestant>,
    /// The rounds, such as one per memory limit.
    pub rounds: Vec<Round>,
}

/// A fact about a benchmark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// Its subject.
    pub name: String,
    /// The fact itself.
    pub text: String,
}

impl Fact {
    /// A fact.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into() }
    }
}

/// A kind of measurement; less of it is better.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Metric {
    /// Its key in [`Outcome::values`].
    pub name: String,
    /// Its name for people: `time`, `peak memory`.
    pub title: String,
    /// Its unit.
    pub unit: Unit,
    /// How it is totalled over the cases of a round.
    pub total: Accumulate,
}

/// How a metric is totalled over the cases of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Accumulate {
    /// The sum, as for times.
    Sum,
    /// The largest, as for peaks.
    Max,
}

/// A contestant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Contestant {
    /// A short name, for columns.
    pub name: String,
    /// Name and version, for people.
    pub version: String,
}

/// Cases under the same conditions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Round {
    /// What distinguishes it: `1 GiB of memory`.
    pub name: String,
    /// The limit on a metric, if there is one.
    pub limit: Option<Limit>,
    /// Measurements of each contestant that belong to no case, such as the memory held before the first one.
    pub overall: Vec<BTreeMap<String, f64>>,
    /// The cases in order.
    pub cases: Vec<Case>,
}

/// A limit that contestants were asked to keep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Limit {
    /// The metric's name.
    pub metric: String,
    /// The limit, in the metric's unit.
    pub value: f64,
}

/// One task that all contestants were given.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Case {
    /// Its name: `Q18`.
    pub name: String,
    /// The outcome for each contestant, in the report's order.
    pub outcomes: Vec<Outcome>,
}

/// The outcome of a case for one contestant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// Whether it was completed, and right.
    pub status: Status,
    /// Every measurement by its metric's name, in the order in which they were made.
    pub values: BTreeMap<String, Vec<f64>>,
    /// Differences that were allowed, and the contestant's notices.
    pub notes: Vec<String>,
}

/// Whether a case was completed, and right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Status {
    /// Completed, and the answer is right.
    Right,
    /// Completed, and the answer is wrong.
    Wrong {
        /// How it differs.
        reason: String,
    },
    /// Not completed.
    Failed {
        /// The error's kind, in snake case.
        kind: String,
        /// The error's text.
        message: String,
    },
}

impl Status {
    /// Whether its measurements count.
    pub fn counts(&self) -> bool {
        matches!(self, Self::Right)
    }
}

impl Report {
    /// Whether our contestant completed every case, and none of its answers is wrong.
    pub fn is_right(&self) -> bool {
        self.rounds.iter().flat_map(|round| &round.cases).all(|case| case.outcomes[0].status.counts())
    }

    /// Whether our contestant was measured to stay within the limit of each round that has one.
    pub fn keeps_limits(&self) -> bool {
        let mut limited = self.rounds.iter().filter(|round| round.limit.is_some());
        limited.all(|round| self.limited(round, 0).is_some_and(|limited| limited.is_kept()))
    }

    /// The report with its summary as JSON.
    pub fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct WithSummary<'a> {
            #[serde(flatten)]
            report: &'a Report,
            summary: Vec<summary::RoundSummary>,
        }
        let summary = self.rounds.iter().map(|round| self.summarize(round)).collect();
        serde_json::to_string_pretty(&WithSummary { report: self, summary })
            .expect("a report has only text keys, and no number that JSON lacks makes an error")
    }
}

#[cfg(test)]
mod tests;
