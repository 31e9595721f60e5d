use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::storage::Storage;
use super::store::{MANIFESTS_FOLDER, METADATA_PATH, manifest_path, present, state_content};
use super::stored_table::StoredTable;
use super::wire::{Manifest, ManifestError, SparkMetadata};
use crate::BatchId;
use crate::error::{Error, ErrorKind, Result, corrupt};

/// Times that a checkpoint which goes on while it is read is read again.
const READS_MAX: usize = 20;
/// Wait before that.
const READ_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// The checkpoint of one query, to look at: nothing is written, and a process that runs the query goes on undisturbed.
pub struct CheckpointReader {
    storage: Arc<dyn Storage>,
}

/// A checkpoint with the tables of its state.
#[derive(Debug)]
pub struct StoredCheckpoint {
    /// Manifest.
    pub manifest: Manifest,
    /// The manifest's file, with the place that it is in.
    pub path: String,
    /// Epochs whose manifests are there, damaged or not, in ascending order.
    pub kept: Vec<BatchId>,
    /// Files that cannot be used, with the reasons.
    pub damaged: Vec<String>,
    /// Tables of its state, by their names.
    pub tables: Vec<StoredTable>,
}

/// Why a reading has to be done again, or cannot be.
enum Unread {
    /// The process that runs the query was faster.
    Overtaken,
    Failed(Error),
}

impl CheckpointReader {
    /// Readers of the queries in a place: of the one whose checkpoint it is, or of those that have a folder in it.
    ///
    /// # Errors
    /// `NotFound` if there is none; as the place reports.
    pub fn find(place: &Arc<dyn Storage>) -> Result<Vec<Self>> {
        if !place.list(MANIFESTS_FOLDER)?.is_empty() {
            return Ok(vec![Self { storage: Arc::clone(place) }]);
        }
        // A file among the folders cannot be listed.
        let has_manifests =
            |inner: &Arc<dyn Storage>| inner.list(MANIFESTS_FOLDER).is_ok_and(|names| !names.is_empty());
        let inner = place.folders()?.into_iter().map(|name| place.child(&name));
        let found: Vec<Self> = inner.filter(has_manifests).map(|storage| Self { storage }).collect();
        if found.is_empty() {
            let text = format!("there is no checkpoint in '{}'", place.display(""));
            return Err(Error::new(ErrorKind::NotFound, text).with_hint(
                "name the directory that was given with --checkpoint, or a query's folder in it",
            ));
        }
        Ok(found)
    }

    /// Name of the query: its folder's.
    pub fn query(&self) -> String {
        self.storage.name()
    }

    /// Reads the last checkpoint that can be used, or that of an epoch.
    ///
    /// # Errors
    /// `Corrupt` if none, or that one, can be used, with the files; `NotFound` if there is no such epoch.
    pub fn read(&self, epoch: Option<BatchId>) -> Result<StoredCheckpoint> {
        for _ in 1..READS_MAX {
            match self.read_once(epoch, false) {
                Ok(read) => return Ok(read),
                Err(Unread::Failed(error)) => return Err(error),
                Err(Unread::Overtaken) => thread::sleep(READ_AGAIN_AFTER),
            }
        }
        // Whatever moves now is taken for what it looks like.
        self.read_once(epoch, true).map_err(|unread| match unread {
            Unread::Failed(error) => error,
            Unread::Overtaken => {
                let place = self.storage.display("");
                let text = format!("checkpoints in '{place}' go faster than they are read");
                Error::new(ErrorKind::Unavailable, text)
            }
        })
    }

    fn read_once(&self, epoch: Option<BatchId>, is_last: bool) -> Result<StoredCheckpoint, Unread> {
        let kept = self.kept().map_err(Unread::Failed)?;
        if let Some(epoch) = epoch.filter(|epoch| !kept.contains(epoch)) {
            return Err(Unread::Failed(self.no_such_epoch(epoch, &kept)));
        }
        let mut damaged: Vec<String> = self.metadata_damage().into_iter().collect();
        let candidates = kept.iter().rev().copied().filter(|batch| epoch.is_none_or(|epoch| epoch == *batch));
        for batch in candidates {
            let path = self.storage.display(&manifest_path(batch));
            match self.read_manifest(batch) {
                Ok((manifest, tables)) => {
                    return Ok(StoredCheckpoint { manifest, path, kept, damaged, tables });
                }
                Err(error) => {
                    // It may be on its way, or gone with the ones before a newer one.
                    let has_moved = self.kept().map_err(Unread::Failed)? != kept;
                    let is_on_its_way = kept.last() == Some(&batch)
                        && error.to_string().contains(&ManifestError::Unfinished.to_string());
                    if !is_last && (has_moved || is_on_its_way) {
                        return Err(Unread::Overtaken);
                    }
                    // It may be whole.
                    if error.kind() == ErrorKind::Unavailable {
                        return Err(Unread::Failed(error));
                    }
                    damaged.push(format!("checkpoint '{path}' cannot be used: {error}"));
                }
            }
        }
        let text = format!("no checkpoint in '{}' can be used", self.storage.display(""));
        Err(Unread::Failed(corrupt(format!("{text}: {}", damaged.join("; ")))))
    }

    fn read_manifest(&self, batch: BatchId) -> Result<(Manifest, Vec<StoredTable>)> {
        let bytes = present(&*self.storage, &manifest_path(batch))?;
        let manifest = Manifest::decode(&bytes).map_err(|error| corrupt(error.to_string()))?;
        if manifest.batch != batch {
            return Err(corrupt(format!("it is that of epoch {}", manifest.batch)));
        }
        let mut tables: Vec<StoredTable> = Vec::new();
        for file in &manifest.state_files {
            let content = state_content(&*self.storage, file)?;
            let place = match tables.iter().position(|table| table.name() == file.table) {
                Some(place) => place,
                None => {
                    tables.push(StoredTable::new(&file.table, &content).map_err(|error| of(file, &error))?);
                    tables.len() - 1
                }
            };
            tables[place].take(file, content).map_err(|error| of(file, &error))?;
        }
        tables.sort_by(|a, b| a.name().cmp(b.name()));
        Ok((manifest, tables))
    }

    /// Epochs whose manifests are there, in ascending order.
    fn kept(&self) -> Result<Vec<BatchId>> {
        let names = self.storage.list(MANIFESTS_FOLDER)?;
        let mut kept: Vec<BatchId> = names.iter().filter_map(|name| name.parse().ok()).map(BatchId).collect();
        kept.sort_unstable();
        Ok(kept)
    }

    /// Fault of the file that has the query's id.
    fn metadata_damage(&self) -> Option<String> {
        let name = self.storage.display(METADATA_PATH);
        match present(&*self.storage, METADATA_PATH) {
            Ok(bytes) => match serde_json::from_slice::<SparkMetadata>(&bytes) {
                Ok(_) => None,
                Err(error) => Some(format!("'{name}' is not a query's metadata: {error}")),
            },
            Err(error) => Some(format!("'{name}' cannot be read: {error}")),
        }
    }

    fn no_such_epoch(&self, epoch: BatchId, kept: &[BatchId]) -> Error {
        let text = format!("'{}' has no checkpoint of epoch {epoch}", self.storage.display(""));
        let error = Error::new(ErrorKind::NotFound, text);
        match (kept.first(), kept.last()) {
            (Some(first), Some(last)) => error.with_hint(format!("epochs {first} to {last} are kept")),
            _ => error,
        }
    }
}

/// An error with the file of state that it is of.
fn of(file: &super::wire::StateFile, error: &Error) -> Error {
    corrupt(format!("the file of state '{}': {error}", file.name))
}

impl fmt::Debug for CheckpointReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckpointReader").field("storage", &self.storage).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
