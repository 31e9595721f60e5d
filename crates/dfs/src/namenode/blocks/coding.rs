use yeoul_erasure::{Code, Schema, StripeGeometry};

use crate::policy::{CELL_BYTES_MAX, CELL_UNIT};

/// Coding of a block group, in three bytes, because each block has one.
///
/// | bits | what |
/// | --- | --- |
/// | 0 to 3 | data units; 0 for a block of whole replicas |
/// | 4 to 7 | parity units |
/// | 8 to 21 | kibibytes of a cell, less one |
/// | 22, 23 | the code: RS, RS-LEGACY, XOR |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coding([u8; 3]);

const CODES: [Code; 3] = [Code::Rs, Code::RsLegacy, Code::Xor];
const _: () = assert!(CELL_BYTES_MAX / CELL_UNIT == 1 << 14, "a cell has 14 bits");

impl Coding {
    /// The coding of a group, or of whole replicas.
    ///
    /// # Panics
    /// A cell that no policy can have.
    pub fn of(geometry: Option<StripeGeometry>) -> Self {
        let Some(geometry) = geometry else { return Self::default() };
        let (schema, cell) = (geometry.schema(), geometry.cell_size());
        assert!(cell.is_multiple_of(CELL_UNIT) && cell <= CELL_BYTES_MAX, "a cell of {cell} bytes");
        let code = CODES.iter().position(|code| *code == schema.code()).expect("all codes are there");
        let bits = schema.data_units() as u64
            | (schema.parity_units() as u64) << 4
            | (cell / CELL_UNIT - 1) << 8
            | (code as u64) << 22;
        let [first, second, third, ..] = bits.to_le_bytes();
        Self([first, second, third])
    }

    /// Places of the bytes of a group; none for a block of whole replicas.
    pub fn geometry(self) -> Option<StripeGeometry> {
        let [first, second, third] = self.0;
        let (data, parity) = (usize::from(first & 15), usize::from(first >> 4));
        if data == 0 {
            return None;
        }
        let rest = u16::from_le_bytes([second, third]);
        let cell = (u64::from(rest & 0x3fff) + 1) * CELL_UNIT;
        let schema = Schema::new(CODES[usize::from(rest >> 14)], data, parity).expect("it was one");
        Some(StripeGeometry::new(schema, cell).expect("it was one"))
    }
}

#[cfg(test)]
mod tests {
    use yeoul_erasure::UNITS_MAX;

    use super::*;

    #[test]
    fn three_bytes_say_all_of_each_policy_that_can_be() {
        assert_eq!(Coding::of(None).geometry(), None);
        for code in CODES {
            for data in 1..UNITS_MAX {
                for parity in 1..=UNITS_MAX - data {
                    let Ok(schema) = Schema::new(code, data, parity) else { continue };
                    for cell in [CELL_UNIT, 3 * CELL_UNIT, 1 << 20, CELL_BYTES_MAX] {
                        let geometry = StripeGeometry::new(schema, cell).unwrap();
                        assert_eq!(Coding::of(Some(geometry)).geometry(), Some(geometry));
                    }
                }
            }
        }
    }
}
