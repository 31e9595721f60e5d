//! Codes and their numbers of units, and the matrix that each of them encodes by.

use std::fmt;
use std::str::FromStr;

use crate::error::CodeError;
use crate::field::{invert, multiply, power_of_generator};
use crate::matrix::Matrix;

/// The most units of a stripe, data and parity together.
pub const UNITS_MAX: usize = 16;

/// An erasure code, by Hadoop's name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// `rs`: Reed-Solomon with ISA-L's Cauchy matrix. The coefficient of data unit `j` in parity unit `r` is
    /// `1 / ((k + r) xor j)`.
    Rs,
    /// `rs-legacy`: Reed-Solomon with the generator polynomial `(x + 1)(x + 2)(x + 4)…` of degree `m`. A stripe is a code word:
    /// its parity units are the coefficients of degree 0 to `m - 1`, its data units those from `m` on.
    RsLegacy,
    /// `xor`: one parity unit, the sum of the data units.
    Xor,
}

impl Code {
    /// Hadoop's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rs => "rs",
            Self::RsLegacy => "rs-legacy",
            Self::Xor => "xor",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Code {
    type Err = CodeError;

    fn from_str(name: &str) -> Result<Self, CodeError> {
        [Self::Rs, Self::RsLegacy, Self::Xor]
            .into_iter()
            .find(|code| code.name() == name)
            .ok_or_else(|| CodeError::UnknownCode { name: name.to_owned() })
    }
}

/// A code with its numbers of data and parity units, such as RS-6-3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Schema {
    code: Code,
    data_units: u8,
    parity_units: u8,
}

impl Schema {
    /// A schema of `data_units` and `parity_units`.
    ///
    /// # Errors
    /// `Invalid`: none of one kind, more than [`UNITS_MAX`] together, or more than one parity unit with [`Code::Xor`].
    pub fn new(code: Code, data_units: usize, parity_units: usize) -> Result<Self, CodeError> {
        let is_possible = data_units > 0
            && parity_units > 0
            && data_units.saturating_add(parity_units) <= UNITS_MAX
            && (code != Code::Xor || parity_units == 1);
        if !is_possible {
            return Err(CodeError::Schema { code: code.name(), data: data_units, parity: parity_units });
        }
        Ok(Self { code, data_units: data_units as u8, parity_units: parity_units as u8 })
    }

    /// The code.
    pub fn code(self) -> Code {
        self.code
    }

    /// Data units of a stripe, `k`.
    pub fn data_units(self) -> usize {
        self.data_units.into()
    }

    /// Parity units of a stripe, `m`: as many units may be lost.
    pub fn parity_units(self) -> usize {
        self.parity_units.into()
    }

    /// All units of a stripe, `k + m`.
    pub fn units(self) -> usize {
        self.data_units() + self.parity_units()
    }

    /// The matrix that gives the parity units from the data units: `m` rows of `k` coefficients.
    pub(crate) fn parity_matrix(self) -> Matrix {
        let (data, parity) = (self.data_units(), self.parity_units());
        match self.code {
            Code::Rs => {
                Matrix::from_fn(parity, data, |row, column| invert((data + row) as u8 ^ column as u8))
            }
            Code::RsLegacy => {
                let remainders = remainders(data, parity);
                Matrix::from_fn(parity, data, |row, column| remainders[column][row])
            }
            Code::Xor => Matrix::from_fn(parity, data, |_, _| 1),
        }
    }

    /// The matrix that gives all units from the data units: the identity, then the parity matrix.
    pub(crate) fn full_matrix(self) -> Matrix {
        let (data, parity) = (self.data_units(), self.parity_matrix());
        Matrix::from_fn(self.units(), data, |row, column| match row.checked_sub(data) {
            None => u8::from(row == column),
            Some(row) => parity.at(row, column),
        })
    }
}

impl fmt::Display for Schema {
    /// As Hadoop names a policy without its cell: `RS-6-3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.code.name().to_uppercase(), self.data_units, self.parity_units)
    }
}

/// `x^(m + j)` modulo the generator polynomial for each data unit `j`, as coefficients from degree 0 on.
fn remainders(data: usize, parity: usize) -> Vec<Vec<u8>> {
    // Coefficients from degree 0 on, without the leading 1.
    let mut generator = vec![];
    for root in (0..parity).map(power_of_generator) {
        let mut product = vec![0; generator.len() + 1];
        for (degree, coefficient) in generator.iter().chain(&[1]).enumerate() {
            product[degree] ^= multiply(*coefficient, root);
            if let Some(higher) = product.get_mut(degree + 1) {
                *higher ^= coefficient;
            }
        }
        generator = product;
    }
    // x^m is the generator without its leading term, and each next power is x times the one before.
    let mut remainder = generator.clone();
    let mut all = Vec::with_capacity(data);
    for _ in 0..data {
        all.push(remainder.clone());
        let leading = remainder[parity - 1];
        remainder.rotate_right(1);
        remainder[0] = 0;
        for (coefficient, of_generator) in remainder.iter_mut().zip(&generator) {
            *coefficient ^= multiply(leading, *of_generator);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(code: Code, data: usize, parity: usize) -> Vec<Vec<u8>> {
        let matrix = Schema::new(code, data, parity).unwrap().parity_matrix();
        (0..parity).map(|row| matrix.row(row).to_vec()).collect()
    }

    #[test]
    fn coefficients_are_those_of_isa_l() {
        assert_eq!(
            rows(Code::Rs, 6, 3),
            [
                [0x7a, 0xba, 0x47, 0xa7, 0x8e, 0xf4],
                [0xba, 0x7a, 0xa7, 0x47, 0xf4, 0x8e],
                [0xad, 0x9d, 0xdd, 0x98, 0x3d, 0xaa],
            ]
        );
        assert_eq!(rows(Code::Rs, 3, 2), [[0xf4, 0x8e, 0x01], [0x47, 0xa7, 0x7a]]);
        assert_eq!(rows(Code::Rs, 10, 4)[0], [0xdd, 0x98, 0xad, 0x9d, 0x5d, 0x96, 0x3d, 0xaa, 0x8e, 0xf4]);
    }

    #[test]
    fn the_first_remainder_is_the_generator() {
        let legacy = rows(Code::RsLegacy, 6, 3);
        assert_eq!(legacy.iter().map(|row| row[0]).collect::<Vec<_>>(), [0x08, 0x0e, 0x07]);
    }

    #[test]
    fn any_data_units_many_rows_of_any_schema_have_an_inverse() {
        for code in [Code::Rs, Code::RsLegacy, Code::Xor] {
            for data in 1..UNITS_MAX {
                for parity in 1..=UNITS_MAX - data {
                    let Ok(schema) = Schema::new(code, data, parity) else { continue };
                    let full = schema.full_matrix();
                    let patterns =
                        (0u32..1 << schema.units()).filter(|set| set.count_ones() as usize == data);
                    for set in patterns {
                        let square = full.select((0..schema.units()).filter(|row| set & (1 << row) != 0));
                        assert!(square.inverse().is_some(), "{schema} from {set:b}");
                    }
                }
            }
        }
    }

    #[test]
    fn impossible_numbers_are_refused_by_name() {
        for (code, data, parity) in [
            (Code::Rs, 0, 3),
            (Code::Rs, 6, 0),
            (Code::Rs, 13, 4),
            (Code::Rs, usize::MAX, 1),
            (Code::Xor, 2, 2),
        ] {
            let error = Schema::new(code, data, parity).unwrap_err();
            assert_eq!(error, CodeError::Schema { code: code.name(), data, parity });
        }
        assert_eq!(
            "lrc".parse::<Code>().unwrap_err().to_string(),
            "there is no erasure code 'lrc': expected rs, rs-legacy or xor"
        );
        assert_eq!(Schema::new(Code::RsLegacy, 6, 3).unwrap().to_string(), "RS-LEGACY-6-3");
    }
}
