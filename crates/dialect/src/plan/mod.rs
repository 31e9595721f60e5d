//! From a parsed statement to a plan, beyond what DataFusion's planner does by itself.
//!
//! - [`relations`]: the planner of what stands in a `FROM`;
//! - [`show_functions`]: the functions that stand for others among all;
//! - [`size`]: refuses a plan that grows without bound;
//! - [`statement`]: plans a statement, more than once where that is needed.

mod relations;
mod show_functions;
mod size;
mod statement;

pub(crate) use statement::planned;
