//! `PIVOT` and `UNPIVOT` of a table, written out as the queries that they stand for.
//!
//! `t PIVOT (sum(x) FOR k IN (1, 2))` groups by the columns of `t` that it does not name, with `sum(x) FILTER (WHERE k = 1)` as the column
//! `1`. `t UNPIVOT (v FOR n IN (a, b))` has a row for each of `a` and `b` that is not null.

use std::collections::BTreeMap;
use std::mem;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ExcludeSelectItem, Expr, ExprWithAlias, FunctionArguments, Ident, NullInclusion,
    ObjectName, PivotValueSource, SelectItem, TableAlias, TableFactor, TableWithJoins, Value,
    WildcardAdditionalOptions,
};
use yeoul_base::ErrorKind;

use super::function_call::function_call;
use super::template;
use super::visit::each_expression;
use crate::names::normalized;
use crate::{Error, Result};

/// The most columns that a `PIVOT` makes.
const COLUMNS_MAX: usize = 10_000;

/// Writes a `PIVOT` or `UNPIVOT` out.
///
/// # Errors
/// `Invalid` for values that are not listed, what is no aggregate, and other forms that are not honoured; `ResourceExhausted` for more
/// than [`COLUMNS_MAX`] columns.
pub(super) fn write_out(factor: &mut TableFactor) -> Result<()> {
    match factor {
        TableFactor::Pivot {
            table,
            aggregate_functions,
            value_column,
            value_source,
            default_on_null,
            alias,
        } => {
            if default_on_null.is_some() {
                return Err(refused("DEFAULT ON NULL in PIVOT", "coalesce(column, value) in the SELECT"));
            }
            let values = match value_source {
                PivotValueSource::List(values) => mem::take(values),
                PivotValueSource::Any(_) | PivotValueSource::Subquery(_) => {
                    return Err(refused("PIVOT on values that are not listed", "FOR column IN (1, 2, …)"));
                }
            };
            let table = mem::replace(table.as_mut(), template::table("t"));
            let pivot = Pivot { aggregates: mem::take(aggregate_functions), keys: mem::take(value_column) };
            *factor = derived(pivot.select_items(values)?, true, table, alias.take());
        }
        TableFactor::Unpivot { table, value, name, columns, null_inclusion, alias } => {
            let Expr::Identifier(value) = value else {
                return Err(refused("UNPIVOT into several columns", "a UNION ALL of a SELECT for each"));
            };
            let table = mem::replace(table.as_mut(), template::table("t"));
            let keeps_nulls = matches!(null_inclusion, Some(NullInclusion::IncludeNulls));
            let items = unpivoted(mem::take(columns), name, value)?;
            if keeps_nulls {
                *factor = derived(items, false, table, alias.take());
            } else {
                let mut query = template::query("SELECT * FROM t WHERE x IS NOT NULL");
                let select = template::select(&mut query);
                select.from[0].relation = derived(items, false, table, None);
                select.selection = Some(Expr::IsNotNull(Box::new(Expr::Identifier(value.clone()))));
                *factor = TableFactor::Derived {
                    lateral: false,
                    subquery: Box::new(query),
                    alias: alias.take(),
                    sample: None,
                };
            }
        }
        _ => {}
    }
    Ok(())
}

struct Pivot {
    aggregates: Vec<ExprWithAlias>,
    keys: Vec<Expr>,
}

impl Pivot {
    fn select_items(mut self, values: Vec<ExprWithAlias>) -> Result<Vec<SelectItem>> {
        if values.len().saturating_mul(self.aggregates.len()) > COLUMNS_MAX {
            let text = format!("PIVOT makes more than {COLUMNS_MAX} columns");
            return Err(Error::new(ErrorKind::ResourceExhausted, text)
                .with_hint("write GROUP BY with the column of the values"));
        }
        let mut named = BTreeMap::new();
        for expr in self.keys.iter_mut().chain(self.aggregates.iter_mut().map(|each| &mut each.expr)) {
            add_columns(expr, &mut named);
        }
        let mut items = vec![all_but(named.into_values())];
        for ExprWithAlias { expr: value, alias } in values {
            let condition = self.is_at(&value)?;
            let value = match alias {
                Some(alias) => alias.value,
                None => text_of(&value),
            };
            for aggregate in &self.aggregates {
                let name = match (&aggregate.alias, self.aggregates.len()) {
                    (None, 1) => value.clone(),
                    (None, _) => format!("{value}_{}", aggregate.expr),
                    (Some(alias), _) => format!("{value}_{}", alias.value),
                };
                let expr = filtered(aggregate.expr.clone(), &condition)?;
                items.push(SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) });
            }
        }
        Ok(items)
    }

    /// The condition that the keys have a value.
    fn is_at(&self, value: &Expr) -> Result<Expr> {
        let values = match (value, self.keys.len()) {
            (Expr::Tuple(values), keys) if values.len() == keys => values.as_slice(),
            (value, 1) => std::slice::from_ref(value),
            (value, keys) => {
                let text = format!("PIVOT by {keys} columns has the value {value}");
                return Err(Error::new(ErrorKind::Invalid, text)
                    .with_hint(format!("write {keys} values in parentheses for each")));
            }
        };
        let equal = |key: &Expr, value: &Expr| {
            let [key, value] = [key, value].map(|side| Box::new(Expr::Nested(Box::new(side.clone()))));
            Expr::IsNotDistinctFrom(key, value)
        };
        let conditions = self.keys.iter().zip(values).map(|(key, value)| equal(key, value));
        Ok(conditions.reduce(and).expect("a PIVOT has a column of values"))
    }
}

fn and(left: Expr, right: Expr) -> Expr {
    let [left, right] = [left, right].map(|side| Box::new(Expr::Nested(Box::new(side))));
    Expr::BinaryOp { left, op: BinaryOperator::And, right }
}

/// An aggregate of the rows alone for which a condition holds.
fn filtered(aggregate: Expr, condition: &Expr) -> Result<Expr> {
    let Expr::Function(mut call) = aggregate else {
        return Err(refused("PIVOT with more than a call of an aggregate", "the aggregate alone: sum(x)"));
    };
    if call.over.is_some() || matches!(call.args, FunctionArguments::None) {
        return Err(refused("PIVOT with something else than an aggregate", "sum(x), count(*), …"));
    }
    let own = call.filter.take();
    call.filter = Some(Box::new(match own {
        Some(own) => and(*own, condition.clone()),
        None => condition.clone(),
    }));
    Ok(Expr::Function(call))
}

/// The text of a value, as it names a column.
fn text_of(value: &Expr) -> String {
    match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        Expr::Tuple(values) => values.iter().map(text_of).collect::<Vec<_>>().join("_"),
        Expr::Nested(value) => text_of(value),
        other => other.to_string(),
    }
}

/// Adds the columns that an expression names, by their names.
fn add_columns(expr: &mut Expr, names: &mut BTreeMap<String, Ident>) {
    each_expression(expr, &mut |expr| {
        let name = match expr {
            Expr::Identifier(name) => name,
            Expr::CompoundIdentifier(parts) => match parts.last() {
                Some(name) => name,
                None => return,
            },
            _ => return,
        };
        names.entry(normalized(name)).or_insert_with(|| name.clone());
    });
}

fn all_but(names: impl Iterator<Item = Ident>) -> SelectItem {
    let names: Vec<ObjectName> = names.map(ObjectName::from).collect();
    SelectItem::Wildcard(WildcardAdditionalOptions {
        opt_exclude: (!names.is_empty()).then_some(ExcludeSelectItem::Multiple(names)),
        ..WildcardAdditionalOptions::default()
    })
}

fn unpivoted(columns: Vec<ExprWithAlias>, name: &Ident, value: &Ident) -> Result<Vec<SelectItem>> {
    let mut excluded = Vec::with_capacity(columns.len());
    let (mut names, mut values) = (Vec::with_capacity(columns.len()), Vec::with_capacity(columns.len()));
    for ExprWithAlias { expr, alias } in columns {
        let Expr::Identifier(column) = &expr else {
            return Err(refused("UNPIVOT of something else than a column", "names of columns: IN (a, b)"));
        };
        let said = alias.map_or_else(|| normalized(column), |alias| alias.value);
        names.push(Expr::value(Value::SingleQuotedString(said)));
        excluded.push(column.clone());
        values.push(expr);
    }
    let unnested = |elements: Vec<Expr>, alias: &Ident| {
        let list = function_call(Ident::new("make_array"), elements);
        SelectItem::ExprWithAlias { expr: function_call(Ident::new("unnest"), [list]), alias: alias.clone() }
    };
    Ok(vec![all_but(excluded.into_iter()), unnested(names, name), unnested(values, value)])
}

/// The table of a query with these items over a table.
fn derived(
    items: Vec<SelectItem>,
    is_grouped: bool,
    table: TableFactor,
    alias: Option<TableAlias>,
) -> TableFactor {
    let mut query =
        template::query(if is_grouped { "SELECT * FROM t GROUP BY ALL" } else { "SELECT * FROM t" });
    let select = template::select(&mut query);
    select.projection = items;
    select.from = vec![TableWithJoins { relation: table, joins: Vec::new() }];
    TableFactor::Derived { lateral: false, subquery: Box::new(query), alias, sample: None }
}

fn refused(what: &str, instead: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("not supported: {what}"))
        .with_hint(format!("write instead: {instead}"))
}

#[cfg(test)]
mod tests {
    use crate::parse::tests::{meant, not_meant};

    #[test]
    fn tables_are_turned_by_queries() {
        for (written, expected) in [
            (
                "t PIVOT (sum(x) FOR k IN (1, 'two' AS zwei))",
                "(SELECT * EXCLUDE (k, x), sum(x) FILTER (WHERE (k) IS NOT DISTINCT FROM (1)) AS \"1\", \
                 sum(x) FILTER (WHERE (k) IS NOT DISTINCT FROM ('two')) AS \"zwei\" FROM t GROUP BY ALL)",
            ),
            (
                "t PIVOT (count(*) FILTER (WHERE z) AS n, max(x) FOR (k, l) IN ((1, 2))) AS p",
                "(SELECT * EXCLUDE (k, l, x, z), count(*) FILTER (WHERE (z) AND \
                 (((k) IS NOT DISTINCT FROM (1)) AND ((l) IS NOT DISTINCT FROM (2)))) AS \"1_2_n\", \
                 max(x) FILTER (WHERE ((k) IS NOT DISTINCT FROM (1)) AND ((l) IS NOT DISTINCT FROM (2))) \
                 AS \"1_2_max(x)\" FROM t GROUP BY ALL) AS p",
            ),
            (
                "t UNPIVOT (v FOR n IN (a, B AS c)) AS u",
                "(SELECT * FROM (SELECT * EXCLUDE (a, B), unnest(make_array('a', 'c')) AS n, \
                 unnest(make_array(a, B)) AS v FROM t) WHERE v IS NOT NULL) AS u",
            ),
            (
                "t UNPIVOT INCLUDE NULLS (v FOR n IN (a))",
                "(SELECT * EXCLUDE (a), unnest(make_array('a')) AS n, unnest(make_array(a)) AS v FROM t)",
            ),
        ] {
            assert_eq!(
                meant(&format!("SELECT * FROM {written}")),
                format!("SELECT * FROM {expected}"),
                "{written}"
            );
        }
    }

    #[test]
    fn other_forms_are_refused() {
        for (written, words) in [
            ("t PIVOT (sum(x) FOR k IN (ANY))", "values that are not listed"),
            ("t PIVOT (sum(x) FOR k IN (SELECT 1))", "values that are not listed"),
            ("t PIVOT (sum(x) FOR (k, l) IN (1))", "PIVOT by 2 columns"),
            ("t PIVOT (sum(x) FOR k IN (1) DEFAULT ON NULL (0))", "DEFAULT ON NULL"),
            ("t UNPIVOT (v FOR n IN (a + 1))", "something else than a column"),
        ] {
            let error = not_meant(&format!("SELECT * FROM {written}"));
            assert!(error.to_string().contains(words), "{written}: {error}");
        }
    }
}
