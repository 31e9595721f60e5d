//! The checksum of a block's checksums, by which clients compare files (`hadoop fs -checksum`).
//!
//! Two kinds: the MD5 of all CRCs as they stand in the meta file, and the composite CRC, which is that of the data, whole or
//! for each stripe of so many bytes. A block group's MD5 is that of its data units' MD5s, in their order, and of zeros up to the
//! size that the buffer of HDFS's own implementation has by then; its composite CRC is that of its data in the file's order.

use bytes::Bytes;
use md5::{Digest, Md5};

use super::DecodeError;
use super::checksum::{CHECKSUM_BYTES, ChecksumKind, Chunking};
use super::limits::DIGEST_STRIPES_MAX;
use super::proto::transfer::ChecksumOptions;

/// Bytes of an MD5.
pub const MD5_BYTES: usize = 16;
/// Bytes that HDFS's buffer has at first; it doubles when they are too few.
const JAVA_BUFFER_BYTES: usize = 32;

/// How the checksums of a block become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestKind {
    /// The MD5 of all of them.
    Md5,
    /// The CRC of each stripe of so many bytes of data, or of all data.
    Composite {
        /// Bytes of a stripe.
        stripe: Option<u64>,
    },
}

impl DigestKind {
    /// From the message of a client.
    ///
    /// # Errors
    /// A kind that there is not.
    pub fn from_message(options: Option<&ChecksumOptions>) -> Result<Self, DecodeError> {
        let Some(options) = options else { return Ok(Self::Md5) };
        match options.kind() {
            1 => Ok(Self::Md5),
            2 => Ok(Self::Composite { stripe: options.stripe_length.filter(|length| *length > 0) }),
            found => Err(DecodeError::Unexpected {
                what: "the type of a block's checksum",
                found: found.into(),
                expected: "1 (MD5CRC) or 2 (COMPOSITE_CRC)",
            }),
        }
    }

    /// The message for a peer, and in the answer.
    pub fn to_message(self) -> ChecksumOptions {
        match self {
            Self::Md5 => ChecksumOptions { kind: Some(1), stripe_length: None },
            Self::Composite { stripe } => ChecksumOptions { kind: Some(2), stripe_length: stripe },
        }
    }

    /// Bytes of the checksum of so much data.
    pub fn bytes(self, data: u64) -> u64 {
        match self {
            Self::Md5 => MD5_BYTES as u64,
            Self::Composite { stripe: None } => CHECKSUM_BYTES as u64 * u64::from(data > 0),
            Self::Composite { stripe: Some(stripe) } => CHECKSUM_BYTES as u64 * data.div_ceil(stripe),
        }
    }
}

/// The checksum of a block's checksums, as they come.
#[derive(Debug)]
pub struct BlockDigest {
    chunk: u64,
    /// Bytes of data whose checksums are to come.
    left: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Md5(Md5),
    Composite { composer: CrcComposer, stripe: u64, in_stripe: u64, ended: Vec<u8> },
}

impl BlockDigest {
    /// That of `length` bytes of data.
    ///
    /// # Errors
    /// A stripe that ends within a chunk, or too many of them; a composite CRC of data without checksums.
    pub fn new(kind: DigestKind, chunking: Chunking, length: u64) -> Result<Self, DecodeError> {
        let chunk = chunking.bytes_per_checksum() as u64;
        let DigestKind::Composite { stripe } = kind else {
            // Of data without checksums it is the MD5 of nothing, as in HDFS.
            let left = if chunking.kind() == ChecksumKind::Null { 0 } else { length };
            return Ok(Self { chunk, left, state: State::Md5(Md5::new()) });
        };
        let polynomial = polynomial_of(chunking.kind())?;
        let stripe = stripe.filter(|stripe| *stripe < length).unwrap_or(length.max(1));
        if stripe < length && !stripe.is_multiple_of(chunk) {
            let (what, expected) = ("the stripe of a composite CRC", "a multiple of the bytes per checksum");
            let found = i64::try_from(stripe).unwrap_or(i64::MAX);
            return Err(DecodeError::Unexpected { what, found, expected });
        }
        let stripes = length.div_ceil(stripe);
        if stripes > DIGEST_STRIPES_MAX {
            let (what, max) = ("an answer for each stripe of a block", DIGEST_STRIPES_MAX as usize);
            return Err(DecodeError::TooLong { what, declared: stripes, max });
        }
        let composer = CrcComposer::new(polynomial, chunk);
        let state = State::Composite { composer, stripe, in_stripe: 0, ended: Vec::new() };
        Ok(Self { chunk, left: length, state })
    }

    /// Takes the next checksums.
    ///
    /// # Panics
    /// There are more than the data has chunks.
    pub fn push(&mut self, checksums: &[u8]) {
        let (checksums, rest) = checksums.as_chunks::<CHECKSUM_BYTES>();
        assert!(rest.is_empty(), "a checksum has four bytes");
        if let State::Md5(md5) = &mut self.state {
            md5.update(checksums.as_flattened());
        }
        for checksum in checksums {
            assert!(self.left > 0, "more checksums than chunks");
            let length = self.left.min(self.chunk);
            self.left -= length;
            if let State::Composite { composer, stripe, in_stripe, ended } = &mut self.state {
                composer.push(u32::from_be_bytes(*checksum), length);
                *in_stripe += length;
                if *in_stripe == *stripe || self.left == 0 {
                    ended.extend(composer.take().to_be_bytes());
                    *in_stripe = 0;
                }
            }
        }
    }

    /// The checksum.
    ///
    /// # Panics
    /// Checksums are missing.
    pub fn finish(self) -> Bytes {
        assert_eq!(self.left, 0, "checksums are missing");
        match self.state {
            State::Md5(md5) => Bytes::copy_from_slice(&md5.finalize()),
            State::Composite { ended, .. } => ended.into(),
        }
    }
}

/// The MD5 of a block group, from those of its data units.
pub fn md5_of_group(units: &[Bytes]) -> Bytes {
    let mut capacity = JAVA_BUFFER_BYTES;
    let mut joined = Vec::new();
    for unit in units {
        joined.extend_from_slice(unit);
        if joined.len() > capacity {
            capacity = (2 * capacity).max(joined.len());
        }
    }
    joined.resize(capacity, 0);
    Bytes::copy_from_slice(&Md5::digest(&joined))
}

/// The composite CRC of the first `length` bytes of a block group, from the CRCs of the cells of each data unit, `units` in their
/// order.
///
/// # Errors
/// A CRC is missing, or the group has no checksums.
pub fn composite_of_group(
    kind: ChecksumKind,
    units: &[Bytes],
    cell: u64,
    length: u64,
) -> Result<Bytes, DecodeError> {
    if length == 0 {
        return Ok(Bytes::new());
    }
    let mut composer = CrcComposer::new(polynomial_of(kind)?, cell);
    for number in 0..length.div_ceil(cell) {
        let (stripe, unit) = (number / units.len() as u64, (number % units.len() as u64) as usize);
        let at = usize::try_from(stripe).ok().and_then(|stripe| stripe.checked_mul(CHECKSUM_BYTES));
        let crc = at.and_then(|at| units[unit].get(at..)?.first_chunk());
        let crc = crc.ok_or(DecodeError::CutOff("the checksums of a unit's cells"))?;
        composer.push(u32::from_be_bytes(*crc), cell.min(length - number * cell));
    }
    Ok(Bytes::copy_from_slice(&composer.take().to_be_bytes()))
}

/// Makes the CRC of data from those of its parts.
///
/// The CRC of two parts is that of the first one, driven on by as many zero bytes as the second one has, plus that of the second
/// one. Driving on is linear, so for the usual length it is a matrix of 32 columns.
#[derive(Debug)]
struct CrcComposer {
    polynomial: u32,
    crc: u32,
    usual: u64,
    columns: [u32; 32],
}

impl CrcComposer {
    fn new(polynomial: u32, usual: u64) -> Self {
        let mut columns = [drive(polynomial, 1 << 31, usual); 32];
        // The bit below stands for x times as much.
        for bit in (0..31).rev() {
            columns[bit] = times_x(polynomial, columns[bit + 1]);
        }
        Self { polynomial, crc: 0, usual, columns }
    }

    fn push(&mut self, crc: u32, length: u64) {
        let driven = if length == self.usual {
            let set = (0..32).filter(|bit| self.crc >> bit & 1 == 1);
            set.fold(0, |sum, bit| sum ^ self.columns[bit])
        } else {
            drive(self.polynomial, self.crc, length)
        };
        self.crc = driven ^ crc;
    }

    fn take(&mut self) -> u32 {
        std::mem::take(&mut self.crc)
    }
}

/// The polynomial of a kind of checksums.
fn polynomial_of(kind: ChecksumKind) -> Result<u32, DecodeError> {
    let (what, found) = ("the checksum type of a composite CRC", kind as i64);
    kind.polynomial().ok_or(DecodeError::Unexpected { what, found, expected: "1 (CRC32) or 2 (CRC32C)" })
}

/// A polynomial times x, modulo another one. The high bit is that of x to the power of 0.
fn times_x(modulo: u32, polynomial: u32) -> u32 {
    let carry = if polynomial & 1 == 1 { modulo } else { 0 };
    polynomial >> 1 ^ carry
}

/// The product of two polynomials, modulo another one.
fn times(modulo: u32, mut a: u32, b: u32) -> u32 {
    let mut product = 0;
    for bit in (0..32).rev() {
        product ^= if b >> bit & 1 == 1 { a } else { 0 };
        a = times_x(modulo, a);
    }
    product
}

/// A CRC, driven on by so many zero bytes: times x to the power of eight times as many.
fn drive(modulo: u32, mut crc: u32, bytes: u64) -> u32 {
    // x to the power of 8, squared for each bit of the number of bytes.
    let (mut power, mut left) = (1 << 23, bytes);
    while left > 0 {
        if left & 1 == 1 {
            crc = times(modulo, crc, power);
        }
        power = times(modulo, power, power);
        left >>= 1;
    }
    crc
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn digest(kind: DigestKind, chunking: Chunking, data: &[u8], cut: usize) -> Bytes {
        let mut checksums = Vec::new();
        chunking.compute(data, &mut checksums);
        let mut digest = BlockDigest::new(kind, chunking, data.len() as u64).unwrap();
        let cut = (cut * CHECKSUM_BYTES).min(checksums.len());
        digest.push(&checksums[..cut]);
        digest.push(&checksums[cut..]);
        digest.finish()
    }

    fn crc_of(kind: i32) -> fn(&[u8]) -> u32 {
        if kind == 1 { crc32fast::hash } else { crc32c::crc32c }
    }

    fn data(length: usize) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(length as u64);
        std::iter::repeat_with(|| random.u8(..)).take(length).collect()
    }

    proptest! {
        #[test]
        fn a_composite_crc_is_that_of_the_data_whole_and_for_each_stripe(
            length in 1usize..9000, chunk in 1u32..600, stripe in 1u64..20, cut in 0usize..30, kind in 1i32..3,
        ) {
            let (chunking, data) = (Chunking::new(kind, chunk).unwrap(), data(length));
            let crc = crc_of(kind);
            let whole = digest(DigestKind::Composite { stripe: None }, chunking, &data, cut);
            prop_assert_eq!(&whole[..], crc(&data).to_be_bytes());
            let stripe = stripe * u64::from(chunk);
            let kind = DigestKind::Composite { stripe: Some(stripe) };
            let expected: Vec<u8> =
                data.chunks(stripe as usize).flat_map(|part| crc(part).to_be_bytes()).collect();
            let found = digest(kind, chunking, &data, cut);
            prop_assert_eq!(found.len() as u64, kind.bytes(length as u64));
            prop_assert_eq!(&found[..], &expected[..]);
        }

        #[test]
        fn the_composite_crc_of_a_group_is_that_of_its_data(
            length in 0usize..5000, cells in 1u64..10, units in 1usize..7, number in 1i32..3,
        ) {
            let (chunking, cell, data) = (Chunking::new(number, 50).unwrap(), cells * 50, data(length));
            let mut parts = vec![Vec::new(); units];
            for (number, part) in data.chunks(cell as usize).enumerate() {
                parts[number % units].extend_from_slice(part);
            }
            let kind = DigestKind::Composite { stripe: Some(cell) };
            let crcs: Vec<Bytes> = parts.iter().map(|part| digest(kind, chunking, part, 3)).collect();
            let found = composite_of_group(chunking.kind(), &crcs, cell, length as u64).unwrap();
            let expected = crc_of(number)(&data).to_be_bytes();
            prop_assert_eq!(&found[..], if length == 0 { &[][..] } else { &expected[..] });
            // One CRC less is told, not made up.
            let last = (length.max(1) - 1) / cell as usize % units;
            let mut less = crcs.clone();
            less[last] = less[last].slice(..less[last].len().saturating_sub(4));
            prop_assert_eq!(length > 0, composite_of_group(chunking.kind(), &less, cell, length as u64).is_err());
        }
    }

    #[test]
    fn each_column_is_its_bit_driven_on() {
        let polynomial = ChecksumKind::Crc32c.polynomial().unwrap();
        for usual in [1, 2, 511, 512, 513, 1 << 20, 128 << 20] {
            let composer = CrcComposer::new(polynomial, usual);
            let driven = |bit| crc32c::crc32c_combine(1_u32 << bit, 0, usual as usize);
            assert_eq!(composer.columns, std::array::from_fn(driven), "{usual}");
        }
    }

    #[test]
    fn the_md5_of_a_group_counts_the_zeros_of_hdfs_s_buffer() {
        let unit = |number: u8| Bytes::from(vec![number; MD5_BYTES]);
        for (units, bytes) in [(1, 32), (2, 32), (3, 64), (6, 128), (10, 256)] {
            let units: Vec<Bytes> = (1..=units).map(unit).collect();
            let mut padded = units.concat();
            padded.resize(bytes, 0);
            assert_eq!(md5_of_group(&units)[..], Md5::digest(&padded)[..], "{bytes}");
        }
    }

    #[test]
    fn the_md5_is_that_of_the_checksums() {
        let (chunking, data) = (Chunking::default(), data(1300));
        let mut checksums = Vec::new();
        chunking.compute(&data, &mut checksums);
        assert_eq!(digest(DigestKind::Md5, chunking, &data, 1)[..], Md5::digest(&checksums)[..]);
        // As RFC 1321 has it: that the digest is MD5 at all.
        assert_eq!(Md5::digest(b"abc")[..4], [0x90, 0x01, 0x50, 0x98]);
    }

    #[test]
    fn data_without_checksums_has_the_md5_of_nothing_and_no_composite_crc() {
        let (chunking, data) = (Chunking::new(0, 512).unwrap(), data(1300));
        assert_eq!(digest(DigestKind::Md5, chunking, &data, 1)[..], Md5::digest([])[..]);
        let whole = DigestKind::Composite { stripe: None };
        let refused = BlockDigest::new(whole, chunking, 1300).unwrap_err().to_string();
        assert!(refused.contains("CRC32"), "{refused}");
        assert!(composite_of_group(ChecksumKind::Null, &[], 512, 1300).is_err());
    }

    #[test]
    fn senseless_stripes_and_other_kinds_are_refused() {
        let new = |stripe, length| {
            BlockDigest::new(DigestKind::Composite { stripe: Some(stripe) }, Chunking::default(), length)
        };
        assert!(new(1000, 2000).is_err(), "within a chunk");
        assert!(new(1000, 900).is_ok(), "it is one stripe");
        assert!(new(512, u64::MAX).is_err(), "too many");
        assert!(
            DigestKind::from_message(Some(&ChecksumOptions { kind: Some(3), stripe_length: None })).is_err()
        );
        for kind in [
            DigestKind::Md5,
            DigestKind::Composite { stripe: None },
            DigestKind::Composite { stripe: Some(9) },
        ] {
            assert_eq!(DigestKind::from_message(Some(&kind.to_message())).unwrap(), kind);
        }
    }
}
