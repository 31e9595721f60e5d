//! Goal: a session in Spark's dialect answers Spark's statements as Spark does, or refuses them by name; one without it answers as before.

use std::fmt::Write;

use yeoul_base::ErrorKind;
use yeoul_dialect::functions::spark::{DEFINITIONS, REFUSED};

use super::Bench;
use crate::{Options, System};

pub(super) fn spark() -> Bench {
    Bench::with(Options { threads: Some(2), dialect: System::Spark, ..Options::default() })
}

/// The values of the first row of an answer.
pub(super) fn row(bench: &Bench, sql: &str) -> Vec<String> {
    let table = bench.sql(sql);
    let line = table.lines().nth(3).unwrap_or_default().trim_matches('|');
    line.split('|').map(|cell| cell.trim().to_owned()).collect()
}

#[test]
fn statements_of_spark_have_sparks_answers() {
    let bench = spark();
    bench.sql(
        "CREATE OR REPLACE TEMPORARY VIEW v (k, V) AS SELECT * FROM VALUES (1, \"x\"), (2, NULL) AS t(a, b)",
    );
    for (sql, expected) in [
        (r#"SELECT "a", 1L, 7 / 2, `x` FROM VALUES (1) AS t(`x`)"#, "a 1 3.5 1"),
        (r#"SELECT 'it\'s', "it's", 'a' "b", r'\d', '\u00e9'"#, r"it's it's ab \d é"),
        ("SELECT 1.5BD, -128Y, 2S, 1.5D, 1e1", "1.5 -128 2 1.5 10.0"),
        ("SELECT 1 == 1, NULL <=> NULL, !true, 7 DIV 2, 7 % 4, 5 ^ 3", "true true false 3 3 6"),
        ("SELECT array(5, 6)[0], map('a', 1)['a'], map('a', 1)['b'], named_struct('a', 7).a", "5 1  7"),
        ("SELECT struct(1 AS a, 2).col2, array(struct(3 AS z))[0].z", "2 3"),
        (
            "SELECT typeof(1), typeof(2147483648), typeof(1.5), typeof(array('a'))",
            "int bigint decimal(2,1) array<string>",
        ),
        ("SELECT 1.0 / 3, 1 / 3 = 1D / 3, '6' / 2", "0.333333 true 3.0"),
        ("SELECT V.K, v FROM V ORDER BY v LIMIT 1", "2"),
        ("SELECT count(*) FROM v a JOIN v b", "4"),
        ("SELECT count(*) FROM v a LEFT SEMI JOIN v b ON a.k = b.k", "2"),
        ("FROM v SELECT max(k)", "2"),
        ("SELECT sum(id) FROM range(4)", "6"),
        ("SELECT col1 FROM VALUES 3, 4 WHERE col1 > 3", "4"),
        ("SELECT /*+ BROADCAST(v) */ k FROM v ORDER BY 1 DESC", "2"),
        ("SELECT k, count(*) FROM v GROUP BY 1 ORDER BY 1", "1 1"),
        ("SELECT x FROM v LATERAL VIEW explode(array(8, 9)) t AS x ORDER BY x DESC LIMIT 1", "9"),
        ("SELECT CAST(1e7 AS STRING), concat('a', NULL), 'a' || 1.5D, string(1)", "1.0E7  a1.5 1"),
        ("SELECT DATE '2024-01-31' + INTERVAL 1 MONTH, DATE '2024-01-31' + 1", "2024-02-29 2024-02-01"),
        (
            "SELECT extract(DOW FROM DATE '2024-02-29'), date_part('SECOND', TIMESTAMP '2024-01-01 00:00:01.5')",
            "5 1.500000",
        ),
        (
            "SELECT regexp_replace('a1b22', '(\\\\d)', '<$1>'), substring('Spark', 0, 2), ceil(2.5D)",
            "a<1>b<2><2> Sp 3",
        ),
        ("SELECT to_date('29/02/2024', 'dd/MM/yyyy'), to_date('2024-02-29')", "2024-02-29 2024-02-29"),
        ("SELECT try_divide(1, 0), try_divide(1, 2), get(array(1), 5), log(0)", " 0.5"),
        ("SELECT DATE '2012-01-01' - INTERVAL 3 HOURS = TIMESTAMP '2011-12-31 21:00:00'", "true"),
        ("SELECT a FROM VALUES (1), (2) AS t(a) GROUP BY GROUPING SETS ((1)) ORDER BY 1 LIMIT 1", "1"),
        (
            "SELECT element_at(map('a', 7), 'a'), element_at(array(1, 2), -1), CAST(0.1D AS DECIMAL(20, 18))",
            "7 2 0.100000000000000000",
        ),
    ] {
        assert_eq!(row(&bench, sql).join(" ").trim_end(), expected, "{sql}");
    }
}

#[test]
fn tables_are_made_as_spark_makes_them() {
    let bench = spark();
    for statement in [
        "CREATE TABLE t (a INT COMMENT 'x', p STRING, b INT) USING csv COMMENT 'y' PARTITIONED BY (p) TBLPROPERTIES ('k' = 'v')",
        "INSERT INTO t VALUES (1, 2, 'x')",
        "CREATE TABLE m (k MAP<STRING, INT>, s STRUCT<i: INT, j: INT>) USING json",
        "INSERT INTO m VALUES (map('a', 7), named_struct('i', 3, 'j', 4))",
        "CREATE TABLE n (d DECIMAL(38, 18)) USING parquet",
        "INSERT INTO n VALUES (-93853.0D), (double('NaN')), (0.3D)",
        "CREATE TEMPORARY VIEW e (i INT, s STRING) USING parquet",
        "CREATE OR REPLACE VIEW v (a COMMENT 'c') WITH SCHEMA BINDING AS SELECT b FROM IDENTIFIER('t')",
    ] {
        bench.sql(statement);
    }
    for (sql, expected) in [
        ("SELECT * FROM t", "1 2 x"),
        ("SELECT k['a'], s.i, s.j FROM m", "7 3 4"),
        ("SELECT min(d), count(*), max(d) FROM n", "-93853.000000000000000000 3 0.300000000000000000"),
        ("SELECT count(*), count(s) FROM e", "0 0"),
        ("SELECT a FROM v", "2"),
    ] {
        assert_eq!(row(&bench, sql).join(" ").trim_end(), expected, "{sql}");
    }
    assert_eq!(bench.column("SELECT count(*) FROM n WHERE d IS NULL"), ["1"]);
}

#[test]
fn clauses_of_spark_have_sparks_answers() {
    let bench = spark();
    for (sql, expected) in [
        ("SELECT extract(MONTH FROM INTERVAL 10 YEAR 20 MONTH)", "8"),
        ("SELECT INTERVAL 'interval 1 day' = INTERVAL 1 DAY", "true"),
        ("SELECT 20E2BD, -1.25E-3BD", "2000 -0.00125"),
        (
            "SELECT 'ab' LIKE ANY ('a%', 'x'), 'ab' NOT LIKE ALL ('x', 'y'), 'ab' LIKE ALL ('a%', NULL)",
            "true true",
        ),
        ("SELECT count(DISTINCT a, b) FROM VALUES (1, 2), (1, 2), (1, NULL), (2, 2) AS t(a, b)", "2"),
        (
            "WITH t AS (SELECT 1 AS a), u AS (WITH t AS (SELECT 2 AS a) SELECT t.a FROM t) SELECT t.a, u.a FROM t, u",
            "1 2",
        ),
        ("SELECT (1, 2).col2, IDENTIFIER('abs')(-1)", "2 1"),
        ("SELECT sum(col) FROM explode(array(1, 2))", "3"),
        ("SELECT x FROM VALUES (array(3)) AS t(l), LATERAL explode(l) AS u(x)", "3"),
        ("SELECT 1 AS a |> JOIN VALUES (2) AS u(b) |> AGGREGATE sum(b) AS s", "2"),
        (
            "SELECT dateadd(MONTH, 1, DATE '2024-01-31') = TIMESTAMP '2024-02-29 00:00:00', datediff(HOUR, DATE '2024-01-01', DATE '2024-01-02')",
            "true 24",
        ),
        ("SELECT CAST(TIME '00:01:52.9' AS INT), CAST(TIME '00:01:52.9' AS DECIMAL(8, 3))", "112 112.900"),
        (
            "SELECT to_date('02 jan 24', 'dd MMM yy'), to_date('16', 'dd'), try_to_timestamp('x', 'yyyy') IS NULL",
            "2024-01-02 1970-01-16 true",
        ),
        (
            "SELECT try_add('a', 1) IS NULL, try_add(' 1 ', 1), try_multiply(2147483647, 2) IS NULL",
            "true 2 true",
        ),
        (
            "SELECT div(-7, 2), elt(2, 'a', 'b'), decode(3, 1, 'a', 3, 'c'), decode(X'61', 'UTF-8')",
            "-3 b c a",
        ),
        ("SELECT CAST(map(1, 2) AS MAP<BIGINT, STRING>)[1]", "2"),
    ] {
        assert_eq!(row(&bench, sql).join(" ").trim_end(), expected, "{sql}");
    }
}

#[test]
fn what_is_an_error_in_spark_is_one() {
    let bench = spark();
    for (sql, words) in [
        ("SELECT 2147483647 + 1", "overflow"),
        ("SELECT 1 / 0", "divi"),
        ("SELECT 1.5D / 0", "divi"),
        ("SELECT 1.5D % 0", "divi"),
        ("SELECT 7 DIV 0", "divi"),
        ("SELECT array(1)[1]", "no element [1]"),
        ("SELECT array(1)[-1]", "no element [-1]"),
        ("SELECT 'abc'[0]", "no element"),
        ("SELECT CAST('x' AS INT)", "x"),
        ("SELECT 1.5L", "1.5L"),
        ("SELECT CAST(array(1) AS STRING)", "STRING"),
        ("CREATE TABLE t (a INT) USING avro", "USING avro"),
        ("CREATE TABLE t (a VARCHAR(3))", "VARCHAR(3)"),
        ("SET spark.sql.ansi.enabled = false", "spark.sql.ansi.enabled"),
        ("SET spark.sql.unheard.of = 1", "spark.sql.unheard.of"),
        ("SELECT map(1)", "map()"),
        ("SELECT 1 AS a |> FULL JOIN VALUES (1) AS u(a) USING (a)", "outer |> JOIN"),
        ("SELECT TRY_CAST('1 day' AS INTERVAL)", "TRY_CAST to an INTERVAL"),
        ("SELECT elt(3, 'a', 'b')", "no element"),
        ("SELECT CAST(TIME '00:00:01' AS DOUBLE)", "time of day"),
        ("SELECT try_sum(x) FROM VALUES (INTERVAL 1 DAY) AS t(x)", "of an INTERVAL"),
        ("SELECT dateadd(HOUR, 1, now())", "TIMESTAMPTZ"),
        ("SELECT encode('é', 'US-ASCII')", "no letter"),
        ("SELECT to_binary('xy')", "format 'hex'"),
        ("SELECT bround(127Y, -1)", "overflow"),
        ("SELECT TIMESTAMP_NTZ '2024-01-01 00:00:00Z'", "with a zone"),
        ("SELECT to_timestamp(1)", "a number"),
        ("SELECT CAST(1 AS TIMESTAMP)", "a number"),
        ("SELECT element_at(array(1), 0)", "no element [0]"),
        ("SELECT to_date('x', 'dd')", "no time by the pattern 'dd'"),
        ("SELECT to_date('Mon', 'E')", "'E'"),
        ("SELECT to_timestamp('2024-01-01+01', 'yyyy-MM-ddX')", "a zone"),
        ("SELECT to_date(DATE '2024-01-01', 'yyyy')", "a pattern beside"),
    ] {
        let error = bench.refused(sql);
        assert!(error.to_string().contains(words), "{sql}: {error}");
    }
    for (name, _) in REFUSED {
        let error = bench.refused(&format!("SELECT {name}(array(1), array(NULL))"));
        assert!(error.to_string().contains(name) && error.hint().is_some(), "{error}");
    }
    bench.sql("SET spark.sql.shuffle.partitions = 5");
    bench.sql("SET spark.sql.ansi.enabled = true");
}

#[test]
fn a_row_that_a_condition_keeps_out_is_not_divided() {
    let bench = spark();
    let sql = "SELECT CASE WHEN b <> 0 THEN a / b END AS q FROM VALUES (1, 0), (1, 2) AS t(a, b) ORDER BY q";
    assert_eq!(bench.column(sql), ["", "0.5"]);
}

#[test]
fn columns_of_files_are_found_in_any_case() {
    let bench = Bench::new();
    bench.sql("COPY (SELECT 1 AS \"Id\", 2 AS \"nAME\") TO '~/t.parquet'");
    bench.sql("COPY (SELECT 1 AS \"A\", 2 AS a) TO '~/u.parquet'");
    bench.sql("SET yeoul.dialect = 'spark'");
    assert_eq!(
        row(&bench, "SELECT id, T.Name, `ID` + 1 FROM parquet.`~/t.parquet` AS t WHERE ID = 1"),
        ["1", "2", "2"]
    );
    let error = bench.refused("SELECT a FROM parquet.`~/u.parquet`");
    assert!(error.to_string().contains("differ in case alone") && error.hint().is_some(), "{error}");
}

#[test]
fn a_session_may_choose_its_dialect_and_go_back() {
    let bench = Bench::new();
    let nulls = "SELECT * FROM (VALUES (1), (NULL)) AS t(a) ORDER BY a";
    assert_eq!(
        (row(&bench, "SELECT 7 / 2"), bench.column(nulls)),
        (vec!["3".to_owned()], vec!["1".to_owned(), String::new()])
    );
    for _ in 0..2 {
        bench.sql("SET yeoul.dialect = 'spark'");
        assert_eq!(
            (row(&bench, "SELECT 7 / 2"), bench.column(nulls)),
            (vec!["3.5".to_owned()], vec![String::new(), "1".to_owned()])
        );
        bench.sql("RESET yeoul.dialect");
        assert_eq!(
            (row(&bench, "SELECT 7 / 2"), bench.column(nulls)),
            (vec!["3".to_owned()], vec!["1".to_owned(), String::new()])
        );
    }
    let error = bench.refused("SET yeoul.dialect = 'sparc'");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("sparc") && error.to_string().contains("spark"), "{error}");
    assert_eq!(row(&bench, "SELECT \"7 / 2\" FROM (SELECT 1 AS \"7 / 2\") AS t"), ["1"]);
}

#[test]
fn casts_pipes_and_schemas_are_sparks() {
    let bench = spark();
    for statement in ["CREATE DATABASE d", "USE d", "CREATE TABLE t AS SELECT 7 AS a", "USE default"] {
        bench.sql(statement);
    }
    for (sql, expected) in [
        ("SELECT d.t.a, current_database() FROM d.t", "7 default"),
        ("SELECT 1 AS a, 2 AS b |> SET a = b + 1, b = a |> DROP a", "3"),
        ("SELECT 1 AS a |> UNION ALL SELECT 2 |> WHERE a > 1", "2"),
        (
            "SELECT CAST(' 2024-2 ' AS DATE), DATE '2024', CAST('2024-1-2 3:4' AS TIMESTAMP)",
            "2024-02-01 2024-01-01 2024-01-02T03:04:00",
        ),
        ("SELECT try_cast('2024-02-30' AS DATE) IS NULL, try_cast('20240229' AS DATE) IS NULL", "true true"),
        (
            "SELECT CAST(INTERVAL '-10-2' YEAR TO MONTH AS INT), CAST(INTERVAL '10.005' SECOND AS DECIMAL(4, 2))",
            "-122 10.01",
        ),
        (
            "SELECT CAST(-122S AS INTERVAL YEAR TO MONTH) = INTERVAL '-10-2' YEAR TO MONTH, CAST('- 1 day' AS INTERVAL) = INTERVAL '-1' DAY",
            "true true",
        ),
        (
            "SELECT CAST('- -1 day' AS INTERVAL) IS NULL, CAST('09:08:01.987654' AS TIME(2)) = TIME '09:08:01.98'",
            "true true",
        ),
        ("SELECT ceil(-35, -1), floor(3.14115, -3), floor(-0.35, 1)", "-30 0 -0.4"),
        (
            "SELECT arrays_zip(a, array(3))[1].a, to_json(arrays_zip(array(1), a)[0]) FROM VALUES (array(1, 2)) AS t(a)",
            "2 {\"0\":1,\"a\":1}",
        ),
        (
            "SELECT hex(lpad(X'aa', 4, X'1f2e')), hex(rpad(X 'aa', 2)), trim(both 'x' FROM 'xax')",
            "1F2E1FAA AA00 a",
        ),
        ("SELECT regexp_replace('aXbXc', '^X', '-', 2), regexp_replace('abc', 'x*', '-', 10)", "a-bXc abc"),
        (
            "SELECT to_timestamp('2019-10-06 10:11:12.5', 'yyyy-MM-dd HH:mm:ss.SSSSSS[zzz]') = TIMESTAMP '2019-10-06 10:11:12.5'",
            "true",
        ),
        (
            "SELECT -'1', avg('1'), true = 'true', year('1500-01-01'), nanvl(1.5D, 1 / 0)",
            "-1.0 1.0 true 1500 1.5",
        ),
        (
            "SELECT TIMESTAMP '2020-01-01' + NULL IS NULL, DATE 'tomorrow' > DATE 'today', signum(INTERVAL '-1' YEAR)",
            "true true -1.0",
        ),
        ("SELECT a AS x, a FROM VALUES (2), (1) AS t(a) ORDER BY ALL LIMIT 1", "1 1"),
        ("SELECT mode() WITHIN GROUP (ORDER BY a) FROM VALUES (2), (1), (2) AS t(a)", "2"),
        (
            "SELECT grouping_id(a, b) FROM VALUES (1, 2) AS t(a, b) GROUP BY a, b GROUPING SETS ((b), (a, b)) ORDER BY 1 DESC LIMIT 1",
            "2",
        ),
    ] {
        assert_eq!(row(&bench, sql).join(" "), expected, "{sql}");
    }
    for (sql, words) in [
        ("SELECT CAST('20240229' AS DATE)", "is no date"),
        ("SELECT to_timestamp('2019-10-06 UTC', 'yyyy-MM-dd[ zzz]')", "a pattern with a zone"),
        ("SELECT try_to_timestamp('2019-10-06 UTC', 'yyyy-MM-dd[ zzz]')", "a pattern with a zone"),
        ("SELECT date_format(DATE '2024-01-01', 'z')", "names of zones"),
        ("SELECT CAST('1:00' AS TIME(7))", "TIME(7)"),
        ("SELECT ceil(1.5D, 1)", "of a DOUBLE"),
        ("SELECT lpad('a', 2147483647)", "filled up to"),
    ] {
        let error = bench.refused(sql).to_string();
        assert!(error.contains(words), "{sql}: {error}");
    }
}

#[test]
fn each_example_of_a_function_of_spark_has_its_answer() {
    let bench = spark();
    let mut faults = String::new();
    for definition in DEFINITIONS.iter() {
        let sql = format!("SELECT {}", definition.example);
        match bench.try_sql(&sql) {
            Ok(_) if row(&bench, &sql).join(" ") == definition.answer => {}
            found => writeln!(faults, "{}: {found:?}", definition.example).unwrap(),
        }
    }
    assert!(faults.is_empty(), "\n{faults}");
}

#[test]
fn texts_times_and_intervals_meet_numbers_as_in_spark() {
    let bench = spark();
    for (sql, expected) in [
        ("SELECT '1' + 1Y, 2.5 + '1', '7' % 4, '3' * 2, 2 - '1'", "2 3.5 3 6 1"),
        (
            "SELECT typeof('1' + 1Y), typeof(2.5 + '1'), typeof('1' * cast(1 AS FLOAT))",
            "bigint double double",
        ),
        (
            "SELECT typeof(CAST(1 AS DECIMAL(7, 2)) * 100), typeof(CAST(1 AS DECIMAL(7, 2)) / 3)",
            "decimal(11,2) decimal(11,6)",
        ),
        (
            "SELECT INTERVAL 3 MONTH / 2 = INTERVAL 2 MONTH, INTERVAL -1 MONTH * 1.5 = INTERVAL -2 MONTH",
            "true true",
        ),
        ("SELECT INTERVAL 1 DAY / 2 = INTERVAL 12 HOUR, INTERVAL 2 DAY * NULL IS NULL", "true true"),
        ("SELECT INTERVAL '-1 02:00' DAY TO MINUTE = INTERVAL -26 HOUR", "true"),
        (
            "SELECT DATE '2020-01-05' - DATE '2020-01-01' = INTERVAL 4 DAY, '2020-01-01' - INTERVAL 1 DAY",
            "true 2019-12-31 00:00:00",
        ),
        (
            "SELECT TIMESTAMP '2020-01-03 01:00:00' - '2020-01-01' = INTERVAL 49 HOUR, DATE '2020-01-01' + NULL IS NULL",
            "true true",
        ),
        (
            "SELECT try_add(2147483647, 1) IS NULL, try_add(DATE '2020-01-31', 1), try_add(1, 1.5)",
            "true 2020-02-01 2.5",
        ),
        (
            "SELECT try_add(INTERVAL 106751991 DAY, INTERVAL 3 DAY) IS NULL, try_divide(INTERVAL 2 MONTH, 0) IS NULL",
            "true true",
        ),
        (
            "SELECT concat(1, 2), TIMESTAMP '2020-01-01 00:00:00Z' = TIMESTAMP '2020-01-01 09:00:00 Asia/Seoul'",
            "12 true",
        ),
    ] {
        assert_eq!(row(&bench, sql).join(" "), expected, "{sql}");
    }
    for (sql, words) in [
        ("SELECT INTERVAL 1 DAY / 0", "divided by zero"),
        ("SELECT 'a' + 1", "cast"),
        ("SELECT make_interval(0, 1, 0, 1) * 2", "a multiple of an interval of 1 months, 1 days"),
        ("SELECT INTERVAL 178956970 YEAR * 2", "too long"),
    ] {
        let error = bench.refused(sql).to_string().to_lowercase();
        assert!(error.contains(words), "{sql}: {error}");
    }
}

#[test]
fn lambdas_make_lists_and_maps_as_in_spark() {
    let bench = spark();
    bench.sql(
        "CREATE TEMPORARY VIEW n AS SELECT * FROM VALUES (1, array(32, 97)), (2, array(77, -76)) AS t(x, ys)",
    );
    for (sql, expected) in [
        ("SELECT transform(ys, x -> x + 1) FROM n ORDER BY x LIMIT 1", "[33, 98]"),
        ("SELECT transform(ys, y -> y + x) FROM n ORDER BY x DESC LIMIT 1", "[79, -74]"),
        ("SELECT aggregate(ys, 0, (acc, y) -> acc + y + x) FROM n ORDER BY x LIMIT 1", "131"),
        (
            "SELECT aggregate(array(1, 2), 0, (a, x) -> a + x, a -> a * 10), reduce(array(), 5, (a, x) -> a)",
            "30 5",
        ),
        ("SELECT zip_with(array(1, 2), array(3, 4, 5), (a, b) -> a + b)[1]", "6"),
        (
            "SELECT transform(array(5, 6), (x, i) -> x * i), filter(array(5, 6, 7), (x, i) -> i <> 1)",
            "[0, 6] [5, 7]",
        ),
        (
            "SELECT transform_values(map('a', 1), (k, v) -> v + 1)['a'], transform_keys(map('a', 1), (k, v) -> upper(k))['A']",
            "2 1",
        ),
        (
            "SELECT map_zip_with(map('a', 1), map('a', 2), (k, x, y) -> x + y)['a'], size(map_filter(map(1, 2, 3, 4), (k, v) -> k > 1))",
            "3 1",
        ),
        (
            "SELECT exists(array(1, NULL), x -> x > 5) IS NULL, forall(array(1, 2), x -> x > 0), EXISTS (SELECT 1)",
            "true true true",
        ),
        (
            "SELECT zip_with(array(1), array(2), (x, y) -> zip_with(array(x), array(y), (p, q) -> p + q + x)[0])",
            "[4]",
        ),
    ] {
        assert_eq!(row(&bench, sql).join(" "), expected, "{sql}");
    }
    for (sql, words) in [
        ("SELECT transform_keys(map('a', 1, 'b', 2), (k, v) -> 'x')", "a key twice"),
        ("SELECT map_from_arrays(array(1, NULL), array(1, 2))", "a key of a map is null"),
        ("SELECT map_concat(map(1, 2), map(1, 3))", "a key twice"),
        ("SELECT map_from_arrays(array(0.0D, -0.0D), array(1, 2))", "a key twice"),
        ("SELECT array_insert(array(1), 0, 1)", "no place 0"),
        ("SELECT slice(array(1), 1, -1)", "no length -1"),
        ("SELECT array_insert(array(1), 2000000000, 5)", "elements that are null"),
        ("SELECT arrays_overlap(array(1), array('a'))", "overlap of INTEGER and VARCHAR"),
        ("SELECT aggregate(array(1), 0, (a, x) -> 'a')", "as its start"),
    ] {
        let error = bench.refused(sql).to_string();
        assert!(error.contains(words), "{sql}: {error}");
    }
}

#[test]
fn generators_make_rows_and_columns() {
    let bench = spark();
    for (sql, expected) in [
        ("SELECT posexplode(array('a', 'b'))", "0 a"),
        ("SELECT key, value FROM (SELECT explode(map('a', 1)))", "a 1"),
        ("SELECT p, v FROM posexplode(array(7)) AS t(p, v)", "0 7"),
        ("SELECT e IS NULL FROM (SELECT explode_outer(array()) AS e)", "true"),
        ("SELECT x, y FROM inline(array(named_struct('x', 1, 'y', 'b')))", "1 b"),
        ("SELECT c, d FROM VALUES (array(struct(1, 'a'))) AS t(l) LATERAL VIEW inline(l) AS c, d", "1 a"),
        ("SELECT sum(col0), count(col1) FROM stack(2, 1, 2, 3)", "4 1"),
    ] {
        assert_eq!(row(&bench, sql).join(" "), expected, "{sql}");
    }
}

#[test]
fn variables_of_a_session_are_named_like_columns() {
    let bench = spark();
    bench.sql("DECLARE x INT DEFAULT 5");
    bench.sql("DECLARE OR REPLACE VARIABLE y = 'abc'");
    assert_eq!(row(&bench, "SELECT x + 1, session.x, Y"), ["6", "5", "abc"]);
    assert_eq!(row(&bench, "SELECT x FROM VALUES (1) AS t(x)"), ["1"]);
    assert_eq!(row(&bench, "SELECT session.x FROM VALUES (1) AS t(x)"), ["5"]);
    bench.sql("SET VAR x = '42'");
    assert_eq!(row(&bench, "SELECT x, typeof(x)"), ["42", "int"]);
    bench.sql("SET VAR x = NULL");
    assert_eq!(row(&bench, "SELECT x IS NULL, typeof(x)"), ["true", "int"]);
    for (sql, words) in [
        ("DECLARE x INT", "there is a variable x already"),
        ("SET VAR missing = 1", "there is no variable missing"),
        ("SET VAR x = 'a'", "'a'"),
        ("DECLARE a, b INT", "several variables"),
    ] {
        let error = bench.refused(sql);
        assert!(error.to_string().contains(words), "{sql}: {error}");
    }
    bench.sql("DROP TEMPORARY VARIABLE x");
    assert!(bench.refused("SELECT x").to_string().contains("there is no column"));
}

#[test]
fn what_is_left_out_is_told_once() {
    let bench = spark();
    let notices = |sql: &str| bench.notices(sql);
    let told = notices("CREATE TABLE t (a INT COMMENT 'c') USING parquet TBLPROPERTIES ('k' = 'v')");
    assert!(
        told.len() == 2 && told[0].starts_with("COMMENT") && told[1].starts_with("TBLPROPERTIES"),
        "{told:?}"
    );
    assert_eq!(notices("CREATE TABLE u (a INT) TBLPROPERTIES ('k' = 'v')"), Vec::<String>::new());
    let told = notices("CREATE TABLE v (a INT) CLUSTERED BY (a) INTO 2 BUCKETS");
    assert!(told.len() == 1 && told[0].starts_with("CLUSTERED BY"), "{told:?}");
    assert_eq!(notices("SELECT /*+ BROADCAST(t) */ * FROM t"), ["optimizer hints change nothing"]);
    assert_eq!(notices("SELECT /*+ BROADCAST(t) */ * FROM t"), Vec::<String>::new());
    // A statement that fails has told nothing.
    let other = spark();
    other.refused("CREATE TABLE t (a INT) COMMENT 'c' AS SELECT nothing");
    assert_eq!(other.notices("CREATE TABLE t (a INT) COMMENT 'c'").len(), 1);
}
