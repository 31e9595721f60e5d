//! Goal: a query over files gives batches of the same files whatever dies between them, and writes each batch once. Method: a windowed
//! count over a directory; after its end markers are taken from the checkpoint, which is what a process leaves that is killed before it
//! sets them, and older files come before it starts again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use super::start;
use crate::error::{ErrorKind, Result};
use crate::state::MemoryShare;

fn put(folder: &Path, name: &str, second: u64, rows: &[(u64, &str)]) {
    let path = folder.join("in").join(name);
    let line = |(ts, k): &(u64, &str)| format!("{{\"ts\":\"2026-01-01T00:00:{ts:02}Z\",\"k\":\"{k}\"}}\n");
    fs::write(&path, rows.iter().map(line).collect::<String>()).unwrap();
    let time = UNIX_EPOCH + Duration::from_secs(1_700_000_000 + second);
    File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
}

fn run(folder: &Path, select: &str) -> Result<()> {
    let place = folder.display();
    let job = format!(
        "CREATE STREAM s (ts TIMESTAMP, k STRING, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH \
         ('connector' = 'filesystem', 'path' = '{place}/in', 'format' = 'json', 'maxFilesPerTrigger' = '1');\
         CREATE SINK counts WITH ('connector' = 'filesystem', 'path' = '{place}/out', 'format' = 'json');\
         SET trigger = 'available now'; INSERT INTO counts {select}"
    );
    let query = crate::parse_job(&job).unwrap().remove(0);
    start(query, &folder.join("checkpoint"), MemoryShare::default(), |_| {})?.wait()
}

const COUNTS: &str = "SELECT window_start, k, count(*) AS n FROM TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' SECOND) \
                      GROUP BY window_start, k EMIT ON WINDOW CLOSE";

/// Rows of each batch that was written, sorted, with its number.
fn written(folder: &Path) -> BTreeMap<u64, Vec<String>> {
    let files = fs::read_dir(folder.join("out")).unwrap().map(|entry| entry.unwrap());
    let batch = |file: fs::DirEntry| {
        let name = file.file_name().into_string().unwrap();
        let number = name.strip_prefix("batch-").unwrap().strip_suffix(".json").unwrap().parse().unwrap();
        let mut rows: Vec<String> =
            fs::read_to_string(file.path()).unwrap().lines().map(str::to_owned).collect();
        rows.sort();
        (number, rows)
    };
    files.map(batch).collect()
}

fn inputs(folder: &Path) {
    fs::create_dir(folder.join("in")).unwrap();
    put(folder, "c", 1, &[(1, "a"), (2, "b")]);
    put(folder, "b", 2, &[(3, "a"), (15, "b")]);
    put(folder, "a", 3, &[(9, "a"), (30, "c")]);
}

#[test]
fn each_file_is_a_batch_and_an_empty_one_follows() {
    let place = tempfile::tempdir().unwrap();
    inputs(place.path());
    run(place.path(), COUNTS).unwrap();
    let row = |second: u64, k: &str, n: u64| {
        format!("{{\"window_start\":\"2026-01-01T00:00:{second:02}Z\",\"k\":\"{k}\",\"n\":{n}}}")
    };
    // The watermark is at 13 s after the second file, when the first windows go with what the third adds to them, and at 28 s after that.
    let expected = BTreeMap::from([
        (1, Vec::new()),
        (2, Vec::new()),
        (3, vec![row(0, "a", 3), row(0, "b", 1)]),
        (4, vec![row(10, "b", 1)]),
    ]);
    assert_eq!(written(place.path()), expected);
    let error = run(place.path(), "SELECT k FROM s").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

#[test]
fn a_batch_that_was_cut_short_comes_again_with_the_same_files() {
    for select in [COUNTS, "SELECT k, ts FROM s WHERE k <> 'b'"] {
        let whole = tempfile::tempdir().unwrap();
        inputs(whole.path());
        run(whole.path(), select).unwrap();
        let expected: Vec<_> = written(whole.path()).into_values().collect();
        for kept in 1..=3 {
            let place = tempfile::tempdir().unwrap();
            inputs(place.path());
            run(place.path(), select).unwrap();
            let manifests = place.path().join("checkpoint/counts/yeoul/manifests");
            for manifest in fs::read_dir(manifests).unwrap().map(|entry| entry.unwrap()) {
                let number: u64 = manifest.file_name().to_str().unwrap().parse().unwrap();
                if number >= kept {
                    fs::remove_file(manifest.path()).unwrap();
                }
            }
            put(place.path(), "0", 0, &[(50, "z")]);
            run(place.path(), select).unwrap();
            let found = written(place.path());
            let again: Vec<_> = found.range(..kept).chain(found.range(kept + 1..)).collect();
            let again: Vec<_> = again.into_iter().map(|(_, rows)| rows.clone()).take(3).collect();
            assert_eq!(again, expected[..3], "{kept} epochs were complete: {found:?}");
            assert!(!found.contains_key(&kept), "the claim has no rows: {found:?}");
        }
    }
}

#[test]
fn files_of_another_query_stay() {
    let place = tempfile::tempdir().unwrap();
    inputs(place.path());
    fs::create_dir(place.path().join("out")).unwrap();
    fs::write(place.path().join("out/batch-7.json"), "{}").unwrap();
    let error = run(place.path(), COUNTS).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let error = run(place.path(), COUNTS).expect_err("the second try finds them, too");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(place.path().join("out/batch-7.json").exists());
}

/// Rows of all batches, sorted.
fn rows_out(folder: &Path) -> Vec<String> {
    let mut rows: Vec<String> = written(folder).into_values().flatten().collect();
    rows.sort();
    rows
}

fn manifests(folder: &Path) -> BTreeMap<u64, PathBuf> {
    let entries = fs::read_dir(folder.join("checkpoint/counts/yeoul/manifests")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.map(|path| (path.file_name().unwrap().to_str().unwrap().parse().unwrap(), path)).collect()
}

#[test]
fn rows_come_once_though_processes_die_between_their_claims_and_their_sinks() {
    let whole = tempfile::tempdir().unwrap();
    inputs(whole.path());
    run(whole.path(), COUNTS).unwrap();
    for (kept, deaths) in [(3, 1), (3, 2), (4, 1), (4, 20), (1, 3)] {
        let place = tempfile::tempdir().unwrap();
        inputs(place.path());
        run(place.path(), COUNTS).unwrap();
        for path in manifests(place.path()).split_off(&kept).into_values() {
            fs::remove_file(path).unwrap();
        }
        let (out, aside) = (place.path().join("out"), place.path().join("aside"));
        fs::rename(&out, &aside).unwrap();
        fs::write(&out, "no directory").unwrap();
        for _ in 0..deaths {
            run(place.path(), COUNTS).expect_err("the sink cannot be opened");
        }
        fs::remove_file(&out).unwrap();
        fs::rename(&aside, &out).unwrap();
        run(place.path(), COUNTS).unwrap();
        assert_eq!(rows_out(place.path()), rows_out(whole.path()), "{kept} epochs, {deaths} claims");
    }
}

#[test]
fn rows_come_once_though_the_last_checkpoint_is_damaged() {
    let place = tempfile::tempdir().unwrap();
    inputs(place.path());
    run(place.path(), COUNTS).unwrap();
    let rows = rows_out(place.path());
    let (_, last) = manifests(place.path()).pop_last().unwrap();
    let content = fs::read(&last).unwrap();
    fs::write(&last, &content[..content.len() - 9]).unwrap();
    run(place.path(), COUNTS).unwrap();
    assert_eq!(rows_out(place.path()), rows);
}

#[test]
fn csv_is_read_with_its_header_and_written_with_one() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    fs::create_dir(folder.join("in")).unwrap();
    fs::write(folder.join("in/a"), "id;name\n1;\"x;y\"\n2;-\n").unwrap();
    fs::write(folder.join("in/b"), "\nid;name\n3;\n").unwrap();
    fs::write(folder.join("in/c"), "").unwrap();
    let run = |checkpoint: &str| {
        let job = format!(
            "CREATE STREAM s (id BIGINT, name STRING, line BIGINT METADATA) WITH ('connector' = 'filesystem', \
               'path' = '{input}', 'format' = 'csv', 'sep' = ';', 'nullValue' = '-', 'header' = 'true');\
             CREATE SINK out WITH ('connector' = 'filesystem', 'path' = '{out}', 'format' = 'csv', 'header' = 'true', 'nullValue' = '?');\
             SET trigger = 'available now'; INSERT INTO out SELECT id * 10 AS id, name, line FROM s",
            input = folder.join("in").display(),
            out = folder.join("out").display(),
        );
        let query = crate::parse_job(&job).unwrap().remove(0);
        start(query, &folder.join(checkpoint), MemoryShare::default(), |_| {})?.wait()
    };
    run("checkpoint").unwrap();
    let text = |name: &str| fs::read_to_string(folder.join("out").join(name)).unwrap();
    assert_eq!(text("batch-1.csv"), "id,name,line\n10,x;y,2\n20,?,3\n30,?,3\n");
    let error = run("other").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "the files of another query: {error}");
    fs::write(folder.join("in/d"), "name;id\nx;1\n").unwrap();
    let error = run("checkpoint").unwrap_err();
    assert!(
        error.kind() == ErrorKind::Invalid && error.to_string().contains("the header is not id;name"),
        "{error}"
    );
}

#[test]
fn a_query_goes_on_whatever_the_order_of_its_keys_and_the_names_that_it_gives() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    fs::create_dir(folder.join("in")).unwrap();
    put(folder, "a", 1, &[(1, "a"), (2, "b"), (11, "a")]);
    let first = "SELECT window_start, k, count(*) AS n, max(k) AS m FROM TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' SECOND) \
                 GROUP BY window_start, k EMIT ON WINDOW CLOSE";
    run(folder, first).unwrap();
    put(folder, "b", 2, &[(3, "a"), (4, "b"), (12, "a"), (50, "z")]);
    // Keys and functions in another order, a table and columns with other names.
    let second = "SELECT max(t.k) AS greatest, t.k AS word, window_start, count(*) AS n \
                  FROM TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' SECOND) AS t GROUP BY t.k, window_start EMIT ON WINDOW CLOSE";
    run(folder, second).unwrap();
    let rows: Vec<String> = written(folder).into_values().flatten().collect();
    let of_window = |word: &str, start: u32, n: u32| {
        format!(
            r#"{{"greatest":"{word}","word":"{word}","window_start":"2026-01-01T00:00:{start:02}Z","n":{n}}}"#
        )
    };
    for expected in [of_window("a", 0, 2), of_window("b", 0, 2), of_window("a", 10, 2)] {
        assert!(rows.contains(&expected), "no {expected} in {rows:?}");
    }
    // Another query is refused still.
    let other = first.replace("max(k)", "min(k)");
    let error = run(folder, &other).unwrap_err();
    assert!(error.to_string().contains("the checkpoint has the state of aggregate 2: "), "{error}");
}
