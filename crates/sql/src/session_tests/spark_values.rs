//! Goal: documents, sketches, ranks and random numbers of Spark's dialect are Spark's. Method: as that of [`spark`](super::spark).

use super::spark::{row, spark};

#[test]
fn documents_are_read_and_written_as_in_spark() {
    let bench = spark();
    for (sql, expected) in [
        (
            r#"SELECT from_json('{"a":1, "b":[2.50], "c":"x"}', 'a INT, b ARRAY<DOUBLE>, c STRING').b[0]"#,
            "2.5",
        ),
        (
            r#"SELECT to_json(from_json('{"a":"x","b":1}', 'a INT, b INT')), from_json('', 'a INT') IS NULL"#,
            r#"{"b":1} true"#,
        ),
        (
            r#"SELECT to_json(from_json('[1]', 'a INT')), from_json('[1, "2"]', 'array<int>') IS NULL"#,
            "{} true",
        ),
        (
            r#"SELECT from_json('{"a":1}', 'array<struct<a:int>>')[0].a, from_json('{"x":1,"x":2}', 'map<string,int>')['x']"#,
            "1 2",
        ),
        (
            r#"SELECT from_json('{"d":"02/01/2024"}', 'd DATE', map('dateFormat', 'dd/MM/yyyy')).d, from_json('{"a":[1, 2.50 ]}', 'a STRING').a"#,
            "2024-01-02 [1,2.5]",
        ),
        (
            "SELECT to_json(named_struct('a', CAST(NULL AS INT), 'b', 1e10D, 'c', DATE '2024-02-29', 'd', 'x\"y')), to_json(array(1, NULL))",
            r#"{"b":1.0E10,"c":"2024-02-29","d":"x\"y"} [1,null]"#,
        ),
        (
            r#"SELECT * FROM json_tuple('{"a":2.50,"b":[1, 2.50],"a":3}', 'a', 'b', 'c') AS t(x, y, z)"#,
            "3 [1,2.5]",
        ),
        ("SELECT from_csv('1, x ', 'a INT, b STRING').b, from_csv('1', 'a INT, b INT').b IS NULL", "x true"),
        ("SELECT to_csv(named_struct('a', 'x,y', 'b', ' s ', 'c', 1.5D, 'd', ''))", r#""x,y",s,1.5,"""#),
        (
            r#"SELECT schema_of_json('{"b":1.5,"a":[1]}'), schema_of_csv('1|abc', map('delimiter', '|'))"#,
            "STRUCT<a: ARRAY<BIGINT>, b: DOUBLE> STRUCT<_c0: INT, _c1: STRING>",
        ),
    ] {
        assert_eq!(row(&bench, sql).join(" ").trim_end(), expected, "{sql}");
    }
    for (sql, words) in [
        ("SELECT from_json('{}', concat('a ', 'INT'))", "a schema that is computed"),
        ("SELECT from_json('{}', 'a UUID')", "no type UUID"),
        ("SELECT from_json('{}', 'a INT', map('mode', 'FAILFAST'))", "mode = 'FAILFAST'"),
        ("SELECT from_json(\"{'a':1}\", 'a INT')", "single quotes"),
        (r#"SELECT from_json('{"a":1,"a":2}', 'a INT')"#, "a name twice"),
        ("SELECT to_json(named_struct('a', INTERVAL 1 DAY))", "in JSON"),
    ] {
        let error = bench.refused(sql).to_string();
        assert!(error.contains(words), "{sql}: {error}");
    }
}

#[test]
fn sketches_ranks_and_random_numbers_are_those_of_spark() {
    let bench = spark();
    bench.sql("CREATE TEMPORARY VIEW n AS SELECT CAST(value AS INT) AS x, value % 2 AS k FROM VALUES (1), (2), (3), (4) AS t(value)");
    for (sql, expected) in [
        (
            "SELECT theta_sketch_estimate(theta_sketch_agg(x)), hll_sketch_estimate(hll_sketch_agg(x)) FROM n",
            "4 4",
        ),
        (
            "SELECT kll_sketch_get_quantile_bigint(kll_sketch_agg_bigint(x), 0.5), kll_sketch_get_rank_bigint(kll_sketch_agg_bigint(x), array(2, 3)) FROM n",
            "2 [0.5, 0.75]",
        ),
        ("SELECT k, theta_sketch_estimate(theta_sketch_agg(x)) FROM n GROUP BY k ORDER BY k LIMIT 1", "0 2"),
        (
            "SELECT contains(kll_sketch_to_string_bigint(kll_sketch_agg_bigint(x)), 'Storage Bytes  : 72') AS s FROM n",
            "true",
        ),
        (
            "SELECT percentile_disc(0.25) WITHIN GROUP (ORDER BY x), percentile_disc(0.25) WITHIN GROUP (ORDER BY x DESC) FROM n",
            "1.0 4.0",
        ),
        (
            "SELECT approx_percentile(x, array(0.5, 0.4, 0.1), 100) FROM VALUES (0), (1), (2), (10) AS t(x)",
            "[1, 1, 0]",
        ),
        (
            "SELECT rand(0), uniform(10, 20, 0), uniform(10.0F, 20.0F, 0), randstr(10, 0)",
            "0.7604953758285915 17 17.604954 ceV0PXaR2I",
        ),
        ("SELECT uniform(cast(10 as decimal(10, 3)), 20, 0)", "17.605"),
        (
            "SELECT to_number('12,454.8-', '00,000.9MI'), typeof(to_number('1', '99.9')), to_char(-12454.8, '99,999.9S')",
            "-12454.8 decimal(3,1) 12,454.8-",
        ),
    ] {
        assert_eq!(row(&bench, sql).join(" ").trim_end(), expected, "{sql}");
    }
    for (sql, words) in [
        ("SELECT theta_sketch_estimate(X'00')", "theta_sketch_estimate"),
        ("SELECT theta_sketch_agg(x, 3) FROM n", "a parameter of 3"),
        ("SELECT kll_sketch_get_quantile_bigint(kll_sketch_agg_bigint(x), 1.5) FROM n", "rank"),
        (
            "SELECT kll_sketch_get_quantile_bigint(kll_sketch_agg_bigint(x), 0.5) FROM n WHERE x > 9",
            "of no values",
        ),
        ("SELECT percentile_disc(1.5) WITHIN GROUP (ORDER BY x) FROM n", "share"),
        ("SELECT uniform(x, 5, 0) FROM n", "constants"),
        ("SELECT to_number('45', '000')", "no number by this format"),
        ("SELECT to_number('45', '9x')", "no format of numbers"),
        ("SELECT assert_true(1 > 2, 'too small')", "too small"),
    ] {
        let error = bench.refused(sql).to_string();
        assert!(error.contains(words), "{sql}: {error}");
    }
}
