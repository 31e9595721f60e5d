//! The file beside a block's: its header, which is written again as it was, and the checksums behind it, of which a digest is
//! the same however they are cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use yeoul_dfs::wire::block_digest::{BlockDigest, DigestKind, composite_of_group, md5_of_group};
use yeoul_dfs::wire::checksum::CHECKSUM_BYTES;
use yeoul_dfs::wire::meta_file::{HEADER_BYTES, decode, encode};

/// For the texts of errors, the state of an MD5, and the columns of a CRC.
const SLACK: u64 = 2 * 1024;

fuzz_target!(|data: &[u8]| {
    let Some((header, rest)) = data.split_first_chunk::<HEADER_BYTES>() else { return };
    let Ok(chunking) = decode(*header) else { return };
    assert_eq!(encode(chunking), *header);
    let Some((&[cut, stripe], rest)) = rest.split_first_chunk::<2>() else { return };
    let checksums = &rest[..rest.len() / CHECKSUM_BYTES * CHECKSUM_BYTES];
    let chunk = chunking.bytes_per_checksum() as u64;
    // The last chunk may be a part of one.
    let length = ((checksums.len() / CHECKSUM_BYTES) as u64 * chunk).saturating_sub(u64::from(cut) % chunk);
    let stripe = (stripe > 0).then(|| u64::from(stripe) * chunk);
    for kind in [DigestKind::Md5, DigestKind::Composite { stripe: None }, DigestKind::Composite { stripe }] {
        let mut whole = None;
        yeoul_fuzz::bounded_by(SLACK, data.len(), || {
            let Ok(mut digest) = BlockDigest::new(kind, chunking, length) else { return };
            digest.push(checksums);
            whole = Some(digest.finish());
        });
        let Some(whole) = whole else { continue };
        assert_eq!(whole.len() as u64, kind.bytes(length));
        let mut digest = BlockDigest::new(kind, chunking, length).expect("it was just made");
        for piece in checksums.chunks((usize::from(cut) + 1) * CHECKSUM_BYTES) {
            digest.push(piece);
        }
        assert_eq!(digest.finish(), whole);
        md5_of_group(&[whole.clone(), whole.clone()]);
        if let DigestKind::Composite { stripe: Some(cell) } = kind {
            // A group of one unit is that unit.
            let group =
                composite_of_group(chunking.kind(), &[whole], cell, length).expect("no checksum is missing");
            let mut digest = BlockDigest::new(DigestKind::Composite { stripe: None }, chunking, length)
                .expect("one stripe is not too many");
            digest.push(checksums);
            assert_eq!(group, digest.finish());
        }
    }
});
