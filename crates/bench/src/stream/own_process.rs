//! A process of our own binary, as users run it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use yeoul_base::{Error, ErrorKind, Result};

use crate::contest::line_process::last_words;

/// Time between looks whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Longest time to end after it was told to.
const STOP_MAX: Duration = Duration::from_secs(60);

/// A process whose stderr goes to a file. It is killed when it is dropped.
#[derive(Debug)]
pub(super) struct OwnProcess {
    child: Child,
    log: PathBuf,
}

impl OwnProcess {
    /// Starts our binary with arguments.
    ///
    /// # Errors
    /// If it cannot start.
    pub fn start(arguments: &[&str], log: &Path) -> Result<Self> {
        Self::spawn(Command::new(std::env::current_exe()?).args(arguments), log)
    }

    /// Starts `yeoul stream run` on a job, with its files in a folder below a name.
    ///
    /// # Errors
    /// If it cannot start.
    pub fn of_job(job: &str, folder: &Path, name: &str) -> Result<Self> {
        Self::spawn(&mut run_command(job, folder, name, None)?, &folder.join(format!("{name}.log")))
    }

    /// Starts the same on one core of its own, with `taskset`.
    ///
    /// # Errors
    /// If it cannot start, `taskset` is missing, say.
    pub fn of_job_on_core(job: &str, folder: &Path, name: &str, core: usize) -> Result<Self> {
        Self::spawn(&mut run_command(job, folder, name, Some(core))?, &folder.join(format!("{name}.log")))
    }

    fn spawn(command: &mut Command, log: &Path) -> Result<Self> {
        let stderr = File::create(log)?;
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn().map_err(|error| {
                let text = format!("cannot start {}", command.get_program().display());
                Error::new(ErrorKind::of_io(&error), text).with_source(error)
            })?;
        Ok(Self { child, log: log.to_owned() })
    }

    /// Number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Check that it still runs.
    ///
    /// # Errors
    /// `Internal` with the end of its stderr if it has ended.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => {
                let text = format!("it ended: {status}: {}", last_words(&self.log));
                Err(Error::new(ErrorKind::Internal, text))
            }
        }
    }

    /// Tells it to stop, and waits until it has.
    ///
    /// # Errors
    /// `Internal` if it had ended before, fails, or takes too long.
    pub fn stop(mut self) -> Result<()> {
        self.check()?;
        if let Some(pid) = i32::try_from(self.id()).ok().and_then(Pid::from_raw) {
            kill_process(pid, Signal::TERM).map_err(std::io::Error::from)?;
        }
        let deadline = Instant::now() + STOP_MAX;
        while Instant::now() < deadline {
            match self.child.try_wait()? {
                None => thread::sleep(LOOK_EVERY),
                Some(status) if status.success() => return Ok(()),
                Some(_) => return self.check(),
            }
        }
        let text = format!("it does not stop within {} s: {}", STOP_MAX.as_secs(), last_words(&self.log));
        Err(Error::new(ErrorKind::Internal, text))
    }
}

impl Drop for OwnProcess {
    fn drop(&mut self) {
        // Fails only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run_command(job: &str, folder: &Path, name: &str, core: Option<usize>) -> Result<Command> {
    let file = folder.join(format!("{name}.sql"));
    fs::write(&file, job)?;
    let program = std::env::current_exe()?;
    let mut command = match core {
        None => Command::new(program),
        Some(core) => {
            let mut command = Command::new("taskset");
            command.args(["-c", &core.to_string()]).arg(program);
            command
        }
    };
    command
        .args(["stream", "run"])
        .arg(file)
        .arg("--checkpoint")
        .arg(folder.join(format!("{name}-checkpoint")));
    Ok(command)
}
