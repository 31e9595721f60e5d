//! A cluster in a process of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use crate::harness::{Folder, Run, binary};

/// A running `yeoul dfs local`. It ends with the test.
pub struct Cluster {
    process: Child,
    pub address: String,
    pub folder: Folder,
}

/// A server of a cluster, by itself. It ends with the test.
pub struct Server {
    process: Child,
    pub address: String,
    /// Where its pages are.
    pub http: String,
}

impl Server {
    /// Starts `yeoul dfs ARGS` in a folder.
    pub fn start(folder: &Folder, args: &[&str]) -> Self {
        let mut command = binary();
        command.arg("dfs").args(args).args(["--http-port", "0"]).current_dir(folder.path());
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map(Result::unwrap);
        let told =
            lines.find_map(|line| Some(line.split_once("http://")?.1.split_once("/status")?.0.to_owned()));
        // Whatever else it says is read, so that it does not wait.
        std::thread::spawn(move || lines.for_each(drop));
        let mut address = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Self { process, address: address.trim().to_owned(), http: told.unwrap() }
    }

    /// A page, and its status code before it.
    pub fn page(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.http).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        format!("{}\n{body}", head.split(' ').nth(1).unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
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
