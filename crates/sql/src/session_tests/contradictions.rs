//! Files that say two things, and files that have something under a null.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, ListArray, RecordBatch, StructArray};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::arrow::ipc::writer::FileWriter;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::data_type::Int64Type;
use datafusion::parquet::file::writer::SerializedFileWriter;
use datafusion::parquet::schema::parser::parse_message_type;

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

/// A file of one column `n` whose values all are `told` by its statistics.
fn constant_parquet(bench: &Bench, name: &str, values: &[i64], told: i64) {
    let schema = Arc::new(parse_message_type("message m { optional int64 n; }").unwrap());
    let file = fs::File::create(bench.path().join(name)).unwrap();
    let mut file = SerializedFileWriter::new(file, schema, Arc::default()).unwrap();
    let mut rows = file.next_row_group().unwrap();
    let mut column = rows.next_column().unwrap().unwrap();
    let levels = vec![1; values.len()];
    column
        .typed::<Int64Type>()
        .write_batch_with_statistics(values, Some(&levels), None, Some(&told), Some(&told), None)
        .unwrap();
    column.close().unwrap();
    rows.close().unwrap();
    file.close().unwrap();
}

#[test]
fn a_column_is_read_whatever_its_statistics_say() {
    let bench = Bench::new();
    constant_parquet(&bench, "lies.parquet", &[1, 2, 3], 7);
    bench.sql("CREATE EXTERNAL TABLE e STORED AS PARQUET LOCATION '~/lies.parquet'");
    for table in ["'~/lies.parquet'", "e"] {
        assert_eq!(bench.column(&format!("SELECT n FROM {table} ORDER BY n")), ["1", "2", "3"]);
        assert_eq!(bench.column(&format!("SELECT sum(n) + max(n) FROM {table}")), ["9"]);
    }
    constant_parquet(&bench, "true.parquet", &[7, 7], 7);
    assert_eq!(bench.column("SELECT min(n) + max(n) FROM '~/true.parquet'"), ["14"]);
}

#[test]
fn a_nan_of_a_file_has_no_sign() {
    let bench = Bench::new();
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![-f64::NAN, 1.5, f64::NAN, -2.0]));
    let field = Arc::new(Field::new("x", DataType::Float64, true));
    let fields: ArrayRef =
        Arc::new(StructArray::new(vec![Arc::clone(&field)].into(), vec![Arc::clone(&floats)], None));
    let lists: ArrayRef =
        Arc::new(ListArray::new(field, OffsetBuffer::from_lengths([1, 1, 1, 1]), Arc::clone(&floats), None));
    let rows = RecordBatch::try_from_iter([("h", floats), ("s", fields), ("l", lists)]).unwrap();
    let parquet = fs::File::create(bench.path().join("f.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(parquet, rows.schema(), None).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
    let mut writer =
        FileWriter::try_new(fs::File::create(bench.path().join("f.arrow")).unwrap(), &rows.schema()).unwrap();
    writer.write(&rows).unwrap();
    writer.finish().unwrap();
    bench.sql("CREATE EXTERNAL TABLE e STORED AS PARQUET LOCATION '~/f.parquet'");
    bench.sql("CREATE EXTERNAL TABLE a STORED AS ARROW LOCATION '~/f.arrow'");
    for table in ["'~/f.parquet'", "'~/f.arrow'", "e", "a"] {
        for within in ["s['x']", "l[1]", "array_max(l)"] {
            assert_eq!(
                bench.column(&format!("SELECT max({within}) FROM {table}")),
                ["NaN"],
                "{within} of {table}"
            );
        }
        assert_eq!(
            bench.column(&format!("SELECT count(DISTINCT l) + count(DISTINCT s) FROM {table}")),
            ["6"]
        );
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
    bench.sql("CREATE EXTERNAL TABLE e STORED AS ARROW LOCATION '~/masked.arrow'");
    for table in ["'~/masked.arrow'", "e"] {
        let ask = |what: &str| bench.column(&what.replace("$t", table));
        assert_eq!(ask("SELECT sum(s['a']) FROM $t"), ["9"]);
        assert_eq!(ask("SELECT n FROM $t WHERE s['a'] IS NULL ORDER BY n"), ["2", "4", "6"]);
        assert_eq!(ask("SELECT count(s) FROM $t"), ["3"]);
    }
}
