//! `yeoul sql` on bad input: a clear message on stderr, exit 1, and nothing half-written.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::Folder;

#[test]
fn a_missing_file_names_the_near_one() {
    let folder = Folder::new();
    folder.prepare("COPY (SELECT 1 AS n) TO 'orders.parquet'");
    folder.sql("SELECT * FROM 'order.parquet'").shows(
        "
exit 1
-- stderr
error: there is no file 'order.parquet'
hint: did you mean 'orders.parquet'?
",
    );
}

/// A user who may read nothing that others have closed: uid 65534 when the tests run as root, whom nothing stops.
fn as_nobody(command: &mut Command) {
    if fs::metadata("/proc/self").is_ok_and(|process| std::os::unix::fs::MetadataExt::uid(&process) == 0) {
        command.uid(65534).gid(65534);
    }
}

#[test]
fn a_file_or_folder_without_permission_is_named() {
    let folder = Folder::new();
    folder.prepare("COPY (SELECT 1 AS n) TO 'closed.parquet'");
    // The binary stands where nobody may look, perhaps.
    let binary = folder.path().join("yeoul");
    fs::copy(env!("CARGO_BIN_EXE_yeoul"), &binary).unwrap();
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(folder.path(), 0o755);
    mode(&binary, 0o755);
    mode(&folder.path().join("closed.parquet"), 0o000);
    let seen = |sql: &str| {
        let mut command = Command::new(&binary);
        command.args(["sql", "-c", sql]).current_dir(folder.path()).stdin(Stdio::null());
        as_nobody(&mut command);
        let output = command.output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
        String::from_utf8(output.stderr).unwrap()
    };
    let error = seen("SELECT * FROM 'closed.parquet'");
    assert!(error.starts_with("error: ") && error.contains("closed.parquet"), "{error}");
    assert!(error.to_lowercase().contains("permission"), "{error}");
    let before = folder.names();
    let error = seen("COPY (SELECT 1 AS n) TO 'new.parquet'");
    assert_eq!(error, "error: cannot write 'new.parquet': permission denied\n");
    assert_eq!(folder.names(), before);
    mode(&folder.path().join("closed.parquet"), 0o644);
}

#[test]
fn a_closed_folder_beside_the_files_is_not_entered() {
    let folder = Folder::new();
    folder.write("d/a.csv", "n\n7\n");
    folder.write("d/closed/b.csv", "n\n8\n");
    // The binary stands where nobody may look, perhaps.
    let binary = folder.path().join("yeoul");
    fs::copy(env!("CARGO_BIN_EXE_yeoul"), &binary).unwrap();
    let mode = |path: &str, mode| {
        fs::set_permissions(folder.path().join(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    for path in ["", "yeoul", "d"] {
        mode(path, 0o755);
    }
    mode("d/a.csv", 0o644);
    // What the tests own is closed even to them.
    mode("d/closed", 0o000);
    for name in ["d", "d/*.csv", "d/[a-z].csv"] {
        let mut command = Command::new(&binary);
        command.args(["sql", "--format", "csv", "-c", &format!("SELECT n FROM '{name}'")]);
        command.current_dir(folder.path()).stdin(Stdio::null());
        as_nobody(&mut command);
        let output = command.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{name}");
        assert_eq!(output.stdout, b"n\n7\n", "{name}");
    }
    mode("d/closed", 0o755);
}

#[test]
fn a_folder_of_files_that_do_not_fit_together_names_two_of_them() {
    let folder = Folder::new();
    folder.prepare("COPY (SELECT 1 AS a) TO 'mixed/one.parquet'; COPY (SELECT make_array(1) AS a) TO 'mixed/two.parquet'");
    let seen = folder.sql("SELECT * FROM 'mixed'").done();
    assert_eq!(
        seen,
        "exit 1\n-- stderr\nerror: column 'a' is BIGINT in 'one.parquet' and BIGINT[] in 'two.parquet'\n\
        hint: read them apart, or name those that belong together with a glob\n"
    );
    folder.prepare(
        "COPY (SELECT 1 AS n) TO 'all/nation.parquet'; COPY (SELECT 1 AS l) TO 'all/lineitem.parquet'",
    );
    let seen = folder.sql("SELECT * FROM 'all'").done();
    assert!(
        seen.starts_with(
            "exit 1\n-- stderr\nerror: 'lineitem.parquet' and 'nation.parquet' are not of one table: "
        ),
        "{seen}"
    );
}

/// A Parquet file of some size with two columns, and its bytes.
fn parquet(folder: &Folder) -> Vec<u8> {
    folder.prepare(
        "COPY (SELECT value AS n, 'row ' || value AS t FROM generate_series(1, 50000)) TO 'whole.parquet'",
    );
    fs::read(folder.path().join("whole.parquet")).unwrap()
}

#[test]
fn a_truncated_parquet_file_is_damaged() {
    let folder = Folder::new();
    let whole = parquet(&folder);
    for length in [1, 11, whole.len() / 2, whole.len() - 1] {
        folder.write("part.parquet", &whole[..length]);
        let seen = folder.sql("SELECT * FROM 'part.parquet'").done();
        assert!(seen.starts_with("exit 1\n-- stderr\nerror: "), "{length} bytes: {seen}");
        assert!(seen.contains("part.parquet") && seen.contains("damaged"), "{length} bytes: {seen}");
    }
}

#[test]
fn a_flipped_bit_never_ends_the_program_without_an_error() {
    let folder = Folder::new();
    let whole = parquet(&folder);
    let answer = "exit 0\ncount(*),sum\n50000,1250025000\n";
    let (mut refused, mut wrong) = (0, Vec::new());
    // The last bytes: magic and the footer's length. Then the footer itself, and pages of data.
    let places = (1..=8).chain((9..1000).step_by(37)).chain((2000..whole.len()).step_by(whole.len() / 20));
    for place in places {
        let mut flipped = whole.clone();
        let at = whole.len() - place;
        flipped[at] ^= 0x40;
        folder.write("flipped.parquet", flipped);
        let sql = "SELECT count(*), sum(n) AS sum FROM 'flipped.parquet' WHERE t <> ''";
        let seen = folder.sql(sql).with(["--format", "csv"]).done();
        assert!(!seen.contains("thread '"), "a trace of a panic at byte {at}: {seen}");
        if seen.starts_with("exit 1\n-- stderr\nerror: ") {
            refused += 1;
        } else {
            assert!(seen.starts_with("exit 0\n"), "byte {at}: {seen}");
            if seen != answer {
                wrong.push(at);
            }
        }
    }
    assert!(refused >= 8, "only {refused} refused");
    // Pages of files without page checksums (arrow-rs and DuckDB write none) cannot tell; a footer can.
    println!("{refused} refused; wrong answers from flips at {wrong:?} of {}", whole.len());
}

#[test]
fn one_json_line_of_100_mb_is_read_or_refused() {
    let folder = Folder::new();
    let mut line = Vec::with_capacity(100_000_100);
    line.extend_from_slice(b"{\"a\":\"");
    line.resize(100_000_000, b'x');
    line.extend_from_slice(b"\"}\n");
    folder.write("line.json", &line);
    let sql = "SELECT count(*) AS lines, max(length(a)) AS longest FROM 'line.json'";
    folder.sql(sql).with(["--format", "csv"]).shows("exit 0\nlines,longest\n1,99999994");
    let seen = folder.sql(sql).with(["--memory", "128MiB"]).done();
    assert!(seen.starts_with("exit 1\n-- stderr\n") && seen.contains("\nerror: "), "{seen}");
    assert!(seen.contains("memory"), "{seen}");
}

#[test]
fn lines_that_are_no_json_or_csv_are_named() {
    let folder = Folder::new();
    folder.write("bad.json", "{\"a\":1}\n{\"a\":2}\n{\"a\": x}\n{\"a\":4}\n");
    let seen = folder.sql("SELECT * FROM 'bad.json'").done();
    let expected = "exit 1\n-- stderr\nerror: cannot read 'bad.json': expected value at line 3 column 7\n";
    assert!(seen.starts_with(expected), "{seen}");
    folder.write("bad.csv", "a,b\n1,2\n3\n");
    let seen = folder.sql("SELECT * FROM 'bad.csv'").done();
    assert!(seen.starts_with("exit 1\n-- stderr\nerror: ") && seen.contains("bad.csv"), "{seen}");
}

#[test]
fn wrong_sql_is_pointed_at() {
    let folder = Folder::new();
    folder.sql("SELECT nme FROM (VALUES (1)) AS t(name)").shows(
        "
exit 1
-- stderr
error: there is no column 'nme' here
  |
1 | SELECT nme FROM (VALUES (1)) AS t(name)
  |        ^^^
hint: did you mean 'name'?
",
    );
    folder.sql("CREATE VIEW customer AS SELECT 1 AS a; SELECT * FROM custmer").shows(
        "
exit 1
-- stderr
done in [TIME]
error: there is no table 'custmer'
  |
1 | SELECT * FROM custmer
  |               ^^^^^^^
hint: did you mean 'customer'?
",
    );
    folder.sql("SELECT lenth('a')").shows(
        "
exit 1
-- stderr
error: invalid function 'lenth'
  |
1 | SELECT lenth('a')
  |        ^^^^^
hint: did you mean 'length'?
",
    );
    folder.sql("SELEC 1").shows(
        "
exit 1
-- stderr
error: syntax error: expected: an SQL statement, found: SELEC
  |
1 | SELEC 1
  | ^
",
    );
}

#[test]
fn an_error_in_a_script_names_its_file_and_line_and_ends_it() {
    let folder = Folder::new();
    folder.write("report.sql", "-- a report\nSELECT 1 AS a;\n\nSELECT b\n  FROM nowhere;\nSELECT 2 AS a;\n");
    let expected = "
exit 1
a
1
-- stderr
error: there is no table 'nowhere'
 --> report.sql:5:8
  |
5 |   FROM nowhere
  |        ^^^^^^^
hint: a file is a table too: FROM 'file.parquet'
";
    folder.yeoul(["sql", "--format", "csv", "-f", "report.sql"]).shows(expected);
    let script = fs::read(folder.path().join("report.sql")).unwrap();
    folder.yeoul(["sql", "--format", "csv"]).stdin(script).shows(&expected.replace("report.sql:", "stdin:"));
}

#[test]
fn scripts_that_cannot_be_read_say_why() {
    let folder = Folder::new();
    let run = |script: &[u8]| folder.yeoul(["sql"]).stdin(script);
    run(b"SELECT 'abc;\n")
        .shows("exit 1\n-- stderr\nerror: the quoted string that starts here is not closed\n --> stdin:1:8");
    run(b"\n\xff\xfe").shows("exit 1\n-- stderr\nerror: line 2 is not UTF-8 text\n --> stdin:2:1");
    run(b".tabels\n").shows(
        "exit 1\n-- stderr\nerror: there is no command '.tabels'\n --> stdin:1:1\nhint: did you mean .tables?",
    );
    folder
        .yeoul(["sql", "-f", "no.sql"])
        .shows("exit 1\n-- stderr\nerror: cannot open 'no.sql': No such file or directory (os error 2)");
    folder.yeoul(["sql", "-f", "."]).shows("exit 1\n-- stderr\nerror: cannot open '.': is a directory");
}

/// A query that fails when it has written a good part of its answer.
const FAILS_LATE: &str =
    "SELECT CAST(CASE WHEN value < 900000 THEN value::varchar ELSE 'late' END AS INT) AS n
    FROM generate_series(1, 1000000)";

#[test]
fn a_copy_that_fails_leaves_nothing_new_and_what_was_there() {
    let folder = Folder::new();
    folder.write("old.csv", "old\n");
    for target in ["new.parquet", "new.csv", "new.json", "old.csv", "folder/", "sub/new.parquet"] {
        let format = if target.ends_with('/') { "STORED AS PARQUET" } else { "" };
        let seen = folder.sql(&format!("COPY ({FAILS_LATE}) TO '{target}' {format}")).done();
        assert!(seen.starts_with("exit 1\n-- stderr\nerror: ") && seen.contains("late"), "{target}: {seen}");
    }
    assert_eq!(folder.names(), ["old.csv"]);
    assert_eq!(fs::read_to_string(folder.path().join("old.csv")).unwrap(), "old\n");
}

#[test]
fn an_output_file_that_fails_leaves_nothing_new_and_what_was_there() {
    let folder = Folder::new();
    folder.write("old.csv", "old\n");
    for name in ["new.csv", "old.csv"] {
        let seen = folder.sql(FAILS_LATE).with(["--format", "csv", "-o", name]).done();
        assert!(seen.starts_with("exit 1\n-- stderr\nerror: "), "{seen}");
    }
    assert_eq!(folder.names(), ["old.csv"]);
    assert_eq!(fs::read_to_string(folder.path().join("old.csv")).unwrap(), "old\n");
    folder
        .sql("SELECT 1")
        .with(["-o", "no/out.csv"])
        .shows("exit 1\n-- stderr\nerror: cannot write 'no/out.csv': No such file or directory (os error 2)\nhint: there is no folder 'no': make it first");
}

#[test]
fn a_binary_output_file_is_one_answer_or_is_not_there() {
    let folder = Folder::new();
    for format in ["parquet", "arrow"] {
        let to_file = ["--format", format, "-o", "out"];
        folder.sql("CREATE VIEW v AS SELECT 1 AS a").with(to_file).shows(&format!(
            "exit 1\n-- stderr\nerror: there is no answer to write, and a {format} file holds one"
        ));
        assert_eq!(folder.names(), Vec::<String>::new());
    }
    let script = ".help\nSELECT 7 AS n;\n.memory\n";
    let (status, out, _) =
        folder.yeoul(["sql", "--format", "parquet", "-o", "out.parquet"]).stdin(script).output();
    assert!(status.success() && out.is_empty());
    folder.sql("SELECT n FROM 'out.parquet'").with(["--format", "csv"]).shows("exit 0\nn\n7");
}

#[test]
fn a_table_that_does_not_fit_into_memory_is_said_to_be_kept_there() {
    let folder = Folder::new();
    let sql = "CREATE TABLE t AS SELECT value AS a, value AS b FROM generate_series(1, 100000000)";
    folder.sql(sql).with(["--memory", "128MiB"]).shows(
        "
exit 1
-- stderr
error: the statement was stopped: the process reached its memory limit
hint: a table that CREATE TABLE … AS makes is kept in memory; COPY (…) TO 'file.parquet' writes a file
",
    );
}

#[test]
fn a_full_disk_behind_stdout_is_an_error() {
    let folder = Folder::new();
    let mut run = folder.sql("SELECT 1 AS n");
    run.command.stdout(fs::File::options().write(true).open("/dev/full").unwrap());
    let output = run.command.stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let expected = "error: cannot write the answer\ncaused by: No space left on device (os error 28)\n\
        hint: free space there, or write to another disk\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
    let seen = folder.sql("SELECT 1 AS n").with(["-o", "/dev/full"]).done();
    assert_eq!(seen, format!("exit 1\n-- stderr\n{expected}"));
}

#[test]
fn a_key_too_long_for_a_folder_is_not_blamed_on_the_disk_alone() {
    let folder = Folder::new();
    let sql = "COPY (SELECT 1 AS n, repeat('x', 300) AS k) TO 'out' STORED AS CSV PARTITIONED BY (k)";
    let seen = folder.sql(sql).done();
    assert!(seen.starts_with("exit 1\n-- stderr\nerror: "), "{seen}");
    assert!(seen.contains("a key of PARTITIONED BY too long for a directory's name"), "{seen}");
    assert_eq!(folder.names(), Vec::<String>::new());
}

#[test]
fn a_copy_to_a_pipe_is_refused() {
    let folder = Folder::new();
    assert!(Command::new("mkfifo").arg(folder.path().join("pipe.csv")).status().unwrap().success());
    folder.sql("COPY (SELECT 1 AS n) TO 'pipe.csv'").shows(
        "exit 1\n-- stderr\nerror: cannot write 'pipe.csv': it is neither a file nor a directory\n\
         hint: COPY replaces files; -o and stdout take an answer as it comes",
    );
}

#[test]
fn a_spill_disk_that_is_full_is_an_error_and_is_left_empty() {
    let folder = Folder::new();
    fs::create_dir(folder.path().join("spill")).unwrap();
    let sql = "SELECT value % 1000003 AS k, value FROM generate_series(1, 30000000) ORDER BY k DESC, value";
    let limits = ["--memory", "192MiB", "--threads", "2", "--spill-dir", "spill", "--spill-limit", "1MiB"];
    let seen = folder.sql(sql).with(limits).with(["--format", "csv"]).done();
    assert!(seen.starts_with("exit 1\n-- stderr\n") && seen.contains("error: "), "{seen}");
    assert!(seen.contains("error: what is spilled has reached its limit of "), "{seen}");
    assert!(seen.contains("hint: allow more on disk with --spill-limit"), "{seen}");
    // Operators that spill more are no help.
    assert!(!seen.contains("planned again"), "{seen}");
    assert_eq!(fs::read_dir(folder.path().join("spill")).unwrap().count(), 0);
    let missing = folder.sql("SELECT 1").with(["--spill-dir", "nowhere"]).done();
    assert!(missing.starts_with("exit 1\n-- stderr\nerror: ") && missing.contains("nowhere"), "{missing}");
    assert!(missing.contains("hint: name another with --spill-dir"), "{missing}");
}

#[test]
fn a_store_that_cannot_be_reached_is_an_error() {
    for store in ["hdfs://127.0.0.1:9", "http://127.0.0.1:9"] {
        let expected = format!("exit 1\n-- stderr\nerror: cannot reach {store}: connection refused\n");
        Folder::new().sql(&format!("SELECT * FROM '{store}/x.parquet'")).shows(&expected);
    }
}
