//! Columns of one `SELECT` that DataFusion would call the same, which it refuses: `SELECT a, a`, `SELECT a, a::text` (it leaves
//! casts out of names), `SELECT *, a` and `SELECT t.*, 1 AS a`. All but one of them get an alias: `a_1`.

use std::collections::HashSet;
use std::convert::Infallible;
use std::mem;
use std::ops::ControlFlow;

use datafusion::common::{DataFusionError, SchemaError};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, Expr, Ident, Select, SelectItem, TableFactor, TableWithJoins, Value,
    VisitorMut,
};

use crate::names::column_texts::select_of;
use crate::parse::visit::walk_in;

/// Names such columns apart, if that is what planning failed with. True if something was changed, and planning may succeed now.
pub(crate) struct Apart {
    /// The name that two columns had.
    name: String,
    /// The table that it is of, as it is written: one whose `*` may bring it.
    table: Option<String>,
    pub(crate) is_changed: bool,
}

impl Apart {
    pub(crate) fn after(error: &DataFusionError) -> Option<Self> {
        let message = match error.find_root() {
            DataFusionError::Plan(message) => message,
            // Of a table's column and a computed one: `SELECT *, 1 AS a`.
            DataFusionError::SchemaError(error, _) => {
                let SchemaError::AmbiguousReference { field } = error.as_ref() else { return None };
                let table = field.relation.as_ref().map(|table| table.table().to_owned());
                return Some(Self { name: field.name.clone(), table, is_changed: false });
            }
            _ => return None,
        };
        let (_, rest) =
            message.split_once("Projections require unique expression names but the expression \"")?;
        // "X" at position 0 and "Y" at position 1 have the same name
        let (_, rest) = rest.split_once("\" at position ")?;
        let (second, _) = rest.split_once(" and \"")?.1.split_once("\" at position ")?;
        let (table, name) = name_in(second);
        Some(Self { name, table, is_changed: false })
    }

    fn in_select(&mut self, select: &mut Select) {
        let names: Vec<Option<String>> = select.projection.iter().map(name_of).collect();
        let mut taken: HashSet<String> = names.iter().flatten().cloned().collect();
        let mut seen = HashSet::new();
        if names.iter().any(Option::is_none) && self.may_come_from(&select.from) {
            seen.insert(self.name.clone());
        }
        // A column keeps its name before what is computed of it.
        let mut order: Vec<usize> = (0..names.len()).collect();
        order.sort_by_key(|place| !is_column(&select.projection[*place]));
        for place in order {
            let Some(name) = &names[place] else { continue };
            if seen.insert(name.clone()) {
                continue;
            }
            let mut numbered = (1..).map(|number| format!("{name}_{number}"));
            let Some(alias) = numbered.find(|alias| !taken.contains(alias)) else { continue };
            taken.insert(alias.clone());
            let alias = Ident::with_quote('"', alias);
            match &mut select.projection[place] {
                SelectItem::ExprWithAlias { alias: given, .. } => *given = alias,
                item => {
                    let SelectItem::UnnamedExpr(expr) = item else { continue };
                    *item = SelectItem::ExprWithAlias { expr: take(expr), alias };
                }
            }
            self.is_changed = true;
        }
    }

    /// True if a `*` over these tables may bring the column. One that does not keeps the name of what stands beside it, by which the
    /// query around knows that.
    fn may_come_from(&self, tables: &[TableWithJoins]) -> bool {
        let mut tables = tables.iter().flat_map(|table| {
            [&table.relation].into_iter().chain(table.joins.iter().map(|join| &join.relation))
        });
        tables.any(|table| match table {
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. } => {
                self.table.as_deref() == Some(&normalized(&alias.name))
            }
            TableFactor::Table { name, .. } => {
                let name = name.0.last().and_then(|part| part.as_ident()).map(normalized);
                self.table == name
            }
            _ => true,
        })
    }
}

impl VisitorMut for Apart {
    type Break = Infallible;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
        self.in_select(select);
        ControlFlow::Continue(())
    }
}

/// The table and the name of a column as DataFusion writes it in an error: `t.a`, `CAST(t.a AS Utf8)` or `Int64(1) AS a`.
fn name_in(written: &str) -> (Option<String>, String) {
    let mut inner = written;
    while let Some((cast, _)) = inner
        .strip_prefix("CAST(")
        .or_else(|| inner.strip_prefix("TRY_CAST("))
        .and_then(|inner| inner.rsplit_once(" AS "))
    {
        inner = cast;
    }
    let (table, name) = match inner.rsplit_once(" AS ") {
        Some((_, alias)) => (None, alias),
        None => inner.rsplit_once('.').map_or((None, inner), |(table, name)| (Some(table), name)),
    };
    let bare = |name: &str| name.trim_matches('"').to_owned();
    (table.map(bare), bare(name))
}

/// What DataFusion calls an item, as far as its text tells. `None` is for a `*`.
fn name_of(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(normalized(alias)),
        SelectItem::UnnamedExpr(expr) => {
            let mut expr = expr.clone();
            while let Expr::Nested(inner) = &mut expr {
                expr = take(inner);
            }
            if !matches!(expr, Expr::Subquery(_)) {
                let ControlFlow::Continue(()) = walk_in(&mut expr, &mut Bare);
            }
            Some(match &expr {
                Expr::Identifier(name) => normalized(name),
                Expr::CompoundIdentifier(parts) => parts.last().map(normalized).unwrap_or_default(),
                // It has the name of its column.
                Expr::Subquery(query) => {
                    let item = select_of(query).and_then(|select| select.projection.first());
                    item.and_then(name_of).unwrap_or_else(|| expr.to_string())
                }
                other => other.to_string(),
            })
        }
        _ => None,
    }
}

fn is_column(item: &SelectItem) -> bool {
    match item {
        SelectItem::UnnamedExpr(expr) => matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)),
        other => matches!(other, SelectItem::ExprWithAlias { .. }),
    }
}

/// A name as DataFusion takes it: in small letters unless it is quoted.
pub fn normalized(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

/// Leaves out what DataFusion leaves out of names, and tables, which it adds or not as they are needed.
struct Bare;

impl VisitorMut for Bare {
    type Break = Infallible;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        match expr {
            Expr::Cast { expr: inner, .. }
            | Expr::AtTimeZone { timestamp: inner, .. }
            | Expr::Nested(inner) => *expr = take(inner),
            Expr::TypedString(typed) => *expr = Expr::Value(typed.value.clone()),
            // Its names say nothing of a query.
            Expr::Exists { negated, .. } => *expr = named(if *negated { "NOT EXISTS" } else { "EXISTS" }),
            Expr::InSubquery { expr: value, negated, .. } => {
                let of = named(if *negated { "NOT IN" } else { "IN" });
                *expr = Expr::Tuple(vec![take(value), of]);
            }
            Expr::Subquery(_) => *expr = named("SELECT"),
            Expr::BinaryOp { op, .. }
                if matches!(op, BinaryOperator::DuckIntegerDivide | BinaryOperator::MyIntegerDivide) =>
            {
                *op = BinaryOperator::Divide;
            }
            Expr::Identifier(name) => *name = Ident::new(normalized(name)),
            Expr::CompoundIdentifier(parts) => {
                if let Some(name) = parts.last() {
                    *expr = Expr::Identifier(Ident::new(normalized(name)));
                }
            }
            Expr::CompoundFieldAccess { root, access_chain } => {
                while access_chain.len() > 1
                    && let AccessExpr::Dot(name @ Expr::Identifier(_)) = &access_chain[0]
                {
                    **root = name.clone();
                    access_chain.remove(0);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn named(name: &str) -> Expr {
    Expr::Identifier(Ident::with_quote('"', name))
}

fn take(expr: &mut Expr) -> Expr {
    mem::replace(expr, Expr::value(Value::Null))
}

#[cfg(test)]
mod tests {
    use datafusion::common::Column;
    use datafusion::sql::parser::DFParser;

    use super::super::visit;
    use super::*;

    fn apart(sql: &str, second: &str) -> String {
        let message = format!(
            "Projections require unique expression names but the expression \"t.a\" at position 0 and \"{second}\" at position 1 \
             have the same name. Consider aliasing (\"AS\") one of them"
        );
        let mut statement = DFParser::parse_sql(sql).unwrap().pop_front().unwrap();
        let mut apart = Apart::after(&DataFusionError::Plan(message)).unwrap();
        visit(&mut statement, &mut apart);
        assert_eq!(apart.is_changed, statement.to_string() != sql, "{sql}");
        statement.to_string()
    }

    #[test]
    fn all_but_one_of_a_name_get_an_alias() {
        for (sql, second, expected) in [
            ("SELECT a, a FROM t", "t.a", "SELECT a, a AS \"a_1\" FROM t"),
            ("SELECT a, t.A FROM t", "t.a", "SELECT a, t.A AS \"a_1\" FROM t"),
            ("SELECT a, a::TEXT FROM t", "CAST(t.a AS Utf8View)", "SELECT a, a::TEXT AS \"a_1\" FROM t"),
            // The column keeps its name, wherever it stands.
            ("SELECT CAST(a AS TEXT), a FROM t", "t.a", "SELECT CAST(a AS TEXT) AS \"a_1\", a FROM t"),
            (
                "SELECT a::INT, a::TEXT FROM t",
                "CAST(t.a AS Utf8View)",
                "SELECT a::INT, a::TEXT AS \"a_1\" FROM t",
            ),
            ("SELECT 1 AS x, 2 AS x", "Int64(2) AS x", "SELECT 1 AS x, 2 AS \"x_1\""),
            ("SELECT a, a, b AS a_1 FROM t", "t.a", "SELECT a, a AS \"a_2\", b AS a_1 FROM t"),
            (
                "SELECT a + 1, (a::INT) + 1 FROM t",
                "t.a + Int64(1)",
                "SELECT a + 1, (a::INT) + 1 AS \"a + 1_1\" FROM t",
            ),
            (
                "SELECT s['x'], t.s['x'] FROM t",
                "get_field(t.s, Utf8(\"x\"))",
                "SELECT s['x'], t.s['x'] AS \"s['x']_1\" FROM t",
            ),
            (
                "SELECT f(TIMESTAMP '2020-01-01'), f('2020-01-01'::TIMESTAMP)",
                "f(CAST(Utf8(\"2020-01-01\") AS Timestamp(µs)))",
                "SELECT f(TIMESTAMP '2020-01-01'), f('2020-01-01'::TIMESTAMP) AS \"f('2020-01-01')_1\"",
            ),
            ("SELECT *, a FROM t", "t.a", "SELECT *, a AS \"a_1\" FROM t"),
            ("SELECT *, b, a::DATE FROM t", "CAST(t.a AS Date32)", "SELECT *, b, a::DATE AS \"a_1\" FROM t"),
            (
                "SELECT q.*, 1 AS a FROM (SELECT b AS a) AS q, (SELECT a)",
                "Int64(1) AS a",
                "SELECT q.*, 1 AS \"a_1\" FROM (SELECT b AS a) AS q, (SELECT a)",
            ),
            (
                "SELECT * FROM (SELECT a, a FROM t) AS q",
                "t.a",
                "SELECT * FROM (SELECT a, a AS \"a_1\" FROM t) AS q",
            ),
            ("SELECT a, b FROM t", "t.a", "SELECT a, b FROM t"),
        ] {
            assert_eq!(apart(sql, second), expected, "{sql}");
        }
    }

    #[test]
    fn a_name_beside_a_wildcard_is_another_if_that_brings_it() {
        let field = Box::new(Column::new(Some("t"), "a"));
        let error = SchemaError::AmbiguousReference { field };
        let error = DataFusionError::SchemaError(Box::new(error), Box::new(None));
        for (sql, expected) in [
            ("SELECT *, 1 AS a FROM t", "SELECT *, 1 AS \"a_1\" FROM t"),
            ("SELECT x.*, 1 AS a FROM y JOIN x AS t", "SELECT x.*, 1 AS \"a_1\" FROM y JOIN x AS t"),
            ("SELECT t.a, (SELECT 1 AS a) FROM t", "SELECT t.a, (SELECT 1 AS a) AS \"a_1\" FROM t"),
            (
                "SELECT *, a + 1 AS a FROM (SELECT *, 1 AS a FROM s) AS t",
                "SELECT *, a + 1 AS \"a_1\" FROM (SELECT *, 1 AS a FROM s) AS t",
            ),
        ] {
            let mut statement = DFParser::parse_sql(sql).unwrap().pop_front().unwrap();
            visit(&mut statement, &mut Apart::after(&error).unwrap());
            assert_eq!(statement.to_string(), expected);
        }
    }

    #[test]
    fn another_error_is_no_reason_to_change_anything() {
        for message in
            ["", "Projections require unique expression names but the expression \"a", "no such table"]
        {
            assert!(Apart::after(&DataFusionError::Plan(message.to_owned())).is_none(), "{message}");
        }
    }
}
