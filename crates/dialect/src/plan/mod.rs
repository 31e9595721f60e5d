//! From a parsed statement to a plan, beyond what DataFusion's planner does by itself.
//!
//! - [`describe`]: `DESCRIBE` with SQL's names of types;
//! - [`insert_by_name`]: `INSERT INTO t BY NAME`;
//! - [`relations`]: the planner of what stands in a `FROM`;
//! - [`show_functions`]: the functions that stand for others among all;
//! - [`size`]: refuses a plan that grows without bound;
//! - [`statement`]: plans a statement, more than once where that is needed;
//! - [`summary`]: the statement `SUMMARIZE`;
//! - [`used_schema`]: the statement `USE`.

mod describe;
mod insert_by_name;
mod relations;
mod show_functions;
mod size;
mod statement;
mod summary;
mod used_schema;

pub(crate) use statement::planned;
