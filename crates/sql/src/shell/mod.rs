//! The SQL shell, for people and for scripts: `-c`, `-f` and stdin run through the same steps as a typed line.
//!
//! [`Shell`] uses the engine only through [`Engine`], which [`Session`](crate::Session) implements. Answers go to
//! [`Console::out`]; errors, notices, times and the progress line go elsewhere, so that a pipe gets nothing but answers.
//!
//! - [`Statement`], [`Splitter`]: one small lexer splits text into statements, for scripts and for the Enter key;
//! - [`Script`]: reads a script step by step, in bounded memory;
//! - [`CommandError`], [`Action`]: `.help`, `.tables` and the other commands, all defined in one table.

mod command;
mod completion;
mod editor;
mod engine;
mod history;
mod interactive;
mod interrupt;
mod names;
mod panics;
mod script;
mod session_engine;
mod statement;
mod steps;

pub use command::{Action, CommandError, rows_max};
pub use engine::{Answer, ColumnInfo, Diagnose, Engine, Watched};
pub use interactive::ShellError;
pub use interrupt::{CtrlC, Interrupts};
pub use panics::note_panic;
pub use script::{Script, ScriptError, Step};
pub use statement::{Open, Quotes, STATEMENT_BYTES_MAX, SplitError, Splitter, Statement};
pub use steps::{Console, Outcome, Settings, Shell};
