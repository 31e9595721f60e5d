//! `COLUMNS('regex')`, `COLUMNS(*)`, `COLUMNS(['a', 'b'])` among the columns of a `SELECT`: an item that has one stands for as many as there
//! are such columns, as in DuckDB.

use std::ops::ControlFlow;

use datafusion::common::Column;
use datafusion::sql::sqlparser::ast::{
    Array, ExcludeSelectItem, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    ObjectName, SelectItem, Value, ValueWithSpan, WildcardAdditionalOptions, visit_expressions,
};
use regex::Regex;
use yeoul_base::ErrorKind;

use super::normalized;
use crate::parse::visit::each_expression;
use crate::{Error, Result};

/// True if an item stands for as many columns as its `COLUMNS` has.
pub(crate) fn stands_in(item: &SelectItem) -> bool {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, alias: _ } => {
            let found = visit_expressions(expr, |expr| match called(expr) {
                Some(_) => ControlFlow::Break(()),
                None => ControlFlow::Continue(()),
            });
            found.is_break()
        }
        _ => false,
    }
}

/// The call of `COLUMNS` that an expression is.
fn called(expr: &Expr) -> Option<&Function> {
    let Expr::Function(call) = expr else { return None };
    let [part] = call.name.0.as_slice() else { return None };
    let name = part.as_ident()?;
    (name.quote_style.is_none() && name.value.eq_ignore_ascii_case("columns")).then_some(call)
}

/// The items that one with `COLUMNS` stands for, if a `*` stands for `columns`.
///
/// # Errors
/// `Invalid` for a set that has none of them, for several sets in an item, and for sets in other words.
pub(crate) fn expanded(item: &SelectItem, columns: &[Column]) -> Result<Vec<SelectItem>> {
    let (expr, alias) = match item {
        SelectItem::UnnamedExpr(expr) => (expr, None),
        SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias)),
        _ => return Ok(vec![item.clone()]),
    };
    let mut calls = Vec::new();
    each_expression(&mut expr.clone(), &mut |expr| calls.extend(called(expr).cloned()));
    let Some((call, others)) = calls.split_first() else { return Ok(vec![item.clone()]) };
    if others.iter().any(|other| other.to_string() != call.to_string()) {
        return Err(refused(
            "several sets of COLUMNS in one expression",
            "the same set, or an expression for each",
        ));
    }
    let set = Set::of(call)?;
    let found = set.of_columns(columns)?;
    Ok(found.into_iter().map(|column| replaced(expr, alias, column, &set)).collect())
}

fn refused(what: &str, instead: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("not supported: {what}"))
        .with_hint(format!("write instead: {instead}"))
}

/// The item for one column, which has its name unless another one is said.
fn replaced(expr: &Expr, alias: Option<&Ident>, column: &Column, set: &Set) -> SelectItem {
    if alias.is_none() && called(expr).is_some() {
        return SelectItem::UnnamedExpr(name_of(column));
    }
    let mut expr = expr.clone();
    each_expression(&mut expr, &mut |expr| {
        if called(expr).is_some() {
            *expr = name_of(column);
        }
    });
    let name = alias.map_or_else(|| column.name.clone(), |alias| set.named(alias, &column.name));
    SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) }
}

/// A column with the table that has it.
fn name_of(column: &Column) -> Expr {
    let table = column.relation.iter().flat_map(|table| table.to_vec());
    let mut parts: Vec<Ident> =
        table.chain([column.name.clone()]).map(|part| Ident::with_quote('"', part)).collect();
    match parts.len() {
        1 => Expr::Identifier(parts.remove(0)),
        _ => Expr::CompoundIdentifier(parts),
    }
}

/// A set of columns.
enum Set {
    /// Those whose names have a part that matches.
    Matching(Regex),
    /// Those of these names, in this order.
    Named(Vec<String>),
    /// All, or all of a table, but for some.
    All { table: Option<String>, except: Vec<String> },
}

impl Set {
    fn of(call: &Function) -> Result<Self> {
        let wrong = || {
            refused(
                &format!("{call}"),
                "COLUMNS('regular expression'), COLUMNS(['name', 'name']), COLUMNS(*), COLUMNS(t.*) or COLUMNS(* EXCLUDE (name))",
            )
        };
        let FunctionArguments::List(list) = &call.args else { return Err(wrong()) };
        let [FunctionArg::Unnamed(argument)] = list.args.as_slice() else { return Err(wrong()) };
        let has_clauses = list.duplicate_treatment.is_some()
            || !list.clauses.is_empty()
            || call.filter.is_some()
            || call.over.is_some()
            || call.null_treatment.is_some()
            || !call.within_group.is_empty();
        if has_clauses {
            return Err(wrong());
        }
        match argument {
            FunctionArgExpr::Wildcard => Ok(Self::All { table: None, except: Vec::new() }),
            FunctionArgExpr::QualifiedWildcard(table) => {
                Ok(Self::All { table: Some(last(table).ok_or_else(wrong)?), except: Vec::new() })
            }
            FunctionArgExpr::WildcardWithOptions(options) => {
                Ok(Self::All { table: None, except: excluded(options).ok_or_else(wrong)? })
            }
            FunctionArgExpr::Expr(Expr::Array(Array { elem, named: _ })) => {
                let names =
                    elem.iter().map(|name| text(name).map(str::to_lowercase)).collect::<Option<Vec<_>>>();
                Ok(Self::Named(names.ok_or_else(wrong)?))
            }
            FunctionArgExpr::Expr(expr) => {
                let pattern = text(expr).ok_or_else(wrong)?;
                let regex = Regex::new(pattern).map_err(|error| {
                    Error::new(ErrorKind::Invalid, format!("'{pattern}' is no regular expression"))
                        .with_source(error)
                })?;
                Ok(Self::Matching(regex))
            }
        }
    }

    fn of_columns<'c>(&self, columns: &'c [Column]) -> Result<Vec<&'c Column>> {
        let known = || {
            let mut names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
            names.dedup();
            crate::suggest::list(&names)
        };
        let missing = |name: &str| {
            Error::new(ErrorKind::NotFound, format!("COLUMNS names {name}, which is no column"))
                .with_hint(format!("the columns are {}", known()))
        };
        let found: Vec<&Column> = match self {
            Self::Matching(regex) => columns.iter().filter(|column| regex.is_match(&column.name)).collect(),
            Self::Named(names) => {
                let mut found = Vec::new();
                for name in names {
                    let before = found.len();
                    found.extend(columns.iter().filter(|column| column.name.to_lowercase() == *name));
                    if found.len() == before {
                        return Err(missing(name));
                    }
                }
                found
            }
            Self::All { table, except } => {
                if let Some(name) =
                    except.iter().find(|name| !columns.iter().any(|column| column.name == **name))
                {
                    return Err(missing(name));
                }
                let is_of = |column: &&Column| {
                    table.is_none() || column.relation.as_ref().map(|table| table.table()) == table.as_deref()
                };
                columns.iter().filter(is_of).filter(|column| !except.contains(&column.name)).collect()
            }
        };
        if found.is_empty() {
            return Err(Error::new(ErrorKind::NotFound, "COLUMNS of no column")
                .with_hint(format!("the columns are {}", known())));
        }
        Ok(found)
    }

    /// The alias for a column: `\1` in it is the first group of the regular expression, `\0` the name of the column.
    fn named(&self, alias: &Ident, column: &str) -> String {
        let Self::Matching(regex) = self else { return normalized(alias) };
        let Some(groups) = regex.captures(column).filter(|_| alias.value.contains('\\')) else {
            return normalized(alias);
        };
        let mut name = alias.value.replace("\\0", column);
        for number in 1..=9 {
            name =
                name.replace(&format!("\\{number}"), groups.get(number).map_or("", |group| group.as_str()));
        }
        name
    }
}

/// The names behind `* EXCLUDE`; `None` if something else stands there.
fn excluded(options: &WildcardAdditionalOptions) -> Option<Vec<String>> {
    let WildcardAdditionalOptions {
        wildcard_token: _,
        opt_ilike: None,
        opt_exclude,
        opt_except: None,
        opt_replace: None,
        opt_rename: None,
        opt_alias: None,
    } = options
    else {
        return None;
    };
    match opt_exclude {
        None => Some(Vec::new()),
        Some(ExcludeSelectItem::Single(name)) => last(name).map(|name| vec![name]),
        Some(ExcludeSelectItem::Multiple(names)) => names.iter().map(last).collect(),
    }
}

fn last(name: &ObjectName) -> Option<String> {
    name.0.last()?.as_ident().map(normalized)
}

fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), span: _ }) => Some(text),
        _ => None,
    }
}
