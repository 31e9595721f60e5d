//! What a directory may hold at most.

/// The quotas of a directory; none for those that it has not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Files and directories, with the directory itself.
    pub names: Option<u64>,
    /// Bytes on disk, with all replicas.
    pub space: Option<u64>,
}
