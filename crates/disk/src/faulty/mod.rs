//! A disk that fails when a test says so.

mod disk;
mod fault;
mod power;

pub use disk::FaultyDisk;
pub use fault::{Fault, Injection, Operation};
