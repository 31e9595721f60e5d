//! The kernel that multiplies by matrices of bits: AVX-512 with GFNI.

use std::arch::x86_64::*;

use super::program::Pass;
use super::streams::Streams;

/// Bytes of a vector.
const BYTES: usize = 64;

/// Vectors of each stream that are worked on together, so that one load of a coefficient serves both.
const TOGETHER: usize = 2;

/// Computes as many bytes as whole vectors hold, and gives their number.
///
/// # Safety
/// The processor has AVX-512F and GFNI, and `streams` has the inputs of the pass and one output for each of its rows.
#[target_feature(enable = "avx512f,gfni")]
pub(super) unsafe fn run(pass: &Pass, streams: &Streams<'_>) -> usize {
    // SAFETY: as the caller promises.
    unsafe {
        match (pass.rows, streams.past_caches) {
            (1, false) => rows::<1, false>(&pass.bits, streams),
            (2, false) => rows::<2, false>(&pass.bits, streams),
            (3, false) => rows::<3, false>(&pass.bits, streams),
            (4, false) => rows::<4, false>(&pass.bits, streams),
            (1, true) => rows::<1, true>(&pass.bits, streams),
            (2, true) => rows::<2, true>(&pass.bits, streams),
            (3, true) => rows::<3, true>(&pass.bits, streams),
            (4, true) => rows::<4, true>(&pass.bits, streams),
            (rows, _) => unreachable!("a pass has at most 4 rows, not {rows}"),
        }
    }
}

#[target_feature(enable = "avx512f,gfni")]
unsafe fn rows<const ROWS: usize, const PAST_CACHES: bool>(bits: &[u64], streams: &Streams<'_>) -> usize {
    let whole = streams.len - streams.len % BYTES;
    let mut at = 0;
    // SAFETY: each input and output has `len` bytes, and a step ends at most at `whole`.
    unsafe {
        while at + TOGETHER * BYTES <= whole {
            step::<ROWS, TOGETHER, PAST_CACHES>(bits, streams, at);
            at += TOGETHER * BYTES;
        }
        if at < whole {
            step::<ROWS, 1, PAST_CACHES>(bits, streams, at);
        }
    }
    if PAST_CACHES {
        _mm_sfence();
    }
    whole
}

/// Computes `VECTORS` vectors of each row from `at` on.
#[inline]
#[target_feature(enable = "avx512f,gfni")]
unsafe fn step<const ROWS: usize, const VECTORS: usize, const PAST_CACHES: bool>(
    bits: &[u64],
    streams: &Streams<'_>,
    at: usize,
) {
    let mut sums = [[_mm512_setzero_si512(); VECTORS]; ROWS];
    for (input, bits) in streams.inputs().zip(bits.chunks_exact(ROWS)) {
        // SAFETY: the caller has `VECTORS` vectors from `at` on.
        let values: [__m512i; VECTORS] = std::array::from_fn(|vector| unsafe {
            _mm512_loadu_si512(input.add(at + vector * BYTES).cast())
        });
        for (sums, bits) in sums.iter_mut().zip(bits) {
            let matrix = _mm512_set1_epi64(*bits as i64);
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum = _mm512_xor_si512(*sum, _mm512_gf2p8affine_epi64_epi8::<0>(value, matrix));
            }
        }
    }
    for (sums, output) in sums.into_iter().zip(streams.outputs()) {
        for (vector, sum) in sums.into_iter().enumerate() {
            // SAFETY: the caller has `VECTORS` vectors from `at` on; `PAST_CACHES` is for aligned outputs.
            unsafe {
                let to = output.add(at + vector * BYTES);
                if PAST_CACHES {
                    _mm512_stream_si512(to.cast(), sum)
                } else {
                    _mm512_storeu_si512(to.cast(), sum)
                }
            }
        }
    }
}
