//! A process that answers lines with lines: started, written to, read from, signalled and ended, whatever it does.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::{Error, Result};

/// The longest line that we read; the longest query text has some 20 kB.
pub(crate) const LINE_BYTES_MAX: usize = 1 << 20;
/// Time between looks whether a process has ended.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// Longest time to exit after its stdin was closed.
const LEAVE_MAX: Duration = Duration::from_secs(5);
/// Most of a dead process's stderr that goes into the error's text.
const LAST_WORDS_BYTES: u64 = 600;

/// Start of a process.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    /// The program.
    pub program: PathBuf,
    /// Arguments.
    pub arguments: Vec<String>,
    /// Environment variables, in addition to ours.
    pub environment: Vec<(String, String)>,
    /// File that its stderr goes to.
    pub log: PathBuf,
}

/// A process that leads a process group, with pipes to its stdin and from its stdout.
#[derive(Debug)]
pub(crate) struct LineProcess {
    child: Child,
    requests: Option<ChildStdin>,
    responses: Receiver<io::Result<String>>,
    log: PathBuf,
}

impl LineProcess {
    /// Starts it.
    ///
    /// # Errors
    /// If it cannot start.
    pub fn start(launch: &Launch) -> Result<Self> {
        let log = File::create(&launch.log).map_err(|e| Error::io("create", &launch.log, e))?;
        let mut child = Command::new(&launch.program)
            .args(&launch.arguments)
            .envs(launch.environment.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            // A process group of its own: Ctrl-C on the terminal does not reach it, and a JVM is killed with its parent.
            .process_group(0)
            .spawn()
            .map_err(|e| Error::io("start", &launch.program, e))?;
        let requests = child.stdin.take();
        let stdout = child.stdout.take().expect("stdout was asked to be a pipe");
        Ok(Self { child, requests, responses: read_lines(stdout), log: launch.log.clone() })
    }

    /// Sends a line.
    ///
    /// # Errors
    /// If it reads no more.
    pub fn send(&mut self, line: &str) -> io::Result<()> {
        let requests = self.requests.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        requests.write_all(format!("{line}\n").as_bytes())?;
        requests.flush()
    }

    /// The next line of its stdout.
    ///
    /// # Errors
    /// `Timeout` if none comes in time; `Disconnected`, also for half a line, if none will.
    pub fn receive(&self, max: Duration) -> Result<String, RecvTimeoutError> {
        self.responses.recv_timeout(max)?.map_err(|_| RecvTimeoutError::Disconnected)
    }

    /// Why a process ended although it was not asked to exit.
    pub fn died(&mut self) -> String {
        let status = self.leave();
        let status =
            status.map_or_else(|| "it stopped answering".to_owned(), |status| format!("it died: {status}"));
        let words = self.last_words();
        if words.is_empty() { status } else { format!("{status}: {words}") }
    }

    /// The end of its stderr, on one line.
    pub fn last_words(&self) -> String {
        last_words(&self.log)
    }

    /// Signals it and its children.
    pub fn signal(&mut self, signal: Signal) {
        signal_group(&mut self.child, signal);
    }

    /// Kills it and its children.
    pub fn kill(&mut self) {
        self.requests = None;
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }

    /// Closes its stdin, waits for it to exit on its own, and kills it if it does not.
    pub fn leave(&mut self) -> Option<ExitStatus> {
        self.requests = None;
        self.signal(Signal::CONT);
        let deadline = Instant::now() + LEAVE_MAX;
        while Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) => thread::sleep(LOOK_EVERY),
                Err(_) => break,
            }
        }
        self.kill();
        None
    }
}

impl Drop for LineProcess {
    fn drop(&mut self) {
        // Closing its stdin asks it to exit; most do within milliseconds.
        self.leave();
    }
}

/// Signals the process group of a child that leads one, unless it was waited for: its pid may belong to another process by
/// then.
pub(super) fn signal_group(leader: &mut Child, signal: Signal) {
    let alive = matches!(leader.try_wait(), Ok(None));
    if let Some(group) = i32::try_from(leader.id()).ok().and_then(Pid::from_raw).filter(|_| alive) {
        // Fails only if the whole group has ended already.
        let _ = kill_process_group(group, signal);
    }
}

/// Reads lines on a separate thread, which ends with the pipe.
fn read_lines(from: impl Read + Send + 'static) -> Receiver<io::Result<String>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut reader = BufReader::new(from);
        loop {
            let mut line = String::new();
            let read = reader.by_ref().take(LINE_BYTES_MAX as u64).read_line(&mut line);
            let line = match read {
                Ok(0) => return,
                Ok(_) if !line.ends_with('\n') => Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => Ok(line),
                Err(e) => Err(e),
            };
            let last = line.is_err();
            if sender.send(line).is_err() || last {
                return;
            }
        }
    });
    receiver
}

/// The end of a log, on one line.
pub(crate) fn last_words(log: &Path) -> String {
    let read = || {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        io::Seek::seek(&mut file, io::SeekFrom::Start(length.saturating_sub(LAST_WORDS_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(LAST_WORDS_BYTES).read_to_end(&mut bytes)?;
        io::Result::Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    String::from_utf8_lossy(&bytes).split_whitespace().collect::<Vec<_>>().join(" ")
}
