//! A file for what a long run will find.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// A file for a report, opened before the work begins: what cannot be written should not be measured first. If no report
/// is written to it, a file that was not there before is removed again.
#[derive(Debug)]
pub struct ReportFile {
    path: PathBuf,
    is_unwritten: bool,
}

impl ReportFile {
    /// Makes the file, or checks that the one that is there can be written.
    ///
    /// # Errors
    /// What the file system says.
    pub fn open(path: &Path) -> io::Result<Self> {
        let made = OpenOptions::new().write(true).create_new(true).open(path);
        let is_unwritten = match made {
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                OpenOptions::new().append(true).create(true).open(path)?;
                false
            }
            Err(error) => return Err(error),
        };
        Ok(Self { path: path.to_owned(), is_unwritten })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the report, in place of what the file held.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(mut self, text: &str) -> io::Result<()> {
        self.is_unwritten = false;
        fs::write(&self.path, text)
    }
}

impl Drop for ReportFile {
    fn drop(&mut self) {
        if self.is_unwritten {
            // An empty file that stays does no harm.
            let _ = fs::remove_file(&self.path);
        }
    }
}
