use std::sync::Arc;

use super::PlannedFile;
use super::log_entry::{decode, encode};
use crate::checkpoint::storage::Storage;
use crate::error::{Error, Result, corrupt};

/// Files of each planned epoch of a source, in a folder of the checkpoint: the file `N` has those of the N-th one from 0 on. It is
/// there before any of its rows is given, so that an epoch that is planned again has the same files.
///
/// An entry is created only if it is absent, whole and durably: of two processes that plan the same epoch the second takes what the
/// first planned.
#[derive(Debug)]
pub(super) struct PlanLog {
    storage: Arc<dyn Storage>,
}

impl PlanLog {
    /// The log in a place, which is made.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn open(storage: Arc<dyn Storage>) -> Result<Self> {
        storage.make_folder()?;
        Ok(Self { storage })
    }

    /// Name of the place.
    pub fn place(&self) -> String {
        self.storage.display("")
    }

    /// Files of an entry, if it is there.
    ///
    /// # Errors
    /// `Corrupt` if it is damaged.
    pub fn read(&self, number: u64) -> Result<Option<Vec<PlannedFile>>> {
        let path = number.to_string();
        let Some(bytes) = self.storage.read(&path)? else { return Ok(None) };
        let damaged = |error: Error| {
            corrupt(format!("'{}' is damaged", self.storage.display(&path))).with_source(error)
        };
        let text = String::from_utf8(bytes).map_err(|error| damaged(corrupt(error.to_string())))?;
        decode(&text).map(Some).map_err(damaged)
    }

    /// Creates an entry, and gives what it has: another process may have been faster.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, number: u64, files: Vec<PlannedFile>) -> Result<Vec<PlannedFile>> {
        let path = number.to_string();
        if self.storage.create(&path, encode(&files).as_bytes())? {
            return Ok(files);
        }
        self.read(number)?.ok_or_else(|| corrupt(format!("'{}' went", self.storage.display(&path))))
    }
}
