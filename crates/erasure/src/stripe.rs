//! Where the bytes of a striped range lie.

use std::ops::Range;

use crate::error::CodeError;
use crate::schema::Schema;
use crate::units::UnitIndex;

/// The largest cell: 1 GiB. Hadoop's own limit is 4 MiB.
const CELL_SIZE_MAX: u64 = 1 << 30;

/// The layout of a range of bytes over the units of its schema.
///
/// The bytes are dealt out in cells: the first cell to unit 0, the second to unit 1, and so on; after the last data unit comes
/// unit 0 again. The cells of one such round are a stripe, and its parity cells are as long as its first cell. Only the last
/// stripe can be short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StripeGeometry {
    schema: Schema,
    cell_size: u64,
}

/// A part of a range that lies in one unit without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The data unit.
    pub unit: UnitIndex,
    /// First byte within the unit.
    pub offset: u64,
    /// Bytes, at most a cell.
    pub len: u64,
}

impl StripeGeometry {
    /// The layout with cells of `cell_size` bytes.
    ///
    /// # Errors
    /// `Invalid`: the cell is empty or above 1 GiB.
    pub fn new(schema: Schema, cell_size: u64) -> Result<Self, CodeError> {
        if cell_size == 0 || cell_size > CELL_SIZE_MAX {
            return Err(CodeError::CellSize { cell_size });
        }
        Ok(Self { schema, cell_size })
    }

    /// The schema.
    pub fn schema(self) -> Schema {
        self.schema
    }

    /// Bytes of a cell.
    pub fn cell_size(self) -> u64 {
        self.cell_size
    }

    /// Data bytes of a full stripe.
    pub fn stripe_size(self) -> u64 {
        self.cell_size * self.schema.data_units() as u64
    }

    /// Bytes of a unit when the range has `len` bytes.
    ///
    /// # Panics
    /// The schema does not have the unit.
    pub fn unit_len(self, len: u64, unit: UnitIndex) -> u64 {
        let unit = usize::from(unit.0);
        assert!(unit < self.schema.units(), "{} has no unit {unit}", self.schema);
        let (stripes, rest) = (len / self.stripe_size(), len % self.stripe_size());
        // A parity cell is as long as the first cell of its stripe.
        let cell = if unit < self.schema.data_units() { unit as u64 } else { 0 };
        stripes * self.cell_size + rest.saturating_sub(cell * self.cell_size).min(self.cell_size)
    }

    /// Bytes of all units, data and parity, when the range has `len` bytes.
    pub fn space(self, len: u64) -> u64 {
        let first_parity = UnitIndex(self.schema.data_units() as u8);
        len + self.unit_len(len, first_parity) * self.schema.parity_units() as u64
    }

    /// Data units that hold at least a byte, when the range has `len` bytes.
    pub fn data_units_used(self, len: u64) -> usize {
        len.div_ceil(self.cell_size).min(self.schema.data_units() as u64) as usize
    }

    /// The pieces of a range, in its order.
    pub fn pieces(self, range: Range<u64>) -> impl Iterator<Item = Piece> {
        let mut at = range.start;
        std::iter::from_fn(move || {
            let (cell, within) = (at / self.cell_size, at % self.cell_size);
            let len = range.end.checked_sub(at).filter(|left| *left > 0)?.min(self.cell_size - within);
            let data_units = self.schema.data_units() as u64;
            let (stripe, unit) = (cell / data_units, UnitIndex((cell % data_units) as u8));
            at += len;
            Some(Piece { unit, offset: stripe * self.cell_size + within, len })
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::schema::Code;

    const CELL: u64 = 1 << 20;

    fn rs_6_3() -> StripeGeometry {
        StripeGeometry::new(Schema::new(Code::Rs, 6, 3).unwrap(), CELL).unwrap()
    }

    fn lens(len: u64) -> Vec<u64> {
        (0..9).map(|unit| rs_6_3().unit_len(len, UnitIndex(unit))).collect()
    }

    #[test]
    fn units_are_as_long_as_hadoop_makes_them() {
        assert_eq!(lens(0), [0; 9]);
        assert_eq!(lens(1), [1, 0, 0, 0, 0, 0, 1, 1, 1]);
        assert_eq!(lens(CELL + 1), [CELL, 1, 0, 0, 0, 0, CELL, CELL, CELL]);
        assert_eq!(lens(6 * CELL), [CELL; 9]);
        let len = 3 * 6 * CELL + 2 * CELL + 7;
        let (full, three) = (4 * CELL, 3 * CELL);
        assert_eq!(lens(len), [full, full, three + 7, three, three, three, full, full, full]);
    }

    #[test]
    fn a_range_is_cut_at_cells() {
        let piece = |unit, offset, len| Piece { unit: UnitIndex(unit), offset, len };
        let pieces: Vec<Piece> = rs_6_3().pieces(5 * CELL + 10..7 * CELL + 1).collect();
        assert_eq!(pieces, [piece(5, 10, CELL - 10), piece(0, CELL, CELL), piece(1, CELL, 1)]);
        assert_eq!(rs_6_3().pieces(7..7).count(), 0);
    }

    #[test]
    fn impossible_cells_are_refused() {
        for cell_size in [0, CELL_SIZE_MAX + 1, u64::MAX] {
            let refused = StripeGeometry::new(rs_6_3().schema(), cell_size).unwrap_err();
            assert_eq!(refused, CodeError::CellSize { cell_size });
        }
    }

    proptest! {
        #[test]
        fn every_byte_lies_in_one_place_within_its_unit(
            data in 1usize..=14, parity in 1usize..=2, cell in 1u64..50, len in 0u64..2000, cut in 0u64..2000,
        ) {
            let schema = Schema::new(Code::Rs, data, parity).unwrap();
            let geometry = StripeGeometry::new(schema, cell).unwrap();
            // Both halves together are the whole, and fill every data unit from its first byte to its last.
            let cut = cut.min(len);
            let mut filled = vec![0; data];
            for piece in geometry.pieces(0..cut).chain(geometry.pieces(cut..len)) {
                let end = &mut filled[usize::from(piece.unit.0)];
                prop_assert_eq!(piece.offset, *end);
                *end += piece.len;
            }
            let lens: Vec<u64> = (0..data).map(|unit| geometry.unit_len(len, UnitIndex(unit as u8))).collect();
            prop_assert_eq!(&filled, &lens);
            prop_assert_eq!(lens.iter().sum::<u64>(), len);
            prop_assert_eq!(lens.iter().filter(|len| **len > 0).count(), geometry.data_units_used(len));
            let parity_len = geometry.unit_len(len, UnitIndex(data as u8));
            prop_assert_eq!(Some(&parity_len), lens.iter().max());
            prop_assert_eq!(geometry.space(len), len + parity_len * parity as u64);
        }
    }
}
