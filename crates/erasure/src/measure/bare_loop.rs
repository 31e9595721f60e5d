//! What the memory gives: a loop that reads and writes as much as a code does, and computes nothing.

/// Reads every input and writes every output past the caches, with the widest vectors of this processor. One exclusive or for
/// each vector that is read keeps the reads from being left out.
///
/// # Panics
/// The lengths of the streams differ, or are no multiple of 128; an output is not aligned to 64 bytes.
pub fn read_and_write(inputs: &[&[u8]], outputs: &mut [&mut [u8]]) {
    let len = inputs[0].len();
    assert!(
        len.is_multiple_of(64) && inputs.iter().all(|input| input.len() == len),
        "streams of whole vectors"
    );
    for output in &*outputs {
        assert_eq!(output.len(), len, "all streams are of one length");
        assert!(output.as_ptr().addr().is_multiple_of(64), "stores past the caches are aligned");
    }
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has AVX-512F; lengths and alignment were checked.
            return unsafe { x86::run_avx512(inputs, outputs) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2; lengths and alignment were checked.
            return unsafe { x86::run_avx2(inputs, outputs) };
        }
    }
    for at in 0..len {
        let sum = inputs.iter().fold(0, |sum, input| sum ^ input[at]);
        for output in &mut *outputs {
            output[at] = sum;
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// # Safety
    /// The processor has AVX-512F; all streams have the same whole number of vectors, and outputs are aligned.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn run_avx512(inputs: &[&[u8]], outputs: &mut [&mut [u8]]) {
        // Two vectors of each stream at a time, as the kernels do.
        for at in (0..inputs[0].len()).step_by(128) {
            let mut sums = [_mm512_setzero_si512(); 2];
            for input in inputs {
                for (sum, at) in sums.iter_mut().zip([at, at + 64]) {
                    // SAFETY: each input has two whole vectors from `at` on.
                    let read = unsafe { _mm512_loadu_si512(input.as_ptr().add(at).cast()) };
                    *sum = _mm512_xor_si512(*sum, read);
                }
            }
            for output in &mut *outputs {
                for (sum, at) in sums.into_iter().zip([at, at + 64]) {
                    // SAFETY: each output has two whole aligned vectors from `at` on.
                    unsafe { _mm512_stream_si512(output.as_mut_ptr().add(at).cast(), sum) };
                }
            }
        }
        _mm_sfence();
    }

    /// # Safety
    /// The processor has AVX2; all streams have the same whole number of vectors, and outputs are aligned.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn run_avx2(inputs: &[&[u8]], outputs: &mut [&mut [u8]]) {
        for at in (0..inputs[0].len()).step_by(32) {
            let mut sum = _mm256_setzero_si256();
            for input in inputs {
                // SAFETY: each input has a whole vector from `at` on.
                sum = _mm256_xor_si256(sum, unsafe { _mm256_loadu_si256(input.as_ptr().add(at).cast()) });
            }
            for output in &mut *outputs {
                // SAFETY: each output has a whole aligned vector from `at` on.
                unsafe { _mm256_stream_si256(output.as_mut_ptr().add(at).cast(), sum) };
            }
        }
        _mm_sfence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_input_is_read_and_every_output_written() {
        let inputs: Vec<Vec<u8>> =
            (1..4u8).map(|unit| (0..128u8).map(|at| at.wrapping_mul(unit)).collect()).collect();
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        let mut storage = [0u8; 128 + 64];
        let aligned = storage.as_ptr().align_offset(64);
        read_and_write(&inputs, &mut [&mut storage[aligned..][..128]]);
        let sums: Vec<u8> = (0..128).map(|at| inputs[0][at] ^ inputs[1][at] ^ inputs[2][at]).collect();
        assert_eq!(storage[aligned..][..128], sums);
    }
}
