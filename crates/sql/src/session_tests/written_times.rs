//! The types that Parquet files get for times.

use datafusion::parquet::file::reader::{FileReader, SerializedFileReader};

use super::*;

/// The logical types of a file's columns, in order.
fn types(bench: &Bench, name: &str) -> Vec<String> {
    let mut path = bench.path().join(name);
    if path.is_dir() {
        let mut files: Vec<_> = fs::read_dir(&path).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        path = files.pop().unwrap();
    }
    let reader = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
    let columns = reader.metadata().file_metadata().schema_descr().columns().to_vec();
    columns.iter().map(|column| format!("{:?}", column.logical_type_ref())).collect()
}

#[test]
fn timestamps_are_written_in_microseconds_and_never_as_bare_integers() {
    let bench = Bench::new();
    let rows =
        "SELECT TIMESTAMP '2024-01-05 10:00:00.123456789' AS a, now() AS b, to_timestamp_seconds(1) AS c,
        CAST('2024-01-05 10:00' AS TIMESTAMP) AS d, [TIMESTAMP '2024-01-05 10:00'] AS e,
        named_struct('t', TIMESTAMP '2024-01-05 10:00') AS f, CAST(NULL AS TIMESTAMP) AS g";
    bench.sql(&format!("COPY ({rows}) TO '~/a.parquet'"));
    for found in types(&bench, "a.parquet") {
        assert!(found.contains("Timestamp") && found.contains("MICROS"), "{found}");
    }
    assert_eq!(bench.column("SELECT a FROM '~/a.parquet'"), ["2024-01-05T10:00:00.123456"]);
    assert_eq!(bench.column("SELECT extract(epoch FROM c) FROM '~/a.parquet'"), ["1.0"]);
    bench.sql(&format!("COPY ({rows}) TO '~/ns.parquet' OPTIONS ('timestamp_unit' 'ns')"));
    let found = types(&bench, "ns.parquet");
    assert!(found[0].contains("NANOS") && found[2].contains("MICROS"), "{found:?}");
    let error =
        bench.refused(&format!("COPY ({rows}) TO '~/x.parquet' OPTIONS ('timestamp_unit' 'fortnights')"));
    assert!(error.to_string().contains("fortnights"), "{error}");
}

#[test]
fn what_has_no_type_or_does_not_fit_is_refused() {
    let bench = Bench::new();
    let error =
        bench.refused("COPY (SELECT TIMESTAMP '2024-01-05' - TIMESTAMP '2024-01-04' AS d) TO '~/d.parquet'");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("'d' is a duration"), "{error}");
    let far = "arrow_cast(9223372036854775, 'Timestamp(Second, None)')";
    bench.refused(&format!("COPY (SELECT {far} AS t) TO '~/t.parquet'"));
    assert!(!bench.path().join("t.parquet").exists());
}

/// A table keeps one type for all of its files.
#[test]
fn insert_writes_what_the_table_has() {
    let bench = Bench::new();
    bench.sql("CREATE EXTERNAL TABLE e (t TIMESTAMP) STORED AS PARQUET LOCATION '~/e/'");
    bench.sql("INSERT INTO e VALUES (TIMESTAMP '2024-01-05 10:00')");
    assert!(types(&bench, "e")[0].contains("MICROS"));
    assert_eq!(bench.column("SELECT t FROM e"), ["2024-01-05T10:00:00"]);
    fs::create_dir(bench.path().join("ns")).unwrap();
    bench.sql(
        "COPY (SELECT TIMESTAMP '2024-01-05 10:00' AS t) TO '~/ns/a.parquet' OPTIONS ('timestamp_unit' 'ns')",
    );
    bench.sql("INSERT INTO '~/ns' VALUES (TIMESTAMP '2024-01-06 10:00')");
    assert_eq!(bench.column("SELECT count(t) FROM '~/ns'"), ["2"]);
}
