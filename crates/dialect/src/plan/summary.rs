//! `SUMMARIZE t` and `SUMMARIZE SELECT …`, as in DuckDB: a row for each column, with its least and greatest value, mean, quartiles and
//! nulls.

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Query, Statement as Sql, TableFactor};

use crate::parse::summaries::summarized;
use crate::parse::template;
use crate::types::type_name;

/// The query that a statement is to summarize.
pub(super) fn asked(statement: &Statement) -> Option<Statement> {
    let query = summarized(statement)?.clone();
    Some(Statement::Statement(Box::new(Sql::Query(Box::new(query)))))
}

/// The statement that summarizes a query with these columns.
pub(super) fn of(query: Statement, columns: &Schema) -> Statement {
    let values = |value: &dyn Fn(&str, &DataType) -> String| {
        let values = columns
            .fields()
            .iter()
            .map(|column| value(&format!("\"{}\"", column.name().replace('"', "\"\"")), column.data_type()));
        format!("make_array({})", values.collect::<Vec<_>>().join(", "))
    };
    let text = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let of_kind = |has: fn(&DataType) -> bool, value: &'static str, kind: &'static str| {
        values(&move |column, of| match has(of) {
            true => format!("CAST({} AS {kind})", value.replace("{}", column)),
            false => format!("CAST(NULL AS {kind})"),
        })
    };
    let names = columns.fields().iter().map(|column| text(column.name())).collect::<Vec<_>>().join(", ");
    let quartile = |value| of_kind(DataType::is_numeric, value, "VARCHAR");
    let lists = [
        ("column_name", format!("make_array({names})")),
        ("column_type", values(&|_, kind| text(&type_name(kind)))),
        ("min", of_kind(has_order, "min({})", "VARCHAR")),
        ("max", of_kind(has_order, "max({})", "VARCHAR")),
        ("approx_unique", of_kind(has_order, "approx_distinct({})", "BIGINT")),
        ("avg", of_kind(DataType::is_numeric, "avg({})", "VARCHAR")),
        ("std", of_kind(DataType::is_numeric, "stddev(CAST({} AS DOUBLE))", "VARCHAR")),
        ("q25", quartile("approx_percentile_cont(0.25) WITHIN GROUP (ORDER BY {})")),
        ("q50", quartile("approx_percentile_cont(0.5) WITHIN GROUP (ORDER BY {})")),
        ("q75", quartile("approx_percentile_cont(0.75) WITHIN GROUP (ORDER BY {})")),
        ("count", values(&|_, _| "count(*)".to_owned())),
        (
            "null_percentage",
            of_kind(|_| true, "100.0e0 * (count(*) - count({})) / nullif(count(*), 0)", "DECIMAL(9, 2)"),
        ),
    ];
    let unnested = lists.iter().map(|(name, _)| format!("unnest(\"{name}\") AS \"{name}\""));
    let unnested = unnested.collect::<Vec<_>>().join(", ");
    let lists =
        lists.iter().map(|(name, list)| format!("{list} AS \"{name}\"")).collect::<Vec<_>>().join(", ");
    let mut summary =
        template::query(&format!("SELECT {unnested} FROM (SELECT {lists} FROM (SELECT 1) AS t) AS l"));
    if let Statement::Statement(query) = query
        && let Sql::Query(query) = *query
    {
        *innermost(&mut summary) = *query;
    }
    Statement::Statement(Box::new(Sql::Query(Box::new(summary))))
}

/// The query of the table `t` in the template.
fn innermost(summary: &mut Query) -> &mut Query {
    let mut query = summary;
    for _ in 0..2 {
        query = match &mut template::select(query).from[0].relation {
            TableFactor::Derived { subquery, .. } => subquery,
            _ => unreachable!("a template over something else than queries"),
        };
    }
    query
}

/// True for values that have a least one here.
fn has_order(kind: &DataType) -> bool {
    !kind.is_nested() && !kind.is_null() && !kind.is_binary() && !matches!(kind, DataType::Interval(_))
}
