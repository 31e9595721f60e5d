//! Checksums of the chunks of a block, as the stock client sends and expects them: CRC-32C, CRC-32 or none, four bytes each, the
//! high one first.

use super::DecodeError;
use super::limits::BYTES_PER_CHECKSUM_MAX;
use super::proto::transfer::Checksum;

/// Bytes that a checksum takes, if there is one.
pub const CHECKSUM_BYTES: usize = 4;

/// The algorithm of a block's checksums (`dfs.checksum.type`), by its number in messages and in the header of a meta file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChecksumKind {
    /// No checksum at all (`NULL`): files that their writer checks itself, as Spark's and Delta Lake's logs.
    Null = 0,
    /// CRC-32 of Ethernet and gzip.
    Crc32 = 1,
    /// CRC-32C (RFC 3720), the client's default.
    #[default]
    Crc32c = 2,
}

impl ChecksumKind {
    /// The kind with this number.
    ///
    /// # Errors
    /// A number that none has.
    pub fn from_wire(number: i32) -> Result<Self, DecodeError> {
        match number {
            0 => Ok(Self::Null),
            1 => Ok(Self::Crc32),
            2 => Ok(Self::Crc32c),
            _ => {
                let expected = "0 (NULL), 1 (CRC32) or 2 (CRC32C) by dfs.checksum.type";
                Err(DecodeError::Unexpected { what: "the checksum type", found: number.into(), expected })
            }
        }
    }

    /// The polynomial without its highest power, the high bit that of x to the power of 0; none of [`Self::Null`].
    pub fn polynomial(self) -> Option<u32> {
        match self {
            Self::Null => None,
            Self::Crc32 => Some(0xedb8_8320),
            Self::Crc32c => Some(0x82f6_3b78),
        }
    }
}

/// The checksums that a writer wants: of an algorithm, over so many bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunking {
    kind: ChecksumKind,
    bytes_per_checksum: u32,
}

impl Default for Chunking {
    /// HDFS's own: a CRC-32C for each 512 bytes.
    fn default() -> Self {
        Self { kind: ChecksumKind::Crc32c, bytes_per_checksum: 512 }
    }
}

impl Chunking {
    /// Checks what a writer or a meta file asks for.
    ///
    /// # Errors
    /// An algorithm that there is not, or no sensible number of bytes.
    pub fn new(kind: i32, bytes_per_checksum: u32) -> Result<Self, DecodeError> {
        let kind = ChecksumKind::from_wire(kind)?;
        if bytes_per_checksum == 0 || bytes_per_checksum as usize > BYTES_PER_CHECKSUM_MAX {
            let expected = "1 to 1048576";
            let found = bytes_per_checksum.into();
            return Err(DecodeError::Unexpected { what: "bytes per checksum", found, expected });
        }
        Ok(Self { kind, bytes_per_checksum })
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
        Checksum { kind: self.kind as i32, bytes_per_checksum: self.bytes_per_checksum }
    }

    /// The same chunks with checksums of another kind.
    #[must_use]
    pub fn with_kind(self, kind: ChecksumKind) -> Self {
        Self { kind, ..self }
    }

    /// The algorithm.
    pub fn kind(self) -> ChecksumKind {
        self.kind
    }

    /// Bytes of data in one chunk, under one checksum if there are any.
    pub fn bytes_per_checksum(self) -> usize {
        self.bytes_per_checksum as usize
    }

    /// Bytes of checksums for so many bytes of data: a chunk that is begun has one.
    pub fn checksum_bytes(self, data: u64) -> u64 {
        self.checksums(data) * CHECKSUM_BYTES as u64
    }

    /// Number of checksums of so many bytes of data.
    pub fn checksums(self, data: u64) -> u64 {
        match self.kind {
            ChecksumKind::Null => 0,
            ChecksumKind::Crc32 | ChecksumKind::Crc32c => data.div_ceil(self.bytes_per_checksum.into()),
        }
    }

    /// Appends the checksums of data that begins a chunk.
    pub fn compute(self, data: &[u8], checksums: &mut Vec<u8>) {
        let Some(crc) = self.crc() else { return };
        for chunk in data.chunks(self.bytes_per_checksum()) {
            checksums.extend(crc(chunk).to_be_bytes());
        }
    }

    /// The number of the first chunk whose checksum is another one; none if all agree, or there are no checksums. `checksums` has
    /// as many as [`Self::checksums`] says.
    pub fn first_mismatch(self, data: &[u8], checksums: &[u8]) -> Option<usize> {
        let stored = checksums.chunks_exact(CHECKSUM_BYTES);
        assert_eq!(stored.len() as u64, self.checksums(data.len() as u64), "a checksum for each chunk");
        let crc = self.crc()?;
        let chunks = data.chunks(self.bytes_per_checksum());
        chunks.zip(stored).position(|(chunk, stored)| crc(chunk).to_be_bytes() != stored)
    }

    fn crc(self) -> Option<fn(&[u8]) -> u32> {
        match self.kind {
            ChecksumKind::Null => None,
            ChecksumKind::Crc32 => Some(crc32fast::hash),
            ChecksumKind::Crc32c => Some(crc32c::crc32c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksums_are_crc_32_crc_32c_or_none() {
        // The check values in the catalogue of parametrised CRC algorithms.
        for (kind, expected) in [(0, None), (1, Some(0xcbf4_3926_u32)), (2, Some(0xe306_9283))] {
            let mut checksums = Vec::new();
            let chunking = Chunking::new(kind, 512).unwrap();
            chunking.compute(b"123456789", &mut checksums);
            assert_eq!(checksums, expected.map_or(Vec::new(), |crc| crc.to_be_bytes().to_vec()));
            assert_eq!(checksums.len() as u64, chunking.checksum_bytes(9));
            assert_eq!(Chunking::from_message(&chunking.to_message()).unwrap(), chunking);
        }
    }

    #[test]
    fn a_flipped_bit_is_found_in_its_chunk() {
        for kind in [1, 2] {
            let chunking = Chunking::new(kind, 100).unwrap();
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
        assert_eq!(Chunking::new(0, 100).unwrap().first_mismatch(&[7; 250], &[]), None);
    }

    #[test]
    fn other_algorithms_and_senseless_chunks_are_refused() {
        for (kind, bytes) in [(-1, 512), (3, 512), (2, 0), (0, 0), (2, u32::MAX)] {
            assert!(Chunking::new(kind, bytes).is_err(), "{kind} {bytes}");
        }
    }
}
