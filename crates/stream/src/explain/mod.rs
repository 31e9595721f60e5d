//! Outline of a query, for people and programs, before it is started: nothing is opened.
//!
//! - [`outline`]: a query as a [`QueryOutline`], which serde writes as JSON
//! - [`tree`]: the same as a tree of text, the sink at its root

mod kept;
mod outline;
mod steps;
mod tree;

pub use outline::{Pairs, QueryOutline, StateOutline, StepOutline, outline};
pub use tree::tree;

#[cfg(test)]
mod tests;
