//! A matrix in the forms in which kernels use its coefficients.

use crate::field::multiply;
use crate::matrix::Matrix;

/// The most rows that a kernel computes in one pass over the inputs: their sums stay in registers.
pub(super) const ROWS_AT_ONCE: usize = 4;

/// The two tables of one coefficient `c`: the products `c * n` of the low nibbles, then the products `c * 16n` of the high ones.
/// The product of `c` and a byte is the sum of one entry of each.
pub(super) type NibbleTables = [[u8; 16]; 2];

/// A matrix, prepared for every kernel.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    columns: usize,
    passes: Vec<Pass>,
}

/// At most [`ROWS_AT_ONCE`] rows of a matrix, with the coefficients of a column side by side.
#[derive(Clone, Debug)]
pub(super) struct Pass {
    /// The number of rows.
    pub rows: usize,
    /// Multiplication by a coefficient as a matrix of 8 by 8 bits, for `gf2p8affineqb`. Its own multiplication knows
    /// another polynomial.
    pub bits: Vec<u64>,
    /// The tables of each coefficient.
    pub nibbles: Vec<NibbleTables>,
}

impl Program {
    pub fn new(matrix: &Matrix) -> Self {
        let rows: Vec<usize> = (0..matrix.rows()).collect();
        let passes = rows.chunks(ROWS_AT_ONCE).map(|rows| Pass::new(matrix, rows)).collect();
        Self { columns: matrix.columns(), passes }
    }

    /// The number of inputs.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The number of outputs.
    pub fn rows(&self) -> usize {
        self.passes.iter().map(|pass| pass.rows).sum()
    }

    pub(super) fn passes(&self) -> &[Pass] {
        &self.passes
    }
}

impl Pass {
    fn new(matrix: &Matrix, rows: &[usize]) -> Self {
        let coefficients: Vec<u8> = (0..matrix.columns())
            .flat_map(|column| rows.iter().map(move |row| matrix.at(*row, column)))
            .collect();
        Self {
            rows: rows.len(),
            bits: coefficients.iter().copied().map(bit_matrix).collect(),
            nibbles: coefficients.iter().copied().map(nibble_tables).collect(),
        }
    }
}

/// The matrix of bits by which `gf2p8affineqb` multiplies with `coefficient`. Byte `7 - i` holds the row of result bit `i`;
/// in a row, bit `j` says that bit `j` of the operand counts.
fn bit_matrix(coefficient: u8) -> u64 {
    let mut rows = [0u8; 8];
    for bit in 0..8 {
        let product = multiply(coefficient, 1 << bit);
        for (at, row) in rows.iter_mut().enumerate() {
            *row |= (product >> at & 1) << bit;
        }
    }
    u64::from_be_bytes(rows)
}

fn nibble_tables(coefficient: u8) -> NibbleTables {
    [1, 16].map(|unit| std::array::from_fn(|nibble| multiply(coefficient, nibble as u8 * unit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_coefficient_multiply() {
        for coefficient in 0..=255 {
            let (bits, tables) = (bit_matrix(coefficient).to_be_bytes(), nibble_tables(coefficient));
            for value in 0..=255u8 {
                let product = multiply(coefficient, value);
                let by_tables = tables[0][usize::from(value & 15)] ^ tables[1][usize::from(value >> 4)];
                let by_bits =
                    (0..8).fold(0, |sum, bit| sum | ((bits[bit] & value).count_ones() as u8 & 1) << bit);
                assert_eq!((by_tables, by_bits), (product, product), "{coefficient} * {value}");
            }
        }
    }

    #[test]
    fn rows_are_split_into_passes() {
        let program = Program::new(&Matrix::from_fn(9, 5, |row, column| (row * 5 + column) as u8));
        assert_eq!(program.passes.iter().map(|pass| pass.rows).collect::<Vec<_>>(), [4, 4, 1]);
        assert_eq!((program.rows(), program.columns()), (9, 5));
        // The third column of the second pass: rows 4 to 7.
        let tables = &program.passes[1].nibbles[2 * 4..][..4];
        assert_eq!(tables.iter().map(|tables| tables[0][1]).collect::<Vec<_>>(), [22, 27, 32, 37]);
    }
}
