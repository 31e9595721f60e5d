//! CSV and JSON files whose records are unlike what a line is.

use datafusion::arrow::array::RecordBatch;

use super::*;

/// A session that reads with four partitions.
fn bench() -> Bench {
    Bench::with(Options { threads: Some(4), ..Options::default() })
}

#[test]
fn line_breaks_in_quotes_are_part_of_a_value_however_long_the_file_is() {
    let bench = bench();
    let mut text = "i,t,n\n".to_owned();
    for i in 0..1000 {
        text += &format!("{i},\"line one\nline \"\"two\"\"\",1\n");
    }
    bench.write("a.csv", &text);
    bench.write("many/a.csv", &text);
    bench.write("many/b.csv", &text);
    let long = format!("{}\n{}", "x".repeat(5_000), "y,".repeat(2_500));
    bench.write("long.csv", &format!("a,t\n1,\"{long}\"\n2,\"{long}\"\n3,\"{long}\"\n"));
    let sums = "count(*) || ' ' || sum(n) || ' ' || min(t) || ' ' || sum(length(t))";
    let expected = |files: usize| {
        format!("{} {} line one\nline \"two\" {}", 1000 * files, 1000 * files, 1000 * files * 19)
    };
    let one = |sql: &str| bench.batches(sql).unwrap();
    for (from, files) in [("'~/a.csv'", 1), ("'~/many'", 2)] {
        let batches = one(&format!("SELECT {sums} AS s FROM {from}"));
        let text = datafusion::arrow::util::display::array_value_to_string(batches[0].column(0), 0).unwrap();
        assert_eq!(text, expected(files), "{from}");
    }
    assert_eq!(
        bench.column("SELECT a || ' ' || length(t) FROM '~/long.csv'"),
        ["1 10001", "2 10001", "3 10001"]
    );
    bench
        .sql("CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '~/a.csv' OPTIONS ('format.has_header' 'true')");
    assert_eq!(bench.column("SELECT count(*) FROM e WHERE t LIKE '%\n%' AND n = 1"), ["1000"]);
    bench.sql("COPY (SELECT * FROM e) TO '~/copy.csv'");
    assert_eq!(bench.column("SELECT sum(i) FROM '~/copy.csv'"), ["499500"]);
}

#[test]
fn a_file_that_ends_within_quotes_is_refused_with_the_line_of_the_quote() {
    let bench = bench();
    bench.write("cut.csv", "a,b\n1,x\n2,\"y\n3,z\n");
    let mut late = "a,b\n".to_owned() + &"1,\"x\n\"\n".repeat(5_000);
    late += "2,\"y\n3,z\n";
    bench.write("late.csv", &late);
    bench.sql("CREATE EXTERNAL TABLE cut (a INT, b VARCHAR) STORED AS CSV LOCATION '~/cut.csv'");
    for (sql, line, file) in [
        ("SELECT * FROM '~/cut.csv'", 3, "cut.csv"),
        ("SELECT count(*) FROM cut", 3, "cut.csv"),
        ("SELECT count(*) FROM '~/late.csv'", 10_002, "late.csv"),
    ] {
        let error = bench.refused(sql);
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{sql}: {error}");
        let text = error.to_string();
        assert!(text.contains(&format!("opens on line {line} of '{file}'")), "{text}");
    }
    bench.write("inch.csv", "a,b\n1,5\" pipe\n");
    assert_eq!(bench.column("SELECT b FROM '~/inch.csv'"), ["5\" pipe"]);
}

#[test]
fn quotes_that_spark_escapes_are_seen_or_named_and_read_with_the_option() {
    let bench = bench();
    bench.write("spark.csv", "a,b\n1,\"say \\\"hi\\\", twice\"\n2,x\n");
    assert_eq!(bench.column("SELECT b FROM '~/spark.csv' ORDER BY a"), ["say \"hi\", twice", "x"]);
    // Behind what is looked at.
    let plain = "0,zero\n".repeat(50_000);
    bench.write("late.csv", &format!("a,b\n{plain}1,\"say \\\"hi\\\", twice\"\n"));
    let error = bench.refused("SELECT max(b) FROM '~/late.csv'");
    assert!(error.to_string().contains("line 50002 of 'late.csv' is escaped by a backslash"), "{error}");
    let call = "read_csv('~/late.csv', escape = '\\')";
    assert_eq!(bench.column(&format!("SELECT b FROM {call} WHERE a = 1")), ["say \"hi\", twice"]);
    bench.sql("CREATE EXTERNAL TABLE s (a INT, b VARCHAR) STORED AS CSV LOCATION '~/spark.csv' OPTIONS ('has_header' 'true', 'escape' '\\')");
    assert_eq!(bench.column("SELECT b FROM s ORDER BY a"), ["say \"hi\", twice", "x"]);
    bench.write("windows.csv", "a,b\n\"C:\\\",1\n");
    assert_eq!(bench.column("SELECT a FROM '~/windows.csv'"), ["C:\\"]);
}

#[test]
fn columns_of_equal_names_get_numbers() {
    let bench = bench();
    bench.write("a.csv", "a,a,b,a_1,a\n1,2,3,4,5\n");
    bench.write("two/a.csv", "a,a,b\n1,2,3\n");
    bench.write("two/b.csv", "a,a,b\n4,5,6\n");
    assert_eq!(
        bench.column("SELECT a * 10000 + a_2 * 1000 + b * 100 + a_1 * 10 + a_3 FROM '~/a.csv'"),
        ["12345"]
    );
    assert_eq!(bench.column("SELECT sum(a_1) FROM '~/two'"), ["7"]);
}

/// A record that does not fit is refused before it is decoded, and wide ones come in small batches.
#[test]
fn records_are_measured_against_the_memory_limit() {
    let bench = Bench::with(Options {
        memory: Some(ByteSize::from_mib(512)),
        threads: Some(2),
        ..Options::default()
    });
    let large = "x".repeat(40 << 20);
    bench.write("large.json", &format!("{{\"a\": 1, \"t\": \"y\"}}\n{{\"a\": 2, \"t\": \"{large}\"}}\n"));
    bench.write("large.csv", &format!("a,t\n1,y\n2,\"{large}\"\n"));
    for file in ["large.json", "large.csv"] {
        let error = bench.refused(&format!("SELECT sum(length(t)) FROM '~/{file}'"));
        assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error}");
        assert!(error.to_string().contains(file), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("--memory")));
    }
    let wide = "x".repeat(400_000);
    let rows: Vec<String> = (0..100).map(|i| format!("{{\"a\": {i}, \"t\": \"{wide}\"}}\n")).collect();
    bench.write("wide.json", &rows.concat());
    bench.sql("CREATE EXTERNAL TABLE wide (a INT, t VARCHAR) STORED AS JSON LOCATION '~/wide.json'");
    for from in ["'~/wide.json'", "wide"] {
        let batches = bench.batches(&format!("SELECT a, t FROM {from} ORDER BY a")).unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 100);
        let batches = bench.batches(&format!("SELECT t FROM {from}")).unwrap();
        assert!(batches.iter().all(|batch| batch.num_rows() < 50), "batches of wide rows are small");
    }
}
