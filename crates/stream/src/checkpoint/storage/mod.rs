//! Places of checkpoints.
//!
//! - [`Storage`]: what a checkpoint asks of its place
//! - [`LocalFolder`]: a folder of a disk; [`ObjectStorage`]: a prefix of an object store, with [`Patience`] for one that fails
//! - [`CheckpointAddress`]: which of them it is, as a user names it

mod address;
mod local_folder;
mod object_storage;
mod patience;
mod upload;

use std::fmt;
use std::io::Write;
use std::sync::Arc;

pub use address::CheckpointAddress;
pub use local_folder::LocalFolder;
pub use object_storage::ObjectStorage;
pub use patience::Patience;

use crate::error::Result;

/// Place of a checkpoint, by what is asked of it. Paths are those of files in it, with `/` between folders. All calls block.
///
/// A file is there whole or not at all, and a call that succeeds has made it durable. Who lists a folder after that finds it.
///
/// # Errors
/// Every method: as the place reports, with the file's whole name; after some tries, if it may pass.
pub trait Storage: fmt::Debug + Send + Sync {
    /// The place within this one of that name.
    fn child(&self, name: &str) -> Arc<dyn Storage>;

    /// Last part of the place's name.
    fn name(&self) -> String;

    /// Name of a file for people, whole; of the place itself if `path` is empty.
    fn display(&self, path: &str) -> String;

    /// Prepares the place for a query that will write to these folders, and checks that it keeps what a checkpoint relies on.
    ///
    /// # Errors
    /// `Invalid` for a place that cannot create a file only if it is absent.
    fn prepare(&self, folders: &[&str]) -> Result<()>;

    /// Makes the folder that the place is, where there are folders.
    fn make_folder(&self) -> Result<()>;

    /// Content of a file; none if it is not there.
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>>;

    /// Names of a folder's files, sorted; none if it is not there.
    fn list(&self, folder: &str) -> Result<Vec<String>>;

    /// Names of the folders in the place, sorted.
    fn folders(&self) -> Result<Vec<String>>;

    /// Creates a file if it is absent; false if another one is there. Contents tell who wrote them: a file with the same content is
    /// one's own.
    ///
    /// # Errors
    /// `Unavailable` if it cannot be known which.
    fn create(&self, path: &str, bytes: &[u8]) -> Result<bool>;

    /// Gives a file a new content.
    fn replace(&self, path: &str, bytes: &[u8]) -> Result<()>;

    /// A large file under a name that nobody else gives; it is there once it is finished.
    fn begin(&self, path: &str) -> Result<Box<dyn Unfinished>>;

    /// Removes files of a folder; one that is not there is no error.
    fn remove(&self, folder: &str, names: &[String]) -> Result<()>;

    /// Epochs between two times at which what is not kept any more is looked for.
    fn prune_interval(&self) -> u64;
}

/// A file that is being written. One that is dropped is not there, or is not whole: nothing may name it.
pub trait Unfinished: Write {
    /// Makes it durable under its name.
    ///
    /// # Errors
    /// As [`Storage`].
    fn finish(self: Box<Self>) -> Result<()>;
}

#[cfg(test)]
mod contract_tests;
#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod flaky_store;
