//! Goal: each set of `GROUPING SETS`, `ROLLUP` and `CUBE` has the groups and values of its rows, from which groups ever they are computed.
//! Method: statements with `yeoul.grouping_levels` on and off, whose answers do not differ; and rows that are counted by hand.

use yeoul_base::ByteSize;

use super::Bench;
use super::answers::{assert_answers, benches};
use crate::Options;

/// The plan of a statement, whose answer is the same with the rule and without it.
fn plan_of(bench: &Bench, sql: &str) -> String {
    let (from_rows, plan_from_rows) = bench.answered_with("yeoul.grouping_levels", false, sql);
    let (rows, plan) = bench.answered_with("yeoul.grouping_levels", true, sql);
    assert_eq!(rows, from_rows, "{:?}: {sql}\n{plan}", bench.session.options());
    assert!(!plan_from_rows.contains("GroupingLevelsExec"), "{plan_from_rows}");
    plan
}

fn is_by_levels(bench: &Bench, sql: &str) -> bool {
    plan_of(bench, sql).contains("GroupingLevelsExec")
}

/// Rows with nulls among keys and values, of all types of keys.
fn filled(bench: &Bench) {
    bench.sql("SET datafusion.execution.batch_size = 7");
    bench.sql(
        "CREATE TABLE t AS SELECT CASE WHEN value % 5 <> 0 THEN 'k' || (value % 3) END AS a, value % 4 AS b,
            CASE WHEN value % 7 <> 0 THEN DATE '2024-01-01' + CAST(value % 6 AS INT) END AS c, value % 2 = 0 AS d,
            CASE WHEN value % 9 <> 0 THEN value END AS n, CAST(value AS DECIMAL(9, 2)) / 4 AS x, 'text ' || value AS s
         FROM generate_series(1, 400)",
    );
    bench.sql("COPY t TO '~/t.parquet'");
}

#[test]
fn sets_computed_from_larger_ones_have_the_values_of_their_rows() {
    let values = "count(*) AS c, count(n) AS m, sum(n) AS s, avg(x) AS v, min(s) AS f, max(s) AS l, sum(x) FILTER (WHERE n > 50) AS z";
    let sets = [
        "ROLLUP (a, b, c, d)",
        "CUBE (a, b, c)",
        "GROUPING SETS ((a, b, d), (b, d), (a, d), (d), ())",
        "GROUPING SETS ((a, b), (a), (b))",
        "a, ROLLUP (b, c)",
        "ROLLUP (a), ROLLUP (b)",
        "ROLLUP (a || 'x', b + 1, n % 10)",
        "ROLLUP ((a, b), (c, d))",
        "CUBE (d)",
    ];
    for bench in benches() {
        filled(&bench);
        for set in sets {
            for rows in ["'~/t.parquet'", "t WHERE n % 3 = 0", "t WHERE n < 0"] {
                let sql = format!("SELECT {values} FROM {rows} GROUP BY {set}");
                assert!(is_by_levels(&bench, &sql), "{sql}");
            }
            plan_of(&bench, &format!("SELECT count(DISTINCT s) AS n, sum(n) AS s FROM t GROUP BY {set}"));
            plan_of(&bench, &format!("SELECT array_agg(n ORDER BY n) AS n FROM t GROUP BY {set}"));
            plan_of(&bench, &format!("SELECT count(*) AS n FROM t GROUP BY {set} HAVING count(*) > 9"));
            plan_of(&bench, &format!("SELECT 1 AS one FROM t GROUP BY {set}"));
        }
        let keys = "a, b, grouping(a) AS ga, grouping(b) AS gb, count(*) AS n, sum(n) AS s";
        assert!(is_by_levels(&bench, &format!("SELECT {keys} FROM t GROUP BY CUBE (a, b)")));
        assert!(is_by_levels(
            &bench,
            &format!("SELECT {keys} FROM t GROUP BY ROLLUP (a, b) ORDER BY n, s LIMIT 3")
        ));
    }
}

/// The total has a row although there is nothing to total, and no other set has one.
#[test]
fn sets_of_no_rows_have_a_total_only() {
    for bench in benches() {
        filled(&bench);
        let of = |set: &str| {
            format!(
                "SELECT count(*) || ' ' || coalesce(sum(n), -1) AS r FROM t WHERE n < 0 GROUP BY {set} ORDER BY r"
            )
        };
        assert_answers(
            &bench,
            &[
                (&of("ROLLUP (a, b)"), &["0 -1"]),
                (&of("CUBE (a, b)"), &["0 -1"]),
                (&of("GROUPING SETS ((a, b), (a))"), &[]),
            ],
        );
    }
}

#[test]
fn repeated_sets_come_as_often_as_they_are_written() {
    for bench in benches() {
        filled(&bench);
        let sql = "SELECT count(*) AS n FROM t GROUP BY GROUPING SETS ((d), (d), ()) ORDER BY n";
        assert_answers(&bench, &[(sql, &["200", "200", "200", "200", "400"])]);
    }
}

/// The groups are more than the share of memory that an aggregate has.
#[test]
fn sets_under_a_memory_limit_have_all_groups() {
    let memory = Some(ByteSize::from_mib(400));
    let bench = Bench::with(Options { threads: Some(2), memory, ..Options::default() });
    let rows = "SELECT value % 300007 AS a, value % 3 AS b, value % 5 AS c, value AS n FROM generate_series(1, 1500000)";
    let sql = format!(
        "SELECT g, count(*) AS groups, sum(m) AS rows, sum(s) AS s FROM (SELECT grouping(a, b, c) AS g, count(*) AS m, sum(n) AS s
         FROM ({rows}) GROUP BY ROLLUP (a, b, c)) GROUP BY g ORDER BY g"
    );
    let total = 1_500_000_i64 * 1_500_001 / 2;
    let row = |id: i64, groups: i64| format!("{id} {groups} 1500000 {total}");
    let seen = format!("SELECT g || ' ' || groups || ' ' || rows || ' ' || s AS r FROM ({sql}) ORDER BY r");
    assert_eq!(bench.column(&seen), [row(0, 1_500_000), row(1, 900_021), row(3, 300_007), row(7, 1)]);
}

/// A task takes 128 batches in a turn, and hands on more here.
#[test]
fn sets_of_many_batches_are_computed_in_several_turns() {
    for bench in benches() {
        bench.sql("SET datafusion.execution.batch_size = 2");
        let sql =
            "SELECT count(*) || ' ' || sum(s) AS r FROM (SELECT sum(value) AS s FROM generate_series(1, 2000)
            GROUP BY CUBE (value, value % 2, value % 3))";
        assert_eq!(bench.column(sql), ["8012 16008000"]);
    }
}
