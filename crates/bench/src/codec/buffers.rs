//! The units that a case computes from and those that it computes.

use yeoul_base::SplitMix;

/// What units are aligned to: a cache line, and the widest vector.
const ALIGNMENT: usize = 64;

/// Random inputs and room for outputs, all aligned and of one length.
pub(super) struct Buffers {
    inputs: Vec<Unit>,
    outputs: Vec<Unit>,
}

struct Unit {
    storage: Vec<u8>,
    begin: usize,
    len: usize,
}

impl Unit {
    fn new(len: usize) -> Self {
        let storage = vec![0; len + ALIGNMENT];
        let begin = storage.as_ptr().align_offset(ALIGNMENT);
        Self { storage, begin, len }
    }

    fn bytes(&self) -> &[u8] {
        &self.storage[self.begin..][..self.len]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.storage[self.begin..][..self.len]
    }
}

impl Buffers {
    /// So many inputs and outputs of `len` bytes, a multiple of 8.
    pub fn new(inputs: usize, outputs: usize, len: usize) -> Self {
        let mut numbers = SplitMix::new(len as u64);
        let mut random = || {
            let mut unit = Unit::new(len);
            for word in unit.bytes_mut().chunks_exact_mut(8) {
                word.copy_from_slice(&numbers.next_u64().to_le_bytes());
            }
            unit
        };
        Self {
            inputs: (0..inputs).map(|_| random()).collect(),
            outputs: (0..outputs).map(|_| Unit::new(len)).collect(),
        }
    }

    /// Bytes of all inputs.
    pub fn input_bytes(&self) -> usize {
        self.inputs.iter().map(|unit| unit.len).sum()
    }

    /// Calls `work` with the inputs and the outputs.
    pub fn with(&mut self, work: impl FnOnce(&[&[u8]], &mut [&mut [u8]])) {
        let inputs: Vec<&[u8]> = self.inputs.iter().map(Unit::bytes).collect();
        let mut outputs: Vec<&mut [u8]> = self.outputs.iter_mut().map(Unit::bytes_mut).collect();
        work(&inputs, &mut outputs);
    }

    /// The outputs after `work`, which had to fill them: they were something else before.
    pub fn filled_by(&mut self, work: impl FnOnce(&[&[u8]], &mut [&mut [u8]])) -> Vec<Vec<u8>> {
        for unit in &mut self.outputs {
            unit.bytes_mut().fill(0xee);
        }
        self.with(work);
        self.outputs.iter().map(|unit| unit.bytes().to_vec()).collect()
    }
}
