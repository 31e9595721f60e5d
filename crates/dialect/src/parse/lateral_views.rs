//! `LATERAL VIEW [OUTER] explode(list) t AS x`, as in Spark and Hive: a join with the elements of a list, or the entries of a map, of
//! each row.

use std::mem;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArguments, Ident, Join, JoinConstraint, JoinOperator, LateralView, Select, TableAlias,
    TableFactor, TableWithJoins,
};
use yeoul_base::ErrorKind;

use super::{generators, template};
use crate::{Error, Result};

/// Writes the lateral views of a `SELECT` as joins with its last table.
///
/// # Errors
/// `Invalid` for other functions than those that Spark's users write most.
pub(super) fn write_joins(select: &mut Select) -> Result<()> {
    for view in mem::take(&mut select.lateral_views) {
        let is_outer = view.outer;
        let relation = table_of(view)?;
        let on = Expr::value(datafusion::sql::sqlparser::ast::Value::Boolean(true));
        let join_operator = match (is_outer, select.from.len()) {
            (true, 0 | 1) => JoinOperator::Left(JoinConstraint::On(on)),
            (true, _) => {
                let text = "not supported: LATERAL VIEW OUTER behind several tables";
                return Err(Error::new(ErrorKind::Invalid, text).with_hint("write CROSS JOIN between them"));
            }
            (false, _) => JoinOperator::CrossJoin(JoinConstraint::None),
        };
        match select.from.as_mut_slice() {
            [table] => table.joins.push(Join { relation, global: false, join_operator }),
            _ => select.from.push(TableWithJoins { relation, joins: Vec::new() }),
        }
    }
    Ok(())
}

/// The table of the rows that a view makes of one row.
fn table_of(view: LateralView) -> Result<TableFactor> {
    let LateralView { lateral_view, lateral_view_name, lateral_col_alias, outer: _ } = view;
    let text = lateral_view.to_string();
    let refused = || {
        Error::new(ErrorKind::Invalid, format!("not supported: LATERAL VIEW {text}"))
            .with_hint("there are explode, posexplode, inline and stack, with a name for each column")
    };
    let Expr::Function(call) = lateral_view else { return Err(refused()) };
    let FunctionArguments::List(arguments) = &call.args else { return Err(refused()) };
    let function = call.name.to_string().to_ascii_lowercase();
    let values = generators::values_of(&arguments.args).ok_or_else(refused)?;
    let columns = generators::columns(&function, &values, lateral_col_alias.len()).ok_or_else(refused)?;
    let mut query = template::query("SELECT x");
    template::select(&mut query).projection = generators::items(columns, &lateral_col_alias);
    // Where a view has no name, the parser takes the word before the names of its columns for one.
    let is_name = |name: &&Ident| name.quote_style.is_some() || !name.value.eq_ignore_ascii_case("as");
    let name = lateral_view_name.0.last().and_then(|part| part.as_ident()).filter(is_name).cloned();
    let alias = name.map(|name| TableAlias { explicit: true, name, columns: Vec::new(), at: None });
    Ok(TableFactor::Derived { lateral: true, subquery: Box::new(query), alias, sample: None })
}

#[cfg(test)]
mod tests {
    use crate::parse::tests::{meant, not_meant};

    #[test]
    fn views_are_joins() {
        for (written, expected) in [
            (
                "FROM t LATERAL VIEW explode(l) v AS x",
                "FROM t CROSS JOIN LATERAL (SELECT unnest(l) AS x) AS v",
            ),
            (
                "FROM t LATERAL VIEW OUTER explode(l) v",
                "FROM t LEFT JOIN LATERAL (SELECT unnest(l) AS \"col\") AS v ON true",
            ),
            (
                "FROM t LATERAL VIEW explode(m) AS k, w",
                "FROM t CROSS JOIN LATERAL (SELECT unnest(map_keys(m)) AS k, unnest(map_values(m)) AS w)",
            ),
            (
                "FROM t, u LATERAL VIEW posexplode(l) v AS i, x WHERE i > 1",
                "FROM t, u, LATERAL (SELECT CAST(unnest(range(spark_size(l))) AS INT) AS i, unnest(l) AS x) AS v WHERE i > 1",
            ),
            (
                "FROM t LATERAL VIEW stack(2, a, b, c) v AS x, y",
                "FROM t CROSS JOIN LATERAL (SELECT unnest(make_array(a, c)) AS x, unnest(make_array(b, NULL)) AS y) AS v",
            ),
            (
                "FROM t LATERAL VIEW inline(l) v AS x, y",
                "FROM t CROSS JOIN LATERAL (SELECT unnest(spark_fields(l, '0')) AS x, unnest(spark_fields(l, '1')) AS y) AS v",
            ),
            (
                "FROM t LATERAL VIEW explode(l) v AS x LATERAL VIEW explode(x) w AS y",
                "FROM t CROSS JOIN LATERAL (SELECT unnest(l) AS x) AS v \
                 CROSS JOIN LATERAL (SELECT unnest(x) AS y) AS w",
            ),
        ] {
            assert_eq!(meant(&format!("SELECT * {written}")), format!("SELECT * {expected}"), "{written}");
        }
        for written in ["LATERAL VIEW stack(n, a, b) v AS x", "LATERAL VIEW explode(a, b) v AS x"] {
            let error = not_meant(&format!("SELECT * FROM t {written}"));
            assert!(error.to_string().starts_with("not supported: LATERAL VIEW"), "{error}");
        }
    }
}
