//! Goal: rows come in the order that a statement asks for, and a limit takes the rows that it names, whatever files and
//! tables say of their own order. Method: files that tell the truth about each of them, and wrong things about all.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StructArray};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::metadata::SortingColumn;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::parquet::file::reader::{FileReader, SerializedFileReader};
use yeoul_base::ByteSize;

use super::Bench;
use crate::Options;

fn one_thread() -> Bench {
    Bench::with(Options { threads: Some(1), ..Options::default() })
}

fn numbers(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

/// Writes a file that says it is in the order of a leaf column, in row groups of 100 rows.
fn write_sorted(path: &Path, columns: Vec<(&str, ArrayRef)>, by: i32) {
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, values)| (name, values, true)),
    )
    .unwrap();
    let by = SortingColumn { column_idx: by, descending: false, nulls_first: false };
    let properties = WriterProperties::builder()
        .set_sorting_columns(Some(vec![by]))
        .set_max_row_group_row_count(Some(100))
        .build();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

#[test]
fn null_keys_lie_at_the_end_of_all_files_and_not_of_each() {
    let bench = one_thread();
    for (name, first) in [("a", 1), ("b", 3)] {
        let keys: ArrayRef = Arc::new(Int64Array::from(vec![Some(first), Some(first + 1), None]));
        write_sorted(&bench.path().join(format!("d/{name}.parquet")), vec![("x", keys)], 0);
    }
    bench.sql("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '~/d/'");
    for table in ["'~/d'", "'~/d/*.parquet'", "t"] {
        let sorted = bench.column(&format!("SELECT x FROM {table} ORDER BY x"));
        assert_eq!(sorted, ["1", "2", "3", "4", "", ""], "{table}");
        let groups = bench.column(&format!("SELECT count(*) FROM (SELECT x FROM {table} GROUP BY x)"));
        assert_eq!(groups, ["5"], "{table}");
    }
}

#[test]
fn a_file_that_names_the_wrong_column_is_sorted_all_the_same() {
    let bench = one_thread();
    let (a, b) = (numbers([2, 1, 3]), numbers([1, 2, 3]));
    let pair = RecordBatch::try_from_iter([("p", Arc::clone(&a)), ("q", Arc::clone(&b))]).unwrap();
    let columns = vec![("s", Arc::new(StructArray::from(pair)) as ArrayRef), ("a", a), ("b", b)];
    // The leaves are s.p, s.q, a, b.
    write_sorted(&bench.path().join("x.parquet"), columns, 2);
    bench.sql("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '~/x.parquet'");
    for table in ["'~/x.parquet'", "t"] {
        assert_eq!(bench.column(&format!("SELECT a FROM {table} ORDER BY a")), ["1", "2", "3"], "{table}");
    }
}

#[test]
fn what_a_copy_writes_says_nothing_of_its_order() {
    let bench = one_thread();
    let rows = "SELECT column1 AS a, column2 AS b FROM (VALUES (2, 1), (1, 2), (3, 3)) AS v ORDER BY b";
    bench.sql(&format!("COPY ({rows}) TO '~/x.parquet'"));
    let file = SerializedFileReader::new(File::open(bench.path().join("x.parquet")).unwrap()).unwrap();
    assert_eq!(file.metadata().row_group(0).sorting_columns(), None);
    assert_eq!(bench.column("SELECT a FROM '~/x.parquet'"), ["2", "1", "3"], "it is in order all the same");
}

#[test]
fn a_limit_of_rows_in_order_takes_the_first() {
    let memory = Some(ByteSize::from_gib(1));
    let bench = Bench::with(Options { memory, threads: Some(2), ..Options::default() });
    for (name, first) in [("a", 0), ("b", 1000)] {
        let path = bench.path().join(format!("d/{name}.parquet"));
        write_sorted(&path, vec![("n", numbers(first..first + 200))], 0);
    }
    // Here it is the user who says that the files are in order.
    bench.sql("CREATE EXTERNAL TABLE t (n BIGINT) STORED AS PARQUET WITH ORDER (n ASC) LOCATION '~/d/'");
    for table in ["'~/d'", "t"] {
        let first = bench.column(&format!("SELECT n FROM {table} WHERE n >= 1 ORDER BY n LIMIT 5"));
        assert_eq!(first, ["1", "2", "3", "4", "5"], "{table}");
    }
}

#[test]
fn a_limit_takes_its_rows_before_a_join_or_a_sort_takes_of_them() {
    let bench = one_thread();
    let columns = vec![
        ("x", numbers(0..1000)),
        ("k", numbers((0..1000).map(|x| x % 100))),
        ("y", numbers((0..1000).map(|x| -x))),
    ];
    write_sorted(&bench.path().join("f.parquet"), columns, 0);
    bench.sql("COPY (SELECT 50 AS k) TO '~/b.parquet'");
    let columns = "(x BIGINT, k BIGINT, y BIGINT)";
    bench.sql(&format!(
        "CREATE EXTERNAL TABLE t {columns} STORED AS PARQUET WITH ORDER (x ASC) LOCATION '~/f.parquet'"
    ));
    for first in [
        "SELECT * FROM '~/f.parquet' ORDER BY x LIMIT 5",
        "SELECT * FROM '~/f.parquet' LIMIT 5",
        "SELECT * FROM t ORDER BY x LIMIT 5",
        "SELECT * FROM t WHERE x >= 0 ORDER BY x LIMIT 5",
    ] {
        let joined = format!("SELECT a.x FROM '~/b.parquet' AS b JOIN ({first}) AS a ON a.k = b.k");
        assert_eq!(bench.column(&joined), Vec::<String>::new(), "{first}");
        let last = bench.column(&format!("SELECT x FROM ({first}) ORDER BY y LIMIT 1"));
        assert_eq!(last, ["4"], "{first}");
        assert_eq!(bench.column(&format!("SELECT min(y) FROM ({first})")), ["-4"], "{first}");
    }
}

#[test]
fn a_window_parts_rows_by_what_is_computed_of_equal_columns() {
    let bench = Bench::new();
    bench.sql("CREATE TABLE a AS SELECT 'n' || (value % 3) AS name, value AS k FROM generate_series(1, 9)");
    bench.sql(
        "CREATE TABLE b AS SELECT 'n' || (value % 3) AS name, value % 2 AS q FROM generate_series(1, 6)",
    );
    bench.sql("CREATE TABLE f AS SELECT (value % 3)::DOUBLE AS h, value % 2 AS q, value AS k FROM generate_series(1, 12)");
    for (sql, expected) in [
        (
            "SELECT max(r) AS m, count(*) AS n FROM (SELECT row_number() OVER (PARTITION BY upper(b.name), b.q ORDER BY upper(a.name), a.k) AS r
             FROM a JOIN b ON a.name = b.name)",
            "3 18",
        ),
        (
            "SELECT max(r) AS m, count(*) AS n FROM (SELECT row_number() OVER (PARTITION BY p, s ORDER BY h DESC, k, q) AS r
             FROM (SELECT h, q, k, h AS p, q AS s FROM f))",
            "2 12",
        ),
        (
            "SELECT max(r) AS m, count(*) AS n FROM (SELECT sum(k) OVER (PARTITION BY s, p ORDER BY h, q, k ROWS UNBOUNDED PRECEDING) AS r
             FROM (SELECT h, q, k, h AS p, q AS s FROM f))",
            "18 12",
        ),
    ] {
        let (m, n) = expected.split_once(' ').unwrap();
        let column = |name: &str| bench.column(&format!("SELECT {name} FROM ({sql})"));
        assert_eq!((column("m"), column("n")), (vec![m.to_owned()], vec![n.to_owned()]), "{sql}");
    }
}
