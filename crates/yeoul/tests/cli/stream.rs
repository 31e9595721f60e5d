//! `yeoul stream run`, without a broker: rows on stdout, progress on stderr, and what is refused.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use crate::harness::{Folder, binary};

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
fn the_end_of_a_query_that_fails_is_not_that_of_the_others() {
    let folder = Folder::new();
    let files = 200;
    let path = folder.path().join("in");
    std::fs::create_dir(&path).unwrap();
    for file in 0..files {
        folder.write(&format!("in/{file}.json"), format!("{{\"v\":{file}}}\n"));
    }
    folder.write(
        "job.sql",
        format!(
            "CREATE STREAM f (v BIGINT) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json', 'maxFilesPerTrigger' = '1');\n\
             CREATE SINK bad WITH ('connector' = 'noop');\nCREATE SINK c WITH ('connector' = 'console');\n\
             SET trigger = 'available now';\nINSERT INTO bad SELECT 1 / (v - v) AS x FROM f;\nINSERT INTO c SELECT v FROM f;",
            path.display()
        ),
    );
    let (status, out, err) = folder.yeoul(["stream", "run", "job.sql", "--checkpoint", "at"]).output();
    let (out, err) = (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap());
    assert!(!status.success() && err.contains("the query 'bad' has failed; the others go on"), "{err}");
    assert_eq!(out.lines().count(), files, "rows of the other query are missing: {err}");
}

/// Its source names no record, so that the cause is all that says what went wrong.
#[test]
fn the_event_of_a_query_that_fails_has_its_cause() {
    let folder = Folder::new();
    folder.write(
        "job.sql",
        "CREATE STREAM r WITH ('connector' = 'rate');\nCREATE SINK bad WITH ('connector' = 'noop');\n\
         SET trigger = 'available now';\nINSERT INTO bad SELECT 6 / value AS x FROM r;",
    );
    let (status, _, err) = folder.yeoul(["stream", "run", "job.sql", "--checkpoint", "at"]).output();
    let err = String::from_utf8(err).unwrap();
    let event = err.lines().find(|line| line.contains("\"terminated\"")).unwrap_or_else(|| panic!("{err}"));
    assert!(!status.success() && event.to_lowercase().contains("divide by zero"), "{event}");
    assert_eq!(event.to_lowercase().matches("divide by zero").count(), 1, "{event}");
}

#[test]
fn a_job_that_is_not_understood_is_refused_before_anything_starts() {
    let folder = Folder::new();
    for (query, error) in [
        (
            "SELECT value FROM r ORDER BY value",
            "INSERT INTO c: ORDER BY: a stream has no end that one could sort before",
        ),
        (
            "SELECT r.value FROM r, r AS s",
            "INSERT INTO c: a join of two streams without an equality is not supported
hint: join ON a.key = b.key AND …",
        ),
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

#[test]
fn an_address_that_cannot_hold_a_checkpoint_is_refused() {
    let folder = Folder::new();
    folder.write("job.sql", format!("{JOB}INSERT INTO c SELECT value FROM r;"));
    let expected = "exit 2\n-- stderr\nerror: 'http://127.0.0.1:1/a' cannot hold checkpoints: HTTP does not create a file only if it is absent\n\
                    hint: name a directory, or an address that begins with s3:// or hdfs://";
    folder.yeoul(["stream", "run", "job.sql", "--checkpoint", "http://127.0.0.1:1/a"]).shows(expected);
    folder.yeoul(["stream", "state", "http://127.0.0.1:1/a"]).shows(expected);
    assert_eq!(folder.names(), ["job.sql"]);
}

#[test]
fn windows_are_counted_and_a_restart_goes_on_with_the_counts() {
    let folder = Folder::new();
    folder.write(
        "job.sql",
        "CREATE STREAM r (WATERMARK FOR timestamp AS timestamp - INTERVAL '1' HOUR) \
           WITH ('connector' = 'rate', 'rowsPerSecond' = '1000');\n\
         CREATE SINK c WITH ('connector' = 'console');\nSET trigger = 'available now';\n\
         INSERT INTO c SELECT count(*) AS n, min(value) AS first FROM r GROUP BY value < 0 EMIT UPDATES;",
    );
    let mut before = 0;
    for _ in 0..3 {
        let (status, out, err) = folder.yeoul(["stream", "run", "job.sql", "--checkpoint", "at"]).output();
        assert!(status.success(), "{}", String::from_utf8_lossy(&err));
        let out = String::from_utf8(out).unwrap();
        let line = out.strip_prefix("{\"n\":").unwrap_or_else(|| panic!("one line, not '{out}'"));
        let (count, first) = line.split_once(',').unwrap();
        let count: u64 = count.parse().unwrap();
        assert!(count > before && first == "\"first\":0}\n", "{out} after {before}");
        before = count;
    }
}

#[test]
fn state_that_does_not_fit_the_memory_ends_the_query_by_name() {
    let folder = Folder::new();
    folder.write(
        "job.sql",
        "CREATE STREAM r WITH ('connector' = 'rate', 'rowsPerSecond' = '4000000');\n\
         CREATE SINK c WITH ('connector' = 'noop');\n\
         INSERT INTO c SELECT value, count(*) AS n FROM r GROUP BY value EMIT UPDATES;",
    );
    let (status, _, err) =
        folder.yeoul(["stream", "run", "job.sql", "--checkpoint", "at", "--memory", "200MiB"]).output();
    let err = String::from_utf8(err).unwrap();
    assert!(status.code() == Some(1) && err.contains("the state needs"), "{err}");
    assert!(err.contains("of --memory 200 MiB") && err.contains("hint: give it more --memory"), "{err}");
}

#[test]
fn a_job_is_explained_and_nothing_starts() {
    let folder = Folder::new();
    let job = "CREATE STREAM s (id BIGINT) WITH ('connector' = 'kafka', 'kafka.bootstrap.servers' = 'nowhere:1', \
                 'subscribe' = 't', 'format' = 'json');\n\
               CREATE SINK c WITH ('connector' = 'console');\n";
    folder.write("job.sql", format!("{job}INSERT INTO c SELECT id * 10 AS v FROM s WHERE id > 1;"));
    folder.yeoul(["stream", "explain", "job.sql"]).shows(
        "
exit 0
query c
│  output mode: append
│  guarantee: at least once
│  trigger = real time
│  execution.checkpointing.interval = [TIME]
│  yeoul.stream.tick = [TIME]
│  parallelism.default = 1
│  spark.sql.streaming.minBatchesToRetain = 100
│  spark.sql.streaming.multipleWatermarkPolicy = min
└─ sink c
   │  writes to: console
   │  connector = console
   └─ project
      │  columns: checked_multiply(id, 10) AS v
      └─ project
         │  columns: id
         └─ filter
            │  condition: id > 1
            └─ stream s
                  source: kafka subscribe [t]
                  columns: id BIGINT
                  connector = kafka
                  format = json
                  kafka.bootstrap.servers = nowhere:1
                  subscribe = t
                  by default: scan.topic-partition-discovery.interval = [TIME], startingOffsets = latest, failOnDataLoss = true
",
    );
    let json = folder.yeoul(["stream", "explain", "job.sql", "--format", "json"]).done();
    let start = "exit 0\n{\"name\":\"c\",\"outputMode\":\"append\",\"guarantee\":\"at least once\",\"settings\":{\"trigger\":\"real time\",";
    assert!(json.starts_with(start) && json.trim_end().lines().count() == 2, "{json}");
    folder.write("job.sql", format!("{job}INSERT INTO c SELECT id FROM s ORDER BY id;"));
    folder.yeoul(["stream", "explain", "job.sql"]).shows(
        "exit 2\n-- stderr\nerror: INSERT INTO c: ORDER BY: a stream has no end that one could sort before",
    );
    assert_eq!(folder.names(), ["job.sql"]);
}

#[test]
fn a_checkpoint_is_shown_with_its_rows_and_what_is_damaged_is_named() {
    let folder = Folder::new();
    folder.write(
        "job.sql",
        "CREATE STREAM r WITH ('connector' = 'rate', 'rowsPerSecond' = '1');\n\
         CREATE SINK counts WITH ('connector' = 'noop');\nCREATE SINK c WITH ('connector' = 'console');\n\
         SET trigger = 'available now';\n\
         INSERT INTO counts SELECT value % 2 AS odd, count(*) AS n FROM r WHERE value < 1 GROUP BY value % 2 EMIT UPDATES;\n\
         INSERT INTO c SELECT value FROM r WHERE value < 0;",
    );
    let (status, ..) = folder.yeoul(["stream", "run", "job.sql", "--checkpoint", "at"]).output();
    assert!(status.success());
    let shown = folder.yeoul(["stream", "state", "at"]).done();
    for text in [
        "query c\n",
        "query counts\n",
        "  state       none\n",
        "  watermark   none yet\n",
        "% Int64(2) BIGINT",
        "{\"next\":1,",
    ] {
        assert!(shown.contains(text), "no '{text}' in\n{shown}");
    }
    let csv = folder.yeoul(["stream", "state", "at", "--format", "csv"]).done();
    assert_eq!(csv.lines().count(), 4, "{csv}");
    assert!(
        csv.lines().any(|line| line.starts_with("counts,1,1,") && line.contains(",aggregate,aggregate,1,")),
        "{csv}"
    );
    let rows = ["stream", "state", "at", "--query", "counts", "--rows", "aggregate", "--format", "csv"];
    folder.yeoul(rows).shows("exit 0\nover_at,key.r.value % Int64(2),value.count(Int64(1))[count]\n,0,1");
    folder.yeoul(["stream", "state", "at", "--rows", "aggregate"]).shows(
        "exit 2\n-- stderr\nerror: --rows shows those of one query, 'at' has several\nhint: choose one with --query: c, counts",
    );
    folder.yeoul(["stream", "state", "at/counts", "--rows", "join"]).shows(
        "exit 1\n-- stderr\nerror: the query 'counts' has no table of state 'join'\nhint: aggregate are",
    );
    folder.yeoul(["stream", "state", "."]).shows(
        "exit 1\n-- stderr\nerror: there is no checkpoint in '.'\nhint: name the directory that was given with --checkpoint, \
         or a query's folder in it",
    );
    let manifest = folder.path().join("at/counts/yeoul/manifests/00000000000000000001");
    let mut bytes = std::fs::read(&manifest).unwrap();
    let last = bytes.len() - 3;
    bytes[last] ^= 1;
    std::fs::write(&manifest, bytes).unwrap();
    let shown = folder.yeoul(["stream", "state", "at", "--query", "counts"]).done();
    let warning = "warning: checkpoint 'at/counts/yeoul/manifests/00000000000000000001' cannot be used: its content is not what was written";
    assert!(shown.starts_with("exit 0\n") && shown.contains(warning), "{shown}");
}

/// A page of a server, and its status code before it.
fn page(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    format!("{}\n{body}", head.split(' ').nth(1).unwrap())
}

#[test]
fn a_running_job_has_pages_for_prometheus_and_for_programs() {
    let folder = Folder::new();
    folder.write(
        "job.sql",
        "CREATE STREAM r WITH ('connector' = 'rate', 'rowsPerSecond' = '100');\nCREATE SINK n WITH ('connector' = 'noop');\n\
         SET 'execution.checkpointing.interval' = '20 ms';\nINSERT INTO n SELECT value FROM r;",
    );
    let mut command = binary();
    command.args(["stream", "run", "job.sql", "--checkpoint", "at", "--http-port", "0"]);
    let mut process = command.current_dir(folder.path()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map(Result::unwrap);
    let told = lines.next().unwrap();
    let address = told.strip_prefix("{\"address\":\"").and_then(|rest| rest.split('"').next());
    let address = address.unwrap_or_else(|| panic!("no address in {told}")).to_owned();
    assert!(lines.any(|line| line.starts_with("{\"event\":\"progress\"")));
    let metrics = page(&address, "/metrics/prometheus");
    assert!(
        metrics.starts_with("200\n") && metrics.contains("yeoul_stream_active{query=\"n\"} 1\n"),
        "{metrics}"
    );
    assert!(!metrics.contains("yeoul_stream_epochs_total{query=\"n\"} 0\n"), "{metrics}");
    assert_eq!(page(&address, "/healthz"), "200\nok\n");
    assert!(page(&address, "/queries").contains("\"lastProgress\":{"));
    let pid = rustix::process::Pid::from_child(&process);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    // What it says until it ends is read, so that it does not wait.
    lines.for_each(drop);
    assert!(process.wait().unwrap().success());
}

#[test]
fn progress_is_told_in_the_form_that_is_wanted() {
    let folder = Folder::new();
    folder.write(
        "job.sql",
        "CREATE STREAM r WITH ('connector' = 'rate');\nCREATE SINK n WITH ('connector' = 'noop');\n\
         SET trigger = 'available now';\nINSERT INTO n SELECT value FROM r;",
    );
    let run = |form: &str| {
        let (status, out, err) =
            folder.yeoul(["stream", "run", "job.sql", "--checkpoint", form, "--progress", form]).output();
        assert!(status.success() && out.is_empty());
        String::from_utf8(err).unwrap()
    };
    assert_eq!(run("none"), "");
    let table = run("table");
    // The last picture takes the place of those before it.
    let last = table.rsplit("\x1b[J").next().unwrap();
    assert!(table.contains("\x1b[") && last.contains("ended") && last.contains("│ n"), "{table}");
    assert!(run("json").lines().all(|line| line.starts_with("{\"event\":\"")));
}
