//! Goal: numbers come out as they went in, and nothing wrong looks right. Method: a small report with known answers.

use serde_json::{Value, json};

use super::*;

fn outcome(times: &[f64], peak: f64) -> Outcome {
    let values = BTreeMap::from([("time".to_owned(), times.to_vec()), ("peak".to_owned(), vec![peak])]);
    Outcome { status: Status::Right, values, notes: vec![] }
}

fn case(name: &str, ours: &[f64], theirs: &[f64]) -> Case {
    Case { name: name.to_owned(), outcomes: vec![outcome(ours, 100.0), outcome(theirs, 50.0)] }
}

fn report(cases: Vec<Case>) -> Report {
    let metric =
        |name: &str, unit, total| Metric { name: name.to_owned(), title: name.to_owned(), unit, total };
    let contestant = |name: &str| Contestant { name: name.to_owned(), version: format!("{name} <1>") };
    Report {
        title: "a suite & its cases".to_owned(),
        facts: vec![Fact::new("machine", "two cores")],
        metrics: vec![
            metric("time", Unit::Milliseconds, Accumulate::Sum),
            metric("peak", Unit::Bytes, Accumulate::Max),
        ],
        contestants: vec![contestant("ours"), contestant("theirs")],
        rounds: vec![Round {
            name: "a round".to_owned(),
            limit: Some(Limit { metric: "peak".to_owned(), value: 150.0 }),
            overall: vec![BTreeMap::from([("peak".to_owned(), 120.0)]), BTreeMap::new()],
            cases,
        }],
    }
}

fn five() -> Report {
    report(vec![
        case("Q1", &[90.0, 80.0, 85.0], &[100.0]),
        case("Q2", &[100.0], &[100.0, 130.0]),
        case("Q3", &[115.0], &[100.0]),
        case("Q4", &[400.0], &[100.0]),
        case("Q5", &[105.0], &[100.0]),
    ])
}

#[test]
fn the_best_time_counts_and_classes_follow() {
    let report = five();
    let round = &report.rounds[0];
    let comparison = report.compare(round, 1).unwrap();
    assert_eq!((comparison.cases, comparison.ours, comparison.theirs), (5, 800.0, 500.0));
    assert_eq!(comparison.ratio, 1.6);
    assert_eq!(comparison.classes, [1, 2, 1, 1]);
    let mean = (0.8f64 * 1.0 * 1.15 * 4.0 * 1.05).powf(0.2);
    assert!((comparison.geometric_mean - mean).abs() < 1e-12);
    let spread = round.cases[0].outcomes[0].spread(&report.metrics[0]).unwrap();
    assert_eq!(spread, 90.0 / 80.0);
}

#[test]
fn the_borders_of_classes_are_the_stated_ones() {
    for (ratio, class) in [
        (0.90, Class::Better),
        (0.91, Class::Level),
        (1.10, Class::Level),
        (1.11, Class::Worse),
        (1.20, Class::Worse),
        (1.21, Class::MuchWorse),
    ] {
        assert_eq!(Class::of(ratio), class, "{ratio}");
    }
}

#[test]
fn a_wrong_answer_has_no_time_and_is_not_right() {
    let mut report = five();
    assert!(report.is_right());
    report.rounds[0].cases[3].outcomes[0].status = Status::Wrong { reason: "7 is not 8".to_owned() };
    assert!(!report.is_right());
    let comparison = report.compare(&report.rounds[0], 1).unwrap();
    assert_eq!((comparison.cases, comparison.ratio), (4, 1.0));
    let total = report.total(&report.rounds[0], 0);
    assert_eq!((total.done, total.wrong, total.failed), (4, 1, 0));
    let text = report.to_terminal();
    assert!(
        text.contains("ours Q4 is WRONG: 7 is not 8") && text.contains("4 of 5 right, 1 wrong"),
        "{text}"
    );
    assert!(report.to_html().contains("ours Q4 is WRONG: 7 is not 8"));
}

#[test]
fn a_peer_that_fails_is_not_our_fault_but_its_memory_counts() {
    let mut report = five();
    let failed = Status::Failed { kind: "resource_exhausted".to_owned(), message: "no\n memory".to_owned() };
    report.rounds[0].cases[0].outcomes[1] =
        Outcome { status: failed, values: BTreeMap::from([("peak".to_owned(), vec![900.0])]), notes: vec![] };
    assert!(report.is_right());
    assert_eq!(report.total(&report.rounds[0], 1).values["peak"], 900.0);
    let text = report.to_terminal();
    assert!(text.contains("theirs Q1 failed, resource_exhausted: no memory"), "{text}");
    assert!(text.contains("theirs: 4 of 5 right, 1 failed, peak 0.0 MiB, ABOVE the limit"), "{text}");
    let total = text.lines().find(|line| line.contains("total")).unwrap();
    assert!(
        total.contains("(4 of 5)") && !total.contains("(5 of 5)"),
        "a smaller total is not a better one: {total}"
    );
    assert!(text.contains("ours: 5 of 5 right, peak 0.0 MiB, within the limit"), "{text}");
}

#[test]
fn a_limit_is_broken_by_ours_in_any_round_and_in_a_case_that_failed_too() {
    let mut report = five();
    report.rounds.push(report.rounds[0].clone());
    let set = |report: &mut Report, contestant: usize, peak: f64| {
        report.rounds[1].cases[2].outcomes[contestant].values.insert("peak".to_owned(), vec![20.0, peak]);
    };
    set(&mut report, 0, 150.0);
    set(&mut report, 1, 900.0);
    assert!(report.keeps_limits(), "the limit itself is allowed, and a peer's excess is not ours");
    set(&mut report, 0, 151.0);
    assert!(!report.keeps_limits());
    assert!(report.is_right(), "the answers are right all the same");
    report.rounds[1].cases[2].outcomes[0].status =
        Status::Failed { kind: "crashed".to_owned(), message: String::new() };
    assert!(!report.keeps_limits());
    report.rounds[1].limit = None;
    assert!(report.keeps_limits(), "without a limit there is none to break");
    report.rounds[0].overall[0].clear();
    report.rounds[0]
        .cases
        .iter_mut()
        .for_each(|case| case.outcomes[0].values.retain(|name, _| name == "time"));
    assert!(!report.keeps_limits(), "nobody knows what was not measured");
    assert!(report.to_terminal().contains("ours: 5 of 5 right, peak NOT MEASURED"));
}

#[test]
fn a_note_on_everyone_is_said_once() {
    let mut report = five();
    for outcome in &mut report.rounds[0].cases[1].outcomes {
        outcome.notes.push("shared".to_owned());
    }
    report.rounds[0].cases[2].outcomes[1].notes.push("single".to_owned());
    let text = report.to_terminal();
    assert_eq!(text.matches("shared").count(), 1);
    assert!(text.contains("Q2: shared") && text.contains("theirs Q3: single"), "{text}");
}

#[test]
fn memory_held_outside_of_cases_counts() {
    assert_eq!(five().total(&five().rounds[0], 0).values["peak"], 120.0);
}

#[test]
fn json_has_every_measurement_and_the_summary() {
    let mut report = five();
    let wrong = Status::Wrong { reason: "7 is not 8".to_owned() };
    report.rounds[0].cases[3].outcomes[1].status = wrong;
    let value: Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(value["title"], "a suite & its cases");
    assert_eq!(value["contestants"][1]["version"], "theirs <1>");
    let metric = json!({"name": "peak", "title": "peak", "unit": "bytes", "total": "max"});
    assert_eq!(value["metrics"][1], metric);
    let round = &value["rounds"][0];
    assert_eq!(round["limit"], json!({"metric": "peak", "value": 150.0}));
    assert_eq!(round["overall"][0], json!({"peak": 120.0}));
    let (first, fourth) = (&round["cases"][0], &round["cases"][3]);
    assert_eq!(first["name"], "Q1");
    assert_eq!(first["outcomes"][0]["values"], json!({"time": [90.0, 80.0, 85.0], "peak": [100.0]}));
    assert_eq!(fourth["outcomes"][1]["status"], json!({"status": "wrong", "reason": "7 is not 8"}));
    let summary = &value["summary"][0];
    assert_eq!((&summary["comparisons"][0]["cases"], &summary["totals"][0]["done"]), (&json!(4), &json!(5)));
}

#[test]
fn the_page_is_whole_and_needs_nothing_else() {
    let mut report = five();
    report.rounds.push(report.rounds[0].clone());
    let page = report.to_html();
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    for outside in ["http:", "https:", "src=", "<script", "@import", "url("] {
        assert!(!page.contains(outside), "the page has {outside}");
    }
    assert!(page.contains("a suite &amp; its cases") && page.contains("ours &lt;1&gt;"), "text is escaped");
    for tag in ["svg", "figure", "table", "section", "ul", "dl", "details"] {
        let (open, close) =
            (page.matches(&format!("<{tag}")).count(), page.matches(&format!("</{tag}>")).count());
        assert_eq!(open, close, "{tag}");
    }
    // Per round: two charts of totals and one of ratios; and the sweep of both metrics.
    assert_eq!(page.matches("<svg").count(), 2 * 3 + 2);
}
