//! Generators among the tables of a `FROM`, and in a `SELECT`: `FROM explode(list) AS t(x)` is a query of the generator.

use datafusion::sql::sqlparser::ast::{Ident, Select, SelectItem, TableFactor};

use crate::parse::generators::{call_of, columns, is_generator, items, values_of};
use crate::parse::template;

/// Writes such a table as a query.
pub(super) fn write_query(factor: &mut TableFactor) {
    let (name, arguments, alias) = match factor {
        TableFactor::Table { name, args: Some(arguments), alias, .. } => (name, &arguments.args, alias),
        TableFactor::Function { name, args, with_ordinality: false, alias, .. } => (name, &*args, alias),
        _ => return,
    };
    let [part] = name.0.as_slice() else { return };
    let Some(function) = part.as_ident().map(|name| name.value.to_ascii_lowercase()) else { return };
    let Some(values) = values_of(arguments).filter(|_| is_generator(&function)) else { return };
    let named = alias.as_ref().map_or(0, |alias| alias.columns.len());
    let Some(made) = columns(&function, &values, named) else { return };
    let mut query = template::query("SELECT x");
    template::select(&mut query).projection = items(made, &[]);
    let alias = alias.take();
    *factor = TableFactor::Derived { lateral: true, subquery: Box::new(query), alias, sample: None };
}

/// Writes a generator in a `SELECT` as its columns.
pub(super) fn write_items(select: &mut Select) {
    let written = std::mem::take(&mut select.projection);
    for item in written {
        let (expr, names): (_, &[Ident]) = match &item {
            SelectItem::UnnamedExpr(expr) => (expr, &[]),
            SelectItem::ExprWithAlias { expr, alias } => (expr, std::slice::from_ref(alias)),
            SelectItem::ExprWithAliases { expr, aliases } => (expr, aliases),
            _ => {
                select.projection.push(item);
                continue;
            }
        };
        let made = call_of(expr).and_then(|(name, values)| columns(&name, &values, names.len()));
        match made {
            Some(made) => {
                let made = items(made, names);
                select.projection.extend(made);
            }
            None => select.projection.push(item),
        }
    }
}
