//! Columns of one `SELECT` that DataFusion would call the same, which it refuses: `SELECT a, a`, `SELECT a, a::text` (it leaves
//! casts out of names) and `SELECT *, a`. All but one of them get an alias: `a_1`.

use std::collections::HashSet;
use std::convert::Infallible;
use std::mem;
use std::ops::ControlFlow;

use datafusion::common::DataFusionError;
use datafusion::sql::sqlparser::ast::{Expr, Ident, Select, SelectItem, Value, VisitMut, VisitorMut};

/// Names such columns apart, if that is what planning failed with. True if something was changed, and planning may succeed now.
pub(super) struct Apart {
    /// The name that two columns had, which a `*` may bring.
    name: String,
    pub(super) is_changed: bool,
}

impl Apart {
    pub(super) fn after(error: &DataFusionError) -> Option<Self> {
        let DataFusionError::Plan(message) = error.find_root() else { return None };
        let (_, rest) =
            message.split_once("Projections require unique expression names but the expression \"")?;
        // "X" at position 0 and "Y" at position 1 have the same name
        let (_, rest) = rest.split_once("\" at position ")?;
        let (second, _) = rest.split_once(" and \"")?.1.split_once("\" at position ")?;
        Some(Self { name: name_in(second), is_changed: false })
    }

    fn in_select(&mut self, select: &mut Select) {
        let names: Vec<Option<String>> = select.projection.iter().map(name_of).collect();
        let mut taken: HashSet<String> = names.iter().flatten().cloned().collect();
        let has_wildcard = names.iter().any(Option::is_none);
        let mut seen = HashSet::new();
        if has_wildcard {
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
}

impl VisitorMut for Apart {
    type Break = Infallible;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
        self.in_select(select);
        ControlFlow::Continue(())
    }
}

/// The name of a column as DataFusion writes it in an error: `t.a`, `CAST(t.a AS Utf8)` or `Int64(1) AS a`.
fn name_in(written: &str) -> String {
    let mut inner = written;
    while let Some((cast, _)) = inner
        .strip_prefix("CAST(")
        .or_else(|| inner.strip_prefix("TRY_CAST("))
        .and_then(|inner| inner.rsplit_once(" AS "))
    {
        inner = cast;
    }
    let name = match inner.rsplit_once(" AS ") {
        Some((_, alias)) => alias,
        None => inner.rsplit('.').next().unwrap_or(inner),
    };
    name.trim_matches('"').to_owned()
}

/// What DataFusion calls an item, as far as its text tells. `None` is for a `*`.
fn name_of(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(normalized(alias)),
        SelectItem::UnnamedExpr(expr) => {
            let mut expr = expr.clone();
            let ControlFlow::Continue(()) = expr.visit(&mut WithoutCasts);
            Some(match &expr {
                Expr::Identifier(name) => normalized(name),
                Expr::CompoundIdentifier(parts) => parts.last().map(normalized).unwrap_or_default(),
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

fn normalized(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

struct WithoutCasts;

impl VisitorMut for WithoutCasts {
    type Break = Infallible;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        if let Expr::Cast { expr: inner, .. } | Expr::Nested(inner) = expr {
            *expr = take(inner);
        }
        ControlFlow::Continue(())
    }
}

fn take(expr: &mut Expr) -> Expr {
    mem::replace(expr, Expr::value(Value::Null))
}

#[cfg(test)]
mod tests {
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
            ("SELECT *, a FROM t", "t.a", "SELECT *, a AS \"a_1\" FROM t"),
            ("SELECT *, b, a::DATE FROM t", "CAST(t.a AS Date32)", "SELECT *, b, a::DATE AS \"a_1\" FROM t"),
            ("SELECT t.*, 1 AS a FROM t", "Int64(1) AS a", "SELECT t.*, 1 AS \"a_1\" FROM t"),
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
    fn another_error_is_no_reason_to_change_anything() {
        for message in
            ["", "Projections require unique expression names but the expression \"a", "no such table"]
        {
            assert!(Apart::after(&DataFusionError::Plan(message.to_owned())).is_none(), "{message}");
        }
    }
}
