//! `yeoul stream run`, without a broker: rows on stdout, progress on stderr, and what is refused.

use crate::harness::Folder;

const JOB: &str = "CREATE STREAM r WITH ('connector' = 'rate', 'rowsPerSecond' = '1');\n\
                   CREATE SINK c WITH ('connector' = 'console');\nSET trigger = 'available now';\n";

#[test]
fn rows_go_to_stdout_and_a_restart_goes_on() {
    let folder = Folder::new();
    folder.write("job.sql", format!("{JOB}INSERT INTO c SELECT value * 10 AS v FROM r WHERE value < 1;"));
    let run = || folder.yeoul(["stream", "run", "job.sql", "--checkpoint", "at"]).output();
    let (status, out, err) = run();
    let err = String::from_utf8(err).unwrap();
    assert!(status.success(), "{err}");
    // The first row is due at once.
    assert_eq!(String::from_utf8(out).unwrap(), "{\"v\":0}\n");
    let events: Vec<&str> = err.lines().map(|line| line.split('"').nth(3).unwrap()).collect();
    assert_eq!(events, ["started", "progress", "terminated"], "{err}");
    let (status, out, _) = run();
    assert!(status.success() && out.is_empty(), "row 0 came twice");
}

#[test]
fn a_job_that_is_not_understood_is_refused_before_anything_starts() {
    let folder = Folder::new();
    for (query, error) in [
        (
            "SELECT value FROM r ORDER BY value",
            "INSERT INTO c: ORDER BY: a stream has no end that one could sort before",
        ),
        ("SELECT r.value FROM r, r AS s", "INSERT INTO c: a join is not there yet"),
    ] {
        folder.write("job.sql", format!("{JOB}INSERT INTO c {query};"));
        let expected = format!("exit 2\n-- stderr\nerror: {error}");
        folder.yeoul(["stream", "run", "job.sql", "--checkpoint", "at"]).shows(&expected);
    }
    assert_eq!(folder.names(), ["job.sql"]);
    folder.yeoul(["stream", "run", "none.sql", "--checkpoint", "at"]).shows(
        "
exit 1
-- stderr
error: cannot read 'none.sql'
caused by: No such file or directory (os error 2)
",
    );
}
