//! What the verbs do, on one cluster for all that only adds to it.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::Folder;
use crate::server::{Cluster, Server};

/// Longest time until a DataNode has registered, on a busy machine.
const REGISTERED_WITHIN: Duration = Duration::from_secs(60);

/// Bytes that are never the same twice in a row.
fn content(length: usize) -> Vec<u8> {
    let mut state = 7_u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[test]
fn files_go_there_and_back_and_are_shown_as_in_hadoop() {
    let cluster = Cluster::start(3);
    let bytes = content(2_500_000);
    cluster.folder.write("in/data.bin", &bytes);
    cluster.folder.write("in/deep/er/small.txt", "two\nlines\n");
    cluster.dfs(&["-mkdir", "-p", "/a/b"]).shows("exit 0");
    cluster.dfs(&["-put", "in/data.bin", "/a"]).shows("exit 0");
    cluster.dfs(&["-D", "dfs.replication=2", "-put", "in", "/a/tree"]).shows("exit 0");
    assert_eq!(
        cluster.shown(&["-ls", "-R", "/"]),
        "exit 0
drwxr-xr-x   - [USER] supergroup          0 [DAY] [TIME] /a
drwxr-xr-x   - [USER] supergroup          0 [DAY] [TIME] /a/b
-rw-r--r--   3 [USER] supergroup    2500000 [DAY] [TIME] /a/data.bin
drwxr-xr-x   - [USER] supergroup          0 [DAY] [TIME] /a/tree
-rw-r--r--   2 [USER] supergroup    2500000 [DAY] [TIME] /a/tree/data.bin
drwxr-xr-x   - [USER] supergroup          0 [DAY] [TIME] /a/tree/deep
drwxr-xr-x   - [USER] supergroup          0 [DAY] [TIME] /a/tree/deep/er
-rw-r--r--   2 [USER] supergroup         10 [DAY] [TIME] /a/tree/deep/er/small.txt
"
    );
    cluster.dfs(&["-ls", "-C", "-r", "/a"]).shows("exit 0\n/a/tree\n/a/data.bin\n/a/b");
    cluster.dfs(&["-cat", "/a/tree/deep/*/s*.txt"]).shows("exit 0\ntwo\nlines");
    let (status, out, _) = cluster.dfs(&["-cat", "/a/data.bin"]).output();
    assert!(status.success() && out == bytes, "{} bytes", out.len());
    cluster.dfs(&["-get", "/a", "back"]).shows("exit 0");
    assert_eq!(fs::read(cluster.folder.path().join("back/tree/data.bin")).unwrap(), bytes);
    assert_eq!(fs::read(cluster.folder.path().join("back/tree/deep/er/small.txt")).unwrap(), b"two\nlines\n");
    let sizes = "exit 0\n5000010  12500020  /a\n";
    cluster.dfs(&["-du", "-s", "/a"]).shows(sizes);
    cluster
        .dfs(&["-du", "-h", "/a/tree"])
        .shows("exit 0\n2.4 M  4.8 M  /a/tree/data.bin\n10     20     /a/tree/deep");
    cluster
        .dfs(&["-stat", "%n %b %r %a %F", "/a/data.bin", "/a/b"])
        .shows("exit 0\ndata.bin 2500000 3 644 regular file\nb 0 0 755 directory");
    let (status, out, _) = cluster.dfs(&["-ls", "--json", "/a/data.bin"]).output();
    let object: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert!(status.success());
    assert_eq!(
        (&object["path"], &object["length"], &object["mode"]),
        (&"/a/data.bin".into(), &2_500_000.into(), &"0644".into())
    );
}

#[test]
fn names_move_and_go() {
    let cluster = Cluster::start(1);
    cluster.folder.write("x", "x");
    let put = |args: &[&str]| cluster.dfs(&[&["-D", "dfs.replication=1", "-put"], args].concat());
    cluster.dfs(&["-mkdir", "/d"]).shows("exit 0");
    put(&["x", "/one"]).shows("exit 0");
    put(&["-", "/two"]).stdin("from stdin").shows("exit 0");
    cluster.dfs(&["-mv", "/one", "/two", "/d"]).shows("exit 0");
    cluster.dfs(&["-mv", "/d/one", "/d/three"]).shows("exit 0");
    cluster.dfs(&["-cat", "/d/three", "/d/two"]).shows("exit 0\nxfrom stdin");
    cluster.dfs(&["-mv", "/d/two", "/d/three"]).shows("exit 1\n-- stderr\nerror: /d/three: it exists");
    cluster.dfs(&["-rm", "/d/two", "/none", "/d"]).shows(
        "
exit 1
Deleted /d/two
-- stderr
error: /none: no such file or directory
error: /d: it is a directory
hint: -rm -r removes it with all that is in it
",
    );
    cluster.dfs(&["-rm", "-f", "/none"]).shows("exit 0");
    cluster.dfs(&["-rm", "-r", "-skipTrash", "/d"]).shows("exit 0\nDeleted /d");
    cluster.dfs(&["-ls", "/"]).shows("exit 0");
}

#[test]
fn what_is_there_is_replaced_only_if_told_so_and_nothing_half_stays() {
    let cluster = Cluster::start(1);
    cluster.folder.write("x", "first");
    cluster.folder.write("y", "second");
    let put = |args: &[&str]| cluster.dfs(&[&["-D", "dfs.replication=1", "-put"], args].concat());
    put(&["x", "/f"]).shows("exit 0");
    put(&["y", "/f"]).shows("exit 1\n-- stderr\nerror: /f: it exists\nhint: -put -f replaces it");
    cluster.dfs(&["-cat", "/f"]).shows("exit 0\nfirst");
    put(&["-f", "y", "/f"]).shows("exit 0");
    cluster.dfs(&["-cat", "/f"]).shows("exit 0\nsecond");
    cluster
        .dfs(&["-get", "/f", "x"])
        .shows("exit 1\n-- stderr\nerror: x: it exists\nhint: -get -f replaces a file");
    cluster.dfs(&["-get", "-f", "/f", "x"]).shows("exit 0");
    assert_eq!(fs::read(cluster.folder.path().join("x")).unwrap(), b"second");
    // More copies than there are DataNodes are no failure; a block that no DataNode takes is.
    put(&["y", "/none/g"]).shows(
        "exit 1\n-- stderr\nerror: /none: no such directory\nhint: yeoul dfs -mkdir -p /none makes it",
    );
    cluster.dfs(&["-ls", "-C", "/"]).shows("exit 0\n/f");
    assert_eq!(cluster.folder.names(), ["cluster", "x", "y"]);
}

#[test]
fn a_report_is_for_people_and_for_programs() {
    let cluster = Cluster::start(2);
    let seen = cluster.shown(&["report"]);
    assert!(
        seen.starts_with("exit 0\nNameNode            [NAMENODE]\nDataNodes           2 live, 0 dead\n"),
        "{seen}"
    );
    let (status, out, _) = cluster.dfs(&["report", "--json"]).output();
    let report: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert!(status.success());
    assert_eq!(report["missing_blocks"], 0);
    assert_eq!(report["datanodes"].as_array().unwrap().len(), 2);
}

/// Its input does not come: it waits for it in a system call, and is interrupted nevertheless.
#[test]
fn an_interrupted_copy_leaves_nothing() {
    let cluster = Cluster::start(1);
    let mut run = cluster.dfs(&["-D", "dfs.replication=1", "-put", "-", "/half"]);
    let piped = run.command.stdin(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let _open = child.stdin.take();
    let names = || cluster.dfs(&["-ls", "-C", "/"]).done();
    assert!((0..500).any(|_| names() == "exit 0\n/half._COPYING_\n"), "{}", names());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), ended.stderr), (Some(130), b"interrupted\n".to_vec()));
    assert_eq!(names(), "exit 0\n");
}

/// Who reads the results may go when it has what it wants.
#[test]
fn a_closed_pipe_is_success() {
    let cluster = Cluster::start(1);
    cluster.folder.write("big", content(4_000_000));
    cluster.dfs(&["-D", "dfs.replication=1", "-put", "big", "/big"]).shows("exit 0");
    let mut run = cluster.dfs(&["-cat", "/big"]);
    let mut child = run.command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn servers_take_hadoops_settings_and_show_pages_and_metrics() {
    let folder = Folder::new();
    let property =
        |name: &str, value: &str| format!("<property><name>{name}</name><value>{value}</value></property>\n");
    let site = [
        property("dfs.namenode.name.dir", "name"),
        property("dfs.datanode.data.dir", "[DISK]data1,data2"),
        property("dfs.replication", "1"),
        property("dfs.namenode.handler.count", "64"),
    ];
    folder.write("conf/hdfs-site.xml", format!("<configuration>\n{}</configuration>", site.concat()));
    let namenode = Server::start(&folder, &["namenode", "--format", "--conf", "conf", "--port", "0"]);
    let flags = ["--conf", "conf", "--namenode", &namenode.address, "--port", "0", "--ipc-port", "0"];
    let datanode = Server::start(&folder, &[&["datanode"][..], &flags].concat());
    assert_eq!(folder.names(), ["conf", "data1", "data2", "name"]);
    let deadline = Instant::now() + REGISTERED_WITHIN;
    while !namenode.page("/status").contains("1 live, 0 dead") {
        assert!(Instant::now() < deadline, "{}", namenode.page("/status"));
        std::thread::sleep(Duration::from_millis(10));
    }
    folder.write("x", content(100_000));
    let fs = format!("hdfs://{}", namenode.address);
    folder.yeoul(["dfs", "-fs", &fs, "-put", "x", "/x"]).shows("exit 0");
    let metrics = namenode.page("/metrics/prometheus");
    for line in [
        "fs_namesystem_num_live_data_nodes 1\n",
        "fs_namesystem_files_total 2\n",
        "fs_namesystem_file_bytes 100000\n",
    ] {
        assert!(metrics.starts_with("200\n") && metrics.contains(line), "{metrics}");
    }
    assert!(metrics.contains("process_resident_memory_bytes"), "{metrics}");
    let status: serde_json::Value =
        serde_json::from_str(datanode.page("/api/v1/status").split_once('\n').unwrap().1).unwrap();
    let storages = status["storages"].as_array().unwrap();
    assert_eq!(storages.len(), 2);
    assert_eq!(storages.iter().map(|storage| storage["blocks"].as_u64().unwrap()).sum::<u64>(), 1);
    assert!(datanode.page("/metrics/prometheus").contains("fs_dataset_used{storage="));
    assert_eq!(datanode.page("/healthz"), "200\nok\n");
    assert!(namenode.page("/none").starts_with("404\nno such page; there are:\nGET  /status"));
}

#[test]
fn the_demo_reads_what_killed_datanodes_had() {
    let seen = Folder::new().yeoul(["demo", "--act", "dfs", "--json"]).done();
    assert!(seen.starts_with("exit 0\n"), "{seen}");
    assert!(seen.contains("DataNodes, RS-6-3-1024k"), "{seen}");
    assert!(seen.contains("after 2 of them were killed"), "{seen}");
    assert!(seen.contains("2 of 9 internal blocks were on the killed ones"), "{seen}");
    assert!(
        seen.contains("after 2 more were killed") && seen.contains("2 of 9 internal blocks again"),
        "{seen}"
    );
}
