//! Goal: rows of a stream find those of a table at rest, whichever side it stands on, and what cannot be known is refused. Method: a
//! stream of files, whose rows are all there, joined with files of each format.

use std::fs;
use std::path::Path;

use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::prelude::{CsvReadOptions, SessionContext};

use super::start;
use crate::error::{ErrorKind, Result};
use crate::state::MemoryShare;

const ROWS: [(i64, &str); 5] = [(1, "1"), (2, "2"), (3, "null"), (4, "9"), (5, "2")];
const TABLE: &str = "1,one,10\n2,two,20\n2,deux,21\n7,seven,70\n,none,0\n";

fn prepare(folder: &Path) {
    fs::create_dir(folder.join("in")).unwrap();
    let line = |(id, k): &(i64, &str)| format!("{{\"id\":{id},\"k\":{k}}}\n");
    fs::write(folder.join("in/a"), ROWS.iter().map(line).collect::<String>()).unwrap();
    fs::write(folder.join("table.csv"), TABLE).unwrap();
    let fields = TABLE.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let object = |f: Vec<&str>| {
        let key = if f[0].is_empty() { "null" } else { f[0] };
        format!("{{\"key\":{key},\"name\":\"{}\",\"size\":{}}}\n", f[1], f[2])
    };
    fs::write(folder.join("table.json"), fields.map(object).collect::<String>()).unwrap();
    let (csv, parquet) = (folder.join("table.csv"), folder.join("table.parquet"));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async move {
        let context = SessionContext::new();
        let options = CsvReadOptions::new().has_header(false);
        let read = context.read_csv(csv.to_str().unwrap(), options).await.unwrap();
        context.register_table("t", read.into_view()).unwrap();
        let named = context
            .sql("SELECT column_1 AS key, column_2 AS name, CAST(column_3 AS INT) AS size FROM t")
            .await
            .unwrap();
        named.write_parquet(parquet.to_str().unwrap(), DataFrameWriteOptions::new(), None).await.unwrap();
    });
}

fn job(folder: &Path, format: &str, select: &str) -> String {
    let place = folder.display();
    let columns = if format == "parquet" { "" } else { "(key BIGINT, name STRING, size INT)" };
    format!(
        "CREATE STREAM s (id BIGINT, k BIGINT) WITH ('connector' = 'filesystem', 'path' = '{place}/in', 'format' = 'json');\
         CREATE TABLE t {columns} WITH ('connector' = 'filesystem', 'path' = '{place}/table.{format}', 'format' = '{format}');\
         CREATE SINK out WITH ('connector' = 'filesystem', 'path' = '{place}/out', 'format' = 'json');\
         SET trigger = 'available now'; INSERT INTO out {select}"
    )
}

/// Lines that come out, sorted.
fn given(folder: &Path, format: &str, select: &str, memory: MemoryShare) -> Result<Vec<String>> {
    let query = crate::parse_job(&job(folder, format, select))?.remove(0);
    let _ = (fs::remove_dir_all(folder.join("out")), fs::remove_dir_all(folder.join("checkpoint")));
    start(query, &folder.join("checkpoint"), memory, |_| {})?.wait()?;
    let mut lines: Vec<String> = Vec::new();
    for file in fs::read_dir(folder.join("out")).unwrap() {
        lines.extend(fs::read_to_string(file.unwrap().path()).unwrap().lines().map(str::to_owned));
    }
    lines.sort();
    Ok(lines)
}

#[test]
fn rows_of_a_stream_find_those_of_a_table() {
    let place = tempfile::tempdir().unwrap();
    prepare(place.path());
    let pairs = [(1, "one", 10), (2, "deux", 21), (2, "two", 20), (5, "deux", 21), (5, "two", 20)];
    let pair =
        |(id, name, size): &(i64, &str, i64)| format!("{{\"id\":{id},\"name\":\"{name}\",\"size\":{size}}}");
    let inner: Vec<String> = pairs.iter().map(pair).collect();
    let large: Vec<String> = pairs.iter().filter(|(_, _, size)| *size > 20).map(pair).collect();
    let alone = |ids: &[i64]| ids.iter().map(|id| format!("{{\"id\":{id}}}")).collect::<Vec<_>>();
    // JSON leaves out what is null.
    let outer = |pairs: &[String], ids: &[i64]| {
        let mut all: Vec<String> = pairs.iter().cloned().chain(alone(ids)).collect();
        all.sort();
        all
    };
    for format in ["csv", "json", "parquet"] {
        for (select, expected) in [
            ("SELECT id, name, size FROM s JOIN t ON k = key", inner.clone()),
            ("SELECT id, name, size FROM t JOIN s ON k = key", inner.clone()),
            ("SELECT id, name, size FROM s LEFT JOIN t ON k = key", outer(&inner, &[3, 4])),
            ("SELECT id, name, size FROM t RIGHT JOIN s ON k = key", outer(&inner, &[3, 4])),
            ("SELECT id, name, size FROM s JOIN t ON k = key AND size > 20", large.clone()),
            // Sizes of the key 2 are 20 and 21, and no more than 19 + 2.
            ("SELECT id FROM s LEFT JOIN t ON k = key AND size > 19 + k", alone(&[1, 2, 3, 4, 5])),
            ("SELECT id FROM s LEFT SEMI JOIN t ON k = key", alone(&[1, 2, 5])),
            ("SELECT id FROM s LEFT ANTI JOIN t ON k = key", alone(&[3, 4])),
            (
                "SELECT id, name, size FROM s JOIN (SELECT * FROM t WHERE name <> 'two') AS u ON k = key AND id + size > 20",
                large.clone(),
            ),
            ("SELECT id, name, size FROM s JOIN t ON k < key AND size = 70 AND id = 4", Vec::new()),
        ] {
            assert_eq!(
                given(place.path(), format, select, MemoryShare::default()).unwrap(),
                expected,
                "{format}: {select}"
            );
        }
    }
    let all = given(place.path(), "csv", "SELECT id, name FROM s JOIN t ON k < size", MemoryShare::default());
    // Of 1 and 2 all but the size 0, of 9 as many; the null finds none.
    assert_eq!(all.unwrap().len(), 4 * 4);
}

#[test]
fn what_is_not_known_or_does_not_fit_is_refused() {
    let place = tempfile::tempdir().unwrap();
    prepare(place.path());
    for (select, expected) in [
        (
            "SELECT id, name FROM s RIGHT JOIN t ON k = key",
            "a Right join with a stream on the left and a table on the right",
        ),
        ("SELECT id, name FROM s FULL JOIN t ON k = key", "a Full join with a stream"),
        ("SELECT name FROM t", "'t' is a table"),
        (
            "SELECT id FROM s JOIN (SELECT key, size + 1 AS more FROM t) AS u ON k = key AND more > id",
            "arithmetic on a table alone",
        ),
        (
            "SELECT id FROM s JOIN (SELECT key, count(*) AS n FROM t GROUP BY key) AS u ON k = key AND n > id",
            "on a table alone",
        ),
    ] {
        let error = crate::parse_job(&job(place.path(), "csv", select)).unwrap_err();
        assert!(error.to_string().contains(expected), "{select}: {error}");
    }
    let select = "SELECT id, name FROM s JOIN t ON k = key";
    let wrong = job(place.path(), "csv", select);
    for (from, to, expected) in [
        ("/table.csv", "/none.csv", "table 't': cannot read"),
        ("'format' = 'csv'", "'format' = 'orc'", "expected parquet, csv or json"),
        ("(key BIGINT, name STRING, size INT)", "", "name its columns"),
        ("(key BIGINT,", "(key STRING METADATA,", "METADATA"),
        ("CREATE TABLE t", "CREATE TABLE s", "'s'"),
    ] {
        let error = crate::parse_job(&wrong.replace(from, to)).unwrap_err();
        assert!(error.to_string().contains(expected), "{from}: {error}");
    }
    fs::write(place.path().join("table.csv"), "1,one,10\nx,two,20\n").unwrap();
    let error = given(place.path(), "csv", select, MemoryShare::default()).unwrap_err();
    assert!(error.to_string().contains("cannot read a table"), "{error:?}");
    // The process alone has more than a byte.
    let memory = MemoryShare::below(yeoul_base::ByteSize::from_bytes(1)).unwrap();
    let error = given(place.path(), "json", select, memory).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error:?}");
}
