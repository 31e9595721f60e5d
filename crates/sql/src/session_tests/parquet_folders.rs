//! Goal: the Parquet files of a folder are one table, or an error that tells why not. Method: files that differ as tables of
//! their own do, and files that differ as those do of a table that has changed.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StructArray};
use datafusion::parquet::arrow::ArrowWriter;
use yeoul_base::{ByteSize, ErrorKind};

use super::Bench;
use crate::Options;

fn benches() -> [Bench; 2] {
    [None, Some(ByteSize::from_gib(1))]
        .map(|memory| Bench::with(Options { threads: Some(2), memory, ..Options::default() }))
}

#[test]
fn files_of_two_tables_are_refused_by_name() {
    let bench = Bench::new();
    bench.sql("COPY (SELECT 1 AS a, 2 AS b) TO '~/d/one.parquet'");
    bench.sql("COPY (SELECT 3 AS c) TO '~/d/two.parquet'");
    bench.sql("COPY (SELECT 1 AS id, 2 AS name) TO '~/e/one.parquet'");
    bench.sql("COPY (SELECT 1 AS id, 2 AS customer) TO '~/e/two.parquet'");
    for (folder, first, second) in [("d", "a", "c"), ("e", "name", "customer")] {
        for sql in [
            format!("SELECT count(*) FROM '~/{folder}'"),
            format!("SELECT * FROM '~/{folder}/*.parquet'"),
            format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '~/{folder}/'"),
        ] {
            let error = bench.refused(&sql);
            let told = format!(
                "'one.parquet' and 'two.parquet' are not of one table: only the first has '{first}', only the second '{second}'"
            );
            assert_eq!((error.kind(), error.to_string()), (ErrorKind::Invalid, told), "{sql}");
            assert!(error.hint().is_some_and(|hint| hint.contains("UNION ALL BY NAME")), "{sql}");
        }
    }
}

/// `COPY` writes literals as columns that are never null.
#[test]
fn a_column_that_came_later_is_null_in_the_files_before_it() {
    for bench in benches() {
        bench.sql("COPY (SELECT 1 AS n) TO '~/d/a.parquet'");
        bench.sql("CREATE VIEW v AS SELECT * FROM '~/d'");
        bench.sql("COPY (SELECT 2 AS n, 'x' AS t) TO '~/d/b.parquet'");
        bench.sql("COPY (SELECT 3 AS n) TO '~/d/c.parquet'");
        bench.sql("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '~/d/'");
        for table in ["'~/d'", "t"] {
            let rows = bench.column(&format!("SELECT concat(n, coalesce(t, '-')) FROM {table} ORDER BY n"));
            assert_eq!(rows, ["1-", "2x", "3-"], "{table}");
            assert_eq!(bench.column(&format!("SELECT count(t) FROM {table}")), ["1"], "{table}");
            let without = bench.column(&format!("SELECT n FROM {table} WHERE t IS NULL ORDER BY n"));
            assert_eq!(without, ["1", "3"], "{table}");
        }
        assert_eq!(bench.numbers("v"), [1, 2, 3]);
        bench.sql("INSERT INTO '~/d' VALUES (4, NULL)");
        assert_eq!(bench.numbers("~/d"), [1, 2, 3, 4]);
    }
}

/// Writes a file of one row, in which no column and no part of one may be null.
fn write(path: &Path, n: i64, parts: &[(&str, i64)]) {
    let number = |value| Arc::new(Int64Array::from_iter_values([value])) as ArrayRef;
    let parts = RecordBatch::try_from_iter(parts.iter().map(|(name, value)| (name, number(*value)))).unwrap();
    let columns = [("n", number(n)), ("s", Arc::new(StructArray::from(parts)) as ArrayRef)];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

#[test]
fn a_part_of_a_struct_that_came_later_is_null_in_the_files_before_it() {
    for bench in benches() {
        write(&bench.path().join("d/a.parquet"), 1, &[("x", 1)]);
        write(&bench.path().join("d/b.parquet"), 2, &[("x", 2), ("y", 7)]);
        assert_eq!(bench.column("SELECT s.y FROM '~/d' ORDER BY n"), ["", "7"]);
        assert_eq!(bench.column("SELECT n FROM '~/d' WHERE s.y IS NULL"), ["1"]);
    }
}

#[test]
fn a_column_of_two_types_is_named_with_its_files() {
    let bench = Bench::new();
    bench.sql("COPY (SELECT 1 AS n) TO '~/d/a.parquet'");
    bench.sql("COPY (SELECT 'x' AS n) TO '~/d/b.parquet'");
    bench.write("e/a.parquet", "this is no such file");
    bench.sql("COPY (SELECT 1 AS n) TO '~/e/b.parquet'");
    let by_name = |folder: &str| format!("SELECT * FROM '~/{folder}'");
    let external = |folder: &str| format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '~/{folder}/'");
    for told in [by_name, external] {
        let error = bench.refused(&told("d"));
        assert!(error.to_string().starts_with("column 'n' is BIGINT in 'a.parquet' and VARCHAR"), "{error}");
        assert!(error.kind() == ErrorKind::Invalid && error.hint().is_some(), "{error}");
        let error = bench.refused(&told("e"));
        assert!(error.to_string().starts_with("cannot read 'a.parquet': "), "{error}");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    }
}
