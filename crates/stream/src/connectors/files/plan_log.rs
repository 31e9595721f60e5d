use std::fs::File;
use std::io::{ErrorKind as IoErrorKind, Write};
use std::path::{Path, PathBuf};

use yeoul_disk::{Disk, RealDisk, make_folders};

use super::PlannedFile;
use super::log_entry::{decode, encode};
use crate::checkpoint::new_id;
use crate::error::{Error, ErrorKind, Result, corrupt};

/// Files of each planned epoch of a source, in a folder of the checkpoint: the file `N` has those of the N-th one from 0 on. It is
/// there before any of its rows is given, so that an epoch that is planned again has the same files.
///
/// An entry is created only if it is absent, whole and synced: of two processes that plan the same epoch the second takes what the
/// first planned.
#[derive(Debug)]
pub(super) struct PlanLog {
    folder: PathBuf,
}

impl PlanLog {
    /// The log in a folder, which is made.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn open(folder: &Path) -> Result<Self> {
        make_folders(&RealDisk, folder)?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Files of an entry, if it is there.
    ///
    /// # Errors
    /// `Corrupt` if it is damaged.
    pub fn read(&self, number: u64) -> Result<Option<Vec<PlannedFile>>> {
        let path = self.entry(number);
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(None),
            text => text.map_err(|error| unusable(&path, error))?,
        };
        let damaged = |error: Error| corrupt(format!("'{}' is damaged", path.display())).with_source(error);
        decode(&text).map(Some).map_err(damaged)
    }

    /// Creates an entry, and gives what it has: another process may have been faster.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, number: u64, files: Vec<PlannedFile>) -> Result<Vec<PlannedFile>> {
        let path = self.entry(number);
        let unfinished = self.folder.join(format!(".{number}.{}.tmp", new_id()));
        let written = File::create_new(&unfinished).and_then(|mut file| {
            file.write_all(encode(&files).as_bytes())?;
            file.sync_all()
        });
        let linked = written.and_then(|()| std::fs::hard_link(&unfinished, &path));
        // What is left of it does no harm: its name is no number.
        let _ = std::fs::remove_file(&unfinished);
        match linked {
            Err(error) if error.kind() == IoErrorKind::AlreadyExists => {
                self.read(number)?.ok_or_else(|| corrupt(format!("'{}' went", path.display())))
            }
            Err(error) => Err(unusable(&path, error)),
            Ok(()) => {
                RealDisk.sync_folder(&self.folder).map_err(|error| unusable(&path, error))?;
                Ok(files)
            }
        }
    }

    fn entry(&self, number: u64) -> PathBuf {
        self.folder.join(number.to_string())
    }
}

fn unusable(path: &Path, error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, format!("cannot use '{}'", path.display())).with_source(error)
}
