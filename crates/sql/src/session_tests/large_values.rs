//! Statements that make large values or large plans out of little.

use super::*;

fn limited() -> Bench {
    Bench::with(Options { memory: Some(ByteSize::from_gib(1)), threads: Some(2), ..Options::default() })
}

#[test]
fn functions_that_make_large_values_ask_for_the_memory_first() {
    let bench = limited();
    bench.sql("CREATE TABLE t AS SELECT value AS n, 'abc' AS s FROM generate_series(1, 8000)");
    for sql in [
        "SELECT length(repeat('a', 2000000000))",
        "SELECT length(lpad('a', 1000000000, 'xy'))",
        "SELECT length(rpad('a', 1000000000))",
        "SELECT cardinality(range(0, 200000000))",
        "SELECT cardinality(generate_series(1, 200000000))",
        "SELECT cardinality(generate_series(DATE '1700-01-01', DATE '2200-01-01', INTERVAL '1 millisecond'))",
        "SELECT cardinality(array_repeat('abcdefgh', 100000000))",
        "SELECT length(replace(repeat('a', 1000000), 'a', repeat('b', 10000)))",
        "SELECT sum(length(lpad(s, 100000 + n))) FROM t",
        "SELECT sum(length(repeat(s, n * 100))) FROM t",
        "SELECT sum(length(concat(repeat('a', 1000000), s))) FROM t",
        "SELECT sum(length(repeat('a', 1000000) || s)) FROM t",
    ] {
        let error = bench.refused(sql);
        assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{sql}: {error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("--memory")), "{sql}: {error}");
    }
    for (sql, answer) in [
        ("SELECT length(repeat('ab', 1000000))", "2000000"),
        ("SELECT cardinality(range(0, 100000))", "100000"),
        ("SELECT sum(length(lpad(s, 100))) FROM t", "800000"),
        ("SELECT length(replace(repeat('a', 1000), 'a', 'bb'))", "2000"),
        ("SELECT concat('a', s, n) FROM t WHERE n = 7", "aabc7"),
        ("SELECT array_repeat(1, 3)", "[1, 1, 1]"),
        ("SELECT s || n || NULL FROM t WHERE s || n = 'abc7'", ""),
        ("SELECT 'a' || s || n FROM t WHERE n || s = '7abc'", "aabc7"),
        ("SELECT count(*) FROM (SELECT s || (n % 2) FROM t GROUP BY s || (n % 2)) AS g", "2"),
        ("SELECT [1, 2] || [n] FROM t WHERE n = 7", "[1, 2, 7]"),
    ] {
        assert_eq!(bench.column(sql), [answer], "{sql}");
    }
}

/// Operators that gather batches count rows, and hold all rounds of this query until its end: then they copy them at once.
#[test]
fn operators_that_gather_large_values_ask_for_the_memory_of_their_copies_first() {
    let doubled = |bytes: usize| {
        format!(
            "WITH RECURSIVE t AS (SELECT 'a' AS s UNION ALL SELECT s || s FROM t WHERE length(s) < {bytes}) \
             SELECT max(length(s)) FROM t"
        )
    };
    let with = |mib: u64| {
        let memory = Some(ByteSize::from_mib(mib));
        Bench::with(Options { memory, threads: Some(2), ..Options::default() })
    };
    // The last round asks for two copies of 64 MiB, while two thirds of the rounds before it are in one output, and one in the other.
    let error = with(256).refused(&doubled(60_000_000));
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("--memory")), "{error}");
    assert_eq!(with(512).column(&doubled(60_000_000)), ["67108864"]);
    // What was copied is given back: these are more than the process may have, a row at a time.
    let many = "WITH RECURSIVE t AS (SELECT 1 AS n, repeat('a', 8000) AS s UNION ALL SELECT n + 1, repeat('a', 8000) FROM t WHERE n < 30000) \
                SELECT sum(length(s)) FROM t";
    assert_eq!(with(256).column(many), ["240000000"]);
}

/// Table expressions that each unite the one before with itself double the plan.
#[test]
fn a_plan_that_doubles_is_refused_and_one_of_many_operators_is_not() {
    let chain = |length: usize| {
        let first = "t0 AS (SELECT 1 AS a)".to_owned();
        let others =
            (1..=length).map(|n| format!("t{n} AS (SELECT a FROM t{0} UNION ALL SELECT a FROM t{0})", n - 1));
        let tables: Vec<String> = std::iter::once(first).chain(others).collect();
        format!("WITH {} SELECT count(*) FROM t{length}", tables.join(", "))
    };
    let bench = limited();
    assert_eq!(bench.column(&chain(6)), ["64"]);
    for length in [12, 14] {
        let error = bench.refused(&chain(length));
        assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{length}: {error}");
        assert!(error.to_string().contains("operators"), "{error}");
    }
}

#[test]
fn a_recursive_query_without_end_stops_at_a_limit_that_it_names() {
    let bench = Bench::new();
    for sql in [
        "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n FROM t) SELECT count(*) FROM t",
        "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT max(n) FROM t) SELECT count(*) FROM t",
    ] {
        let error = bench.refused(sql);
        assert_eq!(error.kind(), ErrorKind::Invalid, "{sql}: {error}");
        assert!(error.to_string().contains("100000 rounds"), "{error}");
    }
    let sql = "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 2000) SELECT sum(n) FROM t";
    assert_eq!(bench.column(sql), ["2001000"]);
}

#[test]
fn a_decimal_with_a_negative_scale_is_refused() {
    let bench = Bench::new();
    for sql in
        ["SELECT arrow_cast(1, 'Decimal128(10, -2)') = 100", "SELECT arrow_try_cast(1, 'Decimal256(10,-2)')"]
    {
        let error = bench.refused(sql);
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("negative scale"), "{error}");
    }
    assert_eq!(bench.column("SELECT arrow_cast(1, 'Decimal128(10, 2)')"), ["1.00"]);
}
