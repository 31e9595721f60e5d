//! The Java that peers run on.

use std::sync::atomic::AtomicBool;

use yeoul_base::ErrorKind;

use super::venv;
use crate::error::{Error, Result};

/// The Java that Spark 4 needs at least.
const JAVA_MIN: u32 = 17;

/// Refuses to go on without a Java that Spark can run on: Spark says only in a long stack trace that there is none, or one
/// that is too old.
///
/// # Errors
/// `NotFound` if it is missing or too old; `Cancelled` by `stop`.
pub(crate) fn check(stop: &AtomicBool) -> Result<()> {
    let program =
        std::env::var("JAVA_HOME").map_or_else(|_| "java".to_owned(), |home| format!("{home}/bin/java"));
    let refused = |text: String| {
        Error::new(ErrorKind::NotFound, format!("Spark needs Java {JAVA_MIN} or newer, and {text}"))
            .with_hint(format!(
                "install a JDK of version {JAVA_MIN} or newer, or leave spark out of --against"
            ))
    };
    // Java 8 does not know this option.
    let said = venv::output(std::process::Command::new(&program).arg("--version"), "run Java", stop);
    let said = said.map_err(|e| match e.kind() {
        ErrorKind::Cancelled => e,
        _ => refused(format!("{program} is not there or too old")).with_source(e),
    })?;
    match java_version(&String::from_utf8_lossy(&said)) {
        Some(version) if version < JAVA_MIN => Err(refused(format!("{program} is version {version}"))),
        // A version that nobody understands may do.
        _ => Ok(()),
    }
}

/// The number in a line such as `openjdk 17.0.9 2023-10-17`.
fn java_version(said: &str) -> Option<u32> {
    let version = said.split_whitespace().nth(1)?;
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_of_java_is_read() {
        assert_eq!(
            java_version("openjdk 17.0.9 2023-10-17\nOpenJDK Runtime Environment (build 17)"),
            Some(17)
        );
        assert_eq!(java_version("java 21 2023-09-19 LTS"), Some(21));
        assert_eq!(java_version("openjdk 26-ea 2026-03-17"), Some(26));
        assert_eq!(java_version("openjdk"), None);
    }
}
