//! Goal: NaN, the greatest number to DataFusion, is found in Parquet files, whose ranges leave it out. Method: what files answer,
//! and what a table in memory does.

use yeoul_base::ByteSize;

use super::Bench;
use crate::Options;

fn benches() -> [Bench; 3] {
    [(1, None), (3, None), (1, Some(ByteSize::from_gib(1)))].map(|(threads, memory)| {
        Bench::with(Options { threads: Some(threads), memory, ..Options::default() })
    })
}

const NAN: &str = "'NaN'::double";

#[test]
fn nan_is_found_where_a_files_range_leaves_it_out() {
    for bench in benches() {
        for float in ["DOUBLE", "REAL"] {
            bench.sql(&format!(
                "CREATE OR REPLACE TABLE t AS SELECT column1 AS n, CAST(column2 AS {float}) AS x FROM
                (VALUES (1, 1000.0), (2, 2000.0), (3, 1.0), (4, {NAN}), (5, 1.0), (6, NULL), (7, 0.0)) AS v"
            ));
            // Of the second file it says that all rows have one value.
            for (file, rows) in [("a", "1, 2"), ("b", "3, 4"), ("c", "5, 6, 7")] {
                bench.sql(&format!(
                    "COPY (SELECT * FROM t WHERE n IN ({rows})) TO '~/{float}/{file}.parquet'"
                ));
            }
            bench.sql(&format!("CREATE OR REPLACE EXTERNAL TABLE e STORED AS PARQUET LOCATION '~/{float}/'"));
            for (sql, expected) in [
                ("SELECT count(*) FROM $t WHERE x > 3000", "1"),
                ("SELECT n FROM $t WHERE x = 'NaN'::double", "4"),
                ("SELECT n FROM $t WHERE NOT x <= 2000", "4"),
                ("SELECT count(*) FROM $t WHERE x < 5 AND n < 5", "1"),
                ("SELECT count(*) FROM $t WHERE x IS NULL", "1"),
                ("SELECT count(x) FROM $t WHERE x IS NOT NULL", "6"),
                ("SELECT max(x) FROM $t", "NaN"),
                ("SELECT min(x) FROM $t", "0.0"),
                ("SELECT max(x) FROM $t WHERE n > 1", "NaN"),
                ("SELECT n FROM (SELECT n, x FROM $t WHERE x IS NOT NULL ORDER BY x DESC LIMIT 1)", "4"),
                (
                    "SELECT max(a.n) FROM $t AS a JOIN (SELECT x FROM t WHERE n IN (2, 4)) AS b ON a.x = b.x",
                    "4",
                ),
                ("SELECT count(*) FROM $t WHERE x IN (2000, 'NaN'::double)", "2"),
            ] {
                for table in ["t".to_owned(), format!("'~/{float}'"), "e".to_owned()] {
                    let sql = sql.replace("$t", &table);
                    assert_eq!(bench.column(&sql), [expected], "{:?}: {sql}", bench.session.options());
                }
            }
        }
    }
}

#[test]
fn other_ranges_are_used_as_before() {
    let bench = Bench::new();
    bench.sql("COPY (SELECT column1 AS n, column2::decimal(5, 2) AS d, column3::double AS x FROM (VALUES (1, 1.5, 2.5), (2, 2.5, NULL))) TO '~/f.parquet'");
    let plan = |filter: &str| bench.sql(&format!("EXPLAIN SELECT * FROM '~/f.parquet' WHERE {filter}"));
    for filter in ["n > 5", "d > 5", "n > 5 AND x > 5"] {
        assert!(plan(filter).contains("pruning_predicate="), "{filter}: {}", plan(filter));
    }
    assert!(!plan("x > 5").contains("pruning_predicate="), "{}", plan("x > 5"));
}
