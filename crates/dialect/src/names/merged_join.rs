//! The plan of a join with `USING`, or a `NATURAL` one, of which DataFusion makes a join that has the columns of both sides, and takes
//! the left one for the merged one. That is null in the rows that only the right side of a `RIGHT` or `FULL` join has; and in a chain of
//! such joins it cannot tell which of three columns is meant.

use std::sync::Arc;

use datafusion::common::{Column, DataFusionError, JoinType, Result, TableReference};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Projection};
use yeoul_base::ErrorKind;

use super::join_mark::JoinId;
use super::joined_columns::JoinedColumns;
use crate::Error;

/// What a join merges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MergedNames {
    Using(Vec<String>),
    /// All names that both sides have.
    Natural,
}

/// Makes a join of two plans whose columns of these names are merged. `columns` are those of the joins within it, and become its own.
///
/// The merged columns are the first ones, as in SQL's standard, then come the others of the left side, then those of the right one.
///
/// # Errors
/// `Invalid` for a name that a side has not, or has twice, and for a `NATURAL` join of sides without a common name.
pub(crate) fn merged_join(
    id: JoinId,
    [left, right]: [Arc<LogicalPlan>; 2],
    join_type: JoinType,
    names: MergedNames,
    columns: &mut JoinedColumns,
) -> Result<LogicalPlan> {
    let sides = [left.schema().columns(), right.schema().columns()];
    sides.iter().for_each(|side| columns.add_tables(side));
    let names = match names {
        MergedNames::Using(names) => names,
        MergedNames::Natural => common_names(&sides, columns)?,
    };
    let keys = names.iter().map(|name| {
        let [left, right] = &sides;
        Ok([found(name, left, "left", columns)?, found(name, right, "right", columns)?])
    });
    let keys: Vec<[Column; 2]> = keys.collect::<Result<_>>()?;

    let equal = keys.iter().map(|[left, right]| Expr::from(left.clone()).eq(Expr::from(right.clone())));
    let join = LogicalPlanBuilder::from(Arc::unwrap_or_clone(left)).join_on(
        Arc::unwrap_or_clone(right),
        join_type,
        equal,
    )?;

    let mut output: Vec<Expr> = keys.iter().map(|key| merged_column(id, key, join_type)).collect();
    for (merged, key) in output.iter().zip(&keys) {
        columns.merge(match merged {
            Expr::Column(column) => column.clone(),
            _ => Column::new(Some(using(id)), &key[0].name),
        });
    }
    for column in sides.concat() {
        let is_key = keys.iter().flatten().any(|key| *key == column);
        let column_expr = Expr::Column(column.clone());
        if !is_key {
            output.push(column_expr);
        } else if !output[..keys.len()].contains(&column_expr)
            && let Some(hidden) = columns.hide(&column)
        {
            output.push(column_expr.alias(hidden));
        }
    }
    Ok(LogicalPlan::Projection(Projection::try_new(output, Arc::new(join.build()?))?))
}

/// The merged column: of the side that has all rows, or of the one that has the row.
fn merged_column(id: JoinId, [left, right]: &[Column; 2], join_type: JoinType) -> Expr {
    match join_type {
        JoinType::Right => Expr::Column(right.clone()),
        JoinType::Full => coalesce(vec![left.clone().into(), right.clone().into()])
            .alias_qualified(Some(using(id)), &left.name),
        _ => Expr::Column(left.clone()),
    }
}

/// The table that a merged column of neither side is of.
fn using(id: JoinId) -> TableReference {
    TableReference::bare(format!("using_{}", id.0))
}

/// The names that both sides have, in the order of the left one.
fn common_names([left, right]: &[Vec<Column>; 2], columns: &JoinedColumns) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for column in left.iter().filter(|column| !columns.is_hidden(column)) {
        if right.iter().any(|other| other.name == column.name) && !names.contains(&column.name) {
            names.push(column.name.clone());
        }
    }
    if names.is_empty() {
        let error =
            Error::new(ErrorKind::Invalid, "the two sides of a NATURAL JOIN have no column of the same name");
        return Err(error.with_hint("write CROSS JOIN, or JOIN … ON with a condition").into());
    }
    Ok(names)
}

/// The column of this name on a side.
fn found(name: &str, side: &[Column], which: &str, columns: &JoinedColumns) -> Result<Column> {
    let named: Vec<&Column> =
        side.iter().filter(|column| column.name == name && !columns.is_hidden(column)).collect();
    let error = |text: String, hint: &str| -> DataFusionError {
        Error::new(ErrorKind::Invalid, text).with_hint(hint).into()
    };
    match named[..] {
        [column] => Ok(column.clone()),
        [] => Err(error(
            format!("there is no column '{name}' on the {which} side of a join USING it"),
            "both sides have to have the columns that USING names",
        )),
        _ => Err(error(
            format!("the {which} side of a join that merges '{name}' has several columns of this name"),
            "write the join with ON, or give the columns other names in a subquery",
        )),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::logical_expr::table_scan;

    use super::*;

    fn table(name: &str, columns: [&str; 2]) -> Arc<LogicalPlan> {
        let fields = columns.map(|column| Field::new(column, DataType::Int32, true));
        Arc::new(table_scan(Some(name), &Schema::new(fields.to_vec()), None).unwrap().build().unwrap())
    }

    fn join(
        number: usize,
        sides: [Arc<LogicalPlan>; 2],
        join_type: JoinType,
        columns: &mut JoinedColumns,
    ) -> (Arc<LogicalPlan>, String) {
        let names = MergedNames::Using(vec!["x".to_owned()]);
        let plan = merged_join(JoinId(number), sides, join_type, names, columns).unwrap();
        let names: Vec<String> = plan.schema().columns().iter().map(Column::quoted_flat_name).collect();
        (Arc::new(plan), names.join(" "))
    }

    #[test]
    fn the_merged_column_is_first_and_the_others_are_hidden() {
        for (join_type, names) in [
            (JoinType::Inner, "a.x a.k b.y \"b.x\""),
            (JoinType::Left, "a.x a.k b.y \"b.x\""),
            (JoinType::Right, "b.x a.k \"a.x\" b.y"),
            (JoinType::Full, "using_1.x a.k \"a.x\" b.y \"b.x\""),
        ] {
            let mut columns = JoinedColumns::default();
            let sides = [table("a", ["k", "x"]), table("b", ["y", "x"])];
            assert_eq!(join(1, sides, join_type, &mut columns).1, names);
        }
    }

    #[test]
    fn a_chain_merges_what_is_merged_already() {
        let mut columns = JoinedColumns::default();
        let sides = [table("a", ["k", "x"]), table("b", ["y", "x"])];
        let (first, _) = join(1, sides, JoinType::Full, &mut columns);
        let (second, names) = join(2, [first, table("c", ["x", "z"])], JoinType::Full, &mut columns);
        assert_eq!(names, "using_2.x a.k \"a.x\" b.y \"b.x\" \"c.x\" c.z");
        let (_, names) = join(3, [second, table("d", ["x", "w"])], JoinType::Right, &mut columns);
        assert_eq!(names, "d.x a.k \"a.x\" b.y \"b.x\" \"c.x\" c.z d.w");
        assert_eq!(columns.merged, [Column::new(Some("d"), "x")]);
    }

    #[test]
    fn a_natural_join_merges_all_common_names_or_none() {
        let natural = |sides| {
            let mut columns = JoinedColumns::default();
            merged_join(JoinId(1), sides, JoinType::Full, MergedNames::Natural, &mut columns)
        };
        let plan = natural([table("a", ["x", "y"]), table("b", ["y", "x"])]).unwrap();
        let names: Vec<String> = plan.schema().columns().iter().map(Column::quoted_flat_name).collect();
        assert_eq!(names.join(" "), "using_1.x using_1.y \"a.x\" \"a.y\" \"b.y\" \"b.x\"");
        let error = Error::from(natural([table("a", ["x", "y"]), table("b", ["z", "w"])]).unwrap_err());
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("NATURAL JOIN"), "{error}");
    }
}
