//! Goal: rows of a stream meet those of a table at rest by the rules of SQL, whatever the table's format, and what Spark's analyser
//! refuses is refused. Method: queries over files, whose output is compared line by line.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;

use super::start;
use crate::error::{ErrorKind, Result};
use crate::state::MemoryShare;

const STREAM: &str = "CREATE STREAM s (id BIGINT, k STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH \
    ('connector' = 'filesystem', 'path' = '[IN]', 'format' = 'json');\
    CREATE SINK out WITH ('connector' = 'filesystem', 'path' = '[OUT]', 'format' = 'json');\
    SET trigger = 'available now';";

/// A table of names in this format.
fn table(format: &str) -> String {
    format!(
        "CREATE TABLE names (name STRING, k STRING, rank INT) WITH ('connector' = 'filesystem', 'path' = '[TABLE]', {format});"
    )
}

/// A folder with the stream's rows.
fn folder() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("in")).unwrap();
    let row = |id: i64, k: &str, second: i64| {
        format!("{{\"id\":{id},\"k\":{k},\"ts\":\"2026-01-01T00:00:{second:02}Z\"}}\n")
    };
    let rows =
        [row(1, "\"a\"", 1), row(2, "\"b\"", 2), row(3, "null", 3), row(4, "\"c\"", 4), row(5, "\"a\"", 30)];
    fs::write(place.path().join("in/1"), rows.concat()).unwrap();
    fs::write(
        place.path().join("names.json"),
        "{\"k\":\"a\",\"name\":\"Ann\",\"rank\":1}\n{\"k\":\"a\",\"name\":\"Al\",\"rank\":9}\n\
         {\"k\":\"b\",\"name\":\"Bob\",\"rank\":9}\n{\"name\":\"Nobody\"}\n",
    )
    .unwrap();
    place
}

/// Rows that a query gives, sorted; it has a checkpoint and an output of its own.
fn run(place: &Path, table_file: &str, job: &str) -> Result<Vec<String>> {
    let number = fs::read_dir(place).unwrap().count();
    let (out, at) = (place.join(format!("out{number}")), place.join(format!("at{number}")));
    let text = format!("{STREAM}{job}").replace("[IN]", &place.join("in").display().to_string());
    let text = text.replace("[OUT]", &out.display().to_string());
    let text = text.replace("[TABLE]", &place.join(table_file).display().to_string());
    let query = crate::parse_job(&text)?.remove(0);
    start(query, &at, MemoryShare::default(), |_| {})?.wait()?;
    let mut rows: Vec<String> = Vec::new();
    for file in fs::read_dir(out).unwrap() {
        rows.extend(fs::read_to_string(file.unwrap().path()).unwrap().lines().map(str::to_owned));
    }
    rows.sort();
    Ok(rows)
}

const JSON: &str = "'format' = 'json'";

#[test]
fn rows_meet_those_of_the_table_with_an_equal_key() {
    let place = folder();
    let run = |select: &str| {
        run(place.path(), "names.json", &format!("{}INSERT INTO out {select}", table(JSON))).unwrap()
    };
    assert_eq!(
        run("SELECT id, name FROM s JOIN names ON s.k = names.k"),
        [
            "{\"id\":1,\"name\":\"Al\"}",
            "{\"id\":1,\"name\":\"Ann\"}",
            "{\"id\":2,\"name\":\"Bob\"}",
            "{\"id\":5,\"name\":\"Al\"}",
            "{\"id\":5,\"name\":\"Ann\"}"
        ]
    );
    assert_eq!(
        run("SELECT id, name FROM s LEFT JOIN names ON s.k = names.k AND rank > 5 AND id < 4"),
        [
            "{\"id\":1,\"name\":\"Al\"}",
            "{\"id\":2,\"name\":\"Bob\"}",
            "{\"id\":3}",
            "{\"id\":4}",
            "{\"id\":5}"
        ]
    );
    assert_eq!(
        run("SELECT id FROM s LEFT SEMI JOIN names ON s.k = names.k"),
        ["{\"id\":1}", "{\"id\":2}", "{\"id\":5}"]
    );
    // Null equals nothing; a condition that fails is no match.
    assert_eq!(
        run("SELECT id FROM s LEFT ANTI JOIN names ON s.k = names.k AND rank < 5"),
        ["{\"id\":2}", "{\"id\":3}", "{\"id\":4}"]
    );
    assert_eq!(
        run("SELECT rank, id, name FROM names RIGHT JOIN s ON s.k = names.k AND rank > 5 AND id < 4"),
        [
            "{\"id\":3}",
            "{\"id\":4}",
            "{\"id\":5}",
            "{\"rank\":9,\"id\":1,\"name\":\"Al\"}",
            "{\"rank\":9,\"id\":2,\"name\":\"Bob\"}"
        ]
    );
    // The table may stand on the left of an inner join, and may be filtered and computed before.
    assert_eq!(
        run(
            "SELECT id, rank FROM (SELECT upper(k) AS up, rank FROM names WHERE rank > 5) AS t JOIN s ON t.up = upper(s.k)"
        ),
        ["{\"id\":1,\"rank\":9}", "{\"id\":2,\"rank\":9}", "{\"id\":5,\"rank\":9}"]
    );
    // Twice with itself.
    assert_eq!(
        run(
            "SELECT id, b.name FROM s JOIN names AS a ON s.k = a.k AND a.rank < 5 JOIN names AS b ON a.k = b.k AND b.rank > 5"
        ),
        ["{\"id\":1,\"name\":\"Al\"}", "{\"id\":5,\"name\":\"Al\"}"]
    );
}

#[test]
fn each_format_gives_the_same_rows() {
    let place = folder();
    let columns: [(&str, ArrayRef); 4] = [
        ("more", Arc::new(Int32Array::from(vec![0, 0]))),
        ("k", Arc::new(StringArray::from(vec![Some("a"), None]))),
        ("rank", Arc::new(Int32Array::from(vec![7, 8]))),
        ("name", Arc::new(StringArray::from(vec!["Ann", "Nobody"]))),
    ];
    let rows = RecordBatch::try_from_iter(columns).unwrap();
    fs::create_dir(place.path().join("parquet")).unwrap();
    let mut writer =
        ArrowWriter::try_new(File::create(place.path().join("parquet/1")).unwrap(), rows.schema(), None)
            .unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
    fs::write(place.path().join("parquet/_SUCCESS"), "").unwrap();
    fs::write(place.path().join("t.csv"), "name|k|rank\nAnn|a|7\nNobody||8\n").unwrap();
    fs::write(
        place.path().join("t.json"),
        "{\"k\":\"a\",\"name\":\"Ann\",\"rank\":7}\n{\"name\":\"Nobody\",\"rank\":8}\n",
    )
    .unwrap();
    for (file, format) in [
        ("parquet", "'format' = 'parquet'"),
        ("t.csv", "'format' = 'csv', 'sep' = '|', 'header' = 'true'"),
        ("t.json", JSON),
    ] {
        let job = format!(
            "{}INSERT INTO out SELECT id, name, rank FROM s JOIN names ON s.k = names.k",
            table(format)
        );
        let expected = ["{\"id\":1,\"name\":\"Ann\",\"rank\":7}", "{\"id\":5,\"name\":\"Ann\",\"rank\":7}"];
        assert_eq!(run(place.path(), file, &job).unwrap(), expected, "{file}");
    }
}

#[test]
fn event_time_goes_on_behind_the_join() {
    let place = folder();
    let job = format!(
        "{}CREATE VIEW named AS SELECT ts, name FROM s JOIN names ON s.k = names.k AND rank < 5;\
         INSERT INTO out SELECT window_end, name, count(*) AS n FROM TUMBLE(TABLE named, DESCRIPTOR(ts), INTERVAL '10' SECOND) \
         GROUP BY window_end, name EMIT ON WINDOW CLOSE",
        table(JSON)
    );
    // The window of the last row is not over.
    assert_eq!(
        run(place.path(), "names.json", &job).unwrap(),
        ["{\"window_end\":\"2026-01-01T00:00:10Z\",\"name\":\"Ann\",\"n\":1}"]
    );
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let place = folder();
    for (select, expected) in [
        (
            "SELECT id FROM names LEFT JOIN s ON s.k = names.k",
            "a LEFT OUTER join with a stream on the right and a table at rest",
        ),
        (
            "SELECT name FROM s RIGHT JOIN names ON s.k = names.k",
            "a RIGHT OUTER join with a stream on the left",
        ),
        (
            "SELECT name FROM s FULL JOIN names ON s.k = names.k",
            "a FULL OUTER join of a stream and a table at rest",
        ),
        (
            "SELECT names.k FROM names LEFT ANTI JOIN s ON s.k = names.k",
            "join of a stream and a table at rest is not there yet",
        ),
        ("SELECT name FROM s JOIN names ON s.id > names.rank", "without an equality is not there yet"),
        ("SELECT name FROM names", "the table 'names' is at rest: it can only be joined with a stream"),
        ("SELECT DISTINCT name FROM names", "the table 'names' is at rest"),
        ("SELECT a.name FROM names AS a JOIN names AS b ON a.k = b.k", "a join of two tables at rest"),
    ] {
        let error =
            run(place.path(), "names.json", &format!("{}INSERT INTO out {select}", table(JSON))).unwrap_err();
        assert!(
            error.kind() == ErrorKind::Invalid && error.to_string().contains(expected),
            "{select}: {error}"
        );
    }
    let select = "INSERT INTO out SELECT id FROM s JOIN names ON s.k = names.k";
    for (definition, expected) in [
        (
            table("'format' = 'orc'"),
            "table 'names': the option 'format' is 'orc', expected parquet, csv or json",
        ),
        (
            table("'format' = 'json', 'header' = 'true'"),
            "table 'names': the option 'header' is not honoured here",
        ),
        (
            "CREATE TABLE names WITH ('connector' = 'filesystem');".to_owned(),
            "table 'names': it names no columns",
        ),
        (
            "CREATE TABLE names (k STRING, WATERMARK FOR k AS k) WITH ('connector' = 'filesystem');"
                .to_owned(),
            "table 'names': a table at rest has no watermark",
        ),
    ] {
        let error = run(place.path(), "names.json", &format!("{definition}{select}")).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_table_that_cannot_be_read_ends_the_query_by_its_name() {
    let place = folder();
    let job = |format: &str| {
        format!("{}INSERT INTO out SELECT id FROM s JOIN names ON s.k = names.k", table(format))
    };
    let error = run(place.path(), "none.json", &job(JSON)).unwrap_err();
    assert!(error.kind() == ErrorKind::NotFound && error.to_string().contains("none.json"), "{error}");
    let at =
        fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().path().join("out/yeoul/manifests"));
    assert!(
        at.filter_map(|at| fs::read_dir(at).ok()).all(|mut at| at.next().is_none()),
        "nothing is taken over"
    );
    fs::write(place.path().join("t.csv"), "k,name,rank\na,Ann,7\n").unwrap();
    let error = run(place.path(), "t.csv", &job("'format' = 'csv', 'header' = 'true'")).unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("t.csv"), "{error}");
    let columns: [(&str, ArrayRef); 1] = [("k", Arc::new(StringArray::from(vec!["a"])))];
    let rows = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer =
        ArrowWriter::try_new(File::create(place.path().join("t.parquet")).unwrap(), rows.schema(), None)
            .unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
    let error = run(place.path(), "t.parquet", &job("'format' = 'parquet'")).unwrap_err();
    assert!(format!("{error:?}").contains("it has no column 'name'"), "{error:?}");
}
