//! The walk over a statement: what it knows of the place where it is. Each file beside this adds the steps for a kind of node.

use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::NamedWindowDefinition;

use super::questions::Questions;

/// The walk over a statement: what it knows of the place where it is.
pub(super) struct Walk<'a> {
    pub(super) state: &'a SessionState,
    /// The `WINDOW` clause of the `SELECT` that it is in.
    pub(super) windows: Vec<NamedWindowDefinition>,
    /// True if it is in a subquery of an expression, or in a lateral one: those may name columns of the query around.
    pub(super) is_inside: bool,
    /// True if the `SELECT` that comes next may have an `INTO`.
    pub(super) may_make_a_table: bool,
    pub(super) questions: Questions,
}
