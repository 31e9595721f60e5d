//! Goal: a `SELECT` may have a column twice, or with a cast beside itself, as in other engines.

use super::Bench;
use super::answers::{assert_answers, benches};

/// The columns' names and the first row of an answer.
fn head(bench: &Bench, sql: &str) -> [Vec<String>; 2] {
    let table = bench.sql(sql);
    let cells = |line: usize| -> Vec<String> {
        let line = table.lines().nth(line).unwrap_or_default().trim_matches('|');
        line.split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    [cells(1), cells(3)]
}

#[test]
fn a_column_may_stand_twice_in_a_select() {
    let bench = Bench::new();
    bench.sql("CREATE TABLE t AS SELECT column1 AS a, column2 AS b FROM (VALUES (1, 'x'), (1, 'x'))");
    bench.sql("COPY t TO '~/t.parquet'");
    for (sql, names, row) in [
        ("SELECT a, a FROM t", vec!["a", "a_1"], vec!["1", "1"]),
        ("SELECT a, a::text || '!' AS c, a::text FROM t", vec!["a", "c", "a::TEXT"], vec!["1", "1!", "1"]),
        ("SELECT a::text, a FROM t", vec!["a::TEXT", "a"], vec!["1", "1"]),
        ("SELECT *, a FROM t", vec!["a", "b", "a_1"], vec!["1", "x", "1"]),
        ("SELECT a, *, b FROM '~/t.parquet'", vec!["a_1", "a", "b", "b_1"], vec!["1", "1", "x", "x"]),
        ("SELECT *, a::double, b FROM t", vec!["a", "b", "a::DOUBLE", "b_1"], vec!["1", "x", "1.0", "x"]),
        ("SELECT *, 7 AS a FROM t", vec!["a", "b", "a_1"], vec!["1", "x", "7"]),
        (
            "SELECT a, upper(b) AS b, * FROM '~/t.parquet'",
            vec!["a_1", "b_1", "a", "b"],
            vec!["1", "X", "1", "x"],
        ),
        ("SELECT t.a, q.b AS a FROM t, t AS q", vec!["a", "a_1"], vec!["1", "x"]),
        ("SELECT b, (SELECT 7 AS b) FROM t", vec!["b", "(SELECT 7 AS b)"], vec!["x", "7"]),
        (
            "SELECT *, a + 1 AS a FROM (SELECT b, 7 AS a FROM t) AS q",
            vec!["b", "a", "a_1"],
            vec!["x", "7", "8"],
        ),
        (
            "SELECT *, a + 1 AS a FROM (SELECT *, 7 AS c FROM t)",
            vec!["a", "b", "c", "a_1"],
            vec!["1", "x", "7", "2"],
        ),
        ("SELECT 1 AS n, 2 AS n", vec!["n", "n_1"], vec!["1", "2"]),
        ("SELECT sum(a), sum(a::double) FROM t", vec!["sum(a)", "sum(a::DOUBLE)"], vec!["2", "2.0"]),
        ("SELECT count(*), count(*) FROM t", vec!["count(*)", "count(*)_1"], vec!["2", "2"]),
        ("SELECT q.a_1 FROM (SELECT a, a::text FROM t) AS q", vec!["a_1"], vec!["1"]),
        ("SELECT * FROM (SELECT *, a FROM t) AS q", vec!["a", "b", "a_1"], vec!["1", "x", "1"]),
        ("WITH q AS (SELECT a, a FROM t) SELECT a, a_1 FROM q", vec!["a", "a_1"], vec!["1", "1"]),
        ("SELECT DISTINCT a, a::text FROM t ORDER BY a::text", vec!["a", "a::TEXT"], vec!["1", "1"]),
    ] {
        let [given_names, given_row] = head(&bench, sql);
        assert_eq!((given_names, given_row), (to_text(names), to_text(row)), "{sql}");
    }
    bench.sql("CREATE VIEW v AS SELECT a, a FROM t");
    assert_eq!(head(&bench, "SELECT * FROM v")[0], ["a", "a_1"]);
    bench.sql("COPY (SELECT *, a FROM t) TO '~/u.parquet'");
    assert_eq!(head(&bench, "SELECT * FROM '~/u.parquet'")[0], ["a", "b", "a_1"]);
    bench.sql("CREATE TABLE u AS SELECT a, a::double FROM t");
    assert_eq!(head(&bench, "SELECT a_1 FROM u")[1], ["1.0"]);
}

fn to_text(words: Vec<&str>) -> Vec<String> {
    words.into_iter().map(str::to_owned).collect()
}

#[test]
fn aggregates_and_windows_that_differ_by_a_cast_are_two() {
    for bench in benches() {
        bench.sql("CREATE TABLE t AS SELECT column1 AS a FROM (VALUES (1.2), (1.4), (2.6))");
        let cases: [(&str, &[&str]); 5] = [
            ("SELECT sum(a) > sum(a::int) FROM t", &["true"]),
            ("SELECT min(a) FROM t HAVING sum(a::int) > 3", &["1.2"]),
            (
                "SELECT x + y FROM (SELECT max(a) OVER () AS x, max(a::int) OVER () AS y FROM t) LIMIT 1",
                &["4.6"],
            ),
            ("SELECT count(DISTINCT a) * 10 + count(DISTINCT a::int) FROM t", &["32"]),
            ("SELECT sum(a::int) FROM t GROUP BY a::int ORDER BY sum(a::int)", &["2", "2"]),
        ];
        assert_answers(&bench, &cases);
    }
}
