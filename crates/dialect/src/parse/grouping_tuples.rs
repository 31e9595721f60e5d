//! Tuples among the keys of `GROUP BY`: `GROUP BY a, (b, c)` groups by three columns, where DataFusion makes one of `b` and `c`. So does
//! each in `ROLLUP` and `CUBE`, where it refuses them, as it does keys that are there twice.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr};

use super::visit::each_expression;

/// The most sets that a `CUBE` with tuples is written out as: those of 12 items. DataFusion has the same limit for products of sets.
const SETS_MAX: usize = 4096;

/// Takes the tuples of a list of keys apart, and writes `ROLLUP` and `CUBE` out as sets if they have tuples, or perhaps a key twice.
pub(super) fn take_apart(groups: &mut GroupByExpr) {
    let GroupByExpr::Expressions(keys, _) = groups else { return };
    if keys.iter().any(|key| matches!(key, Expr::Tuple(_))) {
        let apart: Vec<Expr> = std::mem::take(keys).into_iter().flat_map(members).collect();
        // Without any key it is one group all the same.
        *keys = if apart.is_empty() { vec![Expr::GroupingSets(vec![Vec::new()])] } else { apart };
    }
    for key in keys {
        let sets = match key {
            Expr::Rollup(items) if is_written_out(items) => rolled_up(items),
            Expr::Cube(items) if is_written_out(items) && 1_usize << items.len().min(63) <= SETS_MAX => {
                cubed(items)
            }
            _ => continue,
        };
        *key = Expr::GroupingSets(sets);
    }
}

fn members(key: Expr) -> Vec<Expr> {
    match key {
        Expr::Tuple(members) => members,
        other => vec![other],
    }
}

fn is_written_out(items: &[Vec<Expr>]) -> bool {
    let mut keys = HashSet::new();
    items.iter().any(|item| item.len() != 1) || !items.iter().flatten().all(|key| keys.insert(bare(key)))
}

/// A key without parentheses and the names of tables: two that are the same are so.
fn bare(key: &Expr) -> String {
    let mut key = key.clone();
    each_expression(&mut key, &mut |expr| {
        while let Expr::Nested(inner) = expr {
            *expr = std::mem::replace(inner, Expr::Tuple(Vec::new()));
        }
        if let Expr::CompoundIdentifier(names) = expr
            && let Some(name) = names.pop()
        {
            *expr = Expr::Identifier(name);
        }
    });
    key.to_string().to_lowercase()
}

fn rolled_up(items: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    (0..=items.len()).rev().map(|count| items[..count].concat()).collect()
}

fn cubed(items: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    let chosen = |set: usize| {
        let items = items.iter().enumerate().filter(move |(place, _)| set & (1 << place) != 0);
        items.flat_map(|(_, item)| item.iter().cloned()).collect()
    };
    (0..1 << items.len()).rev().map(chosen).collect()
}

#[cfg(test)]
mod tests {
    use crate::parse::tests::meant;

    #[test]
    fn a_tuple_is_as_many_keys_as_it_has_members() {
        for (written, expected) in [
            ("GROUP BY a, (b, c)", "GROUP BY a, b, c"),
            ("GROUP BY (), a", "GROUP BY a"),
            ("GROUP BY GROUPING SETS ((a, b), c), (a, d)", "GROUP BY GROUPING SETS ((a, b), c), a, d"),
            ("GROUP BY ROLLUP ((a, b), c)", "GROUP BY GROUPING SETS ((a, b, c), (a, b), ())"),
            ("GROUP BY CUBE ((a, b), c)", "GROUP BY GROUPING SETS ((a, b, c), (c), (a, b), ())"),
            ("GROUP BY ROLLUP (a, b)", "GROUP BY ROLLUP (a, b)"),
            ("GROUP BY ROLLUP (a, (a))", "GROUP BY GROUPING SETS ((a, (a)), (a), ())"),
            ("GROUP BY CUBE (t.a, A)", "GROUP BY GROUPING SETS ((t.a, A), (A), (t.a), ())"),
            ("GROUP BY ROLLUP (t.a + 1, a + 1)", "GROUP BY GROUPING SETS ((t.a + 1, a + 1), (t.a + 1), ())"),
            ("GROUP BY ROLLUP (t.a, t.b)", "GROUP BY ROLLUP (t.a, t.b)"),
            ("GROUP BY (a)", "GROUP BY (a)"),
        ] {
            let expected = format!("SELECT count(*) FROM t {expected}");
            let meant = meant(&format!("SELECT count(*) FROM t {written}"));
            let bare = |text: &str| text.replace("((", "(").replace("))", ")").replace(['(', ')'], "");
            assert_eq!(bare(&meant), bare(&expected), "{written}: {meant}");
        }
    }
}
