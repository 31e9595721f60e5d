//! What is done with rows. Operators push: each takes a batch and gives what comes of it, and none holds rows back.

mod calc;

pub use calc::Calc;
