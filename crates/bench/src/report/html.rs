//! A report as one self-contained page: charts, the distribution of cases, every measurement.

use std::fmt::Write;

use super::svg::{Bar, BarChart, escape};
use super::unit::show_ratio;
use super::{Case, Class, Metric, Report, Round, Status};

/// The ratio at which a bar's length is zero, as it is for smaller ones.
const RATIO_LEAST: f64 = 0.05;

const STYLE: &str = include_str!("page.css");

impl Report {
    /// The report as an HTML page without external resources and scripts.
    pub fn to_html(&self) -> String {
        let title = escape(&self.title);
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <title>{title}</title>\n<style>\n{STYLE}</style></head><body>\n<h1>{title}</h1>\n{}\n",
            self.legend(),
        );
        if self.rounds.len() > 1 {
            page.push_str("<section><h2>All rounds</h2>\n");
            for metric in &self.metrics {
                page.push_str(&self.sweep_chart(metric).to_html());
            }
            page.push_str("</section>\n");
        }
        for round in &self.rounds {
            self.push_round(&mut page, round);
        }
        page.push_str("<section><h2>How it was measured</h2><dl>");
        for fact in &self.facts {
            // Writing to a string cannot fail.
            let _ = write!(page, "<dt>{}</dt><dd>{}</dd>", escape(&fact.name), escape(&fact.text));
        }
        page.push_str("</dl></section>\n</body></html>\n");
        page
    }

    fn legend(&self) -> String {
        let entries: String = (self.contestants.iter().enumerate())
            .map(|(index, contestant)| {
                format!("<li><span class=\"s{index}\"></span>{}</li>", escape(&contestant.version))
            })
            .collect();
        format!("<ul class=\"legend\">{entries}</ul>")
    }

    fn push_round(&self, page: &mut String, round: &Round) {
        let _ = writeln!(page, "<section><h2>{}</h2>", escape(&round.name));
        for metric in &self.metrics {
            page.push_str(&self.round_chart(round, metric).to_html());
        }
        if self.contestants.len() > 1 {
            self.push_distribution(page, round);
            page.push_str(&self.ratio_chart(round).to_html());
        }
        page.push_str("<ul class=\"remarks\">");
        for line in self.conclusions(round) {
            let _ = write!(page, "<li>{}</li>", escape(&line));
        }
        page.push_str("</ul>\n");
        self.push_table(page, round);
        page.push_str("</section>\n");
    }

    /// Every contestant's total in one round.
    fn round_chart(&self, round: &Round, metric: &Metric) -> BarChart {
        let limit = limit_of(round, metric);
        let bars = self.total_bars(round, metric, |index| self.contestants[index].name.clone());
        BarChart {
            title: format!("{}, over all cases", metric.title),
            groups: vec![bars],
            marks: limit
                .map(|limit| (limit, format!("limit {}", metric.unit.show(limit))))
                .into_iter()
                .collect(),
            logarithmic_from: None,
        }
    }

    /// Every contestant's total in every round.
    fn sweep_chart(&self, metric: &Metric) -> BarChart {
        let group = |round: &Round| {
            self.total_bars(round, metric, |index| match &self.contestants[index].name {
                name if index == 0 => format!("{} · {name}", round.name),
                name => name.clone(),
            })
        };
        BarChart {
            title: format!("{}, over all cases, by round", metric.title),
            groups: self.rounds.iter().map(group).collect(),
            marks: Vec::new(),
            logarithmic_from: None,
        }
    }

    fn total_bars(&self, round: &Round, metric: &Metric, label: impl Fn(usize) -> String) -> Vec<Bar> {
        let limit = limit_of(round, metric);
        (0..self.contestants.len())
            .map(|index| {
                let total = self.total(round, index);
                let value = total.values.get(&metric.name).copied();
                let mut text = value.map_or("-".to_owned(), |value| metric.unit.show(value));
                if total.done < round.cases.len() {
                    let _ = write!(text, ", {} of {} done", total.done, round.cases.len());
                }
                if limit.is_some_and(|limit| value.is_some_and(|value| value > limit)) {
                    text.push_str(", above the limit");
                }
                Bar { series: index, label: label(index), value, text }
            })
            .collect()
    }

    /// Each case's ratio to each peer.
    fn ratio_chart(&self, round: &Round) -> BarChart {
        let group = |case: &Case| -> Vec<Bar> {
            (1..self.contestants.len())
                .map(|peer| {
                    let value = self.ratio(case, peer);
                    let label = if peer == 1 { case.name.clone() } else { String::new() };
                    Bar { series: peer, label, value, text: value.map_or("-".to_owned(), show_ratio) }
                })
                .collect()
        };
        let (ours, metric) = (&self.contestants[0].name, &self.main_metric().title);
        BarChart {
            title: format!(
                "{metric} of {ours} as a share of each peer's; below 1 {ours} is better; logarithmic"
            ),
            groups: round.cases.iter().map(group).collect(),
            marks: vec![(1.0, "1".to_owned())],
            logarithmic_from: Some(RATIO_LEAST),
        }
    }

    fn push_distribution(&self, page: &mut String, round: &Round) {
        let ours = escape(&self.contestants[0].name);
        let _ = write!(page, "<table><tr><th>{ours} against</th><th>total</th><th>geometric mean</th>");
        for class in Class::ALL {
            let _ = write!(page, "<th>{}</th>", escape(class.title()));
        }
        page.push_str("<th>cases</th></tr>");
        for comparison in (1..self.contestants.len()).filter_map(|peer| self.compare(round, peer)) {
            let _ = write!(
                page,
                "<tr><th>{}</th><td>{}</td><td>{}</td>",
                escape(&comparison.peer),
                show_ratio(comparison.ratio),
                show_ratio(comparison.geometric_mean),
            );
            for (class, count) in Class::ALL.iter().zip(comparison.classes) {
                let share = count as f64 / comparison.cases as f64 * 100.0;
                let _ = write!(page, "<td class=\"c{}\">{count} ({share:.0} %)</td>", *class as usize);
            }
            let _ = write!(page, "<td>{}</td></tr>", comparison.cases);
        }
        page.push_str("</table>\n");
    }

    /// Every measurement, with the spread of repeated ones.
    fn push_table(&self, page: &mut String, round: &Round) {
        page.push_str(
            "<details><summary>Every measurement</summary><div class=\"wide\"><table><tr><th>case</th>",
        );
        for metric in &self.metrics {
            for contestant in &self.contestants {
                let _ = write!(page, "<th>{}<br>{}</th>", escape(&metric.title), escape(&contestant.name));
            }
        }
        page.push_str("</tr>\n");
        for case in &round.cases {
            let _ = write!(page, "<tr><th>{}</th>", escape(&case.name));
            for metric in &self.metrics {
                for outcome in &case.outcomes {
                    let (class, said) = match &outcome.status {
                        Status::Right => ("", None),
                        Status::Wrong { reason } => ("wrong", Some(format!("wrong: {reason}"))),
                        Status::Failed { kind, message } => ("failed", Some(format!("{kind}: {message}"))),
                    };
                    let value =
                        outcome.measured(metric).map_or("-".to_owned(), |value| metric.unit.show(value));
                    let spread = outcome.spread(metric).map(|spread| format!("worst / best {spread:.2}"));
                    let hover = escape(&said.or(spread).unwrap_or_default());
                    let _ = write!(page, "<td class=\"{class}\" title=\"{hover}\">{value}</td>");
                }
            }
            page.push_str("</tr>\n");
        }
        page.push_str("</table></div></details>\n");
    }
}

fn limit_of(round: &Round, metric: &Metric) -> Option<f64> {
    round.limit.as_ref().filter(|limit| limit.metric == metric.name).map(|limit| limit.value)
}
