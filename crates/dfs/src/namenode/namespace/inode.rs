use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Counts, Mode, OwnerId};
use crate::ids::{BlockId, InodeId};
use crate::policy::PolicyId;

/// A directory or a file.
#[derive(Debug)]
pub struct Inode {
    /// Its number, never used again.
    pub id: InodeId,
    /// The directory that it is in; the root is in itself.
    pub parent: InodeId,
    /// Its name there, without a slash; the root's is empty.
    pub name: Arc<[u8]>,
    /// The user that it belongs to.
    pub owner: OwnerId,
    /// The group that it belongs to.
    pub group: OwnerId,
    /// Who may do what.
    pub mode: Mode,
    /// Time of the last change, in milliseconds since 1970.
    pub modified_ms: u64,
    /// Time of the last read, in milliseconds since 1970, to the hour; 0 for a directory.
    pub accessed_ms: u64,
    /// How this file is laid out, or new files below this directory are if nothing nearer to them says otherwise.
    pub policy: PolicyId,
    /// Number of HDFS's storage policy; 0 for none of its own.
    pub storage_policy: u8,
    /// Bits for what later versions keep of an inode; none has a meaning yet.
    pub flags: u32,
    /// What kind of inode it is.
    pub content: Content,
}

/// What kind of inode it is.
#[derive(Debug)]
pub enum Content {
    /// It has children.
    Directory(Directory),
    /// It has blocks.
    File(File),
}

/// The children of a directory.
#[derive(Debug, Default)]
pub struct Directory {
    /// By their names, in the order of their bytes.
    pub children: BTreeMap<Arc<[u8]>, InodeId>,
    /// What is below it.
    pub counts: Counts,
}

/// A file.
#[derive(Debug)]
pub struct File {
    /// Its blocks, replaced as a whole when they change their form.
    pub layout: Layout,
    /// Copies that its blocks are to have; 1 for striped ones.
    pub replication: u16,
    /// Bytes after which the client begins the next block.
    pub block_size: u64,
    /// The client that writes it; none for a closed file.
    pub holder: Option<Arc<str>>,
}

/// The blocks of a file, in order; all have the form that the inode's policy says. They may be of any length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Blocks or, of a striped file, block groups.
    pub blocks: Vec<BlockId>,
}

impl Inode {
    /// The file, if it is one.
    pub fn file(&self) -> Option<&File> {
        match &self.content {
            Content::File(file) => Some(file),
            Content::Directory(_) => None,
        }
    }

    /// The directory, if it is one.
    pub fn directory(&self) -> Option<&Directory> {
        match &self.content {
            Content::Directory(directory) => Some(directory),
            Content::File(_) => None,
        }
    }

    /// True for a directory.
    pub fn is_directory(&self) -> bool {
        self.directory().is_some()
    }
}
