//! Python environments for the peers and the query texts, made once under the user's cache directory.

use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};
use yeoul_base::ErrorKind;

use crate::error::{Error, Result};

/// The Python that makes the environments, if it should not be `python3`.
const PYTHON_KEY: &str = "YEOUL_PYTHON";

/// Our scripts, as they are laid out beside each other.
const SCRIPTS: [(&str, &str); 5] = [
    ("contestant_loop.py", include_str!("../../peers/contestant_loop.py")),
    ("peer_datafusion.py", include_str!("../../peers/peer_datafusion.py")),
    ("peer_duckdb.py", include_str!("../../peers/peer_duckdb.py")),
    ("peer_spark.py", include_str!("../../peers/peer_spark.py")),
    ("queries.py", include_str!("../../peers/queries.py")),
];

/// The directory that everything fetched or made goes to: `$XDG_CACHE_HOME/yeoul`, or `~/.cache/yeoul`.
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

/// The Python of an environment that has `packages` (`name==version`), made now if it is not there.
///
/// # Errors
/// `NotFound` without Python; `Unavailable` if the packages cannot be had.
pub(crate) fn python_with(packages: &[&str]) -> Result<PathBuf> {
    let name = packages.join("-").replace("==", "-");
    let directory = cache_directory()?.join("bench").join("python").join(name);
    let python = directory.join("bin").join("python");
    let parent = directory.parent().expect("it was joined to a parent");
    fs::create_dir_all(parent).map_err(|e| Error::io("create", parent, e))?;
    let lock_path = directory.with_added_extension("lock");
    let lock = File::create(&lock_path).map_err(|e| Error::io("create", &lock_path, e))?;
    lock.lock().map_err(|e| Error::io("lock", &lock_path, e))?;

    let complete = directory.join("complete");
    if complete.exists() && python.exists() {
        return Ok(python);
    }
    eprintln!("installing {} from PyPI, once, into {}", packages.join(" "), directory.display());
    if directory.exists() {
        fs::remove_dir_all(&directory).map_err(|e| Error::io("remove", &directory, e))?;
    }
    let base = env::var(PYTHON_KEY).unwrap_or_else(|_| "python3".to_owned());
    let made = command(Command::new(&base).args(["-m", "venv"]).arg(&directory), "make a Python environment")
        .map_err(|e| {
            e.with_hint(format!("install Python 3.10 or later with its venv module, or set {PYTHON_KEY}"))
        });
    made.and_then(|()| {
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"])
            .args(packages);
        command(&mut pip, "install the packages").map_err(|e| {
            e.with_hint("it needs a package registry: check the network, or pip's index-url in pip.conf")
        })
    })?;
    File::create(&complete).map_err(|e| Error::io("create", &complete, e))?;
    Ok(python)
}

/// Our scripts as files; the directory's name is their hash, so that versions do not meet.
///
/// # Errors
/// What the file system says.
pub(crate) fn scripts() -> Result<PathBuf> {
    let mut hash = Sha256::new();
    for (name, text) in SCRIPTS {
        hash.update(name);
        hash.update([0]);
        hash.update(text);
        hash.update([0]);
    }
    let name: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
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

/// Writes a file so that nobody sees half of it.
fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let temporary = path.with_added_extension(std::process::id().to_string());
    File::create(&temporary)?.write_all(text.as_bytes())?;
    fs::rename(temporary, path)
}

/// Runs a command to its end and gives its stdout.
///
/// # Errors
/// `NotFound` if it cannot be started; `Unavailable` with the last line it said if it fails.
pub(crate) fn output(command: &mut Command, what: &str) -> Result<Vec<u8>> {
    let program = PathBuf::from(command.get_program());
    let output = command.stdin(Stdio::null()).output().map_err(|e| Error::io("start", &program, e))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    Err(Error::new(ErrorKind::Unavailable, format!("cannot {what}: {}", last.trim())))
}

fn command(command: &mut Command, what: &str) -> Result<()> {
    output(command, what).map(drop)
}
