//! `LATERAL unnest(list)`, which is what `unnest(list)` in a `FROM` is without the word; and the name of its column.

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, ObjectName, TableAliasColumnDef, TableFactor,
};

/// Writes an `unnest` in a `FROM` as DataFusion reads it.
pub(super) fn complete(factor: &mut TableFactor) {
    if let TableFactor::Function { lateral: true, name, args, with_ordinality, alias } = factor
        && is_unnest(name)
        && let Some(array_exprs) = args.iter().map(|arg| plain(arg).cloned()).collect::<Option<Vec<_>>>()
    {
        *factor = TableFactor::UNNEST {
            alias: alias.take(),
            array_exprs,
            with_offset: false,
            with_offset_alias: None,
            with_ordinality: *with_ordinality,
        };
    }
    // The column of `unnest(list) AS tag` is `tag`, as in PostgreSQL.
    if let TableFactor::UNNEST { alias: Some(alias), array_exprs, .. } = factor
        && alias.columns.is_empty()
        && array_exprs.len() == 1
    {
        let name = alias.name.clone();
        alias.columns.push(TableAliasColumnDef { name, data_type: None });
    }
}

fn is_unnest(name: &ObjectName) -> bool {
    name.to_string().eq_ignore_ascii_case("unnest")
}

fn plain(arg: &FunctionArg) -> Option<&Expr> {
    match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::tests::meant;

    #[test]
    fn the_word_lateral_and_the_name_of_the_column_are_the_same_as_without() {
        for (written, expected) in [
            ("SELECT * FROM s, LATERAL unnest(s.a) AS u(t)", "SELECT * FROM s, UNNEST(s.a) AS u (t)"),
            ("SELECT * FROM s CROSS JOIN LATERAL UNNEST(a) t", "SELECT * FROM s CROSS JOIN UNNEST(a) t (t)"),
            ("SELECT * FROM unnest([1]) AS t", "SELECT * FROM UNNEST([1]) AS t (t)"),
            ("SELECT * FROM s, LATERAL range(a) AS t", "SELECT * FROM s, LATERAL range(a) AS t"),
        ] {
            assert_eq!(meant(written), expected, "{written}");
        }
    }
}
