//! `SHOW FUNCTIONS` with the functions that stand for others. DataFusion knows those alone that it can call.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{ShowStatementFilter, Statement as Sql};

use crate::Result;
use crate::functions::macros::{Macro, Macros};
use crate::functions::{DEFINITIONS, Definition};

/// The plan of a statement; that of `SHOW FUNCTIONS` with the defined functions.
pub(super) fn with_defined(
    statement: &Statement,
    plan: LogicalPlan,
    state: &SessionState,
) -> Result<LogicalPlan> {
    let Statement::Statement(statement) = statement else { return Ok(plan) };
    let Sql::ShowFunctions { filter } = statement.as_ref() else { return Ok(plan) };
    let schema = Arc::clone(plan.schema());
    let of_session = Macros::all(state).into_iter().map(|of| row_of_session(&of));
    let values = DEFINITIONS.iter().map(row).chain(of_session).map(|row| {
        row.into_iter()
            .zip(schema.fields())
            .map(|(value, field)| Ok(lit(value.cast_to(field.data_type())?)))
            .collect()
    });
    let values = values.collect::<Result<Vec<_>>>()?;
    let mut defined = LogicalPlanBuilder::values_with_schema(values, &schema)?;
    if let Some(ShowStatementFilter::Like(pattern)) = filter {
        // Rows that are written out have columns of other names; the first is that of the function.
        let name = Expr::Column(defined.schema().columns()[0].clone());
        // Its quotes were doubled for DataFusion's text.
        defined = defined.filter(name.like(lit(pattern.replace("''", "'"))))?;
    }
    Ok(LogicalPlanBuilder::from(plan).union(defined.build()?)?.build()?)
}

fn row_of_session(of: &Macro) -> [ScalarValue; 7] {
    let names: Vec<ScalarValue> = of.parameters.iter().map(|name| ScalarValue::from(name.as_str())).collect();
    [
        ScalarValue::from(of.name.as_str()),
        ScalarValue::Utf8(None),
        ScalarValue::List(ScalarValue::new_list_nullable(&names, &DataType::Utf8)),
        ScalarValue::Null,
        ScalarValue::from("SCALAR"),
        ScalarValue::from(format!("Function of the session: {}", of.body).as_str()),
        ScalarValue::from(format!("{}({})", of.name, of.parameters.join(", ")).as_str()),
    ]
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
