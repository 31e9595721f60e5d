use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::UInt64Type;
use datafusion::common::{Column, DataFusionError, ResolvedTableReference, TableReference};
use datafusion::execution::SessionState;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, lit};
use futures::StreamExt;
use yeoul_base::ErrorKind;
use yeoul_dialect::syntax::ast::ObjectName;
use yeoul_dialect::{normalized, suggest};

use super::Change;
use super::numbered_rows::{NumberedRows, Place};
use super::private_table::with_private_table;
use crate::answer::{Answer, Limits, Query};
use crate::{Error, Result};

/// A table that a `DELETE` or `UPDATE` is about to change.
pub(crate) struct ChangedTable {
    /// The state in which the query of the change finds the numbered rows.
    pub(crate) state: SessionState,
    rows: NumberedRows,
    /// The columns that get new values; `None` if the rows go.
    assigned: Option<Vec<String>>,
}

impl ChangedTable {
    /// The table in memory that a statement changes.
    ///
    /// # Errors
    /// `NotFound` if there is no table of this name, or none of the columns; `Invalid` if it is a file or a view.
    pub(crate) async fn find(change: &Change, state: &SessionState) -> Result<Self> {
        let name = resolved(&change.table, state)?;
        let found = match state.schema_for_ref(name.clone()) {
            Ok(schema) => schema.table(&name.table).await?,
            Err(_) => None,
        };
        let Some(found) = found else {
            return Err(DataFusionError::Plan(format!("table '{name}' not found")).into());
        };
        let Some(rows) = NumberedRows::of(found).await else {
            let text =
                format!("'{}' cannot be changed: it is not a table that CREATE TABLE made", change.table);
            return Err(Error::new(ErrorKind::Invalid, text).with_hint(
                "write what is to be there to another file: COPY (SELECT … WHERE …) TO 'file.parquet'",
            ));
        };
        for column in change.assigned.iter().flatten() {
            check_column(&rows, column)?;
        }
        let state = with_private_table(state, Arc::new(rows.numbered()?));
        Ok(Self { state, rows, assigned: change.assigned.clone() })
    }

    /// Runs the planned query of the change, and changes the table. The answer is the number of changed rows.
    ///
    /// # Errors
    /// The query's own; `Invalid` if a row would get two values, or a null where the table has none; `Conflict` if another statement
    /// changed the table meanwhile.
    pub(crate) async fn change(self, query: LogicalPlan, limits: Limits) -> Result<Answer> {
        let logical = self.cast(query)?;
        let query = Query { state: self.state.clone(), logical, limits: limits.clone(), staged: None };
        let held = MemoryConsumer::new("Change").register(&self.state.runtime_env().memory_pool);
        let found = collect(query.start().await?, &held).await?;
        let places = places(&found);
        let batches = match &self.assigned {
            None => self.rows.without(&places)?,
            Some(columns) => {
                if places.len() < found.iter().map(RecordBatch::num_rows).sum() {
                    return Err(matched_twice());
                }
                self.rows.with_values(columns, &found, &places)?
            }
        };
        self.rows.put(batches).await?;
        let count = LogicalPlanBuilder::values(vec![vec![lit(places.len() as u64)]])?
            .project([Expr::Column(Column::from_name("column1")).alias("count")])?
            .build()?;
        Query { state: self.state, logical: count, limits, staged: None }.start().await
    }

    /// Gives the new values the types of their columns.
    fn cast(&self, query: LogicalPlan) -> Result<LogicalPlan> {
        let schema = Arc::clone(query.schema());
        let mut exprs = vec![Expr::from(schema.qualified_field(0))];
        for (place, column) in (1..).zip(self.assigned.iter().flatten()) {
            let field = self.rows.schema().field_with_name(column).map_err(DataFusionError::from)?.clone();
            let value = Expr::from(schema.qualified_field(place));
            exprs.push(value.cast_to(field.data_type(), schema.as_ref())?.alias(format!("value {place}")));
        }
        Ok(LogicalPlanBuilder::from(query).project(exprs)?.build()?)
    }
}

/// Reads what the query found into memory, which is charged to `held`.
async fn collect(mut answer: Answer, held: &MemoryReservation) -> Result<Vec<RecordBatch>> {
    let mut found = Vec::new();
    while let Some(batch) = answer.next().await {
        let batch = batch?;
        held.try_grow(batch.get_array_memory_size())?;
        found.push(batch);
    }
    Ok(found)
}

/// Where the query found each row, by the row's number: of several times, the last.
fn places(found: &[RecordBatch]) -> HashMap<u64, Place> {
    let mut places = HashMap::new();
    for (batch, rows) in found.iter().enumerate() {
        let numbers = rows.column(0).as_primitive::<UInt64Type>();
        places
            .extend(numbers.values().iter().enumerate().map(|(row, number)| (*number, Place { batch, row })));
    }
    places
}

fn matched_twice() -> Error {
    Error::new(
        ErrorKind::Invalid,
        "a row of the table matches several rows of FROM, which may not agree on its values",
    )
    .with_hint("let FROM have one row for each: an aggregate, or SELECT DISTINCT ON")
}

fn check_column(rows: &NumberedRows, column: &str) -> Result<()> {
    let schema = rows.schema();
    if schema.field_with_name(column).is_ok() {
        return Ok(());
    }
    let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
    let hint = match suggest::nearest(column, &names) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("the columns are {}", suggest::list(&names)),
    };
    Err(Error::new(ErrorKind::NotFound, format!("there is no column '{column}' to set")).with_hint(hint))
}

fn resolved(name: &ObjectName, state: &SessionState) -> Result<ResolvedTableReference> {
    let parts: Option<Vec<String>> = name.0.iter().map(|part| part.as_ident().map(normalized)).collect();
    let reference = match parts.as_deref() {
        Some([table]) => TableReference::bare(table.as_str()),
        Some([schema, table]) => TableReference::partial(schema.as_str(), table.as_str()),
        Some([catalog, schema, table]) => {
            TableReference::full(catalog.as_str(), schema.as_str(), table.as_str())
        }
        _ => return Err(Error::new(ErrorKind::Invalid, format!("'{name}' is no name of a table"))),
    };
    let catalog = &state.config_options().catalog;
    Ok(reference.resolve(&catalog.default_catalog, &catalog.default_schema))
}
