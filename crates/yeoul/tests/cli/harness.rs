//! Runs the binary and shows what it did as one text.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A run that takes longer than this is killed, and the test fails.
const RUN_MAX: Duration = Duration::from_secs(120);

/// A folder of its own, in which the binary runs.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// The names in the folder, sorted.
    pub fn names(&self) -> Vec<String> {
        let names =
            fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    /// `yeoul ARGS` in this folder.
    pub fn yeoul<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Run {
        let mut command = binary();
        command.args(args).current_dir(self.path());
        command.env("XDG_STATE_HOME", self.path().join(".state"));
        Run { command, stdin: Vec::new(), folder: self.path().to_owned() }
    }

    /// `yeoul sql -c SQL` in this folder.
    pub fn sql(&self, sql: &str) -> Run {
        self.yeoul(["sql", "-c", sql])
    }

    /// Runs statements that make the files of a test.
    pub fn prepare(&self, sql: &str) {
        let seen = self.yeoul(["sql", "--quiet", "-c", sql]).done();
        assert!(seen.starts_with("exit 0\n"), "cannot prepare: {seen}");
    }
}

/// The binary, in an environment in which nothing of the machine that runs the tests shows.
pub fn binary() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_yeoul"));
    for name in
        ["NO_COLOR", "COLUMNS", "LINES", "RUST_LOG", "RUST_BACKTRACE", "CELEBORN_CONF_DIR", "HADOOP_CONF_DIR"]
    {
        command.env_remove(name);
    }
    let settings = std::env::vars_os().map(|(name, _)| name);
    for name in settings.filter(|name| name.as_encoded_bytes().starts_with(b"YEOUL_")) {
        command.env_remove(name);
    }
    // The system's may be a tmpfs, of which the binary has something to say.
    command.env("TMPDIR", env!("CARGO_TARGET_TMPDIR"));
    command
}

/// One run of the binary, before it starts.
pub struct Run {
    pub command: Command,
    stdin: Vec<u8>,
    folder: PathBuf,
}

impl Run {
    pub fn stdin(mut self, stdin: impl Into<Vec<u8>>) -> Self {
        self.stdin = stdin.into();
        self
    }

    /// Adds arguments.
    pub fn with<'a>(mut self, args: impl IntoIterator<Item = &'a str>) -> Self {
        self.command.args(args);
        self
    }

    /// Runs it; the exit code and both outputs as bytes.
    pub fn output(mut self) -> (ExitStatus, Vec<u8>, Vec<u8>) {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().expect("the binary starts");
        let (mut stdin, input) = (child.stdin.take().unwrap(), self.stdin);
        // A program that ends early does not read all of it.
        let feeder = thread::spawn(move || drop(stdin.write_all(&input)));
        let out = read_all(child.stdout.take().unwrap());
        let err = read_all(child.stderr.take().unwrap());
        let status = wait(&mut child);
        feeder.join().unwrap();
        (status, out.join().unwrap(), err.join().unwrap())
    }

    /// Runs it, and shows all that can be seen: exit code, stdout, stderr.
    pub fn done(self) -> String {
        let folder = fs::canonicalize(&self.folder).unwrap().display().to_string();
        let (status, out, err) = self.output();
        let mut text = match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit {code}\n"),
            (None, signal) => format!("killed by signal {signal:?}\n"),
        };
        text.push_str(&String::from_utf8_lossy(&out));
        if !err.is_empty() {
            let _ = write!(text, "-- stderr\n{}", String::from_utf8_lossy(&err));
        }
        without_what_differs(&text.replace(&folder, "[DIR]").replace(folder.trim_start_matches('/'), "[DIR]"))
    }

    /// Runs it, and compares what can be seen with `expected`.
    #[track_caller]
    pub fn shows(self, expected: &str) {
        let seen = self.done();
        let (seen, expected) = (seen.trim_end(), expected.trim());
        assert!(seen == expected, "\n==== expected\n{expected}\n==== seen\n{seen}\n====");
    }
}

fn read_all(mut from: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

fn wait(child: &mut Child) -> ExitStatus {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if started.elapsed() > RUN_MAX {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the binary did not end within {RUN_MAX:?}");
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Replaces times and sizes by words: `in 12 ms` becomes `in [TIME]`, `1.5 GiB` becomes `[SIZE]`.
fn without_what_differs(text: &str) -> String {
    let mut shown = String::new();
    for line in text.split_inclusive('\n') {
        let mut words: Vec<String> = Vec::new();
        for word in line.split(' ') {
            let bare = word.trim_end_matches(['\n', ',', ';', ')', ':']);
            let number = words.last().is_some_and(|last| last.trim_start_matches('(').parse::<f64>().is_ok());
            let stand_in = match bare {
                "µs" | "ms" | "s" if number => "[TIME]",
                "B" | "KiB" | "MiB" | "GiB" if number => "[SIZE]",
                _ => {
                    words.push(word.to_owned());
                    continue;
                }
            };
            let opened = words.pop().is_some_and(|last| last.starts_with('('));
            let (before, after) = (if opened { "(" } else { "" }, &word[bare.len()..]);
            words.push(format!("{before}{stand_in}{after}"));
        }
        shown.push_str(&words.join(" "));
    }
    shown
}

#[test]
fn only_times_and_sizes_are_replaced() {
    let text = "3 rows in 12 ms\nat most 1.5 GiB, (20 MiB); 7 boxes of s\n2 min 3 s\n";
    let expected = "3 rows in [TIME]\nat most [SIZE], ([SIZE]); 7 boxes of s\n2 min [TIME]\n";
    assert_eq!(without_what_differs(text), expected);
}
