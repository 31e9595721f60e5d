//! Goal: values of files, and of expressions, are what PostgreSQL, Spark and DuckDB take them for. Method: files with the values that
//! Arrow or DataFusion changes; statements without files are in `judges/sql/wrong_answers`.

use std::fs::File;
use std::sync::Arc;

use parquet::data_type::{FixedLenByteArray, FixedLenByteArrayType, Int96, Int96Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use yeoul_base::ErrorKind;

use super::Bench;
use super::answers::{assert_answers, benches};

/// Days from the beginning of Julian day numbers to 1970.
const EPOCH_JULIAN_DAY: i64 = 2_440_588;

/// A file as Spark writes it, with a column `t` of INT96.
fn write_int96(bench: &Bench, name: &str, times: &[(i64, u64)]) {
    let schema = Arc::new(parse_message_type("message spark_schema { optional int96 t; }").unwrap());
    let file = File::create(bench.path().join(name)).unwrap();
    let mut file = SerializedFileWriter::new(file, schema, Arc::new(WriterProperties::default())).unwrap();
    let mut rows = file.next_row_group().unwrap();
    let mut column = rows.next_column().unwrap().unwrap();
    let values: Vec<Int96> = times
        .iter()
        .map(|(days, nanoseconds)| {
            let day = u32::try_from(days + EPOCH_JULIAN_DAY).unwrap();
            Int96::from(vec![*nanoseconds as u32, (nanoseconds >> 32) as u32, day])
        })
        .collect();
    column.typed::<Int96Type>().write_batch(&values, Some(&vec![1; values.len()]), None).unwrap();
    column.close().unwrap();
    rows.close().unwrap();
    file.close().unwrap();
}

#[test]
fn int96_reaches_as_far_as_the_calendar() {
    for bench in benches() {
        let noon = 12 * 3600 * 1_000_000_000;
        // 9999-12-31, 0001-01-01, 2024-01-05, and 2300-01-01, where nanoseconds have wrapped around.
        let times = [(2_932_896, 0), (-719_162, 0), (19_727, noon + 500_000_000), (120_530, noon)];
        write_int96(&bench, "t.parquet", &times);
        let cases: [(&str, &[&str]); 6] = [
            (
                "SELECT t::varchar AS s FROM '~/t.parquet' ORDER BY t",
                &[
                    "0001-01-01 00:00:00",
                    "2024-01-05 12:00:00.5",
                    "2300-01-01 12:00:00",
                    "9999-12-31 00:00:00",
                ],
            ),
            ("SELECT max(t)::varchar FROM '~/t.parquet'", &["9999-12-31 00:00:00"]),
            ("SELECT count(*) FROM '~/t.parquet' WHERE t > TIMESTAMP '2024-01-05 12:00:00'", &["3"]),
            ("SELECT count(*) FROM '~/t.parquet' WHERE t < now()", &["2"]),
            ("SELECT count(*) FROM '~/t.parquet' WHERE t >= DATE '9999-12-31'", &["1"]),
            (
                "SELECT (t + INTERVAL '1 day')::date FROM '~/t.parquet' WHERE t = TIMESTAMP(6) '2300-01-01 12:00'",
                &["2300-01-02"],
            ),
        ];
        assert_answers(&bench, &cases);
        bench.sql("CREATE EXTERNAL TABLE e STORED AS PARQUET LOCATION '~/t.parquet'");
        assert_answers(&bench, &[("SELECT max(t)::varchar FROM e", &["9999-12-31 00:00:00"])]);
    }
}

/// The reader drops the months of an interval.
#[test]
fn intervals_of_parquet_files_are_refused() {
    let bench = Bench::new();
    let text = "message duckdb_schema { optional int32 n; optional fixed_len_byte_array(12) i (INTERVAL); }";
    let schema = Arc::new(parse_message_type(text).unwrap());
    let file = File::create(bench.path().join("i.parquet")).unwrap();
    let mut file = SerializedFileWriter::new(file, schema, Arc::new(WriterProperties::default())).unwrap();
    let mut rows = file.next_row_group().unwrap();
    let mut column = rows.next_column().unwrap().unwrap();
    column.typed::<parquet::data_type::Int32Type>().write_batch(&[1], Some(&[1]), None).unwrap();
    column.close().unwrap();
    let mut column = rows.next_column().unwrap().unwrap();
    let month = FixedLenByteArray::from(vec![1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    column.typed::<FixedLenByteArrayType>().write_batch(&[month], Some(&[1]), None).unwrap();
    column.close().unwrap();
    rows.close().unwrap();
    file.close().unwrap();
    let error = bench.refused("SELECT * FROM '~/i.parquet'");
    assert!(error.kind() == ErrorKind::Invalid && error.hint().is_some(), "{error}");
    assert!(error.to_string().contains("'i'"), "{error}");
}

/// Rows with a text that is the UUID of the row's number, or null.
fn write_uuids(bench: &Bench, name: &str, uuids: &[Option<u8>]) {
    let text =
        "message m { optional fixed_len_byte_array(16) id (UUID); optional fixed_len_byte_array(16) raw; }";
    let schema = Arc::new(parse_message_type(text).unwrap());
    let file = File::create(bench.path().join(name)).unwrap();
    let mut file = SerializedFileWriter::new(file, schema, Arc::new(WriterProperties::default())).unwrap();
    let mut rows = file.next_row_group().unwrap();
    let bytes = |last: &u8| FixedLenByteArray::from([vec![0xAB; 15], vec![*last]].concat());
    let values: Vec<FixedLenByteArray> = uuids.iter().flatten().map(bytes).collect();
    let levels: Vec<i16> = uuids.iter().map(|uuid| i16::from(uuid.is_some())).collect();
    for _ in 0..2 {
        let mut column = rows.next_column().unwrap().unwrap();
        column.typed::<FixedLenByteArrayType>().write_batch(&values, Some(&levels), None).unwrap();
        column.close().unwrap();
    }
    rows.close().unwrap();
    file.close().unwrap();
}

#[test]
fn uuids_of_parquet_files_are_texts() {
    for bench in benches() {
        write_uuids(&bench, "u.parquet", &[Some(1), None, Some(0x7F), Some(0xFE)]);
        bench.sql("CREATE EXTERNAL TABLE e STORED AS PARQUET LOCATION '~/u.parquet'");
        for table in ["'~/u.parquet'", "e"] {
            let ids = ["abababab-abab-abab-abab-ababababab01", "abababab-abab-abab-abab-abababababfe"];
            let ask = |what: &str| bench.column(&what.replace("$t", table));
            assert_eq!(ask("SELECT id FROM $t WHERE id IS NOT NULL AND id NOT LIKE '%7f' ORDER BY id"), ids);
            assert_eq!(ask(&format!("SELECT count(*) FROM $t WHERE id = '{}'", ids[1])), ["1"]);
            assert_eq!(ask("SELECT min(id) FROM $t"), [ids[0]]);
            assert_eq!(
                ask("SELECT length(id) FROM $t WHERE id > 'abababab-abab-abab-abab-ababababab80'"),
                ["36"]
            );
            assert_eq!(
                ask("SELECT count(DISTINCT a.id) FROM $t a JOIN $t b ON a.id = upper(b.id) OR a.id = b.id"),
                ["3"]
            );
            // Bytes without a meaning stay bytes.
            assert_eq!(ask("SELECT arrow_typeof(raw) FROM $t LIMIT 1"), ["FixedSizeBinary(16)"]);
        }
        bench.sql("COPY (SELECT id FROM '~/u.parquet') TO '~/copy.parquet'");
        assert_eq!(
            bench.column("SELECT count(*) FROM '~/copy.parquet' WHERE id LIKE '%-abababababfe'"),
            ["1"]
        );
        // A file of texts beside one of UUIDs would be no table.
        std::fs::create_dir(bench.path().join("folder")).unwrap();
        write_uuids(&bench, "folder/u.parquet", &[Some(1)]);
        bench.sql("CREATE EXTERNAL TABLE f STORED AS PARQUET LOCATION '~/folder/'");
        for table in ["f", "'~/folder'"] {
            let error = bench.refused(&format!("INSERT INTO {table} SELECT id, raw FROM '~/u.parquet'"));
            assert!(error.to_string().contains("texts beside UUIDs") && error.hint().is_some(), "{error}");
        }
    }
}

#[test]
fn numbers_with_leading_zeros_in_a_csv_file_are_texts() {
    for bench in benches() {
        bench.write("t.csv", "id,n,x,zero\n00005,10,0.5,0\n00042,-7,1e3,-0\n");
        assert_answers(
            &bench,
            &[
                ("SELECT id FROM '~/t.csv' ORDER BY id", &["00005", "00042"]),
                ("SELECT id FROM '~/t.csv' WHERE id = '00005'", &["00005"]),
                ("SELECT sum(n) FROM '~/t.csv'", &["3"]),
                ("SELECT max(x) FROM '~/t.csv'", &["1000.0"]),
                ("SELECT sum(zero) FROM '~/t.csv'", &["0"]),
                ("SELECT id::int FROM '~/t.csv' ORDER BY 1", &["5", "42"]),
            ],
        );
        bench.write("f.csv", "id\n7\n007.5\n");
        assert_answers(&bench, &[("SELECT id FROM '~/f.csv'", &["7", "007.5"])]);
        // In one file of several.
        bench.write("d/a.csv", "id\n12\n");
        bench.write("d/b.csv", "id\n012\n");
        assert_answers(&bench, &[("SELECT id FROM '~/d' ORDER BY id", &["012", "12"])]);
    }
}

#[test]
fn a_column_that_is_empty_in_the_first_records_keeps_its_later_values() {
    for bench in benches() {
        let note = |n: usize| if n == 21_400 { "late" } else { "" };
        let rows: String = (0..22_000).map(|n| format!("{n},{}\n", note(n))).collect();
        bench.write("t.csv", &format!("id,note\n{rows}"));
        bench.sql("CREATE TABLE kept AS SELECT * FROM '~/t.csv'");
        bench.sql("COPY (SELECT * FROM '~/t.csv') TO '~/t.parquet'");
        for table in ["'~/t.csv'", "kept", "'~/t.parquet'"] {
            assert_answers(
                &bench,
                &[
                    (&format!("SELECT count(note) FROM {table}"), &["1"]),
                    (&format!("SELECT id FROM {table} WHERE note = 'late'"), &["21400"]),
                ],
            );
        }
        let rows: String = (0..22_000)
            .map(|n| format!("{{\"id\":{n},\"note\":{}}}\n", if n == 21_400 { "1" } else { "null" }))
            .collect();
        bench.write("t.json", &rows);
        assert_answers(&bench, &[("SELECT note FROM '~/t.json' WHERE note IS NOT NULL", &["1"])]);
    }
}

#[test]
fn options_of_csv_that_reading_does_not_honour_are_refused() {
    let bench = Bench::new();
    bench.write("t.csv", "d,n\n15/01/2024,NA\n");
    for option in ["null_value' 'NA", "date_format' '%d/%m/%Y", "timestamp_format' '%d/%m/%Y"] {
        bench.sql(&format!(
            "CREATE OR REPLACE EXTERNAL TABLE t (d VARCHAR, n VARCHAR) STORED AS CSV LOCATION '~/t.csv' OPTIONS ('{option}')"
        ));
        let error = bench.refused("SELECT * FROM t");
        let name = option.split('\'').next().unwrap();
        assert!(
            error.to_string().contains(&format!("the option '{name}'")) && error.hint().is_some(),
            "{error}"
        );
    }
}

#[test]
fn texts_that_are_null_are_a_regular_expression() {
    let bench = Bench::new();
    bench.write("t.csv", "d,n\n15,NA\n-,2\n");
    let create = |nulls: &str| {
        format!(
            "CREATE OR REPLACE EXTERNAL TABLE t (d INT, n INT) STORED AS CSV LOCATION '~/t.csv' OPTIONS ('null_regex' '{nulls}')"
        )
    };
    bench.sql(&create("^(NA|-)$"));
    assert_answers(&bench, &[("SELECT sum(d) || ' ' || sum(n) FROM t", &["15 2"])]);
    bench.write("u.csv", "n\nNA\n");
    bench.sql(&create("("));
    let error = bench.refused("SELECT * FROM t");
    assert!(error.to_string().contains("no regular expression"), "{error}");
}

#[test]
fn a_number_that_has_leading_zeros_only_later_is_refused() {
    let bench = Bench::new();
    let rows: String =
        (0..22_000).map(|n| if n == 21_400 { "0777\n".to_owned() } else { format!("{n}\n") }).collect();
    bench.write("t.csv", &format!("id\n{rows}"));
    let error = bench.refused("SELECT sum(id) FROM '~/t.csv'");
    assert!(error.to_string().contains("'0777'") && error.hint().is_some(), "{error}");
    bench.write("u.csv", &format!("id\n{}", rows.replace("\n0777\n", "\n1.5\n")));
    let error = bench.refused("SELECT sum(id) FROM '~/u.csv'");
    assert!(error.hint().is_some_and(|hint| hint.contains("DOUBLE")), "{error}");
    bench.write("v.csv", &format!("id\n{}", rows.replace("\n0777\n", "\n\n")));
    assert_answers(
        &bench,
        &[("SELECT count(id) FROM '~/v.csv'", &["21999"]), ("SELECT max(id) FROM '~/v.csv'", &["21999"])],
    );
}

#[test]
fn a_date_is_compared_as_a_date() {
    let bench = Bench::new();
    bench.sql(
        "COPY (SELECT DATE '2024-01-01' + n::int AS d FROM generate_series(0, 9) AS s(n)) TO '~/d.parquet'",
    );
    for filter in [
        "d <= DATE '2024-01-05' - INTERVAL '1 day'",
        "DATE '2024-01-05' + INTERVAL '1 hour' > d",
        "d BETWEEN DATE '2024-01-05' AND DATE '2024-01-05' + INTERVAL '1 month'",
        "d < TIMESTAMP '2024-01-05 12:00:00'",
    ] {
        let plan = bench.sql(&format!("EXPLAIN SELECT d FROM '~/d.parquet' WHERE {filter}"));
        assert!(plan.contains("predicate=") && !plan.to_lowercase().contains("cast"), "{filter}: {plan}");
    }
    let at = "SELECT count(*) FROM '~/d.parquet' WHERE d < TIMESTAMP '2024-01-05 12:00:00'";
    assert_answers(&bench, &[(at, &["5"])]);
}

#[test]
fn times_are_read_back_as_they_were_written() {
    let bench = Bench::new();
    let times = "SELECT TIMESTAMP '2024-01-05 10:00:00.5' AS t, TIMESTAMPTZ '2024-01-05 10:00:00+02' AS z, TIME '10:00:00' AS c";
    for format in ["csv", "json"] {
        bench.sql(&format!("COPY ({times}) TO '~/t.{format}'"));
        let text = std::fs::read_to_string(bench.path().join(format!("t.{format}"))).unwrap();
        assert!(text.contains("2024-01-05 10:00:00.5") && text.contains("2024-01-05 08:00:00+00"), "{text}");
        let read = format!(
            "SELECT t::timestamp = TIMESTAMP '2024-01-05 10:00:00.5' AND z::timestamptz = TIMESTAMPTZ '2024-01-05 08:00:00+00' FROM '~/t.{format}'"
        );
        assert_answers(&bench, &[(&read, &["true"])]);
    }
    bench.sql(&format!("COPY ({times}) TO '~/t.parquet'"));
    assert_answers(&bench, &[("SELECT z::varchar FROM '~/t.parquet'", &["2024-01-05 08:00:00+00"])]);
}

/// The check of a product of decimals or floats is made where the product is computed, which is where all who share it are.
#[test]
fn a_product_that_two_sums_share_is_computed_once() {
    let bench = Bench::new();
    for (kind, product) in [("DECIMAL(15, 2)", "decimal_multiply(price@"), ("DOUBLE", " * (1 - one_nan(off@")]
    {
        bench.sql(&format!(
            "COPY (SELECT (value % 7)::{kind} AS price, (value % 3)::{kind} AS off, value % 2 AS k FROM generate_series(1, 9)) TO '~/p.parquet'"
        ));
        let sql = "SELECT k, sum(price * (1 - off)) AS a, sum(price * (1 - off) * (1 + off)) AS b FROM '~/p.parquet' GROUP BY k";
        let plan = bench.sql(&format!("EXPLAIN FORMAT INDENT {sql}"));
        assert_eq!(plan.matches(product).count(), 1, "{kind}: {plan}");
    }
}

/// As DuckDB 2.0 counts them; its older versions counted Mondays.
#[test]
fn a_difference_in_weeks_is_one_of_seven_days() {
    let bench = Bench::new();
    for (earlier, later, weeks) in [
        ("2024-01-07", "2024-01-08", "0"),
        ("2024-01-03", "2024-01-09", "0"),
        ("2024-01-03", "2024-01-10", "1"),
        ("2024-01-14 00:00:01", "2024-01-01 23:59:59", "-1"),
        ("2024-01-01", "2023-12-31 22:30:00", "0"),
    ] {
        let sql = format!("SELECT date_diff('week', TIMESTAMP '{earlier}', TIMESTAMP '{later}')");
        assert_eq!(bench.column(&sql), [weeks], "{sql}");
    }
}
