//! A cluster in a process of its own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use crate::harness::{Folder, Run, binary};

/// A running `yeoul dfs local`. It ends with the test.
pub struct Cluster {
    process: Child,
    pub address: String,
    pub folder: Folder,
}

impl Cluster {
    pub fn start(datanodes: u32) -> Self {
        let folder = Folder::new();
        let mut command = binary();
        command
            .args(["dfs", "local", "--datanodes", &datanodes.to_string(), "--dir", "cluster", "--port", "0"])
            .args(["--min-block-size", "0", "--log", "off"])
            .current_dir(folder.path())
            .env("HADOOP_USER_NAME", "root")
            .stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut address = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut address).unwrap();
        assert!(address.trim().contains(':'), "it says where it is: {address:?}");
        let cluster = Self { process, address: address.trim().to_owned(), folder };
        let has_all = |_: &u32| {
            let seen = cluster.dfs(&["report", "--json"]).done();
            seen.matches(r#""live":true"#).count() == datanodes as usize
        };
        assert!((0..200).any(|at| has_all(&at)), "the DataNodes did not come");
        cluster
    }

    /// `yeoul dfs ARGS` on this cluster, in its folder.
    pub fn dfs(&self, args: &[&str]) -> Run {
        let mut run = self.folder.yeoul(["dfs"].into_iter().chain(args.iter().copied()));
        run.command.env("YEOUL_DFS_FS", format!("hdfs://{}", self.address)).env("TZ", "UTC");
        run
    }

    /// What a verb shows, with the user's name as [USER], times as [WHEN] and the address as [NAMENODE].
    pub fn shown(&self, args: &[&str]) -> String {
        let user = String::from_utf8(std::process::Command::new("id").arg("-un").output().unwrap().stdout);
        let seen = self.dfs(args).done().replace(&self.address, "[NAMENODE]");
        let seen = seen.replace(&format!(" {} ", user.unwrap().trim()), " [USER] ");
        let words = seen.split_inclusive([' ', '\n']).map(|word| {
            let is_date = word.len() == 11 && word.starts_with("20") && word.matches('-').count() == 2;
            let is_time = word.len() == 6 && word.as_bytes()[2] == b':';
            if is_date {
                "[DAY] ".to_owned()
            } else if is_time {
                "[TIME] ".to_owned()
            } else {
                word.to_owned()
            }
        });
        words.collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}
