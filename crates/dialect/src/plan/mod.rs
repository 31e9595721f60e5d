//! From a parsed statement to a plan, beyond what DataFusion's planner does by itself.
//!
//! - [`describe`]: `DESCRIBE` with SQL's names of types;
//! - [`relations`]: the planner of what stands in a `FROM`;
//! - [`show_functions`]: the functions that stand for others among all;
//! - [`size`]: refuses a plan that grows without bound;
//! - [`statement`]: plans a statement, more than once where that is needed;
//! - [`summary`]: the statement `SUMMARIZE`.

mod describe;
mod relations;
mod show_functions;
mod size;
mod statement;
mod summary;

pub(crate) use statement::planned;
