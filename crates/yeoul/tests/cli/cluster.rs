//! A cluster on one machine, as its users see it: its memory, what it says of its jobs, and the end of a client.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::harness::{Folder, Run, binary};

/// Memory of an executor, of which the join below needs more.
const MEMORY_KB: u64 = 320 << 10;
const MEMORY: &str = "320MiB";

/// Time for a cluster to come up, and for a job to be there.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Time for the job of a client that has gone to end: it may have gone before the scheduler knew that somebody waits.
const END_MAX: Duration = Duration::from_secs(10);

/// Ticks of computing by which an executor is within the join below, and of which one that does nothing needs fewer in a second.
const JOIN_TICKS: u64 = 150;
const IDLE_TICKS_MAX: u64 = 10;

/// A join of few keys that runs for hours: one row of an input gives two million.
const LONG: &str = "SELECT count(*) FROM (SELECT value % 2 AS x FROM generate_series(1, 4000000)) AS a \
     JOIN (SELECT value % 2 AS y FROM generate_series(1, 4000000)) AS b ON a.x = b.y";

/// A server that says where it is. It ends with the test.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    fn start(command: &mut Command) -> Self {
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Self { process, address: address.trim().to_owned() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// `yeoul cluster local` with one executor of two threads.
struct Cluster {
    server: Server,
    http: String,
    folder: Folder,
}

impl Cluster {
    fn start() -> Self {
        let folder = Folder::new();
        let http = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = binary();
        command
            .args(["cluster", "local", "--executors", "1", "--threads", "2", "--memory", MEMORY])
            .args(["--dir", ".", "--port", "0", "--http-port", &http.port().to_string()])
            .current_dir(folder.path());
        let cluster = Self { server: Server::start(&mut command), http: http.to_string(), folder };
        cluster.until(WAIT_MAX, "/api/v1/executors", |told| told["executors"].as_array().unwrap().len() == 1);
        cluster
    }

    fn sql(&self, sql: &str) -> Run {
        self.folder.yeoul(["sql", "--quiet", "--cluster", &self.server.address, "--format", "csv", "-c", sql])
    }

    /// Status code, head and body of an answer.
    fn ask(&self, method: &str, path: &str, accept: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(&self.http).unwrap();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n");
        write!(stream, "{head}Connection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), head.to_lowercase(), body.to_owned())
    }

    fn json(&self, path: &str) -> Value {
        let (status, _, body) = self.ask("GET", path, "*/*");
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    #[track_caller]
    fn until(&self, max: Duration, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + max;
        loop {
            let told = self.json(path);
            if is_so(&told) {
                return told;
            }
            assert!(Instant::now() < deadline, "not so within {max:?}: {told}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn until_running(&self, count: usize, max: Duration) {
        let running = |told: &Value| {
            told["jobs"].as_array().unwrap().iter().filter(|job| job["state"] == "running").count()
        };
        self.until(max, "/api/v1/jobs", |told| running(told) == count);
    }

    /// The process of the executor.
    fn executor(&self) -> u64 {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let processes = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let parent = Some(u64::from(self.server.process.id()));
        let executors: Vec<u64> =
            processes.filter(|process| status_field(*process, "PPid:") == parent).collect();
        assert_eq!(executors.len(), 1, "it has one executor");
        executors[0]
    }

    /// The most memory that the executor's process has held.
    fn executor_peak_kb(&self) -> u64 {
        status_field(self.executor(), "VmHWM:").unwrap()
    }

    /// Time for which the executor has computed, in hundredths of a second.
    fn executor_ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.executor())).unwrap();
        stat.rsplit_once(')').unwrap().1.split_whitespace().nth(11).unwrap().parse().unwrap()
    }

    /// Waits until the executor computes next to nothing.
    fn until_idle(&self, max: Duration) {
        let deadline = Instant::now() + max;
        loop {
            let before = self.executor_ticks();
            thread::sleep(Duration::from_secs(1));
            let ticks = self.executor_ticks() - before;
            if ticks < IDLE_TICKS_MAX {
                return;
            }
            assert!(Instant::now() < deadline, "{ticks} ticks in a second");
        }
    }
}

/// A number that the system tells of a process.
fn status_field(process: u64, name: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

#[test]
fn a_join_beyond_the_memory_of_an_executor_is_answered_within_it() {
    let cluster = Cluster::start();
    let sql = "SELECT count(*) AS n, sum(a.x) AS s, max(b.y) AS m FROM (SELECT value AS x FROM generate_series(1, 4000000)) AS a \
         FULL JOIN (SELECT value * 2 AS y FROM generate_series(1, 4000000)) AS b ON a.x = b.y";
    cluster.sql(sql).shows("exit 0\nn,s,m\n6000000,8000002000000,8000000\n");
    let peak = cluster.executor_peak_kb();
    assert!(peak <= MEMORY_KB, "{peak} kB of {MEMORY_KB} kB");
}

/// A task runs again if memory runs out. What it reads of files itself, it has to read again from the beginning.
#[test]
fn a_task_that_has_run_out_of_memory_reads_its_files_again() {
    let cluster = Cluster::start();
    for (file, rows) in [
        ("big", "value AS x FROM generate_series(1, 2000000)"),
        ("small", "value AS y, repeat(md5(CAST(value AS VARCHAR)), 40) AS t FROM generate_series(1, 100000)"),
    ] {
        let copy = format!("COPY (SELECT {rows}) TO '{file}.parquet'");
        assert!(cluster.folder.yeoul(["sql", "--quiet", "-c", &copy]).done().starts_with("exit 0\n"));
    }
    let mut answered = 0;
    // Of these, an executor has enough memory for the first, and for the last two not at once.
    for kept in [50_000, 70_000, 80_000] {
        let sql = format!(
            "SELECT count(*) AS n, sum(length(s.t)) AS l FROM 'big.parquet' AS b JOIN 'small.parquet' AS s \
             ON b.x % 200000 = s.y WHERE s.y <= {kept}"
        );
        let common = ["sql", "--quiet", "--shared-paths", "--threads", "2", "--format", "csv"];
        let said = cluster
            .folder
            .yeoul(common.into_iter().chain(["--cluster", &cluster.server.address, "-c", &sql]))
            .done();
        let right = format!("n,l\n{},{}\n", kept * 10, kept * 10 * 32 * 40);
        match said.starts_with("exit 0\n") {
            true => {
                assert!(said.contains(&right), "{said}");
                answered += 1;
            }
            false => assert!(said.contains("memory") || said.contains("the process uses"), "{said}"),
        }
    }
    assert!(answered > 0, "nothing was answered");
}

#[test]
fn a_cluster_tells_of_its_jobs() {
    let cluster = Cluster::start();
    let sql = "SELECT value % 3 AS k, count(*) AS n FROM generate_series(1, 9000) GROUP BY k ORDER BY k";
    cluster.sql(sql).shows("exit 0\nk,n\n0,3000\n1,3000\n2,3000\n");

    let told = cluster.json("/api/v1/jobs");
    let job = &told["jobs"][0];
    assert_eq!(
        (&job["state"], &job["stages"], &job["stagesEnded"]),
        (&"answered".into(), &3.into(), &3.into())
    );
    let told = cluster.json(&format!("/api/v1/jobs/{}", job["id"].as_str().unwrap()));
    let stages = told["stages"].as_array().unwrap();
    assert_eq!(stages.last().unwrap()["rows"], 3, "{stages:?}");
    assert!(stages.iter().all(|stage| stage["tasks"] == stage["tasksEnded"] && stage["executors"] == 1));

    let plan = cluster.sql(&format!("EXPLAIN ANALYZE {sql}")).done();
    for words in [
        "stage 1: ",
        "stage 3: 1 task on 1 executor in ",
        ", 3 rows, ",
        "AggregateExec",
        "SortPreservingMergeExec",
    ] {
        assert!(plan.contains(words), "{words}: {plan}");
    }
    let refused = cluster.sql("EXPLAIN ANALYZE COPY (SELECT 1 AS n) TO 'x.csv'").done();
    assert!(refused.contains("EXPLAIN ANALYZE of a statement that writes"), "{refused}");

    let jobs =
        cluster.folder.yeoul(["sql", "--quiet", "--cluster", &cluster.server.address, "--format", "csv"]);
    let jobs = jobs.stdin(".jobs\n").done();
    assert!(jobs.starts_with("exit 0\njob,state,began,ended,stages_ended,stages\n"), "{jobs}");
    assert_eq!(jobs.matches(",answered,").count(), 2, "{jobs}");
    let alone = cluster.folder.yeoul(["sql", "--quiet"]).stdin(".jobs\n").done();
    assert!(alone.contains("hint: --cluster"), "{alone}");

    let (status, head, page) = cluster.ask("GET", "/", "text/html");
    assert!(status == 200 && head.contains("text/html"), "{head}");
    assert!(page.contains("Executors") && page.contains("answered"), "{page}");
    let (status, _, list) = cluster.ask("GET", "/", "*/*");
    assert!(status == 200 && list.contains("/api/v1/executors"), "{list}");
    let (status, _, metrics) = cluster.ask("GET", "/metrics/prometheus", "*/*");
    assert!(status == 200 && metrics.contains("cluster_jobs_completed_total 2"), "{metrics}");
    assert_eq!(cluster.ask("GET", "/healthz", "*/*").0, 200);
    assert_eq!(cluster.ask("GET", "/api/v1/jobs/unknown", "*/*").0, 404);
}

#[test]
fn files_of_a_store_are_read_by_the_executors() {
    let cluster = Cluster::start();
    let mut store = binary();
    store.args(["dfs", "local", "--datanodes", "1", "--dir", "store", "--port", "0", "--log", "off"]);
    let store = Server::start(store.current_dir(cluster.folder.path()));
    let file = format!("hdfs://{}/t/n.parquet", store.address);
    let local = cluster.folder.path().join("n.parquet");
    let rows = "SELECT value AS n FROM generate_series(1, 1000)";
    for path in [file.as_str(), local.to_str().unwrap()] {
        let written = cluster.folder.yeoul(["sql", "--quiet", "-c", &format!("COPY ({rows}) TO '{path}'")]);
        assert!(written.done().starts_with("exit 0\n"));
    }
    let of = |path: &str| {
        format!("SELECT count(*) AS n, sum(a.n) AS s FROM '{path}' AS a JOIN '{path}' AS b ON a.n = b.n + 1")
    };
    cluster.sql(&of(&file)).shows("exit 0\nn,s\n999,500499\n");
    // Another file on each machine, unless somebody says that it is not.
    let refused = cluster.sql(&of(local.to_str().unwrap())).done();
    assert!(refused.contains("--shared-paths"), "{refused}");
}

#[test]
fn the_job_of_a_client_that_has_gone_ends() {
    let cluster = Cluster::start();
    for signal in [Signal::KILL, Signal::INT] {
        let mut client = binary();
        client.args(["sql", "--quiet", "--cluster", &cluster.server.address, "-c", LONG]);
        let mut client =
            client.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        cluster.until_running(1, WAIT_MAX);
        // It is within the join.
        let before = cluster.executor_ticks();
        while cluster.executor_ticks() < before + JOIN_TICKS {
            thread::sleep(Duration::from_millis(20));
        }
        kill_process(Pid::from_child(&client), signal).unwrap();
        client.wait().unwrap();
        cluster.until_running(0, END_MAX);
        cluster.until_idle(END_MAX);
        // The slots are free for the next one.
        cluster
            .sql("SELECT count(*) AS n FROM generate_series(1, 10) AS g(v) WHERE v > 3")
            .shows("exit 0\nn\n7\n");
    }
}

#[test]
fn a_cluster_that_other_machines_reach_asks_for_its_token() {
    let folder = Folder::new();
    fs::write(folder.path().join("token"), "a-secret-of-this-cluster\n").unwrap();
    fs::write(folder.path().join("other"), "a-secret-of-another-cluster\n").unwrap();
    let scheduler = ["cluster", "scheduler", "--host", "0.0.0.0", "--port", "0", "--http-port", "0"];
    let refused = folder.yeoul(scheduler).done();
    assert!(refused.starts_with("exit 2\n") && refused.contains("--token-file"), "{refused}");

    let mut command = binary();
    command.args(scheduler).args(["--token-file", "token"]).current_dir(folder.path());
    let scheduler = Server::start(&mut command);
    let port = scheduler.address.rsplit_once(':').unwrap().1;
    let scheduler_address = format!("127.0.0.1:{port}");
    let executor = |token: &str| {
        let mut command = binary();
        command.args(["cluster", "executor", "--scheduler", &scheduler_address, "--spill-dir", "."]);
        command.env("YEOUL_CLUSTER_TOKEN_FILE", token).current_dir(folder.path());
        command
    };
    let _executor = Server::start(&mut executor("token"));
    let sql = |more: &[&str]| {
        let common = ["sql", "--quiet", "--cluster", &scheduler_address, "--format", "csv", "-c"];
        let query = "SELECT count(*) AS n FROM generate_series(1, 10) AS g(v) WHERE v > 3";
        folder.yeoul(common.into_iter().chain([query]).chain(more.iter().copied()))
    };
    sql(&["--cluster-token-file", "token"]).shows("exit 0\nn\n7\n");
    for (token, says) in
        [(&[][..], "asks for its token"), (&["--cluster-token-file", "other"], "has another token")]
    {
        let refused = sql(token).done();
        assert!(refused.starts_with("exit 1\n") && refused.contains(says), "{refused}");
        assert!(refused.contains("hint: --cluster-token-file"), "{refused}");
    }
    let stranger = executor("other").stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&stranger.stderr);
    assert!(!stranger.status.success() && said.contains("has another token"), "{said}");
}
