//! Goal: a value of JSON is the value of its column, or its record is malformed. Method: values that Spark 4.3 reads, what it does
//! with them, and rows that are written and read back.

use std::sync::Arc;

use arrow::array::{AsArray, BinaryArray, Float32Array, Float64Array};
use arrow::datatypes::{
    DataType, Decimal128Type, Field, Float64Type, Int64Type, Schema, TimestampMicrosecondType,
};
use arrow::util::display::array_value_to_string;

use super::*;
use crate::plan::TIMESTAMP;

fn reader(data_type: DataType, unit: TimestampUnit) -> JsonReader {
    JsonReader::new(Arc::new(Schema::new(vec![Field::new("a", data_type, true)])), unit)
}

fn read_in(data_type: DataType, value: &str, unit: TimestampUnit) -> Result<RecordBatch, String> {
    let record = format!("{{\"b\":[1],\"a\":{value}}}");
    let reader = reader(data_type, unit);
    let read = reader.read_all(&BinaryArray::from_iter([Some(record.as_bytes())]));
    assert_eq!(reader.refusal(Some(record.as_bytes())).is_some(), read.is_err(), "{record}");
    read
}

fn read(data_type: DataType, value: &str) -> Result<RecordBatch, String> {
    read_in(data_type, value, TimestampUnit::Seconds)
}

#[test]
fn numbers_are_the_ones_that_were_written_or_the_record_is_malformed() {
    for (value, expected) in [
        ("9007199254740993.0", Some(9_007_199_254_740_993)),
        ("-9223372036854775808", Some(i64::MIN)),
        ("1e3", Some(1000)),
        ("\"42\"", Some(42)),
        ("3.7", None),
        ("004", None),
        ("-01", None),
        ("9223372036854775808", None),
        ("true", None),
        ("{}", None),
    ] {
        let found = read(DataType::Int64, value).ok();
        let found = found.map(|rows| rows.column(0).as_primitive::<Int64Type>().value(0));
        assert_eq!(found, expected, "{value}");
    }
    let error = read(DataType::Int8, "128").unwrap_err();
    assert_eq!(error, "the field 'a' is '128', expected TINYINT");
    for (value, expected) in [
        ("12.345", Some(1235)),
        ("\"7.005\"", Some(701)),
        ("-7.005", Some(-701)),
        ("12", Some(1200)),
        ("99999999.99", Some(9_999_999_999)),
        ("99999999.995", None),
        ("1e9", None),
    ] {
        let found = read(DataType::Decimal128(10, 2), value).ok();
        let found = found.map(|rows| rows.column(0).as_primitive::<Decimal128Type>().value(0));
        assert_eq!(found, expected, "{value}");
    }
    for data_type in [DataType::Int64, DataType::Decimal128(10, 2), TIMESTAMP(), DataType::Binary] {
        assert_eq!(read(data_type, "null").unwrap().column(0).null_count(), 1);
    }
}

#[test]
fn numbers_are_times_in_their_unit() {
    use TimestampUnit::{Micros, Millis, Seconds};
    for (value, unit, expected) in [
        ("1760000000", Seconds, Some(1_760_000_000_000_000)),
        ("1760000000.5", Seconds, Some(1_760_000_000_500_000)),
        ("-1", Seconds, Some(-1_000_000)),
        ("1760000000000", Millis, Some(1_760_000_000_000_000)),
        ("1760000000000001", Micros, Some(1_760_000_000_000_001)),
        ("\"2025-10-09T08:53:20Z\"", Millis, Some(1_760_000_000_000_000)),
        ("\"2025-10-09 08:53:20\"", Seconds, Some(1_760_000_000_000_000)),
        ("1e30", Seconds, None),
        ("\"yesterday\"", Seconds, None),
    ] {
        let found = read_in(TIMESTAMP(), value, unit).ok();
        let found = found.map(|rows| rows.column(0).as_primitive::<TimestampMicrosecondType>().value(0));
        assert_eq!(found, expected, "{value}");
    }
    assert!(read(DataType::Date32, "20370").is_err());
    let day = read(DataType::Date32, "\"2025-10-09\"").unwrap();
    assert_eq!(array_value_to_string(day.column(0), 0).unwrap(), "2025-10-09");
}

#[test]
fn bytes_and_numbers_that_json_does_not_have_come_back_as_they_were() {
    let rows = RecordBatch::try_from_iter_with_nullable([
        ("a", Arc::new(BinaryArray::from_iter([Some(&b"\x00\xffz"[..]), None, Some(b"")])) as _, true),
        ("b", Arc::new(Float64Array::from(vec![f64::NAN, f64::INFINITY, 0.1])) as _, true),
        ("c", Arc::new(Float32Array::from(vec![Some(f32::NEG_INFINITY), None, Some(2.5)])) as _, true),
    ])
    .unwrap();
    let lines = String::from_utf8(write_json_lines(&rows).unwrap()).unwrap();
    let expected = "{\"a\":\"AP96\",\"b\":\"NaN\",\"c\":\"-Infinity\"}\n{\"b\":\"Infinity\"}\n{\"a\":\"\",\"b\":0.1,\"c\":2.5}\n";
    assert_eq!(lines, expected);
    let reader = JsonReader::new(rows.schema(), TimestampUnit::Seconds);
    let back =
        reader.read_all(&BinaryArray::from_iter(lines.lines().map(|line| Some(line.as_bytes())))).unwrap();
    assert!(back.column(1).as_primitive::<Float64Type>().value(0).is_nan());
    assert_eq!(write_json_lines(&back).unwrap(), lines.as_bytes());
    assert!(read(DataType::Binary, "\"00ffzz!\"").is_err());
}
