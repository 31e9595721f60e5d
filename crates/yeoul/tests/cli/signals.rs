//! SIGINT and SIGTERM to verbs that work in a directory of their own: they end with 130 and 143, and leave no file and no
//! process behind. A worker of a shuffle stops in order, and ends with 0.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Folder, binary};

/// How long a test waits for what should happen.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// How long a verb may take to leave.
const LEAVE_MAX: Duration = Duration::from_secs(20);

/// Starts `yeoul ARGS` with the folder as the one for temporary files, sends the signal once something is at `sign` below its
/// directory there, and returns the exit code. Every verb says the same of it.
#[track_caller]
fn ended_by(signal: Signal, folder: &Folder, args: &[&str], sign: &str) -> Option<i32> {
    let mut child = binary()
        .args(args)
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let is_there = || folder.names().iter().any(|name| folder.path().join(name).join(sign).exists());
    until(&mut child, WAIT_MAX, |child| {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before it was told to");
        is_there()
    });
    kill_process(Pid::from_child(&child), signal).unwrap();
    until(&mut child, LEAVE_MAX, |child| child.try_wait().unwrap().is_some());
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert!(told.ends_with("interrupted\n") && !told.contains("error:"), "{told}");
    child.wait().unwrap().code()
}

#[track_caller]
fn until(child: &mut Child, max: Duration, mut done: impl FnMut(&mut Child) -> bool) {
    let deadline = Instant::now() + max;
    while !done(child) {
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it did not happen within {max:?}");
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// The command lines of processes that have the folder in them.
fn processes_of(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    let lines = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        // Most entries are no processes, and some processes are gone by now.
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).replace('\0', " "))
    });
    lines.filter(|line| line.contains(folder)).collect()
}

#[track_caller]
fn nothing_is_left(folder: &Folder) {
    assert_eq!(folder.names(), Vec::<String>::new());
    assert_eq!(processes_of(folder.path()), Vec::<String>::new());
}

#[test]
fn a_demo_ends_while_it_generates() {
    let folder = Folder::new();
    assert_eq!(ended_by(Signal::INT, &folder, &["demo", "--act", "sql"], "tpch"), Some(130));
    nothing_is_left(&folder);
}

#[test]
fn a_demo_ends_while_it_shuffles() {
    let folder = Folder::new();
    assert_eq!(ended_by(Signal::TERM, &folder, &["demo", "--act", "shuffle"], "shuffle"), Some(143));
    nothing_is_left(&folder);
}

#[test]
fn a_benchmark_ends_with_its_worker() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let folder = Folder::new();
        // The worker has its directory from the first moment on, and its folder in it when it runs.
        let sign = "memory/yeoul-shuffle";
        let report = folder.path().join("report.json").to_str().unwrap().to_owned();
        let args = ["bench", "shuffle", "--json", &report];
        assert_eq!(ended_by(signal, &folder, &args, sign), Some(code), "{signal:?}");
        nothing_is_left(&folder);
    }
}

/// Starts a worker with an empty directory, and waits until it is there. What it says goes to the file `said`.
fn start_worker(folder: &Folder, args: &[&str]) -> Child {
    use std::io::Read;
    let said = fs::File::create(folder.path().join("said")).unwrap();
    let mut child = binary()
        .args(["shuffle", "worker", "--dir", "data"])
        .args(args)
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(said)
        .spawn()
        .unwrap();
    child.stdout.take().unwrap().read_exact(&mut [0; 1]).unwrap();
    child
}

#[test]
fn a_worker_stops_aloud_and_says_beforehand_that_its_disk_is_too_small() {
    let folder = Folder::new();
    let mut child = start_worker(&folder, &["--master", "127.0.0.1:1", "--disk-reserve", "9000TiB"]);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    until(&mut child, LEAVE_MAX, |child| child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let said = fs::read_to_string(folder.path().join("said")).unwrap();
    let expected = [
        " WARN yeoul_disk::volume: data takes nothing: ",
        " free, 9000 TiB reserved; free space or lower --disk-reserve\n",
        "recovered 0 shuffles with 0 locations\n",
        "stopping: 0 locations are open, for whose commits it waits 480 s at most\n",
        "stopped: everything is on disk\n",
    ];
    for line in expected {
        assert_eq!(said.matches(line).count(), 1, "{line}: {said}");
    }
}

#[test]
fn one_signal_that_comes_twice_does_not_cut_a_stop_short_and_a_second_one_does() {
    // A master that takes connections and does not answer, so that the stop takes its time.
    let master = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let master = master.local_addr().unwrap().to_string();
    for (second, later) in [(Signal::TERM, Duration::from_millis(1100)), (Signal::INT, Duration::ZERO)] {
        let folder = Folder::new();
        let mut child = start_worker(&folder, &["--master", &master]);
        for _ in 0..3 {
            kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
            thread::sleep(Duration::from_millis(100));
        }
        thread::sleep(later);
        assert_eq!(child.try_wait().unwrap(), None, "it still stops");
        kill_process(Pid::from_child(&child), second).unwrap();
        until(&mut child, Duration::from_secs(5), |child| child.try_wait().unwrap().is_some());
        assert_eq!(child.wait().unwrap().code(), Some(1));
        let said = fs::read_to_string(folder.path().join("said")).unwrap();
        assert!(said.ends_with("error: ended by a second signal before the stop was complete\n"), "{said}");
    }
}

#[test]
fn a_generator_leaves_no_half_of_a_table() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let folder = Folder::new();
        let out = folder.path().join("tables");
        let args = ["generate", "tpch", "--scale", "10", "--out", out.to_str().unwrap()];
        assert_eq!(ended_by(signal, &folder, &args, ".lineitem.parquet.part"), Some(code), "{signal:?}");
        let names =
            fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert_eq!(names.filter(|name| name.ends_with(".part")).collect::<Vec<_>>(), Vec::<String>::new());
    }
}

#[test]
fn sql_ends_while_it_waits_for_its_script() {
    let folder = Folder::new();
    let mut child = binary()
        .args(["sql", "--format", "csv"])
        .env("TMPDIR", folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The script does not end: its pipe stays open.
    let mut script = child.stdin.take().unwrap();
    script.write_all(b"SELECT 7 AS n;\n").unwrap();
    let mut answer = [0; 4];
    child.stdout.take().unwrap().read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"n\n7\n");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    until(&mut child, LEAVE_MAX, |child| child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!(told, "interrupted\n");
    nothing_is_left(&folder);
}

/// Starts `yeoul sql ARGS` in the folder with nothing to read, and what it writes to be read by the test.
fn start_sql(folder: &Folder, args: &[&str]) -> Child {
    binary()
        .arg("sql")
        .args(args)
        .current_dir(folder.path())
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Waits until a process handles a signal, and not the system for it.
#[track_caller]
fn until_handled(child: &mut Child, signal: Signal) {
    let status = format!("/proc/{}/status", child.id());
    let bit = 1 << (signal.as_raw() - 1);
    until(child, WAIT_MAX, |_| {
        let text = fs::read_to_string(&status).unwrap();
        let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & bit != 0
    });
}

#[test]
fn sql_ends_while_it_opens_a_script_that_nobody_writes() {
    let folder = Folder::new();
    assert!(Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap().success());
    folder.write("first.sql", "SELECT 1;");
    for args in [&["-c", ".read pipe"][..], &["-f", "first.sql", "-f", "pipe"]] {
        for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
            let mut child = start_sql(&folder, args);
            until_handled(&mut child, signal);
            kill_process(Pid::from_child(&child), signal).unwrap();
            until(&mut child, LEAVE_MAX, |child| child.try_wait().unwrap().is_some());
            assert_eq!(child.wait().unwrap().code(), Some(code), "{args:?}");
            assert_eq!(folder.names(), ["first.sql", "pipe"]);
        }
    }
}

#[test]
fn sql_ends_though_nobody_reads_its_answer() {
    use std::io::Read;
    let folder = Folder::new();
    for signals in [1, 2] {
        let args = ["--format", "csv", "-c", "SELECT value AS n FROM range(0, 100000000)"];
        let mut child = start_sql(&folder, &args);
        // It has begun to write, and the pipe takes less than all of it.
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut [0; 4]).unwrap();
        thread::sleep(Duration::from_millis(500));
        for _ in 0..signals {
            kill_process(Pid::from_child(&child), Signal::INT).unwrap();
            thread::sleep(Duration::from_millis(100));
        }
        let started = Instant::now();
        until(&mut child, LEAVE_MAX, |child| child.try_wait().unwrap().is_some());
        assert_eq!(child.wait().unwrap().code(), Some(130));
        // The second is answered at once.
        assert_eq!(started.elapsed() < Duration::from_secs(2), signals == 2);
    }
}

#[test]
fn sql_that_is_told_to_stop_leaves_nothing_of_its_output() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let folder = Folder::new();
        let args = ["--format", "csv", "-o", "out.csv", "-c", "SELECT value FROM range(0, 100000000000)"];
        let mut child = start_sql(&folder, &args);
        until_handled(&mut child, signal);
        until(&mut child, WAIT_MAX, |_| folder.names().iter().any(|name| name.starts_with(".yeoul-copy-")));
        kill_process(Pid::from_child(&child), signal).unwrap();
        until(&mut child, LEAVE_MAX, |child| child.try_wait().unwrap().is_some());
        assert_eq!(child.wait().unwrap().code(), Some(code));
        nothing_is_left(&folder);
    }
}

#[test]
fn a_copy_that_is_told_to_stop_leaves_nothing_of_its_output() {
    // More files than threads write at a time, so that some are only begun when it ends.
    let copy = "COPY (SELECT value AS n, value % 200 AS k FROM range(0, 100000000000)) TO 'out' STORED AS CSV
        PARTITIONED BY (k)";
    let small_buffers = "datafusion.execution.objectstore_writer_buffer_size=65536";
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let folder = Folder::new();
        let mut child = start_sql(&folder, &["--set", small_buffers, "-c", copy]);
        let begun = || {
            let staged = fs::read_dir(folder.path().join("out")).ok()?.next()?.ok()?.path();
            fs::read_dir(staged.join("data")).ok()?.next()
        };
        until(&mut child, WAIT_MAX, |_| begun().is_some());
        kill_process(Pid::from_child(&child), signal).unwrap();
        until(&mut child, LEAVE_MAX, |child| child.try_wait().unwrap().is_some());
        assert_eq!(child.wait().unwrap().code(), Some(code));
        nothing_is_left(&folder);
    }
}
