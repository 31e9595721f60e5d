use std::sync::Arc;

use arrow::array::ArrayRef;
use serde::{Deserialize, Serialize};

use super::{Bucket, Keys, Layout, PartitionSet, StateRows};
use crate::error::Result;

/// Values by key, as an operator needs them of a provider. Its unit is a batch of keys: a provider that has a way to go for them
/// goes it once. A table belongs to one thread.
pub trait StateTable: Send {
    /// Values of the keys that are there.
    ///
    /// # Errors
    /// As the provider.
    fn read(&self, keys: &Keys) -> Result<Found>;

    /// All keys that begin with one of these, with their values; of a table whose [`Layout`](super::Layout) has a prefix.
    ///
    /// # Errors
    /// As the provider.
    fn read_prefixed(&self, prefixes: &Keys) -> Result<FoundRows>;

    /// Gives each of the keys its row of these values, whether it is there or not.
    ///
    /// # Errors
    /// As the provider; `ResourceExhausted` if there is no room for them.
    fn write(&mut self, keys: &Keys, values: &[ArrayRef]) -> Result<()>;

    /// Takes all keys out whose bucket is at `until` or before. It costs what it takes out.
    ///
    /// # Errors
    /// As the provider.
    fn evict(&mut self, until: Bucket) -> Result<Vec<StateRows>>;

    /// Takes these keys out, of which some may not be there; of a table whose [`Layout`](super::Layout) has no prefix.
    ///
    /// # Errors
    /// As the provider.
    fn remove(&mut self, keys: &Keys) -> Result<()>;

    /// All that is there.
    ///
    /// # Errors
    /// As the provider.
    fn scan(&self) -> Result<Vec<StateRows>>;

    /// What changed since this was asked last, or everything: what a checkpoint has to hold so that with the versions before
    /// it the table can be restored. Nothing if nothing changed. What the table does later is not in it.
    ///
    /// # Errors
    /// As the provider.
    fn version(&mut self) -> Result<Option<Version>>;

    /// Has the next version be a snapshot: those before it will not be read again.
    fn want_snapshot(&mut self);

    /// Takes a version in, after those before it.
    ///
    /// # Errors
    /// `Corrupt` if it is not of this table.
    fn restore(&mut self, version: StoredVersion) -> Result<()>;

    /// What is there.
    fn usage(&self) -> StateUsage;
}

/// Values of keys that are there.
#[derive(Debug, Default)]
pub struct Found {
    /// Places of the keys among those that were asked for, in ascending order.
    pub places: Vec<usize>,
    /// Their values, column by column.
    pub values: Vec<ArrayRef>,
}

/// Keys that begin with a prefix, with their values.
#[derive(Debug, Default)]
pub struct FoundRows {
    /// Places of the prefixes among those that were asked for, in ascending order, once for each key.
    pub places: Vec<usize>,
    /// Bucket of each key.
    pub buckets: Vec<Bucket>,
    /// Bytes of the keys, one after another.
    pub key_bytes: Vec<u8>,
    /// End of each key in the bytes.
    pub key_ends: Vec<usize>,
    /// Their values, column by column.
    pub values: Vec<ArrayRef>,
}

impl FoundRows {
    /// Bytes of a key.
    pub fn key(&self, at: usize) -> &[u8] {
        let begin = if at == 0 { 0 } else { self.key_ends[at - 1] };
        &self.key_bytes[begin..self.key_ends[at]]
    }
}

/// Amount of state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StateUsage {
    /// Keys.
    pub keys: u64,
    /// Memory that they take.
    pub memory_bytes: u64,
}

/// Whether a version stands for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VersionKind {
    /// Everything: versions before it are not needed.
    Snapshot,
    /// What changed since the version before.
    Delta,
}

/// State on its way to a checkpoint; its rows can be taken on another thread.
pub struct Version {
    /// Whether it stands for itself.
    pub kind: VersionKind,
    /// Buckets at it and before it are gone.
    pub evicted_until: Option<Bucket>,
    /// Rows, some at a time; in a delta those of [`Bucket::REMOVED`] say which keys were taken out before the others were set.
    pub rows: Box<dyn Iterator<Item = Result<StateRows>> + Send>,
}

/// A table of state, or the part of one that a shard has.
#[derive(Debug, Clone)]
pub struct TablePart {
    /// Layout of the table.
    pub layout: Arc<Layout>,
    /// Partitions whose keys are in it.
    pub partitions: PartitionSet,
}

/// A version of a part of a table.
pub struct PartVersion {
    /// The part.
    pub part: TablePart,
    /// Version of it.
    pub version: Version,
}

/// A version from a checkpoint.
#[derive(Debug)]
pub struct StoredVersion {
    /// Whether it stands for itself.
    pub kind: VersionKind,
    /// Buckets at it and before it are gone; rows of this version are not.
    pub evicted_until: Option<Bucket>,
    /// Rows, as in a [`Version`].
    pub rows: Vec<StateRows>,
}
