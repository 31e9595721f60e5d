//! From a parsed statement to a plan, beyond what DataFusion's planner does by itself.
//!
//! - [`join_mark`]: finds the joins with `USING`, and `NATURAL` ones, in a plan that is being made;
//! - [`join_names`]: lets a statement name their columns as SQL does;
//! - [`joined_columns`]: what the columns of such a join are called;
//! - [`merged_join`]: the plan of such a join;
//! - [`relations`]: the planner of what stands in a `FROM`;
//! - [`statement`]: plans a statement, more than once where that is needed.

mod join_mark;
mod join_names;
mod joined_columns;
mod merged_join;
mod relations;
pub(crate) mod statement;
