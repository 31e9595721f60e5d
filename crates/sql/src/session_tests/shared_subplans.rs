//! Goal: what a query mentions several times is computed once, and no answer changes by it. Method: statements on files with
//! `yeoul.share_subplans` on and off, whose plans differ and whose answers do not, in sessions of one thread and of several, with and
//! without a memory limit; and each thing that must not be shared.

use std::time::{Duration, Instant};

use yeoul_base::{ByteSize, ErrorKind};

use super::Bench;
use super::answers::benches;
use crate::Options;

/// Sales of 10 stores and 1000 days, and the stores.
fn with_sales(bench: &Bench) {
    bench.sql(
        "COPY (SELECT value % 10 AS store, value % 1000 AS day, value % 7919 AS customer, value AS id, value % 97 AS price
         FROM generate_series(1, 30000)) TO '~/sales.parquet'",
    );
    bench.sql(
        "COPY (SELECT value AS store, value % 3 AS state FROM generate_series(0, 9)) TO '~/stores.parquet'",
    );
}

/// Revenue of each customer, as a query's `WITH`.
const REVENUE: &str =
    "WITH revenue AS (SELECT customer, store, sum(price) AS total, count(*) AS n, min(id) AS first
    FROM '~/sales.parquet' GROUP BY customer, store) ";

/// Statements that mention an equal subplan several times.
const SHARED: [&str; 12] = [
    "SELECT count(*) AS n FROM revenue WHERE total = (SELECT max(total) FROM revenue)",
    // The shared subplan is the build side, and the probe side, of one join.
    "SELECT a.customer, a.store, b.total FROM revenue a JOIN revenue b ON a.customer = b.customer AND a.store = b.store",
    // A join of few stores filters its probe side; the other reader needs all of them.
    "SELECT r.store, count(*) AS n, (SELECT count(*) FROM revenue) AS of_all
     FROM revenue r JOIN '~/stores.parquet' s ON r.store = s.store WHERE s.state = 1 GROUP BY r.store",
    "SELECT r.store, r.total, q.total FROM revenue r JOIN '~/stores.parquet' s ON r.store = s.store AND s.store = 3
     FULL JOIN revenue q ON q.first = r.first",
    "SELECT sum(total) AS t FROM (SELECT total FROM revenue WHERE store = 3 UNION ALL SELECT n FROM revenue WHERE store IN (3, 4))",
    "SELECT customer FROM revenue WHERE total > 300 INTERSECT SELECT customer FROM revenue WHERE n > 2",
    "SELECT customer, total FROM revenue r WHERE total > (SELECT avg(total) * 1.2 FROM revenue q WHERE q.store = r.store)",
    "SELECT count(*) AS n FROM revenue WHERE customer IN (SELECT customer FROM revenue WHERE store = 1) AND store = 2",
    "SELECT (SELECT total FROM revenue ORDER BY total DESC, customer LIMIT 1) AS most, count(*) AS n, max(first) AS last FROM revenue",
    "SELECT a.store, b.n FROM (SELECT store, rank() OVER (PARTITION BY store ORDER BY total, first) AS k FROM revenue) a
     JOIN (SELECT store, count(*) AS n FROM revenue GROUP BY store) b ON a.store = b.store WHERE a.k < 3",
    "SELECT a.store, a.n, b.n FROM (SELECT store, count(*) AS n FROM revenue WHERE total > 100 GROUP BY store) a
     LEFT JOIN (SELECT store, count(*) AS n FROM revenue WHERE total > 500 GROUP BY store) b ON a.store = b.store",
    "SELECT 1 AS x FROM revenue a, revenue b WHERE a.total = b.n AND a.store = 0 AND b.store = 9",
];

/// The sorted rows of a statement, and its plan, with the rule on or off.
fn answered(bench: &Bench, sql: &str, is_on: bool) -> (Result<Vec<String>, String>, String) {
    bench.answered_with("yeoul.share_subplans", is_on, sql)
}

/// The plan of a statement, whose answer is the same with the rule and without it.
fn plan_of(bench: &Bench, sql: &str) -> String {
    let ((rows, plan), (apart, plan_apart)) = (answered(bench, sql, true), answered(bench, sql, false));
    assert_eq!(rows, apart, "{:?}: {sql}\n{plan}\n{plan_apart}", bench.session.options());
    assert!(!plan_apart.contains("SharedSubplan"), "{plan_apart}");
    bench.sql("SET yeoul.share_subplans = true");
    plan
}

fn is_shared(bench: &Bench, sql: &str) -> bool {
    plan_of(bench, sql).contains("SharedSubplanExec")
}

#[test]
fn equal_subplans_are_computed_once_and_answer_as_copies_do() {
    for bench in benches() {
        with_sales(&bench);
        for sql in SHARED {
            let sql = format!("{REVENUE}{sql}");
            let plan = plan_of(&bench, &sql);
            assert!(plan.contains("SharedSubplanExec"), "{sql}\n{plan}");
            let physical = plan.split("physical_plan").nth(1).unwrap();
            let is_of_sales = |line: &&str| line.contains("DataSourceExec") && line.contains("sales.parquet");
            assert_eq!(physical.lines().filter(is_of_sales).count(), 1, "{sql}\n{plan}");
        }
    }
}

/// Each file is scanned once, in the plan that `EXPLAIN` shows below one of the readers.
#[test]
fn a_plan_shows_a_shared_subplan_once() {
    let bench = Bench::new();
    with_sales(&bench);
    let plan = plan_of(&bench, &format!("{REVENUE}{}", SHARED[1]));
    let physical = plan.split("physical_plan").nth(1).unwrap();
    assert_eq!(physical.matches("SharedSubplanExec: subplan=0, readers=2").count(), 2, "{plan}");
    assert_eq!(physical.matches("DataSourceExec").count(), 1, "{plan}");
    // A column that no reader needs is not computed.
    assert!(!physical.contains("count("), "{plan}");
    let analyzed = bench.sql(&format!("EXPLAIN ANALYZE {REVENUE}{}", SHARED[1]));
    assert_eq!(analyzed.matches("DataSourceExec").count(), 1, "{analyzed}");
    assert!(
        analyzed.contains("SharedSubplanExec: subplan=0, readers=2, metrics=[estimated_rows="),
        "{analyzed}"
    );
}

#[test]
fn the_rows_that_some_reader_keeps_are_computed() {
    let bench = Bench::new();
    with_sales(&bench);
    let sql = "SELECT * FROM (SELECT store, total FROM revenue WHERE store = 3) a
        JOIN (SELECT store, total FROM revenue WHERE store IN (3, 5)) b ON a.total = b.total";
    let plan = plan_of(&bench, &format!("{REVENUE}{sql}"));
    let scan = plan.lines().find(|line| line.contains("DataSourceExec")).unwrap();
    assert!(plan.contains("SharedSubplanExec") && scan.contains("predicate=store@"), "{plan}");
}

#[test]
fn views_and_nested_subplans_are_shared() {
    let bench = Bench::new();
    with_sales(&bench);
    bench.sql(
        "CREATE VIEW v AS SELECT store, count(DISTINCT customer) AS n FROM '~/sales.parquet' GROUP BY store",
    );
    assert!(is_shared(&bench, "SELECT * FROM v AS a JOIN v AS b ON a.n = b.n"));
    let nested = "WITH a AS (SELECT store, customer, sum(price) AS p FROM '~/sales.parquet' GROUP BY store, customer),
        b AS (SELECT x.store, max(x.p) AS m, count(*) AS n FROM a AS x JOIN a AS y ON x.customer = y.customer GROUP BY x.store)
        SELECT p.store, p.m, q.n, (SELECT count(*) FROM a) AS c FROM b AS p JOIN b AS q ON p.m = q.m";
    let plan = plan_of(&bench, nested);
    assert!(plan.contains("subplan=0, readers=2") && plan.contains("subplan=1, readers=3"), "{plan}");
    let scans = plan.split("physical_plan").nth(1).unwrap().matches("DataSourceExec").count();
    assert_eq!(scans, 1, "{plan}");
}

#[test]
fn what_is_different_is_not_shared() {
    let bench = Bench::new();
    with_sales(&bench);
    bench.sql("COPY (SELECT store, customer, 1 AS price FROM '~/sales.parquet') TO '~/others.parquet'");
    bench.sql("CREATE VIEW t AS SELECT store, customer, price FROM '~/sales.parquet'");
    bench.sql("CREATE TABLE kept AS SELECT store, customer, price FROM '~/sales.parquet'");
    bench.sql("CREATE VIEW before AS SELECT store, sum(price) AS s FROM kept GROUP BY store");
    bench.sql("CREATE OR REPLACE TABLE kept AS SELECT store, customer, 1 AS price FROM '~/sales.parquet'");
    let pairs = [
        (
            "SELECT store, sum(price) AS s FROM t GROUP BY store",
            "SELECT store, sum(price + 1) AS s FROM t GROUP BY store",
        ),
        (
            "SELECT store, sum(price) AS s FROM t GROUP BY store",
            "SELECT store, max(price) AS s FROM t GROUP BY store",
        ),
        (
            "SELECT store, sum(price) AS s FROM t WHERE price > 1 GROUP BY store",
            "SELECT store, sum(price) AS s FROM t WHERE price > 2 GROUP BY store",
        ),
        (
            "SELECT store, sum(price) AS s FROM t GROUP BY store",
            "SELECT store, sum(price) AS s FROM '~/others.parquet' GROUP BY store",
        ),
        // Of one name and one plan, but of another table: the view keeps the one that it was made of.
        ("SELECT * FROM before", "SELECT store, sum(price) AS s FROM kept GROUP BY store"),
    ];
    for (one, other) in pairs {
        let sql =
            format!("SELECT a.store, a.s, b.s FROM ({one}) AS a JOIN ({other}) AS b ON a.store = b.store");
        assert!(!is_shared(&bench, &sql), "{sql}");
        let sums = bench.column(&format!(
            "SELECT count(*) AS n FROM ({one}) AS a JOIN ({other}) AS b ON a.store = b.store AND a.s = b.s"
        ));
        assert_eq!(sums, ["0"], "{sql}");
    }
}

#[test]
fn what_is_another_each_time_is_computed_each_time() {
    let bench = Bench::new();
    with_sales(&bench);
    let a = "(SELECT store, sum(random()) AS r FROM '~/sales.parquet' GROUP BY store)";
    let sql = format!("SELECT count(*) AS n FROM {a} AS x JOIN {a} AS y ON x.store = y.store AND x.r = y.r");
    assert!(!bench.sql(&format!("EXPLAIN {sql}")).contains("SharedSubplan"));
    assert_eq!(bench.column(&sql), ["0"]);
}

/// Part of a recursive query that is repeated in each round: it is computed in each; a recursive query that is mentioned twice is whole.
#[test]
fn rounds_of_a_recursive_query_are_not_shared() {
    for bench in benches() {
        with_sales(&bench);
        let of_rounds = "WITH RECURSIVE t AS (SELECT store, count(*) AS c FROM '~/sales.parquet' GROUP BY store),
            r AS (SELECT 0 AS n UNION ALL SELECT n + 1 FROM r JOIN t AS x ON x.store = r.n JOIN t AS y ON y.store = x.store)
            SELECT count(*) AS n FROM r";
        assert!(!is_shared(&bench, of_rounds));
        assert_eq!(bench.column(of_rounds), ["11"]);
        let whole = "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 1000)
            SELECT count(*) AS n FROM r AS a JOIN r AS b ON a.n = b.n";
        plan_of(&bench, whole);
        assert_eq!(bench.column(whole), ["1000"]);
    }
}

#[test]
fn copies_that_filters_make_small_stay_copies() {
    let bench = Bench::new();
    bench.sql("COPY (SELECT value % 1000 AS day, value AS id FROM generate_series(1, 50000) ORDER BY value % 1000) TO '~/days.parquet'");
    bench.sql(
        "COPY (SELECT value AS id, value % 11 AS kind FROM generate_series(1, 50000)) TO '~/kinds.parquet'",
    );
    let with = "WITH j AS (SELECT d.day, d.id, k.kind FROM '~/days.parquet' AS d JOIN '~/kinds.parquet' AS k ON d.id = k.id) ";
    assert!(is_shared(
        &bench,
        &format!("{with} SELECT count(*) AS n FROM j AS a JOIN j AS b ON a.id = b.id")
    ));
    let sql = "SELECT (SELECT id FROM j LIMIT 1) > 0 AS a, (SELECT id FROM j LIMIT 1) > 0 AS b";
    assert!(!is_shared(&bench, &format!("{with}{sql}")), "a limit is met by a few rows");
}

/// A reader that has enough leaves the others all rows.
#[test]
fn a_reader_that_stops_early_takes_nothing_from_others() {
    for bench in benches() {
        with_sales(&bench);
        bench.sql("SET datafusion.execution.batch_size = 100");
        let sql = format!(
            "{REVENUE} SELECT count(*) AS n FROM (SELECT * FROM (SELECT customer FROM revenue LIMIT 3) UNION ALL SELECT customer FROM revenue)"
        );
        let groups = bench
            .column("SELECT count(*) AS n FROM (SELECT DISTINCT customer, store FROM '~/sales.parquet')");
        let expected = (groups[0].parse::<usize>().unwrap() + 3).to_string();
        assert!(is_shared(&bench, &sql));
        assert_eq!(bench.column(&sql), [expected]);
    }
}

#[test]
fn an_error_within_a_shared_subplan_ends_the_query() {
    for bench in benches() {
        with_sales(&bench);
        let sql =
            "WITH a AS (SELECT store, sum(100 / (price - 96)) AS s FROM '~/sales.parquet' GROUP BY store)
            SELECT x.store FROM a AS x JOIN a AS y ON x.s = y.s UNION ALL SELECT store FROM a";
        bench.sql("SET yeoul.share_subplans = false");
        let apart = bench.refused(sql);
        bench.sql("SET yeoul.share_subplans = true");
        assert!(bench.sql(&format!("EXPLAIN {sql}")).contains("SharedSubplanExec"));
        let shared = bench.refused(sql);
        assert_eq!((shared.to_string(), shared.kind()), (apart.to_string(), apart.kind()));
    }
}

/// Rows that do not fit into memory are written to files, which each reader reads.
#[test]
fn a_shared_subplan_that_is_larger_than_memory_spills() {
    let memory = Some(Options::MEMORY_MIN);
    for threads in [1, 3] {
        let bench = Bench::with(Options { threads: Some(threads), memory, ..Options::default() });
        bench.sql(
            "COPY (SELECT value AS id, value % 7 AS kind, repeat('x', 200) || value AS text FROM generate_series(1, 400000)) TO '~/texts.parquet'",
        );
        bench.sql(
            "COPY (SELECT value AS kind, value + 1 AS k FROM generate_series(0, 6)) TO '~/kinds.parquet'",
        );
        let sql = "WITH a AS (SELECT id, text, k FROM '~/texts.parquet' AS t JOIN '~/kinds.parquet' AS s ON t.kind = s.kind)
            SELECT count(*) AS n, sum(length(text)) AS l, min(k) AS f, sum(id) AS i FROM (SELECT * FROM a UNION ALL SELECT * FROM a)";
        let analyzed = bench.sql(&format!("EXPLAIN ANALYZE {sql}"));
        let line =
            analyzed.lines().find(|line| line.contains("SharedSubplanExec") && line.contains("spilled_rows"));
        let line = line.unwrap_or_else(|| panic!("{analyzed}"));
        assert!(!line.contains("spilled_rows=0"), "{line}");
        let table = bench.sql(sql);
        bench.sql("SET yeoul.share_subplans = false");
        assert_eq!(table, bench.sql(sql));
        assert_eq!(bench.session.memory().spilled.0, ByteSize::from_bytes(0));
        assert_eq!(bench.session.memory().reserved.unwrap().0, ByteSize::from_bytes(0));
    }
}

#[test]
fn a_spill_disk_that_fills_ends_the_query() {
    let bench = Bench::with(Options {
        threads: Some(2),
        memory: Some(Options::MEMORY_MIN),
        spill_limit: ByteSize::from_mib(1),
        ..Options::default()
    });
    bench.sql("COPY (SELECT value AS id, repeat('x', 200) || value AS text FROM generate_series(1, 400000)) TO '~/texts.parquet'");
    let sql = "WITH a AS (SELECT DISTINCT id, text FROM '~/texts.parquet') SELECT count(*) AS n FROM (SELECT * FROM a UNION ALL SELECT * FROM a)";
    let error = bench.refused(sql);
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error}");
}

#[test]
fn hundreds_of_mentions_and_ten_levels_are_answered() {
    let bench = Bench::new();
    with_sales(&bench);
    let mentions: Vec<String> =
        (0..200).map(|n| format!("SELECT {n} AS k, total FROM revenue WHERE store = {}", n % 10)).collect();
    let wide = format!("{REVENUE} SELECT count(*) AS n FROM ({})", mentions.join(" UNION ALL "));
    let mut levels =
        "WITH a0 AS (SELECT store, count(*) AS n FROM '~/sales.parquet' GROUP BY store)".to_owned();
    for level in 1..10 {
        levels += &format!(
            ", a{level} AS (SELECT x.store, max(x.n + y.n) AS n FROM a{0} AS x JOIN a{0} AS y ON x.store = y.store GROUP BY x.store)",
            level - 1
        );
    }
    let deep = format!("{levels} SELECT sum(n) AS n FROM a9");
    let shared = bench.column(&wide);
    bench.sql("SET yeoul.share_subplans = false");
    assert_eq!(shared, bench.column(&wide));
    bench.sql("SET yeoul.share_subplans = true");
    assert_eq!(bench.column(&deep), [(30000 * 512).to_string()]);
}

/// Whoever leaves a query leaves nothing of it behind.
#[test]
fn a_query_that_is_left_frees_its_shared_subplans() {
    let bench =
        Bench::with(Options { threads: Some(2), memory: Some(ByteSize::from_gib(1)), ..Options::default() });
    with_sales(&bench);
    let sql = format!("{REVENUE} SELECT a.total FROM revenue AS a JOIN revenue AS b ON a.store = b.store");
    let sql = sql.replace('~', &bench.path().to_string_lossy());
    bench.runtime.block_on(async {
        let mut answer = bench.session.sql(&sql).await.unwrap();
        assert!(futures::StreamExt::next(&mut answer).await.unwrap().is_ok());
        drop(answer);
        let deadline = Instant::now() + Duration::from_secs(20);
        while bench.session.memory().reserved.unwrap().0 > ByteSize::from_bytes(0) {
            assert!(Instant::now() < deadline, "{:?}", bench.session.memory());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}
