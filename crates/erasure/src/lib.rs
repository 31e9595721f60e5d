//! Erasure codes over GF(2^8), byte-equal to Hadoop's `rs`, `rs-legacy` and `xor`.
//!
//! A code turns `k` data units of equal length into `m` parity units; any `k` of the `k + m` units give the others back.
//! This crate computes units from units. It knows nothing of files, nodes or networks.
//!
//! - [`Schema`]: a code and its numbers of data and parity units; [`Code`] names the code.
//! - [`Coder`]: encodes by a schema, and plans reconstructions.
//! - [`Reconstruction`]: computes missing units from `k` others, planned once and run for each slice.
//! - [`UnitSet`], [`UnitIndex`]: which units of a stripe are meant. Data units come first, then parity units.
//! - [`StripeGeometry`]: where the bytes of a striped range lie in its units, and how long each unit is.
//! - [`Kernel`]: the instructions that do the work, chosen at run time: AVX-512 with GFNI, AVX2, SSSE3, or none of them.
//!
//! ```
//! use yeoul_erasure::{Code, Coder, Schema, UnitIndex, UnitSet};
//!
//! # fn main() -> Result<(), yeoul_erasure::CodeError> {
//! let coder = Coder::new(Schema::new(Code::Rs, 3, 2)?);
//! let data = [b"yeoul".to_vec(), b"is a ".to_vec(), b"river".to_vec()];
//! let mut parity = [vec![0; 5], vec![0; 5]];
//! coder.encode(&data, &mut parity);
//!
//! // Units 0 and 1 are lost; what is left are unit 2 and the parity units 3 and 4.
//! let left: UnitSet = [2, 3, 4].map(UnitIndex).into_iter().collect();
//! let lost: UnitSet = [0, 1].map(UnitIndex).into_iter().collect();
//! let mut rebuilt = [vec![0; 5], vec![0; 5]];
//! coder.reconstruction(left, lost)?.run(&[&data[2], &parity[0], &parity[1]], &mut rebuilt);
//! assert_eq!(rebuilt, data[..2]);
//! # Ok(())
//! # }
//! ```

mod coder;
mod error;
mod field;
mod kernel;
mod matrix;
#[cfg(feature = "measure")]
pub mod measure;
mod schema;
mod stripe;
mod units;

pub use coder::{Coder, Reconstruction};
pub use error::CodeError;
pub use kernel::Kernel;
pub use schema::{Code, Schema, UNITS_MAX};
pub use stripe::{Piece, StripeGeometry};
pub use units::{UnitIndex, UnitSet};
