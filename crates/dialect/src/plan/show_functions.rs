//! `SHOW FUNCTIONS` with the functions that stand for others. DataFusion knows those alone that it can call.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, col, lit};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{ShowStatementFilter, Statement as Sql};

use crate::Result;
use crate::functions::{DEFINITIONS, Definition};

/// The plan of a statement; that of `SHOW FUNCTIONS` with the defined functions.
pub(super) fn with_defined(statement: &Statement, plan: LogicalPlan) -> Result<LogicalPlan> {
    let Statement::Statement(statement) = statement else { return Ok(plan) };
    let Sql::ShowFunctions { filter } = statement.as_ref() else { return Ok(plan) };
    let schema = Arc::clone(plan.schema());
    let values = DEFINITIONS.iter().map(|definition| {
        let row = row(definition);
        row.into_iter()
            .zip(schema.fields())
            .map(|(value, field)| Ok(lit(value.cast_to(field.data_type())?)))
            .collect()
    });
    let values = values.collect::<Result<Vec<_>>>()?;
    let mut defined = LogicalPlanBuilder::values_with_schema(values, &schema)?;
    if let Some(ShowStatementFilter::Like(pattern)) = filter {
        // Its quotes were doubled for DataFusion's text.
        defined = defined.filter(col("function_name").like(lit(pattern.replace("''", "'"))))?;
    }
    Ok(LogicalPlanBuilder::from(plan).union(defined.build()?)?.build()?)
}

/// Name, type of the answer, names and types of the parameters, kind, description, example.
fn row(definition: &Definition) -> [ScalarValue; 7] {
    let parameters = definition.parameters.iter().flatten();
    let names: Vec<ScalarValue> = parameters.map(|name| ScalarValue::from(*name)).collect();
    let kind = if definition.aggregate.is_some() { "AGGREGATE" } else { "SCALAR" };
    [
        ScalarValue::from(definition.name),
        ScalarValue::Utf8(None),
        ScalarValue::List(ScalarValue::new_list_nullable(&names, &DataType::Utf8)),
        ScalarValue::Null,
        ScalarValue::from(kind),
        ScalarValue::from(definition.description),
        ScalarValue::from(definition.signature()),
    ]
}
