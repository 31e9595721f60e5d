//! Packets, in which the bytes of a block travel.
//!
//! A packet is a big-endian u32 with the bytes of itself, of the checksums and of the data (so at least 4), a big-endian u16
//! with the bytes of the header, the header (protobuf), the checksums, and the data. The last packet of a block is empty. A
//! packet with the sequence number -1 shows that the writer is there.

use bytes::{BufMut, BytesMut};
use prost::Message;

use super::DecodeError;
use super::checksum::Chunking;
use super::limits::{PACKET_BYTES_MAX, PACKET_HEADER_BYTES_MAX};
use super::proto::transfer::PacketHeader;

/// Bytes before the header.
pub const PREFIX_BYTES: usize = 6;
/// Sequence number of a packet that only shows that the writer is there.
pub const SEQUENCE_HEARTBEAT: i64 = -1;
/// Sequence number of an acknowledgement that is of no packet: a DataNode says something of itself.
pub const SEQUENCE_OUT_OF_BAND: i64 = -2;

/// The lengths with which a packet begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Bytes of the header.
    pub header: usize,
    /// Bytes of checksums and data.
    pub payload: usize,
}

impl Prefix {
    /// Reads the lengths.
    ///
    /// # Errors
    /// Lengths over the limits or below what they count themselves.
    pub fn decode([p0, p1, p2, p3, h0, h1]: [u8; PREFIX_BYTES]) -> Result<Self, DecodeError> {
        let declared = u32::from_be_bytes([p0, p1, p2, p3]);
        let header = usize::from(u16::from_be_bytes([h0, h1]));
        let Some(payload) = declared.checked_sub(4) else {
            let (what, found) = ("the length of a packet", declared.into());
            return Err(DecodeError::Unexpected { what, found, expected: "at least 4" });
        };
        let payload = payload as usize;
        if payload > PACKET_BYTES_MAX {
            let what = "a packet";
            return Err(DecodeError::TooLong { what, declared: declared.into(), max: PACKET_BYTES_MAX });
        }
        if header > PACKET_HEADER_BYTES_MAX {
            let what = "the header of a packet";
            return Err(DecodeError::TooLong { what, declared: header as u64, max: PACKET_HEADER_BYTES_MAX });
        }
        Ok(Self { header, payload })
    }
}

/// A header whose numbers agree with the bytes that follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Place of the first byte of data in the block.
    pub offset: u64,
    /// Number of the packet, from 0; -1 for one that only shows that the writer is there.
    pub sequence: i64,
    /// True for the empty packet that ends the block.
    pub is_last: bool,
    /// Bytes of data.
    pub data: usize,
    /// The writer wants the bytes on disk before the acknowledgement.
    pub sync: bool,
}

impl Header {
    /// Reads the header of a packet with this prefix.
    ///
    /// # Errors
    /// A header that is none of protobuf's, negative numbers, checksums that are not one for each chunk that the data
    /// touches, or data behind the end.
    pub fn decode(bytes: &[u8], prefix: Prefix, chunking: Chunking) -> Result<Self, DecodeError> {
        let what = "the header of a packet";
        let header = PacketHeader::decode(bytes).map_err(|source| DecodeError::Protobuf { what, source })?;
        let unexpected = |what, found, expected| DecodeError::Unexpected { what, found, expected };
        let offset = u64::try_from(header.offset)
            .map_err(|_| unexpected("the offset of a packet", header.offset, "no negative number"))?;
        let data = usize::try_from(header.data_length).map_err(|_| {
            unexpected("the data of a packet", header.data_length.into(), "no negative number")
        })?;
        if header.sequence < SEQUENCE_HEARTBEAT {
            return Err(unexpected("the sequence number of a packet", header.sequence, "at least -1"));
        }
        // A packet that does not begin a chunk goes on with that one alone.
        let checksums = chunking.checksum_bytes(data as u64);
        if prefix.payload as u64 != data as u64 + checksums {
            let expected = "its data and a checksum for each chunk";
            return Err(unexpected("the length of a packet", prefix.payload as i64, expected));
        }
        if header.is_last && data > 0 {
            return Err(unexpected("the data of the last packet", data as i64, "none"));
        }
        let sync = header.sync_block.unwrap_or(false);
        Ok(Self { offset, sequence: header.sequence, is_last: header.is_last, data, sync })
    }

    /// Appends prefix and header of a packet with so many bytes of checksums.
    pub fn encode(&self, checksums: usize, to: &mut BytesMut) {
        let header = PacketHeader {
            offset: self.offset.cast_signed(),
            sequence: self.sequence,
            is_last: self.is_last,
            data_length: i32::try_from(self.data).expect("a packet is at most 16 MiB"),
            sync_block: self.sync.then_some(true),
        };
        to.put_u32(u32::try_from(4 + checksums + self.data).expect("a packet is at most 16 MiB"));
        to.put_u16(u16::try_from(header.encoded_len()).expect("a header is some 27 bytes"));
        header.encode_raw(to);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(bytes: &[u8]) -> Result<Header, DecodeError> {
        let prefix = Prefix::decode(*bytes.first_chunk().unwrap())?;
        let header = &bytes[PREFIX_BYTES..PREFIX_BYTES + prefix.header];
        Header::decode(header, prefix, Chunking::default())
    }

    #[test]
    fn the_packets_of_a_block_of_700_bytes_are_as_recorded() {
        let data = Header { offset: 0, sequence: 0, is_last: false, data: 700, sync: false };
        let mut bytes = BytesMut::new();
        data.encode(8, &mut bytes);
        assert_eq!(&bytes[..6], [0, 0, 2, 0xc8, 0, 0x19]);
        assert_eq!(&bytes[6 + 18..], [0x18, 0, 0x25, 0xbc, 0x02, 0, 0]);
        assert_eq!(decode(&bytes).unwrap(), data);

        let last = Header { offset: 700, sequence: 1, is_last: true, data: 0, sync: false };
        let mut bytes = BytesMut::new();
        last.encode(0, &mut bytes);
        assert_eq!(&bytes[..9], [0, 0, 0, 4, 0, 0x19, 0x09, 0xbc, 0x02]);
        assert_eq!(&bytes[24..], [0x18, 1, 0x25, 0, 0, 0, 0]);
        assert_eq!(decode(&bytes).unwrap(), last);
    }

    #[test]
    fn what_does_not_add_up_is_refused() {
        let sound = Header { offset: 0, sequence: 0, is_last: false, data: 700, sync: true };
        let refused = |header: Header, checksums| {
            let mut bytes = BytesMut::new();
            header.encode(checksums, &mut bytes);
            decode(&bytes).is_err()
        };
        assert!(!refused(sound, 8));
        assert!(refused(sound, 4), "a checksum is missing");
        assert!(refused(sound, 12), "a checksum too many");
        assert!(refused(Header { is_last: true, ..sound }, 8), "data in the last packet");
        assert!(refused(Header { sequence: -2, ..sound }, 8));
        assert!(refused(Header { offset: u64::MAX, ..sound }, 8), "a negative offset");
        assert!(Prefix::decode([0, 0, 0, 3, 0, 25]).is_err(), "shorter than its own length");
        assert!(Prefix::decode([0x7f, 0, 0, 0, 0, 25]).is_err(), "2 GB declared");
        assert!(Prefix::decode([0, 0, 0, 4, 0xff, 0xff]).is_err(), "a header of 64 KB declared");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(
            prefix in any::<[u8; PREFIX_BYTES]>(),
            header in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            if let Ok(prefix) = Prefix::decode(prefix) {
                let _ = Header::decode(&header, prefix, Chunking::default());
            }
        }
    }
}
