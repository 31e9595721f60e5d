//! `DESCRIBE` with the names of types that SQL has. DataFusion shows Arrow's.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, col, lit};

use crate::Result;
use crate::types::type_name;

/// The plan of a statement; that of `DESCRIBE` with the names that SQL has for types.
pub(super) fn with_type_names(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::DescribeTable(describe) = &plan else { return Ok(plan) };
    let columns = &describe.output_schema;
    let rows: Vec<Vec<Expr>> = describe
        .schema
        .fields()
        .iter()
        .map(|field| {
            let is_nullable = if field.is_nullable() { "YES" } else { "NO" };
            let values = [field.name().clone(), type_name(field.data_type()), is_nullable.to_owned()];
            let typed = values
                .into_iter()
                .zip(columns.fields())
                .map(|(value, column)| Ok(lit(ScalarValue::from(value).cast_to(column.data_type())?)));
            typed.collect::<Result<Vec<Expr>>>()
        })
        .collect::<Result<_>>()?;
    if rows.is_empty() {
        return Ok(plan);
    }
    let named = columns.fields().iter().enumerate();
    let named = named.map(|(place, column)| col(format!("column{}", place + 1)).alias(column.name()));
    let named: Vec<Expr> = named.collect();
    Ok(LogicalPlanBuilder::values_with_schema(rows, &Arc::clone(columns))?.project(named)?.build()?)
}
