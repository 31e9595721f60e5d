//! `ARRAY(SELECT …)`, the list of the values of a query's column, in its order: empty if there are none.

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArgumentClause, FunctionArguments, OrderByKind, Query, TableFactor,
};

use super::template;
use super::visit::each_expression;

/// Writes the list of a query as that of an aggregate over it. A query whose order is by something else than its column stays: it is
/// refused.
pub(super) fn write_out(expr: &mut Expr) {
    let Expr::Function(call) = expr else { return };
    if !call.name.to_string().eq_ignore_ascii_case("array") {
        return;
    }
    let FunctionArguments::Subquery(query) = &mut call.args else { return };
    let Some(order) = order_of_values(query) else { return };
    let mut list = template::query("SELECT coalesce(array_agg(v), []) FROM (SELECT 1) AS q (v)");
    let select = template::select(&mut list);
    if let TableFactor::Derived { subquery, .. } = &mut select.from[0].relation {
        std::mem::swap(subquery, query);
    }
    each_expression(&mut select.projection, &mut |expr| {
        if let Expr::Function(call) = expr
            && call.name.to_string() == "array_agg"
            && let FunctionArguments::List(list) = &mut call.args
        {
            list.clauses.extend(order.clone());
        }
    });
    *expr = Expr::Subquery(Box::new(list));
}

/// The order of a query's only column, as that of the values of an aggregate; none is an empty one. `None` if it is by something else.
fn order_of_values(query: &mut Query) -> Option<Vec<FunctionArgumentClause>> {
    let Some(order) = &query.order_by else { return Some(Vec::new()) };
    let OrderByKind::Expressions(keys) = &order.kind else { return None };
    let [key] = keys.as_slice() else { return None };
    let is_column = match &key.expr {
        Expr::Value(value) => value.value.to_string() == "1",
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
            let select = crate::names::column_texts::select_of(query)?;
            match select.projection.as_slice() {
                [item] => item.to_string() == key.expr.to_string(),
                _ => false,
            }
        }
        _ => false,
    };
    if !is_column {
        return None;
    }
    let mut key = key.clone();
    key.expr = template::expr("v");
    Some(vec![FunctionArgumentClause::OrderBy(vec![key])])
}

#[cfg(test)]
mod tests {
    use crate::parse::tests::called;

    #[test]
    fn a_query_is_the_list_of_its_values() {
        for (written, expected) in [
            ("ARRAY(SELECT a FROM t)", "(SELECT coalesce(array_agg(v), []) FROM (SELECT a FROM t) AS q (v))"),
            (
                "array(SELECT a FROM t ORDER BY a DESC LIMIT 2)",
                "(SELECT coalesce(array_agg(v ORDER BY v DESC), []) FROM \
                 (SELECT a FROM t ORDER BY a DESC LIMIT 2) AS q (v))",
            ),
            ("array(SELECT a FROM t ORDER BY b)", "array(SELECT a FROM t ORDER BY b)"),
        ] {
            assert_eq!(called(&format!("SELECT {written}")), format!("SELECT {expected}"), "{written}");
        }
    }
}
