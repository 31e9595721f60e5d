//! What cannot be coded.

use yeoul_base::ErrorKind;

use crate::schema::{Schema, UNITS_MAX};
use crate::units::UnitSet;

/// Why a schema or a reconstruction is impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodeError {
    /// A name that no code has.
    #[error("there is no erasure code '{name}': expected rs, rs-legacy or xor")]
    UnknownCode {
        /// The name as it was given.
        name: String,
    },
    /// Numbers of units that the code does not have.
    #[error(
        "{code} takes no {data} data and {parity} parity units: expected at least one of each, at most {UNITS_MAX} together, and one parity unit for xor"
    )]
    Schema {
        /// The name of the code.
        code: &'static str,
        /// Data units asked for.
        data: usize,
        /// Parity units asked for.
        parity: usize,
    },
    /// More units are lost than the code has parity units.
    #[error("{schema} needs {} units to rebuild {wanted:?}, and only {available:?} are there", schema.data_units())]
    TooFewUnits {
        /// The schema of the stripe.
        schema: Schema,
        /// The units that can be read.
        available: UnitSet,
        /// The units asked for.
        wanted: UnitSet,
    },
    /// A unit that the schema does not have, or one that is both there and asked for.
    #[error("{schema} cannot rebuild {wanted:?} from {available:?}: a unit is in both, or is none of its {}", schema.units())]
    Units {
        /// The schema of the stripe.
        schema: Schema,
        /// The units that can be read.
        available: UnitSet,
        /// The units asked for.
        wanted: UnitSet,
    },
    /// A cell that is empty, or so large that the lengths of a stripe overflow.
    #[error("a cell of {cell_size} bytes is not possible: expected 1 byte to 1 GiB")]
    CellSize {
        /// Bytes of a cell as asked for.
        cell_size: u64,
    },
}

impl CodeError {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::TooFewUnits { .. } => ErrorKind::DataLoss,
            _ => ErrorKind::Invalid,
        }
    }
}
