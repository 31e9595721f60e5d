//! Goal: joins run in the order that is the fastest by what files say, and no order changes an answer. Method: statements on files of
//! known sizes with `yeoul.order_joins` on and off, whose plans differ and whose answers do not.

use std::time::{Duration, Instant};

use super::Bench;
use super::answers::benches;

/// The numbers of a generator with a seed (Knuth's MMIX constants).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn one_of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

/// The sorted rows of a statement, and its plan, with the rule on or off.
fn answered(bench: &Bench, sql: &str, is_on: bool) -> (Result<Vec<String>, String>, String) {
    bench.answered_with("yeoul.order_joins", is_on, sql)
}

/// Asserts that a statement has the same answer in both orders; true if they differ.
fn is_reordered(bench: &Bench, sql: &str) -> bool {
    let ((rows, plan), (written, plan_as_written)) =
        (answered(bench, sql, true), answered(bench, sql, false));
    assert_eq!(rows, written, "{sql}\n{plan}\n{plan_as_written}");
    plan != plan_as_written
}

/// The depth in a plan of the last scan of a file.
fn depth(plan: &str, file: &str) -> usize {
    let mut depths =
        plan.lines().filter(|line| line.contains(file)).filter_map(|line| line.find("DataSourceExec"));
    depths.next_back().unwrap_or_else(|| panic!("{file}: {plan}"))
}

#[test]
fn estimated_rows_are_shown_beside_those_that_came() {
    let bench = Bench::new();
    bench.sql("COPY (SELECT value AS n, value % 10 AS k FROM generate_series(1, 1000)) TO '~/t.parquet'");
    let plan =
        bench.sql("EXPLAIN ANALYZE SELECT k, count(*) AS c FROM '~/t.parquet' WHERE n <= 100 GROUP BY k");
    let line = |name: &str| {
        let mut lines = plan.lines().filter(|line| line.contains(name));
        lines.next().unwrap_or_else(|| panic!("{name}: {plan}")).to_owned()
    };
    assert!(line("FilterExec").contains("metrics=[estimated_rows=100, output_rows=100,"), "{plan}");
    assert!(line("FinalPartitioned").contains("metrics=[estimated_rows=10, output_rows=10,"), "{plan}");
}

/// A snowflake like that of TPC-DS Q72: sales and an inventory, both large, meet in the item of the statement's first join, and the
/// conditions that leave few sales come last.
#[test]
fn the_selective_side_of_a_snowflake_is_joined_first() {
    let bench = Bench::new();
    bench.sql(
        "COPY (SELECT value % 1000 AS item, value % 730 AS day, value % 500 AS home, value AS quantity
         FROM generate_series(1, 20000)) TO '~/sales.parquet'",
    );
    bench.sql(
        "COPY (SELECT value % 1000 AS item, value / 1000 AS day, value % 5 AS house, value AS held
         FROM generate_series(0, 99999)) TO '~/inventory.parquet'",
    );
    bench.sql("COPY (SELECT value AS day, value / 365 AS year, value / 7 AS week FROM generate_series(0, 3649)) TO '~/days.parquet'");
    bench.sql(
        "COPY (SELECT value AS home, value % 100 AS class FROM generate_series(0, 499)) TO '~/homes.parquet'",
    );
    bench.sql("COPY (SELECT value AS house FROM generate_series(0, 4)) TO '~/houses.parquet'");
    let sql = "SELECT count(*) AS n, sum(quantity + held) AS s
        FROM '~/sales.parquet' AS s
        JOIN '~/inventory.parquet' AS i ON s.item = i.item
        JOIN '~/houses.parquet' AS w ON i.house = w.house
        JOIN '~/homes.parquet' AS h ON s.home = h.home
        JOIN '~/days.parquet' AS d1 ON s.day = d1.day
        JOIN '~/days.parquet' AS d2 ON i.day = d2.day
        WHERE d1.week = d2.week AND d1.year = 0 AND h.class = 7 AND held > quantity";
    assert!(is_reordered(&bench, sql));
    let (_, plan) = answered(&bench, sql, true);
    let (sales, inventory, homes) =
        (depth(&plan, "sales.parquet"), depth(&plan, "inventory.parquet"), depth(&plan, "homes.parquet"));
    assert!(sales > inventory && homes > inventory, "{plan}");
}

#[test]
fn answers_do_not_depend_on_the_order_of_joins() {
    let mut numbers = Numbers(35);
    let mut reordered = 0;
    for bench in benches() {
        // Keys with nulls, texts, and floats that are equal in one sense and not in another.
        for (name, rows) in [("a", 60), ("b", 7), ("c", 30), ("d", 1), ("e", 25), ("f", 0)] {
            bench.sql(&format!(
                "COPY (SELECT nullif(value % 11, 3) AS k, nullif(value % 5, 1) AS j, (value % 7)::text AS s,
                 CASE value % 4 WHEN 0 THEN -0.0 WHEN 1 THEN 0.0 WHEN 2 THEN 'NaN'::double ELSE value END AS x,
                 value % 3 AS n, value AS i FROM generate_series(1, {rows})) TO '~/{name}.parquet'",
            ));
        }
        for _ in 0..50 {
            reordered += usize::from(is_reordered(&bench, &random_statement(&mut numbers)));
        }
    }
    assert!(reordered > 40, "{reordered} of 200 were planned in another order");
}

/// A statement that joins some of the tables by random conditions.
fn random_statement(numbers: &mut Numbers) -> String {
    let count = 3 + numbers.below(4);
    let mut from = String::new();
    let mut conditions = Vec::new();
    for place in 0..count {
        let table = numbers.one_of(&["a", "b", "c", "d", "e", "e", "b", "f"]);
        let name = format!("t{place}");
        if place == 0 {
            from = format!("'~/{table}.parquet' AS {name}");
            continue;
        }
        let other = format!("t{}", numbers.below(place));
        let on = match numbers.below(12) {
            0..5 => format!("{name}.k = {other}.k"),
            5 => format!("{name}.s = {other}.s"),
            6 => format!("{name}.x = {other}.x"),
            7 => format!("{name}.i = {other}.k AND {name}.n <= {other}.n"),
            8 => format!("{name}.j + 1 = {other}.n"),
            9 => format!("{name}.i < {other}.j"),
            10 => format!("{name}.k IS NOT DISTINCT FROM {other}.k"),
            _ => format!("{name}.i = 3"),
        };
        let kind = numbers.one_of(&["JOIN", "JOIN", "JOIN", "JOIN", "JOIN", "LEFT JOIN"]);
        from = format!("{from} {kind} '~/{table}.parquet' AS {name} ON {on}");
    }
    for _ in 0..numbers.below(4) {
        let (one, other) = (numbers.below(count), numbers.below(count));
        conditions.push(match numbers.below(7) {
            0 => format!("t{one}.k = t{other}.j"),
            1 => format!("t{one}.n = {}", numbers.below(3)),
            2 => format!("t{one}.k IN (SELECT n FROM '~/e.parquet' WHERE j > 0)"),
            3 => format!(
                "NOT EXISTS (SELECT 1 FROM '~/c.parquet' AS z WHERE z.k = t{one}.k AND z.i > t{other}.i)"
            ),
            4 => format!("t{one}.x <= t{other}.x"),
            5 => format!("t{one}.i % 7 <> coalesce(t{other}.j, 0)"),
            _ => format!("(t{one}.k = 2 OR t{other}.k IS NULL)"),
        });
    }
    let conditions = if conditions.is_empty() { "true".to_owned() } else { conditions.join(" AND ") };
    let last = count - 1;
    format!(
        "SELECT t0.i AS c0, t{last}.s AS c1, t1.k AS c2, t0.k AS c3, count(*) AS n, count(t{last}.x) AS x
         FROM {from} WHERE {conditions} GROUP BY t0.i, t{last}.s, t1.k, t0.k"
    )
}

#[test]
fn what_could_fail_is_not_asked_of_more_rows() {
    let bench = Bench::new();
    // Few rows of `a` and `b` are left by `d`, most by `c`, which leaves none whose divisor is zero.
    for (name, rows) in [
        ("a", "SELECT value AS k, value % 10 AS v, value % 7 AS w FROM generate_series(0, 999)"),
        ("b", "SELECT value AS k, value % 3 AS v, value % 5 AS w FROM generate_series(0, 99)"),
        ("c", "SELECT value AS k FROM generate_series(0, 999) WHERE value % 10 <> 0"),
        ("d", "SELECT 5 AS w UNION ALL SELECT 6"),
    ] {
        bench.sql(&format!("COPY ({rows}) TO '~/{name}.parquet'"));
    }
    let sql = "SELECT count(*) AS n FROM '~/a.parquet' AS a JOIN '~/c.parquet' AS c ON a.k = c.k
        JOIN '~/b.parquet' AS b ON a.k = b.k AND 10 / a.v > b.v JOIN '~/d.parquet' AS d ON d.w = a.w";
    assert!(is_reordered(&bench, sql));
    bench.sql("SET yeoul.order_joins = true");
    assert_ne!(bench.column(sql), ["0"]);
}

#[test]
fn what_could_fail_is_asked_behind_what_keeps_it_from_failing() {
    let bench = Bench::new();
    for (name, rows) in [
        ("a", "SELECT value AS k, value % 10 AS v, value % 7 AS w FROM generate_series(0, 999)"),
        ("b", "SELECT value % 1000 AS k, value % 9 AS v FROM generate_series(0, 19999)"),
        ("d", "SELECT 5 AS w, -100 AS z UNION ALL SELECT 6, -100"),
    ] {
        bench.sql(&format!("COPY ({rows}) TO '~/{name}.parquet'"));
    }
    // The first join drops the rows for which the condition of the second fails; in another order both are asked at once.
    let sql =
        "SELECT count(*) AS n FROM '~/a.parquet' AS a JOIN '~/b.parquet' AS b ON a.k = b.k AND a.v <> b.v
        JOIN '~/d.parquet' AS d ON d.w = a.w AND 10 / (a.v - b.v) > d.z";
    assert!(is_reordered(&bench, sql));
    bench.sql("SET yeoul.order_joins = true");
    assert_ne!(bench.column(sql), ["0"]);
}

#[test]
fn two_columns_of_a_table_that_equal_a_third_equal_each_other() {
    let bench = Bench::new();
    for (name, rows) in [
        ("a", "SELECT value AS k, value % 10 AS j FROM generate_series(0, 99)"),
        ("b", "SELECT value AS k FROM generate_series(0, 99)"),
        ("c", "SELECT value % 100 AS k FROM generate_series(1, 3000)"),
        ("d", "SELECT 5 AS k UNION ALL SELECT 15"),
    ] {
        bench.sql(&format!("COPY ({rows}) TO '~/{name}.parquet'"));
    }
    let sql = "SELECT count(*) AS n FROM '~/c.parquet' AS c JOIN '~/a.parquet' AS a ON c.k = a.k
        JOIN '~/b.parquet' AS b ON b.k = a.k AND b.k = a.j JOIN '~/d.parquet' AS d ON d.k = c.k";
    assert!(is_reordered(&bench, sql));
    assert_eq!(bench.column(sql), ["30"]);
}

#[test]
fn volatile_conditions_stay_where_they_are() {
    let bench = Bench::new();
    for name in ["a", "b", "c"] {
        bench.sql(&format!("COPY (SELECT value AS k FROM generate_series(1, 50)) TO '~/{name}.parquet'"));
    }
    let sql = "SELECT count(*) FROM '~/a.parquet' AS a JOIN '~/b.parquet' AS b ON a.k < b.k + random() JOIN '~/c.parquet' AS c ON a.k = c.k
        WHERE c.k = 7 AND random() + b.k < 9";
    for is_on in [true, false] {
        bench.sql(&format!("SET yeoul.order_joins = {is_on}"));
        assert_eq!(bench.column(sql), ["2"]);
    }
}

/// A chain, a star, a clique by one key, and relations that nothing joins.
#[test]
fn sixty_tables_are_joined_without_a_long_search() {
    let bench = Bench::new();
    bench.sql("COPY (SELECT value AS k, value AS j FROM generate_series(1, 40)) TO '~/t.parquet'");
    bench.sql("COPY (SELECT 7 AS k, 7 AS j) TO '~/one.parquet'");
    let shapes: [fn(usize) -> String; 3] = [
        |place| format!("t{place}.k = t{}.j", place - 1),
        |place| format!("t{place}.k = t0.j"),
        |place| format!("t{place}.k = t{}.k", place / 2),
    ];
    for shape in shapes {
        let mut from = "'~/t.parquet' AS t0".to_owned();
        for place in 1..60 {
            let table = if place == 59 { "one" } else { "t" };
            from = format!("{from} JOIN '~/{table}.parquet' AS t{place} ON {}", shape(place));
        }
        let sql = format!("SELECT count(*) FROM {from}");
        let mut times = [Duration::ZERO; 2];
        for is_on in [true, false] {
            bench.sql(&format!("SET yeoul.order_joins = {is_on}"));
            let start = Instant::now();
            bench.sql(&format!("EXPLAIN {sql}"));
            times[usize::from(is_on)] = start.elapsed();
        }
        assert!(times[1] < times[0] + Duration::from_secs(1), "{times:?}");
        bench.sql("SET yeoul.order_joins = true");
        assert_eq!(bench.column(&sql), ["1"]);
    }
    let apart = (0..12).map(|place| format!("'~/one.parquet' AS t{place}")).collect::<Vec<_>>().join(", ");
    assert!(!is_reordered(&bench, &format!("SELECT count(*) FROM {apart}")));
}

#[test]
fn files_without_statistics_and_without_rows_are_joined() {
    let bench = Bench::new();
    bench.write("a.csv", "k,v\n1,x\n2,y\n,z\n");
    bench.write("b.json", "{\"k\":1}\n{\"k\":2}\n{\"k\":2}\n");
    bench.sql("COPY (SELECT value AS k FROM generate_series(1, 1000)) TO '~/c.parquet'");
    bench.sql("COPY (SELECT 1 AS k WHERE false) TO '~/none.parquet'");
    for table in ["~/c.parquet", "~/none.parquet"] {
        is_reordered(
            &bench,
            &format!(
                "SELECT a.v, count(*) AS n FROM '~/c.parquet' AS c1 JOIN '{table}' AS c2 ON c1.k = c2.k
                 JOIN '~/b.json' AS b ON b.k = c1.k JOIN '~/a.csv' AS a ON a.k = c2.k GROUP BY a.v"
            ),
        );
    }
}

/// The averages of each group of sums are few, though no statistics say so: all joins look sums up in them, and hold no sums in memory.
#[test]
fn the_side_that_a_join_holds_in_memory_is_the_small_one() {
    let bench = Bench::new();
    bench.sql(
        "COPY (SELECT value % 7 AS g, value AS k, value % 100 AS v FROM generate_series(1, 200000)) TO '~/t.parquet'",
    );
    let sums = "WITH sums AS (SELECT g, k, sum(v) AS s FROM '~/t.parquet' GROUP BY g, k),
        means AS (SELECT g, avg(s) AS a, min(k) AS k FROM sums GROUP BY g)";
    for (joined, kind) in [
        ("JOIN means ON sums.g = means.g AND sums.s < means.a", "join_type=RightSemi"),
        ("JOIN means ON sums.g = means.g AND sums.s + means.k < means.a", "join_type=RightSemi"),
        ("LEFT JOIN means ON sums.k = means.k", "join_type=Right,"),
        ("LEFT JOIN means ON sums.s > means.a + means.k + 90", "join_type=Right,"),
        ("JOIN means ON sums.s > means.a + means.k + 90", "join_type=Inner"),
        ("LEFT ANTI JOIN means ON sums.g = means.g AND sums.s < means.a", "join_type=RightAnti"),
    ] {
        let sql = format!("{sums} SELECT count(*) AS n, sum(sums.s) AS s FROM sums {joined}");
        let ((rows, plan), (written, _)) = (answered(&bench, &sql, true), answered(&bench, &sql, false));
        assert_eq!(rows, written, "{sql}\n{plan}");
        let join =
            plan.lines().position(|line| line.contains("JoinExec")).unwrap_or_else(|| panic!("{plan}"));
        let lines: Vec<&str> = plan.lines().skip(join).collect();
        assert!(lines[0].contains(kind), "{joined}: {plan}");
        // The first input is the one that is held; the averages alone have groups by that one column.
        let first_scan = lines.iter().position(|line| line.contains("SharedSubplanExec")).unwrap();
        assert!(lines[..first_scan].iter().any(|line| line.contains("gby=[g@0 as g]")), "{joined}: {plan}");
    }
}

/// Of 7 texts, one is a seventh of the rows; a name is one of all.
#[test]
fn distinct_texts_are_known_by_dictionaries() {
    let bench = Bench::new();
    bench.sql("SET datafusion.execution.parquet.max_row_group_size = 3000");
    bench.sql(
        "COPY (SELECT 'kind ' || (value % 7) AS kind, 'name ' || value AS name, CASE WHEN value % 2 = 0 THEN 'x' END AS half
         FROM generate_series(1, 7000)) TO '~/t.parquet'",
    );
    for (condition, estimated) in
        [("kind = 'kind 3'", "1.00 K"), ("name = 'name 4'", "1"), ("half = 'x'", "3.50 K")]
    {
        let plan = bench.sql(&format!("EXPLAIN ANALYZE SELECT * FROM '~/t.parquet' WHERE {condition}"));
        let rows = format!("metrics=[estimated_rows={estimated}, output_rows={estimated},");
        assert!(plan.contains(&rows), "{condition}: {plan}");
    }
}
