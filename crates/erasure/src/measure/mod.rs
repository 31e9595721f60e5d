//! The peer and the physical limit that codes are measured against; only with the feature `measure`.

mod bare_loop;
mod isal;

pub use bare_loop::read_and_write;
pub use isal::{Isal, IsalError};
