//! Goal: whatever a schema promises to survive, it survives, at every length of a striped range, and one loss more is an error.
//! Method: every set of at most `m` lost units of Hadoop's five policies, over random bytes.

#![allow(clippy::unwrap_used)] // what helps a test fails it

use yeoul_base::{ErrorKind, SplitMix};
use yeoul_erasure::{Code, CodeError, Coder, Kernel, Schema, StripeGeometry, UnitIndex, UnitSet};

/// Bytes of a cell: small, no multiple of a vector, and so that every kernel has a rest.
const CELL: u64 = 331;

fn policies() -> Vec<Schema> {
    [(Code::Rs, 6, 3), (Code::Rs, 3, 2), (Code::RsLegacy, 6, 3), (Code::Xor, 2, 1), (Code::Rs, 10, 4)]
        .map(|(code, data, parity)| Schema::new(code, data, parity).unwrap())
        .to_vec()
}

/// Bytes that do not repeat.
fn random_bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut numbers = SplitMix::new(seed);
    std::iter::repeat_with(|| numbers.next_u64().to_le_bytes()).flatten().take(len).collect()
}

/// The units of a range of `len` random bytes, each padded with zeros to the length of the longest.
fn units(coder: &Coder, len: u64) -> Vec<Vec<u8>> {
    let geometry = StripeGeometry::new(coder.schema(), CELL).unwrap();
    let bytes = random_bytes(len, len as usize);
    let padded = geometry.unit_len(len, UnitIndex(0)) as usize;
    let mut data = vec![vec![0; padded]; coder.schema().data_units()];
    let mut at = 0;
    for piece in geometry.pieces(0..len) {
        let piece_len = piece.len as usize;
        data[usize::from(piece.unit.0)][piece.offset as usize..][..piece_len]
            .copy_from_slice(&bytes[at..at + piece_len]);
        at += piece_len;
    }
    let mut parity = vec![vec![0xee; padded]; coder.schema().parity_units()];
    coder.encode(&data, &mut parity);
    [data, parity].concat()
}

/// Every set of at most `most` of the units.
fn sets(schema: Schema, most: usize) -> impl Iterator<Item = UnitSet> {
    (0u32..1 << schema.units()).filter(move |bits| bits.count_ones() as usize <= most).map(move |bits| {
        UnitSet::first(schema.units()).iter().filter(|unit| bits & (1 << unit.0) != 0).collect()
    })
}

#[test]
fn every_loss_within_the_promise_is_rebuilt_at_every_length() {
    let mut patterns = 0;
    for schema in policies() {
        let coder = Coder::new(schema);
        let stripe = CELL * schema.data_units() as u64;
        let lens = [0, 1, CELL - 1, CELL, CELL + 1, stripe - 1, stripe + 1, 3 * stripe + stripe / 2];
        let ranges: Vec<Vec<Vec<u8>>> = lens.iter().map(|len| units(&coder, *len)).collect();
        for lost in sets(schema, schema.parity_units()) {
            let plan = coder.reconstruction(UnitSet::first(schema.units()).without(lost), lost).unwrap();
            assert_eq!(plan.targets(), lost.iter().collect::<Vec<_>>());
            for units in &ranges {
                let sources: Vec<&Vec<u8>> =
                    plan.sources().iter().map(|unit| &units[usize::from(unit.0)]).collect();
                let mut rebuilt = vec![vec![0xee; units[0].len()]; lost.len()];
                plan.run(&sources, &mut rebuilt);
                for (unit, bytes) in lost.iter().zip(&rebuilt) {
                    assert!(bytes == &units[usize::from(unit.0)], "{schema}: unit {unit} of {lost:?}");
                }
            }
            patterns += 1;
        }
    }
    assert_eq!(patterns, 1751);
}

#[test]
fn one_loss_too_many_is_a_loss_of_data() {
    for schema in policies() {
        for lost in sets(schema, schema.parity_units() + 1).filter(|lost| lost.len() > schema.parity_units())
        {
            let available = UnitSet::first(schema.units()).without(lost);
            let error = Coder::new(schema).reconstruction(available, lost).unwrap_err();
            assert_eq!(error, CodeError::TooFewUnits { schema, available, wanted: lost });
            assert_eq!(error.kind(), ErrorKind::DataLoss);
        }
    }
}

#[test]
fn units_that_make_no_sense_are_refused() {
    let schema = policies()[0];
    let coder = Coder::new(schema);
    let all = UnitSet::first(schema.units());
    let strange: UnitSet = [UnitIndex(9)].into_iter().collect();
    let first: UnitSet = [UnitIndex(0)].into_iter().collect();
    for (available, wanted) in [(all, strange), (all, first), (all.union(strange), UnitSet::EMPTY)] {
        assert_eq!(
            coder.reconstruction(available, wanted).unwrap_err(),
            CodeError::Units { schema, available, wanted }
        );
    }
}

#[test]
fn every_kernel_computes_what_the_portable_one_does() {
    let kernels = Kernel::available();
    let portable = *kernels.last().unwrap();
    assert_eq!(portable.name(), "portable");
    // Schemas of one to eight rows in a pass and more, and lengths around every vector; the last one goes past the caches.
    for (data, parity) in [(1, 1), (2, 2), (5, 3), (12, 4), (11, 5), (8, 8)] {
        let schema = Schema::new(Code::Rs, data, parity).unwrap();
        for len in (0..200).chain([4095, 4096, 4097, (16 << 20) / data + 37]) {
            let data: Vec<Vec<u8>> = (0..data).map(|unit| random_bytes(unit as u64, len)).collect();
            let encode = |kernel| {
                let mut parity = vec![vec![0xee; len]; parity];
                Coder::with_kernel(schema, kernel).encode(&data, &mut parity);
                parity
            };
            let expected = encode(portable);
            for kernel in &kernels {
                assert!(encode(*kernel) == expected, "{schema}, {len} bytes by {kernel:?}");
            }
        }
    }
}

#[test]
fn unaligned_units_and_those_past_the_caches_are_right() {
    let schema = policies()[0];
    let len = (16 << 20) / 9 + 64;
    let mut storage = vec![vec![0u8; len + 128]; 9];
    for (unit, bytes) in storage[..6].iter_mut().enumerate() {
        *bytes = random_bytes(unit as u64, len + 128);
    }
    let expected = {
        let data: Vec<&[u8]> = storage[..6].iter().map(|unit| &unit[..len]).collect();
        let mut parity = vec![vec![0; len]; 3];
        Coder::with_kernel(schema, *Kernel::available().last().unwrap()).encode(&data, &mut parity);
        parity
    };
    for kernel in Kernel::available() {
        for shift in [0, 1, 32] {
            let (data, parity) = storage.split_at_mut(6);
            let data: Vec<&[u8]> = data.iter().map(|unit| &unit[..len]).collect();
            let mut outputs: Vec<&mut [u8]> = parity
                .iter_mut()
                .map(|unit| {
                    let aligned = unit.as_ptr().align_offset(64);
                    &mut unit[aligned + shift..][..len]
                })
                .collect();
            Coder::with_kernel(schema, kernel).encode(&data, &mut outputs);
            assert!(
                outputs.iter().zip(&expected).all(|(output, expected)| *output == expected),
                "{kernel:?} at {shift}"
            );
        }
    }
}
