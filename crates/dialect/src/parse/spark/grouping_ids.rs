//! `grouping_id()` and `grouping__id`: the bits of all keys of a query.

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArguments, GroupByExpr, GroupByWithModifier, Ident, OrderByKind, Query, Select, SelectItem,
    SetExpr, Value, ValueWithSpan,
};

use crate::parse::function_call::function_call;
use crate::parse::visit::each_expression;

const FUNCTION: &str = "grouping_id";

/// Names the keys in such calls of a query.
pub(super) fn name_keys(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let Some(keys) = keys_of(select) else { return };
    let name = |expr: &mut Expr| {
        each_expression(expr, &mut |expr| {
            let is_call = match expr {
                Expr::Identifier(name) => name.value.eq_ignore_ascii_case("grouping__id"),
                Expr::Function(call) => {
                    let is_empty = match &call.args {
                        FunctionArguments::List(list) => list.args.is_empty(),
                        _ => false,
                    };
                    is_empty && call.name.to_string().eq_ignore_ascii_case(FUNCTION)
                }
                _ => false,
            };
            if is_call {
                *expr = function_call(Ident::new(FUNCTION), keys.iter().cloned());
            }
        });
    };
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            name(expr);
        }
    }
    select.having.iter_mut().for_each(name);
    if let Some(order) = &mut query.order_by
        && let OrderByKind::Expressions(keys) = &mut order.kind
    {
        keys.iter_mut().for_each(|key| name(&mut key.expr));
    }
}

/// The keys of all grouping sets, each once; `None` where there are no sets, and where a key is a place.
fn keys_of(select: &Select) -> Option<Vec<Expr>> {
    let GroupByExpr::Expressions(written, modifiers) = &select.group_by else { return None };
    let mut keys: Vec<Expr> = Vec::new();
    let mut add = |key: &Expr| {
        if !keys.contains(key) {
            keys.push(key.clone());
        }
    };
    let mut has_sets = !modifiers.is_empty();
    for key in written {
        match key {
            Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => {
                has_sets = true;
                sets.iter().flatten().for_each(&mut add);
            }
            key => add(key),
        }
    }
    for modifier in modifiers {
        if let GroupByWithModifier::GroupingSets(Expr::GroupingSets(sets)) = modifier {
            sets.iter().flatten().for_each(&mut add);
        }
    }
    let is_column = |key: &Expr| {
        !matches!(
            key,
            Expr::Value(ValueWithSpan { value: Value::Number(..), .. }) | Expr::Tuple(_) | Expr::Nested(_)
        )
    };
    (has_sets && keys.iter().all(is_column)).then_some(keys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::template;

    #[test]
    fn all_keys_are_named() {
        for (sql, expected) in [
            (
                "SELECT grouping__id, grouping_id() FROM t GROUP BY CUBE (a, b) ORDER BY grouping__id",
                "SELECT grouping_id(a, b), grouping_id(a, b) FROM t GROUP BY CUBE (a, b) ORDER BY grouping_id(a, b)",
            ),
            (
                "SELECT a FROM t GROUP BY GROUPING SETS ((b), (a, b)) HAVING grouping__id > 0",
                "SELECT a FROM t GROUP BY GROUPING SETS ((b), (a, b)) HAVING grouping_id(b, a) > 0",
            ),
            ("SELECT grouping__id FROM t", "SELECT grouping__id FROM t"),
        ] {
            let mut query = template::query(sql);
            name_keys(&mut query);
            assert_eq!(query.to_string(), expected);
        }
    }
}
