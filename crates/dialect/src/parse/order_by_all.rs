//! `ORDER BY ALL`, by all columns from left to right, which the parser takes for a column of that name in most dialects.

use datafusion::sql::sqlparser::ast::{Expr, OrderByKind, Query};

/// Orders a query by all of its columns, if that is what it says.
pub(super) fn complete(query: &mut Query) {
    let Some(order) = &mut query.order_by else { return };
    let options = match &order.kind {
        OrderByKind::Expressions(keys) => match keys.as_slice() {
            [key] if key.with_fill.is_none() && is_all(&key.expr) => key.options,
            _ => return,
        },
        OrderByKind::All(_) => return,
    };
    order.kind = OrderByKind::All(options);
}

fn is_all(key: &Expr) -> bool {
    matches!(key, Expr::Identifier(name) if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all"))
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::{DFParser, Statement};
    use datafusion::sql::sqlparser::ast::Statement as Sql;

    use super::*;

    #[test]
    fn all_is_no_column_unless_it_is_quoted() {
        for (written, is_all) in [
            ("SELECT a FROM t ORDER BY ALL", true),
            ("SELECT a FROM t ORDER BY all DESC NULLS FIRST", true),
            ("SELECT a FROM t ORDER BY \"all\"", false),
            ("SELECT a FROM t ORDER BY a, b", false),
        ] {
            let statement = DFParser::parse_sql(written).unwrap().pop_front().unwrap();
            let Statement::Statement(statement) = statement else { panic!("{written}") };
            let Sql::Query(mut query) = *statement else { panic!("{written}") };
            complete(&mut query);
            assert_eq!(matches!(query.order_by.unwrap().kind, OrderByKind::All(_)), is_all, "{written}");
        }
    }
}
