use super::{Children, Counts, Mode, OwnerId};
use crate::ids::{BlockId, InodeId};
use crate::namenode::table::Row;
use crate::policy::PolicyId;

/// A directory or a file.
#[derive(Clone, Debug)]
pub struct Inode {
    /// Its number, never used again.
    pub id: InodeId,
    /// The directory that it is in; the root is in itself.
    pub parent: InodeId,
    /// Its name there, without a slash; the root's is empty.
    pub name: Box<[u8]>,
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
#[derive(Clone, Debug)]
pub enum Content {
    /// It has children.
    Directory(Box<Directory>),
    /// It has blocks.
    File(File),
}

/// A directory.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    /// Contents.
    pub children: Children,
    /// What is below it.
    pub counts: Counts,
}

/// A file. Who writes it is in the [`Tree`](super::Tree), as few files are open.
#[derive(Clone, Debug)]
pub struct File {
    /// Its blocks, replaced as a whole when they change their form.
    pub layout: Layout,
    /// Copies that its blocks are to have; 1 for striped ones.
    pub replication: u16,
    /// Bytes after which the client begins the next block.
    pub block_size: u64,
}

/// The blocks of a file or, of a striped one, its block groups, in order; all have the form that the inode's policy says. They
/// may be of any length. Most files have one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// No block.
    #[default]
    Empty,
    /// One block.
    One(BlockId),
    /// More than one.
    Many(Box<Vec<BlockId>>),
}

impl Layout {
    /// The blocks.
    pub fn blocks(&self) -> &[BlockId] {
        match self {
            Self::Empty => &[],
            Self::One(block) => std::slice::from_ref(block),
            Self::Many(blocks) => blocks,
        }
    }

    /// Adds a block behind the others.
    pub fn push(&mut self, block: BlockId) {
        match self {
            Self::Empty => *self = Self::One(block),
            Self::One(first) => *self = Self::Many(Box::new(vec![*first, block])),
            Self::Many(blocks) => blocks.push(block),
        }
    }

    /// Gives back the room that is kept for more blocks.
    pub fn shrink_to_fit(&mut self) {
        if let Self::Many(blocks) = self {
            blocks.shrink_to_fit();
        }
    }
}

impl FromIterator<BlockId> for Layout {
    fn from_iter<I: IntoIterator<Item = BlockId>>(blocks: I) -> Self {
        let mut layout = Self::Empty;
        blocks.into_iter().for_each(|block| layout.push(block));
        layout.shrink_to_fit();
        layout
    }
}

impl Row for Inode {
    type Key = InodeId;

    fn key(&self) -> InodeId {
        self.id
    }

    fn page_of(id: InodeId) -> u64 {
        id.0 / 64
    }
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
            Content::Directory(directory) => Some(directory.as_ref()),
            Content::File(_) => None,
        }
    }

    /// True for a directory.
    pub fn is_directory(&self) -> bool {
        self.directory().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inode_takes_96_bytes_beside_its_name() {
        assert_eq!(size_of::<Inode>(), 96);
    }

    #[test]
    fn a_layout_is_a_list_of_blocks() {
        for count in 0..4 {
            let blocks: Vec<BlockId> = (0..count).map(BlockId).collect();
            let mut layout: Layout = blocks.iter().copied().collect();
            assert_eq!(layout.blocks(), blocks);
            layout.push(BlockId(9));
            assert_eq!(layout.blocks(), [&blocks[..], &[BlockId(9)]].concat());
        }
    }
}
