//! Every clause of a statement is honoured or refused, before it is planned. The parser reads the clauses of a dozen systems, and
//! DataFusion's planner leaves out those that it does not know, so that the answer would be that of another statement.
//!
//! Each syntax node is taken apart field by field, without the two dots that stand for the rest: a field that a new version of the
//! parser adds does not compile until somebody decides about it. A field is
//! - walked, if it contains others;
//! - bound to `_`, if it has no meaning of its own (a token, an optional word), if planning honours it, or if planning refuses it
//!   (which a comment says);
//! - rewritten, if it can be said in words that are planned;
//! - or refused by its [`Clause`](refused::Clause). Statements and expressions that DataFusion does not know at all, it refuses itself.
//!
//! [`statement`] statements, [`definition`] what they define, [`change`] `DELETE` and `UPDATE`, [`query`] and [`select`] queries, [`relation`]
//! their tables, [`sample`] parts of these, [`expression`], [`call`] functions and windows, [`data_type`]; [`ties`] `FETCH … WITH TIES`
//! and `DISTINCT ON` by window functions; [`questions`] clauses that only the columns of tables decide about; [`syntax`] nodes made from scratch; [`refused`] the names of what is refused.

mod call;
mod change;
mod data_type;
mod definition;
mod expression;
mod query;
mod questions;
mod refused;
mod relation;
mod sample;
mod select;
mod statement;
mod syntax;
mod ties;
mod walk;

#[cfg(test)]
mod tests;

use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;

use self::walk::Walk;
use crate::Result;

pub(crate) use data_type::TIMESTAMP_DIGITS;
pub use questions::Questions;
pub use syntax::{all_of, plain};

/// Honours or refuses every clause of a statement, some of them by writing it in other words.
///
/// # Errors
/// `Invalid` for a clause that is not honoured, with its name and what to write instead.
pub(crate) fn honour(statement: &mut Statement, state: &SessionState) -> Result<Questions> {
    let mut walk = Walk {
        state,
        windows: Vec::new(),
        is_inside: false,
        may_make_a_table: false,
        questions: Questions::default(),
    };
    walk.any_statement(statement)?;
    Ok(walk.questions)
}
