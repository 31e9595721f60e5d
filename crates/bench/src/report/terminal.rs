//! A report in the terminal: a table per round, and its conclusions.

use comfy_table::{Cell, CellAlignment, Table, presets};

use super::summary::Total;
use super::unit::show_ratio;
use super::{Accumulate, Class, Metric, Outcome, Report, Round, Status};

impl Report {
    /// The report as text: facts, a table per round, totals, and remarks.
    pub fn to_terminal(&self) -> String {
        let mut text = format!("{}\n", self.title);
        let width = self.facts.iter().map(|fact| fact.name.chars().count()).max().unwrap_or(0);
        for fact in &self.facts {
            text.push_str(&format!("  {:width$}  {}\n", fact.name, fact.text));
        }
        for round in &self.rounds {
            text.push_str(&format!("\n{}\n{}\n", round.name, self.table(round)));
            for line in self.conclusions(round) {
                text.push_str(&format!("{line}\n"));
            }
        }
        if self.rounds.len() > 1 {
            text.push_str(&format!("\nAll rounds\n{}\n", self.sweep()));
        }
        text
    }

    /// One row per case: the main metric of all contestants, our ratio to each peer, and the other metrics.
    fn table(&self, round: &Round) -> Table {
        let mut table = new_table();
        let mut header = vec![String::new()];
        let main = self.main_metric();
        header.extend(self.contestants.iter().map(|contestant| contestant.name.clone()));
        header.extend(self.contestants.iter().skip(1).map(|peer| format!("/ {}", peer.name)));
        for metric in self.metrics.iter().skip(1) {
            header.extend(
                self.contestants.iter().map(|contestant| format!("{}\n{}", metric.title, contestant.name)),
            );
        }
        table.set_header(header);
        for case in &round.cases {
            let mut row = vec![Cell::new(&case.name)];
            row.extend(case.outcomes.iter().map(|outcome| right(show_outcome(outcome, main))));
            row.extend(
                (1..case.outcomes.len()).map(|peer| right(self.ratio(case, peer).map_or(dash(), show_ratio))),
            );
            for metric in self.metrics.iter().skip(1) {
                row.extend(
                    case.outcomes.iter().map(|outcome| right(show_value(outcome.measured(metric), metric))),
                );
            }
            table.add_row(row);
        }
        let totals: Vec<_> = (0..self.contestants.len()).map(|index| self.total(round, index)).collect();
        let total_of = |metric: &Metric| -> Vec<Cell> {
            totals.iter().map(|total| right(show_total(total, metric, round.cases.len()))).collect()
        };
        let mut row = vec![Cell::new("total")];
        row.extend(total_of(main));
        row.extend((1..self.contestants.len()).map(|peer| {
            right(self.compare(round, peer).map_or(dash(), |comparison| show_ratio(comparison.ratio)))
        }));
        for metric in self.metrics.iter().skip(1) {
            row.extend(total_of(metric));
        }
        table.add_row(row);
        table
    }

    /// The conclusions of a round, line by line.
    pub(super) fn conclusions(&self, round: &Round) -> Vec<String> {
        let mut lines = Vec::new();
        let cases = round.cases.len();
        for (index, contestant) in self.contestants.iter().enumerate() {
            let total = self.total(round, index);
            let mut line = format!("{}: {} of {cases} right", contestant.name, total.done);
            if total.wrong > 0 {
                line.push_str(&format!(", {} wrong", total.wrong));
            }
            if total.failed > 0 {
                line.push_str(&format!(", {} failed", total.failed));
            }
            if let Some(limited) = self.limited(round, index) {
                let kept = if limited.is_kept() { "within" } else { "ABOVE" };
                let metric = limited.metric;
                let (value, limit) = (metric.unit.show(limited.value), metric.unit.show(limited.limit));
                line.push_str(&format!(", {} {value}, {kept} the limit of {limit}", metric.title));
            } else if let Some(limit) = &round.limit {
                line.push_str(&format!(", {} NOT MEASURED", limit.metric));
            }
            lines.push(line);
        }
        for peer in 1..self.contestants.len() {
            let Some(comparison) = self.compare(round, peer) else { continue };
            let classes: Vec<_> = Class::ALL
                .iter()
                .zip(comparison.classes)
                .map(|(class, count)| format!("{}: {count}", class.title()))
                .collect();
            lines.push(format!(
                "{} / {}: {} in total over {} {}, {} in the geometric mean; {}",
                self.contestants[0].name,
                comparison.peer,
                show_ratio(comparison.ratio),
                comparison.cases,
                if comparison.cases == 1 { "case" } else { "cases" },
                show_ratio(comparison.geometric_mean),
                classes.join(", "),
            ));
        }
        lines.extend(self.remarks(round));
        lines
    }

    /// Cases that were wrong or failed, and differences that were allowed.
    fn remarks(&self, round: &Round) -> Vec<String> {
        let mut lines = Vec::new();
        for case in &round.cases {
            // A note that all contestants have is about the case itself.
            let of_case = |note: &String| case.outcomes.iter().all(|outcome| outcome.notes.contains(note));
            let notes = case.outcomes[0].notes.iter().filter(|note| of_case(note));
            lines.extend(notes.map(|note| format!("{}: {note}", case.name)));
            for (contestant, outcome) in self.contestants.iter().zip(&case.outcomes) {
                let about = format!("{} {}", contestant.name, case.name);
                match &outcome.status {
                    Status::Wrong { reason } => lines.push(format!("{about} is WRONG: {reason}")),
                    Status::Failed { kind, message } => {
                        let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
                        lines.push(format!("{about} failed, {kind}: {message}"));
                    }
                    Status::Right => {}
                }
                let notes = outcome.notes.iter().filter(|note| !of_case(note));
                lines.extend(notes.map(|note| format!("{about}: {note}")));
            }
        }
        lines
    }

    /// Compares rounds: each contestant's total of each metric.
    fn sweep(&self) -> Table {
        let mut table = new_table();
        let mut header = vec![String::new()];
        for metric in &self.metrics {
            header.extend(
                self.contestants.iter().map(|contestant| format!("{}\n{}", metric.title, contestant.name)),
            );
        }
        table.set_header(header);
        for round in &self.rounds {
            let mut row = vec![Cell::new(&round.name)];
            for metric in &self.metrics {
                row.extend(
                    (0..self.contestants.len())
                        .map(|index| right(show_total(&self.total(round, index), metric, round.cases.len()))),
                );
            }
            table.add_row(row);
        }
        table
    }
}

fn new_table() -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_BORDERS_ONLY_CONDENSED);
    table
}

fn right(text: impl Into<String>) -> Cell {
    Cell::new(text.into()).set_alignment(CellAlignment::Right)
}

fn dash() -> String {
    "-".to_owned()
}

fn show_value(value: Option<f64>, metric: &Metric) -> String {
    value.map_or(dash(), |value| metric.unit.show(value))
}

/// A total over `all` cases, marked if it is a sum without some of them.
fn show_total(total: &Total, metric: &Metric, all: usize) -> String {
    let value = show_value(total.values.get(&metric.name).copied(), metric);
    let partial = metric.total == Accumulate::Sum && total.done < all;
    if partial { format!("{value} ({} of {all})", total.done) } else { value }
}

/// The main metric, or why there is none.
fn show_outcome(outcome: &Outcome, metric: &Metric) -> String {
    match &outcome.status {
        Status::Wrong { .. } => "WRONG".to_owned(),
        Status::Failed { kind, .. } => kind.clone(),
        Status::Right => show_value(outcome.best(metric), metric),
    }
}
