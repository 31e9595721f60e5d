use std::io;

use crate::ids::BlockId;

/// The reason why a replica cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The block has a replica here already.
    #[error("{0} is here already")]
    Exists(BlockId),
    /// There is none, or none with this stamp.
    #[error("{0} is not here")]
    Missing(String),
    /// It is whole, or has a writer.
    #[error("{0} is not unfinished here")]
    NotUnfinished(BlockId),
    /// The NameNode has taken the file from its writer.
    #[error("the file of {0} was taken from its writer")]
    Taken(BlockId),
    /// It has a later stamp than its writer gives it.
    #[error("{id} has stamp {has} here, and its writer gives it {said}")]
    Newer {
        /// The block.
        id: BlockId,
        /// The stamp here.
        has: u64,
        /// The stamp that it is to get.
        said: u64,
    },
    /// It has fewer bytes than were acknowledged, or more than were sent.
    #[error(
        "{id} has {has} bytes here, and its writer says {acknowledged} were acknowledged and {sent} sent"
    )]
    OtherLength {
        /// The block.
        id: BlockId,
        /// Bytes here.
        has: u64,
        /// Bytes that the pipeline has acknowledged.
        acknowledged: u64,
        /// Bytes that the writer has sent.
        sent: u64,
    },
    /// No volume has room.
    #[error("no volume has room for {0} bytes")]
    Full(u64),
    /// The memory has no room for the table of replicas with one more.
    #[error("no memory for one more replica: give the DataNode more --memory")]
    NoMemory,
    /// The pool is another one.
    #[error("block pool {found} is not that of this DataNode, {expected}")]
    OtherPool {
        /// What was asked for.
        found: String,
        /// What there is.
        expected: String,
    },
    /// Its checksums are none, or not those of its data.
    #[error("{id} or its checksum file is damaged: {why}")]
    Damaged {
        /// The block.
        id: BlockId,
        /// What is wrong.
        why: String,
    },
    /// The disk said no.
    #[error(transparent)]
    Disk(#[from] io::Error),
}
