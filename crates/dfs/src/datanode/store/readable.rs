use std::io;

use yeoul_disk::DiskFile;

use crate::datanode::replicas::Visible;
use crate::ids::GenerationStamp;
use crate::wire::checksum::{CHECKSUM_BYTES, Chunking};
use crate::wire::meta_file;

/// A replica that is open for a reader.
#[derive(Debug)]
pub struct ReadableReplica {
    pub(super) data: Box<dyn DiskFile>,
    pub(super) meta: Box<dyn DiskFile>,
    /// How its checksums are made.
    pub chunking: Chunking,
    /// Its stamp, which may be newer than the one that was asked for.
    pub stamp: GenerationStamp,
    /// Nobody writes it.
    pub is_whole: bool,
    /// What of it can be read.
    pub visible: Visible,
}

impl ReadableReplica {
    /// Reads data that begins a chunk.
    ///
    /// # Errors
    /// The disk fails, or the file is shorter than it was said to be.
    pub fn read_data(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.data.read_exact_at(into, offset)
    }

    /// Reads data that begins a chunk, and compares it with its checksums, for which `checksums` has room.
    ///
    /// # Errors
    /// - `InvalidData`: they do not agree.
    /// - Else, as of [`Self::read_data`].
    pub fn read_checked(&self, offset: u64, into: &mut [u8], checksums: &mut Vec<u8>) -> io::Result<()> {
        self.read_data(offset, into)?;
        let bytes = self.chunking.checksum_bytes(into.len() as u64);
        checksums.resize(usize::try_from(bytes).expect("checksums are fewer than what they are of"), 0);
        self.read_checksums(offset, into.len() as u64, checksums)?;
        match self.chunking.first_mismatch(into, checksums) {
            None => Ok(()),
            Some(chunk) => {
                let at = offset + chunk as u64 * self.chunking.bytes_per_checksum() as u64;
                let message = format!("the chunk at {at} does not agree with its checksum");
                Err(io::Error::new(io::ErrorKind::InvalidData, message))
            }
        }
    }

    /// Reads the checksums of `data` bytes that begin a chunk at `offset`.
    ///
    /// # Errors
    /// The disk fails, or the file is shorter than it was said to be.
    pub fn read_checksums(&self, offset: u64, data: u64, into: &mut [u8]) -> io::Result<()> {
        let at = meta_file::HEADER_BYTES as u64 + self.chunking.checksum_bytes(offset);
        self.meta.read_exact_at(into, at)?;
        // The file's own may be that of more bytes, if the replica has grown since.
        if let (Some(tail), true) = (self.visible.tail, offset + data == self.visible.length)
            && let Some(last) = into.last_chunk_mut::<CHECKSUM_BYTES>()
        {
            *last = tail;
        }
        Ok(())
    }
}
