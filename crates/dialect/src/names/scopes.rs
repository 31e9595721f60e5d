//! The tables that a column's name may be of: those of the `SELECT` that it stands in, then those of the queries around it.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Query, Select, SetExpr, TableFactor, TableWithJoins, VisitorMut, With,
};

use super::same_names::normalized;
use crate::Error;
use crate::parse::visit::walk_in;

/// The name by which a table is known in a `FROM`: its alias, or its own with as many parts as are written.
pub(crate) type TableName = Vec<String>;

/// What rewrites the names of columns.
pub(crate) trait Renames {
    type Table: Named + Clone;

    /// The tables of a `SELECT`.
    fn tables(&self, select: &Select) -> Vec<Self::Table>;

    /// The tables of what stands in a `FROM`, if they are others to what stands within it.
    fn tables_within(&self, _: &TableFactor) -> Option<Vec<Self::Table>> {
        None
    }

    /// Changes a `SELECT` beside its expressions.
    fn in_select(&mut self, select: &mut Select, scopes: &Scopes<Self::Table>) -> Result<(), Error>;

    /// What stands for a column that is written with its table's name, if not that.
    fn column(&mut self, parts: &[Ident], scopes: &Scopes<Self::Table>) -> Result<Option<Expr>, Error>;
}

pub(crate) trait Named {
    fn name(&self) -> &TableName;
}

/// The tables of each query around a place, the innermost last.
pub(crate) struct Scopes<T>(Vec<Vec<T>>);

impl<T: Named> Scopes<T> {
    /// The table that the first parts of a column's name are, and how many of them. Several, if they are of several tables of one query.
    pub(crate) fn find(&self, parts: &[Ident]) -> (Vec<&T>, usize) {
        let parts: Vec<String> = parts.iter().map(normalized).collect();
        for scope in self.0.iter().rev() {
            for count in (1..parts.len()).rev() {
                let name = &parts[..count];
                let same = scope.iter().find(|table| table.name() == name);
                let found: Vec<&T> = match same {
                    Some(table) => vec![table],
                    None => scope.iter().filter(|table| table.name().ends_with(name)).collect(),
                };
                if !found.is_empty() {
                    return (found, count);
                }
            }
        }
        (Vec::new(), 0)
    }
}

/// The visitor that knows the scope of each place.
pub(crate) struct Scoped<R: Renames> {
    renames: R,
    scopes: Scopes<R::Table>,
    /// What was visited before its query, or is not of its scope, and is put back behind it.
    withs: Vec<Option<With>>,
    hidden: Vec<Option<Vec<R::Table>>>,
    /// True if the next `SELECT` is the body of a query, whose scope its `ORDER BY` shares.
    is_body: bool,
    /// True if each `SELECT` around has a scope that ends with it.
    own_scopes: Vec<bool>,
}

impl<R: Renames> Scoped<R> {
    pub(crate) fn new(renames: R) -> Self {
        Self {
            renames,
            scopes: Scopes(Vec::new()),
            withs: Vec::new(),
            hidden: Vec::new(),
            is_body: false,
            own_scopes: Vec::new(),
        }
    }

    fn end<T>(result: Result<T, Error>, then: impl FnOnce(T)) -> ControlFlow<Error> {
        match result {
            Ok(value) => {
                then(value);
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }
}

impl<R: Renames> VisitorMut for Scoped<R> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        // Common table expressions do not see the tables of their query.
        let mut with = query.with.take();
        if let Some(with) = &mut with {
            walk_in(with, self)?;
        }
        self.withs.push(with);
        let tables = match query.body.as_ref() {
            SetExpr::Select(select) => {
                self.is_body = true;
                self.renames.tables(select)
            }
            _ => Vec::new(),
        };
        self.scopes.0.push(tables);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        self.scopes.0.pop();
        query.with = self.withs.pop().flatten();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        let is_own = !std::mem::take(&mut self.is_body);
        if is_own {
            self.scopes.0.push(self.renames.tables(select));
        }
        self.own_scopes.push(is_own);
        Self::end(self.renames.in_select(select, &self.scopes), |()| ())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<Error> {
        if self.own_scopes.pop() == Some(true) {
            self.scopes.0.pop();
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        // Only LATERAL sees the tables beside it.
        if let TableFactor::Derived { lateral: false, .. } = factor {
            self.hidden.push(self.scopes.0.pop());
        } else if let Some(mut within) = self.renames.tables_within(factor) {
            let around = self.scopes.0.pop();
            let others =
                around.iter().flatten().filter(|table| within.iter().all(|own| own.name() != table.name()));
            let others: Vec<R::Table> = others.cloned().collect();
            within.extend(others);
            self.scopes.0.push(within);
            self.hidden.push(around);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        if let TableFactor::Derived { lateral: false, .. } = factor {
            self.scopes.0.extend(self.hidden.pop().flatten());
        } else if self.renames.tables_within(factor).is_some() {
            self.scopes.0.pop();
            self.scopes.0.extend(self.hidden.pop().flatten());
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        let Expr::CompoundIdentifier(parts) = expr else { return ControlFlow::Continue(()) };
        let column = self.renames.column(parts, &self.scopes);
        Self::end(column, |column| {
            if let Some(column) = column {
                *expr = column;
            }
        })
    }
}

/// Calls `each` with every table of a `FROM`, those in parentheses included.
pub(crate) fn for_each_factor(from: &[TableWithJoins], each: &mut impl FnMut(&TableFactor)) {
    for tables in from {
        let factors = std::iter::once(&tables.relation).chain(tables.joins.iter().map(|join| &join.relation));
        for factor in factors {
            match factor {
                TableFactor::NestedJoin { table_with_joins, alias: None } => {
                    for_each_factor(std::slice::from_ref(table_with_joins.as_ref()), each);
                }
                factor => each(factor),
            }
        }
    }
}

/// The alias of a table, or its name.
pub(crate) fn name_of(factor: &TableFactor) -> Option<TableName> {
    let alias = match factor {
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::TableFunction { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::NestedJoin { alias, .. } => alias.as_ref(),
        _ => None,
    };
    match (alias, factor) {
        (Some(alias), _) => Some(vec![normalized(&alias.name)]),
        (None, TableFactor::Table { name, .. }) => parts_of(name),
        _ => None,
    }
}

/// The parts of a name, if it has no others.
pub(crate) fn parts_of(name: &ObjectName) -> Option<TableName> {
    name.0.iter().map(|part| part.as_ident().map(normalized)).collect()
}

pub(crate) fn quoted(name: impl Into<String>) -> Ident {
    Ident::with_quote('"', name)
}
