//! Functions that are defined by an expression of others: what Spark, DuckDB and others have by another name, where they agree, or where
//! one alone has the name. `table.tsv` has a line for each. A call is the expression before the statement is planned, so that all that
//! holds for the expression holds for the call. A function that an engine has itself by the same name comes first.
//!
//! - [`expansion`]: calls become expressions;
//! - [`macros`]: functions that a session defines;
//! - [`reference`]: the page `docs/reference/sql-functions.md`, made from the table;
//! - [`spark`]: functions that mean something else in Spark;
//! - [`variables`]: values that a session keeps.

mod expansion;
pub(crate) mod macros;
mod reference;
pub mod spark;
pub(crate) mod variables;

use std::sync::LazyLock;

use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::parser::Parser;

use crate::syntax::Grammar;

pub(crate) use expansion::{Expansion, Seen};
pub use reference::page;

/// Parameters of a function that has those of another one, whose name is its body.
const ANY: &str = "…";

/// A function that stands for an expression of others.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Name, in small letters.
    pub name: &'static str,
    /// Names of its arguments; `None` if it has those of the function that is its body.
    pub parameters: Option<Vec<&'static str>>,
    /// Aggregate in the body that has the clauses of a call: `FILTER`, `OVER`, an order of the values.
    pub aggregate: Option<&'static str>,
    /// What it stands for.
    pub body: &'static str,
    /// What it answers.
    pub description: &'static str,
    /// A call, with the rows that it is about if it is an aggregate.
    pub example: &'static str,
    /// The answer to the example.
    pub answer: &'static str,
    expr: Expr,
}

/// All of them, in the order of their names, and of the numbers of their arguments.
pub static DEFINITIONS: LazyLock<Vec<Definition>> = LazyLock::new(|| {
    let lines = include_str!("table.tsv").lines().filter(|line| !line.starts_with('#'));
    lines.map(Definition::parse).collect()
});

/// The functions of a name in small letters: more than one if they have other numbers of arguments.
pub fn defined(name: &str) -> &'static [Definition] {
    let from = DEFINITIONS.partition_point(|definition| definition.name < name);
    let number = DEFINITIONS[from..].partition_point(|definition| definition.name == name);
    &DEFINITIONS[from..from + number]
}

/// True for a function that an engine calls itself, by its name in small letters.
fn is_of_engine(name: &str, state: &SessionState) -> bool {
    state.scalar_functions().contains_key(name)
        || state.aggregate_functions().contains_key(name)
        || state.window_functions().contains_key(name)
        || state.higher_order_functions().contains_key(name)
}

/// True for a function that takes a lambda, by its name in small letters.
pub(crate) fn takes_lambda(name: &str, state: &SessionState) -> bool {
    let takes = |name: &str| state.higher_order_functions().contains_key(name);
    let stands_for = |definition: &Definition| definition.parameters.is_none() && takes(definition.body);
    takes(name) || defined(name).iter().any(stands_for)
}

impl Definition {
    fn parse(line: &'static str) -> Self {
        let columns: Vec<&str> = line.split('\t').collect();
        let [name, parameters, aggregate, body, description, example, answer] = columns[..] else {
            panic!("table.tsv: a line with {} columns: {line}", columns.len())
        };
        let parser = Parser::new(&Grammar).try_with_sql(body);
        let expr = parser.and_then(|mut parser| parser.parse_expr());
        Self {
            name,
            parameters: (parameters != ANY)
                .then(|| parameters.split(", ").filter(|name| !name.is_empty()).collect()),
            aggregate: Some(aggregate).filter(|name| !name.is_empty()),
            body,
            description,
            example,
            answer,
            expr: expr.unwrap_or_else(|error| panic!("table.tsv: {name}: {error}")),
        }
    }

    /// A call with the names of its arguments, as in `add_months(d, n)`.
    pub fn signature(&self) -> String {
        let parameters = self.parameters.as_ref().map_or_else(|| ANY.to_owned(), |names| names.join(", "));
        format!("{}({parameters})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::session_state::SessionStateBuilder;

    use super::*;
    use crate::Dialect;

    #[test]
    fn names_are_in_order_and_no_others_have_them() {
        let builder = SessionStateBuilder::new().with_default_features();
        let state = Dialect::default().session_state(builder, &[]).unwrap();
        let key = |of: &Definition| (of.name, of.parameters.as_ref().map(Vec::len));
        assert!(DEFINITIONS.is_sorted_by(|a, b| key(a) < key(b)));
        for definition in DEFINITIONS.iter() {
            let name = definition.name;
            assert!(defined(name).iter().any(|found| std::ptr::eq(found, definition)));
            assert!(
                !state.scalar_functions().contains_key(name)
                    && !state.aggregate_functions().contains_key(name)
                    && !state.window_functions().contains_key(name)
                    && !state.higher_order_functions().contains_key(name),
                "{name} is a function already"
            );
        }
        assert!(defined("no_such").is_empty());
    }
}
