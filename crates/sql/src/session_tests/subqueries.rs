//! Goal: a subquery that names a column of the query around it is answered as SQL defines it, or refused with a message that says
//! what to write instead. Method: statements of whose subqueries DataFusion's joins have made something else.

use yeoul_base::ErrorKind;

use super::Bench;
use super::answers::{assert_answers, benches, make};

/// Asserts that statements are refused for what their subqueries are, in words for people.
pub(super) fn assert_refused(bench: &Bench, cases: &[(&str, &str)]) {
    for (sql, what) in cases {
        let error = bench.refused(sql);
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{sql}: {text}");
        assert!(
            text.contains("names a column of the query around it") && text.contains(what),
            "{sql}: {text}"
        );
        assert!(error.hint().is_some() && !text.contains("__"), "{sql}: {text}");
    }
}

/// `t(k, v)`, and `s(k, m)` with two rows for the first `k`, one for the second and none for the third.
pub(super) fn make_both(bench: &Bench) {
    make(bench, "t", ["k", "v"], &[(1, Some(9)), (2, Some(2)), (3, Some(7))]);
    make(bench, "s", ["k", "m"], &[(1, Some(1)), (1, Some(2)), (2, Some(1))]);
}

#[test]
fn what_would_be_asked_of_all_rows_instead_of_some_is_refused() {
    let bench = Bench::new();
    make(&bench, "t", ["k", "v"], &[(1, Some(5)), (2, None)]);
    make(&bench, "s", ["k", "m"], &[(1, Some(5)), (1, None)]);
    let rollup = "SELECT max(m) FROM s WHERE s.k = t.k GROUP BY ROLLUP (s.k)";
    for predicate in ["v IN", "v NOT IN", "v > 1 OR v NOT IN", "EXISTS", "NOT EXISTS", "v > ANY"] {
        assert_refused(&bench, &[(&format!("SELECT k FROM t WHERE {predicate} ({rollup})"), "ROLLUP")]);
    }
    assert_answers(
        &bench,
        &[
            ("SELECT k FROM t WHERE EXISTS (SELECT m FROM s WHERE s.k = t.k LIMIT 1)", &["1"]),
            ("SELECT k FROM t WHERE EXISTS (SELECT max(m) FROM s GROUP BY k HAVING k = t.k)", &["1"]),
            (
                "SELECT k FROM t WHERE EXISTS (SELECT DISTINCT m FROM (SELECT * FROM s WHERE s.k * 2 = t.k) AS x)",
                &["2"],
            ),
        ],
    );
}

#[test]
fn a_value_is_of_the_rows_of_its_outer_row() {
    let bench = Bench::new();
    make_both(&bench);
    assert_refused(
        &bench,
        &[(
            "SELECT c FROM t, LATERAL (SELECT count(*) AS c FROM s WHERE s.k = t.k GROUP BY ROLLUP (m)) AS x",
            "ROLLUP",
        )],
    );
    let several = bench.refused("SELECT k, (SELECT max(m) FROM s GROUP BY k HAVING k <= t.k) FROM t");
    assert!(several.to_string().contains("more than one row"), "{several}");
    assert_answers(
        &bench,
        &[
            (
                "SELECT (SELECT sum(m) FROM (SELECT m, row_number() OVER (PARTITION BY k ORDER BY m DESC) AS n FROM s WHERE s.k = t.k) WHERE n = 1) FROM t ORDER BY k",
                &["2", "1", ""],
            ),
            ("SELECT (SELECT count(*) FROM s WHERE s.k = t.k) FROM t ORDER BY k", &["2", "1", "0"]),
            (
                "SELECT (SELECT count(*) FROM s WHERE s.k = t.k HAVING count(*) < 2) FROM t ORDER BY k",
                &["", "1", "0"],
            ),
            (
                "SELECT (SELECT count(*) FROM s JOIN t AS u ON s.k = u.k AND s.k = t.k) FROM t ORDER BY k",
                &["2", "1", "0"],
            ),
            ("SELECT (SELECT count(*) FROM s JOIN t AS u ON u.k = t.k) FROM t", &["3", "3", "3"]),
            ("SELECT (SELECT max(m) FROM s GROUP BY k HAVING k = t.k) FROM t ORDER BY k", &["2", "1", ""]),
            (
                "SELECT (SELECT max(m) FROM (SELECT * FROM s WHERE s.k = t.k) AS x) FROM t ORDER BY k",
                &["2", "1", ""],
            ),
            (
                "SELECT (SELECT max(c) FROM (SELECT m, count(*) AS c FROM s WHERE s.k = t.k GROUP BY m)) FROM t ORDER BY k",
                &["1", "1", ""],
            ),
            (
                "SELECT x.c FROM t, LATERAL (SELECT count(*) AS c FROM s WHERE s.k = t.k) AS x ORDER BY k",
                &["2", "1", "0"],
            ),
            (
                "SELECT x.m FROM t, LATERAL (SELECT DISTINCT m FROM s WHERE s.k = t.k) AS x ORDER BY k, 1",
                &["1", "2", "1"],
            ),
            (
                "SELECT x.c FROM t LEFT JOIN LATERAL (SELECT count(*) AS c FROM s WHERE s.k = t.k HAVING count(*) > 1) AS x ON true ORDER BY k",
                &["2", "", ""],
            ),
        ],
    );
}

#[test]
fn an_expression_that_equals_an_outer_column_is_one_key() {
    for bench in benches() {
        bench.sql(
            "CREATE TABLE e AS SELECT column1 AS ts, column2 AS x FROM (VALUES
            (TIMESTAMP '2024-01-01T01:00:00', 1), (TIMESTAMP '2024-01-01T02:00:00', 2),
            (TIMESTAMP '2024-01-01T03:00:00', 2), (TIMESTAMP '2024-01-03T01:00:00', 7)) AS v",
        );
        bench.sql("CREATE TABLE d AS SELECT column1 AS day, column2 AS n FROM (VALUES (DATE '2024-01-01', 3), (DATE '2024-01-02', 0)) AS v");
        assert_answers(
            &bench,
            &[
                (
                    "SELECT (SELECT count(*) FROM e WHERE CAST(e.ts AS DATE) = d.day) FROM d ORDER BY day",
                    &["3", "0"],
                ),
                ("SELECT (SELECT sum(x) FROM e WHERE d.day = e.ts::date) FROM d ORDER BY day", &["5", ""]),
                (
                    "SELECT (SELECT count(*) FROM e WHERE date_trunc('day', ts) = d.day) FROM d ORDER BY day",
                    &["3", "0"],
                ),
                (
                    "SELECT (SELECT count(DISTINCT x) FROM e WHERE ts::date = d.day) FROM d ORDER BY day",
                    &["2", "0"],
                ),
                (
                    "SELECT (SELECT max(c) FROM (SELECT x, count(*) AS c FROM e WHERE ts::date = d.day GROUP BY x)) FROM d ORDER BY day",
                    &["2", ""],
                ),
                (
                    "SELECT n FROM d WHERE n IN (SELECT count(*) FROM e WHERE ts::date = d.day) ORDER BY n",
                    &["0", "3"],
                ),
                (
                    "SELECT n FROM d WHERE 2 IN (SELECT count(*) FROM e WHERE ts::date = d.day GROUP BY x)",
                    &["3"],
                ),
                (
                    "SELECT c FROM d, LATERAL (SELECT count(*) AS c FROM e WHERE ts::date = d.day) AS x ORDER BY day",
                    &["3", "0"],
                ),
                (
                    "SELECT x FROM d, LATERAL (SELECT DISTINCT x FROM e WHERE ts::date = d.day) AS y ORDER BY x",
                    &["1", "2"],
                ),
                // What is compared is of unlike types.
                (
                    "SELECT (SELECT count(*) FROM e WHERE e.x = CAST(d.n AS SMALLINT) - 1 GROUP BY x) FROM d ORDER BY day",
                    &["2", ""],
                ),
                (
                    "SELECT (SELECT count(*) FROM e WHERE CAST(e.x AS SMALLINT) = d.n - 1) FROM d ORDER BY day",
                    &["2", "0"],
                ),
            ],
        );
    }
}

#[test]
fn a_condition_on_the_side_of_a_join_that_only_adds_stays_there() {
    let bench = Bench::new();
    make_both(&bench);
    make(&bench, "u", ["j", "k"], &[(1, Some(1)), (2, Some(3))]);
    assert_answers(
        &bench,
        &[
            (
                "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u LEFT JOIN (SELECT * FROM s WHERE s.k = t.k) AS x ON x.m = u.j WHERE x.m IS NULL) ORDER BY k",
                &["2", "3"],
            ),
            (
                "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u LEFT JOIN s ON s.k = t.k WHERE s.k IS NULL)",
                &["3"],
            ),
            (
                "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM s RIGHT JOIN u ON s.k = t.k WHERE s.k IS NULL)",
                &["3"],
            ),
            (
                "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM s FULL JOIN u ON s.k = t.k WHERE s.k IS NULL)",
                &["3"],
            ),
            (
                "SELECT (SELECT count(*) FROM u LEFT JOIN s ON s.m = u.j AND s.k = t.k) FROM t",
                &["2", "2", "2"],
            ),
            (
                "SELECT c FROM t, LATERAL (SELECT count(*) AS c FROM u LEFT JOIN s ON s.m = u.j AND s.k = t.k) AS x",
                &["2", "2", "2"],
            ),
            (
                "SELECT k FROM t WHERE EXISTS (SELECT m, k FROM s EXCEPT SELECT j, k FROM u WHERE u.j = t.k) ORDER BY k",
                &["1", "2", "3"],
            ),
        ],
    );
    assert_answers(
        &bench,
        &[
            (
                "SELECT t.k FROM t WHERE EXISTS (SELECT 1 FROM s LEFT JOIN u ON u.j = s.k AND u.k = 1 WHERE s.k = t.k AND u.j IS NULL)",
                &["2"],
            ),
            (
                "SELECT (SELECT count(u.j) FROM s LEFT JOIN u ON u.j = s.m WHERE s.k = t.k) FROM t ORDER BY k",
                &["2", "1", "0"],
            ),
            (
                "SELECT k FROM t WHERE EXISTS (SELECT m, k FROM s WHERE s.k = t.k EXCEPT SELECT j, k FROM u) ORDER BY k",
                &["1", "2"],
            ),
            (
                "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u LEFT JOIN LATERAL (SELECT m FROM s WHERE s.k = u.j) AS x ON true WHERE u.j = t.k) ORDER BY k",
                &["1", "2"],
            ),
        ],
    );
}

#[test]
fn a_subquery_without_rows_is_null() {
    for bench in benches() {
        make_both(&bench);
        bench.sql("CREATE TABLE p AS SELECT 1 AS id, 'a' AS name");
        assert_answers(
            &bench,
            &[
                ("SELECT (SELECT id FROM p WHERE name = 'zz')", &[""]),
                ("SELECT (SELECT id FROM p WHERE name = 'zz') IS NULL", &["true"]),
                ("SELECT (SELECT 1 WHERE false) IS NULL", &["true"]),
                ("SELECT (SELECT 1 FROM p WHERE name = 'zz') IS NOT NULL", &["false"]),
                ("SELECT coalesce((SELECT id FROM p WHERE name = 'zz'), 0)", &["0"]),
                ("SELECT coalesce((SELECT id FROM p WHERE name = 'a'), 0)", &["1"]),
                ("SELECT (SELECT (SELECT id FROM p WHERE name = 'zz')) IS NULL", &["true"]),
                ("SELECT a IS NULL FROM (SELECT (SELECT id FROM p WHERE name = 'zz') AS a)", &["true"]),
                (
                    "SELECT coalesce((SELECT count(*) FROM s WHERE s.k = t.k GROUP BY s.k), 0) FROM t ORDER BY k",
                    &["2", "1", "0"],
                ),
                (
                    "SELECT k FROM t WHERE (SELECT id FROM p WHERE name = 'zz') NOT IN (SELECT m FROM s WHERE m IS NOT NULL)",
                    &[],
                ),
                ("SELECT k FROM t WHERE k = (SELECT id FROM p WHERE name = 'a')", &["1"]),
            ],
        );
        bench.sql(
            "CREATE TABLE made AS SELECT (SELECT id FROM p WHERE name = 'zz') AS a, (SELECT id FROM p) AS b",
        );
        bench.sql(
            "CREATE VIEW seen AS SELECT (SELECT id FROM p WHERE name = 'zz') AS a, (SELECT id FROM p) AS b",
        );
        for table in ["made", "seen"] {
            assert_answers(&bench, &[(&format!("SELECT coalesce(a, -1) + b FROM {table}"), &["0"])]);
        }
    }
}

#[test]
fn a_comparison_with_all_of_the_same_table_is_with_its_other_rows() {
    for bench in benches() {
        bench.sql("CREATE TABLE emp AS SELECT column1 AS id, column2 AS pay FROM (VALUES (1, 5), (2, 6), (3, 7)) AS v");
        assert_answers(
            &bench,
            &[
                ("SELECT id FROM emp WHERE pay >= ALL (SELECT pay FROM emp)", &["3"]),
                ("SELECT id FROM emp WHERE pay > ANY (SELECT pay FROM emp) ORDER BY id", &["2", "3"]),
                ("SELECT id FROM emp WHERE NOT pay < ANY (SELECT pay FROM emp)", &["3"]),
                (
                    "SELECT emp.id FROM emp JOIN (SELECT 1 AS one) AS o ON emp.pay >= ALL (SELECT pay FROM emp)",
                    &["3"],
                ),
                (
                    "SELECT e.id FROM emp AS e JOIN (SELECT 1 AS one) AS o ON e.pay >= ALL (SELECT pay FROM emp)",
                    &["3"],
                ),
                ("SELECT id FROM emp WHERE pay >= ALL (SELECT max(pay) FROM emp)", &["3"]),
            ],
        );
    }
}

#[test]
fn an_outer_column_is_not_its_namesake() {
    for bench in benches() {
        make(&bench, "t", ["k", "v"], &[(1, Some(9)), (2, Some(2))]);
        bench.sql("CREATE TABLE w AS SELECT 2 AS j");
        assert_answers(
            &bench,
            &[
                ("SELECT t.k FROM t, w WHERE t.k NOT IN (SELECT v FROM t WHERE k = w.j)", &["1"]),
                ("SELECT t.k FROM t, w WHERE t.k >= ALL (SELECT v FROM t WHERE k = w.j)", &["2"]),
                ("SELECT t.k FROM t, w WHERE (t.k IN (SELECT v FROM t WHERE k = w.j)) IS FALSE", &["1"]),
                (
                    "SELECT t.k FROM t, w WHERE EXISTS (SELECT 1 FROM (SELECT * FROM t WHERE t.k = w.j) AS x WHERE x.v = t.k)",
                    &["2"],
                ),
            ],
        );
        assert_refused(
            &bench,
            &[(
                "SELECT y.v FROM w, t, LATERAL (SELECT t.k, x.v FROM t CROSS JOIN (SELECT * FROM t AS u WHERE u.k = t.k) AS x) AS y",
                "'t.k'",
            )],
        );
    }
}

#[test]
fn a_value_is_computed_once_for_each_row() {
    for bench in benches() {
        bench.sql("CREATE TABLE used AS SELECT value AS id FROM range(0, 50)");
        // Of a thousand rows, each finds its number among half of all numbers, or does not.
        for predicate in [
            "floor(random() * 100) NOT IN (SELECT id FROM used)",
            "floor(random() * 100) > ALL (SELECT id FROM used)",
            "floor(random() * 100) IN (SELECT id FROM used)",
        ] {
            let count = bench.column(&format!("SELECT count(*) FROM range(0, 1000) WHERE {predicate}"));
            let count: i64 = count[0].parse().unwrap();
            assert!((350..650).contains(&count), "{predicate}: {count}");
        }
        let error = bench.refused(
            "SELECT id FROM used WHERE (id NOT IN (SELECT nullif(id, 3) FROM used WHERE id > (SELECT id FROM used LIMIT 1))) IS NULL",
        );
        assert!(error.to_string().contains("LIMIT") && error.hint().is_some(), "{error}");
    }
}

#[test]
fn a_column_two_queries_out_is_found() {
    let bench = Bench::new();
    make_both(&bench);
    make(&bench, "u", ["k", "z"], &[(1, Some(9)), (2, Some(2))]);
    assert_answers(
        &bench,
        &[
            (
                "SELECT t.k FROM t WHERE t.v NOT IN (SELECT m FROM s WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k)) ORDER BY k",
                &["1", "3"],
            ),
            (
                "SELECT t.k FROM t WHERE t.v IN (SELECT m FROM s WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k))",
                &["2"],
            ),
            (
                "SELECT k FROM t WHERE (SELECT max(m) FROM s WHERE s.k = t.k AND s.m > (SELECT avg(z) FROM u WHERE u.k = t.k)) > 1",
                &[],
            ),
            (
                "SELECT k FROM t WHERE (SELECT max(m) FROM s WHERE s.k = t.k AND s.m < (SELECT avg(z) FROM u WHERE u.k = t.k)) > 1",
                &["1"],
            ),
            (
                "SELECT x.c FROM t, LATERAL (SELECT count(*) AS c FROM s WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k)) AS x ORDER BY t.k",
                &["3", "3", "0"],
            ),
            (
                "SELECT t.k FROM t WHERE (SELECT max(z) FROM u WHERE u.k = t.k) NOT IN (SELECT m FROM s)",
                &["1"],
            ),
            ("SELECT t.k FROM t WHERE (SELECT max(z) FROM u WHERE u.k = t.k) IN (SELECT m FROM s)", &["2"]),
            (
                "SELECT t.k FROM t WHERE k IN (SELECT k FROM s WHERE m IN (SELECT z - 8 FROM u WHERE u.k = s.k))",
                &["1"],
            ),
        ],
    );
}

#[test]
fn a_subquery_may_be_a_truth_outside_where() {
    for bench in benches() {
        make_both(&bench);
        assert_answers(
            &bench,
            &[
                (
                    "SELECT EXISTS (SELECT * FROM s WHERE s.k = t.k) FROM t ORDER BY k",
                    &["true", "true", "false"],
                ),
                ("SELECT NOT EXISTS (SELECT * FROM s WHERE m > 5) FROM t", &["true", "true", "true"]),
                ("SELECT k IN (SELECT k FROM s) FROM t ORDER BY t.k", &["true", "true", "false"]),
                ("SELECT v = ANY (SELECT m FROM s) FROM t ORDER BY k", &["false", "true", "false"]),
                // Unknown where a null may be equal.
                (
                    "SELECT v IN (SELECT nullif(m, 1) FROM s WHERE s.k = t.k) FROM t ORDER BY k",
                    &["", "", "false"],
                ),
                (
                    "SELECT v NOT IN (SELECT nullif(m, 1) FROM s WHERE s.k = t.k) FROM t ORDER BY k",
                    &["", "", "true"],
                ),
                (
                    "SELECT CASE WHEN EXISTS (SELECT * FROM s WHERE s.k = t.k AND m > 1) THEN 'many' ELSE 'few' END FROM t ORDER BY k",
                    &["many", "few", "few"],
                ),
                ("SELECT count(*) FILTER (WHERE EXISTS (SELECT * FROM s WHERE s.k = t.k)) FROM t", &["2"]),
                ("SELECT sum(CASE WHEN k IN (SELECT k FROM s) THEN v ELSE 0 END) FROM t", &["11"]),
                (
                    "SELECT count(*) FROM t GROUP BY EXISTS (SELECT * FROM s WHERE s.k = t.k) ORDER BY 1",
                    &["1", "2"],
                ),
                (
                    "SELECT sum(v) OVER (PARTITION BY k IN (SELECT k FROM s)) FROM t ORDER BY 1",
                    &["7", "11", "11"],
                ),
            ],
        );
    }
}
