//! The bytes that a kernel reads and writes, as pointers.

use std::marker::PhantomData;

use crate::schema::UNITS_MAX;

/// Bytes of all streams together from which the outputs go past the caches: they would push out the inputs that are still
/// to be read, and be pushed out themselves before anybody reads them. It is the last cache of a small machine.
const PAST_CACHES_MIN: usize = 16 << 20;

/// What an output past the caches is aligned to: the widest vector.
const ALIGNMENT: usize = 64;

/// Inputs and outputs of the same length.
pub(super) struct Streams<'a> {
    inputs: [*const u8; UNITS_MAX],
    inputs_count: usize,
    outputs: [*mut u8; UNITS_MAX],
    outputs_count: usize,
    /// Bytes of each stream.
    pub len: usize,
    /// Whether outputs are stored past the caches; they are aligned then.
    pub past_caches: bool,
    borrowed: PhantomData<(&'a [u8], &'a mut [u8])>,
}

impl<'a> Streams<'a> {
    /// The streams of one pass.
    pub fn new(inputs: &'a [&[u8]], outputs: &'a mut [&mut [u8]]) -> Self {
        let len = outputs[0].len();
        let mut streams = Self {
            inputs: [std::ptr::null(); UNITS_MAX],
            inputs_count: inputs.len(),
            outputs: [std::ptr::null_mut(); UNITS_MAX],
            outputs_count: outputs.len(),
            len,
            past_caches: len.saturating_mul(inputs.len() + outputs.len()) >= PAST_CACHES_MIN,
            borrowed: PhantomData,
        };
        for (pointer, input) in streams.inputs.iter_mut().zip(inputs) {
            assert_eq!(input.len(), len, "all streams are of one length");
            *pointer = input.as_ptr();
        }
        for (pointer, output) in streams.outputs.iter_mut().zip(outputs) {
            assert_eq!(output.len(), len, "all streams are of one length");
            *pointer = output.as_mut_ptr();
            streams.past_caches &= pointer.addr().is_multiple_of(ALIGNMENT);
        }
        streams
    }

    /// The first byte of each input.
    #[inline(always)]
    pub fn inputs(&self) -> impl Iterator<Item = *const u8> {
        self.inputs[..self.inputs_count].iter().copied()
    }

    /// The first byte of each output.
    #[inline(always)]
    pub fn outputs(&self) -> impl Iterator<Item = *mut u8> {
        self.outputs[..self.outputs_count].iter().copied()
    }
}
