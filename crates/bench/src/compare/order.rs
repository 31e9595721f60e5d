//! What a query's text tells about the order and the length of its answer.

use datafusion::sql::sqlparser::ast::{
    Expr, OrderByKind, Query, Select, SelectItem, SetExpr, Statement, Value as Literal,
};
use datafusion::sql::sqlparser::dialect::DuckDbDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// The order of a query's answer, as far as its columns show it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Order {
    /// The output columns of the first keys of the outermost `ORDER BY`.
    pub columns: Vec<usize>,
    /// The number of keys. The first one after `columns` is not an output column, so the rest is not compared.
    pub keys: usize,
}

/// The order that `sql` asks for, given an answer with the columns `names`. `None` if the text is not understood.
pub(crate) fn order_of(sql: &str, names: &[String]) -> Option<Order> {
    let mut statements = Parser::parse_sql(&DuckDbDialect {}, sql).ok()?;
    let (Some(Statement::Query(query)), true) = (statements.pop(), statements.is_empty()) else {
        return None;
    };
    let Some(order_by) = &query.order_by else { return Some(Order::default()) };
    let OrderByKind::Expressions(keys) = &order_by.kind else { return None };
    let items = items_of(&query).filter(|items| items.len() == names.len());
    let columns = keys.iter().map_while(|key| column_of(&key.expr, items.as_deref(), names)).collect();
    Some(Order { columns, keys: keys.len() })
}

/// The text without the `LIMIT n` at its end, and n.
pub(crate) fn without_limit(sql: &str) -> Option<(&str, usize)> {
    let text = sql.trim_end_matches(|c: char| c == ';' || c.is_whitespace());
    let rest = text.trim_end_matches(|c: char| c.is_ascii_digit());
    let limit = text[rest.len()..].parse().ok()?;
    let rest = rest.trim_end();
    let split = rest.len().checked_sub("limit".len())?;
    let word = rest.get(split..)?;
    let before = rest[..split].trim_end();
    (word.eq_ignore_ascii_case("limit") && before.len() < split).then_some((before, limit))
}

/// An output column's alias and expression.
type Item = (Option<String>, Expr);

/// The select list. `None` if it has a wildcard or the query is a set operation: then only column names can be matched.
fn items_of(query: &Query) -> Option<Vec<Item>> {
    let select: &Select = match query.body.as_ref() {
        SetExpr::Select(select) => select,
        _ => return None,
    };
    select
        .projection
        .iter()
        .map(|item| match item {
            SelectItem::UnnamedExpr(expr) => Some((None, expr.clone())),
            SelectItem::ExprWithAlias { expr, alias } => Some((Some(alias.value.clone()), expr.clone())),
            _ => None,
        })
        .collect()
}

/// The output column that a key of `ORDER BY` refers to.
fn column_of(key: &Expr, items: Option<&[Item]>, names: &[String]) -> Option<usize> {
    if let Expr::Value(value) = key {
        let Literal::Number(number, _) = &value.value else { return None };
        return number
            .to_string()
            .parse::<usize>()
            .ok()?
            .checked_sub(1)
            .filter(|column| *column < names.len());
    }
    let name = last_part(key);
    let Some(items) = items else {
        let name = name?;
        return names.iter().position(|column| column.eq_ignore_ascii_case(name));
    };
    let text = key.to_string();
    let by_alias = || {
        let Expr::Identifier(name) = key else { return None };
        items.iter().position(|(alias, _)| {
            alias.as_ref().is_some_and(|alias| alias.eq_ignore_ascii_case(&name.value))
        })
    };
    let by_text = || items.iter().position(|(_, expr)| expr.to_string().eq_ignore_ascii_case(&text));
    // `a.x` for a column that is selected as `x`, and vice versa; `a.x` is not `b.x`.
    let by_name = || {
        items.iter().position(|(_, expr)| {
            let one_is_bare = matches!(key, Expr::Identifier(_)) || matches!(expr, Expr::Identifier(_));
            one_is_bare && matches!((name, last_part(expr)), (Some(a), Some(b)) if a.eq_ignore_ascii_case(b))
        })
    };
    by_alias().or_else(by_text).or_else(by_name)
}

/// The column's name in `x`, `a.x` or `s.a.x`.
fn last_part(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Identifier(name) => Some(&name.value),
        Expr::CompoundIdentifier(parts) => parts.last().map(|name| name.value.as_str()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(sql: &str, names: &[&str]) -> (Vec<usize>, usize) {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let order = order_of(sql, &names).unwrap();
        (order.columns, order.keys)
    }

    #[test]
    fn keys_are_found_by_alias_text_name_and_number() {
        assert_eq!(columns("select a, b as c from t order by c desc, A", &["a", "c"]), (vec![1, 0], 2));
        assert_eq!(columns("select sum(x), t.a from t order by t.a, SUM(x)", &["?", "a"]), (vec![1, 0], 2));
        assert_eq!(columns("select t.a, b from t order by a, t.b", &["a", "b"]), (vec![0, 1], 2));
        assert_eq!(columns("select a, b from t order by 2 nulls first, 1", &["a", "b"]), (vec![1, 0], 2));
        let two = "select x.a, y.a from x, y order by y.a, x.a";
        assert_eq!(columns(two, &["a", "a"]), (vec![1, 0], 2));
        assert_eq!(columns("select * from t order by b", &["a", "b"]), (vec![1], 1));
        assert_eq!(columns("select a from t union all select b from u order by a", &["a"]), (vec![0], 1));
        assert_eq!(columns("with q as (select 1 a order by a) select a from q", &["a"]), (vec![], 0));
    }

    #[test]
    fn the_first_key_that_is_not_shown_ends_the_order() {
        assert_eq!(columns("select a, b, c from t order by a, b + c, c", &["a", "b", "c"]), (vec![0], 3));
        assert_eq!(columns("select a from t order by b, a", &["a"]), (vec![], 2));
        assert_eq!(columns("select x.a from x, y order by y.a", &["a"]), (vec![], 1));
        assert_eq!(columns("select a from t order by 2", &["a"]), (vec![], 1));
    }

    #[test]
    fn only_the_last_limit_is_taken_off() {
        assert_eq!(without_limit("select a from t LIMIT 100 ;\n"), Some(("select a from t", 100)));
        assert_eq!(without_limit("select a from t\nlimit\n7"), Some(("select a from t", 7)));
        assert_eq!(without_limit("select a from (select 1 a limit 5) t order by a"), None);
        assert_eq!(without_limit("select a from t where b > 100"), None);
        assert_eq!(without_limit("select a as nolimit 5"), None);
        assert_eq!(without_limit(""), None);
    }
}
