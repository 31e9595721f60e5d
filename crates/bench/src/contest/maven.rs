//! Jars from Maven, fetched once into the user's cache directory.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use super::venv::{cache_directory, hint, locked, output, scripts, short_hash};
use crate::error::{Error, Result};

/// The folder with the jars that one of our scripts, a POM, names; they are fetched if missing.
///
/// # Errors
/// `NotFound` without Maven; `Unavailable` if jars cannot be fetched; `Cancelled` by `stop`.
pub(crate) fn jars(pom: &str, stop: &AtomicBool) -> Result<PathBuf> {
    let pom = scripts()?.join(pom);
    let text = fs::read_to_string(&pom).map_err(|e| Error::io("read", &pom, e))?;
    // Named after the content: other versions have a folder of their own.
    let directory = cache_directory()?.join("bench").join("jars").join(short_hash([text.as_str()]));
    let _lock = locked(&directory)?;
    let complete = directory.join("complete");
    if complete.exists() {
        return Ok(directory);
    }
    eprintln!("fetching Spark's connector to Kafka from Maven, once, into {}", directory.display());
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "-f"]).arg(&pom).arg("dependency:copy-dependencies");
    maven.arg(format!("-DoutputDirectory={}", directory.display()));
    output(&mut maven, "fetch the jars", stop).map_err(|e| {
        hint(e, "install Maven and check its mirrors and the network, or leave spark out of --against")
    })?;
    File::create(&complete).map_err(|e| Error::io("create", &complete, e))?;
    Ok(directory)
}
