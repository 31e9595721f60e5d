//! The summary of a round's measurements: totals, ratios, their distribution.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Accumulate, Case, Metric, Outcome, Report, Round, Status};

/// How one case compares, by the ratio of our measurement to the peer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Better by 10 % or more.
    Better,
    /// Within 10 %.
    Level,
    /// Worse by 10 to 20 %.
    Worse,
    /// Worse by more than 20 %.
    MuchWorse,
}

impl Class {
    /// All classes, best first.
    pub const ALL: [Self; 4] = [Self::Better, Self::Level, Self::Worse, Self::MuchWorse];

    /// The class of a ratio: ours divided by the peer's, below 1 if we are better.
    pub fn of(ratio: f64) -> Self {
        match ratio {
            ..=0.9 => Self::Better,
            ..=1.1 => Self::Level,
            ..=1.2 => Self::Worse,
            _ => Self::MuchWorse,
        }
    }

    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Better => "better by 10 % and more",
            Self::Level => "within 10 %",
            Self::Worse => "worse by 10 to 20 %",
            Self::MuchWorse => "worse by more than 20 %",
        }
    }
}

/// A contestant's measurements over all cases that it completed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Total {
    /// Cases that were completed and are not wrong.
    pub done: usize,
    /// Cases with a wrong answer.
    pub wrong: usize,
    /// Cases that failed.
    pub failed: usize,
    /// Each metric's sum or largest value over the completed cases, by its name.
    pub values: BTreeMap<String, f64>,
}

/// A contestant's largest value of the limited metric, and the limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limited<'a> {
    /// The limited metric.
    pub metric: &'a Metric,
    /// Its largest value.
    pub value: f64,
    /// The limit.
    pub limit: f64,
}

impl Limited<'_> {
    /// Whether the value is within the limit, which itself is allowed.
    pub fn is_kept(&self) -> bool {
        self.value <= self.limit
    }
}

/// Ours against one peer, over the cases that both completed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The peer's name.
    pub peer: String,
    /// Cases that both completed.
    pub cases: usize,
    /// Our total over these cases, in the first metric.
    pub ours: f64,
    /// The peer's total over these cases.
    pub theirs: f64,
    /// Our total as a share of theirs, below 1 if we are better.
    pub ratio: f64,
    /// The geometric mean of the cases' ratios.
    pub geometric_mean: f64,
    /// How many cases are in each class, in the order of [`Class::ALL`].
    pub classes: [usize; 4],
}

/// The summary of a round.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct RoundSummary {
    /// The round's name.
    pub round: String,
    /// For each contestant, in order.
    pub totals: Vec<Total>,
    /// For each peer, in order.
    pub comparisons: Vec<Comparison>,
}

impl Outcome {
    /// The measurement of a metric that counts, if the case was completed and its answer is not wrong.
    pub fn best(&self, metric: &Metric) -> Option<f64> {
        if self.status.counts() { self.measured(metric) } else { None }
    }

    /// The measurement of a metric that counts, whatever the outcome of the case: the best one, or of a peak the highest.
    pub fn measured(&self, metric: &Metric) -> Option<f64> {
        let values = self.values.get(&metric.name)?.iter().copied();
        match metric.total {
            Accumulate::Max => values.reduce(f64::max),
            Accumulate::Sum => values.reduce(f64::min),
        }
    }

    /// The ratio of a metric's worst measurement to the best: 1 if all were the same.
    pub fn spread(&self, metric: &Metric) -> Option<f64> {
        let values = self.values.get(&metric.name)?;
        let (least, most) = values
            .iter()
            .fold((f64::INFINITY, 0f64), |(least, most), value| (least.min(*value), most.max(*value)));
        (least > 0.0 && least.is_finite()).then(|| most / least)
    }
}

impl Report {
    /// The metric that is compared case by case.
    pub fn main_metric(&self) -> &Metric {
        self.metrics.first().expect("a report has a metric")
    }

    /// Our measurement as a share of a contestant's, in the main metric; below 1 if we are better.
    pub fn ratio(&self, case: &Case, contestant: usize) -> Option<f64> {
        let metric = self.main_metric();
        ratio(case.outcomes[0].best(metric)?, case.outcomes[contestant].best(metric)?)
    }

    /// A contestant's totals over a round.
    pub fn total(&self, round: &Round, contestant: usize) -> Total {
        let outcomes = || round.cases.iter().map(|case| &case.outcomes[contestant]);
        let done = outcomes().filter(|outcome| outcome.status.counts()).count();
        let failed = outcomes().filter(|outcome| matches!(outcome.status, Status::Failed { .. })).count();
        let values = self.metrics.iter().filter_map(|metric| {
            let value = match metric.total {
                Accumulate::Sum => {
                    outcomes().filter_map(|outcome| outcome.best(metric)).reduce(|a, b| a + b)?
                }
                // A limit that was exceeded in a case that failed afterwards was exceeded nevertheless.
                Accumulate::Max => {
                    let overall =
                        round.overall.get(contestant).and_then(|values| values.get(&metric.name)).copied();
                    outcomes()
                        .filter_map(|outcome| outcome.measured(metric))
                        .chain(overall)
                        .reduce(f64::max)?
                }
            };
            Some((metric.name.clone(), value))
        });
        Total { done, wrong: round.cases.len() - done - failed, failed, values: values.collect() }
    }

    /// A contestant's value and a round's limit for it; `None` if there is no limit, or nothing was measured.
    pub(super) fn limited(&self, round: &Round, contestant: usize) -> Option<Limited<'_>> {
        let limit = round.limit.as_ref()?;
        let metric = self.metrics.iter().find(|metric| metric.name == limit.metric)?;
        let value = *self.total(round, contestant).values.get(&metric.name)?;
        Some(Limited { metric, value, limit: limit.value })
    }

    /// Ours against a contestant, over a round; `None` if there is no case that both completed.
    pub fn compare(&self, round: &Round, contestant: usize) -> Option<Comparison> {
        let metric = self.main_metric();
        let pairs: Vec<(f64, f64)> = round
            .cases
            .iter()
            .filter_map(|case| {
                Some((case.outcomes[0].best(metric)?, case.outcomes[contestant].best(metric)?))
            })
            .collect();
        let ratios: Vec<f64> = pairs.iter().filter_map(|(ours, theirs)| ratio(*ours, *theirs)).collect();
        if ratios.is_empty() {
            return None;
        }
        let ours: f64 = pairs.iter().map(|(ours, _)| ours).sum();
        let theirs: f64 = pairs.iter().map(|(_, theirs)| theirs).sum();
        let mut classes = [0; 4];
        for ratio in &ratios {
            classes[Class::of(*ratio) as usize] += 1;
        }
        Some(Comparison {
            peer: self.contestants[contestant].name.clone(),
            cases: pairs.len(),
            ours,
            theirs,
            ratio: ratio(ours, theirs)?,
            geometric_mean: (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp(),
            classes,
        })
    }

    pub(super) fn summarize(&self, round: &Round) -> RoundSummary {
        let contestants = 0..self.contestants.len();
        RoundSummary {
            round: round.name.clone(),
            totals: contestants.clone().map(|contestant| self.total(round, contestant)).collect(),
            comparisons: contestants
                .skip(1)
                .filter_map(|contestant| self.compare(round, contestant))
                .collect(),
        }
    }
}

/// Our value as a share of theirs, if both are above zero.
fn ratio(ours: f64, theirs: f64) -> Option<f64> {
    (ours > 0.0 && theirs > 0.0).then(|| ours / theirs)
}
