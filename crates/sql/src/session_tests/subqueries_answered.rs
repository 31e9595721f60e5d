//! Goal: a subquery that DataFusion refuses, or answers of another column, is answered as in other engines. Method: statements in
//! which subqueries look a value up, have columns of one name, or write their rows out.

use super::answers::{assert_answers, benches};
use super::subqueries::make_both;

#[test]
fn columns_of_one_name_in_a_subquery_are_told_apart() {
    for bench in benches() {
        bench.sql(
            "CREATE TABLE t AS SELECT column1 AS k, column2 AS c FROM (VALUES (1, 10), (2, 20), (3, 30))",
        );
        bench.sql(
            "CREATE TABLE x AS SELECT column1 AS k, column2 AS c FROM (VALUES (1, 10), (2, 99), (3, 77))",
        );
        bench.sql(
            "CREATE TABLE y AS SELECT column1 AS k, column2 AS c FROM (VALUES (1, 77), (2, 20), (3, 30))",
        );
        assert_answers(
            &bench,
            &[
                (
                    "SELECT k FROM t WHERE EXISTS (SELECT x.c FROM x CROSS JOIN y WHERE y.c = t.c) ORDER BY k",
                    &["2", "3"],
                ),
                ("SELECT k FROM t WHERE NOT EXISTS (SELECT * FROM x CROSS JOIN y WHERE y.c = t.c)", &["1"]),
                (
                    "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM x JOIN y USING (k) WHERE y.c = t.c AND x.c < 90)",
                    &["3"],
                ),
                ("SELECT k FROM t WHERE c + 79 IN (SELECT x.c FROM x CROSS JOIN y WHERE y.c = t.c)", &["2"]),
                (
                    "SELECT (SELECT x.c FROM x JOIN y ON x.k = y.k WHERE y.c = t.c) FROM t ORDER BY k",
                    &["", "99", "77"],
                ),
                (
                    "SELECT (SELECT count(*) FROM x, y WHERE y.c = t.c AND x.c = t.c + 79) FROM t ORDER BY k",
                    &["0", "1", "0"],
                ),
                ("SELECT (SELECT max(x.k) AS c FROM x WHERE x.c = t.c) FROM t ORDER BY k", &["1", "", ""]),
                (
                    "SELECT l.c FROM t, LATERAL (SELECT x.c FROM x JOIN y ON x.k = y.k WHERE y.c = t.c) AS l ORDER BY c",
                    &["77", "99"],
                ),
                (
                    "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM (SELECT c FROM x WHERE x.c > t.c) AS q, y WHERE y.k = t.k) ORDER BY k",
                    &["1", "2", "3"],
                ),
            ],
        );
        let x = "(SELECT c FROM x WHERE x.c > t.c) AS q";
        let one = format!(
            "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM {x} CROSS JOIN y WHERE y.c = t.c) ORDER BY k"
        );
        assert_answers(&bench, &[(&one, &["2", "3"])]);
        let count = "SELECT k FROM t WHERE k < (SELECT count(*) FROM x JOIN y ON x.k = y.k WHERE y.c < t.c AND x.c = t.c)";
        let both = format!("{x} CROSS JOIN (SELECT c FROM y WHERE y.c = t.c) AS r");
        let both = format!("SELECT k FROM t WHERE EXISTS (SELECT 1 FROM {both}) ORDER BY k");
        assert_answers(&bench, &[(count, &[]), (&both, &["2", "3"])]);
    }
}

#[test]
fn rows_that_are_written_out_or_absent_are_members_too() {
    for bench in benches() {
        bench.sql("CREATE TABLE t AS SELECT column1 AS k FROM (VALUES (1), (2), (3))");
        assert_answers(
            &bench,
            &[
                ("SELECT k FROM t WHERE k IN (VALUES (1), (5))", &["1"]),
                ("SELECT k FROM t WHERE k = ANY (SELECT * FROM (VALUES (3), (5)))", &["3"]),
                (
                    "SELECT t.k FROM t LEFT JOIN t AS u ON u.k IN (SELECT 3 WHERE false) AND u.k = t.k WHERE u.k < 5",
                    &[],
                ),
            ],
        );
    }
}

#[test]
fn a_value_is_looked_up_without_an_aggregate() {
    for bench in benches() {
        make_both(&bench);
        bench.sql("CREATE TABLE u AS SELECT column1 AS k, column2 AS name FROM (VALUES (1, 'x'), (2, NULL), (9, 'y'), (9, 'z'))");
        assert_answers(
            &bench,
            &[
                ("SELECT (SELECT name FROM u WHERE u.k = t.k) FROM t ORDER BY k", &["x", "", ""]),
                (
                    "SELECT (SELECT u.k FROM u WHERE u.k = t.k) IS NULL FROM t ORDER BY k",
                    &["false", "false", "true"],
                ),
                ("SELECT k FROM t WHERE (SELECT name FROM u WHERE u.k = t.k) = 'x'", &["1"]),
                (
                    "SELECT k FROM t WHERE coalesce((SELECT name || '!' FROM u WHERE u.k = t.k), '-') = '-' ORDER BY k",
                    &["2", "3"],
                ),
                (
                    "SELECT (SELECT DISTINCT m > 0 FROM s WHERE s.k = t.k) FROM t ORDER BY k",
                    &["true", "true", ""],
                ),
                (
                    "SELECT (SELECT m FROM s WHERE s.k = t.k ORDER BY m DESC LIMIT 1) FROM t ORDER BY k",
                    &["2", "1", ""],
                ),
                (
                    "SELECT (SELECT k FROM s WHERE s.k = t.k ORDER BY -m LIMIT 1) FROM t ORDER BY k",
                    &["1", "2", ""],
                ),
                ("SELECT (SELECT k FROM s WHERE s.k = t.k LIMIT 1) FROM t ORDER BY k", &["1", "2", ""]),
                (
                    "SELECT (SELECT m FROM s WHERE s.k = t.k GROUP BY m ORDER BY count(*), m LIMIT 1) FROM t ORDER BY k",
                    &["1", "1", ""],
                ),
                (
                    "SELECT k FROM t WHERE v > (SELECT m FROM s WHERE s.k = t.k ORDER BY m LIMIT 1) ORDER BY k",
                    &["1", "2"],
                ),
            ],
        );
        for subquery in ["SELECT m FROM s WHERE s.k = t.k", "SELECT m FROM s WHERE s.k = t.k ORDER BY m"] {
            let error = bench.refused(&format!("SELECT k, ({subquery}) FROM t")).to_string();
            assert!(error.contains("more than one row"), "{error}");
        }
        assert_answers(
            &bench,
            &[("SELECT (SELECT m FROM s WHERE s.k = t.k) FROM t WHERE k > 1 ORDER BY k", &["1", ""])],
        );
    }
}

#[test]
fn what_alternatives_have_in_common_is_compared_below_an_aggregate() {
    for bench in benches() {
        make_both(&bench);
        let either = "(s.k = t.k AND m = 1) OR (s.k = t.k AND m = 2)";
        let two = format!("SELECT k FROM t WHERE (SELECT count(*) FROM s WHERE {either}) > 1");
        assert_answers(&bench, &[(&two, &["1"])]);
    }
}
