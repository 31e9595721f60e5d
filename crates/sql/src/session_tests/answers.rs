//! Goal: no rule that makes a plan faster changes its answer. Method: statements whose plans DataFusion's rules have made wrong,
//! and their answers as SQL defines them.

use yeoul_base::ByteSize;

use super::Bench;
use crate::Options;

/// Sessions whose plans differ: of one thread and of several, without a memory limit and with one.
pub(super) fn benches() -> Vec<Bench> {
    let of =
        |(threads, memory)| Bench::with(Options { threads: Some(threads), memory, ..Options::default() });
    [(1, None), (3, None), (1, Some(ByteSize::from_gib(1))), (3, Some(ByteSize::from_gib(1)))].map(of).into()
}

/// Asserts what a statement answers in one column, in order.
pub(super) fn assert_answers(bench: &Bench, cases: &[(&str, &[&str])]) {
    for (sql, expected) in cases {
        assert_eq!(bench.column(sql), *expected, "{:?}: {sql}", bench.session.options());
    }
}

#[test]
fn groups_of_grouping_sets_over_a_constant_key_come_once() {
    for bench in benches() {
        bench.sql("SET datafusion.execution.batch_size = 2");
        bench.sql("CREATE TABLE t AS SELECT 'x' AS a, column1 % 3 AS b FROM (VALUES (1), (2), (3), (4), (5), (6), (7), (8))");
        bench.sql("COPY t TO '~/t.parquet'");
        let rows = "b || ' ' || count(*) AS r FROM '~/t.parquet'";
        let cube = ["0 2", "0 2", "1 3", "1 3", "2 3", "2 3"];
        let ordered = "coalesce(a, '-') AS r FROM '~/t.parquet' WHERE a = 'x'";
        assert_answers(
            &bench,
            &[
                (
                    &format!("SELECT {rows} WHERE a = 'x' GROUP BY CUBE (a, b) HAVING b >= 0 ORDER BY r"),
                    &cube,
                ),
                (&format!("SELECT {rows} GROUP BY CUBE ('1', b) HAVING b >= 0 ORDER BY r"), &cube),
                (
                    &format!("SELECT {rows} WHERE a = 'x' GROUP BY ROLLUP (a, b) HAVING b >= 0 ORDER BY r"),
                    &["0 2", "1 3", "2 3"],
                ),
                (
                    &format!("SELECT {ordered} GROUP BY CUBE (a, b) ORDER BY a, b"),
                    &["x", "x", "x", "x", "-", "-", "-", "-"],
                ),
            ],
        );
    }
}

#[test]
fn a_sort_of_what_an_offset_leaves_is_of_just_that() {
    for bench in benches() {
        bench.sql("CREATE TABLE t AS SELECT column1 AS a FROM (VALUES (4), (2), (1), (3), (5)) AS v");
        bench.sql("COPY t TO '~/t.parquet'");
        for t in ["t", "'~/t.parquet'"] {
            let cases: [(&str, &[&str]); 7] = [
                ("SELECT a FROM (SELECT a FROM $t ORDER BY a LIMIT 2 OFFSET 1) AS z ORDER BY a", &["2", "3"]),
                (
                    "SELECT a FROM (SELECT a FROM $t ORDER BY a LIMIT 2 OFFSET 1) AS z ORDER BY a DESC",
                    &["3", "2"],
                ),
                ("SELECT a FROM (SELECT a FROM $t ORDER BY a DESC OFFSET 3) AS z ORDER BY a", &["1", "2"]),
                (
                    "SELECT a FROM (SELECT a FROM $t ORDER BY a OFFSET 1) AS z ORDER BY a LIMIT 2 OFFSET 1",
                    &["3", "4"],
                ),
                (
                    "SELECT count(*) FROM (SELECT a FROM (SELECT a FROM $t LIMIT 2 OFFSET 2) AS z ORDER BY a)",
                    &["2"],
                ),
                ("SELECT max(a) FROM (SELECT a FROM $t ORDER BY a LIMIT 3 OFFSET 1) AS z", &["4"]),
                ("SELECT a FROM $t ORDER BY a LIMIT 2 OFFSET 2", &["3", "4"]),
            ];
            for (sql, expected) in cases {
                assert_answers(&bench, &[(&sql.replace("$t", t), expected)]);
            }
        }
    }
}

#[test]
fn a_filter_is_about_the_column_that_it_names_and_not_its_namesake() {
    for bench in benches() {
        bench.sql(
            "COPY (SELECT column1 AS id, column2 AS d FROM (VALUES (1, 5), (2, 6), (3, 7))) TO '~/x.parquet'",
        );
        bench.sql(
            "COPY (SELECT column1 AS id, column2 AS d FROM (VALUES (1, 5), (2, 7), (4, 8), (5, NULL))) TO '~/y.parquet'",
        );
        let joined = |filter: &str| {
            format!(
                "SELECT y.id FROM '~/x.parquet' AS x RIGHT JOIN '~/y.parquet' AS y ON x.id = y.id WHERE {filter} ORDER BY 1"
            )
        };
        let cases: [(&str, &[&str]); 4] = [
            ("y.d IS DISTINCT FROM x.d", &["2", "4"]),
            ("y.d IS NOT DISTINCT FROM x.d", &["1", "5"]),
            ("x.d IS NULL OR y.d IS NULL", &["4", "5"]),
            ("coalesce(x.d, 0) < coalesce(y.d, 0)", &["2", "4"]),
        ];
        for (filter, expected) in cases {
            assert_answers(&bench, &[(&joined(filter), expected)]);
        }
    }
}

#[test]
fn a_window_over_groups_counts_all_of_them() {
    for bench in benches() {
        bench.sql("CREATE TABLE t AS SELECT column1 AS g, column2 AS x FROM (VALUES (1, 5), (2, 4), (2, 7), (3, 1)) AS v");
        assert_answers(
            &bench,
            &[
                (
                    "SELECT n FROM (SELECT g, count(*) OVER () AS n FROM t GROUP BY g ORDER BY g LIMIT 1)",
                    &["3"],
                ),
                (
                    "SELECT r FROM (SELECT max(x) AS m, rank() OVER (ORDER BY max(x)) AS r FROM t GROUP BY g ORDER BY m DESC LIMIT 1)",
                    &["3"],
                ),
            ],
        );
    }
}

#[test]
fn not_in_is_unknown_where_a_null_may_be_equal() {
    for bench in benches() {
        bench.sql(
            "CREATE TABLE t AS SELECT column1 AS g, column2 AS x, column3 AS y FROM
            (VALUES (1, 5, 'a'), (2, 4, 'b'), (2, 7, NULL), (3, 1, 'a'), (NULL, 2, 'c')) AS v",
        );
        assert_answers(
            &bench,
            &[
                (
                    "SELECT x FROM t WHERE g NOT IN (SELECT g FROM t AS b WHERE b.x > t.x) ORDER BY x",
                    &["5", "7"],
                ),
                (
                    "SELECT x FROM t WHERE 9 NOT IN (SELECT g FROM t AS b WHERE b.y = t.y) ORDER BY x",
                    &["1", "4", "5", "7"],
                ),
                (
                    "SELECT x FROM t WHERE g NOT IN (SELECT g FROM t AS b WHERE b.y = t.y AND b.x <> t.x) ORDER BY x",
                    &["1", "2", "4", "5", "7"],
                ),
                ("SELECT x FROM t WHERE x NOT IN (SELECT g FROM t) OR x = 7", &["7"]),
                ("SELECT x FROM t WHERE g = 3 OR g NOT IN (SELECT g FROM t)", &["1"]),
                ("SELECT x FROM t WHERE NOT (x IN (SELECT g FROM t) OR x = 7)", &[]),
                ("SELECT x FROM t WHERE NOT (x NOT IN (SELECT g FROM t) OR x = 2)", &["1"]),
                (
                    "SELECT x FROM t WHERE x NOT IN (SELECT g FROM t WHERE g IS NOT NULL) ORDER BY x",
                    &["4", "5", "7"],
                ),
                ("SELECT x FROM t WHERE x NOT IN (SELECT g FROM t)", &[]),
                ("SELECT x FROM t WHERE 9 NOT IN (SELECT g FROM t)", &[]),
                ("SELECT count(*) FROM t WHERE 9 NOT IN (SELECT g FROM t WHERE g > 0)", &["5"]),
                (
                    "SELECT v FROM (VALUES (1), (2)) AS n(v) WHERE v NOT IN (SELECT w FROM (VALUES (1), (3)) AS m(w) WHERE w < v + 1)",
                    &["2"],
                ),
                (
                    "SELECT x FROM t AS a WHERE x > 3 OR g NOT IN (SELECT g FROM t AS b WHERE b.x > a.x) ORDER BY x",
                    &["4", "5", "7"],
                ),
                // Its rows are asked for once, since they may be others the next time.
                (
                    "SELECT x FROM t WHERE x = 7 OR x NOT IN (SELECT g FROM t ORDER BY x LIMIT 2 OFFSET 2) ORDER BY x",
                    &["4", "5", "7"],
                ),
                ("SELECT x FROM t WHERE x = 7 OR x NOT IN ((SELECT max(g) FROM t WHERE g > 100))", &["7"]),
                // DataFusion makes filters of what stands elsewhere.
                (
                    "SELECT x FROM (SELECT x, x NOT IN (SELECT g FROM t) AS is_out FROM t) WHERE is_out OR x = 7",
                    &["7"],
                ),
                (
                    "SELECT t.x FROM t JOIN t AS b ON t.g = b.g AND (t.x NOT IN (SELECT g FROM t) OR t.x = 5)",
                    &["5"],
                ),
                (
                    "SELECT x FROM (SELECT b.x, b.x NOT IN (SELECT g FROM t) AS is_out FROM t AS b) WHERE is_out OR x = 7",
                    &["7"],
                ),
                ("SELECT t.x FROM t JOIN t AS b ON t.x = b.x AND 9 NOT IN (SELECT g FROM t)", &[]),
                (
                    "SELECT b.x FROM t LEFT JOIN t AS b ON t.x = b.x AND b.x NOT IN (SELECT g FROM t WHERE g > 1) ORDER BY 1",
                    &["1", "4", "5", "7", ""],
                ),
            ],
        );
    }
}

/// `value comparison ANY (members)` as SQL defines it; with `<>` and so on, `NOT` of it is that of `ALL`.
fn any(value: Option<i64>, members: &[Option<i64>], compare: fn(&i64, &i64) -> bool) -> Option<bool> {
    let mut any = Some(false);
    for member in members {
        match value.zip(*member) {
            Some((value, member)) if compare(&value, &member) => return Some(true),
            Some(_) => {}
            None => any = None,
        }
    }
    any
}

/// A table of whole numbers; a column of it may be null if it has a null.
pub(super) fn make(bench: &Bench, name: &str, columns: [&str; 2], rows: &[(i64, Option<i64>)]) {
    let number =
        |value: Option<i64>| value.map_or("CAST(NULL AS BIGINT)".to_owned(), |value| value.to_string());
    let select = |(first, second): &(i64, Option<i64>)| {
        format!("SELECT {first} AS {}, {} AS {}", columns[0], number(*second), columns[1])
    };
    let (rows, end) = if rows.is_empty() { (&[(0, Some(0))][..], "WHERE false") } else { (rows, "") };
    let rows = rows.iter().map(select).collect::<Vec<_>>().join(" UNION ALL ");
    bench.sql(&format!("CREATE OR REPLACE TABLE {name} AS SELECT * FROM ({rows}) {end}"));
}

#[test]
fn in_has_three_values_wherever_it_stands() {
    type Row = (i64, Option<i64>);
    type Members = fn(&[Row], &[Row], Row) -> Vec<Option<i64>>;
    type Position = fn(Option<bool>, Row) -> Option<bool>;
    type Compare = fn(&i64, &i64) -> bool;
    fn of_key(inner: &[Row], is: impl Fn(i64) -> bool) -> Vec<Option<i64>> {
        inner.iter().filter(|row| is(row.0)).map(|row| row.1).collect()
    }
    let outer: [&[Row]; 2] = [
        &[(1, Some(1)), (1, None), (2, Some(2)), (3, Some(0)), (9, None), (2, Some(5)), (9, Some(4))],
        &[(1, Some(1)), (2, Some(2)), (3, Some(0)), (2, Some(5)), (9, Some(4))],
    ];
    let inner: [&[Row]; 3] = [
        &[(1, Some(1)), (1, None), (2, Some(2)), (2, Some(3)), (3, None)],
        &[(1, Some(1)), (2, Some(2)), (2, Some(3)), (3, Some(1))],
        &[],
    ];
    let subqueries: [(&str, Members); 11] = [
        ("SELECT m FROM s", |_, inner, _| of_key(inner, |_| true)),
        ("SELECT v FROM t", |outer, _, _| of_key(outer, |_| true)),
        ("SELECT m FROM s WHERE s.k = t.k", |_, inner, (k, _)| of_key(inner, |of| of == k)),
        ("SELECT m FROM s WHERE s.k > t.k", |_, inner, (k, _)| of_key(inner, |of| of > k)),
        ("SELECT m FROM s LEFT JOIN t AS u ON u.k = s.m WHERE s.k = t.k", |_, inner, (k, _)| {
            of_key(inner, |of| of == k)
        }),
        (
            "SELECT m FROM (SELECT m, rank() OVER (PARTITION BY k ORDER BY k) AS n FROM s WHERE s.k = t.k) WHERE n = 1",
            |_, inner, (k, _)| of_key(inner, |of| of == k),
        ),
        ("SELECT max(m) FROM s", |_, inner, _| vec![inner.iter().filter_map(|row| row.1).max()]),
        ("SELECT max(m) FROM s WHERE s.k = t.k", |_, inner, (k, _)| {
            vec![of_key(inner, |of| of == k).into_iter().flatten().max()]
        }),
        ("SELECT count(m) FROM s WHERE s.k = t.k", |_, inner, (k, _)| {
            vec![Some(of_key(inner, |of| of == k).into_iter().flatten().count() as i64)]
        }),
        ("SELECT count(m) FROM s WHERE s.k / 2 = t.k", |_, inner, (k, _)| {
            vec![Some(of_key(inner, |of| of / 2 == k).into_iter().flatten().count() as i64)]
        }),
        ("SELECT max(m) AS top FROM s WHERE s.k / 2 = t.k GROUP BY s.k", |_, inner, (k, _)| {
            (2 * k..2 * k + 2)
                .filter(|key| inner.iter().any(|row| row.0 == *key))
                .map(|key| of_key(inner, |of| of == key).into_iter().flatten().max())
                .collect()
        }),
    ];
    // Each as ANY, or the contrary of one.
    let operators: [(&str, Compare, bool); 7] = [
        ("IN", i64::eq, false),
        ("NOT IN", i64::eq, true),
        ("= ANY", i64::eq, false),
        ("<> ALL", i64::eq, true),
        ("> ANY", i64::gt, false),
        (">= ALL", i64::lt, true),
        ("<> ANY", i64::ne, false),
    ];
    let positions: [(&str, Position); 8] = [
        ("$", |is, _| is),
        ("NOT $", |is, _| is.map(|is| !is)),
        ("($ OR k = 2)", |is, (k, _)| if k == 2 { Some(true) } else { is }),
        ("NOT ($ OR k = 2)", |is, (k, _)| if k == 2 { Some(false) } else { is.map(|is| !is) }),
        ("NOT ($ AND k < 3)", |is, (k, _)| if k < 3 { is.map(|is| !is) } else { Some(true) }),
        ("($) IS NULL", |is, _| Some(is.is_none())),
        ("coalesce($, true)", |is, _| Some(is.unwrap_or(true))),
        ("CASE WHEN $ THEN false ELSE true END", |is, _| Some(!is.unwrap_or(false))),
    ];
    let bench = Bench::new();
    for (outer, inner) in outer.into_iter().flat_map(|outer| inner.map(|inner| (outer, inner))) {
        make(&bench, "t", ["k", "v"], outer);
        make(&bench, "s", ["k", "m"], inner);
        for ((subquery, members), (position, keeps)) in
            subqueries.iter().flat_map(|subquery| positions.iter().map(move |position| (subquery, position)))
        {
            for (operator, compare, negated) in operators {
                let values: &[(&str, Option<i64>)] = &[("v", None), ("2", Some(2))];
                for (written, value) in &values[..if operator.ends_with("IN") { 2 } else { 1 }] {
                    let is = |row: &&Row| {
                        let any = any(value.or(row.1), &members(outer, inner, **row), compare);
                        keeps(any.map(|any| any != negated), **row) == Some(true)
                    };
                    let predicate = position.replace('$', &format!("{written} {operator} ({subquery})"));
                    let sql = format!("SELECT count(*) FROM t WHERE {predicate}");
                    let expected = outer.iter().filter(is).count().to_string();
                    assert_eq!(bench.column(&sql), [expected], "{sql}: {outer:?} {inner:?}");
                }
            }
        }
    }
}

#[test]
fn in_compares_by_hash_and_not_each_with_each() {
    let bench = Bench::new();
    make(&bench, "t", ["k", "v"], &[(1, Some(5)), (2, None)]);
    make(&bench, "s", ["k", "m"], &[(1, Some(5)), (1, None)]);
    for predicate in [
        "v NOT IN (SELECT m FROM s)",
        "k = 1 OR v NOT IN (SELECT m FROM s)",
        "(v IN (SELECT m FROM s)) IS NULL",
        "k = 1 OR 2 NOT IN (SELECT m FROM s)",
        "v NOT IN (SELECT m FROM s WHERE s.k = t.k)",
        "k = 1 OR v NOT IN (SELECT m FROM s WHERE s.k = t.k)",
    ] {
        let plan = bench.sql(&format!("EXPLAIN SELECT k FROM t WHERE {predicate}"));
        assert!(!plan.contains("NestedLoopJoin") && !plan.contains("CrossJoin"), "{plan}");
        // It spills, where memory runs out, and is divided among threads.
        assert!(!plan.contains("null_aware"), "{plan}");
    }
}

#[test]
fn nulls_are_equal_in_the_join_that_says_so_and_in_no_other() {
    for bench in benches() {
        bench.sql("CREATE TABLE t AS SELECT column1 AS a, column2 AS b FROM (VALUES (1, 1), (NULL, 2), (3, NULL)) AS v");
        bench.sql("CREATE TABLE u AS SELECT a, b FROM t");
        assert_answers(
            &bench,
            &[
                (
                    "SELECT x.b FROM t AS x JOIN u AS y ON y.a = x.a JOIN u AS z ON z.b IS NOT DISTINCT FROM x.b ORDER BY 1",
                    &["1", ""],
                ),
                (
                    "SELECT x.b FROM t AS x, u AS y, u AS z WHERE y.a = x.a AND z.b IS NOT DISTINCT FROM x.b ORDER BY 1",
                    &["1", ""],
                ),
                (
                    "SELECT x.b FROM t AS x JOIN u AS y ON y.a IS NOT DISTINCT FROM x.a JOIN u AS z ON z.b = y.b ORDER BY 1",
                    &["1", "2"],
                ),
                (
                    "SELECT x.b FROM t AS x JOIN u AS y ON x.a IS NOT DISTINCT FROM y.a WHERE x.b = y.b ORDER BY 1",
                    &["1", "2"],
                ),
                (
                    "SELECT x.b FROM t AS x LEFT JOIN u AS y ON x.a IS NOT DISTINCT FROM y.a WHERE x.b = y.b ORDER BY 1",
                    &["1", "2"],
                ),
            ],
        );
        // The joins around such a one are found among the conditions all the same.
        let nulls = "t AS x JOIN u AS y ON x.a IS NOT DISTINCT FROM y.a";
        for (from, key) in [(format!("(SELECT x.a FROM {nulls}) AS n"), "n.a"), (nulls.to_owned(), "x.a")] {
            let plan = bench.sql(&format!(
                "EXPLAIN SELECT count(*) FROM {from}, t AS p, t AS q, t AS r
                WHERE p.a = r.a AND q.b = r.b AND {key} = q.a"
            ));
            assert!(plan.contains("HashJoin") && !plan.contains("Cross"), "{plan}");
        }
    }
}

#[test]
fn a_comparison_ends_where_and_begins() {
    let bench = Bench::new();
    let values = "(VALUES (true), (false), (CAST(NULL AS BOOLEAN)))";
    for (written, meant) in [
        ("a IS NOT DISTINCT FROM b AND c", "(a IS NOT DISTINCT FROM b) AND c"),
        ("NOT a IS DISTINCT FROM b OR c", "(NOT (a IS DISTINCT FROM b)) OR c"),
    ] {
        let differ = format!(
            "SELECT count(*) FROM {values} AS x(a) CROSS JOIN {values} AS y(b) CROSS JOIN {values} AS z(c)
            WHERE ({written}) IS DISTINCT FROM ({meant})"
        );
        assert_answers(&bench, &[(&differ, &["0"])]);
    }
    let error = bench.refused("SELECT 5 / 1_x");
    assert!(error.to_string().contains("'1_x'") && error.span().is_some(), "{error}");
    for (dialect, sql, expected) in [
        ("postgres", "SELECT 1_000", "1000"),
        ("clickhouse", "SELECT 1_000", "1000"),
        ("mysql", "SELECT 1st FROM (SELECT 2 AS `1st`)", "2"),
        ("hive", "SELECT 1st FROM (SELECT 2 AS `1st`)", "2"),
    ] {
        bench.sql(&format!("SET datafusion.sql_parser.dialect = '{dialect}'"));
        assert_answers(&bench, &[(sql, &[expected])]);
    }
}

#[test]
fn intersect_all_and_except_all_count_equal_rows() {
    for bench in benches() {
        bench.sql("CREATE TABLE l AS SELECT column1 AS a, column2 AS b FROM (VALUES (1, 'x'), (1, 'x'), (1, 'x'), (2, 'y'), (NULL, NULL), (NULL, NULL))");
        bench.sql("CREATE TABLE r AS SELECT column1 AS c, column2 AS d FROM (VALUES (1, 'x'), (1, 'x'), (NULL, NULL), (3, 'z'))");
        let cases: [(&str, &[&str]); 8] = [
            ("SELECT a FROM (SELECT * FROM l INTERSECT ALL SELECT * FROM r) ORDER BY a", &["1", "1", ""]),
            ("SELECT a FROM (SELECT * FROM l EXCEPT ALL SELECT * FROM r) ORDER BY a", &["1", "2", ""]),
            ("SELECT c FROM (SELECT * FROM r EXCEPT ALL SELECT * FROM l) ORDER BY c", &["3"]),
            ("SELECT a FROM (SELECT * FROM l INTERSECT SELECT * FROM r) ORDER BY a", &["1", ""]),
            ("SELECT a FROM (SELECT * FROM l EXCEPT SELECT * FROM r) ORDER BY a", &["2"]),
            // Twice, and with the same table on both sides.
            (
                "SELECT a FROM (SELECT a FROM l EXCEPT ALL SELECT c FROM r EXCEPT ALL SELECT a FROM l WHERE a = 2) ORDER BY a",
                &["1", ""],
            ),
            ("SELECT count(*) FROM (SELECT * FROM l INTERSECT ALL SELECT * FROM l)", &["6"]),
            // Types that differ.
            ("SELECT a FROM (SELECT a FROM l EXCEPT ALL SELECT 1.0) ORDER BY a", &["1", "1", "2", "", ""]),
        ];
        assert_answers(&bench, &cases);
        bench.sql("CREATE VIEW v AS SELECT a FROM l INTERSECT ALL SELECT c FROM r");
        assert_answers(&bench, &[("SELECT count(*) FROM v", &["3"])]);
    }
}

#[test]
fn a_filter_without_columns_is_asked_of_the_total_and_not_of_its_rows() {
    for bench in benches() {
        bench.sql("CREATE TABLE t AS SELECT column1 AS a FROM (VALUES (1), (2), (NULL))");
        let cases: [(&str, &[&str]); 7] = [
            ("SELECT count(*) FROM t HAVING (SELECT max(a) FROM t) > 5", &[]),
            ("SELECT count(*) FROM t HAVING (SELECT max(a) FROM t) > 1", &["3"]),
            ("SELECT count(*) FROM t HAVING random() > 2", &[]),
            ("SELECT n FROM (SELECT count(*) AS n FROM t) AS q WHERE (SELECT max(a) FROM t) > 5", &[]),
            (
                "SELECT n FROM (SELECT count(*) AS n FROM t) AS q WHERE n > 0 AND (SELECT max(a) FROM t) > 5",
                &[],
            ),
            ("SELECT count(*) FROM t GROUP BY ROLLUP (a) HAVING (SELECT max(a) FROM t) > 5", &[]),
            ("SELECT count(*) FROM t GROUP BY a HAVING (SELECT max(a) FROM t) > 5", &[]),
        ];
        assert_answers(&bench, &cases);
    }
}

#[test]
fn what_is_never_null_can_be_grouped_by() {
    for bench in benches() {
        bench.sql(
            "CREATE TABLE t AS SELECT column1 AS a, column1 > 1 AS b FROM (VALUES (1), (2), (2), (NULL))",
        );
        let cases: [(&str, &[&str]); 8] = [
            ("SELECT DISTINCT b IS TRUE FROM t ORDER BY 1", &["false", "true"]),
            ("SELECT DISTINCT b IS NOT TRUE FROM t ORDER BY 1", &["false", "true"]),
            ("SELECT count(*) FROM t GROUP BY b IS FALSE ORDER BY 1", &["1", "3"]),
            ("SELECT count(*) FROM t GROUP BY b IS NOT FALSE ORDER BY 1", &["1", "3"]),
            ("SELECT a FROM t WHERE b IS TRUE", &["2", "2"]),
            ("SELECT a FROM t WHERE b IS NOT TRUE ORDER BY a", &["1", ""]),
            (
                "SELECT count(*) FROM t GROUP BY ROLLUP (b IS TRUE, a) ORDER BY 1",
                &["1", "1", "2", "2", "2", "4"],
            ),
            ("SELECT b IS NOT FALSE FROM t UNION SELECT NULL IS TRUE ORDER BY 1", &["false", "true"]),
        ];
        assert_answers(&bench, &cases);
    }
}

#[test]
fn inputs_of_a_union_may_have_other_names_than_the_union() {
    for bench in benches() {
        let empty = "SELECT DISTINCT 1 AS a, 'x' AS b FROM (VALUES (1)) WHERE 'y' LIKE ''";
        let sql = format!(
            "SELECT b FROM (({empty}) UNION ALL (SELECT column1 AS c, 'z' AS d FROM (VALUES (2)))) AS u"
        );
        assert_answers(&bench, &[(&sql, &["z"])]);
    }
}

#[test]
fn a_limit_of_groups_of_which_one_is_left_is_no_top_k() {
    for bench in benches() {
        bench.sql("COPY (SELECT column1 AS a FROM (VALUES ('x'), ('y'), (NULL))) TO '~/t.parquet'");
        let sql = "SELECT count(*) FROM (SELECT DISTINCT a FROM '~/t.parquet' WHERE a = 'y' LIMIT 1)";
        assert_answers(&bench, &[(sql, &["1"])]);
        let sql = "SELECT count(*) FROM '~/t.parquet' WHERE 'y' NOT IN (SELECT DISTINCT nullif('', a) FROM '~/t.parquet')";
        assert_answers(&bench, &[(sql, &["3"])]);
    }
}
