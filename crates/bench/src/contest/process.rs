//! A contestant's process: it is started, sent queries, measured and ended, whatever it does.
//!
//! It runs only during its own queries: a virtual machine that compiles and collects garbage after its turn would otherwise
//! slow down the next contestant.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use yeoul_base::ErrorKind;

pub(crate) use super::line_process::Launch;
use super::line_process::LineProcess;
use super::protocol::{Failed, Open, Opened, Ran, Request, Response, Run};
use crate::error::{Error, Result};

/// How often memory is read while a contestant works. Needed only if it dies, since a living process's peak can be read
/// later.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// How long a contestant may take to open its tables: Spark has to start a JVM.
const OPEN_MAX: Duration = Duration::from_secs(120);

/// A running contestant with open tables.
#[derive(Debug)]
pub(crate) struct Process {
    lines: LineProcess,
    opened: Opened,
    opened_bytes: Option<u64>,
}

/// The outcome of one run of a query.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Attempt {
    /// The contestant's response, or how it ended.
    pub ended: Ended,
    /// The most memory it held meanwhile, in bytes.
    pub peak_bytes: Option<u64>,
}

/// How a run of a query ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ended {
    /// It ran.
    Ran(Ran),
    /// It failed, and the contestant can go on.
    Failed(Failed),
    /// The process has ended: it died, or was killed for taking too long.
    Gone(Failed),
}

impl Attempt {
    /// Whether the contestant can run no more queries.
    pub fn is_last(&self) -> bool {
        matches!(self.ended, Ended::Gone(_))
    }
}

impl Process {
    /// Starts a contestant and opens its tables.
    ///
    /// # Errors
    /// `NotFound` if it cannot start; `Unavailable` with the end of its stderr if it does not open; `Cancelled` by `stop`.
    pub fn start(launch: &Launch, open: &Open, stop: &AtomicBool) -> Result<Self> {
        let mut process = Self {
            lines: LineProcess::start(launch)?,
            opened: Opened {
                version: String::new(),
                pids: Vec::new(),
                is_limit_of_each: false,
                dialect: DIALECT_UNKNOWN,
            },
            opened_bytes: None,
        };
        match process.ask(&Request::Open(open.clone()), OPEN_MAX, stop)?.0 {
            Ok(Response::Opened(opened)) => {
                process.opened = opened;
                process.opened_bytes = process.peak_bytes();
                process.lines.signal(Signal::STOP);
                Ok(process)
            }
            Ok(Response::Failed(failed)) | Err(failed) => {
                // Its log is deleted with the scratch directory.
                let words = process.lines.last_words();
                let message = format!("the contestant does not open its tables: {}", failed.message);
                let message = if words.is_empty() { message } else { format!("{message}; {words}") };
                Err(Error::new(ErrorKind::Unavailable, message))
            }
            Ok(Response::Ran(_)) => {
                Err(Error::new(ErrorKind::Internal, "the contestant ran before it opened"))
            }
        }
    }

    /// What it reported about itself.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// The memory held after opening, in bytes: interpreter or virtual machine, libraries, metadata.
    pub fn opened_bytes(&self) -> Option<u64> {
        self.opened_bytes
    }

    /// Runs a query and measures the most memory held meanwhile. After [`Ended::Gone`] or an error the process must not be
    /// used again: a late response would be taken for the answer to the next query.
    ///
    /// # Errors
    /// `Cancelled` by `stop`; `Internal` if it breaks the protocol.
    pub fn run(&mut self, run: &Run, max: Duration, stop: &AtomicBool) -> Result<Attempt> {
        yeoul_memory::reset_peak(&self.opened.pids);
        let (response, peak_bytes) = self.ask(&Request::Run(run.clone()), max, stop)?;
        let ended = match response {
            Ok(Response::Ran(ran)) => Ended::Ran(ran),
            Ok(Response::Failed(failed)) => Ended::Failed(failed),
            Ok(Response::Opened(_)) => {
                return Err(Error::new(ErrorKind::Internal, "the contestant opened when it should run"));
            }
            Err(gone) => Ended::Gone(gone),
        };
        self.lines.signal(Signal::STOP);
        Ok(Attempt { ended, peak_bytes })
    }

    /// The most memory held since the last reset, as it counts.
    fn peak_bytes(&self) -> Option<u64> {
        let pids = &self.opened.pids;
        if self.opened.is_limit_of_each {
            pids.iter().filter_map(|pid| yeoul_memory::peak_bytes(&[*pid])).max()
        } else {
            yeoul_memory::peak_bytes(pids)
        }
    }

    /// Sends a request and waits for the response, or for the end of the contestant.
    fn ask(
        &mut self,
        request: &Request,
        max: Duration,
        stop: &AtomicBool,
    ) -> Result<(Result<Response, Failed>, Option<u64>)> {
        let line = serde_json::to_string(request).expect("a request has only text keys and finite numbers");
        self.lines.signal(Signal::CONT);
        let mut peak = None;
        if self.lines.send(&line).is_err() {
            return Ok((Err(self.died()), peak));
        }
        let deadline = Instant::now() + max;
        loop {
            let received = self.lines.receive(LOOK_EVERY);
            peak = peak.max(self.peak_bytes());
            match received {
                Ok(line) => {
                    let response = serde_json::from_str(&line).map_err(|e| {
                        Error::new(ErrorKind::Internal, "the contestant breaks the protocol").with_source(e)
                    })?;
                    return Ok((Ok(response), peak));
                }
                Err(RecvTimeoutError::Disconnected) => return Ok((Err(self.died()), peak)),
                Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => {
                    self.lines.kill();
                    return Err(Error::new(ErrorKind::Cancelled, "interrupted"));
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() >= deadline => {
                    self.lines.kill();
                    let message = format!("no answer within {} s", max.as_secs());
                    return Ok((Err(Failed { kind: "timeout".to_owned(), message }), peak));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Why a contestant ended although it was not asked to exit.
    fn died(&mut self) -> Failed {
        Failed { kind: "crashed".to_owned(), message: self.lines.died() }
    }
}

/// A placeholder until a contestant has reported its dialect.
const DIALECT_UNKNOWN: super::protocol::Dialect =
    super::protocol::Dialect { nulls: super::protocol::NullOrder::Last, integer_division: false };

#[cfg(test)]
pub(crate) mod tests {
    use std::thread;

    use tempfile::TempDir;

    use super::*;

    const OPENED: &str =
        r#"{"opened":{"version":"S 1","pids":[],"dialect":{"nulls":"last","integer_division":false}}}"#;

    /// A contestant that is a shell script, with the request to open: it responds to that, and then does `then`.
    pub(crate) fn scripted(directory: &TempDir, then: &str) -> (Launch, Open) {
        let script = format!("read request; echo '{OPENED}'; {then}");
        let launch = Launch {
            program: "sh".into(),
            arguments: vec!["-c".into(), script],
            environment: vec![],
            log: directory.path().join("log"),
        };
        let open = Open {
            data: directory.path().into(),
            tables: vec![],
            threads: 1,
            memory_bytes: None,
            scratch: directory.path().into(),
        };
        (launch, open)
    }

    /// A contestant that does `then` on its first query.
    fn start(directory: &TempDir, then: &str) -> Process {
        let (launch, open) = scripted(directory, &format!("read request; {then}"));
        Process::start(&launch, &open, &AtomicBool::new(false)).unwrap()
    }

    fn run(then: &str, max: Duration) -> Ended {
        let directory = TempDir::new().unwrap();
        let query = Run { sql: "select 1".into(), save: None, dialect: None };
        start(&directory, then).run(&query, max, &AtomicBool::new(false)).unwrap().ended
    }

    #[test]
    fn an_answer_is_the_answer() {
        let then = r#"echo '{"ran":{"elapsed_ms":1.5,"rows":2,"notices":[]}}'; read more"#;
        let expected = Ran { elapsed_ms: 1.5, rows: 2, notices: vec![] };
        assert_eq!(run(then, Duration::from_secs(10)), Ended::Ran(expected));
    }

    #[test]
    fn a_dead_contestant_leaves_its_last_words() {
        let Ended::Gone(failed) = run("echo 'out of memory' >&2; kill -KILL $$", Duration::from_secs(10))
        else {
            panic!("it should be gone");
        };
        assert_eq!(failed.kind, "crashed");
        assert!(
            failed.message.contains("signal: 9") && failed.message.contains("out of memory"),
            "{failed:?}"
        );
    }

    #[test]
    fn a_slow_contestant_is_ended_with_its_children() {
        let directory = TempDir::new().unwrap();
        let pid = directory.path().join("pid");
        let then = format!("sleep 600 & echo $! > {}; wait", pid.display());
        let mut process = start(&directory, &then);
        let query = Run { sql: String::new(), save: None, dialect: None };
        let attempt = process.run(&query, Duration::from_millis(500), &AtomicBool::new(false)).unwrap();
        assert!(matches!(attempt.ended, Ended::Gone(Failed { kind, .. }) if kind == "timeout"));
        let grandchild: u32 = std::fs::read_to_string(pid).unwrap().trim().parse().unwrap();
        let state = || std::fs::read_to_string(format!("/proc/{grandchild}/stat")).unwrap_or_default();
        let deadline = Instant::now() + Duration::from_secs(10);
        // It has ended, or is a zombie that nobody has waited for yet; the kill takes effect a moment later.
        while !state().is_empty() && !state().contains(") Z ") {
            assert!(Instant::now() < deadline, "still there: {}", state());
            thread::sleep(LOOK_EVERY);
        }
    }

    #[test]
    fn stopping_is_prompt() {
        let directory = TempDir::new().unwrap();
        let mut process = start(&directory, "sleep 600");
        let query = Run { sql: String::new(), save: None, dialect: None };
        let started = Instant::now();
        let error = process.run(&query, Duration::from_secs(600), &AtomicBool::new(true)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}
