//! What is asked wrongly, and what is not there.

use crate::harness::Folder;

#[test]
fn a_verb_that_is_not_here_is_refused_by_its_name() {
    let folder = Folder::new();
    folder.yeoul(["dfs", "-chmod", "700", "/a"]).shows(
        "exit 2\n-- stderr\nerror: yeoul dfs has no -chmod\nhint: hdfs dfs -chmod of Hadoop works on the same files",
    );
    folder
        .yeoul(["dfs", "-fs", "hdfs://n1", "-copyFromLocal", "x", "/"])
        .shows("exit 2\n-- stderr\nerror: yeoul dfs has no -copyFromLocal\nhint: -put does the same");
    let seen = folder.yeoul(["dfs", "-put", "-l", "x", "/"]).done();
    assert!(seen.starts_with("exit 2\n-- stderr\nerror: unexpected argument '-l' found"), "{seen}");
}

#[test]
fn a_client_says_what_it_lacks() {
    let folder = Folder::new();
    let seen = folder.yeoul(["dfs", "-ls", "/"]).done();
    assert!(
        seen.starts_with(
            "exit 2\n-- stderr\nerror: nothing names a NameNode\nhint: give --fs hdfs://HOST:PORT"
        ),
        "{seen}"
    );
    folder.yeoul(["dfs", "-ls", "s3://bucket/x"]).shows(
        "
exit 2
-- stderr
error: 's3://bucket/x' is no path of this file system: its scheme is s3
hint: paths are /a/b or hdfs://HOST:PORT/a/b; local files are only in -put and -get
",
    );
    let seen = folder.yeoul(["dfs", "-ls", "hdfs://127.0.0.1:1/"]).done();
    assert!(seen.starts_with("exit 1\n-- stderr\nerror: no answer from 127.0.0.1:1\n"), "{seen}");
    assert!(
        seen.ends_with("hint: see that the NameNode runs, and that --fs or fs.defaultFS has its address\n"),
        "{seen}"
    );
}

#[test]
fn settings_are_read_from_a_directory_and_the_command_line() {
    let folder = Folder::new();
    folder.write(
        "conf/core-site.xml",
        "<configuration>\n<property><name>fs.defaultFS</name><value>hdfs://127.0.0.1:2</value></property>\n</configuration>",
    );
    let seen = folder.yeoul(["dfs", "-conf", "conf", "-ls", "/"]).done();
    assert!(seen.contains("no answer from 127.0.0.1:2"), "{seen}");
    let seen =
        folder.yeoul(["dfs", "-conf", "conf", "-D", "fs.defaultFS=hdfs://127.0.0.1:3", "-ls", "/"]).done();
    assert!(seen.contains("no answer from 127.0.0.1:3"), "{seen}");
    folder.yeoul(["dfs", "--conf", "none", "-ls", "/"]).shows(
        "
exit 1
-- stderr
error: there is no core-site.xml and no hdfs-site.xml in none
hint: --conf names the directory of Hadoop's settings
",
    );
    folder
        .yeoul(["dfs", "-D", "dfs.replication=x", "-ls", "/"])
        .shows("exit 2\n-- stderr\nerror: -D: dfs.replication = x: expected a number from 1 to 512");
}

#[test]
fn a_server_says_what_it_lacks_and_refuses_what_it_would_not_keep() {
    let folder = Folder::new();
    folder.yeoul(["dfs", "namenode"]).shows(
        "exit 2\n-- stderr\nerror: a NameNode needs a directory\nhint: give one with --dir, or dfs.namenode.name.dir in --conf",
    );
    folder.yeoul(["dfs", "datanode", "--dir", "d"]).shows(
        "exit 2\n-- stderr\nerror: a DataNode needs the address of its NameNode\n\
         hint: give it with --namenode HOST:PORT, or fs.defaultFS in --conf",
    );
    folder.write(
        "conf/hdfs-site.xml",
        "<configuration>\n<property><name>dfs.permissions.enabled</name><value>false</value></property>\n</configuration>",
    );
    folder.yeoul(["dfs", "namenode", "--dir", "d", "--conf", "conf"]).shows(
        "
exit 2
-- stderr
error: conf/hdfs-site.xml, line 2: dfs.permissions.enabled = false is refused: permissions are always checked
hint: remove the line; docs/reference/dfs-settings.md lists what each key does
",
    );
    assert_eq!(folder.names(), ["conf"], "nothing was begun");
}
