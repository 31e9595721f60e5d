//! Files that say two things, and files that have something under a null.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, StructArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::arrow::ipc::writer::FileWriter;
use datafusion::parquet::arrow::ArrowWriter;

use super::*;

fn numbers() -> ArrayRef {
    Arc::new(Int64Array::from(vec![1, 2, 3, 4, 5, 6]))
}

fn parquet(names: &[&str]) -> Vec<u8> {
    let fields: Vec<Field> = names.iter().map(|name| Field::new(*name, DataType::Int64, true)).collect();
    let columns = names.iter().map(|_| numbers()).collect();
    let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, rows.schema(), None).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
    bytes
}

#[test]
fn a_footer_that_counts_other_rows_than_its_groups_is_refused() {
    let bench = Bench::new();
    let mut file = parquet(&["n"]);
    // In Thrift's compact protocol: the next field is an i64 (0x16), 6 (0x0C); the next one a list (0x19), of row groups.
    let counts: Vec<usize> =
        (0..file.len() - 2).filter(|at| file[*at..*at + 3] == [0x16, 0x0C, 0x19]).collect();
    let [count] = counts[..] else { panic!("the footer's count of rows is at {counts:?}") };
    file[count + 1] = 0;
    fs::write(bench.path().join("f.parquet"), file).unwrap();
    for statement in ["SELECT * FROM '~/f.parquet'", "SELECT count(*) FROM '~/f.parquet'"] {
        let error = bench.refused(statement);
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("6 rows in its row groups, and 0 by its footer"), "{error}");
    }
}

#[test]
fn a_file_with_two_columns_of_one_name_is_refused() {
    let bench = Bench::new();
    fs::write(bench.path().join("two.parquet"), parquet(&["n", "m", "n"])).unwrap();
    let error = bench.refused("SELECT * FROM '~/two.parquet'");
    assert!(error.to_string().contains("several columns 'n'"), "{error}");
    fs::write(bench.path().join("one.parquet"), parquet(&["n", "m"])).unwrap();
    assert_eq!(bench.column("SELECT sum(n) + sum(m) FROM '~/one.parquet'"), ["42"]);
}

#[test]
fn a_nan_of_a_file_has_no_sign() {
    let bench = Bench::new();
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![-f64::NAN, 1.5, f64::NAN, -2.0]));
    let rows = RecordBatch::try_from_iter([("h", floats)]).unwrap();
    let parquet = fs::File::create(bench.path().join("f.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(parquet, rows.schema(), None).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
    let mut writer =
        FileWriter::try_new(fs::File::create(bench.path().join("f.arrow")).unwrap(), &rows.schema()).unwrap();
    writer.write(&rows).unwrap();
    writer.finish().unwrap();
    bench.sql("CREATE EXTERNAL TABLE e STORED AS PARQUET LOCATION '~/f.parquet'");
    for table in ["'~/f.parquet'", "'~/f.arrow'", "e"] {
        assert_eq!(bench.column(&format!("SELECT max(h) FROM {table}")), ["NaN"], "{table}");
        assert_eq!(bench.column(&format!("SELECT h FROM {table} ORDER BY h LIMIT 1")), ["-2.0"], "{table}");
        assert_eq!(bench.column(&format!("SELECT count(*) FROM {table} WHERE h > 1")), ["3"], "{table}");
        assert_eq!(
            bench.column(&format!("SELECT count(*) FROM {table} GROUP BY h ORDER BY h DESC")),
            ["2", "1", "1"]
        );
    }
}

#[test]
fn what_an_arrow_file_has_under_a_null_is_null() {
    let bench = Bench::new();
    let field = Arc::new(Field::new("a", DataType::Int64, true));
    let is_there = NullBuffer::from(vec![true, false, true, false, true, false]);
    let masked = StructArray::new(vec![field].into(), vec![numbers()], Some(is_there));
    let rows = RecordBatch::try_from_iter([("s", Arc::new(masked) as ArrayRef), ("n", numbers())]).unwrap();
    let file = fs::File::create(bench.path().join("masked.arrow")).unwrap();
    let mut writer = FileWriter::try_new(file, &rows.schema()).unwrap();
    writer.write(&rows).unwrap();
    writer.finish().unwrap();
    assert_eq!(bench.column("SELECT sum(s['a']) FROM '~/masked.arrow'"), ["9"]);
    assert_eq!(
        bench.column("SELECT n FROM '~/masked.arrow' WHERE s['a'] IS NULL ORDER BY n"),
        ["2", "4", "6"]
    );
    assert_eq!(bench.column("SELECT count(s) FROM '~/masked.arrow'"), ["3"]);
}
