//! The kernel that every machine runs, and that all others are compared with.

use super::program::{NibbleTables, Pass};

/// Bytes of a row that are summed up before the next row: they stay in the first cache.
const BLOCK: usize = 4096;

/// Computes the rows of a pass for the bytes from `from` on.
pub(super) fn run(pass: &Pass, inputs: &[&[u8]], outputs: &mut [&mut [u8]], from: usize) {
    let len = outputs[0].len();
    for begin in (from..len).step_by(BLOCK) {
        let block = begin..len.min(begin + BLOCK);
        for (row, output) in outputs.iter_mut().enumerate() {
            let output = &mut output[block.clone()];
            output.fill(0);
            for (column, input) in inputs.iter().enumerate() {
                add_product(&pass.nibbles[column * pass.rows + row], &input[block.clone()], output);
            }
        }
    }
}

fn add_product([low, high]: &NibbleTables, input: &[u8], output: &mut [u8]) {
    for (sum, value) in output.iter_mut().zip(input) {
        *sum ^= low[usize::from(value & 15)] ^ high[usize::from(value >> 4)];
    }
}
