//! Goal: a subquery is answered for each row around it, whatever it is made of, also where DataFusion has no join for it. Method: a
//! subquery of each kind of node, in each place, over tables with nulls, repeated rows and no rows; the answers are DuckDB's.

use super::answers::{assert_answers, benches, make};
use super::subqueries::make_both;

#[test]
fn a_part_of_a_subquery_looks_at_the_rows_of_its_outer_row() {
    for bench in benches() {
        make_both(&bench);
        make(&bench, "u", ["j", "k"], &[(1, Some(1)), (2, Some(3))]);
        assert_answers(
            &bench,
            &[
                (
                    "SELECT (SELECT sum(m) FROM (SELECT m, row_number() OVER (ORDER BY m) AS n FROM s WHERE s.k = t.k) WHERE n = 1) FROM t ORDER BY k",
                    &["1", "1", ""],
                ),
                (
                    "SELECT (SELECT max(c) FROM (SELECT count(*) AS c FROM s WHERE s.k = t.k)) FROM t ORDER BY k",
                    &["2", "1", "0"],
                ),
                (
                    "SELECT (SELECT DISTINCT count(*) FROM s WHERE s.k = t.k) FROM t ORDER BY k",
                    &["2", "1", "0"],
                ),
                (
                    "SELECT (SELECT count(*) FROM s WHERE s.k = t.k HAVING true) FROM t ORDER BY k",
                    &["2", "1", "0"],
                ),
                (
                    "SELECT (SELECT count(*) FROM s WHERE s.k = t.k HAVING count(*) < t.k) FROM t ORDER BY k",
                    &["", "1", "0"],
                ),
                (
                    "SELECT (SELECT max(m) FROM s WHERE s.k / 2 = t.k GROUP BY s.k) FROM t ORDER BY k",
                    &["1", "", ""],
                ),
                (
                    "SELECT (SELECT max(m) FROM (SELECT m FROM s WHERE s.k = t.k) AS x) FROM t ORDER BY k",
                    &["2", "1", ""],
                ),
                (
                    "SELECT (SELECT max(m) FROM (SELECT m FROM s WHERE s.k = t.k UNION ALL SELECT j FROM u WHERE u.k = t.k)) FROM t ORDER BY k",
                    &["2", "1", "2"],
                ),
                (
                    "SELECT (SELECT sum(m) FROM (SELECT m FROM s WHERE s.k <= t.k ORDER BY m DESC LIMIT 2)) FROM t ORDER BY k",
                    &["3", "3", "3"],
                ),
                (
                    "SELECT (SELECT sum(m) FROM (SELECT m FROM s WHERE s.k <= t.k ORDER BY m DESC LIMIT 2 OFFSET 1)) FROM t ORDER BY k",
                    &["1", "2", "2"],
                ),
                (
                    "SELECT (SELECT max(x) FROM (VALUES (t.k), (t.v)) AS w(x)) FROM t ORDER BY k",
                    &["9", "2", "7"],
                ),
                ("SELECT (SELECT sum(m + t.v) FROM s) FROM t ORDER BY k", &["31", "10", "25"]),
                ("SELECT (SELECT max(m) FROM s WHERE s.k < t.k) FROM t ORDER BY k", &["", "2", "2"]),
                (
                    "SELECT x.r FROM t, LATERAL (SELECT m, rank() OVER (ORDER BY m) AS r FROM s WHERE s.k = t.k) AS x ORDER BY k, m",
                    &["1", "2", "1"],
                ),
                (
                    "SELECT x.m FROM t, LATERAL (SELECT DISTINCT m FROM s WHERE s.k <> t.k) AS x ORDER BY k, 1",
                    &["1", "1", "2", "1", "2"],
                ),
                (
                    "SELECT c FROM t, LATERAL (SELECT count(*) AS c FROM s WHERE s.k = t.k HAVING count(*) > 0) AS x ORDER BY k",
                    &["2", "1"],
                ),
                // A subquery that names nothing any more, once it is simplified.
                (
                    "SELECT x.m FROM t LEFT JOIN LATERAL (SELECT m FROM s WHERE s.k = t.k OR true ORDER BY m LIMIT 0) AS x ON true",
                    &["", "", ""],
                ),
            ],
        );
    }
}

#[test]
fn a_predicate_of_a_dependent_subquery_has_three_values() {
    for bench in benches() {
        make(&bench, "t", ["k", "v"], &[(1, Some(5)), (2, None)]);
        make(&bench, "s", ["k", "m"], &[(1, Some(5)), (1, None)]);
        let second = "SELECT m FROM s WHERE s.k = t.k ORDER BY m NULLS LAST OFFSET 1";
        let first =
            "SELECT m FROM (SELECT m FROM s WHERE s.k = t.k ORDER BY m NULLS LAST LIMIT 1) WHERE m > 1";
        let none = "SELECT max(m) FROM s WHERE s.k = t.k HAVING count(*) = 0";
        let number = "SELECT row_number() OVER (ORDER BY m) FROM s WHERE s.k = t.k";
        let (no, one, two, both): (&[&str], &[&str], &[&str], &[&str]) = (&[], &["1"], &["2"], &["1", "2"]);
        for (subquery, answers) in [
            (second, [no, two, both, one, two, no]),
            (first, [one, two, both, one, two, no]),
            (none, [no, one, one, two, one, no]),
            (number, [no, both, both, one, two, one]),
        ] {
            let predicates = ["v IN", "v NOT IN", "v > 1 OR v NOT IN", "EXISTS", "NOT EXISTS", "v > ANY"];
            for (predicate, answer) in predicates.into_iter().zip(answers) {
                let sql = format!("SELECT k FROM t WHERE {predicate} ({subquery}) ORDER BY k");
                assert_answers(&bench, &[(&sql, answer)]);
            }
        }
    }
}

#[test]
fn a_subquery_is_answered_wherever_it_stands() {
    for bench in benches() {
        make_both(&bench);
        make(&bench, "u", ["j", "k"], &[(1, Some(1)), (2, Some(3))]);
        assert_answers(
            &bench,
            &[
                ("SELECT v > ALL (SELECT m FROM s) FROM t ORDER BY k", &["true", "false", "true"]),
                (
                    "SELECT v < ANY (SELECT m + 2 FROM s WHERE s.k = t.k) FROM t ORDER BY k",
                    &["false", "true", "false"],
                ),
                (
                    "SELECT k FROM t ORDER BY EXISTS (SELECT 1 FROM s WHERE s.k = t.k), k DESC",
                    &["3", "2", "1"],
                ),
                (
                    "SELECT u.j FROM t LEFT JOIN u ON u.k = t.k AND EXISTS (SELECT 1 FROM s WHERE s.k < t.k) ORDER BY t.k",
                    &["", "", "2"],
                ),
                (
                    "SELECT u.j FROM t LEFT JOIN u ON u.k = t.k AND EXISTS (SELECT 1 FROM s WHERE s.m > u.j) ORDER BY t.k",
                    &["1", "", ""],
                ),
                (
                    "SELECT sum((SELECT count(*) FROM s WHERE s.k <> t.k)) OVER (ORDER BY k) FROM t ORDER BY k",
                    &["1", "3", "6"],
                ),
                (
                    "SELECT count(*) FROM t GROUP BY (SELECT count(*) FROM s WHERE s.k < t.k) ORDER BY 1",
                    &["1", "1", "1"],
                ),
                (
                    "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM s WHERE s.k = t.k UNION ALL SELECT 1 FROM u WHERE u.k = t.k) ORDER BY k",
                    &["1", "2", "3"],
                ),
            ],
        );
    }
}

#[test]
fn a_row_stays_one_row() {
    for bench in benches() {
        make(&bench, "t", ["k", "v"], &[(1, Some(2)), (1, Some(2)), (2, None), (3, Some(0)), (4, Some(9))]);
        make(&bench, "s", ["k", "m"], &[(1, Some(1)), (2, Some(2)), (2, Some(2)), (3, None)]);
        make(&bench, "none", ["k", "m"], &[]);
        assert_answers(
            &bench,
            &[
                // The groups are of two keys, the outer column one of them.
                (
                    "SELECT EXISTS (SELECT max(m) FROM s WHERE s.k <= t.v GROUP BY s.m) FROM t ORDER BY k",
                    &["true", "true", "false", "false", "true"],
                ),
                (
                    "SELECT k FROM t WHERE v IS NULL OR EXISTS (SELECT max(m) FROM s WHERE s.k <= t.v GROUP BY s.m) ORDER BY k",
                    &["1", "1", "2", "4"],
                ),
                (
                    "SELECT (SELECT count(*) FROM (SELECT m FROM (SELECT DISTINCT m FROM s) WHERE m < t.v GROUP BY m)) FROM t ORDER BY k",
                    &["1", "1", "0", "0", "2"],
                ),
                ("SELECT (SELECT count(*) FROM none WHERE none.k < t.v) FROM t", &["0", "0", "0", "0", "0"]),
                (
                    "SELECT (SELECT max(m) FROM s WHERE t.v IS NULL AND s.k <> t.k) FROM t ORDER BY k",
                    &["", "", "1", "", ""],
                ),
                ("SELECT t.k FROM none AS t WHERE (SELECT count(*) FROM s WHERE s.k < t.m) = 0", &[]),
            ],
        );
    }
}

#[test]
fn negative_zero_is_zero() {
    for bench in benches() {
        bench.sql("CREATE TABLE t AS SELECT column1 AS k, column2 AS f FROM (VALUES (1, 0e0), (2, -0e0), (3, CAST('NaN' AS DOUBLE)), (4, NULL))");
        bench.sql("CREATE TABLE s AS SELECT column1 AS f FROM (VALUES (0e0), (1e0), (-1e0))");
        assert_answers(
            &bench,
            &[
                ("SELECT (SELECT max(s.f + t.f) FROM s) FROM t ORDER BY k", &["1.0", "1.0", "NaN", ""]),
                ("SELECT (SELECT count(*) FROM s WHERE s.f < t.f) FROM t ORDER BY k", &["1", "1", "3", "0"]),
            ],
        );
    }
}

#[test]
fn rows_that_may_be_others_the_second_time_are_not_computed_twice() {
    for bench in benches() {
        make_both(&bench);
        let numbered = "(SELECT v, row_number() OVER () AS n FROM t) AS x";
        let limited = "(SELECT v AS n FROM t LIMIT 2) AS x";
        let random = "(SELECT v + floor(random() * 3) AS n FROM t) AS x";
        let summed = "(SELECT sum(v / 3e0) AS n FROM t GROUP BY k) AS x";
        for rows in [numbered, limited, random, summed] {
            let error = bench.refused(&format!("SELECT (SELECT sum(m) FROM s WHERE s.k < n) FROM {rows}"));
            assert!(error.to_string().contains("not supported: a subquery"), "{rows}: {error}");
        }
        let ordered = "(SELECT v AS n FROM t ORDER BY v LIMIT 2) AS x";
        let ranked = "(SELECT v, rank() OVER (ORDER BY v) AS n FROM t) AS x";
        assert_answers(
            &bench,
            &[
                (
                    &format!("SELECT (SELECT sum(m) FROM s WHERE s.k < n) FROM {ordered} ORDER BY n"),
                    &["3", "4"],
                ),
                (
                    &format!("SELECT (SELECT sum(m) FROM s WHERE s.k < n) FROM {ranked} ORDER BY n"),
                    &["", "3", "4"],
                ),
                (
                    &format!("SELECT (SELECT sum(m) FROM s WHERE s.k < v) FROM {numbered} ORDER BY v"),
                    &["3", "4", "4"],
                ),
            ],
        );
    }
}
