//! CRC-32C of each chunk of a block, as the stock client sends and expects it: four bytes each, the high one first.

use super::DecodeError;
use super::limits::BYTES_PER_CHECKSUM_MAX;
use super::proto::transfer::Checksum;

/// Bytes that a checksum takes.
pub const CHECKSUM_BYTES: usize = 4;

/// The checksum that a writer wants: CRC-32C over so many bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunking {
    bytes_per_checksum: u32,
}

/// The number of CRC-32C in messages and in the header of a block's meta file.
pub const KIND_CRC32C: u8 = 2;

impl Default for Chunking {
    /// HDFS's own: a checksum for each 512 bytes.
    fn default() -> Self {
        Self { bytes_per_checksum: 512 }
    }
}

impl Chunking {
    /// Checks what a writer or a meta file asks for.
    ///
    /// # Errors
    /// Another algorithm than CRC-32C, or no sensible number of bytes.
    pub fn new(kind: i32, bytes_per_checksum: u32) -> Result<Self, DecodeError> {
        if kind != i32::from(KIND_CRC32C) {
            let expected = "2 (CRC-32C): set dfs.checksum.type to CRC32C";
            return Err(DecodeError::Unexpected { what: "the checksum type", found: kind.into(), expected });
        }
        if bytes_per_checksum == 0 || bytes_per_checksum as usize > BYTES_PER_CHECKSUM_MAX {
            let expected = "1 to 1048576";
            let found = bytes_per_checksum.into();
            return Err(DecodeError::Unexpected { what: "bytes per checksum", found, expected });
        }
        Ok(Self { bytes_per_checksum })
    }

    /// From the message that a writer sends.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn from_message(checksum: &Checksum) -> Result<Self, DecodeError> {
        Self::new(checksum.kind, checksum.bytes_per_checksum)
    }

    /// The message for a reader.
    pub fn to_message(self) -> Checksum {
        Checksum { kind: KIND_CRC32C.into(), bytes_per_checksum: self.bytes_per_checksum }
    }

    /// Bytes of data under one checksum.
    pub fn bytes_per_checksum(self) -> usize {
        self.bytes_per_checksum as usize
    }

    /// Bytes of checksums for so many bytes of data: a chunk that is begun has one.
    pub fn checksum_bytes(self, data: u64) -> u64 {
        data.div_ceil(self.bytes_per_checksum.into()) * CHECKSUM_BYTES as u64
    }

    /// Appends the checksums of data that begins a chunk.
    pub fn compute(self, data: &[u8], checksums: &mut Vec<u8>) {
        for chunk in data.chunks(self.bytes_per_checksum()) {
            checksums.extend(crc32c::crc32c(chunk).to_be_bytes());
        }
    }

    /// The number of the first chunk whose checksum is another one; none if all agree. `checksums` has one for each chunk.
    pub fn first_mismatch(self, data: &[u8], checksums: &[u8]) -> Option<usize> {
        let stored = checksums.chunks_exact(CHECKSUM_BYTES);
        assert_eq!(stored.len(), data.len().div_ceil(self.bytes_per_checksum()), "a checksum for each chunk");
        let chunks = data.chunks(self.bytes_per_checksum());
        chunks.zip(stored).position(|(chunk, stored)| crc32c::crc32c(chunk).to_be_bytes() != stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_crc_32c() {
        // The check value of CRC-32C in the catalogue of parametrised CRC algorithms.
        let mut checksums = Vec::new();
        Chunking::default().compute(b"123456789", &mut checksums);
        assert_eq!(checksums, 0xe306_9283_u32.to_be_bytes());
    }

    #[test]
    fn a_flipped_bit_is_found_in_its_chunk() {
        let chunking = Chunking::new(2, 100).unwrap();
        let mut data: Vec<u8> = (0..=249u8).collect();
        let mut checksums = Vec::new();
        chunking.compute(&data, &mut checksums);
        assert_eq!(checksums.len() as u64, chunking.checksum_bytes(250));
        assert_eq!(chunking.first_mismatch(&data, &checksums), None);
        data[249] ^= 1;
        assert_eq!(chunking.first_mismatch(&data, &checksums), Some(2));
        data[100] ^= 0x80;
        assert_eq!(chunking.first_mismatch(&data, &checksums), Some(1));
    }

    #[test]
    fn other_algorithms_and_senseless_chunks_are_refused() {
        for (kind, bytes) in [(0, 512), (1, 512), (2, 0), (2, u32::MAX)] {
            assert!(Chunking::new(kind, bytes).is_err(), "{kind} {bytes}");
        }
    }
}
