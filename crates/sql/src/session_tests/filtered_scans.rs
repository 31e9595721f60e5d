//! Goal: scans of Parquet files drop no row that a query keeps, and fail only if the query does, however they ask. Method: statements on
//! files of many small row groups with `yeoul.filter_scans` on and off, whose answers do not differ; and plans with what was measured.

use super::Bench;
use super::answers::benches;

/// The sorted rows of a statement, or its error, with the scans' own way of asking or the library's.
fn answered(bench: &Bench, sql: &str, is_on: bool) -> Result<Vec<String>, String> {
    bench.sql(&format!("SET yeoul.filter_scans = {is_on}"));
    bench.sorted_rows(sql)
}

/// Files of 20,000 rows in row groups of 1,000, read in batches of 100: numbers in order and in disorder, nulls, floats, text and days.
fn filled(bench: &Bench) {
    bench.sql("SET datafusion.execution.parquet.max_row_group_size = 1000");
    bench.sql("SET datafusion.execution.batch_size = 100");
    // A small file is divided among threads, too, and no operator for that is between a scan and the filter above it.
    bench.sql("SET datafusion.optimizer.repartition_file_min_size = 0");
    bench.sql(
        "COPY (SELECT value AS n, value * 7919 % 20000 AS k, CASE WHEN value % 11 <> 0 THEN value % 50 END AS m,
            CASE value % 6 WHEN 0 THEN 'NaN'::double WHEN 1 THEN -0.0 WHEN 2 THEN 0.0 WHEN 3 THEN NULL ELSE value % 100 END AS f,
            'text ' || (value % 30) AS t, DATE '2024-01-01' + CAST(value / 50 AS INT) AS d
         FROM generate_series(0, 19999)) TO '~/facts.parquet'",
    );
    bench.sql(
        "COPY (SELECT value AS k, CASE WHEN value % 7 <> 0 THEN value % 50 END AS m, 'text ' || value AS t,
            CASE value % 4 WHEN 0 THEN 'NaN'::double WHEN 1 THEN 0.0 WHEN 2 THEN -0.0 ELSE value END AS f
         FROM generate_series(0, 19999, 37)) TO '~/keys.parquet'",
    );
}

/// Statements whose conditions and joins leave all, some, few and no rows.
fn statements() -> Vec<String> {
    let facts = "FROM '~/facts.parquet' AS f";
    let keys = "'~/keys.parquet' AS k";
    let totals = "SELECT count(*) AS c, sum(f.n) AS s, count(f.m) AS m";
    let mut all: Vec<String> = Vec::new();
    for condition in [
        "f.n < 5",
        "f.n >= 0",
        "f.n < 0",
        "f.n % 2 = 0 AND f.t = 'text 4'",
        "f.t = 'text 4' AND f.m > 10 AND f.d < DATE '2024-03-01'",
        "f.t LIKE '%9' AND f.k < 300",
        "f.m IS NULL OR f.k = 3",
        "f.m NOT IN (1, 2, 3) AND f.t <> 'text 0'",
        "f.f = 0",
        "f.f > 5",
        "f.f = 'NaN' AND f.n < 100",
        "f.f <= 0 AND f.k > 19000",
        "NOT (f.f < 50)",
        "f.k < 200 AND f.n / 2 > 100 AND f.m IS NOT NULL",
        "(f.k = 17 OR f.t = 'text 3') AND f.k < 4000",
        "f.m > (SELECT avg(m) FROM '~/keys.parquet') AND f.k < 500",
    ] {
        all.push(format!("{totals} {facts} WHERE {condition}"));
        all.push(format!("SELECT f.t, f.k {facts} WHERE {condition}"));
        all.push(format!("{totals} {facts} JOIN {keys} ON f.k = k.k WHERE {condition}"));
    }
    for join in ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"] {
        for on in ["f.k = k.k", "f.m = k.m AND f.k = k.k", "f.f = k.f AND f.n = k.k", "f.t = k.t"] {
            all.push(format!("{totals} {facts} {join} {keys} ON {on} WHERE f.n < 15000"));
        }
        all.push(format!("{totals} {facts} {join} (SELECT * FROM {keys} WHERE k.k < 100) AS k ON f.k = k.k"));
    }
    all.push(format!("{totals} {facts} JOIN {keys} ON f.f IS NOT DISTINCT FROM k.f WHERE f.k < 30"));
    all.push(format!("{totals} {facts} WHERE f.m NOT IN (SELECT k.m FROM {keys} WHERE k.m < 10)"));
    all.push(format!("{totals} {facts} WHERE f.m IN (SELECT k.m FROM {keys} WHERE k.k = 37)"));
    for order in ["f.n DESC", "f.k", "f.k DESC, f.t", "f.f, f.n", "f.f DESC NULLS LAST, f.n", "f.d DESC, f.k"]
    {
        all.push(format!("SELECT f.n, f.k, f.f {facts} WHERE f.k < 9000 ORDER BY {order} LIMIT 7"));
        all.push(format!("SELECT f.n {facts} ORDER BY {order}, f.n LIMIT 3"));
    }
    all.push(format!("SELECT count(*) AS c FROM (SELECT f.n {facts} WHERE f.m > 20 LIMIT 50) AS z"));
    // Each round joins other rows.
    all.push(format!(
        "WITH RECURSIVE r AS (SELECT 1 AS n, 0 AS depth UNION ALL
            SELECT f.k, r.depth + 1 {facts} JOIN r ON f.n = r.n WHERE r.depth < 20)
         SELECT n, depth FROM r"
    ));
    all
}

#[test]
fn no_way_of_asking_changes_an_answer() {
    for bench in benches() {
        filled(&bench);
        for sql in statements() {
            let (on, off) = (answered(&bench, &sql, true), answered(&bench, &sql, false));
            assert_eq!(on, off, "{:?}: {sql}", bench.session.options());
        }
    }
}

/// The line of the plan with what was measured that reads a file and has a text.
fn scan(analyzed: &str, text: &str) -> String {
    let mut lines = analyzed.lines().filter(|line| line.contains("facts.parquet") && line.contains(text));
    lines.next().unwrap_or_else(|| panic!("no scan with '{text}': {analyzed}")).to_owned()
}

fn rows_of(line: &str) -> f64 {
    let (_, told) = line.split_once("output_rows=").unwrap_or_else(|| panic!("{line}"));
    let number: String = told.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    let factor = if told[number.len()..].starts_with(" K") { 1000.0 } else { 1.0 };
    number.parse::<f64>().unwrap() * factor
}

/// Each key is a hundredth of the rows, and 200 keys are too many for a list of them.
#[test]
fn filters_of_joins_reach_the_rows_below_an_aggregate() {
    for bench in benches() {
        filled(&bench);
        bench.sql("SET datafusion.optimizer.hash_join_inlist_pushdown_max_distinct_values = 0");
        bench.sql("SET datafusion.optimizer.hash_join_single_partition_threshold = 0");
        bench.sql("SET datafusion.optimizer.hash_join_single_partition_threshold_rows = 0");
        let sql = "SELECT count(*) AS c, sum(s) AS s FROM '~/keys.parquet' AS k
            JOIN (SELECT k, sum(n) AS s FROM '~/facts.parquet' GROUP BY k) AS f ON f.k = k.k WHERE k.k < 1850";
        assert_eq!(bench.column(&format!("SELECT c FROM ({sql}) AS z")), ["50"]);
        let analyzed = bench.sql(&format!("EXPLAIN ANALYZE {sql}"));
        let line = scan(&analyzed, "RecordedKeys");
        assert!(rows_of(&line) <= 100.0, "{line}");
        bench.sql("SET yeoul.filter_scans = false");
        let plan = bench.sql(&format!("EXPLAIN {sql}"));
        assert!(!plan.contains("asked="), "{plan}");
    }
}

#[test]
fn own_conditions_are_asked_by_the_scan_and_shown() {
    let bench = Bench::new();
    filled(&bench);
    let sql = "SELECT n FROM '~/facts.parquet' WHERE t = 'text 7' AND k < 100";
    let plan = bench.sql(&format!("EXPLAIN {sql}"));
    assert!(!plan.contains("FilterExec") && plan.contains("asked=[t = text 7] and [k < 100]"), "{plan}");
    let line = scan(&bench.sql(&format!("EXPLAIN ANALYZE {sql}")), "row groups asked after decoding");
    // 0.5 % of all rows, or 0.7 % of those with the text, if that was asked first.
    let is_kept = |share: &str| line.contains(&format!("[k < 100: kept {share} %"));
    assert!(["0.5", "0.6", "0.7"].into_iter().any(is_kept), "{line}");
}

/// Half of the 541 keys is null or below 0.
#[test]
fn scans_ask_recorded_keys() {
    for bench in benches() {
        filled(&bench);
        let sql = "SELECT count(*) AS c FROM '~/facts.parquet' AS f JOIN (SELECT CASE WHEN k % 4 = 0 THEN NULL WHEN k % 4 = 1 THEN -k ELSE k END AS k
            FROM '~/keys.parquet') AS k ON f.k = k.k";
        assert_eq!(bench.column(sql), ["270"]);
        let plan = bench.sql(&format!("EXPLAIN {sql}"));
        assert!(plan.contains("RecordedKeysExec: k"), "{plan}");
        let line = scan(&bench.sql(&format!("EXPLAIN ANALYZE {sql}")), "RecordedKeys: kept");
        assert!(rows_of(&line) <= 300.0, "{line}");
    }
}

/// Of 50 keys, and of 50 other numbers of which nearly all rows have one.
#[test]
fn scans_ask_each_of_several_recorded_keys() {
    for bench in benches() {
        filled(&bench);
        let sql = "SELECT count(*) AS c, sum(f.n) AS s FROM '~/facts.parquet' AS f
            JOIN (SELECT * FROM '~/keys.parquet' WHERE k < 1850) AS k ON f.m = k.m AND f.k = k.k";
        assert_eq!(answered(&bench, sql, true), answered(&bench, sql, false));
        bench.sql("SET yeoul.filter_scans = true");
        let plan = bench.sql(&format!("EXPLAIN {sql}"));
        assert!(plan.contains("RecordedKeysExec: k") && plan.contains("RecordedKeysExec: m"), "{plan}");
        let line = scan(&bench.sql(&format!("EXPLAIN ANALYZE {sql}")), "[k IN (recorded keys)");
        assert!(rows_of(&line) <= 100.0, "{line}");
    }
}

/// Of 400,000 rows, three are kept.
#[test]
fn columns_of_conditions_are_decoded_first_where_that_saves_others() {
    let bench = Bench::new();
    bench.sql("SET datafusion.execution.parquet.max_row_group_size = 40000");
    bench.sql("COPY (SELECT value * 7919 % 400000 AS k, value AS n FROM generate_series(0, 399999)) TO '~/facts.parquet'");
    bench.sql("COPY (SELECT value AS k FROM generate_series(7, 399999, 150000)) TO '~/keys.parquet'");
    for (answer, is_saved) in [("count(*)", false), ("sum(f.n)", true)] {
        let sql = format!(
            "SELECT {answer} AS c FROM '~/facts.parquet' AS f JOIN '~/keys.parquet' AS k ON f.k = k.k"
        );
        let line = scan(&bench.sql(&format!("EXPLAIN ANALYZE {sql}")), "row groups asked");
        assert_eq!(rows_of(&line), 3.0, "{line}");
        assert_eq!(!line.contains("while decoding 0"), is_saved, "{line}");
    }
}

#[test]
fn filters_that_keep_all_rows_are_dropped() {
    let bench = Bench::new();
    bench.sql("COPY (SELECT value AS n, value * 7919 % 1000 AS k FROM generate_series(0, 399999)) TO '~/facts.parquet'");
    bench.sql("COPY (SELECT value AS k FROM generate_series(0, 999)) TO '~/keys.parquet'");
    let sql =
        "SELECT k, sum(n) AS s FROM '~/facts.parquet' WHERE k IN (SELECT k FROM '~/keys.parquet') GROUP BY k";
    let line = scan(&bench.sql(&format!("EXPLAIN ANALYZE {sql}")), "RecordedKeys: kept 100.0 %");
    assert!(line.contains(", dropped]"), "{line}");
}

#[test]
fn conditions_that_may_fail_fail_as_in_the_query() {
    for bench in benches() {
        filled(&bench);
        let facts = "SELECT count(*) AS c FROM '~/facts.parquet' AS f";
        for (sql, rows) in [
            (format!("{facts} WHERE f.k <> 0 AND 1000 / f.k > 10"), "90"),
            (format!("{facts} WHERE f.k > 0 AND f.t <> 'text 0' AND 1000 / f.k > 999"), "1"),
            (
                format!("{facts} JOIN '~/keys.parquet' AS k ON f.k = k.k WHERE f.k > 0 AND 1000 / f.k > 10"),
                "2",
            ),
        ] {
            assert_eq!(bench.column(&sql), [rows], "{sql}");
        }
        // No filter of the join hides that the condition fails for a row.
        let joined = "JOIN (SELECT * FROM '~/keys.parquet' WHERE k > 37) AS k ON f.k = k.k";
        for sql in [
            format!("{facts} WHERE 1000 / f.k > 10"),
            format!("{facts} WHERE CAST(f.t AS INT) = 4 AND f.n < 100"),
            format!("{facts} {joined} WHERE 1000 / (f.k - f.k) > 10"),
        ] {
            let (on, off) = (answered(&bench, &sql, true), answered(&bench, &sql, false));
            assert!(on.is_err(), "{sql}: {on:?}");
            assert_eq!(off.is_err(), on.is_err(), "{sql}: {off:?}");
        }
    }
}

#[test]
fn volatile_conditions_stay_above_the_scan() {
    let bench = Bench::new();
    filled(&bench);
    let plan = bench.sql("EXPLAIN SELECT n FROM '~/facts.parquet' WHERE random() < 0.5 AND n < 10");
    assert!(plan.contains("FilterExec: ") && plan.contains("random() < 0.5"), "{plan}");
}
