//! Packets of a block: the lengths, and a header that agrees with them. What decodes encodes to what decodes alike.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use yeoul_dfs::wire::checksum::Chunking;
use yeoul_dfs::wire::limits::{PACKET_BYTES_MAX, PACKET_HEADER_BYTES_MAX};
use yeoul_dfs::wire::packet::{Header, PREFIX_BYTES, Prefix};

/// For the texts of errors.
const SLACK: u64 = 512;

fuzz_target!(|data: &[u8]| {
    let Some((chunk, data)) = data.split_first_chunk::<4>() else { return };
    let Ok(chunking) = Chunking::new(2, u32::from_be_bytes(*chunk)) else { return };
    let Some((prefix, rest)) = data.split_first_chunk::<PREFIX_BYTES>() else { return };
    let mut found = None;
    yeoul_fuzz::bounded_by(SLACK, data.len(), || {
        let Ok(prefix) = Prefix::decode(*prefix) else { return };
        assert!(prefix.payload <= PACKET_BYTES_MAX && prefix.header <= PACKET_HEADER_BYTES_MAX);
        let Some(header) = rest.get(..prefix.header) else { return };
        found = Header::decode(header, prefix, chunking).ok().map(|header| (prefix, header));
    });
    let Some((prefix, header)) = found else { return };
    assert!(header.data <= prefix.payload && !(header.is_last && header.data > 0));
    let checksums = prefix.payload - header.data;
    assert_eq!(checksums as u64, chunking.checksum_bytes(header.data as u64));
    let mut again = BytesMut::new();
    header.encode(checksums, &mut again);
    let (prefix, rest) = again.split_first_chunk::<PREFIX_BYTES>().expect("it was written");
    let prefix = Prefix::decode(*prefix).expect("it was written");
    assert_eq!(rest.len(), prefix.header);
    assert_eq!(Header::decode(rest, prefix, chunking).expect("it was written"), header);
});
