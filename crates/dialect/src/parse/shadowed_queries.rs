//! A query of a `WITH` that has the name of another one around it, which it hides: DataFusion refuses the second name.

use std::collections::HashMap;
use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Cte, Ident, ObjectName, Query, TableAlias, TableFactor, VisitorMut, With,
};

use super::visit::{visit, walk_in};
use crate::names::normalized;

/// Gives such queries names of their own, and their readers the name that was written.
pub(super) fn rename(statement: &mut Statement) {
    visit(statement, &mut Scopes::default());
}

/// The queries that names stand for.
#[derive(Default)]
struct Scopes {
    /// Names of each query around, from the outermost one: those written with those given.
    names: Vec<HashMap<String, String>>,
    /// The `WITH` of each query around, which has been visited.
    visited: Vec<Option<With>>,
    given: usize,
}

impl Scopes {
    fn find(&self, name: &str) -> Option<&String> {
        self.names.iter().rev().find_map(|names| names.get(name))
    }

    /// Visits the queries of a `WITH`: each sees those before it, and itself only if they are recursive.
    fn enter(&mut self, with: &mut With) {
        for Cte { alias, query, .. } in &mut with.cte_tables {
            let written = normalized(&alias.name);
            // The query behind this one is not hidden within it.
            let is_hiding = self.names.iter().rev().skip(1).any(|names| names.contains_key(&written));
            let name = if is_hiding {
                self.given += 1;
                format!("{written} ({})", self.given + 1)
            } else {
                written.clone()
            };
            let keep = |scopes: &mut Self| {
                if let Some(names) = scopes.names.last_mut() {
                    names.insert(written.clone(), name.clone());
                }
            };
            if with.recursive {
                keep(self);
            }
            let ControlFlow::Continue(()) = walk_in(query, self);
            keep(self);
            if is_hiding {
                alias.name = Ident::with_quote('"', name);
            }
        }
    }
}

impl VisitorMut for Scopes {
    type Break = Infallible;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Infallible> {
        self.names.push(HashMap::new());
        let mut with = query.with.take();
        if let Some(with) = &mut with {
            self.enter(with);
        }
        self.visited.push(with);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Infallible> {
        query.with = self.visited.pop().flatten();
        self.names.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Infallible> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else {
            return ControlFlow::Continue(());
        };
        let [part] = name.0.as_slice() else { return ControlFlow::Continue(()) };
        let Some(written) = part.as_ident().cloned() else { return ControlFlow::Continue(()) };
        if let Some(given) = self.find(&normalized(&written)).filter(|given| **given != normalized(&written))
        {
            *name = ObjectName::from(vec![Ident::with_quote('"', given.as_str())]);
            alias.get_or_insert_with(|| TableAlias {
                explicit: true,
                name: written,
                columns: Vec::new(),
                at: None,
            });
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

    use super::*;
    use crate::parse::grammar::Grammar;

    #[test]
    fn a_query_hides_the_one_around_it() {
        for (sql, expected) in [
            (
                "WITH t AS (SELECT 1), u AS (WITH t AS (SELECT 2) SELECT t.* FROM t) SELECT * FROM u, t",
                "WITH t AS (SELECT 1), u AS (WITH \"t (2)\" AS (SELECT 2) SELECT t.* FROM \"t (2)\" AS t) SELECT * FROM u, t",
            ),
            (
                "WITH t AS (SELECT 1) SELECT (WITH T AS (SELECT * FROM t) SELECT * FROM t x), (SELECT * FROM t)",
                "WITH t AS (SELECT 1) SELECT (WITH \"t (2)\" AS (SELECT * FROM t) SELECT * FROM \"t (2)\" x), (SELECT * FROM t)",
            ),
            (
                "WITH t AS (SELECT 1), t AS (SELECT 2) SELECT * FROM t",
                "WITH t AS (SELECT 1), t AS (SELECT 2) SELECT * FROM t",
            ),
            (
                "WITH t AS (WITH t AS (SELECT 1) SELECT * FROM t) SELECT * FROM t",
                "WITH t AS (WITH t AS (SELECT 1) SELECT * FROM t) SELECT * FROM t",
            ),
        ] {
            let mut statement = DFParser::parse_sql_with_dialect(sql, &Grammar).unwrap().pop_front().unwrap();
            rename(&mut statement);
            assert_eq!(statement.to_string(), expected, "{sql}");
        }
    }
}
