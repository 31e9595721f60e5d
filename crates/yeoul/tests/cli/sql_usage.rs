//! `yeoul sql` used wrongly: exit 2, what is wrong, and what to do; nothing is run.

use std::fs;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

use crate::harness::Folder;

#[test]
fn an_unknown_option_names_the_near_one() {
    Folder::new().yeoul(["sql", "--fromat", "csv"]).shows(
        "
exit 2
-- stderr
error: unexpected argument '--fromat' found

  tip: a similar argument exists: '--format'

Usage: yeoul sql --format <FORMAT>

For more information, try '--help'.
",
    );
}

#[test]
fn values_out_of_range_say_what_is_expected() {
    let folder = Folder::new();
    for (args, message) in [
        (
            ["--format", "yaml"],
            "'yaml' for '--format <FORMAT>': unknown format 'yaml': expected one of table, csv, json, line, parquet, arrow",
        ),
        (
            ["--memory", "lots"],
            "'lots' for '--memory <SIZE>': 'lots' is not a size: expected a number and a unit such as 512MiB, 1GiB or 2GB",
        ),
        (["--threads", "0"], "'0' for '--threads <N>': expected a number from 1 to 1024"),
        (["--max-rows", "x"], "'x' for '--max-rows <N>': expected a number of rows, or all"),
        (["--max-rows", "-1"], "'-1' for '--max-rows <N>': expected a number of rows, or all"),
        (
            ["--dialect", "sparc"],
            "'sparc' for '--dialect <NAME>': there is no dialect 'sparc': there are yeoul and spark",
        ),
        (["--set", "x"], "'x' for '--set <KEY=VALUE>': expected KEY=VALUE"),
    ] {
        let expected = format!(
            "exit 2\n-- stderr\nerror: invalid value {message}\n\nFor more information, try '--help'.\n"
        );
        folder.sql("SELECT 1").with(args).shows(&expected);
    }
}

#[test]
fn a_file_whose_ending_tells_no_format_is_not_written() {
    let folder = Folder::new();
    for name in ["a.xlsx", "a.csv.gz"] {
        let expected = format!(
            "exit 2\n-- stderr\nerror: cannot tell the format from '{name}'\n\
             hint: --format csv, json, line, parquet, arrow or table\n"
        );
        folder.sql("SELECT 1").with(["-o", name]).shows(&expected);
        assert!(folder.names().is_empty(), "{:?}", folder.names());
    }
    folder.sql("SELECT 1 AS n").with(["-q", "-o", "a.dat", "--format", "csv"]).shows("exit 0");
    assert_eq!(fs::read_to_string(folder.path().join("a.dat")).unwrap(), "n\n1\n");
    for name in ["a.txt", "a"] {
        folder.sql("SELECT 1 AS n").with(["-q", "-o", name]).shows("exit 0");
        assert!(fs::read_to_string(folder.path().join(name)).unwrap().contains('│'));
    }
}

#[test]
fn a_limit_that_is_too_small_to_start_is_refused() {
    Folder::new().sql("SELECT 1").with(["--memory", "1MiB"]).shows(
        "
exit 2
-- stderr
error: a memory limit of [SIZE] is too small to start
hint: --memory takes [SIZE] and more
",
    );
}

#[test]
fn a_limit_that_does_not_count_what_is_spilled_says_so() {
    let folder = Folder::new();
    let run = || folder.sql("SELECT 7 AS n").with(["--format", "csv", "--spill-dir", "/dev/shm"]);
    run().shows("exit 0\nn\n7");
    run().with(["--memory", "256MiB"]).shows(
        "
exit 0
n
7
-- stderr
notice: spilled data stays in memory, beyond --memory, because /dev/shm is on a tmpfs; name a directory on a disk with --spill-dir
",
    );
    run().with(["--memory", "256MiB", "--quiet"]).shows("exit 0\nn\n7");
}

#[test]
fn an_unknown_setting_is_refused() {
    Folder::new().sql("SELECT 1").with(["--set", "datafusion.nonsense=1"]).shows(
        "
exit 2
-- stderr
error: error setting config datafusion.nonsense: config value \"nonsense\" not found on ConfigOptions
hint: SHOW ALL lists every setting
",
    );
}

#[test]
fn a_statement_and_a_file_exclude_each_other() {
    Folder::new().yeoul(["sql", "-c", "SELECT 1", "-f", "x.sql"]).shows(
        "
exit 2
-- stderr
error: the argument '--command <SQL>' cannot be used with '--file <FILE>'

Usage: yeoul sql --command <SQL>

For more information, try '--help'.
",
    );
}

#[test]
fn the_help_teaches_by_example() {
    let folder = Folder::new();
    let (status, out, err) = folder.yeoul(["sql", "--help"]).output();
    let help = String::from_utf8(out).unwrap();
    assert!(status.success() && err.is_empty());
    for part in [
        "--memory <SIZE>",
        "--format <FORMAT>",
        "Examples:",
        "yeoul sql -c \"SELECT count(*)",
        "Exit code: 0 done",
    ] {
        assert!(help.contains(part), "{part} is not in\n{help}");
    }
}

#[test]
fn a_session_may_open_as_many_files_as_the_system_allows() {
    let folder = Folder::new();
    // A shell starts a program with fewer. The hard limit is above that on any system that runs these tests.
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -S -n 200; exec \"$0\" sql --format csv", env!("CARGO_BIN_EXE_yeoul")])
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut script = child.stdin.take().unwrap();
    script.write_all(b"SELECT 7 AS n;\n").unwrap();
    let mut answer = [0; 4];
    child.stdout.take().unwrap().read_exact(&mut answer).unwrap();
    let limits = fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
    drop(script);
    assert!(child.wait().unwrap().success());
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let [soft, hard] = [3, 4].map(|column| files.split_whitespace().nth(column).unwrap());
    assert!(soft == hard && soft != "200", "{files}");
}
