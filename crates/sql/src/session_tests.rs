//! Statements on files, in a session of the test's own.

mod answers;
mod bench;
mod contradictions;
mod external_tables;
mod file_functions;
mod filtered_scans;
mod floats;
mod grouping_levels;
mod growing_states;
mod join_orders;
mod large_parquet;
mod large_values;
mod names;
mod orders;
mod parquet_folders;
mod shared_subplans;
mod spark;
mod spark_values;
mod stages;
mod subqueries;
mod subqueries_answered;
mod subqueries_unnested;
mod text_files;
mod values;
mod written;
mod written_times;
mod wrong_answers;

use std::fs;

use yeoul_base::{ByteSize, ErrorKind};

use self::bench::Bench;
use crate::Options;

#[test]
fn a_folder_is_listed_anew_by_each_statement() {
    let bench = Bench::new();
    bench.sql("COPY (SELECT 1 AS n) TO '~/dir/a.parquet'");
    assert_eq!(bench.numbers("~/dir"), [1]);
    bench.sql("COPY (SELECT 2 AS n) TO '~/dir/b.parquet'");
    assert_eq!(bench.numbers("~/dir"), [1, 2]);
    bench.sql("COPY (SELECT 3 AS n) TO '~/dir/a.parquet'");
    assert_eq!(bench.numbers("~/dir"), [2, 3]);
}

#[test]
fn files_that_are_not_read_alike_are_refused_by_name() {
    let bench = Bench::new();
    bench.write("logs/a.csv", "n\n1\n");
    bench.write("logs/b.csv.gz", "whatever");
    bench.write("kinds/a.csv", "n\n1\n");
    bench.write("kinds/b.json", "{\"n\":2}\n");
    for (folder, other) in [("logs", "b.csv.gz"), ("kinds", "b.json")] {
        for name in [format!("~/{folder}"), format!("~/{folder}/*")] {
            let error = bench.refused(&format!("SELECT * FROM '{name}'"));
            let text = error.to_string();
            assert!(error.kind() == ErrorKind::Invalid && text.contains("'a.csv'"), "{text}");
            assert!(text.contains(other) && error.hint().is_some(), "{text}");
        }
    }
    bench.write("notes/a.csv", "n\n1\n");
    bench.write("notes/part-0", "n\n2\n");
    let error = bench.refused("SELECT * FROM '~/notes'");
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("part-0"), "{error}");
}

#[test]
fn a_glob_reaches_all_that_it_matches() {
    let bench = Bench::new();
    let files = ["top.csv", "x/one.csv", "x/y/two.csv", "z/three.csv", "z/_note.csv", ".hid/four.csv"];
    for (number, name) in files.iter().enumerate() {
        bench.write(&format!("t/{name}"), &format!("n\n{number}\n"));
    }
    for (glob, numbers) in [
        ("~/t/*.csv", &[0][..]),
        ("~/t/**/*.csv", &[0, 1, 2, 3]),
        ("~/t/*/*.csv", &[1, 3]),
        ("~/t/x/**", &[1, 2]),
        ("~/t/[xz]/*e.csv", &[1, 3]),
        ("~/t/z", &[3]),
        ("~/t/z/*.csv", &[3]),
    ] {
        assert_eq!(bench.numbers(glob), numbers, "{glob}");
    }
    assert_eq!(bench.refused("SELECT * FROM '~/t/*/*.parquet'").kind(), ErrorKind::NotFound);
}

#[test]
fn folders_that_name_columns_are_read_whole_or_refused() {
    let bench = Bench::new();
    for (year, number) in [(2023, 1), (2024, 2)] {
        bench.write(&format!("p/year={year}/a.csv"), &format!("n\n{number}\n"));
    }
    assert_eq!(bench.numbers("~/p/year=*/*.csv"), [1, 2]);
    bench.write("p/year=2024/_b.csv", "n\n9\n");
    bench.write("p/_SUCCESS", "");
    assert_eq!(bench.numbers("~/p"), [1, 2]);
    assert!(bench.sql("SELECT year FROM '~/p' WHERE n = 2").contains("2024"));
    assert_eq!(bench.numbers("~/p/year=*4/*.csv"), [2]);
    // Between them there may be folders that name no column, if the glob matches them.
    for (number, place) in ["eu/year=2024", "us/year=2024", "us/more/year=2023"].iter().enumerate() {
        bench.write(&format!("t/{place}/f.csv"), &format!("n\n{number}\n"));
    }
    assert_eq!(bench.numbers("~/t/*/year=2024/*.csv"), [0, 1]);
    assert_eq!(bench.numbers("~/t/**/*.csv"), [0, 1, 2]);
    assert_eq!(bench.numbers_where("~/t/**/*.csv", "year = 2023"), [2]);
    bench.write("t/jp/city=5/f.csv", "n\n3\n");
    let error = bench.refused("SELECT * FROM '~/t/**/*.csv'");
    let text = error.to_string();
    assert!(error.kind() == ErrorKind::Invalid && error.hint().is_some(), "{text}");
    assert!(text.contains("'eu/year=2024/f.csv' and 'jp/city=5/f.csv'"), "{text}");
    bench.write("w/k=1/x/k=2/f.csv", "n\n1\n");
    let error = bench.refused("SELECT * FROM '~/w/**/*.csv'");
    assert!(error.to_string().contains("name the column 'k' twice"), "{error}");
}

#[test]
fn a_view_reads_what_its_folder_has_when_it_is_asked() {
    let bench = Bench::new();
    bench.write("d/a.csv", "n\n1\n");
    bench.sql("CREATE VIEW v AS SELECT * FROM '~/d'");
    bench.sql("PREPARE p AS SELECT * FROM '~/d' ORDER BY n");
    bench.sql("COPY (SELECT 7 AS n) TO '~/d/.hid.csv'");
    bench.sql("COPY (SELECT 8 AS n) TO '~/d/_hid.csv'");
    assert_eq!(bench.numbers("v"), [1]);
    bench.write("d/b.CSV", "n\n2\n");
    bench.sql("CREATE VIEW w AS SELECT * FROM '~/d'");
    bench.write("d/c.csv", "n\n3\n");
    assert_eq!((bench.numbers("v"), bench.numbers("w")), (vec![1, 2, 3], vec![1, 2, 3]));
    let seen = bench.sql("EXECUTE p");
    assert_eq!(seen.lines().filter(|line| line.starts_with("| ")).count(), 4, "{seen}");
    // Each name of a statement is one set of files, however often it is scanned.
    assert!(bench.sql("SELECT count(*) AS c FROM v AS a, v AS b").contains("| 9 "));
    fs::remove_dir_all(bench.path().join("d")).unwrap();
    assert_eq!(bench.refused("SELECT * FROM v").kind(), ErrorKind::NotFound);
}

#[test]
fn a_view_checks_its_files_as_they_are_when_it_is_asked() {
    let bench = Bench::new();
    bench.write("d/a.csv", "x,y\n1,2\n");
    bench.write("t/a.csv", "n\n1\n");
    bench.write("h/month=9/a.csv", "n\n1\n");
    for folder in ["d", "t", "h"] {
        bench.sql(&format!("CREATE VIEW {folder} AS SELECT * FROM '~/{folder}'"));
        bench.sql(&format!("PREPARE p{folder} AS SELECT * FROM '~/{folder}'"));
    }
    bench.sql("COPY (SELECT 30 AS y, 40 AS x) TO '~/d/b.csv'");
    bench.write("t/a.csv", "n\nx\n");
    bench.write("h/month=01/a.csv", "n\n2\n");
    for (folder, told) in [
        ("d", "different headers: column 1 is 'x' and 'y'"),
        ("t", "column 'n' was BIGINT and is VARCHAR"),
        ("h", "'month' was a whole number in each directory, and now there is month=01"),
    ] {
        for sql in [format!("SELECT * FROM {folder}"), format!("EXECUTE p{folder}")] {
            let error = bench.refused(&sql);
            assert!(error.kind() == ErrorKind::Invalid && error.hint().is_some(), "{error}");
            assert!(error.to_string().contains(told), "{error}");
        }
    }
    // A view that is made again sees the files as they are now.
    bench.sql("CREATE OR REPLACE VIEW h AS SELECT * FROM '~/h'");
    bench.sql("CREATE OR REPLACE VIEW t AS SELECT * FROM '~/t'");
    assert_eq!(bench.numbers("h"), [1, 2]);
    assert!(bench.sql("SELECT n FROM t").contains("| x |"));
    // A view has the columns that it was made with; text stays text.
    bench.write("j/a.json", "{\"n\":1}\n");
    bench.sql("CREATE VIEW j AS SELECT * FROM '~/j'");
    bench.write("j/b.json", "{\"more\":true,\"n\":2}\n");
    assert_eq!(bench.numbers("j"), [1, 2]);
    assert!(!bench.sql("SELECT * FROM j").contains("more"));
    fs::remove_dir_all(bench.path().join("h/month=01")).unwrap();
    assert!(bench.sql("SELECT max(month) AS m FROM h").contains("| 9 |"));
    fs::rename(bench.path().join("h/month=9"), bench.path().join("h/day=9")).unwrap();
    let error = bench.refused("SELECT * FROM h");
    assert!(error.to_string().contains("named [month], and now [day]"), "{error}");
}

#[test]
fn a_line_break_within_quotes_stays_in_its_value() {
    let bench = Bench::new();
    let mut text = String::from("n,t\n");
    let rows = 40_000;
    for number in 0..rows {
        // The columns are inferred from the first rows, which are read separately.
        let lines = if number < 2_000 { 0 } else { 1 + number % 17 };
        text.push_str(&format!("{number},\"x{}\"\n", "\n7,line".repeat(lines)));
    }
    assert!(text.len() > 1 << 20);
    bench.write("quoted.csv", &text);
    let seen = bench.sql("SELECT count(*) AS c, sum(n) AS s, max(length(t)) AS l FROM '~/quoted.csv'");
    assert!(seen.contains(&format!("| {rows} | {} |", rows * (rows - 1) / 2)), "{seen}");
}

#[test]
fn limits_are_not_lifted_by_reset() {
    let bench = Bench::with(Options { memory: Some(ByteSize::from_gib(4)), ..Options::default() });
    for name in ["memory_limit", "temp_directory", "max_temp_directory_size"] {
        let error = bench.refused(&format!("RESET datafusion.runtime.{name}"));
        assert_eq!(error.kind(), ErrorKind::Denied, "{name}: {error}");
    }
    bench.sql("RESET datafusion.execution.batch_size");
}

#[test]
fn reset_gives_back_what_the_session_started_with() {
    let settings = vec![("datafusion.execution.batch_size".to_owned(), "77".to_owned())];
    let bench = Bench::with(Options { settings, ..Options::default() });
    let value = |name: &str| {
        bench.sql(&format!("SELECT value FROM information_schema.df_settings WHERE name = '{name}'"))
    };
    for (name, other) in [
        ("datafusion.execution.batch_size", "5"),
        ("datafusion.sql_parser.default_null_ordering", "'nulls_first'"),
        ("yeoul.wrap_integers", "true"),
        ("yeoul.order_joins", "false"),
        ("yeoul.share_subplans", "false"),
        ("yeoul.filter_scans", "false"),
        ("yeoul.grouping_levels", "false"),
    ] {
        let before = value(name);
        bench.sql(&format!("SET {name} = {other}"));
        assert_ne!(value(name), before, "{name}");
        bench.sql(&format!("RESET {name}"));
        assert_eq!(value(name), before, "{name}");
    }
    let error = bench.refused("RESET yeoul.nothing");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

#[test]
fn an_address_with_a_query_is_refused() {
    let bench = Bench::new();
    for sql in [
        "SELECT * FROM 'https://localhost:1/a.csv?v=1'",
        "COPY (SELECT 1 AS n) TO 's3://bucket/a#1.csv' STORED AS CSV",
    ] {
        let error = bench.refused(sql);
        assert!(error.kind() == ErrorKind::Invalid && error.hint().is_some(), "{error}");
        assert!(error.to_string().contains("which cannot be sent"), "{error}");
    }
}

#[test]
fn a_view_or_table_may_be_named_like_a_folder() {
    for what in ["VIEW", "TABLE", "TABLE IF NOT EXISTS"] {
        let bench = Bench::new();
        bench.write("orders/a.csv", "n\n1\n");
        bench.sql(&format!("CREATE {what} \"~/orders\" AS SELECT 7 AS n"));
        assert_eq!(bench.numbers("~/orders"), [7], "{what}");
    }
    let bench = Bench::new();
    bench.sql("CREATE TABLE t AS SELECT 1 AS n");
    assert!(bench.refused("CREATE TABLE t AS SELECT 2 AS n").to_string().contains("already exists"));
    assert!(bench.refused("CREATE VIEW t AS SELECT 2 AS n").to_string().contains("already exists"));
    bench.sql("CREATE TABLE IF NOT EXISTS t AS SELECT 2 AS n");
    assert_eq!(bench.numbers("t"), [1]);
}

#[test]
fn csv_files_with_different_headers_are_refused_by_name() {
    let bench = Bench::new();
    for (folder, other) in [("swapped", "y,x\n3,4\n"), ("renamed", "x,z\n3,4\n"), ("more", "x,y,z\n3,4,5\n")]
    {
        bench.write(&format!("{folder}/a.csv"), "x,y\n1,2\n");
        // More rows than those that a schema is inferred from.
        bench.write(&format!("{folder}/b.csv"), &("x,y\n".to_owned() + &"1,2\n".repeat(2_000)));
        bench.write(&format!("{folder}/c.csv"), other);
        let error = bench.refused(&format!("SELECT x FROM '~/{folder}'"));
        assert_eq!(error.kind(), ErrorKind::Invalid, "{folder}: {error}");
        assert!(error.to_string().contains("in 'a.csv' and 'c.csv'"), "{folder}: {error}");
    }
    bench.write("same/a.csv", "n\n1\n");
    bench.write("same/b.csv", "n\n2\n");
    bench.write("same/empty.csv", "");
    bench.write("same/header.csv", "n\n");
    assert_eq!(bench.numbers("~/same"), [1, 2]);
    // Arrow files are read by position too.
    bench.sql("COPY (SELECT 1 AS x, 2 AS y) TO '~/arrow/a.arrow'");
    bench.sql("COPY (SELECT 1 AS x, 2 AS y) TO '~/arrow/b.arrow'");
    assert!(bench.sql("SELECT count(*) AS c FROM '~/arrow'").contains("| 2 |"));
    bench.sql("COPY (SELECT 30 AS y, 40 AS x) TO '~/arrow/c.arrow'");
    let error = bench.refused("SELECT x FROM '~/arrow'");
    assert!(error.to_string().contains("in 'a.arrow' and 'c.arrow'"), "{error}");
}

#[test]
fn a_file_that_does_not_fit_its_tables_folders_is_named() {
    let bench = Bench::new();
    // More files than DataFusion infers partition columns from.
    for month in 10..40 {
        bench.write(&format!("t/year=2023/month={month}/a.csv"), &format!("n\n{month}\n"));
    }
    assert_eq!(bench.numbers("~/t").len(), 30);
    for odd in ["t/year=2024/a.csv", "t/zone=1/month=2/a.csv", "t/z.csv", "t/year=2023/month=5/day=1/a.csv"] {
        bench.write(odd, "n\n99\n");
        let error = bench.refused("SELECT * FROM '~/t'");
        assert!(
            error.kind() == ErrorKind::Invalid && error.to_string().contains(&odd[2..]),
            "{odd}: {error}"
        );
        fs::remove_file(bench.path().join(odd)).unwrap();
    }
}

#[test]
fn a_null_key_is_null_in_a_view_that_was_made_before_it() {
    let bench = Bench::new();
    let copy = |row: &str| bench.sql(&format!("COPY ({row}) TO '~/h' STORED AS CSV PARTITIONED BY (k)"));
    copy("SELECT 1 AS n, 'a' AS k");
    bench.sql("CREATE VIEW v AS SELECT * FROM '~/h'");
    bench.sql("PREPARE p AS SELECT n FROM '~/h' WHERE k IS NULL");
    assert_eq!(bench.numbers_where("v", "k IS NOT NULL"), [1]);
    copy("SELECT 3 AS n, CAST(NULL AS TEXT) AS k");
    let of = |filter: &str| bench.numbers_where("v", filter);
    assert_eq!((of("k IS NULL"), of("k <> 'b'"), of("coalesce(k, 'z') = 'z'")), (vec![3], vec![1], vec![3]));
    assert!(bench.sql("EXECUTE p").contains("| 3 |"));
    let counted = bench.sql("SELECT count(*) AS a, count(k) AS b, min(k) AS c, max(k) AS d FROM v");
    assert!(counted.contains("| 2 | 1 | a | a |"), "{counted}");
    // A row with a null key cannot be inserted: DataFusion would write it into the folder of another key.
    bench.sql("INSERT INTO '~/h' VALUES (4, 'd')");
    assert_eq!(of("k = 'd'"), [4]);
    bench.refused("INSERT INTO '~/h' VALUES (5, NULL)");
    assert_eq!(bench.numbers("v"), [1, 3, 4]);
}

#[test]
fn folders_of_whole_numbers_are_numbers() {
    let bench = Bench::new();
    for month in ["9", "10", "11", "__HIVE_DEFAULT_PARTITION__"] {
        bench.write(&format!("p/month={month}/a.csv"), &format!("n\n{}\n", month.len()));
    }
    // A file without rows, so that no row has this month.
    bench.write("p/month=12/a.csv", "n\n");
    let one = |sql: &str| bench.sql(sql).lines().nth(3).map(|line| line.replace(' ', "")).unwrap();
    assert_eq!(one("SELECT max(month), min(month), count(month), count(*) FROM '~/p'"), "|11|9|3|4|");
    assert_eq!(one("SELECT arrow_typeof(month) FROM '~/p' LIMIT 1"), "|Int64|");
    bench.sql("COPY (SELECT 1 AS n, 9 AS month) TO '~/q' STORED AS PARQUET PARTITIONED BY (month)");
    bench.sql("COPY (SELECT 1 AS n WHERE false) TO '~/q/month=12/none.parquet'");
    assert_eq!(one("SELECT max(month), count(month), count(*) FROM '~/q'"), "|9|1|1|");
    assert_eq!(bench.column("SELECT month FROM '~/p' ORDER BY month"), ["9", "10", "11", ""]);
    assert_eq!(bench.column("SELECT month FROM '~/p' WHERE month > 9 ORDER BY month"), ["10", "11"]);
    assert_eq!(bench.column("SELECT month FROM '~/p' WHERE NOT month > 9"), ["9"]);
    let plan = bench.sql("EXPLAIN SELECT n FROM '~/p' WHERE month > 9 AND month < 12");
    assert!(plan.contains("month=10") && plan.contains("month=11"), "{plan}");
    assert!(!plan.contains("month=9") && !plan.contains("HIVE") && !plan.contains("FilterExec"), "{plan}");
    // One month that is not a number makes all of them text.
    bench.write("p/month=01/a.csv", "n\n2\n");
    assert_eq!(one("SELECT max(month), min(month), count(month) FROM '~/p'"), "|9|01|4|");
    assert_eq!(bench.column("SELECT month FROM '~/p' WHERE month = '01'"), ["01"]);
}

#[test]
fn a_column_that_folders_name_is_theirs_where_the_files_have_it_too() {
    let bench = Bench::new();
    for format in ["PARQUET", "CSV", "JSON", "ARROW"] {
        bench.sql(&format!(
            "COPY (SELECT column1 AS a, column2 AS k, column3 AS n FROM (VALUES ('x', 7, 1), ('y', 8, 2)) AS v)
             TO '~/{format}' STORED AS {format} PARTITIONED BY (k)
             OPTIONS ('execution.keep_partition_by_columns' 'true')"
        ));
        let seen = bench.sql(&format!("SELECT * FROM '~/{format}' ORDER BY n"));
        let rows: Vec<String> = seen.lines().map(|line| line.replace(' ', "")).collect();
        assert_eq!(
            (rows[1].as_str(), &rows[3..5]),
            ("|a|n|k|", &["|x|1|7|".into(), "|y|2|8|".into()][..]),
            "{seen}"
        );
        assert_eq!(bench.numbers_where(&format!("~/{format}"), "k = 8"), [2], "{format}");
        let error = bench.refused(&format!("INSERT INTO '~/{format}' VALUES ('z', 3, 9)"));
        assert!(error.kind() == ErrorKind::Invalid && error.hint().is_some(), "{error}");
    }
}

#[test]
fn an_empty_parquet_file_among_others_is_damaged() {
    let bench = Bench::new();
    bench.sql("COPY (SELECT 1 AS n) TO '~/dir/a.parquet'");
    bench.write("dir/b.parquet", "");
    let error = bench.refused("SELECT * FROM '~/dir'");
    assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("'b.parquet'"), "{error}");
    let error = bench.refused("SELECT * FROM '~/dir/b.parquet'");
    assert!(
        error.kind() == ErrorKind::Corrupt && error.to_string().contains("b.parquet' is empty"),
        "{error}"
    );
}

#[test]
fn an_equals_sign_in_a_files_name_makes_no_folder_of_it() {
    let bench = Bench::new();
    bench.write("d/top.csv", "n\n1\n");
    bench.write("d/a=b.csv", "n\n2\n");
    bench.write("d/sub/x=1.csv", "n\n3\n");
    bench.write("d/_note=1.csv", "n\n4\n");
    for name in ["~/d", "~/d/*", "~/d/*.csv"] {
        assert_eq!(bench.numbers(name), [1, 2], "{name}");
    }
    assert_eq!(bench.numbers("~/d/**"), [1, 2, 3]);
}

#[test]
fn a_table_whose_replacement_fails_stays() {
    let bench = Bench::new();
    bench.sql("CREATE TABLE t AS SELECT 1 AS n");
    bench.refused(
        "CREATE OR REPLACE TABLE t AS SELECT CAST(c AS INT) AS n FROM (VALUES ('1'), ('x')) AS v(c)",
    );
    assert_eq!(bench.numbers("t"), [1]);
    bench.write("bad.json", "{");
    bench.refused("CREATE OR REPLACE EXTERNAL TABLE t STORED AS JSON LOCATION '~/bad.json'");
    assert_eq!(bench.numbers("t"), [1]);
    bench.sql("CREATE OR REPLACE TABLE t AS SELECT 2 AS n");
    assert_eq!(bench.numbers("t"), [2]);
}

#[test]
fn folders_that_lie_too_deep_are_refused() {
    let bench = Bench::new();
    let deep: String = (0..40).map(|level| format!("/k{level}=1")).collect();
    bench.write(&format!("t{deep}/a.csv"), "n\n1\n");
    let error = bench.refused("SELECT * FROM '~/t'");
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("levels deep"), "{error}");
}

#[test]
fn what_later_records_have_is_not_cut_off() {
    let bench = Bench::new();
    let many = |line: &str| line.repeat(20_500);
    bench.write("t.csv", &format!("n,t\n{}2,2024-01-01 00:00:00.25\n", many("1,2024-01-01 00:00:00\n")));
    assert_eq!(bench.numbers_where("~/t.csv", "t > TIMESTAMP '2024-01-01'"), [2]);

    bench.write("whole.json", &format!("{}{{\"n\":9223372036854775807}}\n", many("{\"n\":-1,\"m\":null}\n")));
    assert_eq!(bench.column("SELECT sum(n) - 2 FROM '~/whole.json' WHERE n > 0"), ["9223372036854775805"]);
    assert_eq!(bench.column("SELECT count(*) FROM '~/whole.json'"), ["20501"]);
    for later in ["2.5", "-0.5", "1e30", "9223372036854775808"] {
        bench.write("f.json", &format!("{}{{\"n\":{later}}}\n", many("{\"n\":1}\n")));
        let error = bench.refused("SELECT n FROM '~/f.json' ORDER BY n");
        assert!(
            later == "1e30" || error.to_string().contains(&format!("'n' is {later} in")),
            "{later}: {error}"
        );
    }
    bench.write("f.json", &format!("{}{{\"n\":2e0}}\n{{\"n\":3.0}}\n", many("{\"n\":1}\n")));
    assert_eq!(bench.column("SELECT sum(n) FROM '~/f.json'"), ["20505"]);
    assert_eq!(bench.column("SELECT arrow_typeof(n) FROM '~/f.json' LIMIT 1"), ["Int64"]);
}

#[test]
fn the_time_of_day_of_a_later_record_is_not_cut_off() {
    let bench = Bench::new();
    let dates = |later: &str| format!("n,d\n{}2,{later}\n3,\n", "1,2024-01-01\n".repeat(20_500));
    for (later, shown) in
        [("2024-01-02T13:00:00", "2024-01-02 13:00:00"), ("1969-12-31 00:00:00.5", "1969-12-31 00:00:00.500")]
    {
        bench.write("t.csv", &dates(later));
        let error = bench.refused("SELECT max(d) FROM '~/t.csv'");
        assert_eq!(error.to_string(), format!("'d' is {shown} in one record, and a date in the first"));
        assert!(error.kind() == ErrorKind::Invalid && error.hint().is_some(), "{error}");
        assert_eq!(bench.column("SELECT sum(n) FROM '~/t.csv'"), ["20505"], "the column is not asked for");
    }
    for (later, shown) in [
        ("9999-12-31", "9999-12-31"),
        ("0001-01-01", "0001-01-01"),
        ("1969-12-31T00:00:00", "1969-12-31"),
        ("2024-1-5", "2024-01-05"),
        ("20240105", "2024-01-05"),
        ("+12024-01-05", "+12024-01-05"),
    ] {
        bench.write("t.csv", &dates(later));
        assert_eq!(bench.column("SELECT d FROM '~/t.csv' WHERE n > 1 ORDER BY n"), [shown, ""]);
    }
    bench.write("t.csv", &dates("soon"));
    let error = bench.refused("SELECT max(d) FROM '~/t.csv'");
    assert_eq!(error.to_string(), "'d' is 'soon' in one record, and a date in the first");
    assert!(error.hint().is_some_and(|hint| hint.contains("VARCHAR")), "{error}");
    bench.write("t.csv", &dates("2024-01-02"));
    assert_eq!(bench.column("SELECT arrow_typeof(d) FROM '~/t.csv' LIMIT 1"), ["Date32"]);
    // The first file tells the columns of all.
    bench.write("d/a.csv", &dates("2024-01-01"));
    bench.write("d/b.csv", "n,d\n4,2024-01-01 01:00:00\n");
    assert_eq!(bench.refused("SELECT d FROM '~/d' WHERE n = 4").kind(), ErrorKind::Invalid);
}
