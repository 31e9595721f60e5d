//! The header of the file beside each block file.
//!
//! `blk_<id>_<stamp>.meta`, as HDFS writes it: u16 version 1, u8 checksum type, u32 bytes per checksum, all big-endian; then
//! the checksum of each chunk, four bytes each; none of type NULL.

use super::DecodeError;
use super::checksum::Chunking;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 7;
/// The only version of the file that there has been since Hadoop 0.14.
const VERSION: u16 = 1;

/// Writes the header.
pub fn encode(chunking: Chunking) -> [u8; HEADER_BYTES] {
    let [v0, v1] = VERSION.to_be_bytes();
    let [b0, b1, b2, b3] = chunking.to_message().bytes_per_checksum.to_be_bytes();
    [v0, v1, chunking.kind() as u8, b0, b1, b2, b3]
}

/// Reads the header.
///
/// # Errors
/// Another version, or a checksum type that there is not.
pub fn decode([v0, v1, kind, b0, b1, b2, b3]: [u8; HEADER_BYTES]) -> Result<Chunking, DecodeError> {
    let version = u16::from_be_bytes([v0, v1]);
    if version != VERSION {
        let (what, found) = ("the version of a meta file", version.into());
        return Err(DecodeError::Unexpected { what, found, expected: "1" });
    }
    Chunking::new(kind.into(), u32::from_be_bytes([b0, b1, b2, b3]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_as_hdfs_writes_it() {
        let header = encode(Chunking::default());
        assert_eq!(header, [0, 1, 2, 0, 0, 2, 0]);
        assert_eq!(decode(header).unwrap(), Chunking::default());
        assert!(decode([0, 2, 2, 0, 0, 2, 0]).is_err());
        for kind in 0..3 {
            let chunking = Chunking::new(kind, 1000).unwrap();
            assert_eq!(decode(encode(chunking)).unwrap(), chunking);
        }
        assert!(decode([0, 1, 3, 0, 0, 2, 0]).is_err(), "no such type");
    }
}
