//! Where the JSON of a suite goes, and with it the table: `--json FILE`, `--json -`, or no JSON at all.

use std::io;
use std::path::Path;

use yeoul_base::{Error, ErrorKind, ReportFile, Result};

use crate::exit::print;

/// Opened before a long run, so that a file that cannot be written is refused at once.
pub(super) enum JsonReport {
    /// No JSON; the table goes to stdout.
    None,
    /// The JSON goes to stdout, and there is no table.
    Stdout,
    /// The JSON goes to a file, and the table to stdout.
    File(ReportFile),
}

impl JsonReport {
    /// What the value of `--json` asks for.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn open(path: Option<&Path>) -> Result<Self> {
        match path {
            None => Ok(Self::None),
            Some(path) if path == Path::new("-") => Ok(Self::Stdout),
            Some(path) => ReportFile::open(path).map(Self::File).map_err(|error| unwritten(path, error)),
        }
    }

    /// Writes the JSON and prints the table, as asked for.
    ///
    /// # Errors
    /// The file or stdout cannot be written.
    pub(super) fn give(self, table: impl FnOnce() -> String, json: impl FnOnce() -> String) -> Result<()> {
        match self {
            Self::None => print(&table())?,
            Self::Stdout => print(&json())?,
            Self::File(file) => {
                let path = file.path().to_owned();
                file.write(&json()).map_err(|error| unwritten(&path, error))?;
                print(&table())?;
            }
        }
        Ok(())
    }
}

fn unwritten(path: &Path, error: io::Error) -> Error {
    Error::new(ErrorKind::of_io(&error), format!("cannot write {}: {error}", path.display()))
        .with_source(error)
}
