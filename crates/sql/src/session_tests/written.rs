//! Goal: what `COPY` and `INSERT` write is where it was said to be, whole, and read as it was written. Method: statements that
//! write, what then lies on the disk, and statements that read it.

use std::fs;
use std::path::Path;

use futures::StreamExt;
use yeoul_base::ErrorKind;

use super::Bench;
use crate::Options;

#[test]
fn a_copy_goes_where_its_name_says_whatever_is_in_the_name() {
    let bench = Bench::new();
    for name in ["[x] y/out.csv", "sales[1].csv", "what?.csv", "a*b.csv", "50%20 off.csv"] {
        bench.sql(&format!("COPY (SELECT 7 AS n) TO '~/{name}'"));
        assert_eq!(fs::read_to_string(bench.path().join(name)).unwrap(), "n\n7\n", "{name}");
    }
    bench.sql("COPY (SELECT 7 AS n) TO '~/[f]/' STORED AS CSV");
    assert_eq!(fs::read_dir(bench.path().join("[f]")).unwrap().count(), 1);
    assert_eq!(bench.numbers("~/[x] y/out.csv"), [7]);
    assert_eq!(bench.numbers("~/sales[1].csv"), [7]);
    assert_eq!(fs::read_dir(bench.path()).unwrap().count(), 6);
}

#[test]
fn a_copied_file_is_there_as_soon_as_its_count_is() {
    let bench = Bench::new();
    let sql = format!("COPY (SELECT 7 AS n) TO '{}/out.csv'", bench.path().display());
    bench.runtime.block_on(async {
        let mut answer = bench.session.sql(&sql).await.unwrap();
        answer.next().await.unwrap().unwrap();
    });
    assert_eq!(fs::read_to_string(bench.path().join("out.csv")).unwrap(), "n\n7\n");
}

#[test]
fn a_null_key_is_written_and_read_as_one() {
    let bench = Bench::new();
    let keys = "SELECT CAST(column1 AS BIGINT) AS n, column2 AS k, column3 AS d FROM (VALUES
        (1, 7, DATE '2024-01-02'), (2, NULL, NULL), (3, 0, NULL)) AS v";
    bench.sql(&format!("COPY ({keys}) TO '~/p' STORED AS PARQUET PARTITIONED BY (k, d)"));
    assert!(bench.path().join("p/k=7/d=2024-01-02").is_dir());
    assert!(bench.path().join("p/k=__HIVE_DEFAULT_PARTITION__/d=__HIVE_DEFAULT_PARTITION__").is_dir());
    let seen = bench.sql("SELECT n, k, d FROM '~/p' ORDER BY n");
    let rows: Vec<String> = seen.lines().skip(3).map(|line| line.replace(' ', "")).collect();
    assert_eq!(rows[..3], ["|1|7|2024-01-02|", "|2|||", "|3|0||"], "{seen}");
    let of = |filter: &str| bench.numbers_where("~/p", filter);
    assert_eq!(
        (of("k IS NULL"), of("d IS NULL"), of("k = '0'"), of("k <> '7'")),
        (vec![2], vec![2, 3], vec![3], vec![3])
    );
}

#[test]
fn a_null_key_that_the_files_keep_is_refused() {
    let bench = Bench::new();
    for (rows, is_right) in [("(1, 10), (2, 20)", true), ("(1, 10), (2, NULL)", false)] {
        let sql = format!(
            "COPY (SELECT * FROM (VALUES {rows}) AS t(n, k)) TO '~/kept' STORED AS PARQUET PARTITIONED BY (k)
            OPTIONS ('execution.keep_partition_by_columns' 'true')"
        );
        if is_right {
            bench.sql(&sql);
            assert!(bench.path().join("kept/k=10").is_dir());
        } else {
            let error = bench.refused(&sql);
            assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("is null"), "{error}");
            assert!(error.hint().is_some());
        }
        assert!(!bench.path().join("kept/k=0").exists());
    }
}

#[test]
fn a_partitioned_copy_keeps_the_order_of_its_rows() {
    let bench = Bench::with(Options { threads: Some(4), ..Options::default() });
    for (name, options) in [("a", ""), ("b", "OPTIONS ('execution.keep_partition_by_columns' 'true')")] {
        bench.sql(&format!(
            "COPY (SELECT value AS n, value % 2 AS k FROM range(0, 200000) ORDER BY abs(k), n DESC)
            TO '~/{name}' STORED AS CSV PARTITIONED BY (k) {options}"
        ));
        for key in 0..2 {
            let folder = bench.path().join(format!("{name}/k={key}"));
            let file = fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
            let text = fs::read_to_string(file).unwrap();
            let numbers =
                text.lines().skip(1).map(|line| line.split(',').next().unwrap().parse::<i64>().unwrap());
            assert!(numbers.eq((0..200_000).rev().filter(|n| n % 2 == key)), "{name}, k={key}");
        }
    }
}

#[test]
fn a_folder_that_is_being_written_is_read_without_what_is_not_whole() {
    let bench = Bench::new();
    bench.sql("COPY (SELECT 1 AS n, 1 AS k) TO '~/dir' STORED AS PARQUET PARTITIONED BY (k)");
    bench.write("dir/.yeoul-copy-other/lock", "");
    bench.write("dir/.yeoul-copy-other/data/k=1/half.parquet", "half");
    for name in ["~/dir", "~/dir/*", "~/dir/k=*/*.parquet"] {
        assert_eq!(bench.numbers(name), [1], "{name}");
    }
    // The next COPY there removes what nobody writes any more.
    bench.sql("COPY (SELECT 2 AS n, 2 AS k) TO '~/dir' STORED AS PARQUET PARTITIONED BY (k)");
    assert!(!bench.path().join("dir/.yeoul-copy-other").exists());
    assert_eq!(fs::read_dir(bench.path().join("dir")).unwrap().count(), 2);
}

#[test]
fn a_folder_on_another_file_system_is_written_through_a_link() {
    use std::os::unix::fs::{MetadataExt, symlink};
    let bench = Bench::new();
    let device = |path: &Path| fs::metadata(path).map(|meta| meta.dev()).ok();
    let memory = Path::new("/dev/shm");
    if device(memory).is_none() || device(memory) == device(bench.path()) {
        println!("skipped: {} is no file system of its own", memory.display());
        return;
    }
    let elsewhere = tempfile::tempdir_in(memory).unwrap();
    symlink(elsewhere.path(), bench.path().join("out")).unwrap();
    bench.sql("COPY (SELECT 7 AS n, 1 AS k) TO '~/out' STORED AS PARQUET PARTITIONED BY (k)");
    assert_eq!(bench.numbers("~/out"), [7]);
    assert!(elsewhere.path().join("k=1").is_dir());
}

#[test]
fn a_copy_that_explain_analyze_runs_is_checked_and_staged() {
    let bench = Bench::new();
    bench.write("old.csv", "old\n");
    bench.refused(
        "EXPLAIN ANALYZE COPY (SELECT CAST(t AS INT) FROM (VALUES ('1'), ('x')) AS v(t)) TO '~/old.csv'",
    );
    assert_eq!(fs::read_to_string(bench.path().join("old.csv")).unwrap(), "old\n");
    assert_eq!(fs::read_dir(bench.path()).unwrap().count(), 1);
    bench.sql("EXPLAIN ANALYZE COPY (SELECT 7 AS n) TO '~/old.csv'");
    assert_eq!(fs::read_to_string(bench.path().join("old.csv")).unwrap(), "n\n7\n");
    for sql in [
        "EXPLAIN ANALYZE COPY (SELECT 1 AS n) TO 's3://bucket/a#1.csv' STORED AS CSV",
        "CREATE EXTERNAL TABLE t (n INT) STORED AS CSV LOCATION 'https://localhost:1/a.csv?v=1'",
    ] {
        let error = bench.refused(sql);
        assert!(error.to_string().contains("which cannot be sent"), "{sql}: {error}");
    }
}

#[test]
fn a_type_that_a_format_lacks_is_not_a_damaged_file() {
    let bench = Bench::new();
    let error = bench.refused("COPY (SELECT INTERVAL '1 month' AS i) TO '~/x.parquet'");
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("not supported"), "{error}");
    assert_eq!(fs::read_dir(bench.path()).unwrap().count(), 0);
}

/// The last moment that 64 bits of microseconds hold, which no calendar does: what DuckDB writes for infinity.
const INFINITE: &str = "arrow_cast(9223372036854775807, 'Timestamp(Microsecond, None)')";

#[test]
fn a_time_out_of_range_is_refused_where_json_is_written() {
    let bench = Bench::new();
    bench.sql(&format!("COPY (SELECT {INFINITE} AS t, 1 AS n) TO '~/in.parquet'"));
    for value in ["t", "[t]", "named_struct('t', t)"] {
        let error =
            bench.refused(&format!("COPY (SELECT {value} AS v, n FROM '~/in.parquet') TO '~/out.json'"));
        assert!(error.to_string().contains("9223372036854775807"), "{value}: {error}");
    }
    fs::create_dir(bench.path().join("table")).unwrap();
    bench.sql("CREATE EXTERNAL TABLE kept (t TIMESTAMP, n BIGINT) STORED AS JSON LOCATION '~/table/'");
    bench.refused("INSERT INTO kept SELECT t, n FROM '~/in.parquet'");
    fs::remove_dir_all(bench.path().join("table")).unwrap();
    assert_eq!(fs::read_dir(bench.path()).unwrap().count(), 1);
}

#[test]
fn json_is_written_with_every_key_and_with_what_is_no_number() {
    let bench = Bench::new();
    let rows = "SELECT 1 AS n, 'NaN'::double AS x UNION ALL SELECT NULL, 0.5 ORDER BY n NULLS LAST";
    bench.sql(&format!("COPY ({rows}) TO '~/out.json'"));
    let lines = "{\"n\":1,\"x\":\"NaN\"}\n{\"n\":null,\"x\":0.5}\n";
    assert_eq!(fs::read_to_string(bench.path().join("out.json")).unwrap(), lines);
    bench.sql(&format!("COPY ({rows}) TO '~/out.json.gz' STORED AS JSON OPTIONS (compression 'gzip')"));
    assert!(fs::read(bench.path().join("out.json.gz")).unwrap().starts_with(&[0x1f, 0x8b]));
    bench.sql(
        "CREATE EXTERNAL TABLE back (n BIGINT, x DOUBLE) STORED AS JSON LOCATION '~/out.json.gz'
        OPTIONS (compression 'gzip')",
    );
    assert!(bench.sql("SELECT x FROM back WHERE n = 1").contains("NaN"));
    // The order of rows is kept.
    bench.sql("COPY (SELECT value AS n FROM range(0, 50000) ORDER BY n DESC) TO '~/sorted.json'");
    let sorted = fs::read_to_string(bench.path().join("sorted.json")).unwrap();
    assert!(sorted.lines().map(str::to_owned).eq((0..50000).rev().map(|n| format!("{{\"n\":{n}}}"))));
}

#[test]
fn a_row_is_not_inserted_where_its_file_would_be_read_otherwise_or_not_at_all() {
    let bench = Bench::new();
    bench.write("glob/2024-01.csv", "n\n1\n");
    bench.write("tabs/a.tsv", "n\tm\n1\t2\n");
    bench.sql("COPY (SELECT 1 AS n) TO '~/csv/a.csv.gz' STORED AS CSV OPTIONS (compression 'gzip')");
    bench.sql("COPY (SELECT 1 AS n) TO '~/json/a.json.gz' STORED AS JSON OPTIONS (compression 'gzip')");
    for (name, row) in [("glob/2024-*.csv", "2"), ("tabs", "3, 4"), ("csv", "2"), ("json", "2")] {
        let error = bench.refused(&format!("INSERT INTO '~/{name}' VALUES ({row})"));
        assert!(error.kind() == ErrorKind::Invalid && error.hint().is_some(), "{name}: {error}");
        assert!(error.to_string().contains("would be unlike those that are there"), "{name}: {error}");
        assert_eq!(bench.numbers(&format!("~/{name}")), [1], "{name}");
    }
    bench.write("plain/a.csv", "n\n1\n");
    bench.sql("INSERT INTO '~/plain' VALUES (2)");
    assert_eq!(bench.numbers("~/plain"), [1, 2]);
}

#[test]
fn a_key_of_any_name_is_read_as_it_was_written() {
    let bench = Bench::new();
    for (number, name) in ["größe", "a#b"].into_iter().enumerate() {
        for (folder, options) in
            [("without", ""), ("with", "OPTIONS ('execution.keep_partition_by_columns' 'true')")]
        {
            let place = format!("~/{folder}{number}");
            bench.sql(&format!(
                "COPY (SELECT 7 AS n, 8 AS {name}) TO '{place}' STORED AS PARQUET PARTITIONED BY ({name}) {options}"
            ));
            let seen = bench.sql(&format!("SELECT * FROM '{place}'"));
            let rows: Vec<String> = seen.lines().map(|line| line.replace(' ', "")).collect();
            let header = format!("|n|{name}|");
            assert_eq!((rows[1].as_str(), rows[3].as_str()), (header.as_str(), "|7|8|"), "{seen}");
        }
        bench.sql(&format!("INSERT INTO '~/without{number}' VALUES (1, 2)"));
        assert_eq!(bench.numbers(&format!("~/without{number}")), [1, 7], "{name}");
    }
    for (number, (folder, name)) in
        [("cost%25=8", "cost%"), ("100%=8", "100%"), ("a%2Fb=8", "a/b")].into_iter().enumerate()
    {
        bench.write(&format!("{number}/{folder}/f.csv"), "n\n7\n");
        let seen = bench.sql(&format!("SELECT \"{name}\" AS told, n FROM '~/{number}'"));
        assert!(seen.contains("| 8    | 7 |"), "{seen}");
    }
}

#[test]
fn files_of_several_writers_are_one_table() {
    let bench = Bench::new();
    // Each notes in its file how it held the texts: plain, as views, and with long offsets.
    let texts = ["'a'", "arrow_cast('b', 'Utf8View')", "arrow_cast('c', 'LargeUtf8')"];
    for (number, text) in texts.into_iter().enumerate() {
        bench.sql(&format!(
            "COPY (SELECT CAST({number} AS BIGINT) AS n, {text} AS t, [{text}] AS l, arrow_cast({text}, 'Binary') AS b)
            TO '~/d/{number}.parquet'"
        ));
    }
    bench.sql("INSERT INTO '~/d' SELECT n + 3, t, l, b FROM '~/d' WHERE n = 1");
    assert_eq!(bench.numbers("~/d"), [0, 1, 2, 4]);
    let told = bench
        .sql("SELECT string_agg(t, '' ORDER BY n) AS t, string_agg(l[1], '' ORDER BY n) AS l FROM '~/d'");
    assert!(told.contains("| abcb | abcb |"), "{told}");
    assert_eq!(bench.numbers_where("~/d", "t > 'a' AND b < 'c'"), [1, 4]);
}

#[test]
fn under_a_memory_limit_no_text_is_a_view() {
    let memory = Some(yeoul_base::ByteSize::from_gib(1));
    let bench = Bench::with(Options { memory, ..Options::default() });
    bench.sql(
        "COPY (SELECT arrow_cast('b', 'Utf8View') AS t, arrow_cast('b', 'BinaryView') AS b) TO '~/f.parquet'",
    );
    let told = bench.sql("SELECT arrow_typeof(t) AS t, arrow_typeof(b) AS b FROM '~/f.parquet'");
    assert!(told.contains("| Utf8 | Binary |"), "{told}");
}

#[test]
fn a_row_is_inserted_beside_a_null_key_and_not_into_a_file() {
    let bench = Bench::new();
    bench.sql("COPY (SELECT CAST(1 AS BIGINT) AS n, CAST(NULL AS BIGINT) AS k) TO '~/p' STORED AS CSV PARTITIONED BY (k)");
    bench.write("p/k=5/a.csv", "n\n2\n");
    bench.sql("INSERT INTO '~/p' VALUES (3, 6)");
    assert_eq!(bench.numbers("~/p"), [1, 2, 3]);
    assert_eq!(bench.numbers_where("~/p", "k = 6"), [3]);
    let error = bench.refused("INSERT INTO '~/p' VALUES (4, NULL)");
    assert!(error.to_string().starts_with("column 2 of a row") && error.hint().is_some(), "{error}");
    let error = bench.refused("INSERT INTO '~/p/k=5/a.csv' VALUES (4)");
    assert!(error.to_string().contains("is a file") && error.hint().is_some(), "{error}");
    assert_eq!(bench.numbers("~/p"), [1, 2, 3]);
}

#[test]
fn a_format_that_the_name_does_not_tell_can_be_said() {
    let bench = Bench::new();
    for name in ["x.tsv", "x.jsonl", "x.csv.gz"] {
        let error = bench.refused(&format!("COPY (SELECT 1 AS n) TO '~/{name}'"));
        assert!(error.hint().is_some_and(|hint| hint.contains("STORED AS")), "{name}: {error}");
    }
    bench.sql("COPY (SELECT 1 AS n, 2 AS m) TO '~/x.tsv' STORED AS CSV OPTIONS ('delimiter' '\t')");
    assert_eq!(bench.numbers("~/x.tsv"), [1]);
    bench.sql("COPY (SELECT 1 AS n) TO '~/x.csv.gz' STORED AS CSV OPTIONS ('compression' 'gzip')");
    assert_eq!(bench.numbers("~/x.csv.gz"), [1]);
}

#[test]
fn csv_is_written_with_texts_that_differ_from_nulls_and_with_what_is_nested() {
    let bench = Bench::new();
    let row = "SELECT '' AS a, CAST(NULL AS TEXT) AS b, [1, NULL] AS c, 'x,y\t' AS d";
    for (format, text) in [
        ("STORED AS CSV", "a,b,c,d\n\"\",,\"[1,null]\",\"x,y\t\"\n"),
        ("STORED AS CSV OPTIONS ('has_header' 'false')", "\"\",,\"[1,null]\",\"x,y\t\"\n"),
        ("STORED AS CSV OPTIONS ('delimiter' '\t')", "a\tb\tc\td\n\"\"\t\t[1,null]\t\"x,y\t\"\n"),
    ] {
        bench.sql(&format!("COPY ({row}) TO '~/out.csv' {format}"));
        assert_eq!(fs::read_to_string(bench.path().join("out.csv")).unwrap(), text, "{format}");
    }
    bench.sql(&format!("COPY ({row} WHERE false) TO '~/out.csv'"));
    assert_eq!(fs::read_to_string(bench.path().join("out.csv")).unwrap(), "a,b,c,d\n");
    bench.sql("COPY (SELECT value AS n FROM range(0, 50000) ORDER BY n DESC) TO '~/out.csv'");
    assert!(
        bench.column("SELECT n FROM '~/out.csv'").into_iter().eq((0..50000).rev().map(|n| n.to_string()))
    );
    // A row of a null alone is no empty line, which readers pass over.
    bench.sql("COPY (SELECT CAST(NULL AS INT) AS n UNION ALL SELECT 1) TO '~/out.csv'");
    assert_eq!(bench.column("SELECT count(*) FROM '~/out.csv'"), ["2"]);
    // Other texts are DataFusion's.
    bench.sql(
        "COPY (SELECT '' AS a, CAST(NULL AS INT) AS b, DATE '2024-01-02' AS c) TO '~/out.csv'
        OPTIONS ('null_value' '-', 'date_format' '%d.%m.%Y')",
    );
    let text = fs::read_to_string(bench.path().join("out.csv")).unwrap();
    assert!(text.ends_with(",-,02.01.2024\n"), "{text}");
}
