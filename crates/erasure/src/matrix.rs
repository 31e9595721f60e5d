//! Small matrices over GF(2^8): one row for each unit that is computed, one column for each unit that it is computed from.

use crate::field::{invert, multiply};

/// A matrix of coefficients, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Matrix {
    columns: usize,
    coefficients: Vec<u8>,
}

impl Matrix {
    /// The matrix whose coefficients `coefficient(row, column)` gives.
    pub fn from_fn(rows: usize, columns: usize, coefficient: impl Fn(usize, usize) -> u8) -> Self {
        assert!(columns > 0, "a unit is computed from at least one other");
        let coefficients = (0..rows * columns).map(|at| coefficient(at / columns, at % columns)).collect();
        Self { columns, coefficients }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.coefficients.len() / self.columns
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// One coefficient.
    pub fn at(&self, row: usize, column: usize) -> u8 {
        self.row(row)[column]
    }

    /// The coefficients of one row.
    pub fn row(&self, row: usize) -> &[u8] {
        &self.coefficients[row * self.columns..][..self.columns]
    }

    /// The rows with these numbers, in their order.
    pub fn select(&self, rows: impl IntoIterator<Item = usize>) -> Self {
        let coefficients = rows.into_iter().flat_map(|row| self.row(row).iter().copied()).collect();
        Self { columns: self.columns, coefficients }
    }

    /// `self * other`.
    pub fn times(&self, other: &Self) -> Self {
        assert_eq!(self.columns, other.rows(), "the inner sizes of a product are equal");
        Self::from_fn(self.rows(), other.columns, |row, column| {
            (0..self.columns).fold(0, |sum, at| sum ^ multiply(self.at(row, at), other.at(at, column)))
        })
    }

    /// The inverse of a square matrix by Gauss and Jordan, or nothing if it has none.
    pub fn inverse(&self) -> Option<Self> {
        let size = self.columns;
        assert_eq!(self.rows(), size, "only a square matrix is inverted");
        let mut left = self.clone();
        let mut right = Self::from_fn(size, size, |row, column| u8::from(row == column));
        for pivot in 0..size {
            let found = (pivot..size).find(|row| left.at(*row, pivot) != 0)?;
            for matrix in [&mut left, &mut right] {
                matrix.swap_rows(pivot, found);
            }
            let scale = invert(left.at(pivot, pivot));
            for matrix in [&mut left, &mut right] {
                matrix.scale_row(pivot, scale);
            }
            for row in (0..size).filter(|row| *row != pivot) {
                let factor = left.at(row, pivot);
                for matrix in [&mut left, &mut right] {
                    matrix.add_row(row, pivot, factor);
                }
            }
        }
        Some(right)
    }

    fn swap_rows(&mut self, a: usize, b: usize) {
        for column in 0..self.columns {
            self.coefficients.swap(a * self.columns + column, b * self.columns + column);
        }
    }

    fn scale_row(&mut self, row: usize, factor: u8) {
        for coefficient in &mut self.coefficients[row * self.columns..][..self.columns] {
            *coefficient = multiply(*coefficient, factor);
        }
    }

    /// Adds `factor` times the row `from` to the row `to`.
    fn add_row(&mut self, to: usize, from: usize, factor: u8) {
        for column in 0..self.columns {
            let term = multiply(self.at(from, column), factor);
            self.coefficients[to * self.columns + column] ^= term;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_times_its_inverse_is_the_identity() {
        // A Cauchy matrix has an inverse, and a zero in the corner of its square asks for an exchange of rows.
        let cauchy = Matrix::from_fn(5, 5, |row, column| invert((5 + row as u8) ^ column as u8));
        let mut exchanged = cauchy.clone();
        exchanged.coefficients[0] = 0;
        let identity = Matrix::from_fn(5, 5, |row, column| u8::from(row == column));
        for matrix in [cauchy, exchanged] {
            assert_eq!(matrix.times(&matrix.inverse().unwrap()), identity);
        }
    }

    #[test]
    fn equal_rows_have_no_inverse() {
        let matrix = Matrix::from_fn(3, 3, |row, column| [7, 9, 7][row] * (column as u8 + 1));
        assert_eq!(matrix.inverse(), None);
    }
}
