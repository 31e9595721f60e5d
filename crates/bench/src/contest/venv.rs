//! Python environments for the peers and the query texts, created once under the user's cache directory.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use sha2::{Digest, Sha256};
use yeoul_base::ErrorKind;
use yeoul_disk::{RealDisk, replace_file};

use super::line_process::signal_group;
use crate::error::{Error, Result};

/// The environment variable with the Python that creates the environments, if it should not be `python3`.
const PYTHON_KEY: &str = "YEOUL_PYTHON";

/// Spark, and what its DataFrames become Arrow with.
pub(crate) const SPARK_PACKAGES: [&str; 2] = ["pyspark==4.3.0", "pyarrow==26.0.1"];

/// How often a running program is polled.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Our scripts, which are written to one directory.
const SCRIPTS: [(&str, &str); 8] = [
    ("KeyedCount.java", include_str!("../../peers/KeyedCount.java")),
    ("contestant_loop.py", include_str!("../../peers/contestant_loop.py")),
    ("peer_datafusion.py", include_str!("../../peers/peer_datafusion.py")),
    ("peer_duckdb.py", include_str!("../../peers/peer_duckdb.py")),
    ("peer_spark.py", include_str!("../../peers/peer_spark.py")),
    ("peer_spark_stream.py", include_str!("../../peers/peer_spark_stream.py")),
    ("queries.py", include_str!("../../peers/queries.py")),
    ("spark_kafka_pom.xml", include_str!("../../peers/spark_kafka_pom.xml")),
];

/// The directory for everything that is fetched or created: `$XDG_CACHE_HOME/yeoul`, or `~/.cache/yeoul`.
///
/// # Errors
/// `Invalid` if neither variable is set.
pub(crate) fn cache_directory() -> Result<PathBuf> {
    let absolute = |key| env::var_os(key).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("yeoul"))
        .ok_or_else(|| {
            Error::new(ErrorKind::Invalid, "there is no cache directory")
                .with_hint("set HOME or XDG_CACHE_HOME")
        })
}

/// Lock on a folder of the cache that is being filled, held as long as the file is open. Its parent is made if missing.
pub(super) fn locked(directory: &Path) -> Result<File> {
    let parent = directory.parent().expect("it was joined to a parent");
    fs::create_dir_all(parent).map_err(|e| Error::io("create", parent, e))?;
    let lock_path = directory.with_added_extension("lock");
    let lock = File::create(&lock_path).map_err(|e| Error::io("create", &lock_path, e))?;
    lock.lock().map_err(|e| Error::io("lock", &lock_path, e))?;
    Ok(lock)
}

/// The Python of an environment that has `packages` (`name==version`), which is created if missing.
///
/// # Errors
/// `NotFound` without Python; `Unavailable` if the packages cannot be installed; `Cancelled` by `stop`.
pub(crate) fn python_with(packages: &[&str], stop: &AtomicBool) -> Result<PathBuf> {
    let name = packages.join("-").replace("==", "-");
    let directory = cache_directory()?.join("bench").join("python").join(name);
    let python = directory.join("bin").join("python");
    let _lock = locked(&directory)?;
    let complete = directory.join("complete");
    if complete.exists() && python.exists() {
        return Ok(python);
    }
    eprintln!("installing {} from PyPI, once, into {}", packages.join(" "), directory.display());
    if directory.exists() {
        fs::remove_dir_all(&directory).map_err(|e| Error::io("remove", &directory, e))?;
    }
    let base = env::var(PYTHON_KEY).unwrap_or_else(|_| "python3".to_owned());
    let mut venv = Command::new(&base);
    venv.args(["-m", "venv"]).arg(&directory);
    output(&mut venv, "make a Python environment", stop).map_err(|e| {
        hint(e, &format!("install Python 3.10 or later with its venv module, or set {PYTHON_KEY}"))
    })?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]).args(packages);
    output(&mut pip, "install the packages", stop).map_err(|e| {
        hint(e, "it needs a package registry: check the network, or pip's index-url in pip.conf")
    })?;
    File::create(&complete).map_err(|e| Error::io("create", &complete, e))?;
    Ok(python)
}

/// The directory with our scripts; its name is their hash, so that versions do not mix.
///
/// # Errors
/// As the file system reports.
pub(crate) fn scripts() -> Result<PathBuf> {
    let name = short_hash(SCRIPTS.iter().flat_map(|(name, text)| [*name, *text]));
    let directory = cache_directory()?.join("bench").join("scripts").join(name);
    fs::create_dir_all(&directory).map_err(|e| Error::io("create", &directory, e))?;
    for (name, text) in SCRIPTS {
        let path = directory.join(name);
        if fs::read(&path).is_ok_and(|found| found == text.as_bytes()) {
            continue;
        }
        write_whole(&path, text).map_err(|e| Error::io("write", &path, e))?;
    }
    Ok(directory)
}

/// A name for texts, which other texts do not have.
pub(super) fn short_hash<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(text);
        hash.update([0]);
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Writes a file so that nobody can see half of it.
fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let temporary = path.with_added_extension(std::process::id().to_string());
    let written = replace_file(&RealDisk, path, &temporary, |file| file.write_all(text.as_bytes()));
    written.map(drop).map_err(|failure| failure.source)
}

/// Adds a hint to an error, unless it is an interruption.
pub(super) fn hint(error: Error, text: &str) -> Error {
    if error.kind() == ErrorKind::Cancelled { error } else { error.with_hint(text) }
}

/// Runs a command and returns its stdout.
///
/// # Errors
/// `NotFound` if it cannot be started; `Unavailable` with the last line of its stderr if it fails; `Cancelled` by `stop`,
/// which kills it and its children.
pub(crate) fn output(command: &mut Command, what: &str, stop: &AtomicBool) -> Result<Vec<u8>> {
    let program = PathBuf::from(command.get_program());
    let failed = |e| Error::io("start", &program, e);
    // Files rather than pipes, which fill up while nobody reads them.
    let (mut stdout, mut stderr) =
        (tempfile::tempfile().map_err(failed)?, tempfile::tempfile().map_err(failed)?);
    command.stdin(Stdio::null());
    command.stdout(stdout.try_clone().map_err(failed)?).stderr(stderr.try_clone().map_err(failed)?);
    let status =
        run(command, stop).map_err(failed)?.ok_or_else(|| Error::new(ErrorKind::Cancelled, "interrupted"))?;
    if status.success() {
        return contents(&mut stdout).map_err(failed);
    }
    let said = contents(&mut stderr).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    Err(Error::new(ErrorKind::Unavailable, format!("cannot {what}: {}", last.trim())))
}

/// How a command ended; `None` if it was stopped.
fn run(command: &mut Command, stop: &AtomicBool) -> io::Result<Option<ExitStatus>> {
    // A process group of its own: Ctrl-C on the terminal does not reach it.
    let mut child = command.process_group(0).spawn()?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if stop.load(Ordering::Relaxed) {
            signal_group(&mut child, Signal::KILL);
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(LOOK_EVERY);
    }
}

fn contents(file: &mut File) -> io::Result<Vec<u8>> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_a_command_says_is_its_output_or_its_error() {
        let go_on = AtomicBool::new(false);
        assert_eq!(output(&mut shell("echo found; echo more >&2"), "look", &go_on).unwrap(), b"found\n");
        let error = output(&mut shell("echo first >&2; echo last >&2; exit 3"), "look", &go_on).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string()),
            (ErrorKind::Unavailable, "cannot look: last".to_owned())
        );
        let error = output(&mut Command::new("/no/such/program"), "look", &go_on).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_command_ends_when_it_is_to_stop() {
        let begin = Instant::now();
        let error = output(&mut shell("sleep 600 & wait"), "sleep", &AtomicBool::new(true)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        assert!(begin.elapsed() < Duration::from_secs(10));
    }
}
