//! The meaning of SQL: how statements are read, refused, planned and computed, for every part that takes them.
//!
//! An answer is right, or it is a typed error: where DataFusion reads, plans or computes something else than SQL means, a module here
//! mends it or refuses it by its name. The crate knows no session, no file and no memory: an engine gives it a state of
//! DataFusion's to add to, and places rules of its own among those here.
//!
//! ```
//! use datafusion::execution::SessionStateBuilder;
//! use yeoul_dialect::Dialect;
//! # fn main() -> Result<(), yeoul_dialect::Error> {
//! let dialect = Dialect::default();
//! let mut state = dialect.session_state(SessionStateBuilder::new().with_default_features(), &[])?;
//! let mut statement = dialect.read("SELECT 0.5 + 0.25 AS sum", &state)?;
//! let questions = dialect.honour(&mut statement, &state)?;
//! let planning = dialect.plan(statement, questions, &mut state);
//! let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a thread");
//! let plan = runtime.block_on(planning)?;
//! assert_eq!(plan.schema().field(0).name(), "sum");
//! # Ok(())
//! # }
//! ```
//!
//! In the order in which a statement passes through them:
//!
//! - [`Dialect`]: the face, with the switches in which two fronts mean different systems on purpose;
//! - [`parse`]: a text becomes a statement, corrected where the parser reads something else than SQL means;
//! - [`file_call`]: files that a function reads, as the name of a table;
//! - [`functions`]: functions that stand for an expression of others;
//! - [`refuse`]: every clause is honoured or refused;
//! - [`names`]: the tables and columns that names stand for;
//! - [`plan`]: a statement becomes a plan;
//! - [`subqueries`], [`aggregates`], [`json`], [`numbers`], [`sketches`], [`text`], [`time`], [`types`]: the functions and rules that give a plan the meaning of SQL;
//! - [`rules`]: the order of all rules, and those that mend what DataFusion's rules break;
//! - [`error`]: DataFusion's errors, in words for people; [`suggest`]: the name that a person probably meant;
//! - [`syntax`]: statements and their tokens, for a part that has statements of its own;
//! - [`reference`]: the page of the dialects; [`rewrite`]: rewriting of plans;
//! - [`settings`]: the switches that a statement may set;
//! - [`sent`]: what rules put into plans, for a plan that goes to another process;
//! - [`wrong_answers`]: statements that were once answered wrongly, for the tests of each front.

mod aggregates;
mod dialect;
pub mod error;
mod file_call;
pub mod functions;
mod json;
mod lists;
mod names;
mod notices;
mod numbers;
mod parse;
mod plan;
pub mod reference;
mod refuse;
mod rewrite;
pub mod rules;
pub mod sent;
pub mod settings;
mod signatures;
mod sketches;
mod subqueries;
pub mod suggest;
pub mod syntax;
mod text;
pub mod time;
mod types;
pub mod wrong_answers;

pub use dialect::{
    Dialect, FunctionNames, IntegerLiterals, JoinsWithout, NameCase, NullOrder, Quotients, Spelling,
    Subscripts,
};
pub use error::{Error, Result};
pub use file_call::{FileCall, FileOption};
pub use names::{ColumnTexts, normalized};
pub use notices::Notices;
pub use numbers::{contains_float, framed_accumulator, one_nan};
pub use parse::chains::STACK_BYTES;
pub use refuse::{Questions, all_of, plain};
pub use rewrite::{LogicalRule, PhysicalRule};
pub use types::{Identity, has_children, type_name};
pub use yeoul_base::{Place, Span};
