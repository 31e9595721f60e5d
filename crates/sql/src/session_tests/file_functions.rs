//! Files that a function reads.

use super::*;

#[test]
fn a_function_reads_a_file_whatever_its_name_is() {
    let bench = Bench::new();
    bench.sql("COPY (SELECT value AS n FROM generate_series(1, 3)) TO '~/p.parquet'");
    std::fs::rename(bench.path().join("p.parquet"), bench.path().join("p.bin")).unwrap();
    bench.write("a.txt", "n\n4\n5\n");
    bench.write("a.log", "{\"n\": 6}\n{\"n\": 7}\n");
    for (call, sum) in [
        ("read_parquet('~/p.bin')", "6"),
        ("parquet_scan('~/*.bin')", "6"),
        ("read_csv('~/a.txt')", "9"),
        ("READ_CSV_AUTO('~/a.txt')", "9"),
        ("read_json('~/a.log')", "13"),
        ("read_json_auto('~/a.log')", "13"),
        ("read_ndjson('~/a.log')", "13"),
    ] {
        assert_eq!(bench.column(&format!("SELECT sum(n) FROM {call}")), [sum], "{call}");
        assert_eq!(bench.column(&format!("SELECT sum(t.n) FROM {call} AS t")), [sum], "{call}");
    }
    assert_eq!(
        bench.column("SELECT a.n + b.n FROM read_csv('~/a.txt') a, read_parquet('~/p.bin') b WHERE a.n = b.n + 2 ORDER BY 1"),
        ["6", "8"]
    );
    bench.sql("CREATE VIEW v AS SELECT * FROM read_csv('~/a.txt')");
    bench.write("a.txt", "n\n4\n5\n1\n");
    assert_eq!(bench.column("SELECT sum(n) FROM v"), ["10"]);
}

#[test]
fn a_csv_file_tells_its_layout_by_its_records() {
    let bench = Bench::new();
    bench.write("semicolon.csv", "a;b\n1;x,y\n2;z\n");
    bench.write("tab.csv", "1\tx\n2\ty\n");
    bench.write("wide.csv", &format!("{}1\n{}2\n", "3,".repeat(10), "4,".repeat(10)));
    bench.write("quoted.csv", "'a''s'|'b'\n'1'|'x|y'\n");
    bench.write("escaped.csv", "a,b\n\"say \\\"hi, you\\\"\",1\nx,2\n");
    bench.write("report.csv", "Sales of \"2024\"\n\na;b\n1;x\n2;y\n3;z\n");
    for file in ["'~/{}'", "read_csv('~/{}')"] {
        let answers = |select: &str, name: &str, expected: &[&str]| {
            let sql = format!("SELECT {select} FROM {} ORDER BY 1", file.replace("{}", name));
            assert_eq!(bench.column(&sql), expected, "{sql}");
        };
        answers("a || b", "semicolon.csv", &["1x,y", "2z"]);
        answers("column0 || column1", "tab.csv", &["1x", "2y"]);
        answers("sum(column10)", "wide.csv", &["3"]);
        answers("sum(column00)", "wide.csv", &["7"]);
        answers("b || \"a's\"", "quoted.csv", &["x|y1"]);
        answers("a", "escaped.csv", &["say \"hi, you\"", "x"]);
        answers("a || b", "report.csv", &["1x", "2y", "3z"]);
    }
    bench.write("index.csv", ", a ,b\n0,1,2\n");
    assert_eq!(bench.column("SELECT column0 + a + b FROM '~/index.csv'"), ["3"]);
    std::fs::write(bench.path().join("utf16.csv"), b"\xFF\xFEa\0\n\0").unwrap();
    let error = bench.refused("SELECT * FROM '~/utf16.csv'");
    assert!(error.to_string().contains("UTF-16"), "{error}");
}

#[test]
fn read_csv_is_told_what_it_cannot_see() {
    let bench = Bench::new();
    bench.write("a.csv", "a,b\n1,2\n3,4\n");
    bench.write("odd.txt", "x^y\n% note\n'1^2'^NA\n3^-\n");
    bench.write("ragged.csv", "a,b,c\n1,2\n3,4,5\n6\n");
    let odd = "read_csv('~/odd.txt', sep = '^', quote = '''', comment = '%', nullstr = ['NA', '-'])";
    for (call, columns, count) in [
        ("read_csv('~/a.csv', header = false)", "column0 VARCHAR, column1 VARCHAR", 3),
        ("read_csv('~/a.csv', skip = 1)", "column0 BIGINT, column1 BIGINT", 2),
        ("read_csv('~/a.csv', skip = 1, header = true)", "1 BIGINT, 2 BIGINT", 1),
        ("read_csv('~/a.csv', names = ['x'])", "x BIGINT, b BIGINT", 2),
        ("read_csv('~/a.csv', types = {'B': 'DOUBLE'})", "a BIGINT, b DOUBLE", 2),
        ("read_csv('~/a.csv', dtypes = ['INT', 'DECIMAL(5,2)'])", "a INTEGER, b DECIMAL(5,2)", 2),
        ("read_csv('~/a.csv', all_varchar = true)", "a VARCHAR, b VARCHAR", 2),
        ("read_csv('~/a.csv', columns = {'x': 'VARCHAR', 'y': 'INT'})", "x VARCHAR, y INTEGER", 2),
        ("read_csv('~/a.csv', delim = ';')", "a,b VARCHAR", 2),
        (odd, "x VARCHAR, y VARCHAR", 2),
        ("read_csv('~/ragged.csv', null_padding = true)", "a BIGINT, b BIGINT, c BIGINT", 3),
    ] {
        assert_eq!(described(&bench, call), columns, "{call}");
        assert_eq!(bench.column(&format!("SELECT count(*) FROM {call}")), [count.to_string()], "{call}");
    }
    assert_eq!(bench.column(&format!("SELECT count(y) FROM {odd}")), ["0"]);
    assert_eq!(bench.column(&format!("SELECT x FROM {odd} WHERE x LIKE '1%'")), ["1^2"]);
    assert_eq!(bench.column("SELECT sum(c) FROM read_csv('~/ragged.csv', null_padding = true)"), ["5"]);
    let error = bench.refused("SELECT * FROM '~/ragged.csv'").to_string();
    assert_eq!(error, "line 2 of 'ragged.csv' has 2 values, and 3 are expected");
    bench.write("wide.csv", &format!("{}1,2,3\n", "1,2\n".repeat(20_000)));
    let error = bench.refused("SELECT * FROM '~/wide.csv'").to_string();
    assert_eq!(error, "line 20001 of 'wide.csv' has 3 values, and 2 are expected");
    bench.write("late.csv", &format!("title\n\na,b\n{}5\n", "1,2\n".repeat(30_000)));
    let error = bench.refused("SELECT sum(a) FROM '~/late.csv'").to_string();
    assert_eq!(error, "record 30002 of 'late.csv' has 1 value, and 2 are expected");
    let error = bench.refused("INSERT INTO \"read_csv(['~/a.csv'])\" VALUES (3, 4)");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

/// The columns that a query describes, as `name TYPE, …`.
fn described(bench: &Bench, call: &str) -> String {
    let described = bench.sql(&format!("DESCRIBE SELECT * FROM {call}"));
    let rows = described.lines().skip(3).filter(|line| line.starts_with('|'));
    let cells = |line: &str| line.split('|').skip(1).take(2).map(str::trim).collect::<Vec<_>>().join(" ");
    rows.map(cells).collect::<Vec<_>>().join(", ")
}

#[test]
fn values_of_a_csv_file_tell_the_types_of_its_columns() {
    let bench = Bench::new();
    bench.write(
        "blanks.csv",
        "a, b, c, d, e\n1, 1.5, 2024-01-05, x,12:30:00\n 2,2 , 2024-02-29 , y, 13:00:00.5\n",
    );
    assert_eq!(described(&bench, "'~/blanks.csv'"), "a BIGINT, b DOUBLE, c DATE, d VARCHAR, e TIME");
    assert_eq!(
        bench.column("SELECT concat_ws(',', sum(a), sum(b), max(c), max(d), max(e)) FROM '~/blanks.csv'"),
        ["3,3.5,2024-02-29, y,13:00:00.5"]
    );
    bench.write(
        "zoned.csv",
        "at,n\n2024-01-05 12:30:00+02,170141183460469231731687303715884105\n2024-01-05T12:30:00Z,1\n",
    );
    assert_eq!(described(&bench, "'~/zoned.csv'"), "at TIMESTAMP WITH TIME ZONE, n DECIMAL(38,0)");
    assert_eq!(
        bench.column("SELECT max(at) - min(at) = INTERVAL '2 hours' AND sum(n) = 170141183460469231731687303715884106 FROM '~/zoned.csv'"),
        ["true"]
    );
    // No day of the calendar, and times of which some have a zone.
    bench.write("texts.csv", "a,b\n2023-02-29,2024-01-05 12:30:00\n2023-02-28,2024-01-05 12:30:00Z\n");
    assert_eq!(described(&bench, "'~/texts.csv'"), "a VARCHAR, b VARCHAR");
    // However the file comes in pieces: fractions of a second in some of them.
    let at =
        |n: usize| format!("{n},2024-01-05 12:30:00{}\n", if n.is_multiple_of(5000) { ".5" } else { "" });
    bench.write("pieces.csv", &format!("n,at\n{}", (1..=15_000).map(at).collect::<String>()));
    assert_eq!(described(&bench, "'~/pieces.csv'"), "n BIGINT, at TIMESTAMP");
    // Files of one table that differ in the kind of their numbers.
    bench.write("many/a.csv", "n,at\n1,2024-01-05\n");
    bench.write("many/b.csv", "n,at\n2.5,2024-01-05 06:00:00\n");
    assert_eq!(described(&bench, "'~/many/*.csv'"), "n DOUBLE, at TIMESTAMP");
    assert_eq!(
        bench.column("SELECT concat(sum(n), ' ', max(at)) FROM '~/many/*.csv'"),
        ["3.5 2024-01-05 06:00:00"]
    );
}

#[test]
fn a_later_value_of_another_kind_is_refused() {
    let bench = Bench::new();
    for (first, later, what) in [
        ("2024-01-05 12:30:00", "2024-01-05 12:30:00+02", "a time without an offset"),
        ("2024-01-05 12:30:00", "soon", "a date and a time"),
        ("2024-01-05 12:30:00Z", "2024-02-30 12:30:00Z", "a date and a time"),
        ("12:30:00", "noon", "a time of day"),
        ("1.5", "1.5.5", "a number"),
        ("1.5", "1e400", "a number"),
        ("1.5", "007", "a number without leading zeros"),
        ("9223372036854775808", "1.5", "a whole number of 38 digits"),
    ] {
        bench.write("t.csv", &format!("a\n{}{later}\n", format!("{first}\n").repeat(20_480)));
        let error = bench.refused("SELECT count(a) FROM '~/t.csv'");
        assert!(
            error.to_string().contains(&format!("'a' is '{later}' in one record, and {what}")),
            "{error}"
        );
        let all = "read_csv('~/t.csv', sample_size = -1)";
        assert_eq!(bench.column(&format!("SELECT count(a) FROM {all}")), ["20481"], "{later}");
    }
    bench.write("latin.csv", "a\n1\n");
    std::fs::write(bench.path().join("latin.csv"), b"a,b\n1,x\n2,caf\xE9\n").unwrap();
    let error = bench.refused("SELECT * FROM '~/latin.csv'");
    assert_eq!(error.to_string(), "line 3 of 'latin.csv' is not UTF-8");
    assert!(error.hint().is_some_and(|hint| hint.contains("iconv")), "{error:?}");
}

#[test]
fn a_value_that_later_rows_have_widens_a_type() {
    let bench = Bench::new();
    let rows = |count: usize| format!("n\n{}2.5\n", "1\n".repeat(count));
    bench.write("late.csv", &rows(15_000));
    bench.write("later.csv", &rows(30_000));
    assert_eq!(bench.column("SELECT sum(n) FROM '~/late.csv'"), ["15002.5"]);
    let error = bench.refused("SELECT sum(n) FROM '~/later.csv'").to_string();
    assert!(error.contains("'n' is") && error.contains("2.5"), "{error}");
    assert_eq!(bench.column("SELECT sum(n) FROM read_csv('~/later.csv', sample_size = -1)"), ["30002.5"]);
}

#[test]
fn several_files_are_one_table() {
    let bench = Bench::new();
    bench.write("a.csv", "n,s\n1,x\n");
    bench.write("b.csv", "n,s\n2,y\n");
    bench.write("d/y=1/a.csv", "n\n1\n");
    bench.write("d/y=2/a.csv", "n\n2\n");
    bench.sql("COPY (SELECT 1 AS a, 'x' AS b) TO '~/1.parquet'");
    bench.sql("COPY (SELECT 'y' AS b, 2.5 AS c) TO '~/2.parquet'");
    assert_eq!(bench.column("SELECT sum(n) FROM read_csv(['~/a.csv', '~/b.csv', '~/a.csv'])"), ["4"]);
    let files = "read_csv(['~/b.csv', '~/a.csv'], filename = true)";
    let (a, b) = (bench.path().join("a.csv"), bench.path().join("b.csv"));
    let (a, b) = (a.to_string_lossy().into_owned(), b.to_string_lossy().into_owned());
    assert_eq!(bench.column(&format!("SELECT filename FROM {files} ORDER BY n")), [a.as_str(), &b]);
    assert_eq!(bench.column(&format!("SELECT n FROM {files} WHERE filename LIKE '%b.csv'")), ["2"]);
    assert_eq!(bench.column("SELECT p FROM read_csv('~/a.csv', filename = 'p')"), [a]);
    assert_eq!(bench.column("SELECT sum(n * y) FROM read_csv('~/d')"), ["5"]);
    let error = bench.refused("SELECT y FROM read_csv('~/d', hive_partitioning = false)");
    assert!(error.to_string().contains('y'), "{error}");
    let error = bench.refused("SELECT * FROM read_parquet('~/*.parquet')");
    assert!(error.to_string().contains("not of one table"), "{error}");
    let united = "read_parquet('~/*.parquet', union_by_name = true)";
    let row = "concat_ws(' ', coalesce(a, 0), b, coalesce(c, 0))";
    assert_eq!(bench.column(&format!("SELECT {row} FROM {united} ORDER BY 1")), ["0 y 2.5", "1 x 0.0"]);
    let error = bench.refused("SELECT * FROM read_csv('~/a.csv', filename = 's')");
    assert!(error.to_string().contains("'s' of their own"), "{error}");
}

#[test]
fn json_is_read_in_every_form() {
    let bench = Bench::new();
    let (one, two) = (r#"{"b": 1, "a": "x"}"#, r#"{"b": 2, "a": "y", "c": [1]}"#);
    bench.write("lines.json", &format!("{one}\n{two}\n"));
    bench.write("array.json", &format!("[{one},\n {two}]\n"));
    bench.write("one.json", &format!("{one} {two}"));
    let pretty = |object: &str| object.replace(", ", ",\n  ").replace('{', "{\n  ").replace('}', "\n}");
    bench.write("pretty.json", &format!("[\n{},\n{}\n]", pretty(one), pretty(two)));
    let expected = bench.sql("SELECT * FROM '~/lines.json' ORDER BY b");
    assert!(expected.lines().nth(1).unwrap().starts_with("| b | a | c"), "{expected}");
    bench.write("mark.json", &format!("\u{feff}{one}\n{two}\n"));
    for file in ["array", "one", "pretty", "mark"] {
        for call in [format!("'~/{file}.json'"), format!("read_json('~/{file}.json')")] {
            assert_eq!(bench.sql(&format!("SELECT * FROM {call} ORDER BY b")), expected, "{call}");
            assert_eq!(bench.column(&format!("SELECT count(*) FROM {call}")), ["2"], "{call}");
        }
    }
    bench.write("mixed.json", "{\"n\": 1}\n{\"n\": \"x\"}\n{\"n\": 18446744073709551615}");
    assert_eq!(bench.column("SELECT n FROM '~/mixed.json' ORDER BY n"), ["1", "18446744073709551615", "x"]);
    bench.write("large.json", "{\"n\": 1}\n{\"n\": 18446744073709551615}\n");
    assert_eq!(bench.column("SELECT max(n) FROM '~/large.json'"), ["18446744073709551615"]);
    bench.write("late.json", &format!("{}{{\"n\": 1, \"late\": 2}}\n", "{\"n\": 1}\n".repeat(15_000)));
    assert_eq!(bench.column("SELECT sum(late) FROM '~/late.json'"), ["2"]);
    let call = "read_json('~/mixed.json', columns = {'n': 'VARCHAR', 'm': 'INT'})";
    assert_eq!(bench.column(&format!("SELECT count(n) || ' ' || count(m) FROM {call}")), ["3 0"]);
    for (text, kind) in [
        ("[{\"a\": 1}", ErrorKind::Corrupt),
        ("{\"a\": 1", ErrorKind::Corrupt),
        ("[1, 2]", ErrorKind::Invalid),
        ("{\"a\": {}} {\"a\": 1}", ErrorKind::Invalid),
    ] {
        bench.write("bad.json", text);
        assert_eq!(bench.refused("SELECT * FROM '~/bad.json'").kind(), kind, "{text}");
    }
}

/// A large file is read in parts if each line is an object, and whole if not.
#[test]
fn a_large_file_of_objects_over_many_lines_is_read_whole() {
    let bench = Bench::new();
    let filler = "x".repeat(1000);
    let object = |n: u64| format!("{{\n\"n\": {n},\n\"s\": \"{filler}\"\n}}");
    let objects: Vec<String> = (0..12_000).map(object).collect();
    bench.write("array.json", &format!("[{}]", objects.join(",")));
    bench.write("pretty.json", &objects.join("\n"));
    for file in ["array", "pretty"] {
        let sql = format!("SELECT count(*) || ' ' || sum(n) FROM '~/{file}.json'");
        assert_eq!(bench.column(&sql), [format!("12000 {}", 6_000 * 11_999)]);
    }
}

#[test]
fn an_option_or_function_that_is_not_honoured_is_refused_by_its_name() {
    let bench = Bench::new();
    bench.write("a.csv", "a,b\n1,2\n");
    bench.write("empty.bin", "");
    for (call, what) in [
        ("read_csv('~/a.csv', ignore_errors = true)", "'ignore_errors' of read_csv"),
        ("read_csv('~/a.csv', delim = '||')", "'delim' of read_csv"),
        ("read_csv('~/a.csv', header = 'maybe')", "'header' of read_csv"),
        ("read_csv('~/a.csv', auto_detect = false)", "'auto_detect' of read_csv"),
        ("read_csv('~/a.csv', union_by_name = true)", "'union_by_name' of read_csv"),
        ("read_csv('~/a.csv', types = {'c': 'INT'})", "no column 'c'"),
        ("read_csv('~/a.csv', types = {'a': 'INTEGERS'})", "'INTEGERS' is no type"),
        ("read_csv('~/a.csv', types = {'a': 'INT) + CAST(1 AS INT'})", "no type"),
        ("read_csv('~/a.csv', types = {'a': 'INT[]'})", "INTEGER[] in CSV"),
        ("read_csv('~/a.csv', names = ['b'])", "two columns"),
        ("read_csv('~/a.csv', columns = {'a': 'INT'})", "'columns' names 1"),
        ("read_csv('~/a.csv', names = ['x', 'y', 'z'])", "'names' has 3"),
        ("read_csv(['~/a.csv', 'https://h/a.csv'])", "not in one store"),
        ("read_parquet('~/a.csv', skip = 1)", "'skip' of read_parquet"),
        ("read_json('~/a.csv', format = 'xml')", "'format' of read_json"),
        ("read_text('~/a.csv')", "read_text"),
        ("glob('~/a.csv', sorted = true)", "'sorted' of glob"),
        ("parquet_schema('~/a.csv')", "a.csv"),
        ("read_parquet('~/empty.bin')", "is empty"),
        ("read_csv('~/b.csv')", "there is no file"),
    ] {
        let error = bench.refused(&format!("SELECT * FROM {call}"));
        assert!(error.to_string().contains(what), "{call}: {error}");
    }
}

#[test]
fn functions_tell_what_files_say_of_themselves() {
    let bench = Bench::new();
    bench.sql("COPY (SELECT value AS n, 'x' || value AS s, [value] AS l FROM generate_series(1, 3)) TO '~/p.parquet'");
    let path = bench.path().join("p.parquet").to_string_lossy().into_owned();
    assert_eq!(bench.column("SELECT file FROM glob('~/*.parquet')"), [path.as_str()]);
    assert_eq!(bench.column("SELECT count(*) FROM glob('~/*.csv')"), ["0"]);
    assert_eq!(
        bench.column("SELECT name || ' ' || coalesce(type, '-') FROM parquet_schema('~/p.parquet') WHERE num_children IS NULL"),
        ["n INT64", "s BYTE_ARRAY", "item INT64"]
    );
    assert_eq!(
        bench.column("SELECT concat_ws(' ', path_in_schema, num_values, stats_min_value, stats_max_value, stats_null_count) FROM parquet_metadata('~/p.parquet')"),
        ["n 3 1 3 0", "s 3 x1 x3 0", "l, list, item 3 1 3 0"]
    );
    assert_eq!(
        bench.column("SELECT num_rows * num_row_groups FROM parquet_file_metadata('~/p.parquet')"),
        ["3"]
    );
    assert_eq!(bench.column("SELECT key FROM parquet_kv_metadata('~/p.parquet')"), ["ARROW:schema"]);
    bench.sql("CREATE VIEW files AS SELECT * FROM glob('~/*.parquet')");
    bench.sql("COPY (SELECT 1 AS n) TO '~/q.parquet'");
    assert_eq!(bench.column("SELECT count(*) FROM files"), ["2"]);
}
