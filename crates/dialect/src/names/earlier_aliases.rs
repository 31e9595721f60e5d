//! Aliases that a `SELECT` uses again: `SELECT a + 1 AS b, b * 2 AS c`, and in its `WHERE`. A column of the tables comes first, as in Spark
//! and DuckDB.

use std::collections::{HashMap, HashSet};

use datafusion::sql::sqlparser::ast::{Expr, Ident, Select, SelectItem};
use yeoul_base::ErrorKind;

use super::free_names::each_free_name;
use super::normalized;
use crate::functions::Seen;
use crate::{Error, Result};

/// Expressions that the aliases of one `SELECT` may copy.
const COPIES_MAX: usize = 100_000;

/// True if a `SELECT` may use an alias of its own before `GROUP BY` and the clauses behind it, which may do so anyway.
pub(crate) fn are_used(projection: &mut [SelectItem], selection: &mut Option<Expr>) -> bool {
    let mut earlier: HashSet<String> = HashSet::new();
    let mut is_used = false;
    for item in projection {
        let (expr, alias) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, None),
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias)),
            _ => continue,
        };
        each_free_name(expr, &mut |_, name| is_used |= earlier.contains(name));
        // An alias that is the column's own name is no other.
        if let Some(alias) = alias
            && !is_column_of_name(expr, &normalized(alias))
        {
            earlier.insert(normalized(alias));
        }
    }
    if let Some(condition) = selection {
        each_free_name(condition, &mut |_, name| is_used |= earlier.contains(name));
    }
    is_used
}

/// Puts the expressions of aliases in the places of their names, where no column of the tables has the name.
///
/// # Errors
/// `Invalid` for an alias whose value is another one each time; `ResourceExhausted` for aliases of aliases that are more than
/// [`COPIES_MAX`] expressions.
pub(crate) fn replace(select: &mut Select, columns: &HashSet<&str>) -> Result<()> {
    let mut aliases = Aliases { exprs: HashMap::new(), columns, copies: 0, error: None };
    for item in &mut select.projection {
        let (expr, alias) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, None),
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias)),
            _ => continue,
        };
        each_free_name(expr, &mut |expr, name| aliases.put(expr, name));
        if let Some(alias) = alias
            && !is_column_of_name(expr, &normalized(alias))
        {
            aliases.add(alias, expr);
        }
    }
    if let Some(condition) = &mut select.selection {
        each_free_name(condition, &mut |expr, name| aliases.put(expr, name));
    }
    aliases.error.map_or(Ok(()), Err)
}

fn is_column_of_name(expr: &Expr, alias: &str) -> bool {
    match expr {
        Expr::Identifier(name) => normalized(name) == alias,
        Expr::CompoundIdentifier(parts) => parts.last().is_some_and(|name| normalized(name) == alias),
        _ => false,
    }
}

struct Aliases<'a> {
    /// Expressions by alias; `None` for one that two items have.
    exprs: HashMap<String, Option<Expr>>,
    columns: &'a HashSet<&'a str>,
    copies: usize,
    error: Option<Error>,
}

impl Aliases<'_> {
    fn add(&mut self, alias: &Ident, expr: &Expr) {
        let name = normalized(alias);
        let expr = (!self.exprs.contains_key(&name)).then(|| expr.clone());
        self.exprs.insert(name, expr);
    }

    fn put(&mut self, expr: &mut Expr, name: &str) {
        if self.columns.contains(name) || self.error.is_some() {
            return;
        }
        let Some(Some(of)) = self.exprs.get(name) else { return };
        let seen = Seen::of(of);
        self.copies += seen.expressions;
        if let Some(volatile) = seen.volatile {
            let text = format!("not supported: the alias '{name}' of {volatile}() within the same SELECT");
            self.error = Some(
                Error::new(ErrorKind::Invalid, text)
                    .with_hint("its value is another one each time: compute it in a subquery"),
            );
        } else if self.copies > COPIES_MAX {
            let text = format!("aliases of aliases are more than {COPIES_MAX} expressions");
            self.error = Some(
                Error::new(ErrorKind::ResourceExhausted, text)
                    .with_hint("compute the first ones in a subquery"),
            );
        } else {
            *expr = Expr::Nested(Box::new(of.clone()));
        }
    }
}
