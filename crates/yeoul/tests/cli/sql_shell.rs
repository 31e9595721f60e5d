//! The interactive shell on a real pseudo-terminal, which util-linux's `script` makes.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::Folder;

/// How long a test waits for what should appear on the screen.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// A shell on a terminal, and what it has shown so far.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    shown: Receiver<Vec<u8>>,
    screen: String,
}

impl Terminal {
    /// Starts it; `None` where there is no `script`.
    fn start(folder: &Folder) -> Option<Self> {
        if Command::new("script").arg("--version").output().is_err() {
            println!("skipped: the program 'script' is not installed");
            return None;
        }
        // `exec`, because a dash that waits for its child dies of the Ctrl-C that the child has handled.
        let shell = format!("exec {} sql", env!("CARGO_BIN_EXE_yeoul"));
        let mut child = Command::new("script")
            .args(["-q", "-e", "-c", &shell, "/dev/null"])
            .current_dir(folder.path())
            .env("XDG_STATE_HOME", folder.path().join("state"))
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (keys, mut out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, shown) = channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = out.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Some(Self { child, keys, shown, screen: String::new() })
    }

    fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Waits until `text` is shown, and forgets what was shown up to there.
    #[track_caller]
    fn shows(&mut self, text: &str) {
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            if let Some(at) = self.screen.find(text) {
                self.screen.drain(..at + text.len());
                return;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.shown.recv_timeout(left) {
                Ok(bytes) => self.screen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("'{text}' does not appear; what does: {:?}", self.screen),
            }
        }
    }

    fn ends(mut self) {
        let deadline = Instant::now() + WAIT_MAX;
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() < deadline => thread::sleep(Duration::from_millis(10)),
                None => {
                    self.child.kill().unwrap();
                    panic!("the shell does not end; what it shows: {:?}", self.screen);
                }
            }
        };
        assert!(status.success(), "{status}");
    }
}

#[test]
fn lines_are_edited_until_the_semicolon_and_kept_in_the_history() {
    let folder = Folder::new();
    let Some(mut terminal) = Terminal::start(&folder) else { return };
    terminal.shows("yeoul> ");
    terminal.types("SELECT 6 * 7\r");
    terminal.types("AS answer;\r");
    terminal.shows("42 │");
    terminal.shows("1 row in ");
    terminal.types("CREATE VIEW my_view AS SELECT 1 AS a_column;\r");
    terminal.shows("done in ");
    terminal.types("SELECT a_\t FROM my\t;\r");
    terminal.shows("a_column │");
    terminal.shows("yeoul> ");
    terminal.types(".tabels\r");
    terminal.shows("did you mean .tables?");
    // Before the prompt the terminal is not yet the editor's, and would keep Ctrl-D to itself.
    terminal.shows("yeoul> ");
    terminal.types("\x04");
    terminal.ends();
    let history = std::fs::read_to_string(folder.path().join("state/yeoul/history")).unwrap();
    assert!(history.contains("SELECT 6 * 7\\nAS answer;\n") && history.contains("FROM my_view"), "{history}");
}

#[test]
fn ctrl_c_ends_the_query_and_not_the_shell() {
    let folder = Folder::new();
    let Some(mut terminal) = Terminal::start(&folder) else { return };
    terminal.shows("yeoul> ");
    terminal.types("SELECT count(*) FROM generate_series(1, 1000000000000) AS t(v) WHERE v % 7 = 3;\r");
    // The progress line is the sign that it runs, and has for a second.
    terminal.shows(" rows");
    terminal.types("\x03");
    terminal.shows("interrupted");
    terminal.shows("yeoul> ");
    terminal.types("half a line\x03");
    terminal.shows("yeoul> ");
    terminal.types("SELECT 'still here' AS t;\r");
    terminal.shows("│ still here │");
    terminal.types(".quit\r");
    terminal.ends();
}
