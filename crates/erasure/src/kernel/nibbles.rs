//! Kernels that look products up in tables of 16 bytes, half a byte at a time: SSSE3 and AVX2.

use std::arch::x86_64::*;

use super::program::{NibbleTables, Pass};
use super::streams::Streams;

/// A vector of bytes.
///
/// # Safety
/// The methods need the processor's feature that the implementation names.
unsafe trait Vector: Copy {
    /// Bytes of a vector.
    const BYTES: usize;
    unsafe fn zero() -> Self;
    /// Loads [`Self::BYTES`] from any address.
    unsafe fn load(from: *const u8) -> Self;
    /// Stores to any address.
    unsafe fn store(self, to: *mut u8);
    /// Stores past the caches to an address that is a multiple of [`Self::BYTES`].
    unsafe fn stream(self, to: *mut u8);
    /// A table of 16 bytes in each lane.
    unsafe fn table(table: &[u8; 16]) -> Self;
    /// The low and the high nibble of each byte.
    unsafe fn nibbles(self) -> [Self; 2];
    /// The entries of a table at the places that `self` names.
    unsafe fn look_up(self, table: Self) -> Self;
    unsafe fn xor(self, other: Self) -> Self;
}

// SAFETY: each method needs SSSE3 and nothing else.
unsafe impl Vector for __m128i {
    const BYTES: usize = 16;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller has SSSE3.
        unsafe { _mm_setzero_si128() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller has SSSE3, and 16 bytes to read.
        unsafe { _mm_loadu_si128(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller has SSSE3, and 16 bytes to write.
        unsafe { _mm_storeu_si128(to.cast(), self) }
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: the caller has SSSE3, and 16 aligned bytes to write.
        unsafe { _mm_stream_si128(to.cast(), self) }
    }

    #[inline(always)]
    unsafe fn table(table: &[u8; 16]) -> Self {
        // SAFETY: the caller has SSSE3; the table has 16 bytes.
        unsafe { _mm_loadu_si128(table.as_ptr().cast()) }
    }

    #[inline(always)]
    unsafe fn nibbles(self) -> [Self; 2] {
        // SAFETY: the caller has SSSE3.
        unsafe {
            let mask = _mm_set1_epi8(15);
            [_mm_and_si128(self, mask), _mm_and_si128(_mm_srli_epi64(self, 4), mask)]
        }
    }

    #[inline(always)]
    unsafe fn look_up(self, table: Self) -> Self {
        // SAFETY: the caller has SSSE3.
        unsafe { _mm_shuffle_epi8(table, self) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: the caller has SSSE3.
        unsafe { _mm_xor_si128(self, other) }
    }
}

// SAFETY: each method needs AVX2 and nothing else.
unsafe impl Vector for __m256i {
    const BYTES: usize = 32;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller has AVX2.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller has AVX2, and 32 bytes to read.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller has AVX2, and 32 bytes to write.
        unsafe { _mm256_storeu_si256(to.cast(), self) }
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: the caller has AVX2, and 32 aligned bytes to write.
        unsafe { _mm256_stream_si256(to.cast(), self) }
    }

    #[inline(always)]
    unsafe fn table(table: &[u8; 16]) -> Self {
        // SAFETY: the caller has AVX2; the table has 16 bytes.
        unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast())) }
    }

    #[inline(always)]
    unsafe fn nibbles(self) -> [Self; 2] {
        // SAFETY: the caller has AVX2.
        unsafe {
            let mask = _mm256_set1_epi8(15);
            [_mm256_and_si256(self, mask), _mm256_and_si256(_mm256_srli_epi64(self, 4), mask)]
        }
    }

    #[inline(always)]
    unsafe fn look_up(self, table: Self) -> Self {
        // SAFETY: the caller has AVX2.
        unsafe { _mm256_shuffle_epi8(table, self) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: the caller has AVX2.
        unsafe { _mm256_xor_si256(self, other) }
    }
}

/// Computes as many bytes as whole vectors hold, and gives their number.
///
/// # Safety
/// The processor has SSSE3, and `streams` has the inputs of the pass and one output for each of its rows.
#[target_feature(enable = "ssse3")]
pub(super) unsafe fn run_ssse3(pass: &Pass, streams: &Streams<'_>) -> usize {
    // SAFETY: as the caller promises.
    unsafe { run::<__m128i>(pass, streams) }
}

/// Computes as many bytes as whole vectors hold, and gives their number.
///
/// # Safety
/// The processor has AVX2, and `streams` has the inputs of the pass and one output for each of its rows.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn run_avx2(pass: &Pass, streams: &Streams<'_>) -> usize {
    // SAFETY: as the caller promises.
    unsafe { run::<__m256i>(pass, streams) }
}

#[inline(always)]
unsafe fn run<V: Vector>(pass: &Pass, streams: &Streams<'_>) -> usize {
    // SAFETY: as the caller promises.
    unsafe {
        match (pass.rows, streams.past_caches) {
            (1, false) => rows::<V, 1, false>(&pass.nibbles, streams),
            (2, false) => rows::<V, 2, false>(&pass.nibbles, streams),
            (3, false) => rows::<V, 3, false>(&pass.nibbles, streams),
            (4, false) => rows::<V, 4, false>(&pass.nibbles, streams),
            (1, true) => rows::<V, 1, true>(&pass.nibbles, streams),
            (2, true) => rows::<V, 2, true>(&pass.nibbles, streams),
            (3, true) => rows::<V, 3, true>(&pass.nibbles, streams),
            (4, true) => rows::<V, 4, true>(&pass.nibbles, streams),
            (rows, _) => unreachable!("a pass has at most 4 rows, not {rows}"),
        }
    }
}

#[inline(always)]
unsafe fn rows<V: Vector, const ROWS: usize, const PAST_CACHES: bool>(
    tables: &[NibbleTables],
    streams: &Streams<'_>,
) -> usize {
    let whole = streams.len - streams.len % V::BYTES;
    let mut at = 0;
    while at < whole {
        // SAFETY: each input and output has `len` bytes, and `at + V::BYTES` is at most that; the caller has the feature.
        unsafe {
            let mut sums = [V::zero(); ROWS];
            for (input, tables) in streams.inputs().zip(tables.chunks_exact(ROWS)) {
                let [low, high] = V::load(input.add(at)).nibbles();
                for (sum, [of_low, of_high]) in sums.iter_mut().zip(tables) {
                    let product = low.look_up(V::table(of_low)).xor(high.look_up(V::table(of_high)));
                    *sum = sum.xor(product);
                }
            }
            for (sum, output) in sums.into_iter().zip(streams.outputs()) {
                if PAST_CACHES { sum.stream(output.add(at)) } else { sum.store(output.add(at)) }
            }
        }
        at += V::BYTES;
    }
    if PAST_CACHES {
        // SAFETY: SSSE3 and AVX2 include SSE.
        unsafe { _mm_sfence() };
    }
    whole
}
