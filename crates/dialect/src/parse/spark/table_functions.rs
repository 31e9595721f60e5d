//! Generators among the tables of a `FROM`: `FROM explode(list) AS t(x)` is a query of the generator.

use datafusion::sql::sqlparser::ast::{Expr, SelectItem, TableFactor};

use crate::parse::{function_call::function_call, template};
use datafusion::sql::sqlparser::ast::{FunctionArg, FunctionArgExpr, Ident};

/// Generators that a `SELECT` may have.
const GENERATORS: [&str; 1] = ["explode"];

/// Writes such a table as a query.
pub(super) fn write_query(factor: &mut TableFactor) {
    let (name, arguments, alias) = match factor {
        TableFactor::Table { name, args: Some(arguments), alias, .. } => (name, &mut arguments.args, alias),
        TableFactor::Function { name, args, with_ordinality: false, alias, .. } => (name, args, alias),
        _ => return,
    };
    let [part] = name.0.as_slice() else { return };
    let Some(function) = part.as_ident().map(|name| name.value.to_ascii_lowercase()) else { return };
    if !GENERATORS.contains(&function.as_str()) {
        return;
    }
    let value = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
        _ => None,
    };
    let Some(values) = arguments.iter().map(value).collect::<Option<Vec<Expr>>>() else { return };
    let mut query = template::query("SELECT x AS col");
    if let SelectItem::ExprWithAlias { expr, .. } = &mut template::select(&mut query).projection[0] {
        *expr = function_call(Ident::new(function.as_str()), values);
    }
    let alias = alias.take();
    *factor = TableFactor::Derived { lateral: true, subquery: Box::new(query), alias, sample: None };
}
