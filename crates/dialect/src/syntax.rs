//! Statements and their tokens, for a part that reads statements of its own, and wraps queries in them.

pub use datafusion::sql::parser::{CopyToSource, CopyToStatement, DFParser, ExplainStatement, Statement};
pub use datafusion::sql::sqlparser::{ast, dialect, keywords, parser, tokenizer};

pub use crate::parse::grammar::Grammar;
