//! Exit codes that every verb shares: 2 for what is asked wrongly, 1 for what fails, before anything is started.

use crate::harness::Folder;

#[test]
fn a_worker_without_a_directory_is_used_wrongly() {
    Folder::new().yeoul(["shuffle", "worker"]).shows(
        "
exit 2
-- stderr
error: a worker needs a directory
hint: give one with --dir, or several, separated by commas
",
    );
}

#[test]
fn a_query_that_a_suite_does_not_have_is_refused_before_anything_is_fetched() {
    for (suite, query, last) in [("tpch", "99", 22), ("tpch", "0", 22), ("tpcds", "100", 99)] {
        let folder = Folder::new();
        let expected = format!("exit 2\n-- stderr\nerror: there is no query {query}: they are 1 to {last}");
        folder.yeoul(["bench", suite, "--queries", query, "--json", "report.json"]).shows(&expected);
        assert!(folder.names().is_empty(), "{:?}", folder.names());
    }
}

#[test]
fn a_limit_that_nobody_can_keep_is_refused_before_anything_is_fetched() {
    let folder = Folder::new();
    folder.yeoul(["bench", "tpch", "--memory", "1GiB,1MiB", "--json", "report.json"]).shows(
        "
exit 2
-- stderr
error: a memory limit of [SIZE] is too small to start
hint: --memory takes [SIZE] and more
",
    );
    folder.yeoul(["bench", "tpch", "--data", "none", "--html", "report.html"]).shows(
        "
exit 1
-- stderr
error: cannot read none: No such file or directory (os error 2)
",
    );
    assert!(folder.names().is_empty(), "{:?}", folder.names());
}

#[test]
fn a_disk_that_is_not_there_is_named() {
    let folder = Folder::new();
    folder.yeoul(["bench", "shuffle", "--dir", "none", "--json", "report.json"]).shows(
        "
exit 1
-- stderr
error: cannot use none
caused by: No such file or directory (os error 2)
hint: --dir names a directory that exists
",
    );
    assert!(folder.names().is_empty(), "{:?}", folder.names());
}

#[test]
fn what_does_not_fit_on_the_disk_is_not_begun() {
    let folder = Folder::new();
    let seen = folder.yeoul(["bench", "shuffle", "--dir", ".", "--bytes", "1000000TiB"]).done();
    let told = "error: 1000000 TiB for each measurement on the disk need 1062500 TiB in ., which has ";
    let hint = " free\nhint: measure fewer --bytes, or on another disk with --dir\n";
    assert!(seen.starts_with(&format!("exit 1\n-- stderr\n{told}")) && seen.ends_with(hint), "{seen}");
    assert!(folder.names().is_empty(), "{:?}", folder.names());
}

#[test]
fn a_number_that_is_none_is_refused_in_our_words() {
    let folder = Folder::new();
    let master = || folder.yeoul(["shuffle", "master"]);
    let message = "expected a port, a number from 0 to 65535";
    for port in ["abc", "-1", "65536"] {
        let expected = format!(
            "exit 2\n-- stderr\nerror: invalid value '{port}' for '--port <PORT>': {message}\n\n\
             For more information, try '--help'.\n"
        );
        master().with(["--port", port]).shows(&expected);
    }
    let mut run = master();
    run.command.env("YEOUL_SHUFFLE_PORT", "abc");
    let expected = format!(
        "exit 2\n-- stderr\nerror: invalid value 'abc' for '--port <PORT>': {message}\n\n  \
         tip: 'abc' is from the variable YEOUL_SHUFFLE_PORT of the environment\n\n\
         For more information, try '--help'.\n"
    );
    run.shows(&expected);
    let seen = folder.yeoul(["generate", "tpch", "--out", "data", "--scale", "-1"]).done();
    assert!(seen.starts_with("exit 2\n") && seen.contains("a scale is a number from 0.001"), "{seen}");
}

#[test]
fn the_help_tells_what_there_is() {
    let folder = Folder::new();
    for (args, told) in [
        (vec!["demo", "--help"], "[possible values: sql, cluster, shuffle, dfs, stream]"),
        (vec!["bench", "tpcds", "--help"], "yeoul bench tpcds --queries"),
        (vec!["sql", "--help"], "http(s)://"),
        (vec!["sql", "--help"], "[default: 100GiB]"),
    ] {
        let seen = folder.yeoul(args).done();
        assert!(seen.starts_with("exit 0\n") && seen.contains(told), "{seen}");
    }
}

#[test]
fn a_comparison_of_streams_that_cannot_be_made_is_refused_before_anything_is_measured() {
    let folder = Folder::new();
    for (args, told) in [
        (vec!["--against", "spark"], "--kafka <HOST:PORT>"),
        (vec!["--against", "flink", "--kafka", "localhost:1"], "[possible values: spark]"),
        (vec!["--latency-only"], "--kafka <HOST:PORT>"),
        (vec!["--pipelines", "sort"], "error: there is no pipeline 'sort', expected stateless, "),
    ] {
        let seen = folder.yeoul([&["bench", "stream"][..], &args].concat()).done();
        assert!(seen.starts_with("exit 2\n") && seen.contains(told), "{seen}");
    }
}

#[test]
fn what_was_generated_is_read_by_the_name_of_its_directory() {
    let folder = Folder::new();
    let made = folder.yeoul(["generate", "tpch", "--scale", "0.001", "--out", "data", "--json"]).done();
    assert!(made.starts_with("exit 0\n"), "{made}");
    for name in ["customer", "lineitem", "nation", "orders", "part", "partsupp", "supplier"] {
        std::fs::remove_file(folder.path().join(format!("data/{name}.parquet"))).unwrap();
    }
    folder.sql("SELECT count(*) AS n FROM 'data'").with(["-q", "--format", "csv"]).shows("exit 0\nn\n5");
}

#[test]
fn a_master_that_is_no_address_is_refused() {
    Folder::new().yeoul(["shuffle", "worker", "--dir", "data", "--master", "celeborn://m1:70000"]).shows(
        "
exit 2
-- stderr
error: 'celeborn://m1:70000' is no address of a master
hint: give it as HOST:PORT, such as 10.0.0.1:9097 or [fd00::7]:9097
",
    );
}

#[test]
fn a_report_that_cannot_be_written_is_not_measured_first() {
    Folder::new().yeoul(["bench", "shuffle", "--json", "none/report.json"]).shows(
        "
exit 1
-- stderr
error: cannot write none/report.json: No such file or directory (os error 2)
",
    );
    let seen = Folder::new().yeoul(["bench", "tpch", "--html", "-"]).done();
    assert!(seen.starts_with("exit 2\n") && seen.contains("expected the name of a file"), "{seen}");
}

#[test]
fn what_cannot_be_given_to_a_server_is_named() {
    let folder = Folder::new();
    folder.write("file", "");
    folder.yeoul(["shuffle", "worker", "--dir", "w,x,./w"]).shows(
        "
exit 2
-- stderr
error: './w' is named twice among the directories
hint: name each once, in --dir or in celeborn.worker.storage.dirs
",
    );
    folder.yeoul(["shuffle", "worker", "--dir", "w", "--rpc-port", "7", "--push-port", "0,0,7"]).shows(
        "
exit 2
-- stderr
error: port 7 is given twice
hint: give each of --push-port, --rpc-port, --fetch-port, --replicate-port and --http-port others, or 0 for a free one
",
    );
    let expected = |purpose: &str| {
        format!(
            "exit 1\n-- stderr\nerror: cannot use 'file' for {purpose}: it is not a directory\n\
             hint: --dir names a directory that may be written, and that is made if need be"
        )
    };
    folder
        .yeoul(["shuffle", "master", "--port", "0", "--http-port", "0", "--dir", "file"])
        .shows(&expected("the journal"));
    folder.yeoul(["shuffle", "worker", "--dir", "file"]).shows(&expected("batches"));
    assert_eq!(folder.names(), ["file"]);
}

#[test]
fn a_limit_beyond_what_the_machine_has_is_taken_and_named() {
    let folder = Folder::new();
    let run = || folder.yeoul(["sql", "--memory", "9000TiB", "-c", "SELECT 7 AS n", "--format", "csv"]);
    let seen = run().done();
    let told = "-- stderr\nnotice: --memory 9000 TiB is more than the ";
    assert!(seen.starts_with("exit 0\nn\n7\n") && seen.contains(told), "{seen}");
    run().with(["--quiet"]).shows("exit 0\nn\n7");
}

/// 50 MB are less than the 48 MiB that a worker needs; as Celeborn's settings have it, they would be more.
#[test]
fn a_size_means_the_same_to_every_verb() {
    let folder = Folder::new();
    folder.yeoul(["shuffle", "worker", "--dir", "data", "--memory", "50MB"]).shows(
        "
exit 2
-- stderr
error: memory of [SIZE], expected at least [SIZE]
hint: give at least --memory 48MiB
",
    );
    folder.yeoul(["shuffle", "worker", "--dir", "data", "--disk-reserve", "lots"]).shows(
        "
exit 2
-- stderr
error: invalid value 'lots' for '--disk-reserve <SIZE>': 'lots' is not a size: expected a number and a unit such as 512MiB, 1GiB or 2GB

For more information, try '--help'.
",
    );
}
