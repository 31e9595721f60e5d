//! Goal: no wrong answer passes, and no right one fails. Method: small answers, each changed in one way.

use super::value::Value;
use super::*;

const SQL: &str = "select name, day, total, share from t order by total desc limit 4";

fn row(name: &str, day: i32, cents: i128, share: f64) -> Vec<Value> {
    let name = if name.is_empty() { Value::Null } else { Value::Text(name.to_owned()) };
    vec![name, Value::Date(day), Value::Exact { unscaled: cents, scale: 2 }, Value::Float(share)]
}

fn answer(rows: &[Vec<Value>]) -> Answer {
    let names: Vec<_> = ["name", "day", "total", "share"].iter().map(|name| (*name).to_owned()).collect();
    let columns =
        (0..names.len()).map(|column| rows.iter().map(|row| row[column].clone()).collect()).collect();
    Answer { names, columns, rows: rows.len() }
}

/// Four rows; the last two tie in `total`, also with a fifth one that the limit cut off.
fn rows() -> Vec<Vec<Value>> {
    vec![row("a", 10, 500, 0.5), row("b", 11, 400, 0.25), row("c", 12, 300, 0.125), row("d", 13, 300, 0.0625)]
}

fn all_rows() -> Vec<Vec<Value>> {
    let mut all = rows();
    all.extend([row("e", 14, 300, 0.3), row("f", 15, 200, 0.7)]);
    all
}

fn verdict_of(sql: &str, rows: &[Vec<Value>]) -> Verdict {
    compare(sql, &answer(rows), &answer(&super::tests::rows()), || Ok(answer(&all_rows()))).unwrap()
}

fn verdict(rows: &[Vec<Value>]) -> Verdict {
    verdict_of(SQL, rows)
}

#[track_caller]
fn assert_wrong(rows: &[Vec<Value>], says: &str) {
    match verdict(rows) {
        Verdict::Wrong(reason) => assert!(reason.contains(says), "{reason}"),
        right => panic!("{right:?}"),
    }
}

#[test]
fn the_same_answer_is_right() {
    assert_eq!(verdict(&rows()), Verdict::Right(vec![]));
}

#[test]
fn one_value_off_is_wrong() {
    for (index, value) in [
        Value::Text("B".into()),
        Value::Date(12),
        Value::Exact { unscaled: 401, scale: 2 },
        Value::Float(0.250_001),
    ]
    .into_iter()
    .enumerate()
    {
        let mut changed = rows();
        changed[1][index] = value;
        assert!(matches!(verdict(&changed), Verdict::Wrong(_)), "column {index}");
        assert!(matches!(verdict_of("select 1", &changed), Verdict::Wrong(_)), "column {index}, unordered");
    }
}

#[test]
fn rounding_is_allowed() {
    let mut changed = rows();
    changed[1][3] = Value::Float(0.25 + 1e-12);
    changed[1][2] = Value::Exact { unscaled: 4_000_000, scale: 6 };
    assert_eq!(verdict(&changed), Verdict::Right(vec![]));
}

#[test]
fn swapped_rows_are_wrong_where_the_query_orders() {
    let mut swapped = rows();
    swapped.swap(0, 1);
    assert_wrong(&swapped, "row 1, column 3 (total)");
    assert_eq!(verdict_of("select name, day, total, share from t", &swapped), Verdict::Right(vec![]));
}

#[test]
fn rows_that_tie_may_be_swapped() {
    let mut swapped = rows();
    swapped.swap(2, 3);
    assert_eq!(verdict(&swapped), Verdict::Right(vec![]));
    assert!(matches!(
        verdict_of("select name, day, total, share from t order by total desc, name", &swapped),
        Verdict::Wrong(_)
    ));
}

#[test]
fn a_missing_or_extra_row_is_wrong() {
    assert_wrong(&rows()[..3], "3 rows where the oracle has 4");
    assert_wrong(&all_rows()[..5], "5 rows where the oracle has 4");
    let mut twice = rows();
    twice[3] = twice[2].clone();
    assert_wrong(&twice, "1 of 4 rows");
}

#[test]
fn null_is_not_zero_or_empty() {
    let mut changed = rows();
    changed[3][0] = Value::Null;
    assert_wrong(&changed, "1 of 4 rows");
    let mut changed = rows();
    changed[3][3] = Value::Null;
    assert_wrong(&changed, "1 of 4 rows");
}

#[test]
fn a_limit_may_keep_other_rows_that_tie() {
    let mut other = rows();
    other[3] = row("e", 14, 300, 0.3);
    match verdict(&other) {
        Verdict::Right(notes) => assert!(notes[0].contains("1 other rows"), "{notes:?}"),
        wrong => panic!("{wrong:?}"),
    }
    let mut invented = rows();
    invented[3] = row("x", 14, 300, 0.3);
    assert_wrong(&invented, "1 of 4 rows");
    let mut not_at_the_cut = rows();
    not_at_the_cut[0] = row("e", 14, 500, 0.3);
    assert_wrong(&not_at_the_cut, "1 of 4 rows");
    let without = "select name, day, total, share from t order by total desc";
    assert!(matches!(verdict_of(without, &other), Verdict::Wrong(_)));
}

#[test]
fn an_order_that_is_not_shown_is_said() {
    let sql = "select name, day, total, share from t order by total desc, total + share, name limit 4";
    match verdict_of(sql, &rows()) {
        Verdict::Right(notes) => assert!(notes[0].contains("1 of its 3 keys"), "{notes:?}"),
        wrong => panic!("{wrong:?}"),
    }
    let mut other = rows();
    other[3] = row("e", 14, 300, 0.3);
    assert!(matches!(verdict_of(sql, &other), Verdict::Wrong(_)), "nobody can see that it ties");
}

#[test]
fn an_order_that_is_not_understood_lets_no_other_rows_pass() {
    let sql = "select name, day, total, share from t order by all limit 4";
    match verdict_of(sql, &rows()) {
        Verdict::Right(notes) => assert!(notes[0].contains("not understood"), "{notes:?}"),
        wrong => panic!("{wrong:?}"),
    }
    let mut other = rows();
    other[3] = row("e", 14, 300, 0.3);
    assert!(matches!(verdict_of(sql, &other), Verdict::Wrong(_)), "nobody can see that it ties");
}

#[test]
fn rows_with_the_same_exact_values_find_their_partners() {
    // Sorted by the first inexact column, neighbours are not partners: 0.1 + 0.2 and 0.3 differ in the last bit.
    let ours = [row("a", 1, 100, 0.1 + 0.2), row("a", 1, 100, 0.3), row("a", 1, 100, 7.0)];
    let theirs = [row("a", 1, 100, 7.0), row("a", 1, 100, 0.3), row("a", 1, 100, 0.3)];
    let never = || unreachable!("nothing was cut");
    let same = compare("select 1", &answer(&ours), &answer(&theirs), never).unwrap();
    assert!(matches!(same, Verdict::Right(_)), "{same:?}");
    let theirs = [row("a", 1, 100, 7.0), row("a", 1, 100, 7.0), row("a", 1, 100, 0.3)];
    let never = || unreachable!("nothing was cut");
    let other = compare("select 1", &answer(&ours), &answer(&theirs), never).unwrap();
    assert!(matches!(other, Verdict::Wrong(_)), "{other:?}");
}

#[test]
fn surplus_rows_of_a_large_group_are_wrong() {
    // One row of "b" has become one of "a", in groups that are too large for all partners to be tried.
    let of = |a: usize, b: usize| {
        answer(&[vec![row("a", 1, 100, 1.0); a], vec![row("b", 1, 100, 1.0); b]].concat())
    };
    let never = || unreachable!("nothing was cut");
    assert_eq!(compare("select 1", &of(2501, 2501), &of(2501, 2501), never).unwrap(), Verdict::Right(vec![]));
    match compare("select 1", &of(2502, 2500), &of(2501, 2501), never).unwrap() {
        Verdict::Wrong(reason) => assert!(reason.starts_with("1 of 5002 rows"), "{reason}"),
        right => panic!("{right:?}"),
    }
}

#[test]
fn other_columns_are_wrong() {
    let mut fewer = answer(&rows());
    fewer.columns.pop();
    fewer.names.pop();
    let verdict = compare(SQL, &fewer, &answer(&rows()), || unreachable!("nothing was cut")).unwrap();
    assert_eq!(verdict, Verdict::Wrong("3 columns where the oracle has 4".to_owned()));
}
