//! Goal: a Parquet file whose values are large is read in small batches, or refused before it is decoded. Method: files that are written
//! without a limit, with texts that are alike and texts that are not, and read with one.

use datafusion::arrow::array::RecordBatch;

use super::*;

fn limited(mib: u64) -> Bench {
    let memory = Some(ByteSize::from_mib(mib));
    Bench::with(Options { memory, threads: Some(2), ..Options::default() })
}

/// A bench with a file of texts of so many bytes: each different, or all the same.
fn written(rows: usize, length: usize, is_same: bool) -> (Bench, String) {
    let bench = Bench::new();
    let last = if is_same { "" } else { " || value" };
    let path = bench.path().join("large.parquet").display().to_string();
    bench.sql(&format!(
        "COPY (SELECT value AS n, repeat('a', {length}){last} AS t FROM generate_series(1, {rows})) TO '{path}'"
    ));
    (bench, path)
}

#[test]
fn batches_of_wide_rows_have_few_rows() {
    for is_same in [true, false] {
        let (_written, path) = written(100, 100_000, is_same);
        let rows = |bench: &Bench, columns: &str| {
            let batches = bench.batches(&format!("SELECT {columns} FROM '{path}'")).unwrap();
            assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 100);
            batches.iter().map(RecordBatch::num_rows).max().unwrap()
        };
        let bench = limited(256);
        assert!(rows(&bench, "t") < 50, "of texts by a dictionary, too: {is_same}");
        assert_eq!(rows(&bench, "n"), 100, "of the columns that are read");
        assert_eq!(rows(&Bench::new(), "t"), 100);
    }
}

#[test]
fn a_value_without_room_is_refused_with_a_limit_that_has_it() {
    for is_same in [true, false] {
        let (_written, path) = written(3, 60_000_000, is_same);
        // One that statistics may prune has another reader.
        let pruned = format!("SELECT count(*) FROM '{path}' WHERE t <> 'b'");
        assert!(limited(256).refused(&pruned).to_string().starts_with("decoding the values of "));
        let sql = format!("SELECT max(length(t)) FROM '{path}'");
        let error = limited(256).refused(&sql);
        assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error}");
        assert!(error.to_string().starts_with("decoding the values of "), "{error}");
        let hint = error.hint().unwrap();
        let flag =
            hint.strip_prefix("--memory ").and_then(|rest| rest.strip_suffix(" would have room for that"));
        let named: ByteSize = flag.expect(hint).parse().unwrap();
        assert!(named.as_u64() < 2 << 30, "{hint}");
        let answer = limited(named.as_u64() >> 20).column(&sql);
        assert_eq!(answer, [(60_000_000 + usize::from(!is_same)).to_string()]);
    }
}

#[test]
fn batches_of_wide_records_have_few_rows_above_the_scan_too() {
    let bench = limited(256);
    let text = "x".repeat(100_000);
    let lines = |line: &dyn Fn(usize) -> String| (0..100).map(line).collect::<String>();
    bench.write("wide.csv", &format!("n,t\n{}", lines(&|n| format!("{n},{text}\n"))));
    bench.write("wide.json", &lines(&|n| format!("{{\"n\": {n}, \"t\": \"{text}\"}}\n")));
    bench.write("narrow.csv", &format!("n,t\n{}", lines(&|n| format!("{n},x\n"))));
    for (file, is_wide) in [("wide.csv", true), ("wide.json", true), ("narrow.csv", false)] {
        let plan = bench.sql(&format!("EXPLAIN SELECT max(t) FROM '~/{file}'"));
        assert_eq!(plan.contains("BatchRowsExec: rows="), is_wide, "{file}: {plan}");
        let longest = format!("SELECT max(length(t)) FROM '~/{file}'");
        assert_eq!(bench.column(&longest), [if is_wide { "100000" } else { "1" }], "{file}");
    }
}
